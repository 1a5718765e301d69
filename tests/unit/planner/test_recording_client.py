"""The client of a dry run: it records writes and sends only updates with `dryRun=All`."""

from __future__ import annotations

from typing import Any, cast

import pytest

from registry_controller.api.errors import Forbidden
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.planner.recording_client import MissingRight, RecordedWrite, RecordingClient

WIDGETS = GVR("example.com", "v1", "widgets", True)
KEY = ObjectKey("default", "x")


class LocalClient:
    """A client that keeps the updates that it is to send, and may refuse them."""

    def __init__(self, refusal: Forbidden | None = None) -> None:
        self.sent: list[tuple[ObjectKey, bool, str]] = []
        self.refusal = refusal

    async def replace(
        self, gvr: GVR, key: ObjectKey, body: bytes, *, dry_run: bool, subresource: str, unknown: list[str] | None
    ) -> bytes:
        self.sent.append((key, dry_run, subresource))
        if self.refusal is not None:
            raise self.refusal
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


@pytest.mark.parametrize(
    ("subresource", "words"), [("", "widgets.example.com"), ("status", "widgets.example.com/status")]
)
async def test_a_right_that_the_user_lacks_is_noted_once_and_says_nothing_about_the_daemons(
    subresource: str, words: str
) -> None:
    client = RecordingClient(cast(Any, LocalClient(Forbidden("403", lacks_right=True))))
    for _ in range(2):
        with pytest.raises(Forbidden) as found:
            await client.replace(WIDGETS, KEY, b"{}", dry_run=True, subresource=subresource)
        assert (found.value.lacks_right, found.value.may_pass) == (False, True)
    assert client.missing_rights == [MissingRight("update", words, "default")]
    assert str(client.missing_rights[0]) == f"update {words} in namespace default"


async def test_a_dry_run_that_a_policy_refuses_is_no_missing_right() -> None:
    refusal = Forbidden("403")
    client = RecordingClient(cast(Any, LocalClient(refusal)))
    with pytest.raises(Forbidden) as found:
        await client.replace(WIDGETS, KEY, b"{}", dry_run=True)
    assert found.value is refusal
    assert client.missing_rights == []
