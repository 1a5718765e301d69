"""The remainder between the wanted object and the stored one, after the wanted one was sent to the API server.

Laws: the same fields with the same values have the same state, with any other fields in the object · a field that the
server would also give a new object is a default, and not kept · values leave this module as a digest only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import Manifest
from registry_controller.core.diff.managed_fields import format_canonical
from registry_controller.core.mutation.local_fields import Path

_MISSING: Final = object()


class Remainder(NamedTuple):
    """The remainder between a wanted object and the stored one.

    `state` is the digest of the places that differ, with their present values; empty where none differs. `extras` are
    the fields that are not wanted and that the daemon may have written: defaults, or fields of a former state. `lost`
    are the wanted fields that are not stored. `suspects` are the extras of which the API server may keep some of a
    former state; it is still to be asked.
    """

    state: bytes = b""
    extras: tuple[Path, ...] = ()
    lost: tuple[str, ...] = ()
    suspects: tuple[Path, ...] = ()


NOTHING_REMAINS: Final = Remainder()


def with_unknown(found: Remainder, unknown: Iterable[str]) -> Remainder:
    """Return a remainder in which the fields that the server's schema lacks are lost, too; one may be empty."""
    lost = tuple(sorted({*found.lost, *unknown}))
    return found if lost == found.lost else found._replace(lost=lost)


def digest_found(places: Sequence[str], found: Sequence[object]) -> bytes:
    """Return the digest of places with their present values: 16 bytes, for memory only."""
    try:
        pairs = sorted(zip(places, map(format_canonical, found), strict=True))
    except RecursionError:
        raise InvalidObject("object", "is nested too deeply") from None
    return hashlib.blake2b(repr(pairs).encode(errors="surrogatepass"), digest_size=16).digest()


def list_kept(extras: Iterable[Path], *, stored: Manifest, anew: Manifest) -> tuple[Path, ...]:
    """List the fields that the server keeps of a former state: they are in `stored`, and otherwise in a new object.

    `stored` is the result of an update, `anew` the object that the server would store for a new one.
    """
    return tuple(path for path in extras if (value := _get(stored, path)) is not _MISSING and value != _get(anew, path))


def list_staying(extras: Iterable[Path], *, before: Manifest, after: Manifest) -> tuple[Path, ...]:
    """List the fields that an update left as they were."""
    return tuple(
        path for path in extras if (value := _get(before, path)) is not _MISSING and value == _get(after, path)
    )


def _get(manifest: Manifest, path: Path) -> Any:
    found: Any = manifest
    for step in path:
        if not isinstance(found, dict) or step not in found:
            return _MISSING
        found = found[step]
    return found
