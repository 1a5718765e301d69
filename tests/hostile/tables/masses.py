"""More than anybody asked for: objects and events in masses."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.hostile.cases import HONEST, Case, Copy, config_map
from tests.hostile.server.asking import Ask, Wire
from tests.hostile.server.deeds import endless_pages, floods, no_stream_of_lists, says, tells, watches
from tests.hostile.server.stranger import Stranger
from tests.hostile.server.world import objects, parse
from tests.hostile.shown import MAPS, SERVED, Claim, Sight, rare, stays, told

_A_PAGE: Final = 500
_OBJECTS: Final = 40
_PER_S: Final = 5000
_EVENTS: Final = 5 * _PER_S


def _is_labelled(ask: Ask) -> bool:
    return "share" in ask.query.get("labelSelector", "")


def _never_ends(server: Stranger) -> None:
    """Objects of a kind of which a rule asks for some: each page holds others, and there is always a next one."""
    names = endless_pages(lambda page: list(objects("Secret", [f"s{page}-{number}" for number in range(_A_PAGE)])))
    server.order(no_stream_of_lists, when=lambda ask: ask.wants_initial and _is_labelled(ask))
    server.order(names, when=lambda ask: not ask.is_watch and _is_labelled(ask))


def _floods(server: Stranger) -> None:
    held = [
        says(config_map(f"flood-{server.name}-{number}"), ("metadata.uid", f"u{number}")) for number in range(_OBJECTS)
    ]

    def event(number: int) -> tuple[str, Any]:
        found = held[number % _OBJECTS]
        return "MODIFIED", {
            **found,
            "metadata": {**found["metadata"], "resourceVersion": str(10_000 + number)},
            "data": {"text": f"{number}"},
        }

    async def deed(ask: Ask, wire: Wire, here: Stranger) -> None:
        place = parse(ask.path)
        assert place is not None
        await watches(initial=here.world.find(place), then=floods(event, per_s=_PER_S, of=_EVENTS))(ask, wire, here)

    server.order(deed, MAPS, when=lambda ask: ask.is_watch)


def _initial_never_ends(server: Stranger) -> None:
    """A stream of what exists, without the mark that ends it."""

    def lines() -> Any:
        number = 0
        while True:
            batch = objects("Secret", [f"i{number + offset}" for offset in range(_A_PAGE)])
            number += _A_PAGE
            yield b"".join(_added(found) for found in batch)

    async def deed(ask: Ask, wire: Wire, here: Stranger) -> None:
        await wire.begin()
        await tells(lines())(ask, wire, here)

    server.order(deed, when=lambda ask: ask.is_watch and _is_labelled(ask))


def _added(found: Any) -> bytes:
    return json.dumps({"type": "ADDED", "object": found}).encode() + b"\n"


def _asked_rarely(*, watched: bool) -> Claim:
    """Claim it of what is labelled: of its beginning, where it is listed."""

    def moments(sight: Sight) -> list[float]:
        return sight.asked(
            lambda ask: (
                _is_labelled(ask)
                and ask.path == "/api/v1/secrets"
                and ask.is_watch == watched
                and "continue" not in ask.query
            )
        )

    return rare("is not asked again for half a minute", moments)


_SAID: Final = "offers more than 150000 objects"
_LEFT: Final = told("150,000 are kept")

MASSES: Final = (
    Case(
        "lists objects without end, in order",
        (_LEFT, _asked_rarely(watched=False)),
        _never_ends,
        said=(_SAID,),
        copied=HONEST,
    ),
    Case(
        "streams objects without end, in order",
        (_LEFT, _asked_rarely(watched=True)),
        _initial_never_ends,
        said=(_SAID,),
        copied=HONEST,
    ),
)

_LAST: Final = range(_EVENTS - _OBJECTS, _EVENTS)

FLOOD: Final = (
    Case(
        "changes 40 objects 5,000 times a second, for five seconds",
        (stays("their last state comes, and stays"), SERVED),
        _floods,
        copied=(
            *HONEST,
            *(Copy(f"flood-{{}}-{number % _OBJECTS}", {"text": f"{number}"}) for number in _LAST),
        ),
        lasts_s=6.0,
    ),
)
