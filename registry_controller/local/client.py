"""Reads and writes objects in the local cluster; errors are sentences for people.

Law: a missing object is None; a missing right is reported with its verb, its resource and the way to grant it; no
message holds data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, NotFound, NotServed, ProtocolError
from registry_controller.api.meta import GVR, Manifest, ObjectKey
from registry_controller.kube.writer import LocalWriter
from registry_controller.report.reasons import describe_grant

SERVICE_ACCOUNTS: Final = GVR("", "v1", "serviceaccounts", True)


class LocalClient:
    """Reads and writes objects in the local cluster."""

    def __init__(self, writer: LocalWriter) -> None:
        self._writer = writer

    @property
    def ca_pem(self) -> str:
        """The CA of the connection as PEM; empty when it uses the system's."""
        return self._writer.ca_pem

    @property
    def server(self) -> str:
        """The address of the connection."""
        return self._writer.server

    async def read(self, gvr: GVR, key: ObjectKey) -> Manifest | None:
        """Get one object; None when the API server reports that it does not exist."""
        try:
            return _decode(await self._writer.get(gvr, key), what=f"{gvr} {key}")
        except NotFound as error:
            if error.names_object:
                return None
            raise _not_served(gvr) from error
        except Forbidden as error:
            raise _forbidden(error, verb="get", gvr=gvr, namespace=key.namespace) from error

    async def list(self, gvr: GVR, *, namespace: str = "", fields: str = "") -> Sequence[Manifest]:
        """List all objects of a kind, or those that a field selector matches."""
        path = gvr.path(namespace) + (f"?fieldSelector={quote(fields, safe='')}" if fields else "")
        try:
            items = _decode(await self._writer.get_path(path), what=str(gvr)).get("items")
        except NotFound as error:
            raise _not_served(gvr) from error
        except Forbidden as error:
            raise _forbidden(error, verb="list", gvr=gvr, namespace=namespace) from error
        return [item for item in items or () if isinstance(item, dict)]

    async def read_path(self, path: str) -> Manifest:
        """Get a document that is not an object, such as `/api`."""
        return _decode(await self._writer.get_path(path), what=path)

    async def create(self, gvr: GVR, manifest: Manifest) -> Manifest:
        """Create an object and return it as stored."""
        key = _key(manifest)
        try:
            stored = await self._writer.create(gvr, key.namespace, msgspec.json.encode(manifest))
        except Forbidden as error:
            raise _forbidden(error, verb="create", gvr=gvr, namespace=key.namespace) from error
        return _decode(stored, what=f"{gvr} {key}")

    async def replace(self, gvr: GVR, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Replace an object and return it as stored; the manifest has the resourceVersion that was read."""
        key = _key(manifest)
        try:
            stored = await self._writer.replace(gvr, key, msgspec.json.encode(manifest), dry_run=dry_run)
            return _decode(stored, what=f"{gvr} {key}")
        except Forbidden as error:
            raise _forbidden(error, verb="update", gvr=gvr, namespace=key.namespace) from error

    async def replace_status(self, gvr: GVR, manifest: Manifest) -> None:
        """Replace the status of an object; the manifest has the resourceVersion that was read."""
        key = _key(manifest)
        try:
            await self._writer.replace(gvr, key, msgspec.json.encode(manifest), dry_run=False, subresource="status")
        except Forbidden as error:
            status = gvr._replace(resource=f"{gvr.resource}/status")
            raise _forbidden(error, verb="update", gvr=status, namespace=key.namespace) from error

    async def delete(self, gvr: GVR, manifest: Manifest) -> None:
        """Delete the object that was read; do nothing when it does not exist any more."""
        key, info = _key(manifest), meta.metadata_of(manifest)
        try:
            await self._writer.delete(gvr, key, uid=info["uid"], resource_version=info["resourceVersion"])
        except NotFound:
            return
        except Forbidden as error:
            raise _forbidden(error, verb="delete", gvr=gvr, namespace=key.namespace) from error

    async def request_token(self, account: ObjectKey, spec: Mapping[str, Any]) -> str:
        """Request a token of a ServiceAccount; `spec` is a TokenRequestSpec (authentication.k8s.io/v1)."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = SERVICE_ACCOUNTS.object_path(account, subresource="token")
        try:
            answer = _decode(await self._writer.post_path(path, msgspec.json.encode(request)), what=path)
        except Forbidden as error:
            gvr = SERVICE_ACCOUNTS._replace(resource="serviceaccounts/token")
            raise _forbidden(error, verb="create", gvr=gvr, namespace=account.namespace) from error
        status = answer.get("status")
        token = status.get("token") if isinstance(status, dict) else None
        if not isinstance(token, str) or not token:
            raise ProtocolError(f"{path}: the answer has no token")
        return token


def age(manifest: Manifest) -> tuple[str, str]:
    """Return a key that sorts objects from the oldest to the newest."""
    info = meta.metadata_of(manifest)
    return info.get("creationTimestamp") or "", info.get("name") or ""


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


def _not_served(gvr: GVR) -> NotServed:
    advice = "; apply the CustomResourceDefinitions of this release" if gvr.group == meta.GROUP else ""
    return NotServed(f"{gvr}: not served by this cluster{advice}")


def _forbidden(error: Forbidden, *, verb: str, gvr: GVR, namespace: str) -> Forbidden:
    if error.reason == "NamespaceTerminating":
        return error
    where = f" in namespace {namespace}" if namespace else ""
    return Forbidden(
        f"cannot {verb} {gvr}{where}: forbidden; {describe_grant(meta.CONTROLLER_AGGREGATED, place='here')}, "
        "as the chart does",
        status=error.status,
        reason=error.reason,
    )
