"""The hand: what it does not write."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import GVK, GVR, Target
from registry_controller.core.decision.ownership import NATIVE
from registry_controller.sync.copy_writer import CopyWriter, DesiredCopy
from registry_controller.watch.body_cache import BodyCache


class Servings:
    """Discovery, and a pen that nobody may use."""

    async def resolve(self, kind: GVK) -> GVR:
        return GVR(kind.group, kind.version, "widgets", True)

    async def create(self, gvr: GVR, namespace: str, body: bytes) -> bytes | None:
        raise AssertionError("nothing is written")


async def test_a_copy_that_overrides_nested_too_deeply_is_an_error_of_that_object() -> None:
    """W1: and not the end of the daemon."""
    nested: Any = "x"
    for _ in range(300):
        nested = [nested]
    servings: Any = Servings()
    hand = CopyWriter(
        reader=servings, client=servings, discovery=servings, bodies=BodyCache(), digest_key=b"k",
        on_stored=lambda target, sent, stored: None,
    )  # fmt: skip
    kind = GVK("test.example.com", "v1", "Widget")
    wanted = DesiredCopy(Target("test.example.com", "Widget", "default", "a"), kind, {"spec": nested}, b"", NATIVE)
    cache: Any = None
    with pytest.raises(InvalidObject, match="nested too deeply"):
        await hand.create(wanted, cache)
