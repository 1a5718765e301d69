"""Scripts for `calls`: what becomes of some calls, and how often it did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.chaos.calls import Answer, Call, Drop


class Pass:
    """A Script that changes nothing."""

    async def before(self, call: Call) -> Answer | None:
        return None

    async def after(self, call: Call) -> None:
        return None

    async def part(self, call: Call, part: bytes) -> bytes:
        return part


class Count(Pass):
    """Count in how many parts of answers something is said."""

    def __init__(self, *words: bytes) -> None:
        self._words = words
        self.count = 0

    async def part(self, call: Call, part: bytes) -> bytes:
        self.count += any(word in part for word in self._words)
        return part


class Refuse(Pass):
    """Answer some calls instead of the API server, and count them."""

    def __init__(self, answer: Answer, *, which: Callable[[Call], bool] = lambda call: True) -> None:
        self._answer, self._which = answer, which
        self.count = 0

    async def before(self, call: Call) -> Answer | None:
        if not self._which(call):
            return None
        self.count += 1
        return self._answer


class Expel(Pass):
    """Once `is_shut` is set, refuse whoever asks (401) and end the streams of one resource; others go on as before.

    `count` is of what was refused.
    """

    def __init__(self, plural: str) -> None:
        self._path_end = f"/{plural}"
        self.is_shut = False
        self.count = 0

    async def before(self, call: Call) -> Answer | None:
        self.count += self.is_shut
        return Answer(401, b"{}") if self.is_shut else None

    async def part(self, call: Call, part: bytes) -> bytes:
        if self.is_shut and call.is_watch and call.path.endswith(self._path_end):
            raise Drop
        return part


class Hang(Pass):
    """Hold some calls back before they arrive."""

    def __init__(self, seconds: float, *, which: Callable[[Call], bool] = lambda call: True) -> None:
        self._seconds, self._which = seconds, which
        self.count = 0

    async def before(self, call: Call) -> Answer | None:
        if self._which(call):
            self.count += 1
            await asyncio.sleep(self._seconds)
        return None


class Repeat(Pass):
    """Say each event of a watch again and again, so that events come many times as often; `count` is of the events."""

    def __init__(self, times: int) -> None:
        self._times = times
        self.count = 0
        self._begun: dict[int, bytes] = {}

    async def part(self, call: Call, part: bytes) -> bytes:
        """A part is a chunk (RFC 9112, 7.1), which need not end where an event does."""
        framing, _, rest = part.partition(b"\r\n")
        if not call.is_watch or not int(framing, 16):  # the last chunk ends the answer
            return part
        said, newline, begun = (self._begun.pop(call.number, b"") + rest[:-2]).rpartition(b"\n")
        self._begun[call.number] = begun
        events = (said + newline) * self._times
        self.count += events.count(b"\n")
        return b"%x\r\n%s\r\n" % (len(events), events) if events else b""


class Lag(Pass):
    """Be a cache that does not follow: streams begin as they did first, and then say nothing, once `is_late` is set.

    Only what begins with all that is there (sendInitialEvents) is remembered. What is asked for by name is answered as
    it is. `count` is of the streams that began in the past.
    """

    _COMPLETE = b"k8s.io/initial-events-end"
    _VARYING = frozenset({"timeoutSeconds", "resourceVersion"})

    def __init__(self) -> None:
        self.is_late = False
        self.count = 0
        self._begun: dict[str, bytes] = {}
        self._heard: dict[int, list[bytes]] = {}

    def knows(self, plural: str) -> bool:
        """Say whether it is remembered how the streams of a resource begin."""
        return any(f"/{plural}" in stream for stream in self._begun)

    def _stream(self, call: Call) -> str:
        path, _, query = call.target.partition("?")
        return "&".join([path, *sorted(one for one in query.split("&") if one.split("=")[0] not in self._VARYING)])

    async def before(self, call: Call) -> Answer | None:
        if not self.is_late or not call.is_watch:
            return None
        begun = self._begun.get(self._stream(call), b"") if _begins(call) else b""
        self.count += bool(begun)
        return Answer(200, begun, unending=True)

    async def part(self, call: Call, part: bytes) -> bytes:
        if not call.is_watch:
            return part
        if self.is_late:
            return b""
        if _begins(call) and self._stream(call) not in self._begun:
            obj = self._heard.setdefault(call.number, [])
            obj.append(part)
            if self._COMPLETE in part:
                self._begun[self._stream(call)] = b"".join(obj)
        return part


def _begins(call: Call) -> bool:
    return "sendInitialEvents=true" in call.target
