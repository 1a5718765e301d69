"""The other daemons of this cluster: which of us speaks of an object, so that its status has one writer (A7).

Laws: there is no leader and nothing is written to find out · who does not know the others speaks of everything: a
status that two write is a lesser evil than one that nobody does.
"""

from __future__ import annotations

from collections.abc import Callable

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.cache.rendezvous import chosen
from registry_controller.kube.watch import PartialObject, decode_manifest


class Replicas:
    """The Pods that run daemons here, as their cluster sees them; `own` is our Pod's name.

    `changed` is called when another one may speak of an object now.
    """

    def __init__(self, *, own: str, changed: Callable[[], None]) -> None:
        self._own = own
        self._changed = changed
        self._ready: set[str] = set()
        self._is_heard = False

    def writes_status_of(self, gvr: GVR, name: str) -> bool:
        """Say whether the status of an object of ours is for this daemon to write."""
        others = self._ready - {self._own}
        if not self._is_heard or not others:
            return True
        return chosen(self._ready, f"{gvr.resource}/{name}") == self._own

    def on_object(self, obj: PartialObject) -> None:
        """Hear how a Pod is."""
        is_ready = not obj.deleting and meta.condition_of(decode_manifest(obj.raw), "Ready") == "True"
        self._set(self._ready | {obj.key.name} if is_ready else self._ready - {obj.key.name})

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Hear that a Pod is gone."""
        self._set(self._ready - {key.name})

    def on_synced(self, revision: int) -> None:
        """Hear that all Pods were heard."""
        self._hear(True)

    def on_error(self, error: RegistryError) -> None:
        """Hear nothing of the others for a while, or ever."""
        self._hear(False)

    def on_recovered(self) -> None:
        """Hear of the others again."""
        self._hear(True)

    def on_reset(self) -> None:
        """Hear that what follows may be older: it is what counts."""

    def _set(self, ready: set[str]) -> None:
        if ready != self._ready:
            self._ready = ready
            self._changed()

    def _hear(self, is_heard: bool) -> None:
        if is_heard != self._is_heard:
            self._is_heard = is_heard
            self._changed()
