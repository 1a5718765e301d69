"""Holds for each member the Cluster that counts.

Law: a Cluster of another name takes the place of the one before once it was the only one for the window. Where several
come or go, their events are in no order.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.core.stabilization import Settled, settle


class SettledClusters:
    """The Clusters that count, for at most `most` members. Times are in seconds of the clock `now_s`."""

    def __init__(self, *, window_s: float, now_s: Callable[[], float], most: float = math.inf) -> None:
        self._window_s = window_s
        self._now_s = now_s
        self._most = most
        self._held: dict[ClusterUID, Settled[Manifest]] = {}

    @property
    def due_s(self) -> float | None:
        """When time alone changes which one counts, None for never; a moment that is past changes no more."""
        now_s = self._now_s()
        due_s = (held.due_s for held in self._held.values() if held.due_s is not None)
        return min((at_s for at_s in due_s if at_s > now_s), default=None)

    def settle(self, member: ClusterUID, found: Manifest | None) -> Manifest | None:
        """Return the Cluster that counts; `found` is the only one that is there, None while none or several are."""
        name = meta.metadata_of(found).get("name") if found is not None else None
        settled = settle(found, name, self._held.get(member), now_s=self._now_s(), window_s=self._window_s)
        if settled is None:
            return None
        self._held[member] = settled
        if len(self._held) > self._most:
            del self._held[next(iter(self._held))]
        return settled.value

    def is_another(self, member: ClusterUID, name: str) -> bool:
        """Return whether the Cluster that counts has another name; False without one."""
        held = self._held.get(member)
        return held is not None and held.identity != name

    def get(self, member: ClusterUID) -> Manifest | None:
        """Return the Cluster that counted last; None where none was seen."""
        held = self._held.get(member)
        return held.value if held is not None else None
