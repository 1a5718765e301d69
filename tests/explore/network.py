"""The steps that are possible in a state, and those of them that are enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from tests.explore.called import Truths
from tests.explore.daemon import Reaction, has_credentials, lacks_its_cluster, react
from tests.explore.draft import Draft
from tests.explore.order import Order
from tests.explore.steps import ACTS, GHOST, LEFT, State, Step, Table
from tests.explore.world import (
    MEMBERS,
    TICKS,
    WAYS,
    WINDOW,
    Cluster,
    Credentials,
    Ghost,
    Held,
    Mind,
    Notes,
    Peer,
    Rule,
    Seat,
    Store,
    Way,
    put,
    shown,
)

_OTHERS: Final = [tuple(other for other in MEMBERS if other != who) for who in MEMBERS]

_JUDGED: Final = frozenset({"leave", "declare", "delete", "replace", "unrule", "crash"})
"""Acts that the ghost may remember."""
_CONCERN_ONE: Final = ACTS - {"swap", "restart"} | {"deliver"}
"""Steps that concern one cluster, unless a way begins with a list of another one."""
_CHANGES: Final[tuple[Callable[[Way], Way], ...]] = (
    lambda way: way,
    lambda way: way._replace(queue=way.queue[1:], lists=False),
    lambda way: Way(cut=way.cut),
    lambda way: way._replace(cut=1),
    lambda way: way._replace(cut=0),
)
"""What such a step does to a way: nothing, it delivers a state, closes, cuts or mends the way."""

_DELIVERIES: Final = {way: Step("deliver", *way) for way in WAYS}


class _Taken(NamedTuple):
    """A step that was taken before: the cluster after it, the changes of the ways to it, the ghost, and what it wrote.

    `ghost` is None where it stays, `written` has a number for the states that were written.
    """

    cluster: Cluster
    changes: tuple[int, ...]
    ghost: int | None
    written: int


class _Move(NamedTuple):
    """What a step does to a state, as it did before: to one seat, to the ghost, and to the ways that hear of it."""

    step: Step
    seat: int
    ghost: int
    written: int


class Network:
    """The tables of one search, and the steps from a state."""

    def __init__(
        self,
        *,
        acts: Iterable[str] = ACTS,
        is_narrow: bool = True,
        is_reduced: bool = True,
        is_on_rule: bool = False,
        has_newcomer: bool = False,
    ) -> None:
        self.seats: Table[Seat] = Table()
        self.clusters: Table[Cluster] = Table()
        self.ghosts: Table[Ghost] = Table()
        self._acts = frozenset(acts)
        self._is_narrow = is_narrow
        self._is_on_rule = is_on_rule
        self._has_newcomer = has_newcomer
        self._order = Order(self._acts, is_reduced=is_reduced)
        self._reactions: dict[tuple[int, Cluster, Truths], Reaction] = {}
        self._credentials: dict[tuple[int, Cluster, int, int | None], bool] = {}
        self._steps = _list_acts(self._acts)
        self._possible: dict[tuple[object, ...], tuple[Step, ...]] = {}
        self._taken: dict[tuple[object, ...], _Taken] = {}
        self._judged: set[tuple[object, ...]] = set()
        self._moves: dict[tuple[int, ...], tuple[tuple[Step, _Move | None], ...]] = {}
        self._written: Table[tuple[Store, ...]] = Table()
        self._written.number(())  # 0: nothing
        self._told: dict[tuple[int, int, int], int] = {}
        self._answers: Table[tuple[object, int]] = Table()
        # Facts about each seat, in the order of their numbers.
        self.cluster_of: list[int] = []
        self._answer_of: list[int] = []
        self._stance_of: list[int] = []
        self._acting_of: dict[int, int] = {}

    def number(self, seat: Seat) -> int:
        """Return the number of a seat."""
        found = self.seats.number(seat)
        if found == len(self._answer_of):
            self.cluster_of.append(self.clusters.number(seat.cluster))
            self._answer_of.append(self._answers.number(_answer(seat.cluster, seat.who)))
            self._stance_of.append(self._order.number(seat, may_act=False))
        return found

    def react(self, who: int, cluster: Cluster, truths: Truths) -> Reaction:
        """Return a daemon's reaction; the same facts have the same one."""
        key = (who, cluster, truths)
        found = self._reactions.get(key)
        if found is None:
            found = self._reactions[key] = react(who, cluster, truths)
            self._reactions[who, found.cluster, truths] = Reaction(found.cluster, ())  # it has come to rest
        return found

    def has_credentials(self, who: int, cluster: Cluster, member: int, token: int | None) -> bool:
        """Return whether a daemon can read a member whose API server accepts this token."""
        key = (who, cluster, member, token)
        found = self._credentials.get(key)
        if found is None:
            found = self._credentials[key] = has_credentials(who, cluster, member, token=token)
        return found

    @property
    def reactions(self) -> int:
        """How many different reactions were computed."""
        return len(self._reactions)

    def again(self, state: State, step: Step) -> State | None:
        """Take a step as it was taken before; None where it must be worked out, and judged."""
        move = self._find_move(state, step)
        return self._moved(state, move, left=state[LEFT] - (step.kind != "deliver")) if move is not None else None

    def _find_move(self, state: State, step: Step) -> _Move | None:
        found = self._find(state, step)
        if found is None:
            return None
        seat = self.number(_after(self.seats[state[step.who]], found))
        return _Move(step, seat, state[GHOST] if found.ghost is None else found.ghost, found.written)

    def _find(self, state: State, step: Step) -> _Taken | None:
        """Return how a step was taken before.

        Most steps concern one cluster, the ways to it, and what its daemon may ask the others now. Where the laws judge
        more, it is what the ghost remembers, and which Clusters the others have of themselves.
        """
        key = self._concerned(state, step)
        found = self._taken.get(key)
        if found is None and key in self._judged:
            found = self._taken.get(self._judged_by(state, step.who, key))
        return found

    def _concerned(self, state: State, step: Step) -> tuple[object, ...]:
        """Return what a step reads: the cluster, what is delivered, which ways are up, and what may be asked."""
        seat = self.seats[state[step.who]]
        one, two = _OTHERS[step.who]
        first, second = seat.ways[one], seat.ways[two]
        assert first is not None
        assert second is not None
        way = first if step.other == one else second
        head = (way.queue[0], way.lists) if step.kind == "deliver" else None
        answers = (self._answers[self._answer_of[state[one]]][0], self._answers[self._answer_of[state[two]]][0])
        return (step, seat.cluster, head, first.is_open, first.cut, second.is_open, second.cut, *answers)

    def _judged_by(self, state: State, who: int, key: tuple[object, ...]) -> tuple[object, ...]:
        return (*key, state[GHOST], *[self._answers[self._answer_of[state[other]]][1] for other in _OTHERS[who]])

    def _moved(self, state: State, move: _Move, *, left: int) -> State:
        """Return the state after a step at one seat: the readers hear what was written."""
        who, seats = move.step.who, list(state[: len(MEMBERS)])
        seats[who] = move.seat
        if move.written:
            for reader in _OTHERS[who]:
                seats[reader] = self._tell(seats[reader], who, move.written)
        return (*seats, move.ghost, left)

    def _tell(self, reader: int, who: int, written: int) -> int:
        """Return the seat of a reader with the states on its way that a member wrote."""
        key = (reader, who, written)
        found = self._told.get(key)
        if found is None:
            seat = self.seats[reader]
            way = seat.ways[who]
            assert way is not None
            for store in self._written[written]:
                way = self.lengthened(way, seat.cluster, (seat.who, who), store)
            found = self._told[key] = self.number(seat._replace(ways=put(seat.ways, who, way)))
        return found

    def keep(self, state: State, step: Step, draft: Draft, reached: State) -> None:
        """Keep the outcome of a step that keeps the laws, where it concerns one cluster alone."""
        who = step.who
        if step.kind not in _CONCERN_ONE or draft.opened:
            return
        before, now = self.seats[state[who]], self.seats[reached[who]]
        if now.cluster.notes.accepted not in (before.cluster.notes.accepted, 0):
            return  # others may read it again
        changes = [_change_of(one, two) for one, two in zip(before.ways, now.ways, strict=True)]
        if None in changes:
            return
        ghost = reached[GHOST] if reached[GHOST] != state[GHOST] else None
        found = _Taken(now.cluster, tuple(changes), ghost, self._written.number(tuple(draft.written)))  # type: ignore[arg-type]
        move = _Move(step, reached[who], reached[GHOST], found.written)
        if self._moved(state, move, left=reached[LEFT]) != reached:
            return
        key = self._concerned(state, step)
        both = zip(before.cluster.store.clusters, now.cluster.store.clusters, strict=True)
        if draft.removals or step.kind in _JUDGED or any((had is None) != (has is None) for had, has in both):
            self._judged.add(key)
            key = self._judged_by(state, who, key)
        self._taken[key] = found

    def _deliveries(self, state: State, who: int) -> Iterator[tuple[Step, Draft | State]]:
        """Make each delivery to a member, each on its own."""
        one, two = _OTHERS[who]
        key = (state[who], self._answer_of[state[one]], self._answer_of[state[two]], state[GHOST])
        moves = self._moves.get(key)
        if moves is None:
            steps = [_DELIVERIES[who, source] for source in self._order.sources(self._stance_of[state[who]])]
            found = list[tuple[Step, _Move | None]]()
            for step in steps:
                move = self._find_move(state, step)
                yield step, self.take(state, step) if move is None else self._moved(state, move, left=state[LEFT])
                found.append((step, move or self._find_move(state, step)))  # now that it was judged
            self._moves[key] = tuple(found)
            return
        for step, move in moves:
            yield step, self.take(state, step) if move is None else self._moved(state, move, left=state[LEFT])

    def show(self, store: Store, reader: int) -> Store:
        """Return what a way carries of a state to a reader."""
        return shown(store, reader) if self._is_narrow else store

    def lengthened(self, way: Way, reader: Cluster, both: tuple[int, int], store: Store) -> Way:
        """Return a way from one member to its reader with one more state on it, unless the reader would notice none."""
        if not way.is_open or way.cut >= 2:
            return way
        state = self.show(store, both[0])
        if way.queue:
            is_known = way.queue[-1] == state
        else:
            peer = reader.mind.peers[both[1]] if reader.mind is not None else None
            is_heard = peer is not None and peer.is_alive and peer.is_connected and not way.lists
            is_known = is_heard and peer is not None and peer.view == state
        return way if is_known and self._is_narrow else way._replace(queue=(*way.queue, state))

    def draft(self, state: State) -> Draft:
        """Return a state to change."""
        return Draft(self, state)

    def begin(self, acts: int) -> State:
        """Return a group that has come to rest, with so many acts to come: of three, or of two beside a newcomer.

        Where people act on the rule, it was made at a, and is copied by the others; otherwise each has its own.
        """
        group = MEMBERS[:-1] if self._has_newcomer else MEMBERS
        known = [group if who in group else (who,) for who in MEMBERS]
        home = 0 if self._acts & _OF_RULE else None
        stores = [_store_at_rest(who, known[who], who if home is None else home) for who in MEMBERS]
        seats = [
            Seat(
                Cluster(
                    store,
                    Notes(rules=1 if store.rule is not None and store.rule.home == who else 0),
                    self._mind_at_rest(who, known[who], stores),
                ),
                tuple(None if other == who else Way(is_open=other in known[who]) for other in MEMBERS),
            )
            for who, store in enumerate(stores)
        ]
        ghost = Ghost(home=home, joining=frozenset(MEMBERS) - frozenset(group))
        return (*map(self.number, seats), self.ghosts.number(ghost), acts)

    def _mind_at_rest(self, who: int, known: tuple[int, ...], stores: list[Store]) -> Mind:
        """Return what a daemon remembers that has heard those whom it knows."""
        met = tuple(frozenset({1} if member in known else ()) for member in MEMBERS)
        peers = (
            Peer(self.show(store, who), is_connected=True) if member in known and member != who else None
            for member, store in enumerate(stores)
        )
        return Mind(
            tuple(peers),
            met=met,
            last=met,
            revisions=frozenset((member, 1, 1) for member in known if member != who),
            has_last=True,
            running=WINDOW,
            acting=stores[who].rule,
        )

    def is_quiet(self, state: State) -> bool:
        """Return whether nothing is under way to a daemon that runs."""
        return not any(self._order.sources(self._stance_of[seat]) for seat in state[: len(MEMBERS)])

    def is_whole(self, state: State) -> bool:
        """Return whether no way is cut, and every daemon runs."""
        seats = [self.seats[number] for number in state[: len(MEMBERS)]]
        return all(seat.cluster.mind and not any(way and way.cut for way in seat.ways) for seat in seats)

    def after(self, state: State) -> Iterator[tuple[Step, Draft | State]]:
        """Take each step that is possible, each on its own; what needs no judgement comes as a state."""
        one, two, three, _, left = state
        stances: Sequence[int] | Mapping[int, int] = self._stance_of
        if left:
            stances = {seat: self._acting_stance(seat) for seat in state[: len(MEMBERS)]}
        chosen = self._order.first(stances[one], stances[two], stances[three], left)
        for who in chosen:
            yield from self._deliveries(state, who)
        if left:
            for step in self._possible_acts(state):
                if not chosen or step.who in chosen or (step.kind == "swap" and step.other in chosen):
                    yield step, self.again(state, step) or self.take(state, step)
        if not chosen:
            yield from self._rest(state)

    def _acting_stance(self, seat: int) -> int:
        found = self._acting_of.get(seat)
        if found is None:
            found = self._acting_of[seat] = self._order.number(self.seats[seat], may_act=True)
        return found

    def _rest(self, state: State) -> Iterator[tuple[Step, Draft]]:
        """Let time pass while nothing is under way; what is due earlier comes first."""
        for kind, tick in TICKS.items():
            draft = self.draft(state)
            draft.pass_time(tick)
            yield Step(kind), draft
            if draft.state()[:GHOST] != state[:GHOST]:
                break
        if not state[LEFT] and not self.is_whole(state):
            draft = self.draft(state)
            draft.repair()
            yield Step("repair"), draft

    def take(self, state: State, step: Step) -> Draft:
        """Take one step."""
        draft = self.draft(state)
        if step.kind == "deliver":
            draft.deliver(step.who, step.other)
        elif step.kind in TICKS:
            draft.pass_time(TICKS[step.kind])
        elif step.kind == "repair":
            draft.repair()
        else:
            draft.act(step)
        return draft

    def _possible_acts(self, state: State) -> Iterator[Step]:
        must_unrule = self._is_on_rule and state[LEFT] == 1 and not self.ghosts[state[GHOST]].ended
        for which, steps in self._steps:
            key = (which, *[state[at] for at in which])
            found = self._possible.get(key)
            if found is None:
                found = self._possible[key] = tuple(step for step in steps if self._is_possible(step, state))
            yield from (step for step in found if step.kind == "unrule") if must_unrule else found

    def _is_possible(self, step: Step, state: State) -> bool:
        kind, who, other = step
        ours, theirs = self.seats[state[who]].cluster, self.seats[state[other]].cluster
        if kind in _OF_RULE:
            return who == self.ghosts[state[GHOST]].home and (ours.store.rule is None) == (kind == "rule")
        if kind in ("rename", "rotate") and not ours.notes.accepted:
            return False
        if kind in ("leave", "delete", "replace", "rename", "rotate"):
            return ours.store.clusters[who] is not None
        if kind in ("crash", "restart"):
            return (ours.mind is None) == (kind == "restart")
        if who == other:
            return False
        if kind in ("cut", "heal"):
            way = self.seats[state[who]].ways[other]
            return way is not None and bool(way.cut) == (kind == "heal")
        if kind == "declare":
            held = ours.store.clusters[other]
            return held is not None and (not held.is_ready or lacks_its_cluster(who, ours, other))
        assert kind == "swap"
        is_member = _is_free(who, ours.store) and _is_free(other, theirs.store)
        both = ours.store.clusters[other] is not None and theirs.store.clusters[who] is not None
        return who < other and is_member and not both


