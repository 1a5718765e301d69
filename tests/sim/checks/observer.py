"""What must hold at every moment, whatever happens: read from the API servers' histories while a schedule runs.

A value written here was some state of its owner, in the owner's order · a delete followed the owner's delete or an
admin's change of a rule · no native object was changed · peers saw nothing but get, list and watch · what is secret is
nowhere but in the data of Secrets · nothing is written that says nothing new.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from registry_controller.api import meta, names
from registry_controller.api.deleted_rules import read_deleted_rules
from registry_controller.api.meta import ObjectKey
from registry_controller.core.decision.decision import Reason
from tests.sim.checks.convergence import Wrong
from tests.sim.checks.expected_copies import (
    Marks,
    Place,
    Rule,
    content_of,
    is_membership,
    is_of_later_version,
    key_of,
    make_copy,
    marks_of,
    names_cluster,
    stored_forms,
)
from tests.sim.checks.history import UNNOTICED_S, Entry, History
from tests.sim.checks.invariants import Guards
from tests.sim.checks.later_versions import LaterVersions
from tests.sim.checks.lost_definitions import LostDefinitions
from tests.sim.checks.oracle import Claim, Fate, Oracle, World
from tests.sim.checks.remaining_content import RemainingContent
from tests.sim.checks.repeated_deletions import RepeatedDeletions
from tests.sim.checks.unneeded_writes import UnneededWrites
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.group import SimGroup
from tests.sim.cluster.habits import Habits
from tests.sim.cluster.member import NAMESPACE, READER, Member
from tests.sim.cluster.operator import writer_of
from tests.sim.cluster.request import Answer
from tests.sim.cluster.store import Change
from tests.sim.schedule.tally import Tally
from tests.sim.schedule.vocabulary import CANARY, EVIL, INSTANCE, NEWER, TRACKED_BY, TRACKED_IN, WRITTEN

_RULES_ARE_DEFINED = ("CustomResourceDefinition", ObjectKey("", f"{meta.RULES.resource}.{meta.GROUP}"))
WINDOW_S = 62.0
"""How old what a daemon goes by may be: a hung request gives up after 30 s, and a silent peer counts as gone then."""
ABSENCE_S = 600.0
"""For how long a member's own Cluster is missing when that is a departure: the default of the option."""
STABILIZATION_S = 30.0
"""For how long what a rule selects by may be missing, and no copy goes: the default of the option."""
_PATIENT = ("configmaps", "widgets", "gadgets", "regions")
_SECRET_TEXTS = (CANARY.encode(), base64.b64encode(CANARY.encode())[:9])
_STATUSES, _STATUSES_S = 4, 1.45
"""So many writes of one status, at most one a second, take so long at least, on ways that take up to 1.5 s."""


