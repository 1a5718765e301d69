"""The status of a group: members by members, rules that are not in step, copies by rule and owner.

Law: what cannot be read is a problem, and never counts as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from registry_controller.admin.addresses import find_new_address
from registry_controller.admin.member_view import (
    INTENDED,
    MemberObjects,
    PeerDaemon,
    SiteView,
    add_counts,
    view_member,
)
from registry_controller.admin.peer_leases import read_leases, read_peer_leases
from registry_controller.admin.sites import Site, Sites
from registry_controller.api import meta
from registry_controller.api.cluster import State
from registry_controller.api.daemon_lease import SELECTOR, DaemonLease
from registry_controller.api.daemon_report import CopyCounts, PeerReport, RuleReport
from registry_controller.api.errors import Forbidden, NotServed, RegistryError
from registry_controller.api.meta import GVR
from registry_controller.core.status.rule import uncut

DEFINITIONS: Final = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions", False)
_OURS: Final = f".{meta.GROUP}"


class MemberName(NamedTuple):
    """A member that at least one cluster knows."""

    cluster_id: str
    name: str


class FoundMember(NamedTuple):
    """One member as another one finds it; `report` is None for an unknown member."""

    viewer: SiteView
    member: MemberName
    report: PeerReport | None

    @property
    def is_well(self) -> bool:
        """True for a member that is read."""
        return self.report is not None and self.report.state == State.READY.value

    @property
    def daemon(self) -> PeerDaemon:
        """The daemon of the member, as the viewer knows it."""
        if self.report is not None and self.report.is_local:
            return PeerDaemon(self.viewer.version, self.viewer.definitions_since)
        return self.viewer.peer_daemons.get(self.member.cluster_id, PeerDaemon())


class RuleAt(NamedTuple):
    """A rule at one member."""

    viewer: SiteView
    rule: RuleReport

    @property
    def is_intended(self) -> bool:
        """True for a rule that does nothing because a person wants that."""
        return self.rule.reason in INTENDED

    @property
    def more_causes(self) -> Sequence[str]:
        """The causes that its message does not name."""
        causes = self.viewer.causes.get(self.rule.name, ())
        return [one for one in causes if uncut(one) not in self.rule.message]

    @property
    def message(self) -> str:
        """The message, with the number of further causes and the command that shows them."""
        count = len(self.more_causes)
        more = f" (and {count} more: kubectl describe rsr/{self.rule.name})" if count else ""
        return f"{self.rule.message}{more}".strip()


class Fault(NamedTuple):
    """A fault of the group in one sentence, and the part of the status in which it is."""

    text: str
    part: SiteView | FoundMember | RuleAt


class OwnerCopies(NamedTuple):
    """The copies of one rule and owner, over all members that were read."""

    rule: str
    counts: CopyCounts


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The members' views, in the order of their contexts.

    `new_addresses` has the address of a member where another member has an earlier one, by the IDs of both: the first
    ID is that of the member with the earlier one.
    """

    views: Sequence[SiteView]
    new_addresses: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def members(self) -> Sequence[MemberName]:
        """All members that a cluster knows, by name; its own name counts before that in other clusters."""
        found: dict[str, str] = {view.cluster_id: view.name for view in self.views if view.name}
        for view in self.views:
            for peer in view.peers:
                found.setdefault(peer.cluster_id, peer.name)
        return sorted(
            (MemberName(uid, name) for uid, name in found.items()), key=lambda one: (one.name, one.cluster_id)
        )

    @property
    def connections(self) -> Sequence[FoundMember]:
        """Each member as each cluster of the group finds it, itself included."""
        members = self.members
        found: list[FoundMember] = []
        for view in self.views:
            if not view.failure and not view.has_left:
                peers = {str(peer.cluster_id): peer for peer in reversed(view.peers)}
                found += [FoundMember(view, member, peers.get(member.cluster_id)) for member in members]
        return found

    @property
    def rules(self) -> Sequence[RuleAt]:
        """The rules that are not in step, by member and name."""
        return [RuleAt(view, rule) for view in self.views for rule in view.rules if rule.ready != "True"]

    @property
    def copies(self) -> Sequence[OwnerCopies]:
        """The copies by rule and owner."""
        found: dict[tuple[str, str], CopyCounts] = {}
        for view in self.views:
            for rule in view.rules:
                for counts in rule.owners:
                    key = (rule.name, counts.owner)
                    found[key] = add_counts(found[key], counts) if key in found else counts
        return [OwnerCopies(rule, counts) for (rule, _), counts in sorted(found.items())]

    @property
    def problems(self) -> Sequence[str]:
        """The faults, one sentence each; empty where all is well."""
        return [fault.text for fault in self.faults]

    @property
    def faults(self) -> Sequence[Fault]:
        """The faults with their parts; empty where all is well."""
        faults = [Fault(text, view) for view in self.views for text in _list_problems_of(view)]
        connections = self.connections
        faults += self._list_not_in_step(connections)
        faults += [Fault(self._spell_connection(one), one) for one in connections if not one.is_well]
        return [*faults, *(Fault(_spell_rule(at), at) for at in self.rules if not at.is_intended)]

    def _list_not_in_step(self, connections: Sequence[FoundMember]) -> Iterator[Fault]:
        """List the members that are read, and not in step; one that was viewed itself shows the cause."""
        viewed = {view.cluster_id for view in self.views}
        for one in connections:
            message = one.viewer.not_in_step.get(one.member.cluster_id)
            if message is not None and one.is_well and one.member.cluster_id not in viewed:
                words = f"the Clusters in {one.member.name} are not in step: {message}; give its --context, too"
                yield Fault(f"{one.viewer.title}: {words}", one.viewer)

    def _spell_connection(self, one: FoundMember) -> str:
        viewer, report = one.viewer.title, one.report
        if report is None:
            return f"{viewer} does not know {one.member.name}; let them join by `registry-controller join`"
        subject = "its own Cluster" if report.is_local else one.member.name
        state = f"is {report.state}" if report.state else "has no answer yet"
        new = self.new_addresses.get((one.viewer.cluster_id, one.member.cluster_id), "")
        remedy = (
            f"; it has the address {new} now: run `registry-controller join` with the contexts of both" if new else ""
        )
        return f"{viewer}: {subject} {state}{f': {report.reason}' if report.reason else ''}{remedy}"


