"""How much is taken of one peer: so many objects, of such a weight, and no more. The rest is left, which is said.

Law: a peer's weight is its own trouble. What is over the limit costs neither the memory nor the time of the others.
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
"""Of all kinds together: half as many again as the 100,000 that one rule is measured with, about 130 MiB, and 200 of
them with the longest names."""

MOST_OWN: Final[Mapping[GVK, int]] = {meta.CLUSTER: 256, meta.RULE: 1024, meta.FEATURE: 1024}
"""Of the registry's own kinds: each Cluster may be a member that is dialled, each rule and feature is weighed against
all others. Groups are measured with 16 members."""

MOST_BYTES: Final = 8 * 1024 * 1024
"""Of each of the registry's own kinds, in bytes as `weigh` counts: they are kept whole here, and rules are compared
with every object that they may mean. An ordinary rule weighs 5 to 10 KiB."""

Reflectors = Mapping[tuple[GVK, Selection], Reflector]


def check_room(kind: GVK, reflectors: Reflectors, *, peer: str) -> None:
    """Do nothing while a peer may offer more objects of a kind; TooMuch when it has offered enough."""
    limit = MOST_OWN.get(kind)
    if limit is not None and _count(found for (held, _), found in reflectors.items() if held == kind) >= limit:
        raise TooMuch(f"{peer} offers more than {limit} objects of the kind {kind.kind}: the others are not heard")
    if _count(reflectors.values()) >= MOST_OBJECTS:
        raise TooMuch(f"{peer} offers more than {MOST_OBJECTS} objects: the others are not heard")


class SizeMeter:
    """What the objects of one of the registry's own kinds weigh that a peer offers as its own."""

    def __init__(self, kind: GVK) -> None:
        self._kind = kind
        self._sizes: dict[ObjectKey, int] = {}
        self._total = 0

    def add(self, obj: PartialObject) -> None:
        """Weigh an object's present state; TooMuch, and as before, when it is too much beside the others."""
        weight, before = estimate_size(obj.raw), self._sizes.get(obj.key, 0)
        if self._total - before + weight > MOST_BYTES:
            most = f"{MOST_BYTES >> 20} MiB"
            raise TooMuch(f"it offers more than {most} of the kind {self._kind.kind}: the others are not heard")
        self._sizes[obj.key] = weight
        self._total += weight - before

    def remove(self, key: ObjectKey) -> None:
        """Forget an object."""
        self._total -= self._sizes.pop(key, 0)


def _count(reflectors: Iterable[Reflector]) -> int:
    return sum(reflector.size for reflector in reflectors)
