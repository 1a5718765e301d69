"""A client that records writes and sends none of them.

Law: the only write requests that are sent are updates and creations with `dryRun=All`, on a connection that refuses all
other writes.
"""

from __future__ import annotations

from typing import NamedTuple

from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.writer import Writer


class RecordedWrite(NamedTuple):
    """One write that the daemon would send; `verb` is create, update or delete."""

    verb: str
    gvr: GVR
    namespace: str
    name: str
    subresource: str = ""


class RecordingClient:
    """Records the writes for one target."""

    def __init__(self, local_client: Writer) -> None:
        self.writes: list[RecordedWrite] = []
        self._local_client = local_client

    async def create(
        self, gvr: GVR, namespace: str, body: bytes, *, dry_run: bool = False, unknown: list[str] | None = None
    ) -> bytes | None:
        """Record a create; with `dry_run` return the object that the API server would store."""
        if dry_run:
            return await self._local_client.create(gvr, namespace, body, dry_run=True, unknown=unknown)
        self.writes.append(RecordedWrite("create", gvr, namespace, ""))
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
            return await self._local_client.replace(
                gvr, key, body, dry_run=True, subresource=subresource, unknown=unknown
            )
        self.writes.append(RecordedWrite("update", gvr, *key, subresource))
        return None

    async def delete(self, gvr: GVR, key: ObjectKey, *, uid: str, resource_version: str) -> None:
        """Record a delete."""
        self.writes.append(RecordedWrite("delete", gvr, *key))
