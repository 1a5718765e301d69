"""The connection of an operator to its local cluster, with the kinds that it has found there.

Laws: it connects at its first use · an object changes only in the state in which it was read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.errors import NotFound, NotServed
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey
from registry_controller.group.arguments import check_namespace, check_operator
from registry_controller.group.dialers import Context
from registry_controller.group.objects import LocalOrigin, Object, read_object
from registry_controller.group.ownership import Propagation
from registry_controller.kube.discover import Discovery
from registry_controller.kube.object import decode_object
from registry_controller.kube.patience import MOST_TRIES
from registry_controller.kube.writer import Writer, connect_local
from registry_controller.local.client import Access, ClusterClient
from registry_controller.report.events import EventRecorder

_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LAST_EVENTS_S: Final = 5.0

ConnectWriter = Callable[[Context], Awaitable[Writer]]
"""Opens a connection to the cluster of a context, for reading and writing."""


async def connect_writer(context: Context) -> Writer:
    """Connect to the cluster of a context; InvalidOption for a kubeconfig that cannot be used."""
    return await connect_local(kubeconfig=context.kubeconfig, context=context.name)


class _OperatorMessages:
    """Messages for the account of an operator."""

    place = ""

    def forbidden(self, verb: str, gvr: GVR, *, namespace: str, subresource: str) -> str:
        right = Access(verb, gvr.group, gvr.resource, namespace, subresource)
        return f"the operator may not {right}; grant that to its account by a Role or ClusterRole in this cluster"

    def not_served(self, gvr: GVR) -> str:
        return f"this cluster does not serve {gvr}; install its CustomResourceDefinition"


class Connected(NamedTuple):
    """The parts of a connection. `client` sends a request again where the API server asks to come later (429)."""

    writer: Writer
    client: ClusterClient
    discovery: Discovery


class LocalAccess:
    """The connection of an operator to the cluster of a context.

    `operator` is its name, which is the field manager of its writes. `namespace` is the operator's own; without one it
    is that of the Pod, or else `default`. InvalidObject for a wrong name.
    """

    def __init__(
        self,
        context: Context,
        *,
        operator: str,
        namespace: str = "",
        connect: ConnectWriter = connect_writer,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        check_operator(operator)
        if namespace:
            check_namespace(namespace, path="operator_namespace")
        self.operator = operator
        self.origin = LocalOrigin()
        self.namespace = namespace or _find_namespace(context)
        self.now = now
        self.events = EventRecorder(
            self, namespace=self.namespace, instance=os.environ.get("HOSTNAME") or operator, component=operator, now=now
        )
        self._context = context
        self._connect = connect
        self._connecting = asyncio.Lock()
        self._connected: Connected | None = None
        self._found: dict[str, tuple[GVK, GVR]] = {}

    async def run(self) -> None:
        """Write the Events, forever."""
        await self.events.run()

    async def close(self) -> None:
        """Write the last Events, and close the connection."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_EVENTS_S):
                await self.events.flush()
        if self._connected is not None:
            connected, self._connected = self._connected, None
            await connected.writer.close()

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[Connected]:
        """Connect at the first use; after an error for a kind or object that is missing, find the kinds again."""
        async with self._connecting:
            if self._connected is None:
                writer = await self._connect(self._context)
                client = ClusterClient(writer, messages=_OperatorMessages(), tries=MOST_TRIES)
                self._connected = Connected(writer, client, Discovery(writer))
        connected = self._connected
        try:
            yield connected
        except (NotServed, NotFound):
            self._found.clear()
            connected.discovery.invalidate()
            raise

    async def cluster_id(self) -> ClusterUID:
        """Read the ID of the cluster, the UID of its namespace kube-system: it may have been rebuilt."""
        async with self.use() as connected:
            found = await connected.client.read_id()
        if self.origin.cluster_id not in ("", found):
            self.origin = LocalOrigin()  # the objects that were read before are of another cluster
        self.origin.cluster_id = found
        return found

    async def find(self, resource: str) -> tuple[GVK, GVR]:
        """Find a kind by a word that kubectl takes; NotServed when no kind matches."""
        if resource not in self._found:
            async with self.use() as connected:
                self._found[resource] = await connected.discovery.find(resource)
        return self._found[resource]

    async def read_again(self, kind: GVK, key: ObjectKey, *, uid: str) -> Object | None:
        """Read an object again; None where it is gone, or was made again."""
        async with self.use() as connected:
            gvr = await connected.discovery.resolve(kind)
            body = await connected.client.read_bytes(gvr, key)
        found = self.decode(body, kind) if body is not None else None
        return found if found is not None and found.uid == uid else None

    async def delete(self, obj: Object, *, propagation: Propagation) -> None:
        """Delete an object in the state that was read; Conflict when it has changed."""
        async with self.use() as connected:
            gvr = await connected.discovery.resolve(obj.kind)
            await connected.client.delete(gvr, {"metadata": identity_of(obj)}, propagation=propagation)

    async def patch(self, obj: Object, info: Mapping[str, Any]) -> Object | None:
        """Merge metadata into an object in the state that was read; None when it is gone. Conflict when it changed."""
        async with self.use() as connected:
            gvr = await connected.discovery.resolve(obj.kind)
            patch = {"metadata": {**identity_of(obj), **info}}
            try:
                body = await connected.client.merge_patch(gvr, obj.key, patch, manager=self.operator)
            except NotFound:
                return None
        return self.decode(body, obj.kind)

    def decode(self, body: bytes, kind: GVK) -> Object:
        """Decode an object of the local cluster."""
        return read_object(decode_object(body, kind=kind), kind=kind, metadata_only=False, origin=self.origin)

    # For the recorder of Events.

    async def create(self, gvr: GVR, namespace: str, body: bytes) -> bytes:
        """Create an Event; return the stored bytes."""
        async with self.use() as connected:
            return await connected.writer.create(gvr, namespace, body)

    async def merge_patch(self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any]) -> bytes:
        """Merge `patch` into an Event; return the stored bytes."""
        async with self.use() as connected:
            return await connected.writer.merge_patch(gvr, key, patch, manager=self.operator)


def identity_of(obj: Object) -> dict[str, str]:
    """Return the metadata that names an object in one state."""
    info = meta.metadata_of(obj.manifest)
    return {name: info[name] for name in ("namespace", "name", "uid", "resourceVersion") if info.get(name)}


def _find_namespace(context: Context) -> str:
    """Return the namespace of the Pod for an operator that runs in its own cluster; `default` elsewhere."""
    if context == Context() and _POD_NAMESPACE.is_file():
        return _POD_NAMESPACE.read_text().strip()
    return "default"
