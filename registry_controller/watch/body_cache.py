"""Caches the bodies of objects between their event and their use: raw bytes, the last one for each key, with a limit.

A body over the limit is dropped, and read again from its server when it is needed.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey
from registry_controller.kube.object import PartialObject

LIMIT_BYTES: Final = 96 * 1024 * 1024
_METADATA_BYTES: Final = 1024  # the decoded part of an object without labels and annotations, about
_ENTRY_BYTES: Final = 100  # of a mapping, without the texts


class BodyKey(NamedTuple):
    """The cluster, kind and key of a body; an empty cluster is the local one."""

    cluster: ClusterUID
    kind: GVK
    key: ObjectKey


class BodyCache:
    """Keeps bodies up to a limit of bytes; the oldest are dropped first."""

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._held: dict[BodyKey, tuple[PartialObject, int]] = {}
        self._limit_bytes = limit_bytes
        self.size_bytes = 0

    def put(self, slot: BodyKey, obj: PartialObject) -> None:
        """Keep an object."""
        size, held = _size_of(obj), self._held.pop(slot, None)
        if held is not None:
            self.size_bytes -= held[1]
        self._held[slot] = (obj, size)
        self.size_bytes += size
        while self.size_bytes > self._limit_bytes and self._held:
            self.drop(next(iter(self._held)))

    def peek(self, slot: BodyKey) -> PartialObject | None:
        """Return an object, and keep it."""
        held = self._held.get(slot)
        return held[0] if held is not None else None

    def drop(self, slot: BodyKey) -> None:
        """Drop an object."""
        held = self._held.pop(slot, None)
        if held is not None:
            self.size_bytes -= held[1]


def _size_of(obj: PartialObject) -> int:
    """Estimate the memory of an object in bytes: short labels take twenty times their length."""
    size = len(obj.raw) + _METADATA_BYTES
    for texts in (obj.labels, obj.annotations):
        for name, text in texts.items():
            size += _ENTRY_BYTES + sys.getsizeof(name) + sys.getsizeof(text)
    return size
