"""Lists in pages and watches as streams of events, from raw bytes."""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Callable
from typing import Final

import msgspec

from registry_controller.api.errors import ApiError, Gone, ProtocolError
from registry_controller.api.meta import GVK, GVR, revision
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import Reader
from registry_controller.kube.heard import Heard, decode_heard, decode_manifest
from registry_controller.kube.translate import Status, error_of_status

__all__ = [
    "Event",
    "EventType",
    "Heard",
    "Page",
    "decode_heard",
    "decode_manifest",
    "list_objects",
    "read_revision",
    "watch_events",
]

_LINE_BYTES: Final = 16 * 1024 * 1024  # etcd takes 1.5 MiB, aggregated servers more
_SILENCE_S: Final = 90.0  # bookmarks come about once a minute
_INITIAL_END: Final = "k8s.io/initial-events-end"
_RESTARTS: Final = 2
_NOTHING: Final = "metadata.name=no-object-of-that-name"


class EventType(enum.Enum):
    """What happened, as the watch spells it. A fifth, ERROR, is raised."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event. `refused` says why the object cannot be used (then `heard` is None); bookmarks have none.

    `resource_version` is where a watch resumes after this event, opaque; empty when it is not known.
    """

    type: EventType
    heard: Heard | None
    resource_version: str = ""
    is_initial_end: bool = False
    refused: str = ""


class Page(msgspec.Struct, frozen=True):
    """A page of a list. `is_first` also after a restart: what came before no longer counts.

    `refused` counts items that are no objects. `resource_version` is where a watch begins after the last page.
    """

    items: list[Heard]
    resource_version: str
    is_first: bool
    is_last: bool
    refused: int


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _MarkMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str] | None = None


class _Mark(msgspec.Struct):
    metadata: _MarkMeta


_LIST: Final = msgspec.json.Decoder(_List)
_LINE: Final = msgspec.json.Decoder(_Line)
_MARK: Final = msgspec.json.Decoder(_Mark)
_STATUS: Final = msgspec.json.Decoder(Status)
_TYPES: Final = {kind.value: kind for kind in EventType}
_NONSENSE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


async def list_objects(
    reader: Reader, gvr: GVR, selection: Selection, *, kind: GVK, page_size: int = 500
) -> AsyncGenerator[Page, None]:
    """List by quorum reads, page by page; begin again (with larger pages) when a continuation has expired."""
    next_token, restarts, is_first = "", 0, True
    while True:
        query = {"limit": str(page_size), "continue": next_token}
        try:
            found = _decode_list(await reader.list_page(gvr, selection, query=query), gvr=gvr)
        except Gone:
            restarts += 1
            if not next_token or restarts > _RESTARTS:
                raise
            next_token, is_first, page_size = "", True, page_size * 4
            continue
        next_token = found.metadata.next
        items, refused = _decode_items(found.items or [], gvr=gvr, kind=kind, selection=selection)
        yield Page(items, found.metadata.resource_version, is_first, not next_token, refused)
        is_first = False
        if not next_token:
            return


async def read_revision(reader: Reader, gvr: GVR, selection: Selection) -> int:
    """Ask where a server's history stands, by a quorum read of nothing: one name, which no object has.

    A watch that resumes beyond that point is no error to an API server: it is silent until history has grown so far.
    """
    place = Selection(namespace=(selection.namespace or "default") if gvr.namespaced else "", fields=_NOTHING)
    answer = await reader.list_page(gvr, place, query={"limit": "1"})
    return revision(_decode_list(answer, gvr=gvr).metadata.resource_version)


async def watch_events(
    reader: Reader,
    gvr: GVR,
    selection: Selection,
    *,
    kind: GVK,
    resource_version: str,
    initial: bool,
    timeout_s: int,
    on_bytes: Callable[[], None],
    silence_s: float = _SILENCE_S,
) -> AsyncGenerator[Event, None]:
    """Watch until the server ends the stream; raise its ERROR event (Gone for an expired resourceVersion).

    `initial` asks for what exists first (WatchList); a bookmark with `is_initial_end` follows it.
    """
    query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout_s)}
    query["resourceVersion"] = resource_version
    if initial:
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    what = f"watch {gvr} ({selection})"
    async with reader.stream(gvr, selection, query=query, silence_s=silence_s) as chunks:
        on_bytes()  # the answer itself
        pending: list[bytes] = []
        pending_bytes = 0
        async for chunk in chunks:
            on_bytes()
            head, newline, rest = chunk.partition(b"\n")
            pending_bytes += len(head)
            if pending_bytes > _LINE_BYTES:
                raise ProtocolError(f"{what}: a line longer than {_LINE_BYTES} bytes")
            pending.append(head)
            if not newline:
                continue
            yield _decode_event(b"".join(pending), gvr=gvr, kind=kind, selection=selection, what=what)
            *lines, last = rest.split(b"\n")
            for line in lines:
                yield _decode_event(line, gvr=gvr, kind=kind, selection=selection, what=what)
            pending, pending_bytes = [last], len(last)


def _decode_event(line: bytes, *, gvr: GVR, kind: GVK, selection: Selection, what: str) -> Event:
    try:
        found = _LINE.decode(line)
        event_type = _TYPES.get(found.type)
        if event_type is EventType.BOOKMARK:
            mark = _MARK.decode(found.object).metadata
            ends = (mark.annotations or {}).get(_INITIAL_END) == "true"
            return Event(EventType.BOOKMARK, None, mark.resource_version, ends)
        if event_type is None:
            status = _STATUS.decode(found.object) if found.type == "ERROR" else None
    except _NONSENSE:
        raise ProtocolError(f"{what}: a line that is no event") from None
    if event_type is None:
        if status is None:
            raise ProtocolError(f"{what}: an event of an unknown type")
        raise _error_in_stream(status, what=what)
    try:
        heard = decode_heard(found.object, kind=kind)
        _check_scope(heard, gvr=gvr, selection=selection)
    except ProtocolError as error:
        return Event(event_type, None, refused=f"{what}: {error}")
    return Event(event_type, heard, str(heard.revision) if heard.revision else "")


def _error_in_stream(status: Status, *, what: str) -> Exception:
    code = status.code
    if code == 410 or status.reason in ("Expired", "Gone"):
        code = 410
    error = error_of_status(code if code >= 400 else 500, status, what=what)
    return error if isinstance(error, ApiError) else ProtocolError(str(error))


def _decode_list(answer: bytes, *, gvr: GVR) -> _List:
    try:
        return _LIST.decode(answer)
    except _NONSENSE:
        raise ProtocolError(f"list {gvr}: the answer is no list") from None


def _decode_items(items: list[msgspec.Raw], *, gvr: GVR, kind: GVK, selection: Selection) -> tuple[list[Heard], int]:
    heard, refused = [], 0
    for item in items:
        try:
            found = decode_heard(item, kind=kind)
            _check_scope(found, gvr=gvr, selection=selection)
        except ProtocolError:
            refused += 1
        else:
            heard.append(found)
    return heard, refused


def _check_scope(heard: Heard, *, gvr: GVR, selection: Selection) -> None:
    """Refuse an object where none of its kind can be, or that was not asked for."""
    namespace = heard.key.namespace
    if bool(namespace) != gvr.namespaced or (selection.namespace and namespace != selection.namespace):
        raise ProtocolError(f"{heard.key}: is in a namespace that was not asked for")
