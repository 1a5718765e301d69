"""One member's view of its group: from its daemon's Lease, or else from the status of its Clusters and rules. Pure.

A daemon of an earlier version, and the original, write no Lease: their view has no last contacts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from registry_controller.admin.objects import (
    find_condition,
    key_of,
    mapping,
    message_of,
    read_or_none,
    read_time,
    state_of,
    with_id,
)
from registry_controller.api import meta
from registry_controller.api.cluster import State
from registry_controller.api.daemon_lease import DaemonLease, spell_time
from registry_controller.api.daemon_report import CopyCounts, DaemonReport, PeerReport, RuleReport
from registry_controller.api.formats import read_daemon_version
from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.api.tombstone import is_own_tombstone
from registry_controller.core.status.cluster import WARNINGS, spell_warning
from registry_controller.core.status.rule import read_causes

INTENDED: Final = frozenset({"Suspended", "NotAllowedHere", "ClosedHere"})
"""Reasons of rules that do nothing here because a person wants that."""
_GRACE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class MemberObjects:
    """The objects of one cluster that a view is made of; `leases` have been parsed already.

    `peer_leases` are those that could be read in other members, by the ID of the member.
    """

    cluster_id: ClusterUID
    clusters: Sequence[Manifest] = ()
    rules: Sequence[Manifest] = ()
    features: Sequence[Manifest] = ()
    definitions: Sequence[Manifest] = ()
    leases: Sequence[DaemonLease] = ()
    peer_leases: Mapping[ClusterUID, Sequence[DaemonLease]] = field(default_factory=dict)


class PeerDaemon(NamedTuple):
    """The daemon of another member: its version, and the creation of its oldest definition (RFC 3339).

    Both are empty where they are not known.
    """

    version: str = ""
    definitions_since: str = ""


class ClusterWarning(NamedTuple):
    """A condition of a Cluster that a person is to look at, also while its state is `Ready`."""

    cluster: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class SiteView:
    """One member. `label` is its context, `name` that of its Cluster, empty before it has one, and after it has left.

    `failure` is why the cluster could not be read; then all else is empty. `definitions_since` is the creation of the
    oldest definition (RFC 3339), `dropped` the fields that the definitions lack. `is_silent` is true where the daemon
    has a Lease, and did not renew it. Of several daemons in one cluster, the one that renewed its Lease last counts.
    `peer_daemons` has the daemons of other members, by the ID of the member. `causes` has all causes of the rules that
    are not in step, by rule. `not_in_step` has the members that are read and whose Clusters differ from those here, by
    their IDs, with the differences: such a member may not read this one.
    """

    label: str
    name: str = ""
    cluster_id: str = ""
    has_left: bool = False
    failure: str = ""
    version: str = ""
    server_version: str = ""
    definitions_since: str = ""
    dropped: Sequence[str] = ()
    renewed: str = ""
    is_silent: bool = False
    has_lease: bool = False
    peers: Sequence[PeerReport] = ()
    peer_daemons: Mapping[str, PeerDaemon] = field(default_factory=dict)
    warnings: Sequence[ClusterWarning] = ()
    not_in_step: Mapping[str, str] = field(default_factory=dict)
    rules: Sequence[RuleReport] = ()
    rules_left_out: int = 0
    causes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name for people."""
        return self.name or self.label


def view_member(label: str, objects: MemberObjects, *, server_version: str, now: datetime) -> SiteView:
    """Build the view of one member."""
    own = with_id(objects.clusters, objects.cluster_id)
    leases = sorted(objects.leases, key=_renewal, reverse=True)
    reports = _current_reports(leases, now=now)
    report = reports[0] if reports else None
    peers = list(_read_peers(objects)) if report is None else _merge_peers(report, reports[1:])
    version = _annotated_version(own[0]) if own else ""
    created = sorted(str(meta.metadata_of(one).get("creationTimestamp") or "") for one in objects.definitions)
    renewed = leases[0].renewed if leases else None
    stored = {key_of(one).name: one for one in objects.rules}
    rules = (
        [_complete(one, stored) for one in report.rules] if report is not None else list(map(read_rule, objects.rules))
    )
    return SiteView(
        label=label,
        name=key_of(own[0]).name if own else "",
        cluster_id=objects.cluster_id,
        has_left=not own and any(is_own_tombstone(found, of=objects.cluster_id) for found in objects.features),
        version=report.version if report is not None else version,
        server_version=server_version,
        definitions_since=created[0] if created else "",
        dropped=[f"{one.kind}: {name}" for one in report.definitions for name in one.drops] if report else (),
        renewed=spell_time(renewed) if renewed is not None else "",
        is_silent=bool(leases) and not leases[0].is_current(now),
        has_lease=bool(leases),
        peers=peers,
        peer_daemons=dict(_read_peer_daemons(objects, now=now)),
        warnings=list(_list_warnings(objects.clusters)),
        not_in_step=dict(_list_not_in_step(objects, now=now)),
        rules=rules,
        rules_left_out=report.rules_left_out if report is not None else 0,
        causes={
            one.name: read_causes(stored[one.name].get("status"))
            for one in rules
            if one.ready != "True" and one.name in stored
        },
    )


def _renewal(lease: DaemonLease) -> str:
    return str(lease.renewed or "")


def _current_reports(leases: Sequence[DaemonLease], *, now: datetime) -> Sequence[DaemonReport]:
    return [one.report for one in leases if one.is_current(now) and one.report is not None]


