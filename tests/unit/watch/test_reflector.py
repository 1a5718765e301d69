"""A reflector against a server that does as the test says: refuse, vanish, lie, be slow."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest

from registry_controller.api import errors
from registry_controller.api.meta import GVK, GVR, ObjectKey
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.core.backoff import backoff_s
from registry_controller.kube.connect import PAGES, LineBudget
from registry_controller.kube.discover import Discovery
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.watch import delivery, retry
from registry_controller.watch import reflector as module
from registry_controller.watch.event_handler import EventHandler, LastChange
from registry_controller.watch.reflector import Reflector, WatchScope

KIND = GVK("", "v1", "ConfigMap")
GVR_ = GVR("", "v1", "configmaps", True)
RESOURCES = {"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": ["list", "watch"]}]}

Chunk = bytes | Exception | float
"""What a stream gives: bytes, a failure, or seconds of silence."""


def obj(name: str, revision: int = 1, *, namespace: str = "n", kind: str = "ConfigMap") -> dict[str, Any]:
    info = {"name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": str(revision)}
    return {"apiVersion": "v1", "kind": kind, "metadata": info}


def line(event_type: str, body: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": event_type, "object": body}).encode() + b"\n"


def bookmark(revision: int, *, ends: bool = False) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"} if ends else {}
    info = {"resourceVersion": str(revision), "annotations": annotations}
    return line("BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": info})


def listing(*items: Mapping[str, Any], revision: int, more: str = "") -> bytes:
    info = {"resourceVersion": str(revision), "continue": more}
    return json.dumps({"kind": "ConfigMapList", "metadata": info, "items": items}).encode()


FOREVER = 3600.0


class Server:
    """A Reader whose answers are scripted; when the script ends, streams stay open and quiet.

    `present` has the revisions of single objects that are not there as they were last delivered; None for none. The
    `stored` ones are those that were delivered; when they are counted, there are `uncounted` more.
    """

    server = "https://fake.test"
    build: Callable[[str, int], dict[str, Any]] = staticmethod(obj)

    def __init__(
        self,
        *,
        lists: list[bytes | Exception] | None = None,
        streams: list[Any] | None = None,
        revisions: list[int] | None = None,
        present: Mapping[str, int | None] | None = None,
    ) -> None:
        self.answers = 0
        self.lines = LineBudget()
        self.turns = asyncio.Semaphore(PAGES)
        self.lists = lists or []
        self.streams = streams or []
        self.revisions = revisions or []
        self.present = present or {}
        self.asked: list[dict[str, str]] = []
        self.closed = asyncio.Event()
        self.stored: set[str] = set()
        self.uncounted: int | None = 0

    async def get_path(self, path: str, *, timeout_s: float = 10.0, limit_bytes: int = 0) -> bytes:
        self.answers += 1
        return json.dumps(RESOURCES).encode()

    async def list_page(
        self, gvr: GVR, selection: Selection, *, query: Mapping[str, str], limit_bytes: int = 0, timeout_s: float = 60.0
    ) -> bytes:
        if query["limit"] == "1" and not selection.fields:
            self.answers += 1
            return self._count()
        self.asked.append(dict(query) | ({"fieldSelector": selection.fields} if selection.fields else {}))
        await asyncio.sleep(0)
        if selection.fields:
            self.answers += 1
            at = self.revisions.pop(0) if self.revisions else 1_000_000
            name = selection.fields.removeprefix("metadata.name=")
            found = self.present.get(name, at)
            return listing(*([self.build(name, found)] if found is not None else []), revision=at)
        answer = self.lists.pop(0)
        if isinstance(answer, errors.Unreachable):
            raise answer
        self.answers += 1
        if isinstance(answer, Exception):
            raise answer
        with contextlib.suppress(ValueError):
            found = json.loads(answer)
            self.stored = {one["metadata"]["name"] for one in found.get("items") or ()}
        return answer

    def _count(self) -> bytes:
        if self.uncounted is None:
            return listing(self.build("one", 1), revision=1, more="more")
        items, rest = [self.build(name, 1) for name in self.stored], self.uncounted
        if len(items) + rest < 2:
            return listing(*items, revision=1)
        found = json.loads(listing(*items[:1], revision=1, more="more"))
        found["metadata"]["remainingItemCount"] = len(items) + rest - len(items[:1])
        return json.dumps(found).encode()

    @contextlib.asynccontextmanager
    async def stream(
        self, gvr: GVR, selection: Selection, *, query: Mapping[str, str], silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(dict(query))
        await asyncio.sleep(0)
        script = self.streams.pop(0) if self.streams else [FOREVER]
        if isinstance(script, Exception):
            self.answers += not isinstance(script, errors.Unreachable | errors.Unauthorized)
            raise script
        self.answers += 1
        yield self._play(script)

    async def _play(self, script: list[Chunk]) -> AsyncIterator[bytes]:
        for chunk in script:
            if isinstance(chunk, Exception):
                raise chunk
            if isinstance(chunk, float):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(chunk):
                        await self.closed.wait()
                        raise errors.Unreachable("closed")
            else:
                self._store(chunk)
                yield chunk

    def _store(self, chunk: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            event = json.loads(chunk)
            change = self.stored.discard if event["type"] == "DELETED" else self.stored.add
            if event["type"] != "BOOKMARK":
                change(event["object"]["metadata"]["name"])


class Diary(EventHandler):
    """A sink that writes down what it is told, in order. After each complete list it knows of one of its `writes`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.troubles: list[errors.RegistryError] = []
        self.writes: list[LastChange] = []
        self.written: LastChange | None = None
        self.newest = self.interruptions = 0
        self.has_deleted = False

    @property
    def written_last(self) -> LastChange | None:
        return self.written

    @property
    def misses_deletion(self) -> bool:
        return self.has_deleted

    def on_interrupted(self) -> None:
        self.interruptions += 1

    def on_list_request(self) -> int:
        return self.newest

    def on_object(self, obj: PartialObject) -> None:
        self.lines.append(f"+{obj.key.name}@{obj.revision}")

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        self.lines.append(f"-{key.name}" + (f"@{obj.revision}" if obj else ""))

    def on_synced(self, revision: int) -> None:
        self.written = self.writes.pop(0) if self.writes else None
        self.lines.append("complete")

    def on_error(self, error: errors.RegistryError) -> None:
        self.troubles.append(error)
        self.lines.append(type(error).__name__)

    def on_recovered(self) -> None:
        self.lines.append("current")

    def on_doubt(self, revision: int) -> None:
        self.lines.append(f"doubt>{revision}")

    def on_reset(self) -> None:
        self.written = None
        self.lines.append("outdated")


