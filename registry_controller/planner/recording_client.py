"""A pen that only notes what it would write.

Law: the one thing that goes out is the question what would be stored, asked with `dryRun=All` of a connection that
refuses any other write.
"""

from __future__ import annotations

from typing import NamedTuple

from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.connect import Writer


class RecordedWrite(NamedTuple):
    """One write that would be made; `verb` is Kubernetes' word for it."""

    verb: str
    gvr: GVR
    namespace: str
    name: str
    subresource: str = ""


class RecordingClient:
    """Notes the writes for one target."""

    def __init__(self, home: Writer) -> None:
        self.writes: list[RecordedWrite] = []
        self._local_client = home

    async def create(self, gvr: GVR, namespace: str, body: bytes) -> None:
        """Note a create."""
        self.writes.append(RecordedWrite("create", gvr, namespace, ""))

    async def replace(
        self, gvr: GVR, key: ObjectKey, body: bytes, *, dry_run: bool = False, subresource: str = ""
    ) -> bytes | None:
        """Note an update, or ask what one would store."""
        if dry_run:
            return await self._local_client.replace(gvr, key, body, dry_run=True, subresource=subresource)
        self.writes.append(RecordedWrite("update", gvr, *key, subresource))
        return None

    async def delete(self, gvr: GVR, key: ObjectKey, *, uid: str, resource_version: str) -> None:
        """Note a delete."""
        self.writes.append(RecordedWrite("delete", gvr, *key))
