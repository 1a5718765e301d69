"""A client that records writes and sends none of them.

Law: the only write requests that are sent are updates and creations with `dryRun=All`, on a connection that refuses all
other writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from registry_controller.api.errors import Forbidden
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.writer import Writer


class RecordedWrite(NamedTuple):
    """One write that the daemon would send; `verb` is create, update or delete.

    `body` is the JSON of the object; it is empty unless the client keeps bodies.
    """

    verb: str
    gvr: GVR
    namespace: str
    name: str
    subresource: str = ""
    body: bytes = b""


class MissingRight(NamedTuple):
    """A right that the user of `plan` or `explain` lacks, so that a dry run was refused."""

    verb: str
    resource: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f' in namespace {self.namespace}' if self.namespace else ''}"


class RecordingClient:
    """Records the writes for one target, and the rights that the user lacks for its dry runs."""

    def __init__(self, local_client: Writer, *, keeps_bodies: bool = False) -> None:
        self._keeps_bodies = keeps_bodies
        self.writes: list[RecordedWrite] = []
        self.missing_rights: list[MissingRight] = []
        self._local_client = local_client

    async def create(
        self, gvr: GVR, namespace: str, body: bytes, *, dry_run: bool = False, unknown: list[str] | None = None
    ) -> bytes | None:
        """Record a create; with `dry_run` return the object that the API server would store."""
        if dry_run:
            with self._noting_missing_right("create", gvr, namespace):
                return await self._local_client.create(gvr, namespace, body, dry_run=True, unknown=unknown)
        self.writes.append(RecordedWrite("create", gvr, namespace, "", body=self._keep(body)))
        return None

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
        """Record an update; with `dry_run` return the object that the API server would store."""
        if dry_run:
            with self._noting_missing_right("update", gvr, key.namespace, subresource):
                return await self._local_client.replace(
                    gvr, key, body, dry_run=True, subresource=subresource, unknown=unknown
                )
        self.writes.append(RecordedWrite("update", gvr, *key, subresource, self._keep(body)))
        return None

    async def delete(self, gvr: GVR, key: ObjectKey, *, uid: str, resource_version: str) -> None:
        """Record a delete."""
        self.writes.append(RecordedWrite("delete", gvr, *key))

    def _keep(self, body: bytes) -> bytes:
        return bytes(body) if self._keeps_bodies else b""

    @contextlib.contextmanager
    def _noting_missing_right(self, verb: str, gvr: GVR, namespace: str, subresource: str = "") -> Iterator[None]:
        """Note a right that the user lacks: the refusal shows nothing about the copy, nor about the daemon's rights."""
        try:
            yield
        except Forbidden as error:
            if not error.lacks_right:
                raise
            resource = f"{gvr.resource}.{gvr.group}" if gvr.group else gvr.resource
            right = MissingRight(verb, f"{resource}/{subresource}" if subresource else resource, namespace)
            if right not in self.missing_rights:
                self.missing_rights.append(right)
            refusal = Forbidden(str(error), status=error.status, reason=error.reason)
            refusal.may_pass = True
            raise refusal from None