class Observer:
    """The invariants, on one group."""

    def __init__(self, group: SimGroup, tally: Tally) -> None:
        self.history = History(group.members)
        self._group = group
        self.broken: list[Wrong] = []
        self.trace: list[tuple[float, str]] = []
        self._tally = tally
        self._newest: dict[tuple[str, Place, str, str], tuple[int, str]] = {}
        """The last state of its source that a copy had, and its revision; by cluster, place, and owner and UID."""
        self._said_at: dict[tuple[str, int, str, ObjectKey], deque[float]] = {}
        self._patient_until_s: dict[tuple[str, int, str], float] = {}
        self._guards = Guards(tally, self._break, is_order=self._is_order)
        self.definitions = LostDefinitions(self.history, tally, self._break, is_order=self._is_order)
        self._repeated = RepeatedDeletions(self.history, tally, self._break, is_order=self._is_order)
        self._later = LaterVersions(self.history, tally, self._break)
        self._unneeded = UnneededWrites(self.history, self._break)
        self._content = RemainingContent(self.history, tally, self._break)
        for member in group.members:
            self._listen(member)
            for server in group.members:
                told = functools.partial(self._see_answer, who=member, at=server)
                group.wire(member.name, server.name).listeners.append(told)

    def say(self, words: str) -> None:
        """Add a line to the trace."""
        self.trace.append((asyncio.get_running_loop().time(), words))

    def oracle(self) -> Oracle:
        """Make an oracle on the group as it is."""
        return Oracle(self.history.world())

    def check_journals(self) -> None:
        """Check who asked for what to be written, whether or not it was."""
        for member in self.history.members.values():
            self._check_journal(member.server, member.name)

    def see_rebuilt(self, member: Member, before: ApiServer) -> None:
        """Hear that a cluster is another one now."""
        self._check_journal(before, member.name)
        self.history.rebuilt(member.name, before, at=asyncio.get_running_loop().time())
        self._listen(member)

    def see_restored(self, member: Member, restore: Callable[[], None]) -> None:
        """Look at the restore of a cluster: what it changes, nobody has written, and its copies were never newer."""
        self.history.restored(member, restore, at=asyncio.get_running_loop().time())
        self._newest = {place: known for place, known in self._newest.items() if place[0] != member.name}
        self.say(f"the etcd of {member.name} is restored")

    def _check_journal(self, server: ApiServer, name: str) -> None:
        self._tally.clauses["R5"] += len(server.journal)
        for write in server.journal:
            if write.who not in (name, writer_of(name)):
                self._break("R5", f"{write.verb} {write.kind} {write.key} at {name} by {write.who}", "a write")
            if write.is_blind:
                self._break("O5", f"{write.kind} {write.key} at {name}", "a deletion of whatever has the name")
        self._unneeded.check(server, name)

    def _listen(self, member: Member) -> None:
        def hear(change: Change) -> None:
            who = member.server.acting if member.server.acting in self.history.members else ""
            entry = Entry(asyncio.get_running_loop().time(), member.name, who, change)
            self.history.add(entry)
            self._repeated.see(entry, member)
            self.definitions.see(entry, member)
            if change.kind.kind != "Event":
                self.say(f"{entry.who or '-'}: {_describe(entry)}")
            if entry.who:
                self._check(entry, member)

        member.server.store.listeners.insert(0, hear)
        server, answer = member.server, member.server.answer

        def answer_and_look(method: str, path: str, body: bytes | None, *, who: str, accept: str = "") -> Answer:
            if method != "GET":
                self._check_patience(member, _named(path, body))
            before = len(server.journal)
            answered = answer(method, path, body, who=who, accept=accept)
            if len(server.journal) > before:
                self._unneeded.see_write(path, body, server, at=member)
            return answered

        server.answer = answer_and_look  # type: ignore[method-assign]

    def _check_patience(self, member: Member, what: str) -> None:
        """Look whether a server that asked for patience is left alone for so long, for that object (A4)."""
        place, now_s = (member.name, member.starts, what), asyncio.get_running_loop().time()
        if now_s < self._patient_until_s.get(place, 0.0):
            self._break("A4", what, "is written before its server wants to be asked again")

    def _see_answer(
        self, method: str, path: str, body: bytes | None, answer: Answer, *, who: Member, at: Member
    ) -> None:
        """Look at an answer that has come back to a daemon. What was lost on its way, the daemon need not obey."""
        self.definitions.see_answer(at, path, answer.status, who=who)
        self._unneeded.see_answer(method, path, body, answer, who=who, at=at)
        if method == "GET" or answer.status != 429:
            return
        what = _named(path, body)
        if any(f"/{kind}/" in what for kind in _PATIENT):
            self._tally.clause("A4")
            wait_s = orjson.loads(answer.body)["details"]["retryAfterSeconds"]
            self._patient_until_s[who.name, who.starts, what] = asyncio.get_running_loop().time() + wait_s

    def _break(self, clause: str, where: str, words: str) -> None:
        self.broken.append(Wrong(clause, where, words))
        self.say(f"BROKEN {clause}: {where}: {words}")

    def _check(self, entry: Entry, member: Member) -> None:
        change = entry.change
        where = f"{change.kind.kind} {change.key} at {entry.cluster}"
        if change.new is not None:
            self._check_secrecy(change.new, where)
        if change.kind.kind == "Event":
            return
        self._guards.see(entry, member, where)
        self._later.see(entry, where)
        self._check_lost_rules(entry, where)
        if change.before is not None:
            self._check_native(entry, change.before, where)
        if change.new is None or _is_going(change.new) > _is_going(change.before):
            self._check_deletion(entry, change.before, where)
            self._content.see_deletion(entry, where)
            return
        if change.before is not None and _same_but_status(change.before, change.new):
            self._check_status(entry, change.new, member, where)
            return
        if is_membership(change.new):
            self._check_way(entry, change.before, change.new, where)
            if change.new["kind"] == "Secret" and change.before is None:
                self._check_named(entry, change.new, where)
        elif change.kind.kind in WRITTEN and not _is_core(change.new):
            self._check_value(entry, change.new, where)

    def _check_way(self, entry: Entry, before: Manifest | None, new: Manifest, where: str) -> None:
        """Look whether a member that was Ready here is to be reached where a forger says."""
        key = ObjectKey("", new["metadata"]["name"])
        states = [
            state.manifest for state in self.history.states(entry.cluster, "Cluster", key) if state.at <= entry.at
        ]
        if before is None or not states or not ((states[-1] or {}).get("status") or {}).get("version"):
            return
        self._tally.clause("O4")
        if _is_forged(new) and not _is_forged(before):
            self._break("O4", where, "leads to an address that its owner never had")

    def _check_named(self, entry: Entry, new: Manifest, where: str) -> None:
        """Look whether credentials that come are named by a Cluster here, or come from their member itself."""
        owner, key = self._name(marks_of(new).owner), entry.change.key
        if not owner or owner not in self.history.members or owner == entry.cluster:
            return
        self._tally.clause("O4")
        had_it = any(found is not None for found in self._lately(entry, owner, "Secret", key))
        if not had_it and not self._was_named(entry, key):
            self._break("O4", where, f"came from a relay, and no Cluster here names it; {owner} does not have it")

    def _was_named(self, entry: Entry, secret: ObjectKey) -> bool:
        """Say whether a Cluster here named a Secret of late."""
        found = [
            one
            for key in self.history.keys(entry.cluster, "Cluster")
            for one in self.history.states_since(entry.cluster, "Cluster", key, at=self._known_since(entry))
            if one is not None
        ]
        return secret.name in [
            ((one["spec"].get("authInfo") or {}).get("secretRef") or {}).get("name") for one in found
        ]

    def _check_secrecy(self, new: Manifest, where: str) -> None:
        self._tally.clause("A6")
        shown = {name: value for name, value in new.items() if name != "data"} if new["kind"] == "Secret" else new
        text = orjson.dumps(shown)
        if any(secret in text for secret in _SECRET_TEXTS):
            self._break("A6", where, "shows what is in a Secret")

    def _check_native(self, entry: Entry, before: Manifest, where: str) -> None:
        self._tally.clause("O1")
        local, new = self._id(entry.cluster), entry.change.new
        marks = marks_of(before)
        if marks.owner not in ("", local):
            self._check_binding(entry, marks, where)
            return
        self._tally.clauses["O11"] += marks.were_passed_on
        if new is not None and new["kind"] in ("Cluster", "ResourceSyncRule") and _same_but_status(before, new):
            return
        if new is not None and new["kind"] == "Cluster" and _same_but_version(before, new):
            self._tally.clause("A11")
            return
        if not _is_ours_to_keep(before, cluster=entry.cluster, local=local):
            self._break("O1", where, "is a native object, and was changed or deleted")

    def _check_binding(self, entry: Entry, marks: Marks, where: str) -> None:
        """Look whether a mark that is not bound here is taken over by its owner, and is left otherwise."""
        new, is_member = entry.change.new, bool(self._name(marks.owner))
        if marks.is_bound_in(self._id(entry.cluster)):
            self._tally.clauses["O9"] += not is_member
            return
        self._tally.clause("O11")
        is_gone = new is None or _is_going(new)
        if entry.change.kind.kind not in WRITTEN or is_membership(entry.change.before or {"kind": ""}):
            return
        if not is_member or (is_gone and marks.is_named):
            self._break("O11", where, "was changed or deleted, and its mark is not about it, or is of another cluster")

    def _check_status(self, entry: Entry, new: Manifest, member: Member, where: str) -> None:
        change = entry.change
        if change.kind.kind not in WRITTEN or change.kind.kind == "ResourceSyncRule":
            self._tally.clause("S2")
            place = (entry.cluster, member.starts, change.kind.kind, change.key)
            most = _STATUSES * (1 + member.has_pods)  # one of two daemons may write just after the other one
            said_at = self._said_at.setdefault(place, deque(maxlen=most))
            if entry.at - member.home.unhung_s < _STATUSES_S:
                said_at.clear()  # writes that the daemon gave up long ago are done now, too
            said_at.append(entry.at)
            if len(said_at) == most and said_at[-1] - said_at[0] < _STATUSES_S:
                self._break("S2", where, "its status is written more than once a second")
            self._count_conflicts(new)
            return
        self._tally.clause("W6")
        source = marks_of(new).provenance.get("source") or {}
        owner = self._name(marks_of(new).owner)
        states = self.history.states(owner, source.get("kind", ""), _source_key(source)) if source else ()
        if not any((state.manifest or {}).get("status", {}) == new.get("status", {}) for state in states):
            self._break("W6", where, "has a status that its source never had")

    def _count_conflicts(self, new: Manifest) -> None:
        for one in (new.get("status") or {}).get("clusters") or ():
            if one.get("conflicting"):
                self._tally.reasons[Reason.CONFLICT.value] += 1

    # Values.

    def _check_value(self, entry: Entry, new: Manifest, where: str) -> None:
        self._tally.clause("O3")
        marks = marks_of(new)
        owner = self._name(marks.owner)
        if marks.owner in ("", self._id(entry.cluster)):
            if new["kind"] != "Namespace" or entry.change.before is not None:
                self._break("O3", where, "was written without saying whose it is")
            return
        if not owner or not marks.provenance:
            self._break("O3", where, f"names no member as its owner, or no source: {marks}")
            return
        source = marks.provenance["source"]
        state = self._find_state(owner, source)
        if state is None:
            self._break("O3", where, f"{owner} never had {source}")
            return
        self._check_tracking(entry, new, where)
        wrong = self._differs(entry, new, state, owner=owner, marks=marks)
        if wrong and not self._is_pruned(entry, new):
            self._break("O3", where, wrong)
        self._check_order(entry, where, owner=owner, source=source)
        self._check_need(entry, where)

    def _is_pruned(self, entry: Entry, new: Manifest) -> bool:
        """Say whether a rule's copy lost a field in an older definition, and is known by its digest to have."""
        unknown = self.history.members[entry.cluster].server.store.unknown
        return bool(unknown) and new["kind"] == "ResourceSyncRule" and Rule(new, ("", "", "")).is_altered

    def _check_tracking(self, entry: Entry, new: Manifest, where: str) -> None:
        """W6: the marks of tools that applied the source stay with it; a rule may set one."""
        before = (entry.change.before or {}).get("metadata") or {}
        for field, tracked in (("labels", TRACKED_BY), ("annotations", TRACKED_IN)):
            held, found = before.get(field) or {}, new["metadata"].get(field) or {}
            for name, text in tracked.items():
                is_pods_own = new["kind"] == "Pod" and name == INSTANCE
                if found.get(name) == text and held.get(name) != text and not is_pods_own:
                    self._break("W6", where, f"has {name}, by which a tool knows its source")

    def _find_state(self, owner: str, source: dict[str, Any]) -> Manifest | None:
        states = self.history.states(owner, source["kind"], _source_key(source))
        return next((state.manifest for state in reversed(states) if _is_state(state.manifest, source)), None)

    def _differs(self, entry: Entry, new: Manifest, state: Manifest, *, owner: str, marks: Marks) -> str:
        if marks_of(state).owner not in ("", marks.owner):
            return f"{owner} holds it for somebody else"
        said = f"was made by rule {marks.provenance['rule']}, which is not here"
        for rule in self._rules(entry, marks.provenance["rule"]):
            if rule.is_altered or NEWER in rule.spec:
                self._tally.clause("A8")
                continue
            if rule.kind != state["kind"] or not rule.matching(state):
                said = said if "differs" in said else "was made by a rule that does not match its source"
                continue
            if not self._names(entry, rule, state):
                said = said if "differs" in said else "was made of a source that does not name this cluster"
                continue
            for called in (self.history.called(owner), *self._other_names(entry, owner)):
                copy = make_copy(state, rule, owner=called, owner_id=marks.owner, local=entry.cluster)
                if copy is None or copy.place != Place(new["kind"], key_of(new)):
                    continue
                forms = stored_forms(dataclasses.replace(copy, status=None), self._habits(entry), new)
                wrong = [form.differs(new) for form in forms]
                if not all(wrong):
                    return ""
                said = f"differs from {owner}'s: {wrong[0]}"
        return said

    def _names(self, entry: Entry, rule: Rule, state: Manifest) -> bool:
        """Say whether a source named this cluster, as its Cluster was of late, where the rule asks for that (W9)."""
        if not rule.asks_for_names:
            return True
        self._tally.clause("W9")
        key = ObjectKey("", entry.cluster)
        own = self.history.states_since(entry.cluster, "Cluster", key, at=self._known_since(entry))
        return any(
            names_cluster(state, entry.cluster, one["metadata"].get("labels") or {}) for one in own if one is not None
        )

    def _other_names(self, entry: Entry, owner: str) -> Iterator[str]:
        """List the names of an owner's other Clusters here, where the usual one was missing since the daemon started.

        Of more Clusters of one ID than are taken, the usual one may not be here.
        """
        began_s, usual = self.history.members[entry.cluster].started_s, ObjectKey("", self.history.called(owner))
        if all(self.history.states_since(entry.cluster, "Cluster", usual, at=began_s)):
            return
        for key in list(self.history.keys(entry.cluster, "Cluster")):
            found = self.history.states_since(entry.cluster, "Cluster", key, at=began_s)
            if key != usual and any(one is not None and one["spec"]["clusterID"] == self._id(owner) for one in found):
                self._tally.clause("P1")
                yield key.name

    def _is_named_otherwise(self, entry: Entry, before: Manifest) -> bool:
        """Say whether a copy is at another place here, which its rule makes of another name of its owner."""
        provenance, world = marks_of(before).provenance, self.history.world()
        source, owner = provenance.get("source"), self._name(marks_of(before).owner)
        state = world.all(owner, source["kind"]).get(_source_key(source)) if source and owner in world.names else None
        if state is None:
            return False
        for called in self._other_names(entry, owner):
            for rule in self._rules(entry, provenance["rule"]):
                if rule.kind != state["kind"] or not rule.matching(state):
                    continue
                copy = make_copy(state, rule, owner=called, owner_id=self._id(owner), local=entry.cluster)
                here = world.all(entry.cluster, copy.place.kind).get(copy.place.key) if copy is not None else None
                if here is not None and copy is not None and copy.place != Place(before["kind"], key_of(before)):
                    return marks_of(here).owner == self._id(owner)
        return False

    def _rules(self, entry: Entry, name: str) -> Iterator[Rule]:
        """List what a rule was here at some time of late; while no rule can be read here, none is missing."""
        if name.startswith("cluster-registry-core"):
            yield next(rule for rule in self.oracle().rules(entry.cluster) if rule.name == name)
            return
        key, since_s = ObjectKey("", name), self._known_since(entry)
        since_s -= self.history.away_s(entry.cluster, *_RULES_ARE_DEFINED, since=since_s, until=entry.at)
        for found in self.history.states_since(entry.cluster, "ResourceSyncRule", key, at=since_s):
            if found is not None:
                yield (rule := Rule(found, ("", "", "")))
                yield from self._as_written(entry, rule)

    def _as_written(self, entry: Entry, rule: Rule) -> Iterator[Rule]:
        """List what a rule was here and is at its owner, where it was altered or put back: who knows that acts on it.

        A8.
        """
        owner, key = self._name(marks_of(rule.manifest).owner), ObjectKey("", rule.name)
        if not owner:
            return
        states = self.history.states_since(entry.cluster, "ResourceSyncRule", key, at=0.0)
        known = [Rule(found, ("", "", "")) if found is not None else rule for found in states]
        before = next((one for one in known if self._is_as_written(one, rule, owner)), None)
        if before is not None:
            yield before
        if not rule.is_altered and before is None:
            return
        for found in self.history.states_since(owner, "ResourceSyncRule", key, at=entry.at - WINDOW_S):
            if found is not None:
                yield Rule(found, ("", "", ""))

    def _is_as_written(self, known: Rule, rule: Rule, owner: str) -> bool:
        """Say whether a copy of a rule was as its owner wrote it, and is not any more: altered, or an earlier one."""
        if known.uid != rule.uid or (known.revision == rule.revision and not rule.is_altered) or known.is_altered:
            return False
        if rule.is_altered:
            return known.written == rule.written
        before_s, since_s = (
            self.history.revised_at(owner, "ResourceSyncRule", ObjectKey("", rule.name), revision=one.revision)
            for one in (rule, known)
        )
        return since_s > before_s

    def _check_order(self, entry: Entry, where: str, *, owner: str, source: dict[str, Any]) -> None:
        """Look whether a copy gets the states of its source in their order, with those that a restore brought back.

        The numbers of revisions show no order: a restore lowers them, and a write may be under way meanwhile.
        """
        place = (entry.cluster, Place(entry.change.kind.kind, entry.change.key), self._id(owner), source["uid"])
        if entry.change.before is None or not marks_of(entry.change.before).provenance:
            self._newest.pop(place, None)  # what people took away here tells a new daemon nothing any more
        known, newest = self._newest.get(place, (0, ""))
        states, revision = self.history.states(owner, source["kind"], _source_key(source)), source["resourceVersion"]
        found = [at for at, state in enumerate(states) if _is_state(state.manifest, source)]
        if found[-1] < known:
            self._break("O3", where, f"goes back from revision {newest} of {owner} to {revision}")
        self._newest[place] = (next((at for at in found if at >= known), found[-1]), revision)

    def _check_need(self, entry: Entry, where: str) -> None:
        self._tally.clause("A1")
        before, new = entry.change.before, entry.change.new
        is_same = before is not None and new is not None and _essence(before) == _essence(new)
        if is_same and not self._undoes_in_vain(entry):
            self._break("A1", where, "was written although nothing in it changed")

    def _undoes_in_vain(self, entry: Entry) -> bool:
        """Say whether others took from an object what its API server does not store any more.

        A daemon tries to put it back once (A10). The write changes nothing but the revision in the provenance.
        """
        edited: Manifest | None = None
        for earlier in reversed(self.history.entries[:-1]):
            change = earlier.change
            if (earlier.cluster, change.kind, change.key) != (entry.cluster, entry.change.kind, entry.change.key):
                continue
            if change.before is None or change.new is None:
                break
            if earlier.who and not _same_but_status(change.before, change.new):
                break
            edited = edited if earlier.who else change.before
        if edited is None:
            return False
        habits = self.history.members[entry.cluster].server.habits
        stored = habits.stored_form(entry.change.kind.kind, edited, entry.change.before)
        return _essence(stored) != _essence(edited)

    # Deletions.

    def _check_deletion(self, entry: Entry, before: Manifest | None, where: str) -> None:
        if before is None or _is_core(before):
            return
        self._tally.clause("O5")
        kind = entry.change.kind.kind
        if kind in WRITTEN and not is_membership(before):
            if not self._may_go(entry, before) and not self._is_named_otherwise(entry, before):
                self._break("O5", where, "was deleted, and its owner had it, and a rule wanted it")
            for gone in self._lost_for_a_moment(entry, before):
                self._break("W3", where, f"was deleted, and {gone}, for which it was wanted, was there a moment ago")
        elif kind in ("Cluster", "Secret"):
            owner = self._name(before["spec"]["clusterID"] if kind == "Cluster" else marks_of(before).owner)
            if owner and owner not in self.history.members:
                self._tally.clause("P11")  # its cluster was built anew
            elif owner and not self._has_left(entry, owner):
                is_alone = key_of(before).name == self.history.called(owner) and not self._has_another_name(owner)
                is_alone = is_alone and (kind == "Cluster" or self._is_named(entry.cluster, key_of(before)))
                if is_alone or not self._was_absent(entry, owner, kind, key_of(before)):
                    self._break("O5", where, f"was deleted, and {owner} had it, or lacked it for a moment")

    def _may_go(self, entry: Entry, before: Manifest) -> bool:
        place = Place(before["kind"], key_of(before))
        if self._habits(entry).keeps(before):
            self._tally.clause("A2")
            return True
        rivals = [dict(claim.copy.content) for claim in self.oracle().claims(entry.cluster).get(place, ())]
        if any(_is_replaced(before, rival) for rival in rivals):
            self._tally.clause("A2")
            return True
        marks = marks_of(before)
        source = marks.provenance.get("source") or {}
        owner = self._name(marks.owner)
        key = _source_key(source) if source else key_of(before)
        kind = source.get("kind", before["kind"])
        if not owner:
            return False
        revision = source.get("resourceVersion", "")
        revised_s = self.history.revised_at(owner, kind, key, revision=revision)
        if any(_is_replaced(before, state) for state in self._lately(entry, owner, kind, key, since_s=revised_s)):
            self._tally.clause("A2")
            return True
        if self._was_absent(entry, owner, kind, key, since_s=revised_s) or self._has_left(entry, owner):
            return True
        since_s = self.history.made_at(entry.cluster, *place)  # what somebody restored shows no knowledge of a daemon
        if any(entry.at - at < WINDOW_S for at in self.history.restored_s[entry.cluster]):
            since_s = 0.0  # for a moment a daemon still knows what was lost
        for world in self._worlds(entry, since_s=since_s, owner=owner, kind=kind):
            oracle = Oracle(world)
            claims = oracle.claims(entry.cluster).get(place, [])
            claims = [claim for claim in claims if not claim.disabled or claim.origin == Place(kind, key)]
            if not any(world.id_of(claim.owner) == marks.owner for claim in claims):
                self._tally.clause("W3")
                if oracle.fate(entry.cluster, before) is not Fate.STAYS:
                    return True
        return owner not in self.history.members and self._went_with_its_rule(entry, marks.provenance)

    def _went_with_its_rule(self, entry: Entry, provenance: dict[str, Any]) -> bool:
        """Say whether the rule that made a copy is not here any more, and lets its copies go with it.

        Nothing is claimed for a cluster that was built anew; it counts as alive until it was asked in vain.
        """
        found = (
            self.history.world().all(entry.cluster, "ResourceSyncRule").get(ObjectKey("", provenance.get("rule", "")))
        )
        is_here = found is not None and found["metadata"]["uid"] == provenance.get("ruleUID")
        return provenance.get("policy") == "Delete" and not is_here

    def _check_lost_rules(self, entry: Entry, where: str) -> None:
        """W3: a rule that nobody deleted is in no record of deleted rules, and its copies stay."""
        before, new, lost = entry.change.before, entry.change.new, self.history.lost_rules
        if new is not None and entry.change.key.name == names.DELETED_RULES_OBJECT:
            self._tally.clause("W3")
            recorded = {(entry.cluster, rule.uid) for rule in read_deleted_rules(new["metadata"]["annotations"])}
            if recorded & lost:
                self._break("W3", where, "names a rule that went with its definition, or by a restore")
        if new is not None or before is None or before["kind"] != "ResourceSyncRule":
            return
        marks = marks_of(before)
        owner, uid = self._name(marks.owner), str((marks.provenance.get("source") or {}).get("uid", ""))
        if (owner, uid) in lost and not self._has_left(entry, owner):
            name = ObjectKey("", before["metadata"]["name"])
            if not any(self.history.states_since(owner, "ResourceSyncRule", name, at=entry.at - WINDOW_S)):
                self._break("W3", where, f"was deleted, and {owner} lost it, and did not delete it")

    def _lost_for_a_moment(self, entry: Entry, before: Manifest) -> Iterator[str]:
        """List what is missing and was there less than the stabilization window ago, if the copy was wanted with it."""
        place, marks = Place(before["kind"], key_of(before)), marks_of(before)
        source, owner = marks.provenance.get("source") or {}, self._name(marks.owner)
        if not source or owner not in self.history.members or self._is_order(entry, marks.owner):
            return
        if self._has_matched(entry, before, owner):
            self._tally.clause("W3")
            yield f"the match of {source['kind']} {source.get('name')} at {owner}"
        lately = list(self._lately(entry, owner, source["kind"], _source_key(source)))
        if len(lately) > 1:
            return  # the source itself is another one
        rule = str(marks.provenance["rule"])
        for cluster, kind, name in (
            (entry.cluster, "ResourceSyncRule", rule),
            (owner, "ClusterFeature", "gold"),
            (entry.cluster, "Cluster", entry.cluster),
        ):
            key = ObjectKey("", name)
            since = entry.at - STABILIZATION_S + UNNOTICED_S
            states = list(self.history.shown_since(cluster, kind, key, at=since))
            now = states[0] if kind == "Cluster" else None  # it may have lost a label only
            found = next((one for one in states if one is not None and not _has_labels_of(now, one)), None)
            if found is None or (states[0] is not None and now is None):
                continue
            claims = Oracle(self.history.world_where(cluster, kind, key, found)).claims(entry.cluster).get(place, ())
            if any(claim.owner == owner and claim.rule.name == rule for claim in claims):
                self._tally.clause("W3")
                yield f"{kind} {name} at {cluster}"

    def _has_matched(self, entry: Entry, before: Manifest, owner: str) -> bool:
        """Say whether the source is there, and its rule, as it is, matched it less than the window ago, and not now.

        A match that was as short as that may have passed unnoticed, as while a way was cut.
        """
        provenance = marks_of(before).provenance
        place, rule = Place(before["kind"], key_of(before)), str(provenance["rule"])
        source = Place(provenance["source"]["kind"], _source_key(provenance["source"]))
        if self._has_changed(entry, owner, rule) or self._has_left(entry, owner):
            return False
        if any(claim.origin == source for claim in self._claims_by(entry, self.history.world(), owner, rule)):
            return False  # it is made anew, or moves
        lost_s, since_s = 0.0, entry.at
        for at_s, state in reversed(self.history.states(owner, source.kind, source.key)):
            if state is None or state["metadata"]["uid"] != provenance["source"].get("uid"):
                return False
            world = self.history.world_where(owner, source.kind, source.key, state)
            claims = self._claims_by(entry, world, owner, rule)
            is_matched = any((claim.copy.place, claim.origin) == (place, source) for claim in claims)
            if lost_s and not is_matched:
                return False
            if is_matched:
                lost_s = lost_s or since_s
            since_s = at_s
            if lost_s and lost_s - at_s >= STABILIZATION_S:
                return True
            if entry.at - (lost_s or at_s) >= STABILIZATION_S:
                return False
        return False

    def _has_changed(self, entry: Entry, owner: str, rule: str) -> bool:
        """Say whether what chooses the sources of a rule was another of late."""
        named = ((entry.cluster, "ResourceSyncRule", rule), (owner, "ClusterFeature", "gold"))
        return any(
            len(list(self.history.states_since(cluster, kind, ObjectKey("", name), at=entry.at - WINDOW_S))) > 1
            for cluster, kind, name in named
        )

    def _claims_by(self, entry: Entry, world: World, owner: str, rule: str) -> Iterator[Claim]:
        """List what an owner's objects claim here by a rule."""
        for claims in Oracle(world).claims(entry.cluster).values():
            yield from (claim for claim in claims if (claim.owner, claim.rule.name) == (owner, rule))

    def _worlds(self, entry: Entry, *, since_s: float, owner: str, kind: str) -> Iterator[World]:
        """List the groups that a daemon may know by now: all of late, and the present with one rule of late."""
        kinds = (kind, "ResourceSyncRule", "ClusterFeature", "Cluster")
        for count, undone in enumerate([None, *reversed(self.history.entries)]):
            if undone is not None and undone.at < max(since_s, entry.at - WINDOW_S):
                break
            if undone is None or undone.change.kind.kind in kinds:
                yield self.history.world_before(count)
        at_s = max(since_s, self._known_since(entry))
        for key in self.history.keys(entry.cluster, "ResourceSyncRule"):
            _, *earlier = self.history.states_since(entry.cluster, "ResourceSyncRule", key, at=at_s)
            for found in earlier:
                yield self.history.world_where(entry.cluster, "ResourceSyncRule", key, found)
        for rebuild in self.history.rebuilds:
            if rebuild.former == owner and rebuild.at >= entry.at - WINDOW_S:
                yield self.history.world_as_if(rebuild)

    def _has_left(self, entry: Entry, owner: str) -> bool:
        """Say whether an owner has left, or this cluster: by a tombstone, or by an absence that lasted (O6)."""
        own = ObjectKey("", self.history.called(owner))
        states = self.history.states_since(owner, "Cluster", own, at=entry.at - ABSENCE_S)
        left = self._is_order(entry, self._id(owner)) or not any(states)
        self._tally.clauses["O6"] += left
        return left

    def _is_order(self, entry: Entry, owner_id: str) -> bool:
        """Say whether a departure by tombstone is under way: the owner's, as it or this cluster says, or this one's."""
        owner, here = self._name(owner_id), entry.cluster
        places = [(owner, here)] if owner else []  # also a cluster that is another one now
        places += [(owner, owner)] if owner in self.history.members else []
        return any(self._is_said_to_have_left(entry, one, at=at) for one, at in [*places, (here, here)])

    def _is_named(self, cluster: str, secret: ObjectKey) -> bool:
        """Say whether a Cluster somewhere names a Secret."""
        found = self.history.world().all(cluster, "Cluster").values()
        named = [((one["spec"].get("authInfo") or {}).get("secretRef") or {}).get("name") for one in found]
        return secret.name in named

    def _has_another_name(self, owner: str) -> bool:
        """Say whether a member has a Cluster of itself under another name than others know it by."""
        found = self.history.world().all(owner, "Cluster")
        called = ObjectKey("", self.history.called(owner))
        return any(one["spec"]["clusterID"] == self._id(owner) for key, one in found.items() if key != called)

    def _is_said_to_have_left(self, entry: Entry, member: str, *, at: str) -> bool:
        """Say whether there was a tombstone of a member at a cluster of late."""
        return any(
            (found["metadata"].get("labels") or {}).get(meta.LEFT_MEMBER) == self._id(member)
            for key in self.history.keys(at, "ClusterFeature")
            for found in self.history.states_since(at, "ClusterFeature", key, at=entry.at - WINDOW_S)
            if found is not None and not is_of_later_version(found)
        )

    def _was_absent(self, entry: Entry, owner: str, kind: str, key: ObjectKey, *, since_s: float = 0.0) -> bool:
        """Say whether an owner lately did not have an object of its own of that name."""
        for found in self._lately(entry, owner, kind, key, since_s=since_s):
            if found is None or found["metadata"].get("deletionTimestamp"):
                return True
            if marks_of(found).owner not in ("", self._id(owner)):
                return True
        return False

    def _lately(
        self, entry: Entry, owner: str, kind: str, key: ObjectKey, *, since_s: float = 0.0
    ) -> Iterator[Manifest | None]:
        """List what an object was of late, and not before what the copy was made from."""
        return self.history.states_since(owner, kind, key, at=max(since_s, entry.at - WINDOW_S))

    def _known_since(self, entry: Entry) -> float:
        """Return from when on a daemon knows its own cluster: it hears nothing while its API server does not answer."""
        since_s = entry.at - WINDOW_S
        home = self._group.wire(entry.cluster, entry.cluster)
        return since_s - home.broken_s(since=since_s, until=entry.at)

    def _habits(self, entry: Entry) -> Habits:
        return self.history.members[entry.cluster].server.habits

    def _id(self, cluster: str) -> str:
        return self.history.ids[cluster]

    def _name(self, cluster_id: str) -> str:
        return next((name for name, found in self.history.ids.items() if found == cluster_id), "")


