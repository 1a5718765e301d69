"""The laws of what makes the group: Clusters, their Secrets, and rules that spread. Law: nothing here imports anything
of the daemon.

They are copied byte by byte, by no rule of the workload's, and a Cluster and its Secret belong to the cluster that they
are about, whatever their marks say. So, each time that a daemon changes one that belongs to another cluster: what it
writes was a state of it there, and states come in their order; it is deleted only after it went there, or after that
cluster or this one left, or after people took the Cluster away; and it is written at most once for each cause.
A rule that was made in a cluster is neither changed nor deleted by its daemon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.chaos.history import BINDING, DAEMON, NAMESPACE, UNKNOWN, History, Manifest, Place, State, state_at
from tests.chaos.laws import LATE_S, TAKEN_BACK_S, Verdict
from tests.chaos.making import content_of, is_core, owner_of

LAW = "membership"


def judge_membership(history: History, verdict: Verdict) -> None:
    """Hold these laws over a whole history."""
    judge = _Judge(history, verdict)
    for place, states in history.states.items():
        if judge.is_about(place, states):
            judge.look(place, list(_changes(states)))


class _Judge:
    def __init__(self, history: History, verdict: Verdict) -> None:
        self._history, self._verdict = history, verdict
        self._sites = {cluster_id: name for name, cluster_id in history.ids.items()}
        self._names: dict[str, set[str]] = {name: set() for name in history.ids}
        for place, states in history.states.items():
            if place.kind == "Cluster" and any(_is_of(history.ids[place.cluster], state) for state in states):
                self._names[place.cluster].add(place.name)

    def is_about(self, place: Place, states: Sequence[State]) -> bool:
        """Whether something binds the group, and is not what this cluster says of itself."""
        if place.kind == "ResourceSyncRule":
            return not any(state.object is not None and is_core(state.object) for state in states)
        if place.kind == "Secret" and place.namespace != NAMESPACE:
            return False
        is_own = place.name in self._names[place.cluster]
        return place.kind in ("Cluster", "Secret") and not is_own and bool(self._named_by_others(place))

    def look(self, place: Place, changes: Sequence[State]) -> None:
        reached: dict[Place, int] = {}
        written = self._history.written.get(place, 0)
        causes = sum(change.who != DAEMON for change in changes)
        seen: set[Place] = set()
        before: State | None = None
        for number, change in enumerate(changes):
            sources = self._sources(place, change if change.object is not None else before)
            seen.update(sources)
            if change.who == DAEMON:
                self._verdict.count(LAW)
                if change.object is None:
                    self._check_deletion(place, before, change, sources, changes[number + 1 :])
                elif (native := _made_here(place, before)) is not None:
                    if content_of(change.object) != content_of(native):
                        self._say(place, change, "was made here, and the daemon changed it")
                else:
                    self._check_value(place, change, sources, reached)
            elif change.who != UNKNOWN:
                reached = {}
            before = change
        if place.kind != "ResourceSyncRule":  # others that know it make it known here, too
            seen.update(place._replace(cluster=site) for site in self._names if site != place.cluster)
        causes += sum(len(list(_changes(self._history.states.get(source, ())))) for source in seen)
        for site in {place.cluster, *(source.cluster for source in seen)}:
            causes += 2 * len(self._history.absent.get(site, ()))
        if written > causes:
            self._say(place, changes[-1], f"was written {written} times for {causes} causes", *seen)

    def _sources(self, place: Place, state: State | None) -> list[Place]:
        """Where that is at home: one cluster, or several of one name."""
        if place.kind == "ResourceSyncRule":
            owner = self._sites.get(owner_of(state.object)) if state is not None and state.object is not None else None
            return [place._replace(cluster=owner)] if owner is not None and owner != place.cluster else []
        return self._named_by_others(place)

    def _named_by_others(self, place: Place) -> list[Place]:
        """The same place in each other cluster that calls itself so."""
        return [
            place._replace(cluster=site)
            for site, names in self._names.items()
            if place.name in names and site != place.cluster
        ]

    def _check_value(self, place: Place, change: State, sources: Sequence[Place], reached: dict[Place, int]) -> None:
        assert change.object is not None
        content = content_of(change.object)
        is_older = False
        for source in sources:
            for number, one in enumerate(self._history.states.get(source, ())):
                if one.object is None or one.began > change.at or content_of(one.object) != content:
                    continue
                if number >= reached.get(source, 0):
                    reached[source] = number
                    return
                is_older = True
        words = "goes back to an older state of" if is_older else "was no state of"
        self._say(place, change, f"{words} {' or '.join(map(str, sources)) or 'any member'}", *sources)

    def _check_deletion(
        self, place: Place, before: State | None, change: State, sources: Sequence[Place], later: Sequence[State]
    ) -> None:
        since = before.began if before is not None else 0.0
        if _made_here(place, before) is not None:
            self._say(place, change, "was made here, and the daemon deleted it")
            return
        spans = [
            span for site in {place.cluster, *(one.cluster for one in sources)}
            for span in self._history.absent.get(site, ())
        ]  # fmt: skip
        # Who slept may be told of a membership by others before it hears that it is over, and then of the next one.
        is_back = any(one.object is not None and one.at < change.at + TAKEN_BACK_S for one in later)
        if any(begins <= change.at and (is_back or ends + LATE_S >= since) for begins, ends in spans):
            return
        if any(self._was_gone(source, since, change.at) for source in sources):
            return
        cluster = Place(place.cluster, "Cluster", "", place.name)
        if place.kind == "Secret" and self._was_gone(cluster, since, change.at):
            return
        self._say(place, change, f"was deleted, and all the time {' or '.join(map(str, sources))} was there", *sources)

    def _was_gone(self, place: Place, since: float, until: float) -> bool:
        states = self._history.states.get(place, ())
        found = [state_at(states, since), *(one for one in states if since <= one.began <= until)]
        return any(
            state.object is None or "deletionTimestamp" in state.object["metadata"]
            for state in found
            if state is not None
        )

    def _say(self, place: Place, change: State, words: str, *others: Place) -> None:
        self._verdict.broken(LAW, place, words, self._history.lines(place, *others, around=change.at))


def _is_of(cluster_id: str, state: State) -> bool:
    return state.object is not None and state.object.get("spec", {}).get("clusterID") == cluster_id


def _made_here(place: Place, state: State | None) -> Manifest | None:
    """Return the rule that an object is, where it is nobody's copy."""
    found = state and state.object
    return found if found and place.kind == "ResourceSyncRule" and not owner_of(found) else None