class Follower:
    def __init__(
        self,
        server: Server,
        *,
        selection: Selection = EVERYTHING,
        check_room: Callable[[], None] = lambda: None,
        kind: GVK = KIND,
        **options: bool,
    ) -> None:
        self.server = server
        self.diary = Diary()
        self.alive_count = self.unauthorized_count = 0
        reader: Any = server
        self.reflector = Reflector(
            reader=reader,
            discovery=Discovery(reader),
            scope=WatchScope(kind, selection, **options),
            handler=self.diary,
            observer=self,
            check_room=check_room,
        )

    @property
    def synced(self) -> bool:
        return "complete" in self.diary.lines

    def on_answer(self) -> None:
        self.alive_count += 1

    def on_no_answer(self, error: errors.RegistryError) -> None:
        pass

    def on_unauthorized(self) -> None:
        self.unauthorized_count += 1

    async def until(self, holds: Callable[[], bool], *, within_s: float = 60.0) -> None:
        in_time = True
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.reflector.run(), name="reflector")
            try:
                async with asyncio.timeout(within_s):
                    while not holds() and not task.done():  # noqa: ASYNC110
                        await asyncio.sleep(0.005)
            except TimeoutError:
                in_time = False
            finally:
                task.cancel()
        if not in_time:
            raise TimeoutError(self.diary.lines)

    async def hears(self, *lines: str) -> None:
        await self.until(lambda: self.diary.lines[: len(lines)] == list(lines))


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_BASE_S", 0.001)
    monkeypatch.setattr(retry, "_CAP_S", 0.01)
    monkeypatch.setattr(retry, "_REFUSED_CAP_S", 0.05)


INITIAL = [line("ADDED", obj("a", 3)), line("ADDED", obj("b", 4)), bookmark(9, ends=True)]


async def test_r4_one_stream_brings_everything_and_then_events() -> None:
    more = [line("MODIFIED", obj("a", 10)), line("DELETED", obj("b", 11)), FOREVER]
    follower = Follower(Server(streams=[[b"".join(INITIAL[:2]), INITIAL[2], *more]]))
    await follower.hears("+a@3", "+b@4", "complete", "+a@10", "-b@11")
    assert follower.server.asked[0]["sendInitialEvents"] == "true"
    assert follower.server.asked[0]["resourceVersion"] == ""
    assert follower.reflector._delivery.revision == 11
    assert follower.synced
    assert follower.alive_count


async def test_events_are_cut_anywhere() -> None:
    whole = b"".join([*INITIAL, line("MODIFIED", obj("a", 10))])
    follower = Follower(Server(streams=[[*(whole[i : i + 7] for i in range(0, len(whole), 7)), FOREVER]]))
    await follower.hears("+a@3", "+b@4", "complete", "+a@10")


