"""The replicas of this cluster's daemon: which one writes the status of an object, so that it has one writer (A7).

Of replicas of different versions, as during an upgrade, the newest ready one writes the version of the daemon (A11). Of
different deletion limits the lowest holds for all (W4).

Laws: there is no leader, and the choice writes nothing · a replica that knows no other Pods writes every status: two
writers are better than none · replicas that know the same Pods choose the same writer; when a Pod comes or goes,
only its own objects move (rendezvous hashing).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.object import PartialObject, decode_manifest
from registry_controller.watch.event_handler import EventHandler

VERSION_LABEL: Final = "app.kubernetes.io/version"
"""The label of a Pod with the version of its daemon, as the chart sets it."""

_LIMIT: Final = re.compile(r"100|\d{1,2}", re.ASCII)
_ENDED: Final = ("Succeeded", "Failed")
"""The phases of Pods whose containers run no more."""
_RELEASE: Final = re.compile(r"v?(\d+(?:\.\d+)*)(.*)", re.DOTALL)


class Replicas(EventHandler):
    """The ready Pods of the daemon; `own` is the name of our Pod.

    `changed` is called when the writer of a status, or of the version, may have changed. `watches_pods` is False for a
    daemon that is no Pod.
    """

    def __init__(self, *, own: str, changed: Callable[[], None], watches_pods: bool = False) -> None:
        self._own = own
        self._changed = changed
        self._watches_pods = watches_pods
        self._ready: Mapping[str, str] = {}
        """The name of each ready Pod, and its version."""
        self._limits: dict[str, int] = {}
        """The deletion limit, in percent, of each Pod that names one, ready or not."""
        self._is_synced = False

    def has_others(self) -> bool:
        """Return whether other replicas are known to be ready."""
        return not self._knows_no_others()

    def writes_status_of(self, gvr: GVR, name: str) -> bool:
        """Return whether this replica writes the status of an object of our own kinds."""
        if self._knows_no_others():
            return True
        return chosen(self._ready, f"{gvr.resource}/{name}") == self._own

    def writes_version(self, version: str, over: str) -> bool:
        """Return whether this replica writes its version over another one: it is ready, and none has a newer version.

        Where it does not know the Pods, it writes over an earlier version only: a replica of the later one would write
        its own again.
        """
        if self._watches_pods and not self._is_synced:
            return _version_key(version) > _version_key(over) or not over
        if self._knows_no_others():
            return True
        newest = max(map(_version_key, self._ready.values()))
        return chosen([pod for pod, version in self._ready.items() if _version_key(version) == newest], "version") == (
            self._own
        )

    def lowest_limit(self, own: int) -> int:
        """Return the lowest deletion limit of this replica and of the other ones, in percent; 0 where none has one."""
        others = (limit for pod, limit in self._limits.items() if pod != self._own)
        return min(filter(None, (own, *others)), default=0)

    def _knows_no_others(self) -> bool:
        return not self._is_synced or self._ready.keys() <= {self._own}

    def on_object(self, obj: PartialObject) -> None:
        """Record whether a Pod is ready, and its deletion limit."""
        manifest = decode_manifest(obj.raw)
        self._limits.pop(obj.key.name, None)
        limit = obj.annotations.get(meta.DELETION_LIMIT_PERCENT, "")
        if _LIMIT.fullmatch(limit) and (manifest.get("status") or {}).get("phase") not in _ENDED:
            self._limits[obj.key.name] = int(limit)
        is_ready = not obj.deleting and meta.condition_of(manifest, "Ready") == "True"
        ready = {name: version for name, version in self._ready.items() if name != obj.key.name}
        if is_ready:
            ready[obj.key.name] = obj.labels.get(VERSION_LABEL, "")
        self._set(ready)

    def on_delete(self, key: ObjectKey, obj: PartialObject | None) -> None:
        """Drop a Pod."""
        self._limits.pop(key.name, None)
        self._set({name: version for name, version in self._ready.items() if name != key.name})

    def on_synced(self, revision: int) -> None:
        """Record that all Pods are known."""
        self._set_synced(True)

    def on_error(self, error: RegistryError) -> None:
        """Record that the other Pods are unknown from now on."""
        self._set_synced(False)

    def on_recovered(self) -> None:
        """Record that the other Pods are known again."""
        self._set_synced(True)

    def _set(self, ready: Mapping[str, str]) -> None:
        if ready != self._ready:
            self._ready = ready
            self._changed()

    def _set_synced(self, is_synced: bool) -> None:
        if is_synced != self._is_synced:
            self._is_synced = is_synced
            self._changed()


def _version_key(version: str) -> tuple[tuple[int, ...], bool]:
    """Return the key that sorts versions: by their numbers, a pre-release before its release; unknown ones first."""
    found = _RELEASE.fullmatch(version)
    if found is None:
        return (), False
    return tuple(map(int, found[1].split("."))), not found[2].startswith(("-", "a", "b", "rc", ".dev"))


def chosen(members: Collection[str], subject: str) -> str | None:
    """Return the member that is responsible for a subject; None where there is no member."""
    return max(members, key=lambda member: (_weight(member, subject), member), default=None)


def _weight(member: str, subject: str) -> bytes:
    return blake2b(f"{member}\n{subject}".encode(), digest_size=8).digest()
