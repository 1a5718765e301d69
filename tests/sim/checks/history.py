"""Everything that was ever stored in a group of simulated clusters, and the group as it was at any moment."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from registry_controller.api.meta import ObjectKey
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.habits import Habits
from tests.sim.cluster.kinds import BY_KIND, Kind
from tests.sim.cluster.member import Member
from tests.sim.cluster.store import Change

UNNOTICED_S: Final = 0.5
"""What was there for as long as that may have passed unnoticed."""


class Entry(NamedTuple):
    """A change, and who made it: a daemon, by its cluster's name, or somebody else (empty)."""

    at: float
    cluster: str
    who: str
    change: Change


class State(NamedTuple):
    """What an object was from a moment on; None: it was not there."""

    at: float
    manifest: Manifest | None


class Rebuild(NamedTuple):
    """Up to so many entries a cluster was another one, which is called `former` now."""

    count: int
    at: float
    cluster: str
    former: str
    id: str


class History:
    """The changes of all clusters, in order, and every state of every object.

    What a cluster was before it was built anew has a name of its own: `ids` has all of them, `members` those of now.
    `lost_rules` are those that went with their definition or by a restore, each with the cluster that it was made in
    and its uid: nobody deleted them. `restored_s` has the moments at which a cluster's store was restored.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = {member.name: member for member in members}
        self.ids = {member.name: str(member.id) for member in members}
        self.entries: list[Entry] = []
        self.rebuilds: list[Rebuild] = []
        self.lost_rules: set[tuple[str, str]] = set()
        self.restored_s = defaultdict[str, list[float]](list)
        self._states: dict[tuple[str, str, ObjectKey], list[State]] = {}
        self._made_s: dict[tuple[str, str, ObjectKey], float] = {}
        for member in members:
            for kind, key, found in _objects(member.server):
                self._states[member.name, kind.kind, key] = [State(0.0, found)]

    def rebuilt(self, name: str, before: ApiServer, *, at: float) -> None:
        """Note that a cluster is another one now: what there was is of the past, and nobody has deleted it."""
        member = self.members[name]
        former = f"{name} {len(self.ids)}"
        self.rebuilds.append(Rebuild(len(self.entries), at, name, former, before.uid))
        self.ids |= {former: before.uid, name: str(member.id)}
        for place in [held for held in self._states if held[0] == name]:
            self._states[(former, *place[1:])] = self._states.pop(place)
        for kind, key, found in _objects(before):
            self.entries.append(Entry(at, name, "", Change(0, kind, key, found, None, found)))
        for kind, key, found in _objects(member.server):
            self.add(Entry(at, name, "", Change(0, kind, key, None, found, None)))

    def restored(self, member: Member, restore: Callable[[], None], *, at: float) -> None:
        """Note what the restore of a cluster's store changes."""
        self.restored_s[member.name].append(at)
        before = {(kind, key): found for kind, key, found in _objects(member.server)}
        restore()
        after = {(kind, key): found for kind, key, found in _objects(member.server)}
        for kind, key in dict.fromkeys((*before, *after)):
            old, new = before.get((kind, key)), after.get((kind, key))
            if old is not new:
                if old is not None and new is None and kind.kind == "ResourceSyncRule":
                    self.see_rules_lost(member.name, [old])
                self.add(Entry(at, member.name, "", Change(0, kind, key, old, new, old)))

    def see_rules_lost(self, cluster: str, rules: Iterable[Manifest]) -> None:
        """Note that rules of a cluster go, and that nobody deletes them."""
        self.lost_rules |= {(cluster, found["metadata"]["uid"]) for found in rules}

    def add(self, entry: Entry) -> None:
        """Note a change."""
        self.entries.append(entry)
        change, place = entry.change, (entry.cluster, entry.change.kind.kind, entry.change.key)
        self._states.setdefault(place, [State(0.0, None)]).append(State(entry.at, change.new))
        if change.before is None:
            self._made_s[place] = entry.at if entry.who == entry.cluster else 0.0

    def states(self, cluster: str, kind: str, key: ObjectKey) -> Sequence[State]:
        """List an object's states."""
        return self._states.get((cluster, kind, key)) or (State(0.0, None),)

    def keys(self, cluster: str, kind: str) -> Iterator[ObjectKey]:
        """List the keys that objects of a kind ever had."""
        return (key for where, of, key in list(self._states) if (where, of) == (cluster, kind))

    def away_s(self, cluster: str, kind: str, key: ObjectKey, *, since: float, until: float) -> float:
        """Return for how many seconds of a time an object was missing that was there before."""
        known = itertools.dropwhile(lambda state: state.manifest is None, self.states(cluster, kind, key))
        states = [state for state in known if state.at < until]
        ends = [*(state.at for state in states[1:]), until]
        gone = [(state.at, end) for state, end in zip(states, ends, strict=True) if state.manifest is None]
        return sum(max(0.0, end - max(since, at)) for at, end in gone)

    def states_since(self, cluster: str, kind: str, key: ObjectKey, *, at: float) -> Iterator[Manifest | None]:
        """List what an object was at some time from a moment on, the last first."""
        for state in reversed(self.states(cluster, kind, key)):
            yield state.manifest
            if state.at <= at:
                return

    def shown_since(self, cluster: str, kind: str, key: ObjectKey, *, at: float) -> Iterator[Manifest | None]:
        """List what `states_since` lists, but for what a restore has undone before a watch may have shown it."""
        states, undone = self.states(cluster, kind, key), self.restored_s[cluster]
        ends = [*(state.at for state in states[1:]), math.inf]
        for state, end in reversed(list(zip(states, ends, strict=True))):
            if not (end in undone and end - state.at <= UNNOTICED_S):
                yield state.manifest
            if state.at <= at:
                return

    def made_at(self, cluster: str, kind: str, key: ObjectKey) -> float:
        """Tell when a cluster's daemon made the object that was there last; the beginning, if somebody else did."""
        return self._made_s.get((cluster, kind, key), 0.0)

    def revised_at(self, cluster: str, kind: str, key: ObjectKey, *, revision: str) -> float:
        """Tell when an object became what it was at a resourceVersion; the beginning, where it never was."""
        for state in self.states(cluster, kind, key):
            if state.manifest is not None and state.manifest["metadata"]["resourceVersion"] == revision:
                return state.at
        return 0.0

    def called(self, cluster: str) -> str:
        """Tell the name by which a cluster is, or was, known to others."""
        return cluster.partition(" ")[0]

    def world(self) -> Now:
        """Look at the group as it is."""
        return Now(self)

    def world_before(self, count: int) -> Past:
        """Look at the group as it was before the last `count` changes."""
        return Past(self, self.entries[len(self.entries) - count :])

    def world_where(self, cluster: str, kind: str, key: ObjectKey, found: Manifest | None) -> Past:
        """Look at the group as it is, but with one object as somebody there may still know it."""
        now = Now(self).all(cluster, kind)
        known = {held: manifest for held, manifest in now.items() if held != key} | ({key: found} if found else {})
        return Past(self, (), {(cluster, kind): known})

    def world_as_if(self, rebuild: Rebuild) -> Past:
        """Look at the group as it is, but with a cluster as it was when it was built anew."""
        made: dict[tuple[str, str], dict[ObjectKey, Manifest]] = {(rebuild.cluster, kind): {} for kind in BY_KIND}
        for (where, kind, key), states in self._states.items():
            found = states[-1].manifest
            if where == rebuild.former and found is not None:
                made[rebuild.cluster, kind][key] = found
        return Past(self, (), made, ids={rebuild.cluster: rebuild.id})


