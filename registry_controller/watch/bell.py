"""A sink that only rings: something of its selection changed."""

from __future__ import annotations

from collections.abc import Callable

from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ObjectKey
from registry_controller.kube.watch import PartialObject


class NotifyHandler:
    """It calls `ring`."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def on_object(self, obj: PartialObject) -> None:
        """Ring: something is new, or other than it was."""
        self._ring()

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Ring: something is gone."""
        self._ring()

    def on_synced(self, revision: int) -> None:
        """Keep still: whatever there is has rung."""

    def on_error(self, error: RegistryError) -> None:
        """Keep still: who is rung for looks by himself, too."""

    def on_recovered(self) -> None:
        """Ring: something may have changed meanwhile."""
        self._ring()

    def on_reset(self) -> None:
        self._ring()
