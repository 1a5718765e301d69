"""A sink that only rings: something of its selection changed."""

from __future__ import annotations

from collections.abc import Callable

from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ObjectKey
from registry_controller.kube.watch import PartialObject


class Bell:
    """It calls `ring`."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def upsert(self, heard: PartialObject) -> None:
        """Ring: something is new, or other than it was."""
        self._ring()

    def remove(self, key: ObjectKey, heard: PartialObject | None) -> None:
        """Ring: something is gone."""
        self._ring()

    def complete(self, revision: int) -> None:
        """Keep still: whatever there is has rung."""

    def stalled(self, error: RegistryError) -> None:
        """Keep still: who is rung for looks by himself, too."""

    def current(self) -> None:
        """Ring: something may have changed meanwhile."""
        self._ring()

    def outdated(self) -> None:
        self._ring()
