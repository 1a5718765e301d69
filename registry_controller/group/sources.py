"""Sources of members: contexts of a kubeconfig, Secrets with kubeconfigs, or the Clusters of a group.

Law: a source only reports which members there are, and how they are reached; `group.py` engages them.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import InvalidKubeconfig, InvalidObject, ProtocolError, RegistryError
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.credentials import CredentialStore
from registry_controller.clusters.clones import CloneState
from registry_controller.clusters.resolver import ResolvedCluster, ResolverInputs, resolve_clusters, sort_by_id
from registry_controller.group.dialers import ConnectContext, Context, connect_context
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.kubeconfig import Credentials, read_secret
from registry_controller.kube.object import PartialObject, decode_manifest
from registry_controller.kube.watch import read_cluster_id
from registry_controller.report.logs import get_logger
from registry_controller.watch.event_handler import EventHandler
from registry_controller.watch.reflector import Reflector, WatchScope
from registry_controller.watch.retry import until_answered

log = get_logger(__name__)

_UNKNOWN: Final = ClusterUID("")
SECRET_LABEL: Final = f"{meta.MULTICLUSTER_RUNTIME_LABEL}=true"
"""The label by which multicluster-runtime finds the Secrets of members."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member, and how it is reached: over a context, or over `ways`, in their order.

    A member without either cannot be reached now; `problem` is why. One with a `cluster_id` must be that cluster.
    """

    name: str
    cluster_id: ClusterUID = _UNKNOWN
    context: Context | None = None
    ways: tuple[Credentials, ...] = ()
    is_local: bool = False
    problem: str = ""


Found = Callable[[Mapping[str, MemberSpec]], None]
"""Called with all members by name, each time that something about them changed."""


class MemberSource(Protocol):
    """Finds the members of a group. `problem` is why they are not known, or may be out of date."""

    @property
    def problem(self) -> str: ...

    async def run(self, found: Found) -> None:
        """Report the members until cancelled, or for good."""


class ContextSource:
    """The clusters of contexts: they are members for good. A member has the name of its context."""

    problem: Final = ""

    def __init__(self, contexts: Sequence[Context]) -> None:
        self._contexts = contexts

    async def run(self, found: Found) -> None:
        """Report the members once."""
        found({context.name or "": MemberSpec(context.name or "", context=context) for context in self._contexts})


class _Change(NamedTuple):
    """A change in a watch of the local cluster: an object, or the deletion of a key; None at the end of a list."""

    key: ObjectKey | None
    obj: PartialObject | None


class _HomeHandler(EventHandler):
    """Passes the changes of a watch to a function; `problem` is why they do not come."""

    def __init__(self, take: Callable[[_Change], None]) -> None:
        self.problem = ""
        self._take = take

    def on_object(self, obj: PartialObject) -> None:
        self._take(_Change(obj.key, obj))

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        self._take(_Change(key, None))

    def on_synced(self, revision: int) -> None:
        self.problem = ""
        self._take(_Change(None, None))

    def on_error(self, error: RegistryError) -> None:
        self.problem = str(error)
        log.warning("members cannot be read", error=str(error))

    def on_recovered(self) -> None:
        self.problem = ""


class _Home:
    """The watches of the cluster that describes the group. Connections renew their credentials themselves."""

    def __init__(self, scope: asyncio.TaskGroup, reader: Reader) -> None:
        self._scope = scope
        self._reader = reader
        self._discovery = Discovery(reader)

    def watch(self, kind: meta.GVK, selection: Selection, handler: EventHandler) -> asyncio.Task[Any]:
        """Follow a kind in a task of its own."""
        reflector = Reflector(
            reader=self._reader, discovery=self._discovery, scope=WatchScope(kind, selection), handler=handler
        )
        return self._scope.create_task(reflector.run(), name=f"home {kind.kind} {selection}")


class SecretSource:
    """The clusters of Secrets that have a label: each holds a kubeconfig under the key `kubeconfig`.

    A member has the name of its Secret. A kubeconfig is read as strictly as that of a Cluster.
    """

    def __init__(
        self, home: Context, *, namespace: str, label_selector: str, connect: ConnectContext = connect_context
    ) -> None:
        self._home = home
        self._connect = connect
        self._selection = Selection(namespace, label_selector)
        self._handler: _HomeHandler | None = None
        self._found: dict[str, MemberSpec] = {}
        self._is_listed = False

    @property
    def problem(self) -> str:
        """Return why the Secrets cannot be read; empty without a problem."""
        return self._handler.problem if self._handler is not None else ""

    async def run(self, found: Found) -> None:
        """Report the members at each change of a Secret."""
        reader = await self._connect(self._home)
        try:
            async with asyncio.TaskGroup() as scope:
                self._handler = _HomeHandler(lambda change: self._take(change, found))
                _Home(scope, reader).watch(meta.SECRET, self._selection, self._handler)
        finally:
            await reader.close()

    def _take(self, change: _Change, found: Found) -> None:
        if change.key is None:
            self._is_listed = True
        elif change.obj is None:
            self._found.pop(change.key.name, None)
        else:
            self._found[change.key.name] = _read_member(change.obj)
        if self._is_listed:
            found(dict(self._found))


def _read_member(obj: PartialObject) -> MemberSpec:
    try:
        data = decode_manifest(obj.raw).get("data") or {}
        credentials = read_secret(secret_type=meta.REGISTRY_SECRET_TYPE, data=data)
    except (InvalidKubeconfig, ProtocolError) as error:
        return MemberSpec(obj.key.name, problem=f"Secret {obj.key}: {error}")
    return MemberSpec(obj.key.name, ways=(credentials,))


class ClusterSource:
    """The members of a group, as the Clusters and Secrets of one of its clusters describe them.

    Both spread by the daemons; this reads one cluster alone. A member has the name of its Cluster.
    """

    def __init__(self, home: Context, *, network_name: str, connect: ConnectContext = connect_context) -> None:
        self._home = home
        self._connect = connect
        self._network_name = network_name
        self._clusters: dict[str, Cluster] = {}
        self._credentials = CredentialStore(on_change=lambda _: self._resolve())
        self._is_listed = False
        self._handler = _HomeHandler(self._take)
        self._tell: Callable[[], None] = lambda: None
        self._watched: dict[str, asyncio.Task[Any]] = {}
        self._specs: dict[str, MemberSpec] = {}

    @property
    def problem(self) -> str:
        """Return why the Clusters cannot be read; empty without a problem."""
        return self._handler.problem

    async def run(self, found: Found) -> None:
        """Report the members at each change of a Cluster or a Secret."""
        reader = await self._connect(self._home)
        try:
            local = await until_answered(lambda: read_cluster_id(reader), what="the ID of the local cluster")
            async with asyncio.TaskGroup() as scope:
                home = _Home(scope, reader)
                self._tell = lambda: self._tell_of(home, found, local=local)
                home.watch(meta.CLUSTER, EVERYTHING, self._handler)
        finally:
            self._tell = lambda: None
            await reader.close()

    def _take(self, change: _Change) -> None:
        if change.key is None:
            self._is_listed = True
        elif change.obj is None:
            self._clusters.pop(change.key.name, None)
        else:
            try:
                self._clusters[change.key.name] = read_cluster(decode_manifest(change.obj.raw))
            except (InvalidObject, ProtocolError) as error:
                log.warning("a Cluster cannot be read", cluster=change.key.name, error=str(error))
                self._clusters.pop(change.key.name, None)
        self._resolve()

    def _resolve(self) -> None:
        if self._is_listed:
            self._tell()

    def _tell_of(self, home: _Home, found: Found, *, local: ClusterUID) -> None:
        for namespace in {cluster.secret.namespace for cluster in self._clusters.values() if cluster.secret}:
            if namespace not in self._watched:
                selection = Selection(namespace, "", f"type={meta.REGISTRY_SECRET_TYPE}")
                handler = self._credentials.handler(namespace)
                self._watched[namespace] = home.watch(meta.SECRET, selection, handler)
        specs: dict[str, MemberSpec] = {}
        found_here = self._find_all(local)
        if not self._specs and any(resolved.waiting for resolved in found_here.values()):
            return  # the first answer is a whole one
        for name, resolved in found_here.items():
            spec = self._describe(resolved, local=local)
            if spec is not None:
                specs[name] = spec
        self._specs = specs
        found(specs)

    def _find_all(self, local: ClusterUID) -> Mapping[str, ResolvedCluster]:
        secrets = {cluster.secret for cluster in self._clusters.values() if cluster.secret is not None}
        known = {key: self._credentials.find(key) for key in secrets}
        return resolve_clusters(
            ResolverInputs(
                local=local,
                network_name=self._network_name,
                clusters=sort_by_id(self._clusters.values()),
                credentials={key: one for key, one in known.items() if one is not None},
                disputed_secrets=_find_disputed(self._clusters.values()),
                clones=CloneState(),
            )
        ).clusters

    def _describe(self, resolved: ResolvedCluster, *, local: ClusterUID) -> MemberSpec | None:
        """Return a member; None for a disabled Cluster, and for another name of a member."""
        cluster = resolved.cluster
        if resolved.disabled or resolved.alias_of:
            return None
        if cluster.cluster_id == local:
            return MemberSpec(cluster.name, local, context=self._home, is_local=True, problem=resolved.conflict)
        if resolved.waiting:
            return self._specs.get(cluster.name) or MemberSpec(cluster.name, cluster.cluster_id)
        problem = resolved.conflict or resolved.auth_problem or ("has no Secret" if resolved.missing_auth else "")
        return MemberSpec(cluster.name, cluster.cluster_id, ways=resolved.ways, problem=problem)


def _find_disputed(clusters: collections.abc.Iterable[Cluster]) -> Mapping[ObjectKey, tuple[str, ...]]:
    """Find the Secrets that Clusters of several members name, with the names of the Clusters."""
    named_by = collections.defaultdict[ObjectKey, list[Cluster]](list)
    for cluster in clusters:
        if cluster.secret is not None:
            named_by[cluster.secret].append(cluster)
    return {
        secret: tuple(sorted(cluster.name for cluster in named))
        for secret, named in named_by.items()
        if len({cluster.cluster_id for cluster in named}) > 1
    }
