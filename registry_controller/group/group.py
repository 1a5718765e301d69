"""The group: engages its members, and gives their objects to watches and controllers.

Law: nothing but get, list and watch is sent to a member; `local` alone writes, to the local cluster.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from registry_controller.api.errors import InvalidOption
from registry_controller.api.selection import Selection
from registry_controller.group.arguments import (
    check_async,
    check_context_names,
    check_namespace,
    check_resource,
    check_selection,
    check_workers,
)
from registry_controller.group.collector import Collector
from registry_controller.group.controller import Call, Controller
from registry_controller.group.dialers import ConnectContext, Context, connect_context
from registry_controller.group.engagements import Engagements
from registry_controller.group.local import LocalObjects
from registry_controller.group.local_access import LocalAccess
from registry_controller.group.members import Member, MemberConnection
from registry_controller.group.sources import (
    SECRET_LABEL,
    ClusterSource,
    ContextSource,
    MemberSource,
    MemberSpec,
    SecretSource,
)
from registry_controller.group.streams import StreamRequest
from registry_controller.group.watching import NOT_ENGAGED, Watch
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.rest_config import check_contexts

if TYPE_CHECKING:
    from registry_controller.group.kopf_handlers import KopfHandlers


class Group(Mapping[str, Member]):
    """The members of a group by name, engaged while `async with` lasts.

    `async with` fails as a task group does: an error of the library itself, or of a controller, ends it.
    """

    def __init__(
        self,
        source: MemberSource,
        *,
        local: LocalAccess | None = None,
        connect: Callable[[Credentials], Reader] = connect_peer,
        connect_by_context: ConnectContext = connect_context,
    ) -> None:
        self._source = source
        self._access = local
        self._local = LocalObjects(local) if local is not None else None
        self._scope = asyncio.TaskGroup()
        self._engagements = Engagements(
            connect=connect, connect_by_context=connect_by_context, engaged=self._attach, problem=lambda: self.problem
        )
        self._watches: dict[Watch, StreamRequest] = {}
        self._is_known = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []
        self._collector: Collector | None = None
        self._was_entered = False

    @classmethod
    def from_cluster(
        cls,
        *,
        operator: str = "",
        operator_namespace: str = "",
        kubeconfig: Path | str | None = None,
        context: str | None = None,
        network_name: str = "default",
    ) -> Self:
        """Return the group of a cluster where a daemon runs, itself included.

        Without arguments it is the cluster of the Pod, or of the current context. `network_name` is as for the daemon.
        With `operator`, the name of the program, `group.local` writes to that cluster. `operator_namespace` is that of
        the Pod, or else `default`.
        """
        here = _context(kubeconfig, context)
        local = LocalAccess(here, operator=operator, namespace=operator_namespace) if operator else None
        return cls(ClusterSource(here, network_name=network_name), local=local)

    @classmethod
    def from_contexts(
        cls,
        contexts: Sequence[str],
        *,
        operator: str = "",
        operator_namespace: str = "",
        local_context: str | None = None,
        kubeconfig: Path | str | None = None,
    ) -> Self:
        """Return the clusters of contexts as a group, for people who have none yet.

        The empty context is the cluster of the Pod, or of the current context. InvalidOption for a context that the
        kubeconfig does not have, InvalidObject where `contexts` is not a list of names.

        With `operator`, `group.local` writes to the cluster of `local_context`. InvalidOption for one without the
        other.
        """
        check_context_names(contexts)
        local = _make_local(kubeconfig, local_context, operator=operator, namespace=operator_namespace)
        check_contexts(kubeconfig, [context for context in contexts if context])
        found = [_context(kubeconfig, context or None) for context in contexts]
        return cls(ContextSource(found, local=local_context), local=local)

    @classmethod
    def from_secrets(
        cls,
        *,
        namespace: str,
        label_selector: str = SECRET_LABEL,
        operator: str = "",
        operator_namespace: str = "",
        local_context: str | None = None,
        kubeconfig: Path | str | None = None,
        context: str | None = None,
    ) -> Self:
        """Return the clusters of Secrets with a label as a group; each holds a kubeconfig under `kubeconfig`.

        With `operator`, `group.local` writes to the cluster of `local_context`; the empty one is the cluster of the
        Pod, or of the current context. InvalidOption for one without the other. InvalidObject for a wrong namespace or
        selector.
        """
        check_namespace(namespace)
        check_selection(Selection(namespace, label_selector))
        local = _make_local(kubeconfig, local_context, operator=operator, namespace=operator_namespace)
        here = _context(kubeconfig, context)
        return cls(SecretSource(here, namespace=namespace, label_selector=label_selector), local=local)

    @functools.cached_property
    def kopf(self) -> KopfHandlers:
        """Return the handlers in kopf's style; the first use imports kopf."""
        from registry_controller.group.kopf_handlers import KopfHandlers  # noqa: PLC0415

        return KopfHandlers(self)

    @property
    def is_running(self) -> bool:
        """Return whether the members are engaged: inside of `async with`."""
        return bool(self._running)

    @property
    def unreadable(self) -> Mapping[str, str]:
        """Return the members that are described and cannot be reached, with the reasons."""
        return self._engagements.unreadable

    @property
    def local(self) -> LocalObjects:
        """Return the objects of the local cluster, to be written; InvalidOption for a group without an operator."""
        self._need_access()
        assert self._local is not None
        return self._local

    @property
    def collector(self) -> Collector:
        """Return what deletes local objects whose owners at members are gone; InvalidOption without an operator."""
        if self._collector is None:
            self._collector = Collector(self, self._engagements, self._need_access())
            if self._running:
                self._start_collector(self._collector)
        return self._collector

    async def __aenter__(self) -> Self:
        if self._was_entered:
            raise InvalidOption("a group is entered once: make another one with the same arguments")
        self._was_entered = True
        await self._scope.__aenter__()
        self._running.append(self._scope.create_task(self._source.run(self._set_members), name="members"))
        if self._access is not None:
            self._running.append(self._scope.create_task(self._access.run(), name="events"))
        if self._collector is not None:
            self._start_collector(self._collector)
        return self

    def _need_access(self) -> LocalAccess:
        if self._access is None:
            raise InvalidOption("group.local needs a name for the operator: give operator=NAME where the group is made")
        return self._access

    def _start_collector(self, collector: Collector) -> None:
        self._running.append(self._scope.create_task(collector.run(), name="collector"))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engagements.end()  # before the watches: no stream is to be divided for those that remain
        for watch in list(self._watches):
            watch.close()
        for task in self._running:
            task.cancel()
        self._running.clear()
        if self._access is not None:
            await self._access.close()
        if error is None or isinstance(error, asyncio.CancelledError):
            await self._scope.__aexit__(kind, error, trace)
        else:
            await self._scope.__aexit__(None, None, None)  # the user's own error is raised as it is, in no group

    def __getitem__(self, name: str) -> Member:
        engagement = self._engagements.by_name.get(name)
        if engagement is None:
            raise KeyError(f"{name} is no member, or has left: group.get(name) is None then")
        return engagement.member

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._engagements.by_name))

    def __len__(self) -> int:
        return len(self._engagements.by_name)

    @property
    def problem(self) -> str:
        """Return why the members are not known, or may be out of date; empty without a problem."""
        return self._source.problem

    async def wait_known(self) -> None:
        """Wait until it is known for the first time which members there are; they may not be connected yet.

        InvalidOption while the members are not engaged.
        """
        if not self.is_running:
            raise InvalidOption(NOT_ENGAGED)
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
        another version. Without `namespace`, all namespaces. InvalidObject for a wrong argument.
        """
        selection = Selection(namespace, label_selector, field_selector)
        return self._follow(StreamRequest(resource, selection, metadata_only), reads_caches=False)

    def _follow(self, request: StreamRequest, *, reads_caches: bool) -> Watch:
        check_resource(request.resource)
        watch = Watch(
            selection=request.selection,
            labels=check_selection(request.selection),
            reads_caches=reads_caches,
            is_engaged=lambda: self.is_running,
            ended=self._end_watch,
        )
        self._watches[watch] = request
        for engagement in self._engagements.by_name.values():
            engagement.connection.attach(watch, request)
        return watch

    def controller(self, reconcile: Call, *, workers: int = 4) -> Controller:
        """Return a controller, which calls `reconcile` with each key that its watches name; see `Controller`.

        `workers` is the number of keys of one member that run at once. InvalidObject for a wrong argument.
        """
        check_async(reconcile, path="reconcile")
        check_workers(workers)
        follow = functools.partial(self._follow, reads_caches=True)
        return Controller(self, reconcile, workers=workers, follow=follow)

    def _end_watch(self, watch: Watch) -> None:
        del self._watches[watch]
        for engagement in self._engagements.by_name.values():
            engagement.connection.detach(watch)

    def _set_members(self, found: Mapping[str, MemberSpec]) -> None:
        if not self._running:
            return  # the source ends some turns of the loop after the members
        self._engagements.set_members(found, self._scope)
        self._is_known.set()

    def _attach(self, connection: MemberConnection) -> None:
        """Pass the objects of a new member to the watches."""
        for watch, request in self._watches.items():
            connection.attach(watch, request)


def _context(kubeconfig: Path | str | None, context: str | None) -> Context:
    return Context(Path(kubeconfig) if kubeconfig is not None else None, context)


def _make_local(
    kubeconfig: Path | str | None, local_context: str | None, *, operator: str, namespace: str
) -> LocalAccess | None:
    if bool(operator) != (local_context is not None):
        raise InvalidOption("operator and local_context: give both, the name of the operator and where it writes")
    here = _context(kubeconfig, local_context or None)
    return LocalAccess(here, operator=operator, namespace=namespace) if operator else None
