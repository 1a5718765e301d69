"""Deletes objects of the local cluster whose owners at members are gone, as the garbage collector does in one cluster.

Laws: an object goes only after its owner's member has answered that the owner is gone, in the moment before · an event
of an owner, also its DELETED, is only the occasion to ask · an object whose owner's member is silent, refuses, has left
or is not known is kept · an object is deleted only in the state in which its mark was read · at most half of the
objects of one cluster's owners go within five minutes, 50 are always free; beyond that a person allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from registry_controller.api.meta import ClusterUID
from registry_controller.api.selection import Selection
from registry_controller.group.arguments import check_resource, check_selection
from registry_controller.group.collection_limits import CollectionHalt
from registry_controller.group.collector_run import AnotherCluster, CollectedGroup, CollectorRun, Listener, OwnedKind
from registry_controller.group.engagements import Engagements
from registry_controller.group.local_access import LocalAccess
from registry_controller.group.objects import Key
from registry_controller.group.streams import StreamRequest
from registry_controller.report.logs import get_logger
from registry_controller.watch.retry import until_answered

log = get_logger(__name__)


class Collector:
    """The collector of a group. It runs while the group does."""

    def __init__(self, group: CollectedGroup, members: Engagements, access: LocalAccess) -> None:
        self._group = group
        self._members = members
        self._access = access
        self._owners: dict[StreamRequest, None] = {}
        self._kinds: dict[OwnedKind, None] = {}
        self._listeners: list[Listener] = []
        self._run: CollectorRun | None = None

    @property
    def problem(self) -> str:
        """Return why objects that are to go may stay; empty without a problem."""
        problems = self._run.problems if self._run is not None else {}
        return "; ".join(f"{what} cannot be read: {reason}" for what, reason in sorted(problems.items()))

    @property
    def halts(self) -> Mapping[ClusterUID, CollectionHalt]:
        """Return the halts, by the ID of the cluster of the owners."""
        return self._run.halts if self._run is not None else {}

    @property
    def kept(self) -> Mapping[str, str]:
        """Return the objects whose owner may be gone and that are kept, each with the reason."""
        return self._run.kept if self._run is not None else {}

    def owns(
        self, resource: str, *, owners: Iterable[StreamRequest], namespace: str = "", label_selector: str = ""
    ) -> None:
        """Collect the marked objects of a kind; `owners` are watches that show their owners.

        InvalidObject for a wrong argument.
        """
        check_resource(resource)
        selection = Selection(namespace, label_selector)
        check_selection(selection)
        for request in owners:
            if request not in self._owners:
                self._owners[request] = None
                if self._run is not None:
                    self._run.follow_owners(request)
        kind = OwnedKind(resource, selection)
        if kind not in self._kinds:
            self._kinds[kind] = None
            if self._run is not None:
                self._run.follow_owned(kind)

    def on_owned(self, call: Callable[[Key], None], *, resource: str, owners: Iterable[StreamRequest]) -> None:
        """Call a function with the key of the owner of each owned object of a kind that changes.

        `owners` are watches that show the owners: the function gets no key of another kind, or of a namespace that
        none of them has.
        """
        self._listeners.append(Listener(call, resource, tuple(owners)))

    async def run(self) -> None:
        """Collect until cancelled; from the beginning where the local cluster is another one."""
        while True:
            cluster = await until_answered(self._access.cluster_id, what="the ID of the local cluster")
            run = self._run = CollectorRun(
                self._group, self._members, self._access, cluster=cluster, listeners=self._listeners
            )
            try:
                await run.run(owners=self._owners, kinds=self._kinds)
            except* AnotherCluster:
                log.warning("local cluster is another one", before=cluster)
                self._run = None
                run.report_all()  # the objects here are gone
