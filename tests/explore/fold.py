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
from tests.explore.world import MEMBERS, Cluster, Ghost, Mind, Notes, Peer, Rule, Seat, Stone, Store, Way

Naming = tuple[int, ...]
"""The new number of each member."""

NAMINGS: Final[tuple[Naming, ...]] = tuple(permutations(MEMBERS))

T = TypeVar("T")

_Known = tuple[dict[int, int], dict[int, int], dict[int, int]]
"""The numbers of clusters, seats and ghosts under other names."""
_Lowest = tuple[int, tuple[int, ...]]
_CLUSTER: Final = 0
_SEAT: Final = 1
_GHOST: Final = 2


def undo(naming: Naming) -> Naming:
    """Return the naming that leads back."""
    return tuple(naming.index(member) for member in MEMBERS)


_OLD: Final = [undo(naming) for naming in NAMINGS]
"""The earlier number of each member."""
_BACK: Final = [NAMINGS.index(old) for old in _OLD]


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


@cache
def _cluster(cluster: Cluster, naming: Naming) -> Cluster:
    mind = _mind(cluster.mind, naming) if cluster.mind is not None else None
    return Cluster(_store(cluster.store, naming), _notes(cluster.notes, naming), mind)


@cache
def _way(way: Way | None, naming: Naming) -> Way | None:
    return way if way is None else way._replace(queue=tuple(_store(store, naming) for store in way.queue))


def _seat(seat: Seat, naming: Naming) -> Seat:
    return Seat(_cluster(seat.cluster, naming), _placed(tuple(_way(way, naming) for way in seat.ways), naming))


def _ghost(ghost: Ghost, naming: Naming) -> Ghost:
    return Ghost(
        frozenset((naming[member], membership) for member, membership in ghost.farewells),
        frozenset((naming[member], membership) for member, membership in ghost.earlier),
        frozenset((naming[member], membership) for member, membership in ghost.declared),
        frozenset((naming[who], naming[member], membership) for who, member, membership in ghost.removed),
        _placed(ghost.missing, naming),
        frozenset(naming[member] for member in ghost.joining),
        None if ghost.home is None else naming[ghost.home],
        ghost.ended,
    )


class Fold:
    """The folding of one search."""

    def __init__(self, net: Network) -> None:
        self._net = net
        self._known: list[_Known] = [({}, {}, {}) for _ in NAMINGS]
        self._lowest: list[dict[int, _Lowest]] = [{} for _ in MEMBERS]

    def canonical(self, state: State) -> tuple[State, int]:
        """Return the state that stands for this one, and the number of the naming that leads to it.

        It has the lowest clusters. Where the rule has a home, that one is the first member.
        """
        cluster_of = self._net.cluster_of
        is_at_home = self._net.ghosts[state[GHOST]].home is not None
        lowest, namings = self._first(0, cluster_of[state[0]])
        if not is_at_home:
            for member in MEMBERS[1:]:
                cluster, others = self._first(member, cluster_of[state[member]])
                if cluster <= lowest:
                    namings = others if cluster < lowest else namings + others
                    lowest = cluster
        if len(namings) > 1:
            clusters = [
                [self._named(_CLUSTER, cluster_of[state[old]], index) for old in _OLD[index]] for index in namings
            ]
            least = min(clusters)
            namings = tuple(index for index, found in zip(namings, clusters, strict=True) if found == least)
            if len(namings) > 1:
                return min((self._renamed(state, index), index) for index in namings)
        return self._renamed(state, namings[0]), namings[0]

    def _first(self, member: int, cluster: int) -> _Lowest:
        """Return the lowest number of a cluster whose member becomes the first, and the namings that lead to it."""
        found = self._lowest[member].get(cluster)
        if found is None:
            namings = [index for index, naming in enumerate(NAMINGS) if naming[member] == 0]
            numbers = [self._named(_CLUSTER, cluster, index) for index in namings]
            lowest = min(numbers)
            chosen = tuple(index for index, number in zip(namings, numbers, strict=True) if number == lowest)
            found = self._lowest[member][cluster] = (lowest, chosen)
        return found

    def _renamed(self, state: State, index: int) -> State:
        if index == 0:
            return state
        one, two, three = _OLD[index]
        _, seats, ghosts = self._known[index]
        try:
            return seats[state[one]], seats[state[two]], seats[state[three]], ghosts[state[GHOST]], state[LEFT]
        except KeyError:
            for seat in state[: len(MEMBERS)]:
                self._named(_SEAT, seat, index)
            self._named(_GHOST, state[GHOST], index)
            return self._renamed(state, index)

    def _named(self, kind: int, number: int, index: int) -> int:
        known = self._known[index][kind]
        found = known.get(number)
        if found is None:
            found = known[number] = self._rename(kind, number, NAMINGS[index])
            self._known[_BACK[index]][kind][found] = number
        return found

    def _rename(self, kind: int, number: int, naming: Naming) -> int:
        net = self._net
        if kind == _CLUSTER:
            return net.clusters.number(_cluster(net.clusters[number], naming))
        if kind == _SEAT:
            return net.number(_seat(net.seats[number], naming))
        return net.ghosts.number(_ghost(net.ghosts[number], naming))


def renamed_step(step: Step, naming: Naming) -> Step:
    """Return a step under other names."""
    return Step(step.kind, naming[step.who], naming[step.other])


def then(first: Naming, second: Naming) -> Naming:
    """Return both namings, one after the other."""
    return tuple(second[new] for new in first)