@pytest.mark.parametrize(
    "refusal",
    [
        errors.Invalid("no such parameter", status=400),
        errors.Invalid("forbidden parameter", status=422),
        [line("ADDED", obj("a", 3)), bookmark(5), FOREVER],
        [line("ADDED", obj("a", 3))],
    ],
    ids=["400", "422", "ignored, with a bookmark", "ignored, ended"],
)
async def test_r4_a_server_without_watch_list_is_listed_in_pages(refusal: Any) -> None:
    pages: list[bytes | Exception] = [
        listing(obj("a", 3), revision=9, more="next"),
        listing(obj("b", 4), revision=9),
    ]
    follower = Follower(Server(streams=[refusal, [line("ADDED", obj("c", 10)), FOREVER]], lists=pages))
    await follower.until(lambda: follower.diary.lines[-4:] == ["+a@3", "+b@4", "complete", "+c@10"])
    queries = follower.server.asked
    assert [query.get("continue") for query in queries[1:3]] == ["", "next"]
    assert "resourceVersion" not in queries[1]
    assert queries[3]["resourceVersion"] == "9"
    assert not follower.diary.troubles


async def test_a_silent_start_is_listed_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_INITIAL_SILENCE_S", 0.02)
    follower = Follower(Server(streams=[[line("ADDED", obj("a", 3)), FOREVER]], lists=[listing(revision=9)]))
    await follower.hears("+a@3", "-a", "complete")


async def test_r1_what_happened_before_a_stream_is_not_heard_again() -> None:
    """An object that is gone would come back, and go again."""
    again = [line("ADDED", obj("b", 4)), line("DELETED", obj("b", 11)), line("ADDED", obj("c", 12)), FOREVER]
    follower = Follower(Server(streams=[[*INITIAL, line("DELETED", obj("b", 11))], again]))
    await follower.hears("+a@3", "+b@4", "complete", "-b@11", "+c@12")


async def test_a_stream_resumes_where_it_ended() -> None:
    streams = [[*INITIAL, bookmark(20)], [line("ADDED", obj("c", 21)), FOREVER]]
    follower = Follower(Server(streams=streams))
    await follower.hears("+a@3", "+b@4", "complete", "+c@21")
    assert follower.server.asked[-1]["resourceVersion"] == "20"
    assert "sendInitialEvents" not in follower.server.asked[1]


BEHIND = [line("MODIFIED", obj("a", 10))]


@pytest.mark.parametrize(
    ("rest", "heard"),
    [
        ([line("DELETED", obj("b", 12)), FOREVER], ["-b@12", "current"]),
        ([bookmark(12), FOREVER], ["current"]),
        ([bookmark(11), FOREVER], []),
        ([], ["+a@10", "-b", "complete", "current"]),
    ],
    ids=["an event", "a bookmark", "an early bookmark", "its end"],
)
async def test_an_error_ends_once_the_watch_has_reached_the_revision_of_its_server(
    rest: list[Chunk], heard: list[str]
) -> None:
    """A resumed watch is open before it has brought what happened meanwhile; a list after its end shows that, too."""
    again = [line("ADDED", obj("a", 10)), bookmark(12, ends=True), FOREVER]
    streams = [list(INITIAL), errors.Unreachable("away"), errors.Unreachable("away"), [*BEHIND, *rest], again]
    server = Server(streams=streams, revisions=[12] * 4)
    follower = Follower(server, awaits_present=True)
    before = ["+a@3", "+b@4", "complete", "Unreachable", "Unreachable", "+a@10"]
    await follower.hears(*before, *heard)
    await follower.until(lambda: len(follower.diary.lines) == len([*before, *heard]), within_s=5.0)
    (resumed,) = [asked for asked in server.asked if asked.get("resourceVersion") == "9"][-1:]
    assert int(resumed["timeoutSeconds"]) <= 10


async def test_a_watch_whose_server_has_nothing_new_is_current_as_it_is_opened() -> None:
    streams = [list(INITIAL), errors.Unreachable("away"), errors.Unreachable("away"), [FOREVER]]
    follower = Follower(Server(streams=streams, revisions=[9] * 4), awaits_present=True)
    await follower.hears("+a@3", "+b@4", "complete", "Unreachable", "Unreachable", "current")


@pytest.mark.parametrize(
    "gone",
    [errors.Gone("expired"), [line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}), FOREVER]],
    ids=["at the start", "in the stream"],
)
async def test_r4_an_expired_version_lists_again_and_tells_the_difference(gone: Any) -> None:
    again = [line("ADDED", obj("b", 4)), line("ADDED", obj("c", 30)), bookmark(31, ends=True), FOREVER]
    follower = Follower(Server(streams=[list(INITIAL), gone, again]))
    await follower.hears("+a@3", "+b@4", "complete", "+b@4", "+c@30", "-a", "complete")


async def test_what_a_broken_list_brought_is_not_forgotten() -> None:
    broken = [line("ADDED", obj("a", 3)), errors.Unreachable("cut")]
    again = [line("ADDED", obj("b", 4)), bookmark(9, ends=True), FOREVER]
    follower = Follower(Server(streams=[broken, again]))
    await follower.hears("+a@3", "Unreachable", "+b@4", "-a", "complete", "current")


