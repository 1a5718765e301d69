"""Gathers the facts for the status of each ResourceSyncRule; `core/status/rule.py` computes it.

Law: a status reports the Decisions that Events, metrics and logs report.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import Gone, ServerError, TooManyRequests, Unauthorized, Unreachable
from registry_controller.api.meta import GVK, ClusterUID
from registry_controller.api.syncrule import SyncRule
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.crds import DefinitionCache
from registry_controller.cache.registry import Registry
from registry_controller.cache.source_index import SourceIndex
from registry_controller.cache.stored_objects import StoredRule
from registry_controller.clusters.provider import ClusterProvider
from registry_controller.core.decision.decide import BARRED
from registry_controller.core.decision.decision import Halt
from registry_controller.core.decision.stored_spec import ACTS_AS_WRITTEN, NOT_AS_WRITTEN
from registry_controller.core.rules.active import list_target_kinds
from registry_controller.core.rules.destinations import find_lost_targets
from registry_controller.core.rules.mismatch import get_target_mismatch
from registry_controller.core.rules.schema import describe_pruned
from registry_controller.core.rules.validation import RuleVerdict
from registry_controller.core.status.rule import PeerCounts, build_rule_status
from registry_controller.report.reasons import explain_unread
from registry_controller.status.summary import StatusSummary
from registry_controller.status.writer import StatusWriter
from registry_controller.sync.deletion_limiter import DeletionLimiter
from registry_controller.sync.results import SAMPLES, FailedTarget, ResultClass, Results
from registry_controller.watch.lister import SelectionList
from registry_controller.watch.stream import SelectionStream

_ACTION_NEEDED: Final = frozenset(
    ("Forbidden", "RightsEscalation", "QuotaExceeded", "PodSecurityViolation", "LimitRangeViolation")
)
"""The reasons of refused writes that last until an administrator acts: a missing right, a quota, a webhook."""

_LOCAL_CLUSTER_UNCLEAR: Final = "LocalClusterUnclear"
"""The reason of a rule whose `targetClusters` cannot be evaluated for this cluster."""


_TRANSIENT: Final = (Unreachable, Unauthorized, ServerError, TooManyRequests, Gone)
"""Errors that end by themselves, or that the Cluster's status reports: the server is away, restarts or is busy."""


