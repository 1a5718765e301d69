"""Folds states that differ only in the names of the members: one of them stands for all.

Where two relays offer equally old objects, the daemon takes the one with the lower ID; the states after either choice
count as one here.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations
from typing import Final, TypeVar

from tests.explore.network import Network
from tests.explore.steps import GHOST, LEFT, State, Step
from tests.explore.world import MEMBERS, WAYS, Cluster, Ghost, Mind, Notes, Peer, Rule, Stone, Store, Way

Naming = tuple[int, ...]
"""The new number of each member."""

NAMINGS: Final[tuple[Naming, ...]] = tuple(permutations(MEMBERS))
_WAY_INDEX: Final = {way: index for index, way in enumerate(WAYS)}
_COUNT: Final = len(MEMBERS)

T = TypeVar("T")

_Known = tuple[dict[int, int], dict[int, int], dict[int, int]]
"""The numbers of clusters, ways and ghosts under other names."""


def undo(naming: Naming) -> Naming:
    """Return the naming that leads back."""
    return tuple(naming.index(member) for member in MEMBERS)


_BACK: Final = [NAMINGS.index(undo(naming)) for naming in NAMINGS]


def _placed(values: tuple[T, ...], naming: Naming) -> tuple[T, ...]:
    return tuple(values[naming.index(member)] for member in MEMBERS)


def _stones(stones: frozenset[Stone], naming: Naming) -> frozenset[Stone]:
    return frozenset(Stone(naming[one.member], one.membership, naming[one.by], one.revision) for one in stones)


def _rule(rule: Rule | None, naming: Naming) -> Rule | None:
    return rule if rule is None else rule._replace(home=naming[rule.home])


@cache
def _store(store: Store, naming: Naming) -> Store:
    return Store(
        _placed(store.clusters, naming),
        _placed(store.secrets, naming),
        _stones(store.stones, naming),
        _placed(tuple(_rule(made_by, naming) for made_by in store.copies), naming),
        _rule(store.rule, naming),
        store.record,
    )


@cache
def _peer(peer: Peer | None, naming: Naming) -> Peer | None:
    return peer if peer is None or peer.view is None else peer._replace(view=_store(peer.view, naming))


def _mind(mind: Mind, naming: Naming) -> Mind:
    return mind._replace(
        peers=_placed(tuple(_peer(peer, naming) for peer in mind.peers), naming),
        left=frozenset((naming[member], revision) for member, revision in mind.left),
        met=_placed(mind.met, naming),
        deleted_at=_placed(mind.deleted_at, naming),
        last=_placed(mind.last, naming),
        former=_placed(mind.former, naming),
        revisions=frozenset((naming[member], *known) for member, *known in mind.revisions),
        acting=_rule(mind.acting, naming),
    )


def _notes(notes: Notes, naming: Naming) -> Notes:
    return notes._replace(absent=_placed(notes.absent, naming), ordered=_stones(notes.ordered, naming))


def _cluster(cluster: Cluster, naming: Naming) -> Cluster:
    mind = _mind(cluster.mind, naming) if cluster.mind is not None else None
    return Cluster(_store(cluster.store, naming), _notes(cluster.notes, naming), mind)


def _way(way: Way, naming: Naming) -> Way:
    return way._replace(queue=tuple(_store(store, naming) for store in way.queue))


def _ghost(ghost: Ghost, naming: Naming) -> Ghost:
    return Ghost(
        frozenset((naming[member], membership) for member, membership in ghost.farewells),
        frozenset((naming[member], membership) for member, membership in ghost.declared),
        frozenset((naming[who], naming[member], membership) for who, member, membership in ghost.removed),
        _placed(ghost.missing, naming),
        frozenset(naming[member] for member in ghost.returned),
        None if ghost.home is None else naming[ghost.home],
        ghost.ended,
    )


class Fold:
    """The folding of one search."""

    def __init__(self, net: Network) -> None:
        self._net = net
        self._known: list[_Known] = [({}, {}, {}) for _ in NAMINGS]
        self._at = [
            (
                [naming.index(member) for member in MEMBERS],
                [_COUNT + _WAY_INDEX[naming.index(who), naming.index(other)] for who, other in WAYS],
            )
            for naming in NAMINGS
        ]
        self._chosen: dict[State, tuple[int, ...]] = {}

    def canonical(self, state: State) -> tuple[State, int]:
        """Return the state that stands for this one, and the number of the naming that leads to it."""
        clusters = state[:_COUNT]
        chosen = self._chosen.get(clusters)
        if chosen is None:
            chosen = self._chosen[clusters] = self._choose(state)
        if len(chosen) == 1:
            return self._renamed(state, chosen[0]), chosen[0]
        return min((self._renamed(state, index), index) for index in chosen)

    def _choose(self, state: State) -> tuple[int, ...]:
        """Return the namings that lead to the lowest clusters."""
        home = self._net.ghosts[state[GHOST]].home
        # Where the rule has a home, that one is the first member.
        namings = [n for n, naming in enumerate(NAMINGS) if home is None or naming[home] == 0]
        first = [self._first(state, index) for index in namings]
        return tuple(index for index, found in zip(namings, first, strict=True) if found == min(first))

    def _first(self, state: State, index: int) -> tuple[int, int, int]:
        """Return the clusters of a renamed state."""
        if index == 0:
            return state[:_COUNT]  # type: ignore[return-value]
        one, two, three = self._at[index][0]
        known = self._known[index][0]
        try:
            return known[state[one]], known[state[two]], known[state[three]]
        except KeyError:
            for old in (one, two, three):
                self._named(0, state[old], index)
            return self._first(state, index)

    def _renamed(self, state: State, index: int) -> State:
        if index == 0:
            return state
        known = self._known[index][1]
        ways = [known.get(state[old]) for old in self._at[index][1]]
        if None in ways:
            ways = [self._named(1, state[old], index) for old in self._at[index][1]]
        return (*self._first(state, index), *ways, self._named(2, state[GHOST], index), state[LEFT])  # type: ignore[arg-type]

    def _named(self, kind: int, number: int, index: int) -> int:
        known = self._known[index][kind]
        found = known.get(number)
        if found is None:
            found = known[number] = self._rename(kind, number, index)
            self._known[_BACK[index]][kind][found] = number
        return found

    def _rename(self, kind: int, number: int, index: int) -> int:
        net, naming = self._net, NAMINGS[index]
        if kind == 0:
            return net.clusters.number(_cluster(net.clusters[number], naming))
        if kind == 1:
            return net.ways.number(_way(net.ways[number], naming))
        return net.ghosts.number(_ghost(net.ghosts[number], naming))


def renamed_step(step: Step, naming: Naming) -> Step:
    """Return a step under other names."""
    return Step(step.kind, naming[step.who], naming[step.other])


def then(first: Naming, second: Naming) -> Naming:
    """Return both namings, one after the other."""
    return tuple(second[new] for new in first)