async def test_an_expired_continuation_begins_again() -> None:
    lists: list[bytes | Exception] = [
        listing(obj("a"), revision=5, more="x"),
        errors.Gone("expired"),
        listing(obj("b"), revision=9),
    ]
    follower = Follower(Server(lists=lists), uses_watch_list=False)
    await follower.hears("+a@1", "+b@1", "-a", "complete")


TROUBLES = [
    errors.Forbidden("no", status=403),
    errors.Unauthorized("no", status=401),
    errors.NotServed("no"),
    errors.Unreachable("no"),
    errors.ServerError("no", status=500),
    errors.TooManyRequests("no", status=429, retry_after_s=0.01),
    errors.ProtocolError("no"),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
async def test_r2_trouble_is_said_and_never_an_empty_list(trouble: errors.RegistryError) -> None:
    follower = Follower(Server(streams=[trouble, trouble, [*INITIAL, FOREVER]]))
    name = type(trouble).__name__
    await follower.hears(name, name, "+a@3", "+b@4", "complete", "current")


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
async def test_trouble_after_the_list_removes_nothing(trouble: errors.RegistryError) -> None:
    streams = [list(INITIAL), trouble, [FOREVER]]
    if isinstance(trouble, errors.NotServed | errors.ProtocolError):
        streams = [list(INITIAL), trouble, [*INITIAL, FOREVER]]
    follower = Follower(Server(streams=streams))
    await follower.until(lambda: follower.diary.lines[-1:] == ["current"])
    assert not [line for line in follower.diary.lines if line.startswith("-")]


async def test_only_answers_prove_life() -> None:
    dead: list[Any] = [errors.Unreachable("no"), errors.Unauthorized("no", status=401)] * 3
    follower = Follower(Server(streams=dead))
    await follower.reflector._discovery.resolve(KIND)
    await follower.until(lambda: len(follower.diary.troubles) == 6)
    follower_alive = Follower(Server(streams=[errors.Forbidden("no", status=403)] * 2))
    await follower_alive.until(lambda: len(follower_alive.diary.troubles) == 2)
    assert follower.alive_count <= 1  # the first quiet stream after the script
    assert follower_alive.alive_count >= 2


@pytest.mark.parametrize(
    "nonsense",
    [obj("x", 5, kind="Secret"), obj("x", 5, namespace=""), obj("x/y", 5), {"kind": "ConfigMap"}],
    ids=["kind", "scope", "name", "no metadata"],
)
async def test_a_list_with_nonsense_is_never_complete(nonsense: Mapping[str, Any]) -> None:
    bad = [line("ADDED", nonsense), *INITIAL]
    follower = Follower(Server(streams=[bad, [*INITIAL, FOREVER]]))
    await follower.hears("ProtocolError", "+a@3", "+b@4", "+a@3", "+b@4", "complete", "current")
    assert [type(trouble) for trouble in follower.diary.troubles] == [errors.ProtocolError]


async def test_an_object_of_another_namespace_is_refused() -> None:
    bad = [line("ADDED", obj("a", 3, namespace="other")), bookmark(9, ends=True), FOREVER]
    follower = Follower(Server(streams=[bad]), selection=Selection("n"))
    await follower.hears("ProtocolError")
    assert not follower.synced


async def test_nonsense_after_the_list_is_listed_again_and_removes_nothing_meanwhile() -> None:
    first = [*INITIAL, line("MODIFIED", obj("a", 5, kind="Secret")), line("ADDED", obj("c", 12))]
    again = [line("ADDED", obj("a", 3)), line("ADDED", obj("b", 4)), bookmark(14, ends=True), FOREVER]
    follower = Follower(Server(streams=[first, again]))
    await follower.hears(
        "+a@3", "+b@4", "complete", "ProtocolError", "+c@12", "+a@3", "+b@4", "-c", "complete", "current"
    )


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>\n",
        b'{"type":"ADDED"}\n',
        line("RENAMED", obj("a")),
        b"null\n",
        line("BOOKMARK", {}),
        line("BOOKMARK", {"metadata": {"resourceVersion": "1" * 129}}),
        line("ERROR", {"kind": "Status", "code": 500, "details": {"causes": [{}] * 30_000}}),
    ],
)
async def test_garbage_ends_the_stream_and_lists_again(garbage: bytes) -> None:
    follower = Follower(Server(streams=[[*INITIAL, garbage, FOREVER], [*INITIAL, FOREVER]]))
    await follower.hears("+a@3", "+b@4", "complete", "ProtocolError", "+a@3", "+b@4", "complete", "current")


async def test_a_line_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry_controller.kube.watch.ANSWER_BYTES", 1000)
    follower = Follower(Server(streams=[[*INITIAL, *([b"x" * 100] * 20), FOREVER], [FOREVER]]))
    await follower.hears("+a@3", "+b@4", "complete", "TooMuch")


