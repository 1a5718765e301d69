"""The client of a dry run: it records writes and sends only updates with `dryRun=All`."""

from __future__ import annotations

from typing import Any, cast

from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.planner.recording_client import RecordedWrite, RecordingClient

WIDGETS = GVR("example.com", "v1", "widgets", True)
KEY = ObjectKey("default", "x")


class LocalClient:
    """A client that keeps the updates that it is to send."""

    def __init__(self) -> None:
        self.sent: list[tuple[ObjectKey, bool, str]] = []

    async def replace(
        self, gvr: GVR, key: ObjectKey, body: bytes, *, dry_run: bool, subresource: str, unknown: list[str] | None
    ) -> bytes:
        self.sent.append((key, dry_run, subresource))
        return b"stored"


async def test_writes_are_recorded_in_their_order_and_not_sent() -> None:
    local = LocalClient()
    client = RecordingClient(cast(Any, local))
    await client.create(WIDGETS, "default", b"{}")
    assert await client.replace(WIDGETS, KEY, b"{}", subresource="status") is None
    await client.delete(WIDGETS, KEY, uid="u", resource_version="1")
    assert client.writes == [
        RecordedWrite("create", WIDGETS, "default", ""),
        RecordedWrite("update", WIDGETS, "default", "x", "status"),
        RecordedWrite("delete", WIDGETS, "default", "x"),
    ]
    assert local.sent == []


async def test_a_dry_run_update_is_sent_and_not_recorded() -> None:
    local = LocalClient()
    client = RecordingClient(cast(Any, local))
    assert await client.replace(WIDGETS, KEY, b"{}", dry_run=True) == b"stored"
    assert local.sent == [(KEY, True, "")]
    assert client.writes == []
