"""What is taken of one server: bytes, objects, pages; and what it may not pass off as something else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from registry_controller.api import errors, meta
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.kube.connect import PAGE_BYTES
from registry_controller.kube.discover import Discovery
from registry_controller.kube.lines import TOGETHER_BYTES, Lines
from registry_controller.kube.transport import OBJECT_BYTES
from registry_controller.kube.watch import Page, list_objects, read_object

KEY = ObjectKey("default", "a")


class Server:
    """A Reader whose answers are given by `answer`, from the query."""

    server = "https://fake.test"

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.asked: list[tuple[dict[str, str], int]] = []

    async def list_page(
        self, gvr: GVR, selection: Selection, *, query: Mapping[str, str], limit_bytes: int = 0, timeout_s: float = 60.0
    ) -> bytes:
        self.asked.append((dict(query), limit_bytes))
        found: bytes = self._answer(query)
        if len(found) > limit_bytes:
            raise errors.TooMuch("the answer is too large")
        return found

    async def get(self, gvr: GVR, key: ObjectKey, *, timeout_s: float = 10.0) -> bytes:
        found: bytes = self._answer({})
        return found

    async def get_path(self, path: str, *, timeout_s: float = 10.0, limit_bytes: int = 0) -> bytes:
        found: bytes = self._answer({})
        return found


def secret(name: str, size: int = 0, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"x": "y" * size}, **more}


def listing(*items: Any, more: str = "") -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "7", "continue": more}, "items": items}).encode()


async def pages_of(server: Any) -> list[Page]:
    return [page async for page in list_objects(server, meta.SECRETS, EVERYTHING, kind=meta.SECRET)]


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones() -> None:
    """Twenty objects of 1 MiB: no page of 500 has room for them, and all are heard."""
    held = [secret(f"s{number:02}", 1024 * 1024) for number in range(20)]

    def answer(query: Mapping[str, str]) -> bytes:
        begin, limit = int(query["continue"] or 0), int(query["limit"])
        more = str(begin + limit) if begin + limit < len(held) else ""
        return listing(*held[begin : begin + limit], more=more)

    server = Server(answer)
    found = [heard.key.name for page in await pages_of(server) for heard in page.items]
    assert found == [item["metadata"]["name"] for item in held]
    assert [int(query["limit"]) for query, _ in server.asked[:3]] == [500, 62, 7]
    assert {limit for _, limit in server.asked} == {PAGE_BYTES}


async def test_one_object_that_is_too_large_is_said() -> None:
    server = Server(lambda query: listing(secret("a", OBJECT_BYTES)))
    with pytest.raises(errors.TooMuch):
        await pages_of(server)
    assert server.asked[-1] == ({"limit": "1", "continue": ""}, OBJECT_BYTES)


async def test_the_same_continue_token_is_no_progress() -> None:
    server = Server(lambda query: listing(secret("a"), more="again"))
    with pytest.raises(errors.ProtocolError, match="same continue token"):
        await pages_of(server)
    assert len(server.asked) == 2


async def test_pages_without_end_and_without_objects_are_left() -> None:
    server = Server(lambda query: listing(more=f"{query['continue']}x"))
    with pytest.raises(errors.TooMuch, match="next to nothing"):
        await pages_of(server)
    assert len(server.asked) < 25


@pytest.mark.parametrize("item", [b"0", b'{"metadata":{"name":"a"}}'], ids=["zeros", "objects"])
async def test_a_page_of_more_items_than_memory_has_room_for_is_left(item: bytes) -> None:
    body = b'{"metadata":{},"items":[' + b",".join([item] * 300_000) + b"]}"
    with pytest.raises(errors.ProtocolError):
        await pages_of(Server(lambda query: body))


async def test_a_page_with_many_commas_in_its_texts_is_read() -> None:
    body = listing(secret("a", note="," * 200_000))
    assert [page.items[0].key.name for page in await pages_of(Server(lambda query: body))] == ["a"]


def test_the_lines_of_all_watches_of_a_server_are_bounded_together() -> None:
    lines = Lines()
    with lines.begun() as one, lines.begun() as two, lines.begun() as three:
        one.grow(OBJECT_BYTES, what="watch a")
        with pytest.raises(errors.TooMuch, match="a line longer than"):
            one.grow(1, what="watch a")
        one.end()
        one.grow(OBJECT_BYTES, what="watch a")
        two.grow(TOGETHER_BYTES - OBJECT_BYTES, what="watch b")
        with pytest.raises(errors.TooMuch, match="together"):
            three.grow(1, what="watch c")
    assert lines.size_bytes == 0


@pytest.mark.parametrize(
    "answer",
    [secret("b"), secret("a", apiVersion="v1", kind="ConfigMap"), {"metadata": {"name": "a", "namespace": "other"}}],
    ids=["another name", "another kind", "another namespace"],
)
async def test_an_answer_that_is_another_object_is_none(answer: Any) -> None:
    server: Any = Server(lambda query: json.dumps(answer).encode())
    with pytest.raises(errors.ProtocolError):
        await read_object(server, meta.SECRETS, KEY, kind=meta.SECRET, timeout_s=1.0)


async def test_an_answer_that_is_the_object_is_read() -> None:
    server: Any = Server(lambda query: json.dumps(secret("a")).encode())
    assert (await read_object(server, meta.SECRETS, KEY, kind=meta.SECRET, timeout_s=1.0)).key == KEY


@pytest.mark.parametrize(
    ("version", "said"),
    [("v1.36.1+k3s1", "v1.36.1+k3s1"), ("v1\n\x1b[31m", "v1"), ("\x1b[2J", ""), ("v" * 1000, "v" * 64), ("", "")],
)
async def test_a_version_is_cut_down_to_what_may_stand_in_a_status(version: str, said: str) -> None:
    server: Any = Server(lambda query: json.dumps({"gitVersion": version}).encode())
    assert await Discovery(server).server_version() == said


@pytest.mark.parametrize(
    "answer",
    [{"resources": [{}]}, {"resources": [{"name": "secrets"}]}, {"resources": [{"name": 5, "kind": "Secret"}]}, []],
)
async def test_a_resource_without_name_kind_and_verbs_is_nothing_that_a_server_says(answer: Any) -> None:
    server: Any = Server(lambda query: json.dumps(answer).encode())
    with pytest.raises(errors.ProtocolError):
        await Discovery(server).resolve(meta.SECRET)