async def test_a_line_in_small_pieces_takes_little_more_than_what_it_says() -> None:
    size = 30_000
    held = 0

    def drip() -> Iterator[Chunk]:
        nonlocal held
        yield from INITIAL
        for number in range(size):
            yield bytes(bytearray(b"xx"))  # a new one each time, as from a socket
            held = max(held, tracemalloc.get_traced_memory()[0]) if number % 1000 == 0 else held
        yield 0.0

    tracemalloc.start()
    try:
        follower = Follower(Server(streams=[drip(), [FOREVER]]))
        await follower.until(lambda: len(follower.server.asked) > 1)
    finally:
        tracemalloc.stop()
    assert 0 < held < 8 * size, "a piece of two bytes is 35 bytes as an object"


async def test_a_stream_that_goes_on_when_it_was_to_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: whoever resets silence by a bookmark now and then cannot hold a stream open for ever."""
    monkeypatch.setattr(module, "_WATCH_S", (0, 0))
    monkeypatch.setattr(module, "_OVERTIME_S", 0.5)
    drip: list[Any] = [*INITIAL, *([0.05, bookmark(12)] * 1000)]
    follower = Follower(Server(streams=[drip, [FOREVER]]))
    await follower.until(lambda: len(follower.server.asked) > 2, within_s=30.0)
    assert follower.server.asked[1]["fieldSelector"] == "metadata.name=b", "whether its history goes on"
    assert follower.server.asked[2]["resourceVersion"] == "12"
    assert follower.diary.lines == ["+a@3", "+b@4", "complete"], "it is no trouble, and nothing is heard anew"


async def test_a_server_that_offers_too_much_is_left_and_asked_again_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: what was heard stays; nothing is complete, so nothing is deleted."""
    monkeypatch.setattr(retry, "_REFUSED_CAP_S", 60.0)
    monkeypatch.setattr(delivery, "_CHECKED_EVERY", 1)

    def check_room() -> None:
        if follower.diary.lines:
            raise errors.TooMuch("enough")

    follower = Follower(Server(streams=[list(INITIAL)]), check_room=check_room)
    with pytest.raises(TimeoutError):
        await follower.until(lambda: len(follower.server.asked) > 1, within_s=0.5)
    assert follower.diary.lines == ["+a@3", "TooMuch"]
    assert not follower.synced


async def test_initial_events_that_never_end_are_left_for_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_INITIAL_S", 0.2)
    drip: list[Any] = [INITIAL[0], *([0.05, INITIAL[0]] * 1000)]
    follower = Follower(Server(streams=[drip, [FOREVER]], lists=[listing(obj("b", 4), revision=9)]))
    await follower.until(lambda: "complete" in follower.diary.lines, within_s=30.0)
    assert follower.diary.lines[-3:] == ["+b@4", "-a", "complete"]


async def test_streams_that_end_at_once_are_not_opened_in_a_rush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_BASE_S", 0.2)
    monkeypatch.setattr(retry, "_CAP_S", 5.0)
    empty: list[Any] = [[] for _ in range(1000)]
    follower = Follower(Server(streams=[list(INITIAL), *empty]))
    with pytest.raises(TimeoutError):
        await follower.until(lambda: False, within_s=1.5)
    assert len(follower.server.asked) < 20
    assert not follower.diary.troubles


async def test_retry_now_ends_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "backoff_s", lambda *_, **__: 60.0)
    follower = Follower(Server(streams=[errors.Forbidden("no", status=403), [*INITIAL, FOREVER]]))

    def holds() -> bool:
        if follower.diary.troubles:
            follower.reflector.retry_now()
        return follower.synced

    await follower.until(holds)


