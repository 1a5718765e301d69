"""What it streams to a watch: lines, events of nonsense, errors, and histories that go back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, Final

from tests.hostile.cases import HONEST, Case, config_map, good_name
from tests.hostile.server.asking import Ask, Wire, status
from tests.hostile.server.deeds import compresses, ends_the_stream, says, silence, tells, watches
from tests.hostile.server.stranger import Deed, Stranger
from tests.hostile.server.world import parse
from tests.hostile.shown import (
    LISTED_AGAIN,
    MAPS,
    MIB,
    NOT_DECOMPRESSED,
    STAYS,
    WATCHED,
    Claim,
    ends,
    rare,
    stays,
)
from tests.hostile.shown import (
    watches as watched,
)
from tests.hostile.tables.connections import COMPRESSED
from tests.hostile.tables.lists import without_streams

_KEPT: Final = (STAYS, LISTED_AGAIN)
_AGAIN: Final = (STAYS, WATCHED)
_NAMED: Final = "an object with an invalid name"
_NO_EVENT: Final = "a line that is not an event"


def _after(make: Callable[[Stranger], Deed]) -> Deed:
    """Begin honestly, with everything that is there, and go on in another way."""

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        place = parse(ask.path)
        assert place is not None
        found = [item for item in server.world.find(place) if item["metadata"]["name"] == good_name(server)]
        await watches(initial=found, then=make(server))(ask, wire, server)

    return deed


def _watched(does: str, claims: tuple[Claim, ...], make: Callable[[Stranger], Deed], *said: str) -> Case:
    def arm(server: Stranger) -> None:
        server.order(_after(make), MAPS, when=lambda ask: ask.is_watch)

    return Case(does, claims, arm, said=said, copied=HONEST)


def _sends(does: str, claims: tuple[Claim, ...], *lines: bytes, said: str = "", then: Deed | None = None) -> Case:
    def make(server: Stranger) -> Deed:
        return tells(lines, then=then or silence)

    return _watched(does, claims, make, *([said] if said else []))


def _line(type_: str, manifest: Any) -> bytes:
    return json.dumps({"type": type_, "object": manifest}).encode() + b"\n"


def _event(does: str, manifest: Any, said: str, *, type_: str = "MODIFIED") -> Case:
    """Events that make no sense, and the end of the stream: it is then heard anew, but not before."""
    return _sends(does, _KEPT, _line(type_, manifest), said=said, then=ends_the_stream)


def _error(does: str, manifest: Any, said: str) -> Case:
    return _sends(does, _AGAIN, _line("ERROR", manifest), said=said)


def _endless_line(server: Stranger) -> Deed:
    return tells(itertools.chain([b'{"type":"ADDED","object":{"x":"'], itertools.repeat(b"y" * 65536)))


def _streams_a_bomb(server: Stranger) -> None:
    """Honest while it is listed; the encoding of a stream is said at its beginning."""
    without_streams(server)
    server.order(compresses("gzip"), MAPS, when=lambda ask: ask.is_watch)


def _goes_back(server: Stranger) -> Deed:
    """An object whose states count backwards, and bookmarks that do."""
    good = {**config_map(good_name(server)), "data": {"text": "x"}}
    lines = []
    for number in range(90, 0, -1):
        told = says(good, ("metadata.resourceVersion", str(number)), ("metadata.uid", "u"))
        lines.append(_line("MODIFIED", says(told, ("data.text", f"old {number}"))))
        mark = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": str(number)}}
        lines.append(_line("BOOKMARK", mark))
    return tells(lines)


def _named(name: str) -> Any:
    return says(config_map("a"), ("metadata.name", name))


def _with(*changes: tuple[str, Any]) -> Any:
    return says(config_map("a"), *changes)


EVENTS: Final = (
    _event("sends events of another kind", {**config_map("a"), "kind": "Secret"}, "is not of the kind"),
    _event(
        "sends events of another namespace",
        config_map("a", namespace="kube-system"),
        "is in a namespace that was not requested",
    ),
    _event(
        "sends events of no namespace", _with(("metadata.namespace", None)), "is in a namespace that was not requested"
    ),
    _event("sends names with slashes", _named("../../secrets/a"), _NAMED),
    _event("sends the name `..`", _named(".."), _NAMED),
    _event("sends an empty name", _named(""), _NAMED),
    _event("sends a name of 10 KB", _named("x" * 10_000), _NAMED),
    _event("sends a name with control characters", _named("a\x1b[2J"), _NAMED),
    _event("sends a uid of 10 KB", _with(("metadata.uid", "x" * 10_000)), "has an invalid uid"),
    _event(
        "sends a creation time of 10 KB",
        _with(("metadata.creationTimestamp", "2" * 10_000)),
        "has an invalid creationTimestamp",
    ),
)

LINES: Final = (
    _event(
        "sends objects without metadata",
        {"apiVersion": "v1", "kind": "ConfigMap"},
        "an object without readable metadata",
    ),
    _event(
        "sends 200,000 labels",
        _with(("metadata.labels", {f"{number}": "" for number in range(200_000)})),
        "an object with more metadata than is accepted",
    ),
    _event(
        "sends labels that are numbers", _with(("metadata.labels", {"a": 5})), "an object without readable metadata"
    ),
    _event("sends null as an object", None, "an object without readable metadata"),
    _event("sends events of an unknown type", config_map("a"), "an event of an unknown type", type_="EXPLODED"),
    _sends("sends lines that are no events", _AGAIN, b"<html>\n", said=_NO_EVENT),
    _sends("sends empty lines", _AGAIN, b"\n", said=_NO_EVENT),
    _sends(
        "sends 100,000 lists in one another",
        _KEPT,
        b'{"type":"ADDED","object":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        said=_NO_EVENT,
    ),
    _watched(
        "sends a line without end",
        (
            STAYS,
            ends("is left at 8 MiB", at_bytes=8 * MIB),
            rare("is not watched again for half a minute", watched(MAPS)),
        ),
        _endless_line,
        "a line longer than 8 MiB",
    ),
    Case(
        "streams 256 MiB in 256 KiB, with gzip",
        (NOT_DECOMPRESSED, *_AGAIN),
        _streams_a_bomb,
        said=(COMPRESSED,),
        copied=HONEST,
    ),
)

ERRORS: Final = (
    _error("sends errors that are no Status", [1], _NO_EVENT),
    _error("sends an error 500", status(500, "InternalError"), "500"),
    _error("sends an error 403", status(403, "Forbidden"), "403"),
    _error("sends an error without a code", {"kind": "Status"}, "500"),
    _sends("sends 410 in every stream", (STAYS, LISTED_AGAIN), _line("ERROR", status(410, "Expired"))),
    _sends("ends every stream at once", _AGAIN, then=ends_the_stream),
    _watched("sends states and bookmarks that go back", (stays("the newer states stay"),), _goes_back),
    _sends(
        "deletes an object that it never had",
        (stays("nothing is deleted"),),
        _line("DELETED", _with(("metadata.resourceVersion", "9999"), ("metadata.name", "native"))),
    ),
)
