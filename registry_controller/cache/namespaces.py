"""The namespaces here: which there are, and which are going away."""

from __future__ import annotations

from collections.abc import Callable

from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ObjectKey
from registry_controller.core.decision.state import NamespaceState
from registry_controller.kube.watch import PartialObject


class NamespaceCache:
    """The namespaces here. Until they were heard, every one counts as there: the write will tell."""

    def __init__(self, *, on_change: Callable[[str], None]) -> None:
        self.is_complete = False
        self._held: dict[str, bool] = {}
        self._on_change = on_change

    def state(self, name: str) -> NamespaceState:
        """Tell a namespace's state."""
        if not self.is_complete:
            return NamespaceState.ACTIVE
        deleting = self._held.get(name)
        if deleting is None:
            return NamespaceState.MISSING
        return NamespaceState.TERMINATING if deleting else NamespaceState.ACTIVE

    def on_object(self, obj: PartialObject) -> None:
        """Hear a namespace."""
        if self._held.get(obj.key.name) != obj.deleting:
            self._held[obj.key.name] = obj.deleting
            self._on_change(obj.key.name)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Hear that a namespace is gone."""
        if self._held.pop(key.name, None) is not None:
            self._on_change(key.name)

    def on_synced(self, revision: int) -> None:
        """Hear that all were heard."""
        self.is_complete = True

    def on_error(self, error: RegistryError) -> None:
        """Hear nothing for a while: what was heard stays."""

    def on_recovered(self) -> None:
        """Hear again."""

    def on_reset(self) -> None:
        """Hear that what follows may be older: it is what counts."""
