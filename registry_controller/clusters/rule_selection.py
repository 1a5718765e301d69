"""Answers whether a rule selects this cluster (`targetClusters`) and a peer (`clusterFeatureMatch`), stabilized.

A rule with `objectTargets: Required` asks for our own Cluster, too, because objects name it.

A ClusterFeature, a label or our own Cluster that is deleted and made again within the window was not deleted.

Laws: while our own Cluster is missing, or the features of a peer are not listed, no selector proves anything · a
feature that a peer lacks is missing since a rule first asks for it: a connection that hangs shows no new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from registry_controller.api.cluster import ClusterIdentity
from registry_controller.api.feature import FeatureMatch
from registry_controller.api.meta import ClusterUID
from registry_controller.api.syncrule import SyncRule, Targets
from registry_controller.cache.registry import Registry
from registry_controller.clusters.peer import Peer
from registry_controller.core.rules.active import have_features
from registry_controller.core.stabilization import Settled, Stabilized, settle, stabilize
from registry_controller.watch.fairness import LoopYielder


class _Facts(NamedTuple):
    """The identity of our own Cluster, and since when it is the same, in seconds."""

    value: object
    since_s: float


class RuleSelection:
    """The answers of all rules. `now_s` is the clock; time alone changes an answer after `due_s`."""

    def __init__(
        self,
        *,
        registry: Registry,
        local: ClusterUID,
        window_s: float = 0.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.due_s: float | None = None
        self._registry = registry
        self._local = local
        self._window_s = window_s
        self._now_s = now_s
        self._own = _Facts(None, now_s())
        self._settled: Settled[ClusterIdentity] | None = None
        self._answers: Mapping[ClusterUID, Mapping[Hashable, Stabilized]] = {}

    def selects_us(self, rule: SyncRule) -> bool | None:
        """Return whether a rule selects this cluster; None while that is unknown."""
        targets = rule.asks_for
        if targets is None:
            return True
        return self._stabilize(self._local, targets, self._observe_us(targets)).value

    def reported(self, rule: SyncRule) -> bool | None:
        """Return whether a rule selects this cluster, for reports; None only while our own Cluster is unknown.

        A rule that does not select this cluster is reported so at once, while its copies wait for the window.
        """
        targets = rule.asks_for
        return self.selects_us(rule) or (self._observe_us(targets) if targets is not None else True)

    def selects(self, rule: SyncRule, peer: Peer) -> bool | None:
        """Return whether a rule reads from a peer; None while that is unknown."""
        if not rule.features:
            return True
        return self._stabilize(peer.cluster_id, rule.features, _observe_peer(rule.features, peer)).value

    def is_known(self, rule: SyncRule, peer: Peer) -> bool:
        """Return whether it is known if a rule reads from a peer here."""
        selects_us = self.selects_us(rule)
        return selects_us is False or (selects_us is True and self.selects(rule, peer) is not None)

    def known_values(self, cluster: ClusterUID) -> Mapping[Hashable, bool | None]:
        """Return the answers about a cluster at the last update, by selector."""
        return {selector: answer.value for selector, answer in self._answers.get(cluster, {}).items()}

    @property
    def own(self) -> ClusterIdentity | None:
        """Our own Cluster as objects name it: the last one while it is missing; None before there was one.

        One of another name takes its place once it was the only one for the window.
        """
        return self._settled.value if self._settled is not None else None

    async def update(self, peers: Mapping[ClusterUID, Peer]) -> None:
        """Observe all rules towards these peers, and record the answers. Yields the loop now and then."""
        self._record_own()
        rules = [stored.rule for stored in self._registry.acting.values() if stored.rule is not None]
        targets = {rule.asks_for for rule in rules if rule.asks_for is not None}
        answers: dict[ClusterUID, Mapping[Hashable, Stabilized]] = {
            self._local: {found: self._stabilize(self._local, found, self._observe_us(found)) for found in targets}
        }
        selectors, yielder = {rule.features for rule in rules if rule.features}, LoopYielder(self._now_s())
        for member, peer in peers.items():
            found = dict[Hashable, Stabilized]()
            for features in selectors:
                await yielder.yield_if_due()
                found[features] = self._stabilize(member, features, _observe_peer(features, peer))
            answers[member] = found
        self._answers = answers
        due_s = [answer.due_s for found in answers.values() for answer in found.values()]
        due_s.append(self._settled.due_s if self._settled is not None else None)
        self.due_s = min((at_s for at_s in due_s if at_s is not None), default=None)

    def _observe_us(self, targets: Targets) -> bool | None:
        """Return whether `targetClusters` selects our own Cluster as it is now; None while there is not exactly one."""
        own = self._registry.own_identity(self._local)
        return None if own is None else targets.select(own.name, own.labels)

    def _stabilize(self, cluster: ClusterUID, selector: Hashable, observed: bool | None) -> Stabilized:
        now_s = self._now_s()
        return stabilize(
            observed,
            self._answers.get(cluster, {}).get(selector),
            now_s=now_s,
            window_s=self._window_s,
            unchanged_since_s=self._own.since_s if cluster == self._local else now_s,
        )

    def _record_own(self) -> None:
        """Record since when our own Cluster is the same."""
        value, now_s = self._registry.own_identity(self._local), self._now_s()
        if value != self._own.value:
            self._own = _Facts(value, now_s)
        name = value.name if value is not None else ""
        self._settled = settle(value, name, self._settled, now_s=now_s, window_s=self._window_s)


def _observe_peer(features: tuple[FeatureMatch, ...], peer: Peer) -> bool | None:
    """Return whether a peer has the features that a rule asks for; None where it cannot be known that it has not."""
    if have_features(features, peer.features.held):
        return True
    return False if peer.features.is_current else None
