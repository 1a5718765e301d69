"""The namespaces of the local cluster, and which of them are being deleted."""

from __future__ import annotations

from collections.abc import Callable

from registry_controller.api.meta import ObjectKey
from registry_controller.kube.object import PartialObject
from registry_controller.watch.event_handler import EventHandler


class NamespaceCache(EventHandler):
    """The local namespaces: by name, whether one is being deleted. `is_complete` is true once all are known."""

    def __init__(self, *, on_change: Callable[[str], None]) -> None:
        self.is_complete = False
        self.deleting: dict[str, bool] = {}
        self._on_change = on_change

    def on_object(self, obj: PartialObject) -> None:
        """Record a namespace."""
        if self.deleting.get(obj.key.name) != obj.deleting:
            self.deleting[obj.key.name] = obj.deleting
            self._on_change(obj.key.name)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Drop a namespace."""
        if self.deleting.pop(key.name, None) is not None:
            self._on_change(key.name)

    def on_synced(self, revision: int) -> None:
        """Record that the list is complete."""
        self.is_complete = True
