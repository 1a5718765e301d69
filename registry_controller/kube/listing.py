"""Lists in pages, from raw bytes, by quorum reads. A list whose continue token has expired is listed again, whole.

Law: with any answer of a server, the size of a page and the number of pages are bounded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from registry_controller.api.errors import Gone, ProtocolError, TooMuch
from registry_controller.api.meta import GVK, GVR, ObjectKey, revision
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import Reader
from registry_controller.kube.object import PartialObject, decode_selected

_MANY_COMMAS: Final = 100_000  # in a page; each item has some, but a text may have them too
_MOST_ITEMS: Final = 20_000  # in a page of any requested size: old servers do not know pages
_FREE_PAGES: Final = 20
_FULL: Final = 10  # pages but the last hold at least a tenth of the requested size, on average
_RESTARTS: Final = 2
_TOKEN_LENGTH: Final = 8192  # it holds a key and a resourceVersion, in base64, and becomes a part of a URL
REVISION_LENGTH: Final = 128
"""The longest resourceVersion that is sent back to a server; a real one has at most 20 digits."""
_NAME: Final = "metadata.name="
_NOTHING: Final = _NAME + "no-object-of-that-name"
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of msgspec for unexpected bytes."""


class _ListRequest(NamedTuple):
    """The kind, resource and selection of a list, of whole objects or of their metadata."""

    gvk: GVK
    gvr: GVR
    selection: Selection
    metadata_only: bool = False


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next: str = msgspec.field(name="continue", default="")
    remaining: int | None = msgspec.field(name="remainingItemCount", default=None)


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


def describe_refused(gvr: GVR, selection: Selection, kind: GVK, *, count: int) -> str:
    """Return the message about items of a list that are not objects of its kind."""
    return f"list {gvr} ({selection}): {count} items are not objects of {kind}"


class Page:
    """A page of a list. `is_first` is True again after a restart, which makes earlier pages invalid.

    A watch begins at `resource_version` after the last page. `next_token` requests the next page, and `size` is the
    number of items. `remaining` is the number of those in later pages, None where the server does not count. `items`
    decodes the items once, during the iteration; `refused` then counts those that are not objects of the kind.
    """

    def __init__(self, found: _List, *, kind: _ListRequest, is_first: bool) -> None:
        self.resource_version = found.metadata.resource_version
        self.is_first = is_first
        self.next_token = found.metadata.next
        self.is_last = not self.next_token
        self.remaining = 0 if self.is_last else found.metadata.remaining
        self.size = len(found.items or ())
        self.refused = 0
        self.items = self._decode(found.items or (), kind)

    def _decode(self, items: Iterable[msgspec.Raw], kind: _ListRequest) -> Iterator[PartialObject]:
        for item in items:
            try:
                found = decode_selected(
                    item, kind=kind.gvk, gvr=kind.gvr, selection=kind.selection, metadata_only=kind.metadata_only
                )
            except ProtocolError:
                self.refused += 1
            else:
                yield found


class _Name(msgspec.Struct, gc=False):
    name: str


class _Item(msgspec.Struct, gc=False):
    metadata: _Name


class _Items(msgspec.Struct):
    items: list[_Item] | None = None


_LIST: Final = msgspec.json.Decoder(_List)
_ITEMS: Final = msgspec.json.Decoder(_Items)


