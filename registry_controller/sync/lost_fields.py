"""The copies that lack wanted fields, because the API server here does not store them; heals them when it does.

A definition that changes may also drop fields of copies that were stored with them, which gives no event.

Laws: while nothing is lost and no definition changes, nothing is asked · a copy is compared again only where the schema
of its kind may have changed · a definition that changed counts at the next two looks: several API servers need not
serve it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, Protocol

import msgspec

from registry_controller.api.errors import ProtocolError, RegistryError
from registry_controller.api.meta import GVK, GroupKind, ObjectKey, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.local_cache import LocalCache
from registry_controller.cache.write_results import Doubted
from registry_controller.core.diff.schema_hashes import NOTHING_SEEN, look
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

INTERVAL_S: Final = 60.0
_FIRST_S: Final = 1.0
_LOOKS: Final = 2
_PATH: Final = "/openapi/v3"


class PathReader(Protocol):
    """The connection to the local API server."""

    async def get_path(self, path: str) -> bytes:
        """Return the answer to a GET."""


class _SchemaPlace(msgspec.Struct):
    url: str = msgspec.field(name="serverRelativeURL", default="")


class _SchemaIndex(msgspec.Struct):
    paths: dict[str, _SchemaPlace] = msgspec.field(default_factory=dict)


_INDEX: Final = msgspec.json.Decoder(_SchemaIndex)


class LostFields:
    """The copies that lack fields, and the kinds whose definition changed.

    `enqueue` is called with each copy whose kind's schema may have changed.
    """

    def __init__(self, *, reader: PathReader, copies: CopyIndex, enqueue: Callable[[Target], None]) -> None:
        self._reader = reader
        self._copies = copies
        self._enqueue = enqueue
        self._targets: set[Target] = set()
        self._looks: dict[GroupKind, int] = {}
        self._has_any = asyncio.Event()

    def note(self, target: Target) -> None:
        """Note that a copy lacks fields."""
        self._targets.add(target)
        self._has_any.set()

    def on_schema_changed(self, kind: GroupKind) -> None:
        """Note that the definition of a kind changed."""
        if self._copies.cache_of(*kind) is not None:
            self._looks[kind] = _LOOKS
            self._has_any.set()

    async def run(self) -> NoReturn:
        """Read the schemas' hashes once a minute, while any copy lacks fields, or a definition changed."""
        while True:
            await self._has_any.wait()
            seen, wait_s = NOTHING_SEEN, _FIRST_S
            while self._targets or self._looks:
                await asyncio.sleep(wait_s)
                wait_s = INTERVAL_S
                self._doubt_kinds()
                if not self._targets:
                    continue
                try:
                    seen, changed = look(seen, await self._read_hashes())
                except RegistryError as error:
                    log.debug("the schemas' hashes cannot be read", error=str(error))
                else:
                    self._doubt_changed(changed)
            self._has_any.clear()

    async def _read_hashes(self) -> Mapping[str, str]:
        """Return a text for each API version that differs when its schema differs."""
        answer = await self._reader.get_path(_PATH)
        try:
            return {name: place.url for name, place in _INDEX.decode(answer).paths.items()}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(f"{_PATH} is no answer of an API server") from None

    def _doubt_kinds(self) -> None:
        """Enqueue the copies of the kinds whose definition changed."""
        for kind in list(self._looks):
            self._looks[kind] -= 1
            if not self._looks[kind]:
                del self._looks[kind]
            if (cache := self._copies.cache_of(*kind)) is not None:
                for key in sorted(cache.records):
                    self._doubt(cache, key)

    def _doubt_changed(self, changed: frozenset[str]) -> None:
        """Enqueue the copies of changed API versions; drop those that lack nothing any more."""
        for target in sorted(self._targets):
            cache, record = self._copies.find(target)
            if cache is None or record is None or not record.lost:
                self._targets.discard(target)
            elif _place_of(cache.kind) in changed:
                self._doubt(cache, target.key)

    def _doubt(self, cache: LocalCache, key: ObjectKey) -> None:
        """Compare a copy again."""
        cache.record_write(key, Doubted())
        self._enqueue(cache.target(key))


def _place_of(kind: GVK) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
