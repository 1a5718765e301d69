"""What must hold at every moment, and needs a memory: adoption, quarrels, the deletion_limit, what is closed, rights.

Each is looked at in what one daemon writes, one write after the other.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.core.decision import deletion_limit
from registry_controller.core.mutation.left_fields import digest_paths
from registry_controller.report.reasons import REFUSALS
from tests.sim.checks.expected_copies import (
    ADDED,
    content_of,
    is_membership,
    is_of_later_version,
    key_of,
    marks_of,
    source_named_by,
)
from tests.sim.checks.history import Entry
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.habits import get
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.member import Member
from tests.sim.schedule.tally import Tally
from tests.sim.schedule.vocabulary import LEFT, TUNED, UNLABELLED

_QUARREL_S: Final = 60.0
_REPAIRS: Final = 8
"""So many repairs of one copy within a minute are more than those at once, and the one a minute after them (A5)."""
_SLOWED: Final = 5
_UNDER_WAY_S: Final = 5.0
"""What was let go before a halt was stored may still be on its way."""

_LEFT: Final = (("data", LEFT), ("spec", LEFT), ("spec", TUNED), ("metadata", "labels", UNLABELLED))
_DIGESTS: Final = {place: digest_paths((place,))[0] for place in _LEFT}
"""What provenance says where these places are left to the cluster."""

Break = Callable[[str, str, str], None]


class Guards:
    """They tell `breaks` of a clause, where, and in words.

    `is_order` says whether a deletion of a copy, of an owner of that ID, belongs to a departure that was ordered.
    """

    def __init__(self, tally: Tally, breaks: Break, *, is_order: Callable[[Entry, str], bool]) -> None:
        self._is_order = is_order
        self._tally = tally
        self._break = breaks
        self._repairs: dict[tuple[object, ...], deque[float]] = {}
        self._halts: dict[tuple[str, str, str], tuple[str, float]] = {}
        self._gone = defaultdict[tuple[str, ...], set[str]](set)
        self._undone: dict[tuple[object, ...], deque[float]] = {}

    def see(self, entry: Entry, member: Member, where: str) -> None:
        """Look at one write of a daemon."""
        before, new = entry.change.before, entry.change.new
        if before is not None and not is_membership(before):
            self._see_version(before, new, where)
        if new is None:
            if before is not None:
                self._see_deletion(entry, member, before, where)
                self._see_deletion_again(entry, member, where)
            return
        self._undone.pop(_place(entry, member), None)
        if new["kind"] == "ResourceSyncRule" and before is not None and before.get("status") != new.get("status"):
            self._see_rule_status(entry, new, member, where)
        if before is None:
            for gone in self._gone.values():
                gone.discard(where)
            self._see_creation(new, member, where)
        elif content_of(before) != content_of(new):
            self._see_repair(entry, member, before, new, where)
        if before is not None:
            self._see_left(before, new, member, where)
        if before is not None and meta.GO_LAST_APPLIED in (before["metadata"].get("annotations") or {}):
            self._see_adoption(before, new, where)

    def _see_adoption(self, before: Manifest, new: Manifest, where: str) -> None:
        """O10: one write takes away what the Go original wrote about the copy, and says where it comes from."""
        if before.get("status") != new.get("status") or new["metadata"].get("deletionTimestamp"):
            return
        self._tally.clause("O10")
        if not marks_of(new).provenance:
            self._break("O10", where, "was written, and is still as the Go original left it")

    def _see_left(self, before: Manifest, new: Manifest, member: Member, where: str) -> None:
        """A9: what is left to a cluster by the rule, before and after a write, is not touched by the write.

        The API server may spell it otherwise than before when it is sent as it was.
        """
        one, other = marks_of(before).provenance.get("left"), marks_of(new).provenance.get("left")
        if not one or one != other:
            return
        self._tally.clause("A9")
        spelt = member.server.habits.stored_form(before["kind"], before, before)
        for place, digest in _DIGESTS.items():
            if digest in one and get(new, place) not in (get(before, place), get(spelt, place)):
                self._break("A9", where, f"lost {'.'.join(place)}, which its rule leaves to this cluster")

    def _see_repair(self, entry: Entry, member: Member, before: Manifest, new: Manifest, where: str) -> None:
        """A5: what somebody keeps changing is put back ever more rarely."""
        source = marks_of(new).provenance.get("source")
        if not source or marks_of(before).provenance.get("source") != source:
            return
        times = self._repairs.setdefault(_place(entry, member), deque(maxlen=2 * _REPAIRS + 1))
        times.append(entry.at)
        recent = sum(entry.at - at < _QUARREL_S for at in times)
        self._tally.clauses["A5"] += recent >= _SLOWED
        if recent > _REPAIRS * (1 + member.has_pods):  # each of two daemons counts for itself
            self._break("A5", where, f"was put back {recent} times within a minute")

    def _see_refusal(self, failure: Manifest, member: Member, where: str) -> None:
        """S3: a refusal keeps its kind, and says what to do."""
        kind, _, key = failure["object"].partition(" ")
        refused = member.server.refused.get(f"{kind} {key.rpartition('/')[2]}")
        if failure["reason"] in REFUSALS:
            self._tally.clause("S3")
            if REFUSALS[failure["reason"]] not in failure["message"]:
                self._break("S3", where, f"does not say what to do about {failure}")
        elif (
            refused is not None
            and failure["reason"] == "Forbidden"
            and not (member.server.has_denied or "grant" in failure["message"])
        ):
            self._break("S3", where, f"does not say how it is refused: {failure}")

    def _see_rule_status(self, entry: Entry, new: Manifest, member: Member, where: str) -> None:
        """W4: which deletions are halted, and since when. S3: whoever lacks a right is told what grants it."""
        name, status = new["metadata"]["name"], new.get("status") or {}
        for one in status.get("clusters") or ():
            place, moment = (entry.cluster, name, one["clusterID"]), (one.get("deletions") or {}).get("haltedAt", "")
            if not moment:
                self._halts.pop(place, None)
            elif self._halts.get(place, ("", 0.0))[0] != moment:
                self._tally.clause("W4")
                self._halts[place] = (moment, entry.at)
        for failure in (found for one in status.get("clusters") or () for found in one.get("failures") or ()):
            self._see_refusal(failure, member, where)
        for words in _all_words(status):
            if re.search(r"cannot list[^;]*403 Forbidden", words):
                self._tally.clause("S3")
                if "grant it with a ClusterRole labelled" not in words:
                    self._break("S3", where, f"does not say what grants a right that is lacking: {words}")

    def _see_version(self, before: Manifest, new: Manifest | None, where: str) -> None:
        """Look whether what a later daemon wrote is left alone, and whether what it added is kept."""
        if is_of_later_version(before):
            self._tally.clause("A11")
            self._break("A11", where, "was written by a later version, and is changed or deleted")
        added = marks_of(before).provenance.get(ADDED)
        if added and new is not None and marks_of(new).provenance:
            self._tally.clause("A11")
            if marks_of(new).provenance.get(ADDED) != added:
                self._break("A11", where, "lost a field that a later version added to its provenance")

    def _see_deletion(self, entry: Entry, member: Member, before: Manifest, where: str) -> None:
        """W4: while they are halted, no more go than may in any case, before somebody names that moment.

        So many may, because a halt ends by itself when others take over what was to go, and so few are left. What a
        daemon makes again, perhaps since it had to go for that, is not gone.
        """
        marks = marks_of(before)
        name = str(marks.provenance.get("rule", ""))
        place = (entry.cluster, name, marks.owner)
        moment, since = self._halts.get(place, ("", 0.0))
        rule = member.find("ResourceSyncRule", name) if moment and entry.at - since > _UNDER_WAY_S else None
        if rule is None or (rule["metadata"].get("annotations") or {}).get(meta.ALLOW_DELETIONS) == moment:
            return
        if self._is_order(entry, marks.owner) or _has_other_copy(member, before):
            return  # by `leave`, or the copy has moved: the limiter counts neither
        if _halted_at(rule, marks.owner) != moment:
            return  # another rule of that name: to delete the one that halted was an order
        gone = self._gone[*place, moment]
        gone.add(where)  # one that somebody else makes again each time counts once
        if len(gone) > deletion_limit.ALWAYS:
            self._break("W4", where, f"was deleted although rule {name} halted deletions at {moment}")

    def _see_deletion_again(self, entry: Entry, member: Member, where: str) -> None:
        """A5: what somebody keeps making again is deleted ever more rarely."""
        times = self._undone.setdefault(_place(entry, member), deque(maxlen=2 * _REPAIRS + 1))
        times.append(entry.at)
        recent = sum(entry.at - at < _QUARREL_S for at in times)
        self._tally.clauses["A5"] += recent >= _SLOWED
        if recent > _REPAIRS * (1 + member.has_pods):  # each of two daemons counts for itself
            self._break("A5", where, f"was deleted {recent} times within a minute, and this daemon did not make it")

    def _see_creation(self, new: Manifest, member: Member, where: str) -> None:
        """W8: nothing is made where the administrator here has closed."""
        closed = member.options.get("CLOSED_NAMESPACES")
        if closed and new["kind"] != "Event":
            self._tally.clause("W8")
            if new["metadata"].get("namespace") == closed:
                self._break("W8", where, "was made where the administrator lets no rule write")


def _place(entry: Entry, member: Member) -> tuple[object, ...]:
    """Name a place as one daemon knows it."""
    return (entry.cluster, member.starts, entry.change.kind.kind, entry.change.key)


def _has_other_copy(member: Member, copy: Manifest) -> bool:
    """Say whether another copy of the same source is here; a rule may have moved it to another kind."""
    marks, source = marks_of(copy), source_named_by(copy)
    return any(
        marks_of(other).owner == marks.owner and source_named_by(other) == source
        for kind in BY_KIND
        for other in member.list(kind)
        if (kind, key_of(other)) != (copy["kind"], key_of(copy))
    )


def _halted_at(rule: Manifest, owner: str) -> str:
    """Tell since when a rule's status says that deletions of an owner's copies are halted."""
    entries = (rule.get("status") or {}).get("clusters") or ()
    found = (one.get("deletions") or {} for one in entries if one["clusterID"] == owner)
    return next((str(one.get("haltedAt", "")) for one in found), "")


def _all_words(status: Manifest) -> list[str]:
    """List the texts of a rule's status."""
    conditions = [str(one.get("message", "")) for one in status.get("conditions") or ()]
    clusters: list[Any] = list(status.get("clusters") or ())
    failures = [str(failure.get("message", "")) for one in clusters for failure in one.get("failures") or ()]
    return conditions + failures
