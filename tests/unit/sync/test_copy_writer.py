"""The hand: what it does not write."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from registry_controller.api.errors import InvalidObject, NotFound
from registry_controller.api.meta import GVK, GVR, ObjectKey, Target
from registry_controller.core.decision.ownership import NATIVE
from registry_controller.sync.copy_writer import CopyWriter, DesiredCopy
from registry_controller.watch.body_cache import BodyCache


class Servings:
    """Discovery, and a pen that nobody may use."""

    found: ClassVar[dict[GVK, GVR]] = {}

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


class Deletions(Servings):
    """Discovery, and a client that records the preconditions of deletions."""

    def __init__(self) -> None:
        self.preconditions: list[tuple[str, str]] = []

    async def delete(self, gvr: GVR, key: ObjectKey, *, uid: str, resource_version: str) -> None:
        self.preconditions.append((uid, resource_version))
        if len(self.preconditions) > 1:
            raise NotFound("it is gone")


async def test_a_deletion_names_the_copy_that_was_judged_and_one_that_is_gone_is_no_error() -> None:
    """O5."""
    servings: Any = Deletions()
    writer = CopyWriter(
        reader=servings, client=servings, discovery=servings, bodies=BodyCache(), digest_key=b"k",
        on_stored=lambda target, sent, stored: None,
    )  # fmt: skip
    kind = GVK("test.example.com", "v1", "Widget")
    for _ in range(2):
        await writer.delete(Target("test.example.com", "Widget", "default", "a"), kind, uid="uid", revision=7)
    assert servings.preconditions == [("uid", "7")] * 2