def _list_problems_of(view: SiteView) -> Iterator[str]:
    """List the problems of one member by itself."""
    if view.failure:
        yield view.failure
    elif view.has_left:
        yield f"{view.label}: has left its group; leave out this context, or let it join again"
    elif not view.name:
        yield f"{view.label}: has no Cluster of its own; read the log of its daemon"
    elif view.is_silent:
        yield f"{view.title}: its daemon did not renew its Lease since {view.renewed}; see whether it runs"
    if view.dropped:
        yield f"{view.title}: its definitions lack {', '.join(view.dropped)}; apply the CRDs of this release"
    for warning in view.warnings:
        yield f"{view.title}: Cluster {warning.cluster} has the condition {warning.kind}: {warning.message}"


def _spell_rule(at: RuleAt) -> str:
    reason = f"{at.rule.reason}: {at.message}" if at.message else at.rule.reason or "is not known yet"
    return f"{at.viewer.title}: rule {at.rule.name}: {reason}"


async def read_group(sites: Sites, *, now: datetime) -> GroupStatus:
    """Read the views of all sites at once; of one site alone, the Leases of its peers, too."""
    is_alone = len(sites.reached) == 1 and not sites.failures
    views = await asyncio.gather(*(_read_view(site, now=now, with_peers=is_alone) for site in sites.reached))
    failures = [SiteView(label=label, failure=text) for label, text in sites.failures.items()]
    status = GroupStatus([*views, *failures])
    return replace(status, new_addresses=await _find_new_addresses(sites.reached, status))


async def _find_new_addresses(sites: Sequence[Site], status: GroupStatus) -> Mapping[tuple[str, str], str]:
    """Find the members of these sites that are not read because they have other addresses now."""
    by_id: dict[str, Site] = {site.cluster_id: site for site in sites}
    pairs = [
        (one.viewer.cluster_id, one.member.cluster_id)
        for one in status.connections
        if one.report is not None and one.report.state == State.FAILED.value and one.member.cluster_id in by_id
    ]
    found = await asyncio.gather(*(find_new_address(of=by_id[member], at=by_id[viewer]) for viewer, member in pairs))
    return {pair: address for pair, address in zip(pairs, found, strict=True) if address}


