"""What lives in a Namespace, or is of the kind of a definition, and goes when a daemon deletes that (O1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from registry_controller.api.meta import ObjectKey
from tests.sim.checks.expected_copies import Place, is_made_by_controller, is_to_be_named
from tests.sim.checks.history import Entry, History
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.kinds import BY_DEFINITION, BY_KIND, Kind
from tests.sim.schedule.tally import Tally

_NOBODY_MADE: Final = ("Event", "Lease")
_KNOWN_S: Final = 62.0
"""What lived there for so long was seen by whoever looked: a hung request gives up after 30 s."""

Break = Callable[[str, str, str], None]
Objects = Callable[[Kind], Mapping[ObjectKey, Manifest]]


def list_content(objects: Objects, container: Place) -> Iterator[Place]:
    """List what lives in a Namespace, or is of the kind of a definition: copies, too, and who made it does not matter.

    In any other object lives nothing. Left out is what Kubernetes makes everywhere, and a controller from a copy.
    """
    for kind in _kinds_of(container):
        for key, found in objects(kind).items():
            is_inside = container.kind != "Namespace" or key.namespace == container.key.name
            if is_inside and not is_to_be_named(found) and not is_made_by_controller(found):
                yield Place(kind.kind, key)


def _kinds_of(container: Place) -> Iterator[Kind]:
    if container.kind == "CustomResourceDefinition" and container.key.name in BY_DEFINITION:
        yield BY_DEFINITION[container.key.name]
    if container.kind == "Namespace":
        yield from (kind for kind in BY_KIND.values() if kind.namespaced and kind.kind not in _NOBODY_MADE)


class RemainingContent:
    """It tells `breaks` of a container that a daemon deleted, though something lived in it that the daemon had seen."""

    def __init__(self, history: History, tally: Tally, breaks: Break) -> None:
        self._history = history
        self._tally = tally
        self._break = breaks

    def see_deletion(self, entry: Entry, where: str) -> None:
        """Look at what a daemon deletes."""
        if entry.change.kind.kind not in ("Namespace", "CustomResourceDefinition"):
            return
        self._tally.clause("O1")
        store = self._history.members[entry.cluster].server.store
        for place in list_content(store.all, Place(entry.change.kind.kind, entry.change.key)):
            states = self._history.states_since(entry.cluster, *place, at=entry.at - _KNOWN_S)
            if all(state is not None for state in states):
                self._break("O1", where, f"was deleted, and {place.kind} {place.key} with it")