def _named(path: str, body: bytes | None) -> str:
    """Name what a write is about: its path, with the name of what is to be created."""
    path = path.partition("?")[0]
    name = ((orjson.loads(body) if body else {}).get("metadata") or {}).get("name", "")
    return path if not name or path.endswith((f"/{name}", "/status")) else f"{path}/{name}"


def _source_key(source: dict[str, Any]) -> ObjectKey:
    return ObjectKey(source["namespace"], source["name"])


def _is_state(manifest: Manifest | None, source: dict[str, Any]) -> bool:
    """Say whether an object is the state that a copy names as its source."""
    info = manifest["metadata"] if manifest is not None else {}
    return (info.get("uid"), info.get("resourceVersion")) == (source["uid"], source["resourceVersion"])


def _has_labels_of(manifest: Manifest | None, other: Manifest) -> bool:
    """Say whether an object is there, and has all labels that it had in another state."""
    labels = other["metadata"].get("labels") or {}
    return manifest is not None and labels.items() <= (manifest["metadata"].get("labels") or {}).items()


def _is_going(manifest: Manifest | None) -> bool:
    """Say whether an object was deleted, and waits for its finalizers."""
    return manifest is not None and "deletionTimestamp" in manifest["metadata"]


def _is_core(manifest: Manifest) -> bool:
    return (manifest["metadata"].get("labels") or {}).get(meta.CORE_RESOURCE) == "true"


