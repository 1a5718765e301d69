"""Reads and writes objects of one cluster, for the daemon and for commands; errors are sentences for people.

Law: a missing object is None; a missing right is reported with its verb, its resource and the way to grant it; no
message holds data.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, InvalidObject, NotFound, NotServed, ProtocolError, RegistryError
from registry_controller.api.meta import GVR, ClusterUID, Manifest, ObjectKey
from registry_controller.kube.failures import POD
from registry_controller.kube.object import decode_object
from registry_controller.kube.patience import MOST_TRIES, patiently
from registry_controller.kube.writer import LocalWriter, Writer
from registry_controller.report.reasons import describe_grant

T = TypeVar("T")

SERVICE_ACCOUNTS: Final = GVR("", "v1", "serviceaccounts", True)
_KUBE_SYSTEM: Final = ObjectKey("", "kube-system")
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


class ClientMessages(Protocol):
    """The messages of a client for one kind of user. `place` names the cluster; empty where it is known."""

    place: str

    def forbidden(self, verb: str, gvr: GVR, *, namespace: str, subresource: str) -> str:
        """Return the message for a right that is missing."""

    def not_served(self, gvr: GVR) -> str:
        """Return the message for a kind that the cluster does not serve."""


class DaemonMessages:
    """Messages for the account of the daemon, whose rights come from the chart."""

    def __init__(self, place: str = "") -> None:
        self.place = place

    def forbidden(self, verb: str, gvr: GVR, *, namespace: str, subresource: str) -> str:
        full = gvr._replace(resource=f"{gvr.resource}/{subresource}") if subresource else gvr
        where = f" in namespace {namespace}" if namespace else ""
        grant = describe_grant(meta.CONTROLLER_AGGREGATED, place="here")
        return f"cannot {verb} {full}{where}: forbidden; {grant}, as the chart does"

    def not_served(self, gvr: GVR) -> str:
        advice = "; apply the CustomResourceDefinitions of this release" if gvr.group == meta.GROUP else ""
        return f"{gvr}: not served by this cluster{advice}"


class UserMessages:
    """Messages for the user of a context."""

    def __init__(self, place: str) -> None:
        self.place = place

    def forbidden(self, verb: str, gvr: GVR, *, namespace: str, subresource: str) -> str:
        right = Access(verb, gvr.group, gvr.resource, namespace, subresource)
        return f"{self.place}: your user may not {right}; grant it to that user, or name another --context"

    def not_served(self, gvr: GVR) -> str:
        advice = "; install the chart there first" if gvr.group == meta.GROUP else ""
        return f"{self.place}: does not serve {gvr}{advice}"


class ClusterClient:
    """Reads and writes objects of one cluster.

    A request is sent at most `tries` times where the API server answers 429. The daemon sends it once: its loops have
    their own pace. Commands use `command_client`.
    """

    def __init__(self, writer: LocalWriter, *, messages: ClientMessages | None = None, tries: int = 1) -> None:
        self._writer = writer
        self._messages = messages or DaemonMessages()
        self._tries = tries

    @property
    def place(self) -> str:
        """The name of the cluster in messages, as `context a`; empty for the daemon."""
        return self._messages.place

    @property
    def ca_pem(self) -> str:
        """The CA of the connection as PEM; empty when it uses the system's."""
        return self._writer.ca_pem

    @property
    def server(self) -> str:
        """The address of the connection."""
        return self._writer.server

    def explain(self, error: RegistryError) -> str:
        """Return the message of an error, with the name of the cluster before it."""
        text = str(error)
        return text if not self.place or text.startswith(self.place) else f"{self.place}: {text}"

    async def patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request of another kind with the patience of this client."""
        return await patiently(request, tries=self._tries)

    async def read_id(self) -> ClusterUID:
        """Read the ID of the cluster: the UID of its namespace kube-system."""
        return ClusterUID(decode_object(await self._get(meta.NAMESPACES, _KUBE_SYSTEM), kind=meta.NAMESPACE).uid)

    async def read(self, gvr: GVR, key: ObjectKey) -> Manifest | None:
        """Get one object; None when the API server reports that it does not exist."""
        found = await self.read_bytes(gvr, key)
        return _decode(found, what=f"{gvr} {key}") if found is not None else None

    async def read_bytes(self, gvr: GVR, key: ObjectKey) -> bytes | None:
        """Get one object as the API server sends it; None when the API server reports that it does not exist."""
        try:
            return await self._get(gvr, key)
        except NotFound:
            return None

    async def list(self, gvr: GVR, *, namespace: str = "", labels: str = "", fields: str = "") -> Sequence[Manifest]:
        """List the objects of a kind that the selectors match."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = urlencode({name: value for name, value in selectors.items() if value})
        path = gvr.path(namespace) + (f"?{query}" if query else "")
        try:
            found = await self._send(lambda: self._writer.get_path(path), "list", gvr, namespace)
        except NotFound as error:
            raise self._not_served(gvr) from error
        return [item for item in _decode(found, what=str(gvr)).get("items") or () if isinstance(item, dict)]

    async def read_path(self, path: str) -> Manifest:
        """Get a document that is not an object, such as `/api`."""
        return _decode(await self.patiently(lambda: self._writer.get_path(path)), what=path)

    async def create(self, gvr: GVR, manifest: Manifest) -> Manifest:
        """Create an object and return it as stored. AlreadyExists; NotFound where its namespace is missing."""
        key, body = _key(manifest), msgspec.json.encode(manifest)
        try:
            stored = await self._send(
                lambda: self._writer.create(gvr, key.namespace, body), "create", gvr, key.namespace
            )
        except NotFound as error:
            if key.namespace:
                raise
            raise self._not_served(gvr) from error
        return _decode(stored, what=f"{gvr} {key}")

    async def replace(self, gvr: GVR, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Replace an object and return it as stored; the manifest has the resourceVersion that was read."""
        key, body = _key(manifest), msgspec.json.encode(manifest)
        stored = await self._send(
            lambda: self._writer.replace(gvr, key, body, dry_run=dry_run), "update", gvr, key.namespace
        )
        return _decode(stored, what=f"{gvr} {key}")

    async def replace_status(self, gvr: GVR, manifest: Manifest) -> None:
        """Replace the status of an object; the manifest has the resourceVersion that was read."""
        key, body = _key(manifest), msgspec.json.encode(manifest)
        await self._send(
            lambda: self._writer.replace(gvr, key, body, dry_run=False, subresource="status"),
            "update", gvr, key.namespace, subresource="status",
        )  # fmt: skip

    async def merge_patch(
        self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any], *, manager: str = meta.FIELD_MANAGER
    ) -> bytes:
        """Merge `patch` into an object; return the stored bytes."""
        return await self._send(
            lambda: self._writer.merge_patch(gvr, key, patch, manager=manager), "patch", gvr, key.namespace
        )

    async def apply(self, gvr: GVR, manifest: Manifest, *, manager: str, force: bool, subresource: str = "") -> bytes:
        """Apply the fields of a manager (server-side apply); return the stored bytes.

        Conflict where another manager has another value, unless `force` takes the field over. InvalidObject for a value
        that is no JSON.
        """
        key, body = _key(manifest), _encode(manifest)
        return await self._send(
            lambda: self._writer.apply(gvr, key, body, manager=manager, force=force, subresource=subresource),
            "patch" if subresource else "create and patch", gvr, key.namespace, subresource=subresource,
        )  # fmt: skip

    async def delete(self, gvr: GVR, manifest: Manifest, *, propagation: str = "Background") -> None:
        """Delete the object that was read; nothing happens where it is gone. Conflict when it has changed."""
        key, info = _key(manifest), meta.metadata_of(manifest)
        try:
            await self._send(
                lambda: self._writer.delete(
                    gvr, key, uid=info["uid"], resource_version=info["resourceVersion"], propagation=propagation
                ),
                "delete", gvr, key.namespace,
            )  # fmt: skip
        except NotFound:
            return

    async def request_token(self, account: ObjectKey, spec: Mapping[str, Any]) -> str:
        """Request a token of a ServiceAccount; `spec` is a TokenRequestSpec (authentication.k8s.io/v1)."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path, body = SERVICE_ACCOUNTS.object_path(account, subresource="token"), msgspec.json.encode(request)
        answer = await self._send(
            lambda: self._writer.post_path(path, body),
            "create", SERVICE_ACCOUNTS, account.namespace, subresource="token",
        )  # fmt: skip
        status = _decode(answer, what=path).get("status")
        token = status.get("token") if isinstance(status, dict) else None
        if not isinstance(token, str) or not token:
            raise ProtocolError(f"{path}: the answer has no token")
        return token

    async def may(self, access: Access) -> bool:
        """Return whether the user of the connection has a right."""
        attributes = {name: value for name, value in msgspec.structs.asdict(access).items() if value}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        body = msgspec.json.encode(review)
        answer = _decode(await self.patiently(lambda: self._writer.post_path(_REVIEW, body)), what=_REVIEW)
        status = answer.get("status")
        return isinstance(status, Mapping) and status.get("allowed") is True

    async def _get(self, gvr: GVR, key: ObjectKey) -> bytes:
        """Get one object. NotFound when it does not exist, NotServed when its kind is not served."""
        try:
            return await self._send(lambda: self._writer.get(gvr, key), "get", gvr, key.namespace)
        except NotFound as error:
            if error.names_object:
                raise
            raise self._not_served(gvr) from error

    async def _send(
        self, request: Callable[[], Awaitable[T]], verb: str, gvr: GVR, namespace: str, *, subresource: str = ""
    ) -> T:
        """Send a request; Forbidden with the way to grant the right, where a right is missing."""
        try:
            return await self.patiently(request)
        except Forbidden as error:
            if not error.lacks_right:  # a quota, a webhook or a namespace that is being deleted
                raise
            message = self._messages.forbidden(verb, gvr, namespace=namespace, subresource=subresource)
            raise Forbidden(message, status=error.status, reason=error.reason) from error

    def _not_served(self, gvr: GVR) -> NotServed:
        return NotServed(self._messages.not_served(gvr))


def command_client(writer: Writer, *, context: str | None) -> ClusterClient:
    """Return the client of a command on the cluster of a context, None for the current one.

    In a Pod without a context the user is the account of the daemon.
    """
    is_pod = writer.source is POD
    place = f"context {context}" if context else "this cluster" if is_pod else "the current context"
    messages = DaemonMessages(place) if is_pod else UserMessages(place)
    return ClusterClient(writer, messages=messages, tries=MOST_TRIES)


def age(manifest: Manifest) -> tuple[str, str]:
    """Return a key that sorts objects from the oldest to the newest."""
    info = meta.metadata_of(manifest)
    return info.get("creationTimestamp") or "", info.get("name") or ""


def _key(manifest: Manifest) -> ObjectKey:
    info = meta.metadata_of(manifest)
    return ObjectKey(info.get("namespace", ""), info["name"])


def _encode(manifest: Manifest) -> bytes:
    try:
        return msgspec.json.encode(manifest)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = f"{error}" if isinstance(error, TypeError) else type(error).__name__  # a ValueError may quote data
        raise InvalidObject("manifest", f"has a value that is no JSON: {reason}") from None


def _decode(body: bytes, *, what: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ProtocolError(f"{what}: the answer is not a JSON object")
    return found
