"""Chooses the members that take their steps first: of deliveries that commute, one order is enough."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from tests.explore.steps import ACTS, Table
from tests.explore.world import MEMBERS, Seat, Store, Way

_ONE: Final = 0
_ANY: Final = 1
"""How far a member hears another one: its next delivery, or all that are under way."""


class _Toward(NamedTuple):
    """One member toward another one, which it reads.

    `misses` tells, for one delivery and for any number, whether it may find the other without an own Cluster, `asks`
    whether it may ask the other by name once people act.
    """

    is_open: bool
    is_cut: bool
    is_waiting: bool
    misses: tuple[bool, bool]
    asks: tuple[bool, bool]


class Stance(NamedTuple):
    """What the choice reads of a seat. `sources` are the members whose next state can be delivered."""

    sources: tuple[int, ...]
    is_down: bool
    has_own: bool
    may_swap: bool
    toward: tuple[_Toward | None, ...]


class Order:
    """The choices of one search; the same stances lead to the same one."""

    def __init__(self, acts: frozenset[str] = ACTS, *, is_reduced: bool = True) -> None:
        self._acts = acts
        self._is_reduced = is_reduced
        self._stances: Table[Stance] = Table()
        self._first: dict[tuple[int, int, int, int], frozenset[int]] = {}

    def number(self, seat: Seat, *, may_act: bool) -> int:
        """Return the number of a seat's stance; without acts to come it has less."""
        return self._stances.number(_stance(seat, may_act=may_act))

    def sources(self, stance: int) -> tuple[int, ...]:
        """Return the members whose next state can be delivered to a seat."""
        return self._stances[stance].sources

    def first(self, one: int, two: int, three: int, left: int) -> frozenset[int]:
        """Return the members that go first, by the numbers of their stances and the count of acts; none at rest."""
        key = (one, two, three, min(left, 2))
        found = self._first.get(key)
        if found is None:
            stances = (self._stances[one], self._stances[two], self._stances[three])
            found = self._first[key] = self._choose(stances, key[3])
        return found

    def _choose(self, stances: tuple[Stance, ...], left: int) -> frozenset[int]:
        """Choose the members that take their steps now; their steps commute with all that may come before them.

        Of each way that leads on from here, some step of these members is the first: it may as well come now. A set of
        members may go first when nothing new can reach them from the others, because each of their ways has a state to
        deliver already, and none of their steps asks the others anything.
        """
        readers = [member for member in MEMBERS if stances[member].sources]
        if not readers or not self._is_reduced:
            return frozenset(MEMBERS if readers else ())
        needs = [
            {other for other in MEMBERS if other != member and self._depends(stances, member, other, left)}
            for member in MEMBERS
        ]
        sets = [_close(needs, reader) for reader in readers]
        return min(sets, key=lambda found: (len(found), sum(len(stances[one].sources) for one in found), sorted(found)))

    def _depends(self, stances: tuple[Stance, ...], member: int, other: int, left: int) -> bool:
        """Return whether a step of another member may come between, or does not commute with, one of this member."""
        ours, theirs = stances[member], stances[other]
        there, back = ours.toward[other], theirs.toward[member]
        assert there is not None
        assert back is not None
        is_down = ours.is_down or theirs.is_down
        if left and "swap" in self._acts and (left > 1 or ours.may_swap or theirs.may_swap):
            return True
        if left and ((is_down and "restart" in self._acts) or (there.is_cut and "heal" in self._acts)):
            return True  # it lists the other
        if is_down:
            return False
        if not (there.is_open and back.is_open):
            return True  # where it is opened, its reader lists the other
        if not (ours.has_own and theirs.has_own):
            return True  # who has left may withdraw its credentials, and who is missing may be asked for
        # The first of the two takes one step, the other one any number of steps before.
        if there.misses[_ONE] or back.misses[_ANY]:
            return True  # it may be asked for by name
        if left and (there.asks[_ONE] or back.asks[_ANY]):
            return True  # people may change the answer
        return not there.is_waiting and not there.is_cut


def _close(needs: list[set[int]], member: int) -> frozenset[int]:
    """Return a member with all that it needs, and that those need."""
    found = {member}
    for _ in MEMBERS:
        found.update(*[needs[one] for one in found])
    return frozenset(found)


def _stance(seat: Seat, *, may_act: bool) -> Stance:
    store, mind, ways = seat.cluster.store, seat.cluster.mind, seat.ways
    waiting = (other for other in MEMBERS if (way := ways[other]) is not None and way.queue and not way.cut)
    asking = store if may_act else None
    peers = mind.peers if mind is not None else (None,) * len(MEMBERS)
    views = [peer.view if peer is not None else None for peer in peers]
    return Stance(
        sources=tuple(waiting) if mind is not None else (),
        is_down=mind is None,
        has_own=store.clusters[seat.who] is not None,
        may_swap=may_act and (bool(store.stones) or None in store.clusters),
        toward=tuple(_toward(ways[other], views[other], asking, other) for other in MEMBERS),
    )


@cache
def _toward(way: Way | None, view: Store | None, asking: Store | None, other: int) -> _Toward | None:
    if way is None:
        return None
    seen = (view,) if view is not None else ()
    near, far = (*seen, *way.queue[:1]), (*seen, *way.queue)
    misses = (_misses(near, other), _misses(far, other))
    asks = (_asks(asking, near, other), _asks(asking, far, other)) if asking is not None else (False, False)
    return _Toward(way.is_open, bool(way.cut), bool(way.queue), misses, asks)


def _misses(views: tuple[Store, ...], other: int) -> bool:
    return None in [view.clusters[other] for view in views]


def _asks(store: Store, views: tuple[Store, ...], other: int) -> bool:
    return any(_may_ask(store, view, other) for view in views)


def _may_ask(store: Store, view: Store, asked: int) -> bool:
    """Return whether a cluster with this view of another one may ask it by name for the rule or a Secret."""
    rule = store.rule
    has_rule = rule is not None and rule.home == asked and rule.is_copy
    is_rule_gone = has_rule and (view.rule is None or view.rule.uid != rule.uid) if rule is not None else False
    names = {found.name for found in view.secrets[asked]}
    return is_rule_gone or any(one.name not in names for one in store.secrets[asked])
