"""Sources of members: contexts of a kubeconfig, Secrets with kubeconfigs, or the Clusters of a group.

Law: a source only reports which members there are, and how they are reached; `group.py` engages them.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeVar

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import Forbidden, InvalidKubeconfig, InvalidObject, ProtocolError, RegistryError
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

_T = TypeVar("_T")
_UNKNOWN: Final = ClusterUID("")
SECRET_LABEL: Final = f"{meta.MULTICLUSTER_RUNTIME_LABEL}=true"
"""The label by which multicluster-runtime finds the Secrets of members."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member, and how it is reached: over a context, or over `ways`, in their order.

    A member without either cannot be reached now; `problem` is why. One with a `cluster_id` must be that cluster.
    `aliases` are the names of other Clusters with its ID. With `is_disputed`, several Clusters have the ID of a peer:
    they may lead to clones, also where the daemon has not found that, or not yet.
    """

    name: str
    cluster_id: ClusterUID = _UNKNOWN
    context: Context | None = None
    ways: tuple[Credentials, ...] = ()
    is_local: bool = False
    problem: str = ""
    aliases: frozenset[str] = frozenset()
    is_disputed: bool = False


Found = Callable[[Mapping[str, MemberSpec]], None]
"""Called with all members by name, each time that something about them changed."""


class MemberSource(Protocol):
    """Finds the members of a group. `problem` is why they are not known, or may be out of date."""

    @property
    def problem(self) -> str: ...

    async def run(self, found: Found) -> None:
        """Report the members until cancelled, or for good."""


class ContextSource:
    """The clusters of contexts: they are members for good. A member has the name of its context.

    `local` is the name of the context of the local cluster, empty for the current one; None without one.
    """

    problem: Final = ""

    def __init__(self, contexts: Sequence[Context], *, local: str | None = None) -> None:
        self._contexts = contexts
        self._local = local

    async def run(self, found: Found) -> None:
        """Report the members once."""
        names = {context.name or "": context for context in self._contexts}
        found({
            name: MemberSpec(name, context=context, is_local=name == self._local) for name, context in names.items()
        })  # fmt: skip


class _HomeCache(EventHandler, Generic[_T]):
    """The objects of a kind in the local cluster, as `read` returns them.

    For one that cannot be read, `read` raises InvalidObject or ProtocolError. Such an object is there: it stays in
    `found` as it was when it could be read, and is in `unreadable` with the reason where it never could.

    `changed` is called at each change from the first complete list on, and `reset` when the history of the cluster is
    another one, until the next list is complete. `problem` is why the changes do not come.
    """

    def __init__(
        self,
        read: Callable[[PartialObject], _T],
        changed: Callable[[], None],
        reset: Callable[[], None] = lambda: None,
    ) -> None:
        self.found: dict[ObjectKey, _T] = {}
        self.unreadable: dict[ObjectKey, str] = {}
        self.is_listed = False
        self.problem = ""
        self._read = read
        self._changed = changed
        self._reset = reset

    def on_object(self, obj: PartialObject) -> None:
        try:
            self.found[obj.key] = self._read(obj)
            self.unreadable.pop(obj.key, None)
        except (InvalidObject, ProtocolError) as error:
            if obj.key in self.found:
                log.warning("member stays as it was described before", member=obj.key.name, error=str(error))
            else:
                self.unreadable[obj.key] = str(error)
        self._report()

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        self.found.pop(key, None)
        self.unreadable.pop(key, None)
        self._report()

    def on_synced(self, revision: int) -> None:
        self.problem, self.is_listed = "", True
        self._report()

    def on_reset(self) -> None:
        self.is_listed = False
        self._reset()

    def on_error(self, error: RegistryError) -> None:
        problem = str(_with_grant(error))
        if problem != self.problem:
            log.warning("members cannot be read", error=problem)
        self.problem = problem

    def on_recovered(self) -> None:
        self.problem = ""

    def _report(self) -> None:
        if self.is_listed:
            self._changed()


class LocalWatches:
    """Watches over one connection to the local cluster, which renews its credentials itself."""

    def __init__(self, scope: asyncio.TaskGroup, reader: Reader) -> None:
        self._scope = scope
        self._reader = reader
        self._discovery = Discovery(reader)

    def watch(self, kind: meta.GVK, selection: Selection, handler: EventHandler) -> asyncio.Task[Any]:
        """Follow a kind in a task of its own."""
        reflector = Reflector(
            reader=self._reader, discovery=self._discovery, scope=WatchScope(kind, selection), handler=handler
        )
        return self.start(reflector.run(), name=f"home {kind.kind} {selection}")

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start a task that ends with the watches."""
        return self._scope.create_task(work, name=name)


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
        self._secrets = _HomeCache(_read_member, self._tell)
        self._found: Found = _ignore

    @property
    def problem(self) -> str:
        """Return why the Secrets cannot be read; empty without a problem."""
        return self._secrets.problem

    async def run(self, found: Found) -> None:
        """Report the members at each change of a Secret."""
        self._found = found
        reader = await self._connect(self._home)
        try:
            async with asyncio.TaskGroup() as scope:
                LocalWatches(scope, reader).watch(meta.SECRET, self._selection, self._secrets)
        finally:
            await reader.close()

    def _tell(self) -> None:
        self._found({spec.name: spec for spec in self._secrets.found.values()})


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
        self._clusters = _HomeCache(_read_cluster, self._tell, self._forget_local)
        self._credentials = CredentialStore(on_change=lambda _: self._tell(), explain=_with_grant)
        self._local = _UNKNOWN
        self._local_problem = ""
        self._found: Found = _ignore
        self._watched: dict[str, asyncio.Task[Any]] = {}
        self._specs: dict[str, MemberSpec] = {}
        self._read_local: Callable[[], None] = lambda: None
        self._watch_secrets: Callable[[str], asyncio.Task[Any]]

    @property
    def problem(self) -> str:
        """Return why the Clusters, or the ID of the local cluster, cannot be read; empty without a problem."""
        return self._clusters.problem or self._local_problem

    async def run(self, found: Found) -> None:
        """Report the members at each change of a Cluster or a Secret."""
        reader = await self._connect(self._home)
        try:
            async with asyncio.TaskGroup() as scope:
                home = LocalWatches(scope, reader)

                def read_local() -> None:
                    home.start(self._learn_local(reader), name="local ID")

                self._read_local = read_local
                self._watch_secrets = lambda namespace: home.watch(
                    meta.SECRET,
                    Selection(namespace, "", f"type={meta.REGISTRY_SECRET_TYPE}"),
                    self._credentials.handler(namespace),
                )
                self._found = found
                await self._learn_local(reader)
                home.watch(meta.CLUSTER, EVERYTHING, self._clusters)
        finally:
            self._found, self._read_local = _ignore, lambda: None
            await reader.close()

    async def _learn_local(self, reader: Reader) -> None:
        self._local = await until_answered(lambda: self._ask_local(reader), what="the ID of the local cluster")
        self._tell()

    async def _ask_local(self, reader: Reader) -> ClusterUID:
        try:
            found = await _read_local_id(reader)
        except RegistryError as error:
            self._local_problem = str(error)
            raise
        self._local_problem = ""
        return found

    def _forget_local(self) -> None:
        """Read the ID of the local cluster again: it may have been rebuilt."""
        self._local = _UNKNOWN
        self._read_local()

    def _tell(self) -> None:
        if not (self._clusters.is_listed and self._local):
            return
        clusters = self._clusters.found.values()
        for namespace in {cluster.secret.namespace for cluster in clusters if cluster.secret}:
            if namespace not in self._watched:
                self._watched[namespace] = self._watch_secrets(namespace)
        by_id = sort_by_id(clusters)
        resolved = self._resolve(by_id)
        if not self._specs and any(found.waiting for found in resolved.values()):
            return  # the first answer is a whole one
        described = {name: self._describe(found, local=self._local) for name, found in resolved.items()}
        aliases: dict[str, set[str]] = collections.defaultdict(set)
        for name, found in resolved.items():
            if found.alias_of and not found.disabled:
                aliases[found.alias_of].add(name)
        disputed = {cluster for cluster, same in by_id.items() if len(same) > 1} - {self._local}
        self._specs = {
            name: replace(spec, aliases=frozenset(aliases[name]), is_disputed=spec.cluster_id in disputed)
            for name, spec in described.items()
            if spec is not None
        }
        unreadable = {
            key.name: MemberSpec(key.name, problem=f"Cluster {key.name} cannot be read: {error}")
            for key, error in self._clusters.unreadable.items()
        }
        self._found({**unreadable, **self._specs})

    def _resolve(self, by_id: Mapping[ClusterUID, list[Cluster]]) -> Mapping[str, ResolvedCluster]:
        secrets = {cluster.secret for same in by_id.values() for cluster in same if cluster.secret is not None}
        known = {key: self._credentials.find(key) for key in secrets}
        return resolve_clusters(
            ResolverInputs(
                local=self._local,
                network_name=self._network_name,
                clusters=by_id,
                credentials={key: one for key, one in known.items() if one is not None},
                clones=CloneState(clones=_find_clones(by_id)),
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


def _find_clones(clusters: Mapping[ClusterUID, Sequence[Cluster]]) -> Mapping[ClusterUID, frozenset[str]]:
    """Return the uids of the Clusters, by ID, of which the daemon has found that they lead to several API servers."""
    return {
        cluster_id: frozenset(cluster.uid for cluster in same)
        for cluster_id, same in clusters.items()
        if len(same) > 1 and any(cluster.contested for cluster in same)
    }


async def _read_local_id(reader: Reader) -> ClusterUID:
    try:
        return await read_cluster_id(reader)
    except Forbidden as error:
        raise _with_grant(error) from None


def _with_grant(error: RegistryError) -> RegistryError:
    """Return an error of the local cluster; for a right that is missing, with the account that needs it."""
    if not (isinstance(error, Forbidden) and error.lacks_right):
        return error
    words = f"{error}; grant it to the account of this program, by a Role or ClusterRole in this cluster"
    return Forbidden(words, lacks_right=True)


def _read_cluster(obj: PartialObject) -> Cluster:
    return read_cluster(decode_manifest(obj.raw))


def _ignore(_: Mapping[str, MemberSpec]) -> None:
    """Report the members to no function, before and after a run."""