async def test_a_server_that_comes_back_refusing_is_asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that starts refuses everything for a second; what it was away for is no reason to wait a minute."""
    monkeypatch.setattr(retry, "_BASE_S", 0.2)
    monkeypatch.setattr(retry, "_CAP_S", 5.0)
    monkeypatch.setattr(retry, "_REFUSED_CAP_S", 60.0)
    bounds: list[float] = []

    def note_bound(attempt: int, *, base: float, cap: float, chance: float) -> float:
        bounds.append(backoff_s(attempt, base=base, cap=cap, chance=1.0))
        return 0.0

    monkeypatch.setattr(retry, "backoff_s", note_bound)
    away, refusing = errors.Unreachable("away"), errors.Forbidden("not yet", status=403)
    follower = Follower(Server(streams=[*[away] * 8, *[refusing] * 10, [*INITIAL, FOREVER]]))
    await follower.until(lambda: follower.synced)
    assert bounds[:8] == sorted(bounds[:8])
    assert bounds[8] == bounds[0]
    assert bounds[17] == 60.0


async def test_a_swapped_connection_resumes_without_a_stall() -> None:
    old = Server(streams=[[*INITIAL, FOREVER]])
    new: Any = Server(streams=[[line("ADDED", obj("c", 21)), FOREVER]])
    new.stored = old.stored
    follower = Follower(old)

    def holds() -> bool:
        if follower.synced and not old.closed.is_set():
            from registry_controller.kube.discover import Discovery

            follower.reflector.swap(new, Discovery(new))
            old.closed.set()
        return follower.diary.lines[-1:] == ["+c@21"]

    await follower.until(holds)
    assert new.asked[-1]["resourceVersion"] == "9"
    assert not follower.diary.troubles


async def test_w3_one_that_does_not_resume_is_outdated_by_every_break() -> None:
    again = [line("ADDED", obj("a", 10)), bookmark(11, ends=True), FOREVER]
    follower = Follower(Server(streams=[list(INITIAL), errors.Unreachable("away"), again]), resumes=False)
    broke = ["outdated", "outdated", "Unreachable"]  # the stream, and the next try
    await follower.hears("+a@3", "+b@4", "complete", *broke, "+a@10", "-b", "complete", "current")


async def test_w3_one_that_does_not_resume_is_outdated_by_another_connection() -> None:
    old = Server(streams=[[*INITIAL, FOREVER]])
    new: Any = Server(streams=[[*INITIAL, FOREVER]])
    follower = Follower(old, resumes=False)

    def holds() -> bool:
        if follower.synced and not old.closed.is_set():
            from registry_controller.kube.discover import Discovery

            follower.reflector.swap(new, Discovery(new))
            old.closed.set()
        return follower.diary.lines.count("complete") == 2

    await follower.until(holds)
    assert "outdated" in follower.diary.lines[:4]
    assert not follower.diary.troubles


async def test_a_bug_of_ours_ends_it_loudly() -> None:
    follower = Follower(Server(streams=[[*INITIAL, FOREVER]]))

    def broken(obj: PartialObject) -> None:
        raise ZeroDivisionError

    follower.diary.on_object = broken  # type: ignore[method-assign]
    with pytest.raises(ExceptionGroup) as caught:
        await follower.until(lambda: False)
    assert caught.value.subgroup(ZeroDivisionError)


@pytest.mark.parametrize("watch_list", [True, False], ids=["streamed", "listed"])
async def test_a_list_at_which_rules_look_for_long_lets_others_run(
    watch_list: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few its objects are."""
    objects = [obj(f"o{index}", index + 1) for index in range(60)]
    everything = b"".join(line("ADDED", item) for item in objects)
    server = Server(lists=[listing(*objects, revision=99)], streams=[[everything, bookmark(99, ends=True), FOREVER]])
    monkeypatch.setattr(Diary, "on_object", lambda *_: time.sleep(0.005))
    follower = Follower(server, uses_watch_list=watch_list)
    turns = 0

    def holds() -> bool:
        return follower.synced

    async def count() -> None:
        nonlocal turns
        while not holds():
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(count(), name="count")
        await follower.until(holds)
    assert turns >= 20


async def test_o3_a_server_whose_history_does_not_reach_so_far_is_listed_anew() -> None:
    """R4: a watch that resumes beyond it would be silent, and no error."""
    streams = [list(INITIAL), [line("ADDED", obj("a", 2)), bookmark(5, ends=True), FOREVER]]
    follower = Follower(Server(streams=streams, revisions=[5]))
    await follower.hears("+a@3", "+b@4", "complete", "outdated", "+a@2", "-b", "complete")


@pytest.mark.parametrize(
    ("changes", "present"),
    [([], {"b": 2}), ([], {"b": None}), ([line("DELETED", obj("b", 10))], {"b": 4})],
    ids=["the last one is older", "the last one was never there", "the last one was never deleted"],
)
async def test_o3_a_server_whose_history_is_another_one_is_listed_anew(
    changes: list[Chunk], present: Mapping[str, int | None]
) -> None:
    """R4: its revision is past the known one again, as after the restore of an etcd that is written to since."""
    anew = [line("ADDED", obj("a", 3)), bookmark(50, ends=True), FOREVER]
    follower = Follower(Server(streams=[[*INITIAL, *changes], anew], revisions=[50], present=present))
    gone = ["-b@10"] if changes else []
    await follower.hears(
        "+a@3", "+b@4", "complete", *gone, "outdated", "+a@3", *([] if changes else ["-b"]), "complete"
    )


