"""Where a schedule is played: the group, what is broken in it and how it is mended, and the deeds that are known."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from registry_controller.api.meta import CORE_RESOURCE, REGISTRY_SECRET_TYPE
from tests.sim.checks.expected_copies import key_of, marks_of
from tests.sim.checks.observer import Observer
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.group import SimGroup
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.operator import Program
from tests.sim.schedule.tally import Tally
from tests.sim.schedule.vocabulary import WRITTEN

Spot = tuple[str, str, str]
"""Kind, namespace and name."""


class Step(NamedTuple):
    """After a pause, somebody does something. `what` is all that is left open: names, values, durations."""

    pause_s: float
    deed: str
    who: str
    what: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return " ".join(str(word) for word in (self.deed, self.who, *self.what))


class _Repair:
    """Something that is mended once, at its time or at the end of the schedule, which may be the same moment."""

    def __init__(self, mend: Callable[[], None]) -> None:
        self._mend = mend
        self._is_made = False

    def make(self) -> None:
        """Mend it, unless it is mended."""
        if not self._is_made:
            self._is_made = True
            self._mend()


class Stage:
    """A group in the middle of a schedule. `has_unseen_copies` is true once a copy was put where no rule writes.

    `program` is one on the library, in some schedules.
    """

    def __init__(self, group: SimGroup, observer: Observer, tally: Tally) -> None:
        self.group = group
        self.observer = observer
        self.tally = tally
        self.is_mended = False
        self.program: Program | None = None
        self.has_unseen_copies = False
        self._mending: list[_Repair] = []

    @property
    def rebuilt(self) -> list[str]:
        """Name the clusters that were built anew."""
        return sorted({found.cluster for found in self.observer.history.rebuilds})

    def until(self, duration_s: float, mend: Callable[[], None]) -> None:
        """Mend something after a while, or at the end of the schedule."""
        repair = _Repair(mend)
        self._mending.append(repair)
        asyncio.get_running_loop().call_later(duration_s, repair.make)

    def at_the_end(self, mend: Callable[[], None]) -> None:
        """Mend something at the end of the schedule."""
        self._mending.append(_Repair(mend))

    def mend(self) -> None:
        """Mend everything that is still broken."""
        self.is_mended = True
        mending, self._mending = self._mending, []
        for repair in mending:
            repair.make()

    def find(self, member: Member, place: Spot) -> dict[str, Any] | None:
        """Find whatever is at a place."""
        kind, namespace, name = place
        return member.find(kind, name, namespace=namespace)

    def copy_at(self, member: Member, place: Spot) -> dict[str, Any] | None:
        """Find a copy; None where none is, or something native."""
        found = self.find(member, place)
        is_copy = found is not None and marks_of(found).owner not in ("", member.id)
        return found if is_copy else None

    def note_put_back(self, member: Member, kind: str, namespace: str) -> None:
        """Note that somebody put a copy back, maybe where no rule writes, so that nobody watches its kind."""
        claimed = {(found.kind, found.key.namespace) for found in self.observer.oracle().claims(member.name)}
        self.has_unseen_copies |= (kind, namespace) not in claimed

    def list_copies(self, member: Member) -> list[dict[str, Any]]:
        """List the copies that rules made, but not those of rules and Namespaces, or of credentials."""
        kinds = [kind for kind in WRITTEN if kind not in ("Namespace", "ResourceSyncRule")]
        return [
            item
            for kind in kinds
            for item in member.list(kind)
            if marks_of(item).owner not in ("", member.id) and item.get("type") != REGISTRY_SECRET_TYPE
        ]

    def choose_copy(
        self, member: Member, which: int, *, of: Callable[[Manifest], bool] = lambda copy: True
    ) -> dict[str, Any] | None:
        """Choose one of the copies that rules made, `of` those."""
        found = [item for item in self.list_copies(member) if of(item)]
        return found[which % len(found)] if found else None

    def natives(self, member: Member, kinds: Sequence[str]) -> list[Spot]:
        """List the own objects of these kinds, but not what daemons need."""
        return [
            (kind, *key_of(item))
            for kind in kinds
            for item in member.list(kind)
            if marks_of(item).owner in ("", member.id) and item["metadata"].get("namespace") != NAMESPACE
        ]

    def own_rules(self, member: Member) -> list[str]:
        """List the names of the rules that people made here."""
        return [
            item["metadata"]["name"]
            for item in member.list("ResourceSyncRule")
            if not marks_of(item).owner and CORE_RESOURCE not in (item["metadata"].get("labels") or {})
        ]

    def copied_rules(self, member: Member) -> list[Manifest]:
        """List the rules that came from other members."""
        return [item for item in member.list("ResourceSyncRule") if marks_of(item).owner not in ("", member.id)]

    def native_at(self, member: Member, place: Spot) -> dict[str, Any] | None:
        """Find a native object."""
        found = self.find(member, place)
        return found if found is not None and marks_of(found).owner in ("", member.id) else None


Happen = Callable[..., bool | None]
Draw = Callable[[random.Random, str, Sequence[str]], tuple[Any, ...]]


@dataclass(frozen=True)
class Deed:
    """Something that somebody does: `happen` says False where it was not possible, `draw` fills in what is open.

    `weight` says how often it is drawn, among people's deeds or among the faults.
    """

    name: str
    happen: Happen
    draw: Draw
    is_fault: bool
    weight: int


DEEDS: Final[dict[str, Deed]] = {}


def deed(draw: Draw, *, fault: bool = False, weight: int = 2) -> Callable[[Happen], Happen]:
    """Put a function on the list of deeds, under its name."""

    def put(function: Happen) -> Happen:
        name = function.__name__.replace("_", " ")
        DEEDS[name] = Deed(name, function, draw, fault, weight)
        return function

    return put
