"""The connection that writes to the local API server, and the interfaces that the writers get.

Law: only modules that import this one write, and the users of `local.client` through it (`hack/check` holds this);
a peer's connection is a Reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import msgspec

from registry_controller.api import meta
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.connect import Reader
from registry_controller.kube.failures import ConnectionSource
from registry_controller.kube.rest_config import connect_local_transport
from registry_controller.kube.translate import read_unknown_fields
from registry_controller.kube.transport import DRY_RUN

WRITING: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
DRY_RUNNING: Final = frozenset({"GET", f"PUT {DRY_RUN}", f"POST {DRY_RUN}"})
"""Reads, and dry runs of replacements and creations."""

_WRITE_S: Final = 30.0  # admission webhooks may take 10 s, and there may be several
_MANAGER: Final = f"?fieldManager={meta.FIELD_MANAGER}&fieldValidation=Ignore"
_WARNING: Final = f"?fieldManager={meta.FIELD_MANAGER}&fieldValidation=Warn"
_VERBS: Final = {"PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_MERGE_PATCH: Final = "application/merge-patch+json"
_APPLY_PATCH: Final = "application/apply-patch+yaml"
_BACKGROUND: Final = "Background"


class WriteClient(Protocol):
    """Writes to the local API server. Each answer is the stored object; None means that nothing was stored."""

    async def create(
        self, gvr: GVR, namespace: str, body: bytes, *, dry_run: bool = False, unknown: list[str] | None = None
    ) -> bytes | None:
        """Create an object; a dry run returns what would be stored. Fields without a schema are added to `unknown`."""

    async def replace(
        self,
        gvr: GVR,
        key: ObjectKey,
        body: bytes,
        *,
        dry_run: bool = False,
        subresource: str = "",
        unknown: list[str] | None = None,
    ) -> bytes | None:
        """Replace an object; a dry run returns what would be stored. Fields without a schema are added to `unknown`."""

    async def delete(self, gvr: GVR, key: ObjectKey, *, uid: str, resource_version: str) -> None:
        """Delete the object of that uid and resourceVersion."""


class EventWriter(Protocol):
    """Writes Events to the local API server."""

    async def create(self, gvr: GVR, namespace: str, body: bytes) -> bytes:
        """Create an object; return the stored bytes."""

    async def merge_patch(self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any]) -> bytes:
        """Merge `patch` into an object; return the stored bytes."""


class StatusClient(Protocol):
    """The client of the local API server."""

    async def patch_status(self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any]) -> bytes:
        """Merge `patch` into an object's status; return the stored object."""


class LocalWriter(Protocol):
    """The connection to the local cluster; bodies are JSON."""

    @property
    def ca_pem(self) -> str: ...

    @property
    def server(self) -> str: ...

    async def get(self, gvr: GVR, key: ObjectKey) -> bytes: ...

    async def get_path(self, path: str) -> bytes: ...

    async def create(self, gvr: GVR, namespace: str, body: bytes) -> bytes: ...

    async def replace(
        self, gvr: GVR, key: ObjectKey, body: bytes, *, dry_run: bool, subresource: str = ""
    ) -> bytes: ...

    async def delete(
        self, gvr: GVR, key: ObjectKey, *, uid: str, resource_version: str, propagation: str = _BACKGROUND
    ) -> object: ...

    async def apply(
        self, gvr: GVR, key: ObjectKey, body: bytes, *, manager: str, force: bool, subresource: str = ""
    ) -> bytes: ...

    async def merge_patch(
        self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any], *, manager: str = meta.FIELD_MANAGER
    ) -> bytes: ...

    async def post_path(self, path: str, body: bytes) -> bytes: ...