async def list_objects(
    reader: Reader, gvr: GVR, selection: Selection, *, kind: GVK, page_size: int = 500, metadata_only: bool = False
) -> AsyncGenerator[Page, None]:
    """List by quorum reads, page by page; start again, with larger pages, when a continue token has expired.

    With `metadata_only`, the server sends metadata alone where it can. A page that is too large is requested again in
    smaller pages. TooMuch for endless pages, or almost empty ones.
    While the caller processes a page, it counts as one of the server's concurrent pages.
    """
    next_token, restarts, is_first, pages, listed = "", 0, True, 0, 0
    what = _ListRequest(kind, gvr, selection, metadata_only)
    reader = reader.of_metadata() if metadata_only else reader
    while True:
        async with reader.turns:
            try:
                page = await _read_page(reader, what, next_token=next_token, page_size=page_size, is_first=is_first)
            except TooMuch:
                if page_size == 1:
                    raise
                page_size = max(1, page_size // 8)
                continue
            except Gone:
                restarts += 1
                if not next_token or restarts > _RESTARTS:
                    raise
                next_token, is_first, page_size, pages, listed = "", True, page_size * 4, 0, 0
                continue
            if next_token and page.next_token == next_token:
                raise ProtocolError(f"list {gvr}: the server sent the same continue token twice")
            next_token = page.next_token
            pages, listed = pages + 1, listed + page.size
            if next_token and listed * _FULL < (pages - _FREE_PAGES) * page_size:
                raise TooMuch(f"list {gvr}: its pages are almost empty: {listed} objects in {pages} pages")
            yield page
        is_first = False
        if page.is_last:
            return


async def _read_page(reader: Reader, what: _ListRequest, *, next_token: str, page_size: int, is_first: bool) -> Page:
    query = {"limit": str(page_size), "continue": next_token}
    answer = await reader.list_page(what.gvr, what.selection, query=query)
    return Page(_decode_list(answer, gvr=what.gvr), kind=what, is_first=is_first)


async def read_present(
    reader: Reader,
    gvr: GVR,
    selection: Selection,
    *,
    kind: GVK,
    key: ObjectKey | None = None,
    metadata_only: bool = False,
) -> tuple[int, PartialObject | None]:
    """Return the present revision of a server, and the object of a key if it is in the selection, by a quorum read.

    An API server does not refuse a watch from a later revision. Such a watch is silent until that revision is reached.
    """
    namespace = (selection.namespace or "default") if gvr.namespaced else ""
    place = Selection(namespace=namespace, fields=_NOTHING)
    if key is not None:
        is_named = selection.fields.startswith(_NAME)
        fields = selection.fields if is_named else ",".join(filter(None, (_NAME + key.name, selection.fields)))
        place = Selection(namespace=key.namespace, labels=selection.labels, fields=fields)
    page = await _read_one(reader, _ListRequest(kind, gvr, place, metadata_only))
    return revision(page.resource_version), next(page.items, None)


async def count_present(
    reader: Reader, gvr: GVR, selection: Selection, *, kind: GVK, metadata_only: bool = False
) -> int | None:
    """Count the objects of a selection by a quorum read; None where the server does not, because labels select."""
    page = await _read_one(reader, _ListRequest(kind, gvr, selection, metadata_only))
    return None if page.remaining is None else page.size + page.remaining


async def _read_one(reader: Reader, what: _ListRequest) -> Page:
    """Read the first object of a selection."""
    reader = reader.of_metadata() if what.metadata_only else reader
    async with reader.turns:
        return await _read_page(reader, what, next_token="", page_size=1, is_first=True)


def _decode_list(answer: bytes, *, gvr: GVR) -> _List:
    """Decode a page; count its items first when they may need too much memory."""
    found = _try_decode_list(answer, gvr=gvr)
    if len(found.metadata.next) > _TOKEN_LENGTH or len(found.metadata.resource_version) > REVISION_LENGTH:
        raise ProtocolError(f"list {gvr}: its continue token or resourceVersion is longer than that of any server")
    return found


def _try_decode_list(answer: bytes, *, gvr: GVR) -> _List:
    try:
        if answer.count(b",") > _MANY_COMMAS and len(_ITEMS.decode(answer).items or ()) > _MOST_ITEMS:
            raise TooMuch(f"list {gvr}: a page of more than {_MOST_ITEMS} objects")
        return _LIST.decode(answer)
    except DECODE_ERRORS:
        raise ProtocolError(f"list {gvr}: the answer is not a list") from None
