"""Engages the members of a group, and disengages those that were missing for long.

Laws: a member that is missing for less than 30 s has not left, nor one that is missing while the source is silent · a
member keeps its name while a Cluster of that name has its ID, and has no second one · the failure of one member never
affects another.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from registry_controller.api.meta import ClusterUID
from registry_controller.clusters.dialer import Dialer
from registry_controller.group.dialers import LEAVES_AFTER_S, ConnectContext, ContextDialer, SecretDialer
from registry_controller.group.members import Member, MemberConnection
from registry_controller.group.owner_proof import Witnesses
from registry_controller.group.ownership import ID_HIDDEN
from registry_controller.group.sources import MemberSpec
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.report.logs import get_logger
from registry_controller.watch.fairness import EvaluationLimiter

log = get_logger(__name__)

_MISSING: Final = f"its Cluster or Secret is missing for {LEAVES_AFTER_S:.0f} s"


class _NoRelayed:
    """No other member is asked for credentials: the Secrets of the local cluster are from the daemons."""

    async def credentials_for(self, name: str, held: Credentials, *, refused: bool) -> Sequence[Credentials]:
        return ()

    def reset(self) -> None:
        """Do nothing."""


class EngagedMember:
    """An engaged member."""

    def __init__(self, spec: MemberSpec, connection: MemberConnection, task: asyncio.Task[None]) -> None:
        self.spec = spec
        self.connection = connection
        self.task = task
        self.member = Member(connection, is_local=spec.is_local)
        self.leaves: asyncio.TimerHandle | None = None

    @property
    def is_missing(self) -> bool:
        """Return whether it is described no more."""
        return self.leaves is not None


class Engagements:
    """The engaged members by name. `engaged` is called with each new connection.

    `problem` returns why the source of members is silent, empty while it is not. `unreadable` are the members that are
    described and cannot be reached, with the reasons.
    """

    def __init__(
        self,
        *,
        connect: Callable[[Credentials], Reader],
        connect_by_context: ConnectContext,
        engaged: Callable[[MemberConnection], None],
        problem: Callable[[], str],
    ) -> None:
        self.by_name: dict[str, EngagedMember] = {}
        self.unreadable: Mapping[str, str] = {}
        self._undescribed: Mapping[str, str] = {}
        self._disputed: frozenset[ClusterUID] = frozenset()
        self._connect = connect
        self._connect_by_context = connect_by_context
        self._engaged = engaged
        self._problem = problem
        self._evaluations = EvaluationLimiter()
        self._held_back: tuple[Mapping[str, MemberSpec], asyncio.TaskGroup] | None = None

    def find(self, cluster: ClusterUID) -> Sequence[MemberConnection]:
        """Return the connections to the members that proved this ID last: several for a clone, or a second context."""
        return [found.connection for name, found in self.by_name.items() if cluster and self.find_id(name) == cluster]

    def find_witnesses(self, cluster: ClusterUID) -> Witnesses:
        """Return the members that can prove something about this cluster."""
        is_disputed = cluster in self._disputed
        return Witnesses(() if is_disputed else self.find(cluster), is_disputed=is_disputed)

    def find_id(self, member: str) -> ClusterUID:
        """Return the ID that a member proved last, or else that its Cluster names; empty where it is not known."""
        found = self.by_name.get(member)
        if found is None:
            return ClusterUID("")
        dialer = found.connection.dialer
        learned = dialer.identity.cluster_id if isinstance(dialer, ContextDialer | SecretDialer) else ClusterUID("")
        return learned or found.spec.cluster_id

    @property
    def unidentified(self) -> Mapping[str, str]:
        """Return the members that have shown no ID yet, with the reasons: each may be any cluster.

        A Cluster names its ID, a context and a Secret do not.
        """
        silent = {name: found.connection.failure or ID_HIDDEN for name, found in self.by_name.items()}
        return {name: why for name, why in {**self._undescribed, **silent}.items() if not self.find_id(name)}

    def set_members(self, found: Mapping[str, MemberSpec], scope: asyncio.TaskGroup) -> None:
        """Engage the members that are new, in tasks of a scope, and disengage those that were missing for long."""
        found = self._keep_names(found, scope)
        unreadable = {name: spec.problem for name, spec in found.items() if spec.problem and not _can_read(spec)}
        for name, problem in unreadable.items():
            if self.unreadable.get(name) != problem:
                log.warning("member cannot be reached", member=name, error=problem)
        self.unreadable = unreadable
        self._undescribed = {name: problem for name, problem in unreadable.items() if not found[name].cluster_id}
        self._disputed = frozenset(spec.cluster_id for spec in found.values() if spec.is_disputed)
        for name in self.by_name.keys() - found.keys():
            self._let_leave(name)
        for name, spec in found.items():
            engagement = self.by_name.get(name)
            if engagement is not None and _is_another(engagement.spec, spec):
                self._leave(name, f"its name stands for another cluster, {spec.cluster_id or spec.context}")
                engagement = None
            if engagement is not None:
                _keep(engagement, spec)
            elif _can_read(spec):
                self._engage(spec, scope)

    def _keep_names(self, found: Mapping[str, MemberSpec], scope: asyncio.TaskGroup) -> Mapping[str, MemberSpec]:
        """Return the members under the names that they are engaged with.

        One whose engaged name is missing is held back until that has left.
        """
        names = {engaged.spec.cluster_id: name for name, engaged in self.by_name.items() if engaged.spec.cluster_id}
        kept: dict[str, MemberSpec] = {}
        self._held_back = None
        for name, spec in found.items():
            engaged = names.get(spec.cluster_id, name) if not spec.is_local else name
            if engaged == name or engaged in spec.aliases:
                kept[engaged] = replace(spec, name=engaged)
            elif engaged in found and _is_another(self.by_name[engaged].spec, found[engaged]):
                kept[name] = spec
            else:
                self._held_back = found, scope
        return kept

    def end(self) -> None:
        """Disengage all members."""
        self._held_back = None
        for name in list(self.by_name):
            self._disengage(name)

    def _engage(self, spec: MemberSpec, scope: asyncio.TaskGroup) -> None:
        dialer = self._make_dialer(spec)
        if isinstance(dialer, ContextDialer | SecretDialer):
            dialer.identity.on_replaced = functools.partial(self._replace, spec.name, dialer, scope)
        connection = MemberConnection(dialer=dialer, evaluations=self._evaluations)
        task = scope.create_task(_run(connection), name=f"member {spec.name}")
        self.by_name[spec.name] = EngagedMember(spec, connection, task)
        self._engaged(connection)
        log.info("member engaged", member=spec.name)

    def _make_dialer(self, spec: MemberSpec) -> Dialer | ContextDialer:
        if spec.context is not None:
            return ContextDialer(spec.name, spec.context, connect=self._connect_by_context)
        kind = Dialer if spec.cluster_id else SecretDialer
        return kind(
            cluster_id=spec.cluster_id,
            name=spec.name,
            credentials=spec.ways[0],
            others=spec.ways[1:],
            connect_peer=self._connect,
            relayed=_NoRelayed(),
        )

    def _let_leave(self, name: str) -> None:
        engagement = self.by_name[name]
        if engagement.leaves is None:
            engagement.leaves = asyncio.get_running_loop().call_later(LEAVES_AFTER_S, self._end_absence, name)

    def _end_absence(self, name: str) -> None:
        """Disengage a member that was missing for long; not while its source is silent, where it may be back."""
        if self._problem():
            self.by_name[name].leaves = None
            self._let_leave(name)
        else:
            self._leave(name, _MISSING)
            if self._held_back is not None:
                self.set_members(*self._held_back)

    def _replace(self, name: str, dialer: Dialer | ContextDialer, scope: asyncio.TaskGroup, reason: str) -> None:
        """Disengage the cluster that a name led to, and engage the one that it leads to now.

        Another answer to the former connection, for its own tasks or for the collector, may report the same once more.
        """
        found = self.by_name.get(name)
        if found is None or found.connection.dialer is not dialer:
            return
        engagement = self._leave(name, reason)
        if not engagement.is_missing:
            self._engage(engagement.spec, scope)

    def _leave(self, name: str, reason: str) -> EngagedMember:
        """Disengage a member for good: its objects are gone for the watches."""
        engagement = self._disengage(name)
        streams = list(engagement.connection.streams.values())
        for stream in streams:
            stream.drop_objects()
        for stream in streams:
            stream.end(reason)
        log.info("member has left", member=name, reason=reason)
        return engagement

    def _disengage(self, name: str) -> EngagedMember:
        engagement = self.by_name.pop(name)
        if engagement.leaves is not None:
            engagement.leaves.cancel()
        engagement.task.cancel()
        return engagement


def _keep(engagement: EngagedMember, spec: MemberSpec) -> None:
    if engagement.leaves is not None:
        engagement.leaves.cancel()
        engagement.leaves = None
    dialer = engagement.connection.dialer
    if spec.ways and spec.ways != engagement.spec.ways and isinstance(dialer, Dialer):
        dialer.set_credentials(spec.name, spec.ways[0], spec.ways[1:])
    if _can_read(spec):
        engagement.spec = spec


async def _run(connection: MemberConnection) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await connection.run()


def _can_read(spec: MemberSpec) -> bool:
    return spec.context is not None or bool(spec.ways)


def _is_another(before: MemberSpec, now: MemberSpec) -> bool:
    """Return whether a name stands for another cluster now; a description that cannot be read names none."""
    return bool(now.cluster_id or now.context) and (before.cluster_id, before.context) != (now.cluster_id, now.context)