class Writer(Reader):
    """A connection to the local API server, with the right to write."""

    @property
    def source(self) -> ConnectionSource:
        """Return where a person changes how the server is reached."""
        return self._transport.source

    @property
    def ca_pem(self) -> str:
        """Return the certificate authorities that verify the server; empty for the system's."""
        return self._transport.ca_pem

    async def create(
        self, gvr: GVR, namespace: str, body: bytes, *, dry_run: bool = False, unknown: list[str] | None = None
    ) -> bytes:
        """Create an object; return the stored bytes. AlreadyExists, or NotFound with the kind `namespaces`.

        The fields that the server's schema lacks are added to `unknown`.
        """
        query = _query(dry_run=dry_run, unknown=unknown)
        path = gvr.path(namespace) + query
        what = f"create {gvr}{f' in {namespace}' if namespace else ''}"
        warnings: list[str] | None = None if unknown is None else []
        raw = await self._transport.send(
            "POST", path, what=what, timeout_s=_WRITE_S, gvr=gvr, body=body, warnings=warnings
        )
        if unknown is not None:
            unknown += read_unknown_fields(warnings or ())
        return raw

    async def replace(
        self,
        gvr: GVR,
        key: ObjectKey,
        body: bytes,
        *,
        dry_run: bool = False,
        subresource: str = "",
        unknown: list[str] | None = None,
    ) -> bytes:
        """Replace an object; return the stored bytes. Conflict unless its resourceVersion is the stored one.

        The fields that the server's schema lacks are added to `unknown`.
        """
        path = gvr.object_path(key, subresource=subresource) + _query(dry_run=dry_run, unknown=unknown)
        warnings: list[str] | None = None if unknown is None else []
        raw = await self._write("PUT", path, gvr=gvr, key=key, body=body, subresource=subresource, warnings=warnings)
        if unknown is not None:
            unknown += read_unknown_fields(warnings or ())
        return raw

    async def apply(
        self, gvr: GVR, key: ObjectKey, body: bytes, *, manager: str, force: bool, subresource: str = ""
    ) -> bytes:
        """Apply the fields of a manager (server-side apply); return the stored bytes. Invalid for an unknown field.

        Conflict where another manager has another value, unless `force` takes the field over.
        """
        query = {"fieldManager": manager, "fieldValidation": "Strict", "force": "true" if force else "false"}
        path = f"{gvr.object_path(key, subresource=subresource)}?{urlencode(query)}"
        return await self._write(
            "PATCH", path, gvr=gvr, key=key, body=body, subresource=subresource, content_type=_APPLY_PATCH
        )

    async def delete(
        self, gvr: GVR, key: ObjectKey, *, uid: str, resource_version: str, propagation: str = _BACKGROUND
    ) -> None:
        """Delete exactly this version of an object; Conflict when it has changed.

        `propagation` is `Background`, `Foreground` or `Orphan`, for the objects that it owns in its cluster.
        """
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
            "propagationPolicy": propagation,
        }
        await self._write("DELETE", gvr.object_path(key), gvr=gvr, key=key, body=msgspec.json.encode(options))

    async def patch_status(self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any]) -> bytes:
        """Merge `patch` through the status subresource; return the stored bytes."""
        path = gvr.object_path(key, subresource="status") + _MANAGER
        return await self._patch(path, gvr=gvr, key=key, patch=patch, subresource="status")

    async def merge_patch(
        self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any], *, manager: str = meta.FIELD_MANAGER
    ) -> bytes:
        """Merge `patch` into an object; return the stored bytes. Conflict for a resourceVersion in it that is over."""
        query = urlencode({"fieldManager": manager, "fieldValidation": "Ignore"})
        return await self._patch(f"{gvr.object_path(key)}?{query}", gvr=gvr, key=key, patch=patch)

    async def post_path(self, path: str, body: bytes, *, timeout_s: float = 10.0) -> bytes:
        """Post a request that is not a stored object: an access review, a token request."""
        return await self._transport.send("POST", path, what=f"create {path}", timeout_s=timeout_s, body=body)

    async def _patch(
        self, path: str, *, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any], subresource: str = ""
    ) -> bytes:
        body = msgspec.json.encode(patch)
        return await self._write(
            "PATCH", path, gvr=gvr, key=key, body=body, subresource=subresource, content_type=_MERGE_PATCH
        )

    async def _write(
        self,
        method: str,
        path: str,
        *,
        gvr: GVR,
        key: ObjectKey,
        body: bytes,
        subresource: str = "",
        content_type: str = "application/json",
        warnings: list[str] | None = None,
    ) -> bytes:
        what = f"{_VERBS[method]} {gvr} {key}{subresource and f' {subresource}'}"
        return await self._transport.send(
            method,
            path,
            what=what,
            timeout_s=_WRITE_S,
            body=body,
            content_type=content_type,
            gvr=gvr,
            key=key,
            warnings=warnings,
        )


def _query(*, dry_run: bool, unknown: list[str] | None) -> str:
    return (_MANAGER if unknown is None else _WARNING) + (f"&{DRY_RUN}" if dry_run else "")


async def connect_local(
    *, kubeconfig: Any = None, context: str | None = None, methods: frozenset[str] = WRITING
) -> Writer:
    """Connect to the local cluster, as `load_local_identity` finds it."""
    return Writer(await connect_local_transport(kubeconfig=kubeconfig, context=context, methods=methods))
