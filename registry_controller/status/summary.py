"""The latest statuses of Clusters and rules, as the report in the Lease of the daemon.

Law: it keeps statuses that were computed anyway; a report is made from them only when the Lease is renewed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from registry_controller import __version__
from registry_controller.api.daemon_lease import spell_time
from registry_controller.api.daemon_report import (
    MOST_ENTRIES,
    CopyCounts,
    DaemonReport,
    DefinitionReport,
    PeerReport,
    RuleReport,
)
from registry_controller.api.meta import ClusterUID
from registry_controller.cache.registry import Registry
from registry_controller.clusters.provider import ClusterProvider
from registry_controller.core.status.merge import find_condition

_Status = Mapping[str, Any]


class _ClusterNote(NamedTuple):
    state: str
    message: str
    since: str


class _RuleNote(NamedTuple):
    ready: str
    reason: str
    message: str
    owners: Sequence[_Status]


class StatusSummary:
    """Keeps the latest statuses of one daemon.

    `on_change` is called when the state of a Cluster, or the readiness of a rule, differs from the one before, and when
    one of them is gone.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        clusters: ClusterProvider,
        local: ClusterUID,
        definitions: Callable[[], tuple[DefinitionReport, ...]],
        now: Callable[[], datetime],
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._registry = registry
        self._clusters = clusters
        self._local = local
        self._definitions = definitions
        self._now = now
        self._started = spell_time(now())
        self._cluster_notes: dict[str, _ClusterNote] = {}
        self._rule_notes: dict[str, _RuleNote] = {}

    def note_cluster(self, name: str, status: _Status, *, current: _Status | None) -> None:
        """Record the status of a Cluster; `current` is the stored one."""
        state, known = status.get("state") or "", self._cluster_notes.get(name)
        if known is not None and known.state == state:
            self._cluster_notes[name] = known._replace(message=status.get("message") or "")
            return
        since = _find_since(current) if known is None and (current or {}).get("state") == state else ""
        self._cluster_notes[name] = _ClusterNote(state, status.get("message") or "", since or spell_time(self._now()))
        self.on_change()

    def note_rule(self, name: str, status: _Status) -> None:
        """Record the status of a rule."""
        ready = find_condition(status, "Ready")
        found = _RuleNote(
            ready.get("status") or "Unknown",
            ready.get("reason") or "",
            ready.get("message") or "",
            status.get("clusters") or (),
        )
        known, self._rule_notes[name] = self._rule_notes.get(name), found
        if known is None or known[:2] != found[:2]:
            self.on_change()

    def drop_cluster(self, name: str) -> None:
        """Forget a Cluster that is gone."""
        if self._cluster_notes.pop(name, None) is not None:
            self.on_change()

    def drop_rule(self, name: str) -> None:
        """Forget a rule that is gone."""
        if self._rule_notes.pop(name, None) is not None:
            self.on_change()

    def report(self) -> DaemonReport:
        """Report the present state."""
        rules = self._report_rules()
        own = self._registry.local_clusters(self._local)
        return DaemonReport(
            version=__version__,
            started=self._started,
            cluster_name=own[0].name if own else "",
            cluster_id=self._local,
            definitions=self._definitions(),
            peers=tuple(self._report_peer(name, note) for name, note in sorted(self._cluster_notes.items())),
            rules=rules,
            rules_total=len(self._registry.rules),
            rules_ready=sum(note.ready == "True" for note in self._rule_notes.values()),
            rules_left_out=len(self._rule_notes) - len(rules),
        )

    def _report_rules(self) -> tuple[RuleReport, ...]:
        """Report as many rules as a report has room for, those first that are not ready."""
        notes = sorted(self._rule_notes.items(), key=lambda item: (item[1].ready == "True", item[0]))
        entries = itertools.accumulate(1 + len(note.owners) for _, note in notes)
        return tuple(
            _report_rule(name, note)
            for (name, note), count in zip(notes, entries, strict=True)
            if count <= MOST_ENTRIES
        )

    def _report_peer(self, name: str, note: _ClusterNote) -> PeerReport:
        cluster = self._registry.clusters[name].cluster
        uid = cluster.cluster_id if cluster is not None else ClusterUID("")
        peer = self._clusters.peers.get(uid)
        silence_s = peer.silence_s if peer is not None and peer.name == name else None
        return PeerReport(
            name=name,
            cluster_id=uid,
            state=note.state,
            reason=note.message,
            since=note.since,
            last_contact=spell_time(self._now() - timedelta(seconds=silence_s)) if silence_s is not None else "",
            is_local=uid == self._local,
        )


def _report_rule(name: str, note: _RuleNote) -> RuleReport:
    return RuleReport(name, note.ready, note.reason, note.message, tuple(map(_count_copies, note.owners)))


def _count_copies(entry: _Status) -> CopyCounts:
    matched, synced, failing, held, conflicting, skipped = (
        int(entry.get(field) or 0) for field in ("matched", "synced", "failing", "held", "conflicting", "skipped")
    )
    return CopyCounts(
        owner=entry.get("name") or entry.get("clusterID") or "",
        in_step=synced,
        behind=max(0, matched - synced - failing - conflicting - skipped),
        failing=failing,
        held=held,
        conflicting=conflicting,
        skipped=skipped,
    )


def _find_since(current: _Status | None) -> str:
    """Return the time of the last change of the stored condition `Ready`; empty where there is none."""
    return str(find_condition(current, "Ready").get("lastTransitionTime") or "")