def _changes(states: Sequence[State]) -> Iterator[State]:
    """Those states in which an object comes, goes, or is about something else: not those of its status."""
    last: list[Any] = []
    for state in states:
        info = {} if state.object is None else state.object["metadata"]
        now = [] if state.object is None else [content_of(state.object), info.get("labels"), info.get("annotations")]
        if now != last:
            yield state
        last = now


def strays(objects: Mapping[str, list[Manifest]], ids: Mapping[str, str]) -> list[str]:
    """end: say where a rule or a Cluster is not what it is at its own cluster; `objects` are all of these, by cluster.

    A rule that was made in several clusters is its own in each.
    """
    held = {
        name: {(one["kind"], one["metadata"]["name"]): one for one in found if one["kind"] in BINDING}
        for name, found in objects.items()
    }
    wrong = []
    for home, own in held.items():
        for key, manifest in own.items():
            is_rule = key[0] == "ResourceSyncRule"
            if (owner_of(manifest) or is_core(manifest)) if is_rule else key[1] != home:
                continue
            for name, others in held.items():
                found = others.get(key)
                if found is None:
                    wrong.append(f"{name} has no {' '.join(key)} of {home}")
                elif content_of(found) != content_of(manifest) and (owner_of(found) or not is_rule):
                    wrong.append(f"{name}: {' '.join(key)} is not what it is in {home}")
    sites = {cluster_id: name for name, cluster_id in ids.items()}
    for name, others in held.items():
        for key, manifest in others.items():
            home = sites.get(owner_of(manifest), name)
            if home in held and key not in held[home]:
                wrong.append(f"{name}: {' '.join(key)} is left over")
    return wrong