class RuleStatusReporter:
    """Passes the status of each rule to the status writer. `is_idle` returns whether the work queue is empty."""

    def __init__(
        self,
        *,
        registry: Registry,
        clusters: ClusterProvider,
        sources: SourceIndex,
        copies: CopyIndex,
        results: Results,
        deletion_limiter: DeletionLimiter,
        definitions: DefinitionCache,
        writer: StatusWriter,
        summary: StatusSummary,
        is_idle: Callable[[], bool],
    ) -> None:
        self._registry = registry
        self._clusters = clusters
        self._sources = sources
        self._copies = copies
        self._results = results
        self._deletion_limiter = deletion_limiter
        self._definitions = definitions
        self._writer = writer
        self._summary = summary
        self._is_idle = is_idle

    def report(self, name: str) -> None:
        """Compute the status of a rule, unless it was deleted."""
        stored = self._registry.rules.get(name)
        if stored is None:
            return
        info = meta.metadata_of(stored.manifest)
        current = stored.manifest.get("status")
        is_altered = stored.verdict.reason == NOT_AS_WRITTEN.reason
        if is_altered and not self._definitions.is_listed:
            return  # whether the definition here drops its fields is not known yet
        stored = self._registry.acting.get(name, stored)  # a copy that was altered here acts as its owner wrote it
        generation = info.get("generation", 0)
        verdict = self._decide_acceptance(stored, name)
        if is_altered and verdict.accepted:
            verdict = replace(verdict, warnings=(*verdict.warnings, ACTS_AS_WRITTEN))
        if stored.rule is not None and stored.rule.requires_targets and verdict.accepted:
            verdict = replace(verdict, warnings=(*verdict.warnings, *self._warn_of_original(stored.rule)))
        suspended = bool(stored.rule and stored.rule.suspend)
        bar = self._registry.bar(name, local=self._clusters.local) if verdict.accepted and not suspended else None
        is_inactive = not verdict.accepted or suspended or bar is not None
        found = _WatchProblems()
        peers, idle = self._count_kept(name) if is_inactive else self._count_peers(stored, name, found)
        barred = (BARRED[bar.barrier].value, str(bar)) if bar is not None else ("", "")
        if stored.rule is not None and not is_inactive:
            selected = self._clusters.selects_us(stored.rule)
            mismatch = get_target_mismatch(stored.rule, selected=selected)
            if selected is None:
                barred = (_LOCAL_CLUSTER_UNCLEAR, str(mismatch))
            elif mismatch is not None:
                idle = (str(mismatch),)
        self._deletion_limiter.note_halts(name)
        halts = self._deletion_limiter.halted(name)
        status = build_rule_status(
            generation=generation,
            verdict=verdict,
            suspended=suspended,
            barred=barred,
            idle=idle,
            peers=peers,
            problems=found.problems,
            pending=found.pending,
            halted=self._describe_halted(halts),
            halted_by_owner=self._describe_halted_by_owner(halts),
            restored=self._describe_restored(name),
            current=current,
        )
        self._summary.note_rule(name, status)
        self._writer.set_wanted(
            meta.RULES,
            name,
            status=status,
            current=current,
            uid=info.get("uid", ""),
            generation=generation,
            revision=meta.revision(info.get("resourceVersion")),
        )

    def _warn_of_original(self, rule: SyncRule) -> Iterator[str]:
        """Warn of members that may run the original controller, which loses `objectTargets` (W9)."""
        local = self._clusters.local
        held = self._registry.clusters.values()
        peers = [one.manifest for one in held if one.cluster is not None and one.cluster.cluster_id != local]
        if (finding := find_lost_targets(rule, peers)) is not None:
            yield str(finding)

    def _decide_acceptance(self, stored: StoredRule, name: str) -> RuleVerdict:
        pruned = self._registry.pruned.get(name)
        if stored.verdict.reason == NOT_AS_WRITTEN.reason:
            pruned = pruned or self._definitions.lost_of_rules
        if pruned:
            return RuleVerdict(False, "FieldsPruned", describe_pruned(pruned), stored.verdict.warnings)
        return stored.verdict

    def _count_peers(
        self, stored: StoredRule, name: str, found: _WatchProblems
    ) -> tuple[Sequence[PeerCounts], Sequence[str]]:
        """Count a rule's results for each peer; return also why the rule is idle. Problems are added to `found`."""
        assert stored.rule is not None
        names = {choice.cluster.cluster_id: cluster for cluster, choice in self._clusters.resolved.items()}
        self._check_local_caches(name, found)
        owners, transient = set(self._results.places(name)), dict[ClusterUID, str]()
        for peer in self._clusters.peers.values():
            cache = self._sources.cache_of(peer.cluster_id, stored.rule.kind)
            if cache is not None and cache.has_rule(name):
                owners.add(peer.cluster_id)
                if peer.is_alive and cache.synced_for(name) and self._is_idle():
                    self._deletion_limiter.nothing_waits((name, peer.cluster_id))
                place = f"peer {peer.name}"
                transient[peer.cluster_id] = found.add_errors(place, stored.rule.kind, cache.reads_of(name))
                unclear = sorted(cache.unclear.get(name, {}).items())[:SAMPLES]
                found.problems += [f"{place}: {stored.rule.kind.kind} {key}: {error}" for key, error in unclear]
        is_read = bool(owners)
        owners |= self._deletion_limiter.list_owners(name)
        peers = [self._count_peer(name, uid, names.get(uid, ""), transient.get(uid, "")) for uid in sorted(owners)]
        failures = (FailedTarget(*failure) for counts in peers for failure in counts.failures)
        refused = (failure for failure in failures if failure.reason in _ACTION_NEEDED)
        found.problems += [f"here: {failure.target}: {failure.message}" for failure in itertools.islice(refused, 1)]
        condition = "with the features that the rule asks for " if stored.rule.features else ""
        idle = () if is_read else (f"no other cluster {condition}is read now",)
        return peers, idle

    def _count_kept(self, name: str) -> tuple[Sequence[PeerCounts], Sequence[str]]:
        """Return the owners whose deletion window an inactive rule keeps, without results; it is idle for no reason."""
        owners = sorted(self._deletion_limiter.list_owners(name))
        kept = ((uid, self._deletion_limiter.stored_form((name, uid))) for uid in owners)
        return [PeerCounts(uid, self._clusters.name_of(uid), deletions=form) for uid, form in kept], ()

    def _check_local_caches(self, name: str, found: _WatchProblems) -> None:
        """Check the local watches of the kinds that the rule writes, in the selections that this rule needs."""
        active = self._clusters.active.get(name)
        for kind, selections in sorted(list_target_kinds([active] if active is not None else ()).items()):
            cache = self._copies.cache_of(kind.group, kind.kind)
            if cache is not None:
                transient = found.add_errors("here", cache.kind, cache.streams_at(selections))
                found.pending += [f"here: {transient}"] if transient else []

    def _count_peer(self, name: str, owner: ClusterUID, cluster_name: str, transient: str) -> PeerCounts:
        place = (name, owner)
        counts = self._results.counts(place)
        peer = self._clusters.peers.get(owner)
        wrote_at = self._results.wrote_at.get(place)
        return PeerCounts(
            cluster_id=owner,
            name=cluster_name,
            matched=sum(counts.values()) - counts[ResultClass.HELD],
            synced=counts[ResultClass.SYNCED],
            failing=counts[ResultClass.FAILING],
            held=counts[ResultClass.HELD],
            skipped=counts[ResultClass.SKIPPED],
            conflicting=counts[ResultClass.CONFLICTING],
            last_sync=f"{wrote_at:%Y-%m-%dT%H:%M:%SZ}" if wrote_at is not None else "",
            last_error=(peer.failure if peer is not None else "") or transient,
            failures=self._results.failures(place),
            deletions=self._deletion_limiter.stored_form(place),
        )

    def _describe_halted(self, halts: Mapping[ClusterUID, tuple[Halt, int]]) -> str:
        """Describe the halted deletions for each owner, and how to allow them (W4); empty without any."""
        name_of = self._clusters.name_of
        return "; ".join(
            f"cluster {name_of(owner)}: {count} copies would be deleted, more than the limit for five minutes; "
            f"they are kept; to delete them: {halt.command}"
            for owner, (halt, count) in halts.items()
            if halt.kind == meta.RULE
        )

    def _describe_halted_by_owner(self, halts: Mapping[ClusterUID, tuple[Halt, int]]) -> str:
        """Describe the halts over all rules that keep copies of this one (W4); empty without any."""
        name_of = self._clusters.name_of
        return "; ".join(
            f"cluster {name_of(owner)}: deletions of copies of its objects are halted over all rules, and copies of "
            f"this rule are kept; see the condition DeletionHalted of Cluster {halt.name}; to delete all copies that "
            f"wait: {halt.command}"
            for owner, (halt, _) in halts.items()
            if halt.kind == meta.CLUSTER
        )

    def _describe_restored(self, rule: str) -> str:
        """Describe the owners whose history went back (O3); empty without any."""
        name_of = self._clusters.name_of
        return "; ".join(
            f"cluster {name_of(owner)} went back to an older state, as after the restore of a backup; copies follow "
            f"that state since {at:%Y-%m-%dT%H:%M:%SZ}"
            for (name, owner), at in sorted(self._results.went_back_at.items())
            if name == rule
        )


class _WatchProblems:
    """The problems of watches: `problems` need an administrator, `pending` ones end by themselves."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.pending: list[str] = []

    def add_errors(self, place: str, kind: GVK, streams: Iterable[SelectionStream | SelectionList]) -> str:
        """Add the errors of a kind's streams to `problems` (R2, S3); return the first transient error instead.

        `place` is `here` or `peer NAME`. A message names the verb and the resource, and what to do.
        """
        transient = ""
        for error in (stream.error for stream in streams):
            if isinstance(error, _TRANSIENT):
                transient = transient or str(error)
            elif error is not None:
                self.problems.append(f"{place}: {kind.kind}: {explain_unread(kind, error, is_local=place == 'here')}")
        return transient