def _is_forged(manifest: Manifest) -> bool:
    texts = [base64.b64decode(value).decode() for value in (manifest.get("data") or {}).values()]
    return any(EVIL in text for text in [*texts, str(manifest.get("spec"))])


def _is_ours_to_keep(manifest: Manifest, *, cluster: str, local: str) -> bool:
    """Say whether a daemon may change a native object: what it made itself, and membership that people carried."""
    info = manifest["metadata"]
    if manifest["kind"] == "Cluster":
        return bool(manifest["spec"]["clusterID"] != local)
    if manifest["kind"] == "Secret":
        own = info["namespace"] == NAMESPACE and info["name"] in (cluster, f"{READER}-token")
        return own or (manifest.get("type") == meta.REGISTRY_SECRET_TYPE and info["name"] != cluster)
    return _is_core(manifest) or meta.LEFT_MEMBER in (info.get("labels") or {})


def _same_but_status(old: Manifest, new: Manifest) -> bool:
    return old.get("status") != new.get("status") and _whole(old) == _whole(new)


def _same_but_version(old: Manifest, new: Manifest) -> bool:
    """Say whether a daemon wrote its version on its own Cluster, and nothing else."""
    version = (new["metadata"].get("annotations") or {}).get(meta.DAEMON, "")
    annotations = {**(old["metadata"].get("annotations") or {}), meta.DAEMON: version}
    return _whole({**old, "metadata": {**old["metadata"], "annotations": annotations}}) == _whole(new)


