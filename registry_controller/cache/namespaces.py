"""The namespaces of the local cluster, and which of them are being deleted."""

from __future__ import annotations

from collections.abc import Callable

from registry_controller.api.meta import ObjectKey
from registry_controller.core.decision.state import NamespaceState
from registry_controller.kube.object import PartialObject
from registry_controller.watch.event_handler import EventHandler


class NamespaceCache(EventHandler):
    """The local namespaces. Until the list is complete, each namespace counts as active: the write shows the truth."""

    def __init__(self, *, on_change: Callable[[str], None]) -> None:
        self.is_complete = False
        self._held: dict[str, bool] = {}
        self._on_change = on_change

    def state(self, name: str) -> NamespaceState:
        """Return the state of a namespace."""
        if not self.is_complete:
            return NamespaceState.ACTIVE
        deleting = self._held.get(name)
        if deleting is None:
            return NamespaceState.MISSING
        return NamespaceState.TERMINATING if deleting else NamespaceState.ACTIVE

    def on_object(self, obj: PartialObject) -> None:
        """Record a namespace."""
        if self._held.get(obj.key.name) != obj.deleting:
            self._held[obj.key.name] = obj.deleting
            self._on_change(obj.key.name)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Drop a namespace."""
        if self._held.pop(key.name, None) is not None:
            self._on_change(key.name)

    def on_synced(self, revision: int) -> None:
        """Record that the list is complete."""
        self.is_complete = True
