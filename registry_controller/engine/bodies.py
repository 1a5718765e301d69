"""Bodies that were heard and not yet consumed: raw bytes, one slot a key, the last one wins, bounded.

A body that had to give way is read again from its server when it is needed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from registry_controller.api.errors import InvalidObject, ProtocolError
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey
from registry_controller.kube.heard import decode_manifest

LIMIT_BYTES: Final = 96 * 1024 * 1024


class Slot(NamedTuple):
    """Where a body was heard; an empty cluster is our own."""

    cluster: ClusterUID
    kind: GVK
    key: ObjectKey


def decode_body(raw: bytes, *, what: str) -> Manifest:
    """Decode an object; InvalidObject for one that no API server would have stored (too deep, no object)."""
    try:
        return decode_manifest(raw)
    except ProtocolError:
        raise InvalidObject(what, "cannot be decoded: too deeply nested, or no JSON object") from None


class Bodies:
    """A bounded store of raw bodies; the oldest give way first."""

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._held: dict[Slot, bytes] = {}
        self._limit_bytes = limit_bytes
        self.size_bytes = 0

    def put(self, slot: Slot, raw: bytes) -> None:
        """Keep a body until it is taken."""
        self.drop(slot)
        self._held[slot] = raw
        self.size_bytes += len(raw)
        while self.size_bytes > self._limit_bytes and self._held:
            self.drop(next(iter(self._held)))

    def peek(self, slot: Slot) -> bytes | None:
        """Look at a body without consuming it."""
        return self._held.get(slot)

    def drop(self, slot: Slot) -> None:
        """Forget a body."""
        raw = self._held.pop(slot, None)
        if raw is not None:
            self.size_bytes -= len(raw)
