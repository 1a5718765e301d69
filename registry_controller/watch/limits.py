"""Limits the number and size of the objects that are read from one peer. A status reports objects over a limit.

Law: a limit affects only the peer that exceeds it. Objects over the limit use no memory and no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import TooMuch
from registry_controller.api.meta import GVK, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.kube.object import PartialObject, estimate_size
from registry_controller.watch.reflector import Reflector

MOST_OBJECTS: Final = 150_000
"""The objects of all kinds together: one rule is measured with 100,000. They take about 130 MiB, and 200 MiB with the
longest names."""

MOST_OWN: Final[Mapping[GVK, int]] = {meta.CLUSTER: 256, meta.RULE: 1024, meta.FEATURE: 1024}
"""The objects of each of the registry's own kinds. Each Cluster may be a member to connect to, and each rule and
feature is compared with all rules and features. Groups are measured with 16 members."""

MOST_BYTES: Final = 8 * 1024 * 1024
"""The size of the objects of each of the registry's own kinds, as `estimate_size` counts. They are kept whole, and
rules are compared with every object of their kind. An ordinary rule takes 5 to 10 KiB."""

Reflectors = Mapping[tuple[GVK, Selection], Reflector]


def check_room(kind: GVK, reflectors: Reflectors, *, peer: str) -> None:
    """Raise TooMuch when a peer has reached a limit for objects of a kind."""
    limit = MOST_OWN.get(kind)
    if limit is not None and _count(found for (held, _), found in reflectors.items() if held == kind) >= limit:
        raise TooMuch(f"{peer} offers more than {limit} objects of the kind {kind.kind}: the rest is not read")
    if _count(reflectors.values()) >= MOST_OBJECTS:
        raise TooMuch(f"{peer} offers more than {MOST_OBJECTS} objects: the rest is not read")


class SizeMeter:
    """Adds up the size of the objects of one of the registry's own kinds that a peer owns."""

    def __init__(self, kind: GVK) -> None:
        self._kind = kind
        self._sizes: dict[ObjectKey, int] = {}
        self._total = 0

    def add(self, obj: PartialObject) -> None:
        """Add or replace an object; TooMuch, without a change, over the limit."""
        size, before = estimate_size(obj.raw), self._sizes.get(obj.key, 0)
        if self._total - before + size > MOST_BYTES:
            most = f"{MOST_BYTES >> 20} MiB"
            raise TooMuch(f"it offers more than {most} of the kind {self._kind.kind}: the rest is not read")
        self._sizes[obj.key] = size
        self._total += size - before

    def remove(self, key: ObjectKey) -> None:
        """Remove an object."""
        self._total -= self._sizes.pop(key, 0)


def _count(reflectors: Iterable[Reflector]) -> int:
    return sum(reflector.size for reflector in reflectors)
