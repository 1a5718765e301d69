"""What is taken of one server: bytes, objects, pages; and what it may not pass off as something else."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from registry_controller.api import errors, meta
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.kube.connect import PAGES, LineBudget
from registry_controller.kube.discover import Discovery
from registry_controller.kube.listing import list_objects
from registry_controller.kube.transport import ANSWER_BYTES
from registry_controller.kube.watch import ALL_LINES_BYTES, UnfinishedLine, read_object

KEY = ObjectKey("default", "a")


class Server:
    """A Reader whose answers are given by `answer`, from the query."""

    server = "https://fake.test"

    def __init__(self, answer: Any) -> None:
        self.turns = asyncio.Semaphore(PAGES)
        self._answer = answer
        self.asked: list[tuple[dict[str, str], int]] = []

    async def list_page(
        self,
        gvr: GVR,
        selection: Selection,
        *,
        query: Mapping[str, str],
        limit_bytes: int = ANSWER_BYTES,
        timeout_s: float = 60.0,
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


async def names_of(server: Any) -> list[str]:
    pages = list_objects(server, meta.SECRETS, EVERYTHING, kind=meta.SECRET)
    return [obj.key.name async for page in pages for obj in page.items]


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones() -> None:
    """Twenty objects of 1 MiB: no page of 500 has room for them, and all are heard."""
    held = [secret(f"s{number:02}", 1024 * 1024) for number in range(20)]

    def answer(query: Mapping[str, str]) -> bytes:
        begin, limit = int(query["continue"] or 0), int(query["limit"])
        more = str(begin + limit) if begin + limit < len(held) else ""
        return listing(*held[begin : begin + limit], more=more)

    server = Server(answer)
    assert await names_of(server) == [item["metadata"]["name"] for item in held]
    assert [int(query["limit"]) for query, _ in server.asked[:3]] == [500, 62, 7]
    assert {limit for _, limit in server.asked} == {ANSWER_BYTES}


async def test_one_object_that_is_too_large_is_said() -> None:
    server = Server(lambda query: listing(secret("a", ANSWER_BYTES)))
    with pytest.raises(errors.TooMuch):
        await names_of(server)
    assert server.asked[-1] == ({"limit": "1", "continue": ""}, ANSWER_BYTES)


async def test_the_same_continue_token_is_no_progress() -> None:
    server = Server(lambda query: listing(secret("a"), more="again"))
    with pytest.raises(errors.ProtocolError, match="same continue token"):
        await names_of(server)
    assert len(server.asked) == 2


async def test_pages_without_end_and_without_objects_are_left() -> None:
    server = Server(lambda query: listing(more=f"{query['continue']}x"))
    with pytest.raises(errors.TooMuch, match="almost empty"):
        await names_of(server)
    assert len(server.asked) == 21


async def test_pages_with_a_tenth_of_what_was_asked_for_are_read() -> None:
    """Twenty may be empty; from then on they hold 50 objects on average, of 500 that were asked for."""

    def answer(query: Mapping[str, str]) -> bytes:
        number = len(server.asked)
        return listing(*([secret(f"s{number}")] * 50 if number > 20 else []), more=f"{number}" if number < 60 else "")

    server = Server(answer)
    assert len(await names_of(server)) == 40 * 50


@pytest.mark.parametrize("item", [b"0", b'{"metadata":{"name":"a"}}'], ids=["zeros", "objects"])
async def test_a_page_of_more_items_than_memory_has_room_for_is_left(item: bytes) -> None:
    body = b'{"metadata":{},"items":[' + b",".join([item] * 300_000) + b"]}"
    with pytest.raises(errors.ProtocolError):
        await names_of(Server(lambda query: body))


async def test_a_page_with_many_commas_in_its_texts_is_read() -> None:
    body = listing(secret("a", note="," * 200_000))
    assert await names_of(Server(lambda query: body)) == ["a"]


async def test_no_more_pages_are_held_at_a_time_than_memory_has_room_for() -> None:
    """A page is held until it was gone through, whoever reads it."""
    server: Any = Server(lambda query: listing(secret("a"), more=f"{query['continue']}x"))
    lists = [list_objects(server, meta.SECRETS, EVERYTHING, kind=meta.SECRET) for _ in range(PAGES + 1)]
    for one in lists[:PAGES]:
        await anext(one)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await anext(lists[PAGES])
    assert len(server.asked) == PAGES
    await lists[0].aclose()
    again = list_objects(server, meta.SECRETS, EVERYTHING, kind=meta.SECRET)
    assert (await anext(again)).size == 1
    await again.aclose()
    for one in lists:
        await one.aclose()


async def test_items_are_decoded_one_by_one() -> None:
    """Labels take twenty times as much memory as they are long: those of a whole page never at once."""
    labels = {f"{number:x}": "" for number in range(5_000)}
    item = json.dumps({"metadata": {"name": "a", "namespace": "n", "labels": labels}}).encode()
    server: Any = Server(lambda query: b'{"metadata":{},"items":[' + b",".join([item] * 100) + b"]}")
    async for page in list_objects(server, meta.SECRETS, EVERYTHING, kind=meta.SECRET):
        tracemalloc.start()
        try:
            assert sum(len(obj.labels) for obj in page.items) == 500_000
            assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    "metadata", [{"continue": "x" * 8193}, {"resourceVersion": "1" * 129}], ids=["token", "resourceVersion"]
)
async def test_what_a_list_has_said_back_to_it_is_short(metadata: dict[str, str]) -> None:
    body = json.dumps({"metadata": metadata, "items": []}).encode()
    with pytest.raises(errors.ProtocolError, match="longer than that of any server"):
        await names_of(Server(lambda query: body))


def test_the_limits_are_those_of_the_docs() -> None:
    """docs/security-limits.md says them; the tests here, and those of the transport, hold the constants."""
    assert (ANSWER_BYTES, ALL_LINES_BYTES, PAGES) == (8 * 1024 * 1024, 16 * 1024 * 1024, 4)


async def test_a_page_of_20000_objects_is_read_and_no_larger_one() -> None:
    def page(count: int) -> bytes:
        items = [secret(f"s{number}", note=[0] * 6) for number in range(count)]
        return listing(*items)

    assert len(await names_of(Server(lambda query: page(20_000)))) == 20_000
    with pytest.raises(errors.TooMuch, match="a page of more than 20000 objects"):
        await names_of(Server(lambda query: page(20_001)))


def test_the_lines_of_all_watches_of_a_server_are_bounded_together() -> None:
    budget = LineBudget()
    one, two, three = (UnfinishedLine(budget, what=f"watch {name}") for name in "abc")
    one.grow(bytes(ANSWER_BYTES))
    with pytest.raises(errors.TooMuch, match="a line longer than"):
        one.grow(b"x")
    assert one.end() == bytes(ANSWER_BYTES)
    one.grow(bytes(ANSWER_BYTES))
    two.grow(bytes(ALL_LINES_BYTES - ANSWER_BYTES))
    with pytest.raises(errors.TooMuch, match="together"):
        three.grow(b"x")
    for line in (one, two, three):
        line.end()
    assert budget.size_bytes == 0


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
