"""How rules stand: the status of a ResourceSyncRule here, made anew from the caches and the ledger.

Law: a status says only what the same Decisions said to Events, metrics and logs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import Gone, ServerError, TooManyRequests, Unauthorized, Unreachable
from registry_controller.api.meta import GVK, ClusterUID
from registry_controller.cache.registry import StoredRule
from registry_controller.core.decision.decide import BARRED
from registry_controller.core.rules.active import list_target_kinds
from registry_controller.core.rules.mismatch import get_target_mismatch
from registry_controller.core.rules.validation import RuleVerdict
from registry_controller.core.status.rule import PeerCounts, build_rule_status
from registry_controller.engine import Engine
from registry_controller.status.writer import StatusWriter
from registry_controller.sync.deletion_limiter import DeletionLimiter
from registry_controller.sync.results import SAMPLES, FailedTarget, ResultClass, Results
from registry_controller.watch.stream import SelectionStream, why_unheard

_FORBIDDEN: Final = "Forbidden"
"""The reason of a write that the API server refuses until somebody allows it: a right, a quota, a webhook."""

_LOCAL_CLUSTER_UNCLEAR: Final = "LocalClusterUnclear"
"""The reason of a rule of which nobody can say whether it is for this cluster."""


class RuleStatusReporter:
    """Statuses of rules. `is_idle` says that no target waits for a look."""

    def __init__(
        self,
        *,
        engine: Engine,
        results: Results,
        deletion_limiter: DeletionLimiter,
        writer: StatusWriter,
        is_idle: Callable[[], bool],
    ) -> None:
        self._registry = engine.registry
        self._clusters = engine.clusters
        self._sources = engine.sources
        self._copies = engine.copies
        self._results = results
        self._deletion_limiter = deletion_limiter
        self._writer = writer
        self._is_idle = is_idle

    def report(self, name: str) -> None:
        """Say how a rule stands; nothing of one that is gone."""
        held = self._registry.rules.get(name)
        if held is None:
            return
        info = meta.metadata_of(held.manifest)
        current = held.manifest.get("status")
        generation = info.get("generation", 0)
        verdict = self._decide_acceptance(held, name)
        suspended = bool(held.rule and held.rule.suspend)
        bar = self._registry.bar(name, local=self._clusters.local) if verdict.accepted and not suspended else None
        is_silent = not verdict.accepted or suspended or bar is not None
        troubles = _WatchProblems()
        peers, idle = ((), ()) if is_silent else self._count_peers(held, name, troubles)
        barred = (BARRED[bar.barrier].value, str(bar)) if bar is not None else ("", "")
        if held.rule is not None and not is_silent:
            selected = self._registry.selects_us(held.rule, local=self._clusters.local)
            miss = get_target_mismatch(selected)
            if selected is None:
                barred = (_LOCAL_CLUSTER_UNCLEAR, str(miss))
            elif miss is not None:
                idle = (str(miss),)
        status = build_rule_status(
            generation=generation,
            verdict=verdict,
            suspended=suspended,
            barred=barred,
            idle=idle,
            peers=peers,
            problems=troubles.problems,
            pending=troubles.pending,
            halted=self._describe_halted(name),
            restored=self._describe_restored(name),
            current=current,
        )
        self._writer.set_wanted(meta.RULES, name, status, current, uid=info.get("uid", ""), generation=generation)

    def _decide_acceptance(self, held: StoredRule, name: str) -> RuleVerdict:
        lost = self._registry.pruned.get(name)
        if lost:
            words = f"the CRD here does not know {', '.join(lost)}: apply the CRDs of this release"
            return RuleVerdict(False, "FieldsPruned", words, held.verdict.warnings)
        return held.verdict

    def _count_peers(
        self, held: StoredRule, name: str, troubles: _WatchProblems
    ) -> tuple[Sequence[PeerCounts], Sequence[str]]:
        assert held.rule is not None
        names = {resolved.cluster.cluster_id: found for found, resolved in self._clusters.resolved.items()}
        self._check_local_caches(name, troubles)
        owners, passing = set(self._results.places(name)), dict[ClusterUID, str]()
        for peer in self._clusters.peers.values():
            cache = self._sources.cache_of(peer.cluster_id, held.rule.kind)
            if cache is not None and cache.has_rule(name):
                owners.add(peer.cluster_id)
                if peer.is_alive and cache.is_complete_for(name) and self._is_idle():
                    self._deletion_limiter.nothing_waits((name, peer.cluster_id))
                who = f"peer {peer.name}"
                passing[peer.cluster_id] = troubles.add_errors(who, held.rule.kind, cache.streams_of(name))
                unclear = sorted(cache.unclear.get(name, {}).items())[:SAMPLES]
                troubles.problems += [f"{who}: {held.rule.kind.kind} {key}: {error}" for key, error in unclear]
        peers = [self._count_peer(name, uid, names.get(uid, ""), passing.get(uid, "")) for uid in sorted(owners)]
        failures = (FailedTarget(*failure) for counts in peers for failure in counts.failures)
        refused = (failure for failure in failures if failure.reason == _FORBIDDEN)
        troubles.problems += [f"here: {failure.target}: {failure.message}" for failure in itertools.islice(refused, 1)]
        words = "that has the features that the rule asks for " if held.rule.features else ""
        idle = () if peers else (f"no other cluster {words}is read now",)
        return peers, idle

    def _check_local_caches(self, name: str, troubles: _WatchProblems) -> None:
        """Find what the rule writes and is not heard here; what other rules need of the same kinds is theirs to say."""
        active = self._clusters.active.get(name)
        for kind, places in sorted(list_target_kinds([active] if active is not None else ()).items()):
            cache = self._copies.cache_of(kind.group, kind.kind)
            if cache is not None:
                words = troubles.add_errors("here", cache.kind, cache.streams_at(places))
                troubles.pending += [f"here: {words}"] if words else []

    def _count_peer(self, name: str, owner: ClusterUID, owner_name: str, passing: str) -> PeerCounts:
        place = (name, owner)
        counts = self._results.counts(place)
        peer = self._clusters.peers.get(owner)
        wrote_at = self._results.wrote_at.get(place)
        return PeerCounts(
            cluster_id=owner,
            name=owner_name,
            matched=sum(counts.values()) - counts[ResultClass.HELD],
            synced=counts[ResultClass.SYNCED],
            failing=counts[ResultClass.FAILING],
            held=counts[ResultClass.HELD],
            skipped=counts[ResultClass.SKIPPED],
            conflicting=counts[ResultClass.CONFLICTING],
            last_sync=f"{wrote_at:%Y-%m-%dT%H:%M:%SZ}" if wrote_at is not None else "",
            last_error=(peer.failure if peer is not None else "") or passing,
            failures=tuple(self._results.failures(place)),
            deletions=self._deletion_limiter.stored_form(place),
        )

    def _describe_halted(self, rule: str) -> str:
        """Say whose deletions are halted, and how to let them go (W4)."""
        halted = self._deletion_limiter.halted(rule)
        name_of = self._clusters.name_of
        return "; ".join(
            f"cluster {name_of(owner)}: {count} copies would be deleted, more than may go within five minutes; "
            f"they are kept; if they are to go: kubectl annotate --overwrite rsr {rule} {meta.ALLOW_DELETIONS}={moment}"
            for owner, (moment, count) in halted.items()
        )

    def _describe_restored(self, rule: str) -> str:
        """Say whose history went back (O3)."""
        name_of = self._clusters.name_of
        return "; ".join(
            f"cluster {name_of(owner)} went back to an older state, as a restored backup does; what it has now "
            f"was taken ({at:%Y-%m-%dT%H:%M:%SZ})"
            for (name, owner), at in sorted(self._results.went_back_at.items())
            if name == rule
        )


class _WatchProblems:
    """Why not everything is heard: `problems` that somebody must act on, and `pending`, which pass by themselves."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.pending: list[str] = []

    def add_errors(self, who: str, kind: GVK, streams: Iterable[SelectionStream]) -> str:
        """Say why a kind is not heard: who, verb and resource, and what to do (R2, S3). Give what passes by itself."""
        passing = ""
        for error in (stream.error for stream in streams):
            if isinstance(error, _TRANSIENT):
                passing = passing or str(error)
            elif error is not None:
                self.problems.append(f"{who}: {kind.kind}: {why_unheard(kind, error, at_home=who == 'here')}")
        return passing


_TRANSIENT: Final = (Unreachable, Unauthorized, ServerError, TooManyRequests, Gone)
"""What ends without anybody's help, or is said on the Cluster: a server that is away, restarts or is busy."""