@pytest.mark.parametrize(
    ("end", "heard"),
    [(errors.Unreachable("silent"), ["Unreachable"]), (FOREVER, [])],
    ids=["it is reset after its end was due", "it never ends"],
)
async def test_o3_a_server_that_did_not_end_the_watch_itself_is_asked_whether_its_history_goes_on(
    monkeypatch: pytest.MonkeyPatch, end: Chunk, heard: list[str]
) -> None:
    """R4: its virtual machine may have been reset to a snapshot, which answers nothing on the old connection."""
    monkeypatch.setattr(module, "_WATCH_S", (0, 0))
    monkeypatch.setattr(module, "_OVERTIME_S", 0.5)
    anew = [line("ADDED", obj("a", 2)), bookmark(5, ends=True), FOREVER]
    follower = Follower(Server(streams=[[*INITIAL, end], anew], revisions=[5]))
    await follower.hears("+a@3", "+b@4", "complete", *heard, "outdated", "+a@2", "-b", "complete")


async def test_a_stream_that_the_server_ends_in_time_goes_on_without_a_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_WATCH_S", (0, 0))
    follower = Follower(Server(streams=[list(INITIAL), [FOREVER]]))
    await follower.until(lambda: len(follower.server.asked) > 1)
    assert follower.server.asked[1]["resourceVersion"] == "9"


@pytest.mark.parametrize(
    ("present", "found"),
    [(9, None), (11, None), (50, None), (50, 11)],
    ids=["at the known one", "before the write", "past it without the object", "past it with an older object"],
)
async def test_o3_a_server_that_lost_a_write_whose_event_never_came_is_listed_anew(
    present: int, found: int | None
) -> None:
    """R4: the watch itself knows nothing that is not there."""
    anew = [line("ADDED", obj("a", 3)), line("ADDED", obj("b", 4)), bookmark(present, ends=True), FOREVER]
    follower = Follower(Server(streams=[list(INITIAL), anew], revisions=[present], present={"c": found}))
    follower.diary.writes = [LastChange(decode_object(json.dumps(obj("c", 12)).encode()))]
    await follower.hears("+a@3", "+b@4", "complete", "outdated", "+a@3", "+b@4", "complete")


@pytest.mark.parametrize("is_other", [False, True])
async def test_r4_a_server_that_has_another_change_of_the_object_at_the_same_revision_is_listed(is_other: bool) -> None:
    """R4: it was restored without a raised revision, and the first change after that is one of the same object."""
    anew = [line("ADDED", obj("a", 3)), line("ADDED", obj("b", 4)), bookmark(9, ends=True), FOREVER]
    server = Server(streams=[list(INITIAL), anew if is_other else [FOREVER]], revisions=[9], present={"b": 4})
    if is_other:
        server.build = lambda name, revision: obj(name, revision) | {"data": {"of": "another history"}}  # type: ignore[method-assign]
    follower = Follower(server)
    heard = ["+a@3", "+b@4", "complete", *(["outdated", "+a@3", "+b@4", "complete"] if is_other else [])]
    await follower.until(lambda: not server.streams and len(follower.diary.lines) >= len(heard))
    assert follower.diary.lines == heard
    assert bool(follower.server.asked[-1].get("resourceVersion")) is not is_other


@pytest.mark.parametrize(("listed", "is_lost"), [(11, True), (12, False)])
async def test_r4_a_first_list_that_is_earlier_than_what_another_watch_knows_is_of_another_history(
    listed: int, is_lost: bool
) -> None:
    """R4: a stream from a cache may lag, a list from the quorum does not."""
    stored = listing(obj("a", 3), obj("b", 4), revision=listed)
    follower = Follower(Server(streams=[list(INITIAL), [FOREVER]], lists=[stored]))
    follower.diary.newest = 12
    await follower.hears("+a@3", "+b@4", *(["outdated"] if is_lost else []), "+a@3", "+b@4", "complete")


async def test_p6_a_server_that_has_a_write_whose_event_never_came_is_resumed() -> None:
    """R4."""
    streams = [list(INITIAL), [line("ADDED", obj("c", 12)), FOREVER]]
    follower = Follower(Server(streams=streams, revisions=[12], present={"c": 12}))
    follower.diary.writes = [LastChange(decode_object(json.dumps(obj("c", 12)).encode()))]
    await follower.hears("+a@3", "+b@4", "complete", "+c@12")
    assert follower.server.asked[-1]["resourceVersion"] == "9"


async def test_r4_a_server_that_has_not_shown_a_deletion_is_listed() -> None:
    """Its answer to the deletion has no revision that its history could be compared with."""
    anew = [line("ADDED", obj("a", 3)), line("ADDED", obj("b", 4)), bookmark(9, ends=True), FOREVER]
    follower = Follower(Server(streams=[list(INITIAL), anew], revisions=[9]))
    follower.diary.has_deleted = True
    await follower.hears("+a@3", "+b@4", "complete", "+a@3", "+b@4", "complete")
    assert not follower.server.asked[-1].get("resourceVersion")