def _whole(manifest: Manifest) -> dict[str, Any]:
    passing = ("managedFields", "resourceVersion")
    info = {name: value for name, value in manifest["metadata"].items() if name not in passing}
    return {**content_of(manifest), "metadata": info}


def _essence(manifest: Manifest) -> dict[str, Any]:
    """Take all of an object that is worth a write: not the revision in its provenance."""
    info = _whole(manifest)["metadata"]
    annotations = dict(info.get("annotations") or {})
    if meta.PROVENANCE in annotations and meta.GO_LAST_APPLIED not in annotations:
        said = orjson.loads(annotations[meta.PROVENANCE])
        annotations[meta.PROVENANCE] = {**said, "source": {**said["source"], "resourceVersion": ""}}
    return {**content_of(manifest), "metadata": {**info, "annotations": annotations, "generation": 0}}


def _is_replaced(copy: Manifest, source: Manifest | None) -> bool:
    """Say whether a copy must go because a field that cannot be changed is another one at its source (A2)."""
    if source is None:
        return False
    if copy.get("type") != source.get("type"):
        return True
    return bool(copy.get("immutable")) and content_of(copy) != content_of(source)


def _describe(entry: Entry) -> str:
    change = entry.change
    verb = "deletes" if change.new is None else "creates" if change.before is None else "changes"
    held = change.new or change.before or {}
    body = held.get("data") or held.get("spec") or {}
    said = body.get("value", "") if isinstance(body, dict) and change.kind.kind in WRITTEN else ""
    if change.before is not None and change.new is not None and _same_but_status(change.before, change.new):
        verb, said = "changes the status of", ""
    named = f" {said}" if said and change.kind.kind != "Secret" else ""
    return f"{verb} {change.kind.kind} {change.key} at {entry.cluster}{named} ({change.revision})"
