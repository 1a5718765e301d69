"""Joins clusters to one group: checks, swaps Clusters and Secrets, and waits until the members are in step.

Laws: nothing is written before the checks have passed · a join that is done twice changes nothing · it can be
interrupted, and run again.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from registry_controller.admin.findings import FlagRemedies, Level, Problem, remedy
from registry_controller.admin.group_status import read_group
from registry_controller.admin.objects import key_of, message_of, state_of, with_id
from registry_controller.admin.probe import OtherCA, ProbeTarget, build_target
from registry_controller.admin.published import POLL_S, JoinIncomplete, Published, await_published, now_s
from registry_controller.admin.remote_probe import View, Viewer, view_members
from registry_controller.admin.sites import Site, Sites
from registry_controller.admin.swap import Action, Change, Membership, plan_swap, with_address
from registry_controller.api import meta
from registry_controller.api.cluster import Endpoint, State, read_cluster
from registry_controller.api.errors import (
    AlreadyExists,
    BadInput,
    Conflict,
    InvalidKubeconfig,
    InvalidObject,
    NotFound,
    NotServed,
    RegistryError,
)
from registry_controller.api.meta import Manifest, ObjectKey
from registry_controller.kube.kubeconfig import with_endpoint

_DIRECT_S: Final = 30.0
"""The wait for sync to bring the members to each other, before they swap directly."""
_SETTLE_S: Final = 10.0
"""The wait for rights that Kubernetes aggregates, and for a token that API servers do not know yet."""
_SHOWN_S: Final = 15.0
"""The wait for Leases: a daemon writes its Lease within 5 s after a change."""
_CONTINUE: Final = "; run the same command again to continue"


class Endpoints(NamedTuple):
    """The addresses, and the PEM of the certificate authorities, by the context or the name of a cluster."""

    addresses: Mapping[str, str]
    ca_pems: Mapping[str, str]

    def check_names(self, known: Sequence[str]) -> None:
        """Raise BadInput for the name of a cluster that does not join."""
        for flag, given in (("--endpoint", self.addresses), ("--ca-file", self.ca_pems)):
            unknown = sorted(set(given) - set(known))
            if unknown:
                raise BadInput(f"{flag} {unknown[0]}: is neither a --context nor the name of its Cluster")

    def of(self, member: Published) -> Endpoint | None:
        """Return the endpoint that was given for a member; None without one."""
        names = (member.site.context, member.name)
        address = next((found for name in names if (found := self.addresses.get(name))), "")
        ca_pem = next((found for name in names if (found := self.ca_pems.get(name))), "")
        if not address and not ca_pem:
            return None
        return Endpoint("", address, base64.b64encode(ca_pem.encode()).decode() if ca_pem else "")


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """The views of the checks, and the changes in their order; `labels` are the contexts of the members."""

    labels: Sequence[str]
    views: Sequence[View]
    changes: Sequence[Change]

    @property
    def problems(self) -> Sequence[str]:
        """The failed checks, each with what corrects it."""
        return list(_spell_findings(self.views, Level.FAIL))

    @property
    def warnings(self) -> Sequence[str]:
        """The checks that passed with a warning."""
        return list(_spell_findings(self.views, Level.WARN))


class JoinCommand:
    """Joins the clusters of `sites`; calls `report` with a sentence for each wait, `on_change` after each write."""

    def __init__(
        self,
        sites: Sequence[Site],
        *,
        endpoints: Endpoints,
        wait_s: float,
        report: Callable[[str], None],
        on_change: Callable[[Change], None],
    ) -> None:
        self._sites = sites
        self._endpoints = endpoints
        self._wait_s = wait_s
        self._report = report
        self._on_change = on_change

    async def plan(self, *, skip_checks: bool = False) -> JoinPlan:
        """Wait until all members have published themselves, check them, and list the changes; write nothing."""
        members = await self._await_published()
        self._endpoints.check_names([name for one in members for name in (one.site.context, one.name)])
        planned = [self._plan_address(at, member) for at, member in enumerate(members)]
        changes = [change for change in planned if change is not None]
        changes += plan_swap(await self._read_memberships(members))
        clusters = [
            one.cluster if change is None else change.manifest for one, change in zip(members, planned, strict=True)
        ]
        views = [] if skip_checks else await self._check(members, clusters)
        return JoinPlan([one.site.label for one in members], views, changes)

    async def join(self) -> Sequence[Change]:
        """Write the changes, and wait until all members are in step; return the changes."""
        members = await self._await_published()
        done: list[Change] = []
        for at, member in enumerate(members):
            change = self._plan_address(at, member)
            if change is not None:
                await self._write(change)
                done.append(change)
        if done:
            members = await self._await_addresses()
        for change in plan_swap(await self._read_memberships(members)):
            done += [change] if await self._write(change) else []
        done += await self._await_synced(members)
        await self._await_shown()
        return done

    async def _await_published(self) -> Sequence[Published]:
        deadline = now_s() + self._wait_s
        waits = (await_published(site, deadline=deadline, report=self._report) for site in self._sites)
        return await asyncio.gather(*waits)

    def _plan_address(self, at: int, member: Published) -> Change | None:
        endpoint = self._endpoints.of(member)
        if endpoint is None:
            return None
        address = endpoint.server_address or member.credentials.server
        changed = with_address(member.cluster, address=address, ca_bundle=endpoint.ca_bundle)
        return Change(at, Action.UPDATE, meta.CLUSTERS, changed) if changed is not None else None

    async def _await_addresses(self) -> Sequence[Published]:
        """Wait until the daemons have published the given addresses."""
        deadline = now_s() + self._wait_s
        while True:
            members = await self._await_published()
            late = [one.name for one in members if not self._has_address(one)]
            if not late:
                return members
            if now_s() >= deadline:
                raise JoinIncomplete(
                    f"{', '.join(late)}: the daemon has not published the given address in its Secret; read the "
                    f"message of its Cluster{_CONTINUE}"
                )
            await asyncio.sleep(POLL_S)

    def _has_address(self, member: Published) -> bool:
        wanted = with_endpoint(member.credentials, self._endpoints.of(member))
        return not member.site.daemon.manages_secret or wanted.server == member.credentials.server

    async def _check(self, members: Sequence[Published], clusters: Sequence[Manifest]) -> Sequence[View]:
        """Check all members with their Clusters as they will be.

        Rights and tokens of a daemon that has just started may come some seconds late.
        """
        self._report("checking how the members reach each other")
        found = list(zip(members, clusters, strict=True))
        viewers = [
            Viewer(one.site, one.name, [_target(other, to, viewer=one) for other, to in found if other is not one])
            for one in members
        ]
        deadline = now_s() + _SETTLE_S
        while True:
            views = await view_members(viewers)
            if now_s() >= deadline or not _may_settle(views):
                return views
            await asyncio.sleep(POLL_S)

    async def _read_memberships(self, members: Sequence[Published]) -> Sequence[Membership]:
        keys = [key_of(member.secret) for member in members]
        return await asyncio.gather(*(_read_membership(member, keys) for member in members))

    async def _write(self, change: Change) -> bool:
        """Write one object; return whether it was written: sync may have been faster."""
        site = self._sites[change.at]
        try:
            if change.action is Action.CREATE:
                await site.client.create(change.gvr, change.manifest)
            else:
                await site.client.replace(change.gvr, change.manifest)
        except AlreadyExists:
            return False
        except NotFound as error:
            namespace = key_of(change.manifest).namespace
            if error.details_kind != "namespaces":
                raise
            raise NotServed(
                f"{site.client.place}: has no namespace {namespace}, where the Secret of the other cluster belongs; "
                "install the chart in the same namespace in each cluster, or create it"
            ) from error
        except Conflict as error:
            raise JoinIncomplete(f"{site.label}: {change.what} was changed at the same moment{_CONTINUE}") from error
        self._on_change(change)
        return True

    async def _await_synced(self, members: Sequence[Published]) -> Sequence[Change]:
        """Wait until every member reads every other one; return the direct swaps that this took."""
        began, reported = now_s(), ""
        done: list[Change] = []
        is_direct = False
        while True:
            waits = await list_waits(members)
            if not waits:
                return done
            total = len(members) * (len(members) - 1)
            words = f"{total - len(waits)} of {total} connections are in step; {waits[0]}"
            if words != reported:
                self._report(words)
                reported = words
            if now_s() >= began + self._wait_s:
                raise JoinIncomplete("; ".join(waits) + _CONTINUE)
            if not is_direct and now_s() >= began + _DIRECT_S:
                is_direct = True
                for change in plan_swap(await self._read_memberships(members), direct=True):
                    done += [change] if await self._write(change) else []
            await asyncio.sleep(POLL_S)

    async def _await_shown(self) -> None:
        """Wait until the Leases, which `status` reads, show every member as Ready; that they do not is no failure."""
        deadline, reported = now_s() + min(_SHOWN_S, self._wait_s), ""
        while (words := await _find_not_shown(self._sites)) and now_s() < deadline:
            if words != reported:
                self._report(words)
                reported = words
            await asyncio.sleep(POLL_S)


async def _find_not_shown(sites: Sequence[Site]) -> str:
    """Return the first member that `status` would not show as Ready at another one; empty for none."""
    status = await read_group(Sites(sites, {}), now=datetime.now(UTC))
    joined = {site.cluster_id for site in sites}
    late = (one for one in status.connections if one.member.cluster_id in joined and not one.is_well)
    found = next(late, None)
    return f"the Lease in {found.viewer.title} does not show {found.member.name} as Ready yet" if found else ""


async def list_waits(members: Sequence[Published]) -> Sequence[str]:
    """List the open waits, one sentence for each connection that is not in step."""
    found = await asyncio.gather(*(_list_waits_at(at, members) for at in members))
    return [words for waits in found for words in waits]


async def _list_waits_at(at: Published, members: Sequence[Published]) -> Sequence[str]:
    try:
        clusters = await at.site.list_clusters()
    except RegistryError as error:
        return [f"{at.name} cannot be read: {error}"] * (len(members) - 1)
    return [words for other in members if other is not at and (words := _wait_for(at.name, other, clusters))]


def _wait_for(name: str, other: Published, clusters: Sequence[Manifest]) -> str:
    """Return why a member does not read another one yet; empty where it does."""
    found = with_id(clusters, other.site.cluster_id)
    if not found:
        return f"{name} does not know {other.name} yet"
    state = state_of(found[0])
    if state == State.DISABLED.value:
        return f"{name} does not read {other.name}: remove the annotation {meta.CLUSTER_DISABLED} from its Cluster"
    if state == State.READY.value and meta.condition_of(found[0], "ClustersSynced") == "True":
        return ""
    message = message_of(found[0])
    subject = f"{other.name} " if message.startswith(("does not ", "knows ")) else ""  # as `ClustersSynced` begins
    return f"{name} does not read {other.name} yet{f': {subject}{message}' if message else ''}"


async def _read_membership(member: Published, keys: Sequence[ObjectKey]) -> Membership:
    client = member.site.client
    clusters = await member.site.list_clusters()
    held = await asyncio.gather(*(client.read(meta.SECRETS, key) for key in keys))
    return Membership(
        label=member.site.label,
        cluster_id=member.site.cluster_id,
        own=member.cluster,
        secret=member.secret,
        clusters=clusters,
        held=dict(zip(keys, held, strict=True)),
    )


def _target(member: Published, cluster: Manifest, *, viewer: Published) -> ProbeTarget:
    client = member.site.client
    try:
        return build_target(
            read_cluster(cluster),
            member.credentials,
            namespace=key_of(member.secret).namespace,
            network_name=viewer.site.daemon.network_name,
            other_cas=[OtherCA(f"the kubeconfig's {client.place}", client.ca_pem)] if client.ca_pem else (),
        )
    except (InvalidObject, InvalidKubeconfig) as error:
        raise BadInput(f"{member.site.label}: Cluster {member.name}: {error}") from None


def _may_settle(views: Sequence[View]) -> bool:
    """Return whether all failures may end by themselves within seconds; False without failures."""
    failures = [finding.problem for view in views for finding in view.findings if finding.is_failure]
    return bool(failures) and set(failures) <= {Problem.MISSING_RIGHT, Problem.UNAUTHORIZED}


def _spell_findings(views: Sequence[View], level: Level) -> Iterator[str]:
    """Return each finding of a level once, with the members that see it, and what corrects it."""
    seen: dict[tuple[str, str], list[str]] = {}
    advice: dict[tuple[str, str], str] = {}
    for view in views:
        for finding in view.findings:
            if finding.level is level:
                key = (finding.subject, finding.message)
                seen.setdefault(key, []).append("this machine" if view.obstacle else view.viewer)
                is_far = view.obstacle and finding.is_failure
                skip = "; or go on with --skip-checks, if the Pods of the other members reach it" if is_far else ""
                advice.setdefault(key, remedy(finding, FlagRemedies()) + skip)
    for (subject, message), viewers in seen.items():
        places = ", ".join(dict.fromkeys(viewers))
        yield f"{subject}, seen from {places}: {message}; {advice[subject, message]}"