def _annotated_version(cluster: Manifest) -> str:
    return read_daemon_version(meta.annotations_of(cluster).get(meta.DAEMON, ""))


def _read_peer_daemons(objects: MemberObjects, *, now: datetime) -> Iterator[tuple[str, PeerDaemon]]:
    """Read the daemons of the other members from their Leases, or else from the annotations of their Clusters."""
    for manifest in objects.clusters:
        cluster = read_or_none(manifest)
        if cluster is None or cluster.cluster_id == objects.cluster_id:
            continue
        leases = sorted(objects.peer_leases.get(cluster.cluster_id, ()), key=_renewal, reverse=True)
        reports = _current_reports(leases, now=now)
        created = sorted(one.created for one in reports[0].definitions if one.created) if reports else []
        version = reports[0].version if reports else _annotated_version(manifest)
        yield cluster.cluster_id, PeerDaemon(version, created[0] if created else "")


def _merge_peers(report: DaemonReport, others: Sequence[DaemonReport]) -> Sequence[PeerReport]:
    """Return each peer as the daemon finds it that has a problem with it."""
    found = {peer.cluster_id: peer for peer in report.peers}
    for other in others:
        for peer in other.peers:
            held = found.get(peer.cluster_id)
            if held is None or (held.state == State.READY.value and peer.state not in ("", held.state)):
                found[peer.cluster_id] = peer
    return sorted(found.values(), key=lambda peer: peer.name)


def _read_peers(objects: MemberObjects) -> Iterator[PeerReport]:
    for manifest in objects.clusters:
        cluster = read_or_none(manifest)
        if cluster is None:
            continue
        is_local = cluster.cluster_id == objects.cluster_id
        state = state_of(manifest)
        yield PeerReport(
            name=cluster.name,
            cluster_id=cluster.cluster_id,
            state=state,
            reason=message_of(manifest),
            since=_since(manifest),
            is_local=is_local,
        )


def _list_warnings(clusters: Sequence[Manifest]) -> Iterator[ClusterWarning]:
    for manifest in clusters:
        for entry in mapping(manifest.get("status")).get("conditions") or ():
            condition = mapping(entry)
            if condition.get("type") in WARNINGS and condition.get("status") == "True":
                kind, message = str(condition["type"]), str(condition.get("message") or "")
                yield ClusterWarning(key_of(manifest).name, kind, spell_warning(message))


def _list_not_in_step(objects: MemberObjects, *, now: datetime) -> Iterator[tuple[str, str]]:
    """List the members that are read, and are not in step for a while: right after a join, none is."""
    for manifest in objects.clusters:
        cluster, condition = read_or_none(manifest), find_condition(manifest, "ClustersSynced")
        if cluster is None or cluster.cluster_id == objects.cluster_id or state_of(manifest) != State.READY.value:
            continue
        changed = read_time(condition.get("lastTransitionTime"))
        is_new = changed is not None and now - changed < _GRACE
        if condition.get("status") == "False" and not is_new:
            yield cluster.cluster_id, str(condition.get("message") or "")


def _since(manifest: Manifest) -> str:
    return str(find_condition(manifest, "Ready").get("lastTransitionTime") or "")


def _complete(rule: RuleReport, stored: Mapping[str, Manifest]) -> RuleReport:
    """Return a rule with the whole message of its status: a Lease has the beginning only."""
    found = read_rule(stored[rule.name]) if rule.name in stored else rule
    is_same = (found.ready, found.reason) == (rule.ready, rule.reason)
    return replace(rule, message=found.message) if is_same else rule


def read_rule(manifest: Manifest) -> RuleReport:
    """Read a rule from its status: its conditions `Accepted` and `Synced`, and the counts of its owners."""
    status = mapping(manifest.get("status"))
    conditions = {str(mapping(one).get("type")): mapping(one) for one in status.get("conditions") or ()}
    found = conditions.get("Ready") or conditions.get("Synced") or {}
    accepted = conditions.get("Accepted") or {}
    if accepted.get("status") == "False":
        found = {**accepted, "status": "False"}
    owners = tuple(_read_counts(mapping(entry)) for entry in status.get("clusters") or ())
    return RuleReport(
        key_of(manifest).name,
        str(found.get("status") or "Unknown"),
        str(found.get("reason") or ""),
        str(found.get("message") or ""),
        owners,
    )


def _read_counts(entry: Mapping[str, Any]) -> CopyCounts:
    names = ("matched", "synced", "failing", "held", "skipped", "conflicting")
    count = {name: entry.get(name) if isinstance(entry.get(name), int) else 0 for name in names}
    settled = sum(count[name] or 0 for name in ("synced", "failing", "skipped", "conflicting"))
    return CopyCounts(
        owner=str(entry.get("name") or entry.get("clusterID") or ""),
        in_step=count["synced"] or 0,
        behind=max(0, (count["matched"] or 0) - settled),
        failing=count["failing"] or 0,
        held=count["held"] or 0,
        conflicting=count["conflicting"] or 0,
        skipped=count["skipped"] or 0,
    )


def add_counts(one: CopyCounts, other: CopyCounts) -> CopyCounts:
    """Return the sums of two counts of one owner."""
    return replace(
        one,
        in_step=one.in_step + other.in_step,
        behind=one.behind + other.behind,
        failing=one.failing + other.failing,
        held=one.held + other.held,
        conflicting=one.conflicting + other.conflicting,
        skipped=one.skipped + other.skipped,
    )
