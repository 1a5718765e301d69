"""The steps that are possible in a state, and those of them that are enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tests.explore.called import Truths
from tests.explore.daemon import Reaction, has_credentials, lacks_its_cluster, react
from tests.explore.draft import Draft
from tests.explore.steps import ACTS, GHOST, LEFT, WAY_AT, State, Step, Table
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
    Store,
    Way,
    put,
    shown,
)

_READS: Final = [[(way[1], WAY_AT[way]) for way in WAYS if way[0] == who] for who in MEMBERS]
"""Whom a daemon reads, and where its way is in a state."""
_READERS: Final = [[(way[0], WAY_AT[way]) for way in WAYS if way[1] == who] for who in MEMBERS]
"""Who reads a cluster, and where its way is in a state."""

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

_Taken = tuple[int, int, int, int | None, tuple[int, ...]]
"""A cluster after a step, the changes of the ways to it, the ghost if it changed, and the states that were shown."""


_MEMBERS_OF: Final = [frozenset(who for who in MEMBERS if bits >> who & 1) for bits in range(1 << len(MEMBERS))]


class Network:
    """The tables of one search, and the steps from a state."""

    def __init__(
        self, *, acts: Iterable[str] = ACTS, is_narrow: bool = True, is_reduced: bool = True, is_on_rule: bool = False
    ) -> None:
        self.clusters: Table[Cluster] = Table()
        self.ways: Table[Way] = Table()
        self.ghosts: Table[Ghost] = Table()
        self._acts = frozenset(acts)
        self._is_narrow = is_narrow
        self._is_reduced = is_reduced
        self._is_on_rule = is_on_rule
        self._reactions: dict[tuple[int, Cluster, Truths], Reaction] = {}
        self._credentials: dict[tuple[int, Cluster, int, int | None], bool] = {}
        self.stores: Table[Store] = Table()
        self._waits: dict[int, bool] = {}
        self._steps = _list_acts(self._acts)
        self._possible: dict[tuple[object, ...], tuple[Step, ...]] = {}
        self._taken: dict[tuple[object, ...], _Taken] = {}
        self._facts: dict[int, tuple[int, tuple[int, bool] | None]] = {}
        self._changed_ways: dict[tuple[int, int], int] = {}
        self._judged: set[tuple[object, ...]] = set()
        self._dependencies: dict[tuple[int, ...], bool] = {}
        self._lengthened: dict[tuple[int, tuple[int, int], int, int], int] = {}
        self._answered: Table[tuple[object, ...]] = Table()
        self._answers: dict[tuple[int, int], int] = {}

    def react(self, who: int, cluster: Cluster, truths: Truths) -> Reaction:
        """Return a daemon's reaction; the same facts have the same one."""
        key = (who, cluster, truths)
        found = self._reactions.get(key)
        if found is None:
            found = self._reactions[key] = react(who, cluster, truths)
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
        """Take a step as it was taken before; None where it must be worked out, and judged.

        Most steps concern one cluster, the ways to it, and what its daemon may ask the others now. Where the laws judge
        more, it is what the ghost remembers, and which Clusters the others have of themselves.
        """
        who = step.who
        key = self._concerned(state, step)
        found = self._taken.get(key)
        if found is None and key in self._judged:
            found = self._taken.get(self._judged_by(state, who, key))
        return self._changed(state, step, found) if found is not None else None

    def _concerned(self, state: State, step: Step) -> tuple[object, ...]:
        """Return what a step reads: the cluster, what is delivered, which ways are up, and what may be asked."""
        who = step.who
        (one, first), (two, second) = _READS[who]
        facts = [self._way_facts(state[first]), self._way_facts(state[second])]
        head = facts[step.other == two][1] if step.kind == "deliver" else None
        others = (self._asked(state[one], one), self._asked(state[two], two))
        return (step, state[who], head, facts[0][0], facts[1][0], *others)

    def _way_facts(self, way: int) -> tuple[int, tuple[int, bool] | None]:
        """Return a number for how a way is, and one for the next state on it, with whether that is a list."""
        found = self._facts.get(way)
        if found is None:
            held = self.ways[way]
            head = (self.stores.number(held.queue[0]), held.lists) if held.queue else None
            found = self._facts[way] = (2 * held.cut + held.is_open, head)
        return found

    def _judged_by(self, state: State, who: int, key: tuple[object, ...]) -> tuple[object, ...]:
        own = [self.clusters[state[member]].store.clusters[member] for member, _ in _READS[who]]
        return (*key, state[GHOST], *[held.membership if held is not None else 0 for held in own])

    def _changed(self, state: State, step: Step, found: _Taken) -> State:
        who = step.who
        (_, first), (_, second) = _READS[who]
        after = list(state)
        after[who], one, two, ghost, stores = found
        after[first], after[second] = self._way_after(state[first], one), self._way_after(state[second], two)
        if ghost is not None:
            after[GHOST] = ghost
        for store in stores:
            for reader, to in _READERS[who]:
                after[to] = self._longer(after[to], (reader, who), state[reader], store)
        after[LEFT] -= step.kind != "deliver"
        return tuple(after)

    def _way_after(self, way: int, change: int) -> int:
        """Return a way after one of the changes that one step can make; there are a few."""
        if not change:
            return way
        found = self._changed_ways.get((way, change))
        if found is None:
            found = self._changed_ways[way, change] = self.ways.number(_CHANGES[change](self.ways[way]))
        return found

    def _change_of(self, before: int, after: int) -> int | None:
        return next((one for one in range(len(_CHANGES)) if self._way_after(before, one) == after), None)

    def keep(self, state: State, step: Step, draft: Draft, reached: State) -> None:
        """Keep the outcome of a step that keeps the laws, where it concerns one cluster alone."""
        who = step.who
        if step.kind not in _CONCERN_ONE or draft.opened:
            return
        before, now = self.clusters[state[who]], draft.clusters[who]
        if now.notes.accepted not in (before.notes.accepted, 0):
            return  # others may read it again
        one, two = (self._change_of(state[at], reached[at]) for _, at in _READS[who])
        if one is None or two is None:
            return
        ghost = reached[GHOST] if reached[GHOST] != state[GHOST] else None
        stores = tuple(map(self.stores.number, draft.written))
        found = (reached[who], one, two, ghost, stores)
        if self._changed(state, step, found) != reached:
            return
        key = self._concerned(state, step)
        both = zip(before.store.clusters, now.store.clusters, strict=True)
        if draft.removals or step.kind in _JUDGED or any((had is None) != (has is None) for had, has in both):
            self._judged.add(key)
            key = self._judged_by(state, who, key)
        self._taken[key] = found

    def _asked(self, cluster: int, member: int) -> int:
        """Return a number for what is read of a cluster at any moment: its answers, and the token that it accepts."""
        found = self._answers.get((cluster, member))
        if found is None:
            store, notes, _ = self.clusters[cluster]
            own = store.rule if store.rule is not None and not store.rule.is_copy else None
            answer = (store.clusters[member] is None, store.secrets[member], own, notes.accepted)
            found = self._answers[cluster, member] = self._answered.number(answer)
        return found

    def _longer(self, way: int, both: tuple[int, int], reader: int, store: int) -> int:
        """Return a way with one more state on it."""
        key = (way, both, reader, store)
        found = self._lengthened.get(key)
        if found is None:
            longer = self.lengthened(self.ways[way], self.clusters[reader], both, self.stores[store])
            found = self._lengthened[key] = self.ways.number(longer)
        return found

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
        """Return a group of three that has come to rest, with so many acts to come.

        Where people act on the rule, it was made at a, and is copied by the others; otherwise each has its own.
        """
        held = tuple(Held(1, 1, is_copy=True, is_ready=True) for _ in MEMBERS)
        secrets = tuple((Credentials(1, 1, is_copy=True),) for _ in MEMBERS)
        homes = [0 if self._acts & _OF_RULE else who for who in MEMBERS]
        rules = [Rule(home, 1, is_copy=home != who) for who, home in enumerate(homes)]
        stores = [
            Store(
                put(held, who, Held(1, 1, is_copy=False, is_ready=True)),
                put(secrets, who, (Credentials(1, 1, is_copy=False),)),
                copies=put((Rule(rule.home, 1, is_copy=True),) * len(MEMBERS), who, None),
                rule=rule,
            )
            for who, rule in enumerate(rules)
        ]
        met = tuple(frozenset({1}) for _ in MEMBERS)
        known = frozenset((member, 1, 1) for member in MEMBERS)
        minds = [
            Mind(
                self._peers(who, stores),
                met=met,
                last=met,
                revisions=frozenset(one for one in known if one[0] != who),
                has_last=True,
                running=WINDOW,
                acting=rules[who],
            )
            for who in MEMBERS
        ]
        notes = [Notes(rules=1 if rule.home == who else 0) for who, rule in enumerate(rules)]
        numbers = [self.clusters.number(Cluster(*found)) for found in zip(stores, notes, minds, strict=True)]
        way = self.ways.number(Way(is_open=True))
        ghost = Ghost(home=0 if self._acts & _OF_RULE else None)
        return (*numbers, *[way] * len(WAYS), self.ghosts.number(ghost), acts)

    def _peers(self, who: int, stores: list[Store]) -> tuple[Peer | None, ...]:
        """Return what a daemon knows of the others, which it has heard."""
        return tuple(
            None if member == who else Peer(self.show(store, who), is_connected=True)
            for member, store in enumerate(stores)
        )

    def is_quiet(self, state: State) -> bool:
        """Return whether nothing is under way to a daemon that runs."""
        return not any(self._is_ready(state, way, at) for way, at in WAY_AT.items())

    def _is_ready(self, state: State, way: tuple[int, int], at: int) -> bool:
        found = self._waits.get(state[at])
        if found is None:
            held = self.ways[state[at]]
            found = self._waits[state[at]] = bool(held.queue) and not held.cut
        return found and self.clusters[state[way[0]]].mind is not None

    def _choose(self, state: State, ready: list[tuple[int, int]]) -> frozenset[int]:
        """Choose the members that take their steps now; their steps commute with all that may come before them.

        Of each way that leads on from here, some step of these members is the first: it may as well come now. A set of
        members may go first when nothing new can reach them from the others, because each of their ways has a state to
        deliver already, and none of their steps asks the others anything.
        """
        needs = [1 << member for member in MEMBERS]
        for member, other in WAYS:
            if self._depends(state, member, other):
                needs[member] |= 1 << other
        found = min(self._close(needs, 1 << reader, ready) for reader in {reader for reader, _ in ready})
        return _MEMBERS_OF[found[2]]

    def _close(self, needs: list[int], members: int, ready: list[tuple[int, int]]) -> tuple[int, int, int]:
        """Return how many members need each other, how many of the deliveries are theirs, and a bit for each."""
        for _ in MEMBERS:
            for member in MEMBERS:
                if members >> member & 1:
                    members |= needs[member]
        return members.bit_count(), sum(members >> reader & 1 for reader, _ in ready), members

    def _depends(self, state: State, member: int, other: int) -> bool:
        """Return whether a step of another member may come between, or does not commute with, one of this member."""
        there, back = WAY_AT[member, other], WAY_AT[other, member]
        left = min(state[LEFT], 2)
        key = (member, other, state[member], state[other], state[there], state[back], left)
        found = self._dependencies.get(key)
        if found is None:
            found = self._dependencies[key] = self._may_depend(
                (member, other), self.ways[state[there]], self.ways[state[back]], state, left
            )
        return found

    def _may_depend(self, both: tuple[int, int], there: Way, back: Way, state: State, left: int) -> bool:
        clusters = [self.clusters[state[member]] for member in both]
        is_down = any(cluster.mind is None for cluster in clusters)
        if left and "swap" in self._acts and (left > 1 or any(_may_swap(cluster.store) for cluster in clusters)):
            return True
        if left and ((is_down and "restart" in self._acts) or (there.cut and "heal" in self._acts)):
            return True  # it lists the other
        if is_down:
            return False
        if not (there.is_open and back.is_open):
            return True  # where it is opened, its reader lists the other
        if any(cluster.store.clusters[member] is None for member, cluster in zip(both, clusters, strict=True)):
            return True  # who has left may withdraw its credentials, and who is missing may be asked for
        # The first of the two takes one step, the other one any number of steps before.
        for cluster, asked, queue in ((clusters[0], both[1], there.queue[:1]), (clusters[1], both[0], back.queue)):
            peer = cluster.mind.peers[asked] if cluster.mind is not None else None
            views = (*queue, *((peer.view,) if peer is not None and peer.view is not None else ()))
            if any(view.clusters[asked] is None for view in views):
                return True  # it may be asked for by name
            if left and any(_may_ask(cluster.store, view, asked) for view in views):
                return True  # people may change the answer
        return not there.queue and not there.cut

    def is_whole(self, state: State) -> bool:
        """Return whether no way is cut, and every daemon runs."""
        ways = state[len(MEMBERS) : GHOST]
        return all(self.clusters[state[who]].mind for who in MEMBERS) and not any(self.ways[way].cut for way in ways)

    def after(self, state: State) -> Iterator[tuple[Step, Draft | State]]:
        """Take each step that is possible, each on its own; what needs no judgement comes as a state."""
        ready = [way for way, at in WAY_AT.items() if self._is_ready(state, way, at)]
        chosen = self._choose(state, ready) if ready and self._is_reduced else frozenset(MEMBERS)
        for who, member in ready:
            if who not in chosen:
                continue
            step = _DELIVERIES[who, member]
            yield step, self.again(state, step) or self.take(state, step)
        if state[LEFT]:
            for step in self._possible_acts(state):
                if step.who in chosen or (step.kind == "swap" and step.other in chosen):
                    yield step, self.again(state, step) or self.take(state, step)
        if not ready:
            yield from self._rest(state)

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
        ours, theirs = self.clusters[state[who]], self.clusters[state[other]]
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
            return bool(self.ways[state[WAY_AT[who, other]]].cut) == (kind == "heal")
        if kind == "declare":
            held = ours.store.clusters[other]
            return held is not None and (not held.is_ready or lacks_its_cluster(who, ours, other))
        assert kind == "swap"
        is_member = all(_is_free(member, self.clusters[state[member]].store) for member in (who, other))
        both = ours.store.clusters[other] is not None and theirs.store.clusters[who] is not None
        return who < other and is_member and not both