def _objects(server: ApiServer) -> Iterator[tuple[Kind, ObjectKey, Manifest]]:
    return ((kind, key, found) for kind in BY_KIND.values() for key, found in server.store.all(kind).items())


class Now:
    """The group as it is."""

    def __init__(self, history: History) -> None:
        self.names = list(history.members)
        self._history = history
        self._members = history.members
        self._ids = {name: history.ids[name] for name in history.members}

    def id_of(self, cluster: str) -> str:
        """Tell a cluster's ID."""
        return self._ids[cluster]

    def option(self, cluster: str, name: str) -> str:
        """Tell an option of a cluster's daemon; empty where it has none."""
        return self._members[cluster].options.get(name, "")

    def habits(self, cluster: str) -> Habits:
        """Tell what a cluster's API server makes of objects."""
        return self._members[cluster].server.habits

    def is_lost(self, cluster: str, rule_uid: str) -> bool:
        """Say whether a rule of a cluster is gone, and nobody deleted it."""
        return (cluster, rule_uid) in self._history.lost_rules

    def heard(self, cluster: str, kind: str, key: ObjectKey) -> Iterator[Manifest]:
        """List what an object was while the daemon of its cluster runs that runs now, the last first."""
        states = self._history.states_since(cluster, kind, key, at=self._members[cluster].started_s)
        return (found for found in states if found is not None)

    def formerly(self, cluster: str, kind: str, key: ObjectKey) -> Iterator[Manifest]:
        """Tell what an object was, beginning with the last state."""
        states = reversed(self._history.states(cluster, kind, key))
        return (state.manifest for state in states if state.manifest is not None)

    def came_back(self, cluster: str, kind: str, key: ObjectKey) -> bool:
        """Say whether an object was there, and then was not, and is there again."""
        states = [state.manifest is not None for state in self._history.states(cluster, kind, key)]
        return False in states[states.index(True) :] if True in states else False

    def all(self, cluster: str, kind: str) -> Mapping[ObjectKey, Manifest]:
        """List the objects of a kind."""
        return self._members[cluster].server.store.all(BY_KIND[kind])


class Past(Now):
    """The group as it was before some changes, or but for some objects."""

    def __init__(
        self,
        history: History,
        undone: Sequence[Entry],
        made: Mapping[tuple[str, str], dict[ObjectKey, Manifest]] | None = None,
        *,
        ids: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(history)
        self._ids |= ids or {}
        self._made = dict(made or {})
        for rebuild in reversed(history.rebuilds):
            if rebuild.count >= len(history.entries) - len(undone):
                self._ids[rebuild.cluster] = rebuild.id
        for entry in reversed(undone):
            place = entry.cluster, entry.change.kind.kind
            if place not in self._made:
                self._made[place] = dict(super().all(*place))
            self._made[place].pop(entry.change.key, None)
            if entry.change.before is not None:
                self._made[place][entry.change.key] = entry.change.before

    def all(self, cluster: str, kind: str) -> Mapping[ObjectKey, Manifest]:
        """List the objects of a kind."""
        made = self._made.get((cluster, kind))
        return super().all(cluster, kind) if made is None else made