async def _read_view(site: Site, *, now: datetime, with_peers: bool) -> SiteView:
    client = site.client
    try:
        clusters = await site.list_clusters()
        objects = MemberObjects(
            cluster_id=site.cluster_id,
            clusters=clusters,
            rules=await client.list(meta.RULES),
            features=await client.list(meta.FEATURES),
            definitions=await _list_definitions(site),
            leases=await _list_leases(site),
            peer_leases=await read_peer_leases(site, clusters) if with_peers else {},
        )
        version = await _read_version(site)
    except RegistryError as error:
        return SiteView(label=site.label, failure=client.explain(error))
    return view_member(site.label, objects, server_version=version, now=now)


async def _read_version(site: Site) -> str:
    try:
        return await site.read_version()
    except Forbidden:  # it is not shown then
        return ""


async def _list_definitions(site: Site) -> Sequence[meta.Manifest]:
    try:
        found = await site.client.list(DEFINITIONS)
    except (Forbidden, NotServed):  # their age is not shown then
        return ()
    return [one for one in found if str(meta.metadata_of(one).get("name", "")).endswith(_OURS)]


async def _list_leases(site: Site) -> Sequence[DaemonLease]:
    try:
        manifests = await site.client.list(meta.LEASES, namespace=site.daemon.namespace, labels=SELECTOR)
    except (Forbidden, NotServed):  # the status of the Clusters and rules is shown then
        return ()
    return read_leases(manifests)


def build_document(status: GroupStatus) -> Mapping[str, Any]:
    """Build the status as plain data for JSON and YAML."""
    return {
        "isWell": not status.problems,
        "problems": status.problems,
        "members": [_member_document(view) for view in status.views],
        "copies": [{"rule": one.rule, **_counts_document(one.counts)} for one in status.copies],
    }


def _member_document(view: SiteView) -> Mapping[str, Any]:
    if view.failure:
        return {"context": view.label, "failure": view.failure}
    return {
        "context": view.label,
        "name": view.name,
        "clusterID": view.cluster_id,
        "hasLeft": view.has_left,
        "serverVersion": view.server_version,
        "daemon": {"version": view.version, "hasLease": view.has_lease, "renewed": view.renewed or None},
        "definitionsSince": view.definitions_since or None,
        "droppedFields": list(view.dropped),
        "peers": [_peer_document(view, peer) for peer in view.peers],
        "warnings": [{"cluster": one.cluster, "kind": one.kind, "message": one.message} for one in view.warnings],
        "notInStep": [{"clusterID": uid, "message": message} for uid, message in view.not_in_step.items()],
        "rules": [
            {
                "name": rule.name,
                "ready": rule.ready,
                "reason": rule.reason,
                "message": rule.message,
                "causes": list(view.causes.get(rule.name, ())),
                "copies": [_counts_document(counts) for counts in rule.owners],
            }
            for rule in view.rules
        ],
        "rulesLeftOut": view.rules_left_out,
    }


def _peer_document(view: SiteView, peer: PeerReport) -> Mapping[str, Any]:
    daemon = FoundMember(view, MemberName(peer.cluster_id, peer.name), peer).daemon
    return {
        "name": peer.name,
        "clusterID": peer.cluster_id,
        "isLocal": peer.is_local,
        "state": peer.state,
        "reason": peer.reason,
        "since": peer.since or None,
        "lastContact": peer.last_contact or None,
        "daemonVersion": daemon.version or None,
        "definitionsSince": daemon.definitions_since or None,
    }


def _counts_document(counts: CopyCounts) -> Mapping[str, Any]:
    return {
        "owner": counts.owner,
        "inStep": counts.in_step,
        "behind": counts.behind,
        "failing": counts.failing,
        "held": counts.held,
        "conflicting": counts.conflicting,
        "skipped": counts.skipped,
    }