_OF_RULE: Final = frozenset({"rule", "unrule"})
_OF_WAYS: Final = frozenset({"cut", "heal"})
_OF_TWO: Final = _OF_WAYS | {"swap", "declare"}


def _list_acts(kinds: frozenset[str]) -> list[tuple[tuple[int, ...], list[Step]]]:
    """List the acts of these kinds, with the places in a state that tell whether they are possible."""
    found: dict[tuple[int, ...], list[Step]] = {}
    for kind in sorted(kinds):
        for who in MEMBERS:
            for other in MEMBERS if kind in _OF_TWO else (who,):
                which: tuple[int, ...] = (who,)
                if who != other and (kind in _OF_WAYS or kind == "swap"):
                    which = (WAY_AT[who, other],) if kind in _OF_WAYS else (who, other)
                found.setdefault(which, []).append(Step(kind, who, other))
    return list(found.items())


def _may_swap(store: Store) -> bool:
    """Return whether a cluster lacks a member, or may come to lack one by what was said already."""
    return bool(store.stones) or None in store.clusters


def _is_free(member: int, store: Store) -> bool:
    """Return whether a member may swap: it has its own Cluster, or it has left and knows nobody any more."""
    return store.clusters[member] is not None or not any(store.clusters)


def _may_ask(store: Store, view: Store, asked: int) -> bool:
    """Return whether a cluster with this view of another one may ask it by name for the rule or a Secret."""
    rule = store.rule
    has_rule = rule is not None and rule.home == asked and rule.is_copy
    is_rule_gone = has_rule and (view.rule is None or view.rule.uid != rule.uid) if rule is not None else False
    names = {found.name for found in view.secrets[asked]}
    return is_rule_gone or any(one.name not in names for one in store.secrets[asked])
