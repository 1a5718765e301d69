"""What a server in bad hands may do instead of answering: each a function that makes a Deed."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from tests.hostile.server.asking import Ask, HangUpError, Wire, status
from tests.hostile.server.stranger import Deed, Stranger
from tests.hostile.server.world import Manifest, Place, parse

_NOTHING = b" " * (64 * 1024)
_STEP_S = 0.02
_LONG_S = 3600.0
_BOMB_PART = b"{}, " * (256 * 1024)
BOMB_MIB: Final = 256
"""What a bomb would become: twice what the daemon may grow by in any family."""
WINDOWS: Final = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
"""What zlib calls an encoding."""


def replies(body: Any, *, code: int = 200, headers: Mapping[str, str] | None = None) -> Deed:
    """Answer with the same thing each time; a body that is large is given as a function that makes it."""

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        await wire.answer(body() if callable(body) else body, status=code, headers=headers)

    return deed


def refuses(code: int, reason: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Deed:
    """Answer with a Status."""
    return replies(status(code, reason, **more), code=code, headers=headers)


def sends(*parts: bytes, again: bytes = b"", every_s: float = 0.0) -> Deed:
    """Send bytes as they are; then `again` for ever, or hang up."""

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        for part in parts:
            await wire.send(part)
        while again:
            await wire.send(again)
            await asyncio.sleep(every_s)
        raise HangUpError

    return deed


async def silence(ask: Ask, wire: Wire, server: Stranger) -> None:
    """Say nothing."""
    await asyncio.sleep(_LONG_S)


async def hangs_up(ask: Ask, wire: Wire, server: Stranger) -> None:
    """Close the connection instead of answering."""
    raise HangUpError


async def closes_after(ask: Ask, wire: Wire, server: Stranger) -> None:
    """Answer honestly, and close the connection."""
    await server.world.answer(ask, wire)
    raise HangUpError


@functools.cache
def bomb(encoding: str) -> bytes:
    """Compress JSON of 256 MiB to some 256 KiB; the body is whole and valid in its encoding."""
    packer = zlib.compressobj(wbits=WINDOWS[encoding])
    parts = [b'{"items": [', *itertools.repeat(_BOMB_PART, BOMB_MIB), b"{}]}\n"]
    return b"".join([*map(packer.compress, parts), packer.flush()])


def compresses(encoding: str) -> Deed:
    """Answer with a bomb. It is made in another thread: all servers share one loop."""

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        body = await asyncio.to_thread(bomb, encoding)
        await wire.answer(body, headers={"Content-Encoding": encoding})

    return deed


def in_turn(*deeds: Deed) -> Deed:
    """Do one after the other, a request each, and begin again."""
    order = itertools.cycle(deeds)

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        await next(order)(ask, wire, server)

    return deed


async def no_stream_of_lists(ask: Ask, wire: Wire, server: Stranger) -> None:
    """Refuse to send initial events, as servers do that are older than 1.32."""
    await wire.answer(status(422, "Invalid"), status=422)


def lists(make: Callable[[Ask, Stranger, Place], Any]) -> Deed:
    """Answer a list with what `make` gives."""

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        place = parse(ask.path)
        assert place is not None
        await wire.answer(make(ask, server, place))

    return deed


def holds(*items: Any, **info: Any) -> Deed:
    """Answer a list with these items."""
    return lists(lambda ask, server, place: server.world.spell_list(place, list(items), **info))


def endless_pages(make: Callable[[int], list[Any]]) -> Deed:
    """Answer each page with what `make` gives for its number, and the token of the next one."""

    def page(ask: Ask, server: Stranger, place: Place) -> Any:
        number = int(ask.query.get("continue", "0"))
        return server.world.spell_list(place, make(number), **{"continue": str(number + 1)})

    return lists(page)


def endless_body(head: bytes, item: Callable[[int], bytes]) -> Deed:
    """Answer 200 with a body that never ends, as fast as it is taken."""

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        await wire.begin()
        await wire.chunk(head)
        for number in itertools.count():
            await wire.chunk(item(number))

    return deed


def blank_body() -> Deed:
    """Answer 200 with white space for ever."""
    return endless_body(b"{", lambda number: _NOTHING)


def watches(*events: tuple[str, Any], initial: Iterable[Any] = (), then: Deed | None = None) -> Deed:
    """Begin a watch in order, with these objects, and send these events; then hold it open, or do something else."""

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        place = parse(ask.path)
        assert place is not None
        await wire.begin()
        if ask.wants_initial:
            for found in initial:
                await wire.line("ADDED", found)
            await wire.line("BOOKMARK", server.world.bookmark(place, initial=True))
        for type_, manifest in events:
            await wire.line(type_, manifest)
        await (then or silence)(ask, wire, server)

    return deed


def tells(lines: Iterable[bytes], *, then: Deed = silence) -> Deed:
    """Go on with these lines in a watch that was begun, each as it is."""

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        for line in lines:
            await wire.chunk(line)
        await then(ask, wire, server)

    return deed


def floods(events: Callable[[int], tuple[str, Any]], *, per_s: int, of: int) -> Deed:
    """Go on with so many events a second, in a watch that was begun, and then say nothing more."""
    a_step = max(1, int(per_s * _STEP_S))

    def batches() -> Iterator[bytes]:
        for number in range(0, of, a_step):
            told = (events(number + offset) for offset in range(a_step))
            yield b"".join(json.dumps({"type": type_, "object": found}).encode() + b"\n" for type_, found in told)

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for step, batch in enumerate(batches()):
            await wire.chunk(batch)
            await asyncio.sleep(max(0.0, began + (step + 1) * _STEP_S - loop.time()))
        await silence(ask, wire, server)

    return deed


async def ends_the_stream(ask: Ask, wire: Wire, server: Stranger) -> None:
    """End an answer of chunks in order."""
    await wire.chunk(b"")


def says(manifest: Mapping[str, Any], *changes: tuple[str, Any]) -> Manifest:
    """Give a copy of an object with some fields changed, each by its dotted path; None takes one away."""
    found: Manifest = json.loads(json.dumps(manifest))
    for path, value in changes:
        *parents, last = path.split(".")
        place = found
        for parent in parents:
            place = place[parent]
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return found


def annotated(manifest: Mapping[str, Any], annotations: Mapping[str, str]) -> Manifest:
    """Give a copy of an object with these annotations."""
    return says(manifest, ("metadata.annotations", dict(annotations)))


def before_tls(data: bytes = b"") -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Say something else than TLS, or nothing, and hold the connection."""

    async def greeting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(_LONG_S)

    return greeting
