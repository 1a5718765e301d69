"""Where a reflector puts what it hears."""

from __future__ import annotations

from typing import Protocol

from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ObjectKey
from registry_controller.kube.watch import PartialObject


class EventHandler(Protocol):
    """What hears of the objects. It must not block, and must not raise for what a server says."""

    def on_object(self, obj: PartialObject) -> None:
        """Take an object: listed, added or modified."""

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Take a removal: heard (its last state, at the revision of the delete), or found missing (None)."""

    def on_synced(self, revision: int) -> None:
        """Know that everything there was at a revision has been heard; after each list again."""

    def on_error(self, error: RegistryError) -> None:
        """Know that we may be behind, and why; the reflector goes on trying."""

    def on_recovered(self) -> None:
        """Know that we hear again, after `stalled`."""

    def on_reset(self) -> None:
        """Know that what was heard may not be so any more, and is listed anew: lower revisions are news, too."""
