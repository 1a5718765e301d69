"""What becomes of the copies of objects that went with their definition (W4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from registry_controller.api import meta
from registry_controller.api.meta import ObjectKey
from tests.sim.checks.expected_copies import Marks, Place, key_of, marks_of
from tests.sim.checks.history import Entry, History
from tests.sim.checks.oracle import Oracle
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.cluster.member import Member
from tests.sim.schedule.tally import Tally
from tests.sim.schedule.vocabulary import WRITTEN

_WINDOW_S: Final = 300.0

Break = Callable[[str, str, str], None]


@dataclass
class _Loss:
    """A definition that went: whose daemon was told so, and which wanted copies there were of each rule, by their uids.

    `asked_for` is the object of that kind for which they were made; None where each was made of one of its own. `sizes`
    is how many copies of the owner each rule had, those included that were not wanted any more, and not yet deleted.
    """

    owner: str
    kind: str
    at: float
    asked_for: ObjectKey | None = None
    told: dict[str, int] = field(default_factory=dict)
    copies: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    sizes: Counter[tuple[str, str]] = field(default_factory=Counter)
    gone: dict[tuple[str, str], set[str]] = field(default_factory=dict)


class LostDefinitions:
    """It tells `breaks` of a rule of which all wanted copies go, and over half of all, though nobody deleted a source.

    Looked at is whoever was told that the kind is not served, or asked while its definition was about to go, and has
    not begun anew since; not what somebody allowed or ordered, nor what was made again at its owner. Of two daemons,
    one that stood still was not told, and what the other one has stored may reach it late.
    """

    def __init__(
        self, history: History, tally: Tally, breaks: Break, *, is_order: Callable[[Entry, str], bool]
    ) -> None:
        self._history = history
        self._tally = tally
        self._break = breaks
        self._is_order = is_order
        self._losses: list[_Loss] = []

    def see_lost(self, owner: str, kind: str, *, at: float) -> None:
        """Hear that the definition of a copied kind goes now."""
        self._losses.append(loss := _Loss(owner, kind, at))
        self._note_copies(loss, lambda member, marks: bool(marks.provenance["source"]["kind"] == kind))

    def see_features_lost(self, owner: str, *, at: float) -> None:
        """Hear that the definition of features goes now, and with it the one that some rules ask for."""
        self._losses.append(loss := _Loss(owner, "ClusterFeature", at, ObjectKey("", "gold")))
        if any(found["metadata"]["name"] == "gold" for found in self._history.members[owner].list(loss.kind)):
            self._note_copies(loss, _is_for_gold)

    def _note_copies(self, loss: _Loss, is_concerned: Callable[[Member, Marks], bool]) -> None:
        oracle = Oracle(self._history.world())
        for name, member in self._history.members.items():
            claims = oracle.claims(name)
            for written in WRITTEN if name != loss.owner else ():
                for found in member.list(written):
                    marks, place = marks_of(found), Place(written, key_of(found))
                    is_owners = marks.owner == self._history.ids[loss.owner] and "source" in marks.provenance
                    is_wanted = any(claim.owner == loss.owner for claim in claims.get(place, ()))
                    rule = (name, str(marks.provenance.get("rule", "")))
                    loss.sizes[rule] += is_owners
                    if is_owners and is_wanted and is_concerned(member, marks):
                        loss.copies.setdefault(rule, set()).add(found["metadata"]["uid"])

    def see_answer(self, at: Member, path: str, status: int, *, who: Member) -> None:
        """Look whether somebody knows from an answer that a kind is not served, or soon will not be."""
        for loss in self._losses if status == 404 else ():
            where, plural = path.partition("?")[0], f"/{BY_KIND[loss.kind].plural}"
            is_told = where.endswith(plural) or (plural in where and at.server.is_terminating(loss.kind))
            if loss.owner == at.name and is_told:
                loss.told.setdefault(who.name, who.starts)

    def see(self, entry: Entry, member: Member) -> None:
        """Look at one change, whoever made it."""
        before, new = entry.change.before, entry.change.new
        if new is not None and _is_about_rules(before, new):
            self._forget(entry.cluster)
        if before is not None and new is None:
            self._see_deletion(entry, member, before)

    def _forget(self, cluster: str) -> None:
        for loss in self._losses:
            loss.copies = {place: uids for place, uids in loss.copies.items() if place[0] != cluster}

    def _see_deletion(self, entry: Entry, member: Member, before: Manifest) -> None:
        marks, uid = marks_of(before), before["metadata"]["uid"]
        name = str(marks.provenance.get("rule", ""))
        for loss in self._losses:
            place = (entry.cluster, name)
            if uid not in loss.copies.get(place, ()):
                continue
            if marks.owner != self._history.ids[loss.owner]:
                loss.copies[place].discard(uid)  # another owner has taken it over
                continue
            if not entry.who or self._is_excused(loss, entry, member, before) or self._is_order(entry, marks.owner):
                loss.copies.pop(place)
                continue
            self._tally.clause("W4")
            gone = loss.gone.setdefault(place, set())
            gone.add(uid)
            if gone == loss.copies[place] and 2 * len(gone) > loss.sizes[place]:
                where = f"{entry.change.kind.kind} {entry.change.key} at {entry.cluster}"
                words = f"was deleted, as the last of {len(gone)} by rule {name}: its {loss.kind}s went with their kind"
                self._break("W4", where, words)

    def _is_excused(self, loss: _Loss, entry: Entry, member: Member, before: Manifest) -> bool:
        marks = marks_of(before)
        source, rule = marks.provenance["source"], member.find("ResourceSyncRule", str(marks.provenance["rule"]))
        key = loss.asked_for or ObjectKey(source["namespace"], source["name"])
        states = self._history.states(loss.owner, loss.kind, key)
        is_made_again = any(state.manifest is not None and state.at > loss.at for state in states)
        is_told = loss.told.get(entry.cluster) == member.starts and not member.has_stood_still
        return rule is None or is_made_again or not is_told or entry.at - loss.at > _WINDOW_S


def _is_for_gold(member: Member, marks: Marks) -> bool:
    """Say whether the rule that made a copy reads from those only that have the feature."""
    rule = member.find("ResourceSyncRule", str(marks.provenance["rule"]))
    return rule is not None and bool(rule["spec"].get("clusterFeatureMatch"))


def _is_about_rules(before: Manifest | None, new: Manifest) -> bool:
    """Say whether somebody changes what is wanted, or allows what is halted."""
    if new["kind"] not in ("ResourceSyncRule", "ClusterFeature", "Cluster"):
        return False
    old = before or {"metadata": {}}
    notes, others = (found["metadata"].get("annotations") or {} for found in (new, old))
    is_spec = new["kind"] != "Cluster" and new.get("spec") != old.get("spec")
    return is_spec or notes.get(meta.ALLOW_DELETIONS) != others.get(meta.ALLOW_DELETIONS)