_OF_RULE: Final = frozenset({"rule", "unrule"})
_OF_WAYS: Final = frozenset({"cut", "heal"})
_OF_TWO: Final = _OF_WAYS | {"swap", "declare"}


def _store_at_rest(who: int, known: tuple[int, ...], home: int) -> Store:
    """Return what a cluster stores that knows these members, and has the rule of one if it knows that one."""
    rule = Rule(home, 1, is_copy=home != who) if home in known else None
    made_by = Rule(home, 1, is_copy=True) if rule is not None else None
    return Store(
        tuple(Held(1, 1, member != who, is_ready=True) if member in known else None for member in MEMBERS),
        tuple((Credentials(1, 1, member != who),) if member in known else () for member in MEMBERS),
        copies=tuple(made_by if member in known and member != who else None for member in MEMBERS),
        rule=rule,
    )


def _list_acts(kinds: frozenset[str]) -> list[tuple[tuple[int, ...], list[Step]]]:
    """List the acts of these kinds, with the places in a state that tell whether they are possible."""
    found: dict[tuple[int, ...], list[Step]] = {}
    for kind in sorted(kinds):
        for who in MEMBERS:
            for other in MEMBERS if kind in _OF_TWO else (who,):
                which = (who, other) if kind == "swap" and who != other else (who,)
                found.setdefault(which, []).append(Step(kind, who, other))
    return list(found.items())


def _is_free(member: int, store: Store) -> bool:
    """Return whether a member may swap: it has its own Cluster, or it has left and knows nobody any more."""
    return store.clusters[member] is not None or not any(store.clusters)


@cache
def _answer(cluster: Cluster, who: int) -> tuple[object, int]:
    """Return what is read of a cluster at any moment: its answers, and the token it accepts; and its membership."""
    store, notes = cluster.store, cluster.notes
    own, rule = store.clusters[who], store.rule
    made_here = rule if rule is not None and not rule.is_copy else None
    answers = (own is None, store.secrets[who], made_here, notes.accepted)
    return answers, own.membership if own is not None else 0


def _after(seat: Seat, taken: _Taken) -> Seat:
    """Return a seat after a step that was taken before."""
    ways = (way if way is None else _changed(way, change) for way, change in zip(seat.ways, taken.changes, strict=True))
    return Seat(taken.cluster, tuple(ways))


@cache
def _changed(way: Way, change: int) -> Way:
    """Return a way after one of the changes that one step can make; there are a few."""
    return _CHANGES[change](way)


def _change_of(before: Way | None, after: Way | None) -> int | None:
    if before is None:
        return 0
    return next((one for one in range(len(_CHANGES)) if _changed(before, one) == after), None)
