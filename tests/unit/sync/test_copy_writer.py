"""The hand: what it does not write."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, ClassVar

import orjson
import pytest

from registry_controller.api.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    InvalidObject,
    NotFound,
    RegistryError,
    ServerError,
)
from registry_controller.api.meta import GVK, GVR, ObjectKey, Target
from registry_controller.core.decision.marks import NATIVE
from registry_controller.core.diff.remainder import NOTHING_REMAINS
from registry_controller.sync.container_copies import ContainerCopies
from registry_controller.sync.copy_writer import CopyWriter
from registry_controller.sync.desired_copy import DesiredCopy
from registry_controller.sync.replaced_copies import ReplacedCopies
from registry_controller.watch.body_cache import BodyCache


class Servings:
    """Discovery, and a pen that nobody may use."""

    found: ClassVar[dict[GVK, GVR]] = {}

    async def resolve(self, kind: GVK) -> GVR:
        return GVR(kind.group, kind.version, "widgets", True)

    async def create(self, gvr: GVR, namespace: str, body: bytes, *, unknown: list[str]) -> bytes | None:
        raise AssertionError("nothing is written")


def no_containers() -> ContainerCopies:
    copies: Any = SimpleNamespace(all_held=lambda: (), held=lambda *_: None)
    return ContainerCopies(copies=copies, replaced=ReplacedCopies(), is_claimed=lambda _: False)


async def test_a_copy_that_overrides_nested_too_deeply_is_an_error_of_that_object() -> None:
    """W1: and not the end of the daemon."""
    nested: Any = "x"
    for _ in range(300):
        nested = [nested]
    servings: Any = Servings()
    hand = CopyWriter(
        reader=servings, client=servings, discovery=servings, bodies=BodyCache(), digest_key=b"k",
        on_stored=lambda target, sent, stored: None, containers=no_containers(),
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
        on_stored=lambda target, sent, stored: None, containers=no_containers(),
    )  # fmt: skip
    kind = GVK("test.example.com", "v1", "Widget")
    for _ in range(2):
        await writer.delete(Target("test.example.com", "Widget", "default", "a"), kind, uid="uid", revision=7)
    assert servings.preconditions == [("uid", "7")] * 2


class Refusals(Servings):
    """Discovery, and a client that refuses dry runs of creations; `asked` are those."""

    def __init__(self, error: RegistryError | None) -> None:
        self.error = error
        self.asked: list[dict[str, Any]] = []

    async def create(  # type: ignore[override]
        self, gvr: GVR, namespace: str, body: bytes, *, dry_run: bool
    ) -> bytes | None:
        assert dry_run
        self.asked.append(orjson.loads(body))
        if self.error is not None:
            raise self.error
        return body


def _passing(error: Forbidden | Invalid) -> RegistryError:
    error.may_pass = True
    return error


@pytest.mark.clause("A2")
@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (None, False),
        (AlreadyExists("taken"), False),
        (Conflict("of a quota"), False),
        (_passing(Forbidden("quota")), False),
        (_passing(Invalid("dry run")), False),
        (Forbidden("policy"), True),
        (Forbidden("no right", lacks_right=True), True),
        (Invalid("policy"), True),
        (NotFound("no such role", reason="RoleMissing"), True),
        (ServerError("the webhook does not answer"), True),
    ],
    ids=str,
)
async def test_what_shows_that_a_copy_cannot_be_made_anew(error: RegistryError | None, is_refused: bool) -> None:
    """One request asks, with the very object that would be created."""
    servings: Any = Refusals(error)
    writer = CopyWriter(
        reader=servings, client=servings, discovery=servings, bodies=BodyCache(), digest_key=b"k",
        on_stored=lambda target, sent, stored: None, containers=no_containers(),
    )  # fmt: skip
    kind, manifest = GVK("test.example.com", "v1", "Widget"), {"metadata": {"name": "a"}, "spec": {"size": 1}}
    wanted = DesiredCopy(Target("test.example.com", "Widget", "default", "a"), kind, manifest, b"", NATIVE)
    with pytest.raises(type(error)) if error is not None and is_refused else contextlib.nullcontext():
        await writer.check_replaceable(wanted, over=None)
    assert servings.asked == [manifest]


class Stored(Servings):
    """A server with one object. It serves the scale subresource; `sent` are the bodies that were written."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.held = held
        self.reads = 0
        self.sent: list[dict[str, Any]] = []

    async def find_replicas(self, gvr: GVR) -> tuple[str, ...]:
        return ("spec", "replicas")

    async def get(self, gvr: GVR, key: ObjectKey) -> bytes:
        self.reads += 1
        return orjson.dumps(self.held)

    async def create(self, gvr: GVR, namespace: str, body: bytes, *, unknown: list[str]) -> bytes | None:
        self.sent.append(orjson.loads(body))
        return None

    async def replace(
        self,
        gvr: GVR,
        key: ObjectKey,
        body: bytes,
        *,
        unknown: list[str],
        dry_run: bool = False,
        subresource: str = "",
    ) -> bytes | None:
        if dry_run:
            return body
        self.sent.append(orjson.loads(body))
        return None


@pytest.mark.clause("A9")
@pytest.mark.parametrize("is_left", [True, False])
async def test_a_copy_in_which_something_is_left_is_read_before_it_is_replaced(is_left: bool) -> None:
    """A2: also before it is made anew; a copy that is all the daemon's is replaced unread."""
    info = {"name": "a", "namespace": "default", "uid": "uid", "resourceVersion": "7"}
    found = {"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": info, "spec": {"replicas": 5, "old": 1}}
    server: Any = Stored(found)
    writer = CopyWriter(
        reader=server, client=server, discovery=server, bodies=BodyCache(), digest_key=b"k",
        on_stored=lambda target, sent, stored: None, containers=no_containers(),
    )  # fmt: skip
    manifest = {**found, "metadata": {"name": "a", "namespace": "default"}, "spec": {"new": 1}}
    kind, left = GVK("test.example.com", "v1", "Widget"), (("spec", "replicas"),) if is_left else ()
    target = Target("test.example.com", "Widget", "default", "a")
    wanted = DesiredCopy(target, kind, manifest, b"digest", NATIVE, left=left)
    record: Any = SimpleNamespace(
        uid="uid", revision=7, verified=7, is_plain=True, desired=b"before", remainder=NOTHING_REMAINS, marks=NATIVE
    )
    cache: Any = SimpleNamespace(writing=lambda key: contextlib.nullcontext())
    await writer.write(wanted, record, cache, adopt=False)
    await writer.create(wanted, cache, over=await writer.read(wanted, record))
    expected = {"new": 1, "replicas": 5} if is_left else {"new": 1}
    assert [body["spec"] for body in server.sent] == [expected, expected]
    assert server.reads == (2 if is_left else 0)
    assert server.sent[0]["metadata"]["resourceVersion"] == "7"
    assert server.sent[1]["metadata"] == manifest["metadata"]
