"""The group: engages its members, and gives their objects to watches and controllers.

Laws: nothing but get, list and watch is sent to a member · a member that is missing for less than 30 s has not left ·
the failure of one member never affects another.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from registry_controller.api.selection import Selection
from registry_controller.api.selectors import parse_selector
from registry_controller.clusters.dialer import Dialer
from registry_controller.group.controller import Controller
from registry_controller.group.dialers import (
    LEAVES_AFTER_S,
    ConnectContext,
    Context,
    ContextDialer,
    SecretDialer,
    connect_context,
)
from registry_controller.group.members import Member, MemberConnection
from registry_controller.group.objects import Key
from registry_controller.group.sources import (
    SECRET_LABEL,
    ClusterSource,
    ContextSource,
    MemberSource,
    MemberSpec,
    SecretSource,
)
from registry_controller.group.streams import StreamRequest
from registry_controller.group.watching import Watch
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.report.logs import get_logger
from registry_controller.watch.fairness import EvaluationLimiter

if TYPE_CHECKING:
    from registry_controller.group.kopf_handlers import KopfHandlers

log = get_logger(__name__)

_MISSING: Final = f"its Cluster or Secret is missing for {LEAVES_AFTER_S:.0f} s"


class _NoRelayed:
    """No other member is asked for credentials: the Secrets of the local cluster are from the daemons."""

    async def credentials_for(self, name: str, held: Credentials, *, refused: bool) -> Sequence[Credentials]:
        return ()

    def reset(self) -> None:
        """Do nothing."""


class _Engaged:
    """An engaged member."""

    def __init__(self, spec: MemberSpec, connection: MemberConnection, task: asyncio.Task[None]) -> None:
        self.spec = spec
        self.connection = connection
        self.task = task
        self.member = Member(connection, is_local=spec.is_local)
        self.leaves: asyncio.TimerHandle | None = None


class Group(Mapping[str, Member]):
    """The members of a group by name, engaged while `async with` lasts.

    `async with` fails as a task group does: an error of the library itself, or of a controller, ends it.
    """

    def __init__(
        self,
        source: MemberSource,
        *,
        connect: Callable[[Credentials], Reader] = connect_peer,
        connect_by_context: ConnectContext = connect_context,
    ) -> None:
        self._source = source
        self._connect = connect
        self._connect_by_context = connect_by_context
        self._scope = asyncio.TaskGroup()
        self._engaged: dict[str, _Engaged] = {}
        self._watches: dict[Watch, StreamRequest] = {}
        self._evaluations = EvaluationLimiter()
        self._is_known = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.unreadable: Mapping[str, str] = {}
        """The members that are described and cannot be reached, with the reasons."""

    @classmethod
    def from_cluster(
        cls, *, kubeconfig: Path | str | None = None, context: str | None = None, network_name: str = "default"
    ) -> Self:
        """Return the group of a cluster where a daemon runs, itself included.

        Without arguments it is the cluster of the Pod, or of the current context. `network_name` is as for the daemon.
        """
        return cls(ClusterSource(_context(kubeconfig, context), network_name=network_name))

    @classmethod
    def from_contexts(cls, contexts: Sequence[str], *, kubeconfig: Path | str | None = None) -> Self:
        """Return the clusters of contexts as a group, for people who have none yet."""
        return cls(ContextSource([_context(kubeconfig, context) for context in contexts]))

    @classmethod
    def from_secrets(
        cls,
        *,
        namespace: str,
        label_selector: str = SECRET_LABEL,
        kubeconfig: Path | str | None = None,
        context: str | None = None,
    ) -> Self:
        """Return the clusters of Secrets with a label as a group; each holds a kubeconfig under `kubeconfig`."""
        home = _context(kubeconfig, context)
        return cls(SecretSource(home, namespace=namespace, label_selector=label_selector))

    @functools.cached_property
    def kopf(self) -> KopfHandlers:
        """Return the handlers in kopf's style; the first use imports kopf."""
        from registry_controller.group.kopf_handlers import KopfHandlers  # noqa: PLC0415

        return KopfHandlers(self)

    @property
    def is_running(self) -> bool:
        """Return whether the members are engaged: inside of `async with`."""
        return self._running is not None

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._running = self._scope.create_task(self._source.run(self._set_members), name="members")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in list(self._watches):
            watch.close()
        for name in list(self._engaged):
            self._disengage(name)
        if self._running is not None:
            self._running.cancel()
            self._running = None
        if error is None or isinstance(error, asyncio.CancelledError):
            await self._scope.__aexit__(kind, error, trace)
        else:
            await self._scope.__aexit__(None, None, None)  # the user's own error is raised as it is, in no group

    def __getitem__(self, name: str) -> Member:
        return self._engaged[name].member

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._engaged))

    def __len__(self) -> int:
        return len(self._engaged)

    @property
    def problem(self) -> str:
        """Return why the members are not known, or may be out of date; empty without a problem."""
        return self._source.problem

    async def wait_known(self) -> None:
        """Wait until it is known for the first time which members there are; they may not be connected yet."""
        await self._is_known.wait()

    def watch(
        self,
        resource: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> Watch:
        """Watch a kind in all members, also in those that come later.

        `resource` is a word that kubectl takes: `pods`, `jobs.batch`, `deployments.v1.apps`; each member may serve
        another version. Without `namespace`, all namespaces. InvalidObject for a wrong selector.
        """
        labels = parse_selector(label_selector)
        request = StreamRequest(resource, Selection(namespace, label_selector, field_selector), metadata_only)
        watch = Watch(namespace=namespace, labels=labels, ended=self._end_watch)
        self._watches[watch] = request
        for engaged in self._engaged.values():
            engaged.connection.open(request).attach(watch)
        return watch

    def controller(self, reconcile: Callable[[Key], Awaitable[float | None]], *, workers: int = 4) -> Controller:
        """Return a controller, which calls `reconcile` with each key that its watches name; see `Controller`."""
        return Controller(self, reconcile, workers=workers)

    def _end_watch(self, watch: Watch) -> None:
        del self._watches[watch]
        for engaged in self._engaged.values():
            for stream in list(engaged.connection.streams.values()):
                stream.detach(watch)
            engaged.connection.drop_unused()

    # Members.

    def _set_members(self, found: Mapping[str, MemberSpec]) -> None:
        """Engage the members that are new, and disengage those that were missing for long."""
        self.unreadable = {name: spec.problem for name, spec in found.items() if spec.problem and not _can_read(spec)}
        for name in self._engaged.keys() - found.keys():
            self._let_leave(name)
        for name, spec in found.items():
            engaged = self._engaged.get(name)
            if engaged is not None and _is_another(engaged.spec, spec):
                self._leave(name, f"its name stands for another cluster, {spec.cluster_id or spec.context}")
                engaged = None
            if engaged is not None:
                self._keep(engaged, spec)
            elif _can_read(spec):
                self._engage(spec)
        self._is_known.set()

    def _engage(self, spec: MemberSpec) -> None:
        connection = MemberConnection(dialer=self._make_dialer(spec), evaluations=self._evaluations)
        task = self._scope.create_task(_run(connection), name=f"member {spec.name}")
        self._engaged[spec.name] = engaged = _Engaged(spec, connection, task)
        for watch, request in self._watches.items():
            engaged.connection.open(request).attach(watch)
        log.info("member engaged", member=spec.name)

    def _make_dialer(self, spec: MemberSpec) -> Dialer | ContextDialer:
        dialer: Dialer | ContextDialer
        if spec.context is not None:
            dialer = ContextDialer(spec.name, spec.context, connect=self._connect_by_context)
        else:
            dialer = (Dialer if spec.cluster_id else SecretDialer)(
                cluster_id=spec.cluster_id,
                name=spec.name,
                credentials=spec.ways[0],
                others=spec.ways[1:],
                connect_peer=self._connect,
                relayed=_NoRelayed(),
            )
        if isinstance(dialer, ContextDialer | SecretDialer):
            dialer.identity.on_replaced = functools.partial(self._replace, spec.name)
        return dialer

    def _keep(self, engaged: _Engaged, spec: MemberSpec) -> None:
        if engaged.leaves is not None:
            engaged.leaves.cancel()
            engaged.leaves = None
        dialer = engaged.connection.dialer
        if spec.ways and spec.ways != engaged.spec.ways and isinstance(dialer, Dialer):
            dialer.set_credentials(spec.name, spec.ways[0], spec.ways[1:])
        if _can_read(spec):
            engaged.spec = spec

    def _let_leave(self, name: str) -> None:
        engaged = self._engaged[name]
        if engaged.leaves is None:
            engaged.leaves = asyncio.get_running_loop().call_later(LEAVES_AFTER_S, self._end_absence, name)

    def _end_absence(self, name: str) -> None:
        """Let a member leave that was missing for long; not while its source is silent, where it may be back."""
        if self.problem:
            self._engaged[name].leaves = None
            self._let_leave(name)
        else:
            self._leave(name, _MISSING)

    def _replace(self, name: str, reason: str) -> None:
        """Engage the cluster anew that a name leads to: it is another one than before, which has left."""
        engaged = self._engaged[name]
        self._leave(name, reason)
        if engaged.leaves is None:
            self._engage(engaged.spec)

    def _leave(self, name: str, reason: str) -> None:
        """Disengage a member for good: its objects are gone for the watches."""
        for stream in self._engaged[name].connection.streams.values():
            stream.end(reason)
        self._disengage(name)
        log.info("member has left", member=name, reason=reason)

    def _disengage(self, name: str) -> None:
        engaged = self._engaged.pop(name)
        if engaged.leaves is not None:
            engaged.leaves.cancel()
        engaged.task.cancel()


async def _run(connection: MemberConnection) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await connection.run()


def _can_read(spec: MemberSpec) -> bool:
    return spec.context is not None or bool(spec.ways)


def _is_another(before: MemberSpec, now: MemberSpec) -> bool:
    """Return whether a name stands for another cluster now."""
    return (before.cluster_id, before.context) != (now.cluster_id, now.context)


def _context(kubeconfig: Path | str | None, context: str | None) -> Context:
    return Context(Path(kubeconfig) if kubeconfig is not None else None, context)
