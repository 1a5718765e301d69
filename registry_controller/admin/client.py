"""Reads and writes objects of one cluster for the user of a context; errors name the context and the next step.

Law: no message holds data · a missing object is None.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, NotFound, NotServed, ProtocolError, TooManyRequests
from registry_controller.api.meta import GVR, ClusterUID, Manifest, ObjectKey
from registry_controller.kube.discover import Discovery
from registry_controller.kube.watch import read_cluster_id
from registry_controller.kube.writer import Writer

T = TypeVar("T")

_MOST_TRIES: Final = 10
"""The number of tries where the API server asks to come later (429), as client-go has it."""
_REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Access(msgspec.Struct, frozen=True):
    """A right: a verb on a resource, in a namespace, or in all of them if that is empty."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        whole = f"{self.resource}.{self.group}" if self.group else self.resource
        part = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {whole}{part}{f' in namespace {self.namespace}' if self.namespace else ''}"


class SiteClient:
    """The connection to one cluster; `place` names it in messages, as `context a`."""

    def __init__(self, writer: Writer, *, place: str) -> None:
        self.place = place
        self._writer = writer

    @property
    def server(self) -> str:
        """The address of the connection."""
        return self._writer.server

    @property
    def ca_pem(self) -> str:
        """The CA of the connection as PEM; empty for the system's."""
        return self._writer.ca_pem

    @property
    def writer(self) -> Writer:
        """The connection itself."""
        return self._writer

    async def read_id(self) -> ClusterUID:
        """Read the ID of the cluster."""
        try:
            return await _patiently(lambda: read_cluster_id(self._writer))
        except Forbidden as error:
            raise self._forbidden(error, Access("get", "", "namespaces")) from error

    async def read_version(self) -> str:
        """Read the version of the API server."""
        return await _patiently(lambda: Discovery(self._writer).server_version())

    async def read(self, gvr: GVR, key: ObjectKey) -> Manifest | None:
        """Get one object; None when it does not exist."""
        try:
            return _decode(await _patiently(lambda: self._writer.get(gvr, key)), what=f"{gvr} {key}")
        except NotFound as error:
            if error.names_object:
                return None
            raise self._not_served(gvr) from error
        except Forbidden as error:
            raise self._forbidden(error, Access("get", gvr.group, gvr.resource, key.namespace)) from error

    async def list(self, gvr: GVR, *, namespace: str = "", labels: str = "", fields: str = "") -> Sequence[Manifest]:
        """List the objects of a kind that the selectors match."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = urlencode({name: value for name, value in selectors.items() if value})
        path = gvr.path(namespace) + (f"?{query}" if query else "")
        try:
            items = _decode(await _patiently(lambda: self._writer.get_path(path)), what=str(gvr)).get("items")
        except NotFound as error:
            raise self._not_served(gvr) from error
        except Forbidden as error:
            raise self._forbidden(error, Access("list", gvr.group, gvr.resource, namespace)) from error
        return [item for item in items or () if isinstance(item, dict)]

    async def create(self, gvr: GVR, manifest: Manifest) -> None:
        """Create an object. AlreadyExists where it is there."""
        namespace = str(meta.metadata_of(manifest).get("namespace", ""))
        try:
            await _patiently(lambda: self._writer.create(gvr, namespace, msgspec.json.encode(manifest)))
        except Forbidden as error:
            raise self._forbidden(error, Access("create", gvr.group, gvr.resource, namespace)) from error
        except NotFound as error:
            if namespace and error.details_kind == "namespaces":
                raise NotServed(
                    f"{self.place}: has no namespace {namespace}, where the Secret of the other cluster belongs; "
                    "install the chart in the same namespace in each cluster, or create it"
                ) from error
            raise self._not_served(gvr) from error

    async def replace(self, gvr: GVR, manifest: Manifest) -> None:
        """Replace an object; the manifest has the resourceVersion that was read."""
        key = _key(manifest)
        try:
            await _patiently(lambda: self._writer.replace(gvr, key, msgspec.json.encode(manifest)))
        except Forbidden as error:
            raise self._forbidden(error, Access("update", gvr.group, gvr.resource, key.namespace)) from error

    async def delete(self, gvr: GVR, manifest: Manifest) -> None:
        """Delete the object that was read; nothing happens where it is gone. Conflict when it has changed."""
        info, key = meta.metadata_of(manifest), _key(manifest)
        try:
            await _patiently(
                lambda: self._writer.delete(gvr, key, uid=info["uid"], resource_version=info["resourceVersion"])
            )
        except NotFound:
            return
        except Forbidden as error:
            raise self._forbidden(error, Access("delete", gvr.group, gvr.resource, key.namespace)) from error

    async def may(self, access: Access) -> bool:
        """Return whether the user of the connection has a right."""
        attributes = {name: value for name, value in msgspec.structs.asdict(access).items() if value}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        body = msgspec.json.encode(review)
        answer = _decode(await _patiently(lambda: self._writer.post_path(_REVIEW, body)), what=_REVIEW)
        status = answer.get("status")
        return isinstance(status, Mapping) and status.get("allowed") is True

    async def close(self) -> None:
        """Close the connection."""
        await self._writer.close()

    def _not_served(self, gvr: GVR) -> NotServed:
        advice = "; install the chart there first" if gvr.group == meta.GROUP else ""
        return NotServed(f"{self.place}: does not serve {gvr}{advice}")

    def _forbidden(self, error: Forbidden, access: Access) -> Forbidden:
        if not error.lacks_right:
            return error
        return Forbidden(
            f"{self.place}: your user may not {access}; grant it to that user, or name another --context",
            status=error.status,
            reason=error.reason,
        )


async def _patiently(request: Callable[[], Awaitable[T]]) -> T:
    """Send a request, and again when the API server asks for that: it does while it prepares a new definition."""
    for _ in range(_MOST_TRIES - 1):
        try:
            return await request()
        except TooManyRequests as error:
            await asyncio.sleep(error.retry_after_s or 1.0)
    return await request()


def _key(manifest: Manifest) -> ObjectKey:
    info = meta.metadata_of(manifest)
    return ObjectKey(info.get("namespace", ""), info["name"])


def _decode(body: bytes, *, what: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ProtocolError(f"{what}: the answer is not a JSON object")
    return found
