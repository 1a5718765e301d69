"""Finds the API versions whose schemas may have changed, by the hashes that `/openapi/v3` lists.

Law: a change counts when it is seen, and once more at the next look: several API servers need not change at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class SeenSchemas(NamedTuple):
    """The hashes at the last look, by API version, and the versions whose hashes had changed then."""

    hashes: Mapping[str, str]
    changed: frozenset[str] = frozenset()


NOTHING_SEEN: Final = SeenSchemas({})


def look(before: SeenSchemas, now: Mapping[str, str]) -> tuple[SeenSchemas, frozenset[str]]:
    """Return the hashes that are seen now, and the API versions of which the server is to be asked again.

    A version that was not there before counts as changed. So does each at the first look: the fields were lost before
    it, and the schema may have changed in between.
    """
    if not before.hashes:
        return SeenSchemas(now), frozenset(now)
    changed = frozenset(name for name in now.keys() | before.hashes.keys() if now.get(name) != before.hashes.get(name))
    return SeenSchemas(now, changed), changed | before.changed
