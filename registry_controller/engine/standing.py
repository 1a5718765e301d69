"""Say how things stand: the status of every Cluster and rule here, made anew from the caches when they changed.

Law: one writer of status; a status says only what the same Decisions said to Events, metrics and logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.cluster import State
from registry_controller.api.errors import Forbidden, NotServed
from registry_controller.api.meta import GVK, ClusterUID
from registry_controller.api.selection import EVERYTHING
from registry_controller.core.accept import Verdict
from registry_controller.core.clusterstatus import ClusterFacts, PeerView, cluster_status
from registry_controller.core.rulestatus import PeerCounts, rule_status
from registry_controller.engine.brake import Brake
from registry_controller.engine.clustermetadata import LocalMetadata
from registry_controller.engine.copies import Copies
from registry_controller.engine.home import Home
from registry_controller.engine.ledger import SAMPLES, Class, Ledger
from registry_controller.engine.peerlink import PeerLink
from registry_controller.engine.registry import HeldRule, Registry
from registry_controller.engine.sources import Sources
from registry_controller.engine.stream import Stream
from registry_controller.engine.supervisor import Choice, Supervisor
from registry_controller.report.status import StatusWriter

PERIOD_S: Final = 0.1
SETTLING_S: Final = 30.0


class StandingReport:
    """Statuses of Clusters and rules."""

    def __init__(
        self,
        *,
        registry: Registry,
        supervisor: Supervisor,
        sources: Sources,
        copies: Copies,
        ledger: Ledger,
        brake: Brake,
        home: Home,
        writer: StatusWriter,
        is_idle: Callable[[], bool],
        local_metadata: LocalMetadata,
    ) -> None:
        self._registry = registry
        self._supervisor = supervisor
        self._sources = sources
        self._copies = copies
        self._ledger = ledger
        self._brake = brake
        self._home = home
        self._writer = writer
        self._is_idle = is_idle
        self._local_metadata = local_metadata
        self._clusters_dirty = asyncio.Event()
        self._dirty_rules: set[str] = set()
        self._poked = asyncio.Event()

    def clusters_changed(self) -> None:
        """Hear that a Cluster's, or every rule's, standing may have changed."""
        self._clusters_dirty.set()
        self._dirty_rules.update(self._registry.rules)
        self._poked.set()

    def rule_changed(self, name: str) -> None:
        """Hear that a rule's standing may have changed."""
        self._dirty_rules.add(name)
        self._poked.set()

    async def run(self) -> NoReturn:
        """Say what changed, at most ten times a second; the writer slows down further."""
        settles_until = asyncio.get_running_loop().time() + SETTLING_S
        while True:
            await self._poked.wait()
            await asyncio.sleep(PERIOD_S)
            self._poked.clear()
            if self._clusters_dirty.is_set():
                self._clusters_dirty.clear()
                self._say_clusters()
            names, self._dirty_rules = self._dirty_rules, set()
            for name in sorted(names):
                if asyncio.get_running_loop().time() < settles_until and self._is_settling(name):
                    self.rule_changed(name)
                else:
                    self._say_rule(name)

    def _is_settling(self, name: str) -> bool:
        """Say whether a rule's status would speak of our start and not of the rule.

        What was stored before stays until peers have answered, lists are complete and the queue has run dry.
        """
        held = self._registry.rules.get(name)
        if held is None or held.rule is None or not held.verdict.accepted or held.rule.suspend:
            return False
        status = held.manifest.get("status") or {}
        if status.get("observedGeneration") != held.rule.generation:
            return False
        if not self._supervisor.is_current:
            return True
        links = self._supervisor.links.values()
        if any(choice.waiting for choice in self._supervisor.choices.values()) or not self._is_idle():
            return True
        if any(link.alive and link.features.held is None for link in links):
            return True
        feeds = [self._sources.feed(link.cluster_id, held.rule.kind) for link in links if link.connected]
        streams = [stream for feed in feeds if feed is not None for stream in feed.streams.values()]
        home = self._copies.feed(held.rule.kind.group, held.rule.kind.kind)
        streams += list(home.streams.values()) if home is not None else []
        return any(not stream.is_complete and stream.error is None for stream in streams)

    def _say_clusters(self) -> None:
        here = self._known_here()
        for name, held in self._registry.clusters.items():
            info = meta.metadata_of(held.manifest)
            current = held.manifest.get("status")
            choice = self._supervisor.choices.get(name)
            if held.cluster is None:
                facts = ClusterFacts(is_local=False, failure=held.problem)
            elif choice is None or choice.waiting:
                continue
            else:
                facts = self._facts(choice, here)
            status = cluster_status(facts, current=current)
            # No observedGeneration on Clusters: people carry them to members whose CRD does not know the field, and
            # kubectl refuses to create what it would drop.
            self._writer.want(meta.CLUSTERS, name, status, current, uid=info.get("uid", ""), generation=0)

    def _facts(self, choice: Choice, here: Sequence[PeerView]) -> ClusterFacts:
        cluster = choice.cluster
        if cluster.cluster_id == self._supervisor.local:
            return ClusterFacts(
                is_local=True,
                disabled=choice.disabled,
                conflict=choice.conflict,
                connected=True,
                metadata=self._local_metadata.metadata,
                metadata_problem=self._local_metadata.problem,
                own_problem=self._home.problem,
            )
        link = self._supervisor.links.get(cluster.cluster_id)
        is_read = link is not None and not choice.alias_of and choice.credentials is not None
        return ClusterFacts(
            is_local=False,
            disabled=choice.disabled,
            missing_auth=choice.missing_auth,
            auth_problem=choice.auth_problem,
            alias_of=choice.alias_of,
            conflict=choice.conflict,
            known_here=here,
            known_problem=self._list_problem(cluster.cluster_id),
            **(_link_facts(link) if is_read and link is not None else {}),
        )

    def _list_problem(self, peer: ClusterUID) -> str:
        feed = self._sources.feed(peer, meta.CLUSTER)
        error = feed.streams[EVERYTHING].error if feed is not None else None
        return f"its Clusters cannot be listed: {error}" if isinstance(error, Forbidden | NotServed) else ""

    def _known_here(self) -> list[PeerView]:
        """List our Clusters with the state that we find them in."""
        found = []
        for name, choice in sorted(self._supervisor.choices.items()):
            cluster = choice.cluster
            ready = cluster_status(self._facts(choice, ()))["state"] == State.READY.value
            compared = not (choice.alias_of or choice.disabled)
            found.append(PeerView(cluster.cluster_id, name, ready, compared))
        return found

    def _say_rule(self, name: str) -> None:
        held = self._registry.rules.get(name)
        if held is None:
            return
        info = meta.metadata_of(held.manifest)
        current = held.manifest.get("status")
        generation = info.get("generation", 0)
        verdict = self._verdict(held, name)
        suspended = bool(held.rule and held.rule.suspend)
        peers, problems, idle = ((), (), ()) if not verdict.accepted or suspended else self._counts(held, name)
        if (
            held.rule is not None
            and verdict.accepted
            and not self._registry.selects_us(held.rule, local=self._supervisor.local)
        ):
            idle = ("spec.targetClusters does not select this cluster",)
        status = rule_status(
            generation=generation,
            verdict=verdict,
            suspended=suspended,
            idle=idle,
            peers=peers,
            problems=problems,
            halted=self._halted(name),
            restored=self._restored(name),
            current=current,
        )
        self._writer.want(meta.RULES, name, status, current, uid=info.get("uid", ""), generation=generation)

    def _verdict(self, held: HeldRule, name: str) -> Verdict:
        lost = self._registry.pruned.get(name)
        if lost:
            words = f"the CRD here does not know {', '.join(lost)}: apply the CRDs of this release"
            return Verdict(False, "FieldsPruned", words, held.verdict.warnings)
        return held.verdict

    def _counts(self, held: HeldRule, name: str) -> tuple[Sequence[PeerCounts], Sequence[str], Sequence[str]]:
        assert held.rule is not None
        names = {choice.cluster.cluster_id: found for found, choice in self._supervisor.choices.items()}
        problems = list(self._home_problems(held.rule.kind))
        owners = set(self._ledger.places(name))
        for link in self._supervisor.links.values():
            feed = self._sources.feed(link.cluster_id, held.rule.kind)
            if feed is not None and feed.has_rule(name):
                owners.add(link.cluster_id)
                if link.alive and feed.is_complete_for(name) and self._is_idle():
                    self._brake.nothing_waits((name, link.cluster_id))
                problems.extend(_problems(f"peer {link.name}", held.rule.kind, feed.streams.values()))
                unclear = sorted(feed.unclear.get(name, {}).items())[:SAMPLES]
                problems.extend(f"peer {link.name}: {held.rule.kind.kind} {key}: {error}" for key, error in unclear)
        peers = [self._peer_counts(name, owner, names.get(owner, "")) for owner in sorted(owners)]
        words = "that has the features that the rule asks for " if held.rule.features else ""
        idle = () if peers else (f"no other cluster {words}is read now",)
        return peers, problems, idle

    def _home_problems(self, kind: GVK) -> Sequence[str]:
        feed = self._copies.feed(kind.group, kind.kind)
        return () if feed is None else _problems("here", kind, feed.streams.values())

    def _peer_counts(self, name: str, owner: ClusterUID, peer: str) -> PeerCounts:
        place = (name, owner)
        counts = self._ledger.counts(place)
        link = self._supervisor.links.get(owner)
        wrote_at = self._ledger.wrote_at.get(place)
        return PeerCounts(
            cluster_id=owner,
            name=peer,
            matched=sum(counts.values()) - counts[Class.HELD],
            synced=counts[Class.SYNCED],
            failing=counts[Class.FAILING],
            held=counts[Class.HELD],
            skipped=counts[Class.SKIPPED],
            conflicting=counts[Class.CONFLICTING],
            last_sync=f"{wrote_at:%Y-%m-%dT%H:%M:%SZ}" if wrote_at is not None else "",
            last_error=link.failure if link is not None else "",
            failures=tuple(self._ledger.failures(place)),
            deletions=self._brake.stored_form(place),
        )

    def _halted(self, rule: str) -> str:
        """Say whose deletions are halted, and how to let them go (W4)."""
        halted = self._brake.halted(rule)
        return "; ".join(
            f"cluster {self._name_of(owner)}: {count} copies would be deleted, more than may go within five minutes; "
            f"they are kept; if they are to go: kubectl annotate --overwrite rsr {rule} {meta.ALLOW_DELETIONS}={moment}"
            for owner, (moment, count) in halted.items()
        )

    def _restored(self, rule: str) -> str:
        """Say whose history went back (O3)."""
        return "; ".join(
            f"cluster {self._name_of(owner)} went back to an older state, as a restored backup does; what it has now "
            f"was taken ({at:%Y-%m-%dT%H:%M:%SZ})"
            for (name, owner), at in sorted(self._ledger.went_back_at.items())
            if name == rule
        )

    def _name_of(self, owner: ClusterUID) -> str:
        found = (name for name, choice in self._supervisor.choices.items() if choice.cluster.cluster_id == owner)
        return next(found, owner)


def _link_facts(link: PeerLink) -> Mapping[str, Any]:
    there = None
    if (held := link.clusters.held) is not None:
        there = [
            PeerView(view.cluster_id, name, view.state == State.READY.value, not view.disabled)
            for name, view in sorted(held.items())
        ]
    return {
        "failure": link.failure,
        "connected": link.connected,
        "metadata": link.metadata,
        "metadata_problem": link.metadata_problem,
        "known_there": there,
    }


def _problems(who: str, kind: GVK, streams: Iterable[Stream]) -> list[str]:
    """Say why a kind is not heard: who, verb and resource, and what to do (R2, S3)."""
    label = meta.CONTROLLER_AGGREGATED if who == "here" else meta.READER_AGGREGATED
    found = []
    for error in (stream.error for stream in streams):
        if isinstance(error, Forbidden):
            found.append(f'{who}: cannot {error}; grant it with a ClusterRole labelled {label}: "true" there')
        elif isinstance(error, NotServed):
            found.append(f"{who}: cannot list or watch {kind}: it is not served there")
        elif error is not None:
            found.append(f"{who}: {error}")
    return found
