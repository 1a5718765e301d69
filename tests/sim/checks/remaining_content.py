"""What lives in a Namespace, or is of the kind of a definition, and goes when a daemon deletes that (O1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from registry_controller.api.meta import ObjectKey
from tests.sim.checks.expected_copies import Place, is_to_be_named, marks_of
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

    In any other object lives nothing. Left out is what Kubernetes makes everywhere.
    """
    for kind in _kinds_of(container):
        for key, found in objects(kind).items():
            is_inside = container.kind != "Namespace" or key.namespace == container.key.name
            is_everywhere = is_to_be_named(found) or (kind.kind in _NOBODY_MADE and not marks_of(found).owner)
            if is_inside and not is_everywhere:
                yield Place(kind.kind, key)


def _kinds_of(container: Place) -> Iterator[Kind]:
    if container.kind == "CustomResourceDefinition" and container.key.name in BY_DEFINITION:
        yield BY_DEFINITION[container.key.name]
    if container.kind == "Namespace":
        yield from (kind for kind in BY_KIND.values() if kind.namespaced)


class RemainingContent:
    """It tells `breaks` of a container that a daemon deleted, though something lived in it that the daemon had seen.

    It knows at once what it made itself, but not what another daemon of that cluster made.
    """

    def __init__(self, history: History, tally: Tally, breaks: Break) -> None:
        self._history = history
        self._tally = tally
        self._break = breaks

    def see_deletion(self, entry: Entry, where: str) -> None:
        """Look at what a daemon deletes."""
        if entry.change.kind.kind not in ("Namespace", "CustomResourceDefinition"):
            return
        self._tally.clause("O1")
        member = self._history.members[entry.cluster]
        store = member.server.store
        for place in list_content(store.all, Place(entry.change.kind.kind, entry.change.key)):
            states = self._history.states_since(entry.cluster, *place, at=entry.at - _KNOWN_S)
            is_own = not member.had_two and self._history.made_at(entry.cluster, *place) > 0.0
            if is_own or all(state is not None for state in states):
                self._break("O1", where, f"was deleted, and {place.kind} {place.key} with it")
