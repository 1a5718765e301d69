"""The laws, held over a whole history and not only at its end. Law: nothing here imports anything of the daemon.

order     a value written to a copy was some state of its owner, and its owner's states come in its owner's order
deletion  a copy is deleted after its owner's object, what a rule made of it, or the owner itself was no longer there
native    no object that was made in a cluster is changed or deleted by its daemon
number    a place is written at most once for each state of its owners, each time that one left or joined, each change
of a rule and each deed of others there
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.history import BINDING, DAEMON, NAMESPACE, UNKNOWN, History, Manifest, Place, State, state_at
from tests.chaos.making import is_core, is_never_copied, make, owner_of, source_key

TAKEN_BACK_S = 15.0
"""How long what landed after its source was deleted may stay."""
LATE_S = 90.0
"""How old what a daemon goes by may be beyond the faults' own time: a silent peer, a hung request, a watch that is
reopened.
"""


@dataclass(frozen=True, slots=True)
class Violation:
    """What was broken, where, and the lines of the histories that show it."""

    law: str
    where: str
    words: str
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join([f"{self.law}: {self.where}: {self.words}", *self.lines])


@dataclass
class Verdict:
    """What was looked at, and what was found."""

    checked: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    writes: int = 0

    def count(self, law: str, number: int = 1) -> None:
        self.checked[law] = self.checked.get(law, 0) + number

    def broken(self, law: str, where: object, words: str, lines: list[str]) -> None:
        self.violations.append(Violation(law, str(where), words, tuple(lines)))


def judge(history: History) -> Verdict:
    """Hold all laws that a history alone can show."""
    judge = _Judge(history)
    for place, states in history.states.items():
        if place.kind not in BINDING and not _is_left_out(place, states):
            judge.look(place, states)
    judge.verdict.writes = sum(history.written.values())
    return judge.verdict


def _is_left_out(place: Place, states: list[State]) -> bool:
    return (place.kind == "Secret" and place.namespace == NAMESPACE) or any(
        state.object is not None and is_never_copied(state.object) for state in states
    )


class _Judge:
    def __init__(self, history: History) -> None:
        self.history = history
        self.verdict = Verdict()
        self._names = {cluster_id: name for name, cluster_id in history.ids.items()}
        self._rules = {
            name: {rule: _versions(states) for rule, states in history.rules(name).items()} for name in history.ids
        }

    def look(self, place: Place, states: list[State]) -> None:
        reached: dict[str, int] = {}
        before: State | None = None
        for number, state in enumerate(states):
            if state.who == DAEMON:
                if self._is_native(before):
                    self._say("native", place, state, "is a native object, and the daemon wrote to it or deleted it")
                self.verdict.count("native")
                if state.object is None or _is_held(before, state.object):
                    self._check_deletion(place, before, state, states[number + 1 :])
                else:
                    self._check_value(place, state, states[number + 1 :], reached)
            elif state.who != UNKNOWN:
                reached = {}  # somebody was here: what was known of the copy is gone with what it said
            before = state
        self._check_number(place, states)

    def _is_native(self, before: State | None) -> bool:
        return before is not None and before.object is not None and not owner_of(before.object)

    def _say(self, law: str, place: Place, state: State, words: str, *others: Place) -> None:
        self.verdict.broken(law, place, words, self.history.lines(place, *others, around=state.at))

    def _source(self, place: Place, copy: Manifest) -> Place | None:
        owner = self._names.get(owner_of(copy))
        return None if owner is None or owner == place.cluster else Place(owner, place.kind, *source_key(copy))

    # Values.

    def _check_value(self, place: Place, state: State, later: list[State], reached: dict[str, int]) -> None:
        self.verdict.count("order")
        assert state.object is not None
        source = self._source(place, state.object)
        if source is None:
            self._say("order", place, state, "was written, and names no other member as its owner")
            return
        sources = self.history.states.get(source, [])
        least = reached.get(str(source), 0)
        rules = list(self._rules_at(place.cluster, state))
        for number in range(least, len(sources)):
            if _may_make(place, sources[number], rules, state):
                reached[str(source)] = number
                return
        fitting = [i for i, one in enumerate(sources[:least]) if _may_make(place, one, rules, state)]
        if not fitting:
            words = f"was no state of {source}: {_nearest(sources, rules, state)}"
            self._say("order", place, state, words, source)
            return
        gone = any(one.object is None for one in sources[fitting[-1] :])
        if not (gone and any(one.at < state.at + TAKEN_BACK_S for one in later if one.object is None)):
            self._say("order", place, state, f"goes back to an older state of {source}", source)

    def _rules_at(self, cluster: str, state: State) -> Iterator[Manifest]:
        """The rules as they were when a write was decided, or shortly before."""
        for states in self._rules[cluster].values():
            for rule, ends in _lives(states):
                is_then = rule.began <= state.at and ends + LATE_S >= state.began
                if rule.object is not None and is_then:
                    yield rule.object

    # Deletions.

    def _check_deletion(self, place: Place, before: State | None, state: State, later: list[State]) -> None:
        self.verdict.count("deletion")
        if before is None or before.object is None or not owner_of(before.object):
            return
        source = self._source(place, before.object)
        if source is None:
            return  # a mark of nobody: no native object, and no copy of a member
        if before.object.get("immutable") and (
            state.object is not None or any(one.at < state.at + TAKEN_BACK_S for one in later)
        ):
            return  # what cannot be changed is made again, once nobody holds it any more
        written = [one for one in self.history.states[place] if one.who == DAEMON and one.object and one.at < state.at]
        last = max(written, key=lambda one: one.began, default=before)
        if not (
            self._was_unwanted(place, source, state, since=last.began)
            or self._was_unwanted(place, source, state, since=self._known_at(place, source, last))
        ):
            self._say("deletion", place, state, f"was deleted, and all the time {source} and a rule were there", source)

    def _known_at(self, place: Place, source: Place, write: State) -> float:
        """Until when a write can have known all: what it was made of may be replaced by the time that it is sent, and
        what came between is heard after that.
        """
        sources = list(_lives(self.history.states.get(source, [])))
        rules = [life for states in self._rules[place.cluster].values() for life in _lives(states)]
        moments = (
            min(source_ends, rule_ends)
            for one, source_ends in sources
            for rule, rule_ends in rules
            if rule.object is not None and _may_make(place, one, [rule.object], write)
        )
        return min(write.began, max(moments, default=write.began))

    def _was_unwanted(self, place: Place, source: Place, state: State, *, since: float) -> bool:
        """Whether at some moment since the copy was last written nothing asked for it."""
        sources = self.history.states.get(source, [])
        changes = [*sources, *itertools.chain(*self._rules[place.cluster].values())]
        moments = sorted({one.began for one in changes if since <= one.began <= state.at} | {since, state.at})
        owner = self.history.ids[source.cluster]
        left = (span for site in (source.cluster, place.cluster) for span in self.history.absent.get(site, ()))
        if any(begins <= state.at and ends >= since for begins, ends in left):
            return True
        return any(not self._is_wanted(place, sources, at, owner=owner) for at in moments)

    def _is_wanted(self, place: Place, sources: list[State], at: float, *, owner: str) -> bool:
        state = state_at(sources, at)
        source = state and state.object
        if source is None or source["metadata"].get("deletionTimestamp") or owner_of(source):
            return False
        for states in self._rules[place.cluster].values():
            rule = state_at(states, at)
            copy = None if rule is None or rule.object is None else make(source, rule.object, owner=owner)
            if copy is not None and (copy.namespace, copy.name) == place[2:]:
                return True
        return False

    # Numbers.

    def _check_number(self, place: Place, states: list[State]) -> None:
        self.verdict.count("number")
        written = self.history.written.get(place, 0)
        sources = {
            self._source(place, state.object) for state in states if state.object is not None and owner_of(state.object)
        }
        causes = sum(len(self.history.states.get(source, ())) for source in sources if source is not None)
        causes += sum(state.who != DAEMON for state in states) + sum(map(len, self._rules[place.cluster].values()))
        clusters = {place.cluster, *(source.cluster for source in sources if source is not None)}
        causes += 2 * sum(len(self.history.absent.get(name, ())) for name in clusters)  # who left, and came again
        if written > causes:
            words = f"was written {written} times for {causes} causes"
            self.verdict.broken("number", place, words, self.history.lines(place, *filter(None, sources), most=40))


def _may_make(place: Place, source: State, rules: Sequence[Manifest], state: State) -> bool:
    """Whether a write is what one of some rules makes of a state of its source."""
    if source.object is None or source.began > state.at or owner_of(source.object):
        return False
    for rule in rules:
        copy = make(source.object, rule, owner=owner_of(state.object or {}))
        if copy is not None and (copy.namespace, copy.name) == place[2:] and not copy.differs(state.object or {}):
            return True
    return False


def _nearest(sources: Sequence[State], rules: Sequence[Manifest], state: State) -> str:
    for source in reversed(sources):
        for rule in rules:
            copy = make(source.object, rule, owner=owner_of(state.object or {})) if source.object else None
            if copy is not None:
                return f"of the last one, {copy.differs(state.object or {}) or 'another place'}"
    return f"{len(sources)} states, and no rule for any"


def _is_held(before: State | None, manifest: Manifest) -> bool:
    """Whether a write is a deletion for which a finalizer waits: the object is what it was, and marked."""
    was_marked = before is not None and before.object is not None and "deletionTimestamp" in before.object["metadata"]
    return "deletionTimestamp" in manifest["metadata"] and not was_marked


def _lives(states: list[State]) -> Iterator[tuple[State, float]]:
    """Each state, and when another one was asked for in its place."""
    for state, following in itertools.pairwise(states):
        yield state, following.began
    yield from ((state, float("inf")) for state in states[-1:])


def _versions(states: list[State]) -> list[State]:
    """Leave out the states of a rule in which only its status is another one; there are no core rules in the answer."""
    found: list[State] = []
    for state in states:
        if state.object is not None and is_core(state.object):
            continue
        spec = state.object and state.object["spec"]
        if not found or spec != (found[-1].object and found[-1].object["spec"]):
            found.append(state)
    return found
