"""What a program on the library sees and does, compared with what its members store. The clauses G1 to G7 of the
tally.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.meta import ObjectKey
from registry_controller.group import Event, EventType, Key, Object
from registry_controller.group.dialers import LEAVES_AFTER_S
from tests.sim.checks.convergence import Wrong
from tests.sim.checks.history import History
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.operator import MADE, MADE_IN, RECONCILED, SELECTOR, WATCHED, made_name, writer_of
from tests.sim.cluster.store import Change
from tests.sim.schedule.tally import PROGRAM_STARTS, Tally

_UNAWARE_S: Final = 95.0
"""So long a program may not know that a silent watch tells it nothing more."""
_LABEL, _, _VALUE = SELECTOR.partition("=")


class Known(NamedTuple):
    """What a program knows of an object; `data` is None where it knows its metadata alone."""

    uid: str
    revision: str
    data: Any = None


class _Place(NamedTuple):
    member: str
    key: ObjectKey


class _Owner(NamedTuple):
    cluster: str
    kind: str
    key: ObjectKey
    uid: str


class ProgramLaws:
    """The laws of one program, in the cluster `home`, from its last start on.

    G1: each key converges, and that of a deleted object, too. G2: no event is lost. G3: only what was deleted is gone,
    or what left with its member. G4: a member leaves only after its Cluster was missing for the dwell, or named another
    cluster. G5: a key never runs twice at once. G6: what the program made goes only after its owner went. G7: it goes
    with its owner, and is there while its owner is.
    """

    def __init__(self, home: str, history: History, tally: Tally, broken: list[Wrong]) -> None:
        self._home = home
        self._history = history
        self._tally = tally
        self._broken = broken
        self._views: dict[str, dict[_Place, Known]] = {}
        self._seen: dict[Key, Known | None] = {}
        self._unproven: dict[str, str] = {}
        self._server: ApiServer | None = None

    def see_start(self) -> None:
        """Forget what the last one knew."""
        self._tally.effect(PROGRAM_STARTS)
        self._views = {"": {}, SELECTOR: {}}
        self._seen.clear()
        self._unproven.clear()
        if self._server is not self._history.members[self._home].server:
            self._server = self._history.members[self._home].server
            self._server.store.listeners.append(self._see_change)

    def see_event(self, selector: str, event: Event) -> None:
        """Look at an event, and keep the state that it brings."""
        if event.object is not None:
            place, view = _Place(event.member, event.object.key), self._views[selector]
            if event.type is EventType.DELETED:
                view.pop(place, None)
            else:
                view[place] = _known(event.object)
        if not selector:
            self._check_event(event)

    def see_reconciled(self, key: Key, found: Object | None) -> None:
        """Keep what a key was reconciled with."""
        self._tally.clause("G5")
        self._seen[key] = _known(found) if found is not None else None

    def see_twice(self, key: Key) -> None:
        """Note a key that runs twice."""
        self._break("G5", str(key), "is reconciled twice at once")

    def check_rest(self) -> Iterator[Wrong]:
        """Compare all that the program knows with what is stored, once nothing has changed for long."""
        stored = {_Place(name, key): found for name, key, found in self._stored(WATCHED)}
        for selector, view in self._views.items():
            chosen = {place: found for place, found in stored.items() if not selector or _is_selected(found)}
            for place in dict.fromkeys((*chosen, *view)):
                self._tally.clause("G2")
                yield from _compare("G2", f"{WATCHED} {place}", view.get(place), chosen.get(place))
        keys = {Key(name, *key): found for name, key, found in self._stored(RECONCILED)}
        for key in dict.fromkeys((*keys, *self._seen)):
            self._tally.clause("G1")
            yield from _compare("G1", f"{RECONCILED} {key}", self._seen.get(key), keys.get(key))
        for member, words in self._unproven.items():
            yield Wrong("G3", member, words)
        yield from self._check_made(keys)

    def _check_made(self, keys: Mapping[Key, Manifest]) -> Iterator[Wrong]:
        """Compare what the program made with its owners."""
        world = self._history.world()
        made = world.all(self._home, MADE)
        uids = {world.id_of(name): name for name in world.names}
        for place, found in made.items():
            owner = self._owner_of(found)
            if owner is not None and owner.cluster in uids:
                self._tally.clause("G7")
                there = world.all(uids[owner.cluster], owner.kind).get(owner.key)
                if there is None or there["metadata"]["uid"] != owner.uid:
                    yield Wrong("G7", f"{MADE} {place}", f"is there, and its owner {owner} is gone")
        for key, there in keys.items():
            held = made.get(ObjectKey(MADE_IN, made_name(key)))
            owner = self._owner_of(held) if held is not None else None
            if owner is None or owner.uid != there["metadata"]["uid"]:
                yield Wrong("G7", f"{RECONCILED} {key}", f"is there, and its {MADE} is owned by {owner}")

    def _see_change(self, change: Change) -> None:
        """Look at a change of the program at home: it deletes, and releases, only what had an owner that is gone."""
        server, before = self._history.members[self._home].server, change.before
        if change.kind.kind != MADE or before is None or server.acting != writer_of(self._home):
            return
        owner = self._owner_of(before)
        if change.new is not None and (owner is None or self._owner_of(change.new) is not None):
            return
        self._tally.clause("G6")
        where = f"{MADE} {change.key}"
        if owner is None:
            self._break("G6", where, "is deleted, and the program did not make it")
        elif not self._was_owner_gone(owner):
            self._break("G6", where, f"is deleted, or released, and its owner {owner} is there")

    def _owner_of(self, made: Manifest) -> _Owner | None:
        """Read the mark of an object, which names the object, too; None where it has none of its own."""
        info = made["metadata"]
        mark = json.loads((info.get("annotations") or {}).get(meta.GROUP_OWNER, "null"))
        names = {"kind": MADE, "group": "batch", "namespace": MADE_IN, "name": info["name"]}
        if mark is None or mark["dependent"] != {**names, "cluster": self._history.ids[self._home]}:
            return None
        owner = mark["owner"]
        return _Owner(owner["cluster"], owner["kind"], ObjectKey(owner["namespace"], owner["name"]), owner["uid"])

    def _was_owner_gone(self, owner: _Owner) -> bool:
        """Say whether an owner was gone at some time at which the program may have asked."""
        since_s = asyncio.get_running_loop().time() - _UNAWARE_S
        names = [name for name, found in self._history.ids.items() if found == owner.cluster]
        states = (
            state for name in names for state in self._history.states_since(name, owner.kind, owner.key, at=since_s)
        )
        return any(state is None or state["metadata"]["uid"] != owner.uid for state in states)

    def _stored(self, kind: str) -> Iterator[tuple[str, ObjectKey, Manifest]]:
        world = self._history.world()
        return ((name, key, found) for name in world.names for key, found in world.all(name, kind).items())

    def _check_event(self, event: Event) -> None:
        member = event.member
        if event.type is EventType.DELETED and event.object is not None:
            self._tally.clause("G3")
            if not self._was_gone(member, event.object):
                self._unproven[member] = f"{WATCHED} {event.object.key} is DELETED, and was never gone"
        elif event.type is EventType.LEFT:
            self._tally.clause("G4")
            self._unproven.pop(member, None)
            if not self._may_have_left(member):
                self._break("G4", member, "has LEFT, and its Cluster was there")
        elif words := self._unproven.pop(member, ""):
            self._break("G3", member, words)

    def _was_gone(self, member: str, obj: Object) -> bool:
        """Say whether an object was missing at some time after it was there."""
        uids = [
            state.manifest["metadata"]["uid"] if state.manifest is not None else ""
            for state in self._history.states(member, WATCHED, obj.key)
        ]
        return obj.uid not in uids or any(uid != obj.uid for uid in uids[uids.index(obj.uid) :])

    def _may_have_left(self, member: str) -> bool:
        """Say whether a member was no member at home for as long as it takes, as far as a program could know."""
        now_s = asyncio.get_running_loop().time()
        until_s = now_s - LEAVES_AFTER_S
        found = list(self._history.states_since(self._home, "Cluster", ObjectKey("", member), at=now_s - _UNAWARE_S))
        ids = {state["spec"].get("clusterID") for state in found if state is not None}
        before = self._states_until(member, until_s)
        return len(ids) > 1 or not all(self._is_member(member, at_s) for at_s in before)

    def _states_until(self, member: str, until_s: float) -> Iterator[float]:
        """List the moments at which something changed about the Clusters at home, up to a moment."""
        begin_s = until_s - _UNAWARE_S
        yield begin_s
        yield until_s
        for key in self._history.keys(self._home, "Cluster"):
            for state in self._history.states(self._home, "Cluster", key):
                if begin_s <= state.at <= until_s:
                    yield state.at

    def _is_member(self, name: str, at_s: float) -> bool:
        """Say whether a Cluster described a member at a moment: not one that is disabled, or another name of one."""
        there = {
            key.name: found
            for key in self._history.keys(self._home, "Cluster")
            if (found := self._at(key, at_s)) is not None
        }
        own = there.get(name)
        if own is None or meta.CLUSTER_DISABLED in (own["metadata"].get("annotations") or {}):
            return False
        cluster_id = own["spec"].get("clusterID")
        return not any(found["spec"].get("clusterID") == cluster_id for other, found in there.items() if other != name)

    def _at(self, key: ObjectKey, at_s: float) -> Manifest | None:
        states = [state for state in self._history.states(self._home, "Cluster", key) if state.at <= at_s]
        return states[-1].manifest if states else None

    def _break(self, clause: str, where: str, words: str) -> None:
        self._broken.append(Wrong(clause, where, words))


def _known(obj: Object) -> Known:
    return Known(obj.uid, str(obj.revision), _data(obj.manifest) if obj.has_body else None)


def _data(manifest: Manifest) -> Any:
    return manifest.get("data") or manifest.get("spec") or {}


def _is_selected(found: Manifest) -> bool:
    return (found["metadata"].get("labels") or {}).get(_LABEL) == _VALUE


def _compare(clause: str, where: str, known: Known | None, stored: Manifest | None) -> Iterator[Wrong]:
    info = (stored or {}).get("metadata") or {}
    wanted = Known(info["uid"], info["resourceVersion"], _data(stored)) if stored is not None else None
    if wanted is not None and known is not None and known.data is None:
        wanted = wanted._replace(data=None)
    if known != wanted:
        yield Wrong(clause, where, f"a program knows {known}, and stored is {wanted}")
