"""Reads watches as streams of events, from raw bytes, and single objects.

Law: no line of a watch is longer than the largest object, and the unfinished lines of a server have a common limit, for
any number of watches.
"""

from __future__ import annotations

import asyncio
import enum
import functools
from collections.abc import AsyncGenerator, Callable
from typing import Final

import msgspec

from registry_controller.api import meta
from registry_controller.api.errors import ApiError, ProtocolError, TooMuch
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import LineBudget, Reader
from registry_controller.kube.listing import DECODE_ERRORS, REVISION_LENGTH
from registry_controller.kube.object import PartialObject, decode_object, decode_selected
from registry_controller.kube.responses import format_size
from registry_controller.kube.translate import STATUS_BYTES, StatusAnswer, error_of_status
from registry_controller.kube.transport import ANSWER_BYTES

ALL_LINES_BYTES: Final = 2 * ANSWER_BYTES
_SILENCE_S: Final = 90.0  # bookmarks come about once a minute
_INITIAL_END: Final = "k8s.io/initial-events-end"


class WatchEventType(enum.Enum):
    """The type of an event. A fifth type, ERROR, is raised as an error."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One event. `refused` is the reason why the object cannot be used; `object` is None then, and for a bookmark.

    A watch resumes after this event from `resource_version`, which is opaque, and empty when unknown.
    """

    type: WatchEventType
    object: PartialObject | None
    resource_version: str = ""
    is_initial_end: bool = False
    refused: str = ""


class _Line(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _MarkMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str] | None = None


class _Mark(msgspec.Struct):
    metadata: _MarkMeta


_LINE: Final = msgspec.json.Decoder(_Line)
_MARK: Final = msgspec.json.Decoder(_Mark)
_STATUS: Final = msgspec.json.Decoder(StatusAnswer)
_KUBE_SYSTEM: Final = ObjectKey("", "kube-system")
_TYPES: Final = {kind.value: kind for kind in WatchEventType}


async def read_cluster_id(reader: Reader, *, timeout_s: float = 10.0) -> ClusterUID:
    """Return the ID of a cluster: the UID of its namespace kube-system."""
    raw = await reader.get(meta.NAMESPACES, _KUBE_SYSTEM, timeout_s=timeout_s)
    return ClusterUID(decode_object(raw, kind=meta.NAMESPACE).uid)


async def read_object(reader: Reader, gvr: GVR, key: ObjectKey, *, kind: GVK, timeout_s: float) -> PartialObject:
    """Read one object by name; ProtocolError when the answer is another object."""
    obj = decode_object(await reader.get(gvr, key, timeout_s=timeout_s), kind=kind)
    if obj.key != key:
        raise ProtocolError(f"get {gvr} {key}: the answer is another object, {obj.key}")
    return obj


async def watch_events(
    reader: Reader,
    gvr: GVR,
    selection: Selection,
    *,
    kind: GVK,
    resource_version: str,
    initial: bool,
    timeout_s: int,
    on_open: Callable[[], None],
    silence_s: float = _SILENCE_S,
    metadata_only: bool = False,
) -> AsyncGenerator[WatchEvent, None]:
    """Watch until the server ends the stream; raise its ERROR event (Gone for an expired resourceVersion).

    `on_open` is called when the server has accepted the watch; `reader.lines` keeps the time of later bytes. With
    `initial` the existing objects come first (WatchList), and then a bookmark with `is_initial_end`. With
    `metadata_only`, the server sends metadata alone where it can.
    """
    reader = reader.of_metadata() if metadata_only else reader
    decode = functools.partial(decode_selected, kind=kind, gvr=gvr, selection=selection, metadata_only=metadata_only)
    query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout_s)}
    query["resourceVersion"] = resource_version
    if initial:
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    what = f"watch {gvr} ({selection})"
    async with reader.stream(gvr, selection, query=query, silence_s=silence_s) as chunks:
        on_open()
        now, unfinished = asyncio.get_running_loop().time, UnfinishedLine(reader.lines, what=what)
        try:
            async for chunk in chunks:
                reader.lines.received_at_s = now()
                *lines, last = chunk.split(b"\n")
                if unfinished.content and lines:
                    unfinished.grow(lines[0])
                    lines[0] = unfinished.end()
                for line in lines:
                    yield _decode_event(line, decode=decode, what=what)
                if last:
                    unfinished.grow(last)
        finally:
            unfinished.end()


class UnfinishedLine:
    """The bytes of a watch after its last complete line; they count in the budget of all watches of the server."""

    def __init__(self, budget: LineBudget, *, what: str) -> None:
        self.content = bytearray()  # a list of chunks would take more memory than their bytes
        self._budget = budget
        self._what = what

    def grow(self, part: bytes) -> None:
        """Append bytes; TooMuch over a limit."""
        if len(self.content) + len(part) > ANSWER_BYTES:
            raise TooMuch(f"{self._what}: a line longer than {format_size(ANSWER_BYTES)}")
        if self._budget.size_bytes + len(part) > ALL_LINES_BYTES:
            raise TooMuch(f"{self._what}: lines longer than {format_size(ALL_LINES_BYTES)} together")
        self.content += part
        self._budget.size_bytes += len(part)

    def end(self) -> bytes:
        """Return the line, and start another one."""
        line = bytes(self.content)
        self.content.clear()
        self._budget.size_bytes -= len(line)
        return line


def _decode_event(line: bytes, *, decode: Callable[[msgspec.Raw], PartialObject], what: str) -> WatchEvent:
    try:
        found = _LINE.decode(line)
        event_type = _TYPES.get(found.type)
        if event_type is WatchEventType.BOOKMARK:
            mark = _MARK.decode(found.object).metadata
            ends = (mark.annotations or {}).get(_INITIAL_END) == "true"
            if len(mark.resource_version) > REVISION_LENGTH:
                raise ProtocolError(f"{what}: a bookmark with an invalid resourceVersion")
            return WatchEvent(WatchEventType.BOOKMARK, None, mark.resource_version, ends)
        if event_type is None:
            status = _decode_status(found.object) if found.type == "ERROR" else None
    except DECODE_ERRORS:
        raise ProtocolError(f"{what}: a line that is not an event") from None
    if event_type is None:
        if status is None:
            raise ProtocolError(f"{what}: an event of an unknown type")
        raise _error_in_stream(status, what=what)
    try:
        obj = decode(found.object)
    except ProtocolError as error:
        return WatchEvent(event_type, None, refused=f"{what}: {error}")
    return WatchEvent(event_type, obj, str(obj.revision) if obj.revision else "")


def _decode_status(raw: msgspec.Raw) -> StatusAnswer:
    if memoryview(raw).nbytes > STATUS_BYTES:
        raise msgspec.DecodeError("an invalid Status")
    return _STATUS.decode(raw)


def _error_in_stream(status: StatusAnswer, *, what: str) -> Exception:
    code = status.code
    if code == 410 or status.reason in ("Expired", "Gone"):
        code = 410
    error = error_of_status(code if code >= 400 else 500, status, what=what)
    return error if isinstance(error, ApiError) else ProtocolError(str(error))
