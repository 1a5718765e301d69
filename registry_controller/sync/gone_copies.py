"""Keeps the places from which a copy went: the owner is asked before the next copy is made there (A7).

Another daemon of this cluster, or this one after a read by name, may have deleted the copy because its source is gone.
The watch of the source may still bring states from before that.

Law: nothing outlives the daemon.
"""

from __future__ import annotations

from typing import Final

from registry_controller.api.meta import Target

_MOST: Final = 10_000


class GoneCopies:
    """The places of the copies that went last."""

    def __init__(self) -> None:
        self._places: dict[Target, None] = {}

    def __contains__(self, target: Target) -> bool:
        return target in self._places

    def record(self, target: Target) -> None:
        """Record that a copy is deleted."""
        self._places.pop(target, None)
        self._places[target] = None
        if len(self._places) > _MOST:
            del self._places[next(iter(self._places))]

    def forget(self, target: Target) -> None:
        """Record that the owner has the source after the deletion of its copy."""
        self._places.pop(target, None)