async def test_an_early_end_is_reported_once_until_the_watch_goes_on() -> None:
    """W3: until then the server may be in another state when it answers again."""
    again = [line("MODIFIED", obj("a", 10)), FOREVER]
    follower = Follower(
        Server(streams=[list(INITIAL), errors.Unreachable("away"), errors.Unreachable("away"), again], revisions=[9])
    )
    await follower.until(lambda: "+a@10" in follower.diary.lines)
    assert follower.diary.interruptions == 1


async def test_p6_what_was_deleted_and_created_again_is_of_the_same_history() -> None:
    """R4."""
    streams = [[*INITIAL, line("DELETED", obj("b", 10))], [line("ADDED", obj("b", 12)), FOREVER]]
    follower = Follower(Server(streams=streams, revisions=[12], present={"b": 12}))
    await follower.hears("+a@3", "+b@4", "complete", "-b@10", "+b@12")
    assert follower.server.asked[-1]["resourceVersion"] == "10"


async def test_w3_a_cache_that_is_late_is_not_believed_when_all_is_heard_anew() -> None:
    late = [line("ADDED", obj("a", 2)), bookmark(5, ends=True), FOREVER]
    stored = listing(obj("a", 3), obj("b", 4), revision=12)
    follower = Follower(Server(streams=[list(INITIAL), late, [FOREVER]], lists=[stored]), resumes=False)
    await follower.hears("+a@3", "+b@4", "complete", "outdated", "+a@2", "+a@3", "+b@4", "complete")
    await follower.until(lambda: follower.server.asked[-1].get("resourceVersion") == "12")


async def test_p6_a_server_whose_history_goes_on_is_resumed() -> None:
    """R4."""
    streams = [list(INITIAL), [line("MODIFIED", obj("a", 10)), FOREVER]]
    follower = Follower(Server(streams=streams, revisions=[9]))
    await follower.hears("+a@3", "+b@4", "complete", "+a@10")
    assert follower.server.asked[-1]["resourceVersion"] == "9"


@pytest.mark.parametrize("uncounted", [1, None], ids=["there is one more", "the server does not count"])
async def test_r4_a_server_that_may_have_another_number_of_objects_than_its_list_is_listed_anew(
    uncounted: int | None,
) -> None:
    """A restore undoes a deletion: no object of the list shows that."""
    follower = Follower(Server(streams=[list(INITIAL), [*INITIAL, FOREVER]], revisions=[9]))
    follower.server.uncounted = uncounted
    await follower.hears("+a@3", "+b@4", "complete", "+a@3", "+b@4", "complete")


async def test_r4_a_change_since_the_list_shows_the_history_without_a_count() -> None:
    streams = [[*INITIAL, line("MODIFIED", obj("a", 10))], [line("MODIFIED", obj("a", 11)), FOREVER]]
    follower = Follower(Server(streams=streams, revisions=[10], present={"a": 10}))
    follower.server.uncounted = None
    await follower.hears("+a@3", "+b@4", "complete", "+a@10", "+a@11")


WIDGETS = {"resources": [{"name": "widgets", "kind": "Widget", "namespaced": True, "verbs": ["list", "watch"]}]}
WIDGET = GVK("test.example.com", "v1", "Widget")


def widget(name: str, revision: int) -> dict[str, Any]:
    return {**obj(name, revision), "apiVersion": "test.example.com/v1", "kind": "Widget"}


class WidgetServer(Server):
    """It serves a kind with a definition."""

    build = staticmethod(widget)

    async def get_path(self, path: str, *, timeout_s: float = 10.0, limit_bytes: int = 0) -> bytes:
        self.answers += 1
        return json.dumps(WIDGETS).encode()


WIDGETS_ANEW = [line("ADDED", widget("a", 10)), bookmark(12, ends=True), FOREVER]


@pytest.mark.parametrize("has_news", [True, False])
async def test_r4_what_came_before_the_server_ended_a_watch_early_is_listed_anew(has_news: bool) -> None:
    """It may have been read by a former definition. A watch that showed nothing goes on."""
    first = [line("ADDED", widget("a", 3)), bookmark(9, ends=True)]
    news = [line("MODIFIED", widget("a", 10))] if has_news else []
    server = WidgetServer(streams=[[*first, *news], WIDGETS_ANEW], present={"a": 3}, revisions=[9])
    follower = Follower(server, kind=WIDGET)
    if has_news:
        await follower.hears("+a@3", "complete", "+a@10", "doubt>9", "+a@10", "complete")
    else:
        await follower.hears("+a@3", "complete", "+a@10")
        assert server.asked[-1]["resourceVersion"] == "9"


async def test_r4_what_came_before_a_watch_ended_in_time_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WATCH_S", (0, 0))
    first = [line("ADDED", widget("a", 3)), bookmark(9, ends=True), line("MODIFIED", widget("a", 10))]
    follower = Follower(WidgetServer(streams=[first, [FOREVER]]), kind=WIDGET)
    await follower.until(lambda: len(follower.server.asked) > 1)
    assert follower.server.asked[1]["resourceVersion"] == "10"
