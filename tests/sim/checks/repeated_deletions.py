"""How often copies go whose source is there, counted a second time and as plainly as can be (W4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.meta import ObjectKey
from registry_controller.core.decision import deletion_limit
from tests.sim.checks.expected_copies import Marks, marks_of
from tests.sim.checks.history import Entry, History
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.member import Member
from tests.sim.schedule.tally import Tally
from tests.sim.schedule.vocabulary import WRITTEN

_WINDOW_S: Final = 300.0
_WINDOWS: Final = 2
"""Windows follow each other, so that as many seconds may see the end of one and the beginning of the next."""
_MADE_ANEW_S: Final = 2.0
_ALLOWED_S: Final = 60.0
"""What somebody allowed to go goes within this time."""

Break = Callable[[str, str, str], None]


class _Gone(NamedTuple):
    at: float
    starts: int
    where: tuple[str, ObjectKey]
    uid: str


class RepeatedDeletions:
    """It tells `breaks` of a rule that deletes copies of one owner again and again, although their sources are there.

    Not counted are orders, what has another name now, what is made anew, what somebody allowed, and what went before
    the present daemon began: a daemon may be killed before it has said what it did.
    """

    def __init__(
        self, history: History, tally: Tally, breaks: Break, *, is_order: Callable[[Entry, str], bool]
    ) -> None:
        self._history = history
        self._tally = tally
        self._break = breaks
        self._is_order = is_order
        self._gone: dict[tuple[str, str, str], list[_Gone]] = {}
        self._allowed: dict[str, float] = {}

    def see(self, entry: Entry, member: Member) -> None:
        """Look at one change, whoever made it."""
        before, new = entry.change.before, entry.change.new
        if new is not None and before is not None and _allowed_by(new) != _allowed_by(before):
            self._allowed[entry.cluster] = entry.at
        if not entry.who or entry.change.kind.kind not in WRITTEN or entry.change.kind.kind == "ResourceSyncRule":
            return
        where = (entry.change.kind.kind, entry.change.key)
        if new is None and before is not None:
            self._see_deletion(entry, member, before, where)
        elif before is None and new is not None:
            self._see_made_anew(entry, where)

    def _see_made_anew(self, entry: Entry, where: tuple[str, ObjectKey]) -> None:
        """Forget what went here just now: another owner may have taken the place over, where nothing can be changed."""
        for place, held in self._gone.items():
            if place[0] == entry.cluster:
                held[:] = [one for one in held if one.where != where or entry.at - one.at > _MADE_ANEW_S]

    def _see_deletion(self, entry: Entry, member: Member, before: Manifest, where: tuple[str, ObjectKey]) -> None:
        marks = marks_of(before)
        source, name = marks.provenance.get("source") or {}, str(marks.provenance.get("rule", ""))
        if not self._is_there(marks, source) or self._is_order(entry, marks.owner):
            return
        rule = member.find("ResourceSyncRule", name)
        if rule is None or rule["metadata"]["uid"] != _rule_uid(marks, rule, local=str(member.id)):
            return
        if self._has_other(member, marks, source, but=where):
            return
        self._tally.clause("W4")
        place = (entry.cluster, name, marks.owner)
        held = [one for one in self._gone.get(place, []) if entry.at - one.at < _WINDOW_S]
        self._gone[place] = [*held, _Gone(entry.at, member.starts, where, source["uid"])]
        settled = [
            one
            for one in self._gone[place]
            if one.starts == member.starts and (one.at < entry.at - _MADE_ANEW_S or one.where == where)
        ]
        allowed_s = self._allowed.get(entry.cluster, -_WINDOW_S)
        if len(settled) > _WINDOWS * deletion_limit.ALWAYS and entry.at - allowed_s > _WINDOW_S + _ALLOWED_S:
            words = f"was deleted, as {len(settled)} copies by rule {name} within five minutes, whose sources are there"
            self._break("W4", f"{where[0]} {where[1]} at {entry.cluster}", words)

    def _is_there(self, marks: Marks, source: Manifest) -> bool:
        owner = next((name for name, held in self._history.ids.items() if held == marks.owner), "")
        if not owner or not source:
            return False
        last = self._history.states(owner, source["kind"], ObjectKey(source["namespace"], source["name"]))[-1].manifest
        return last is not None and last["metadata"]["uid"] == source["uid"]

    def _has_other(self, member: Member, marks: Marks, source: Manifest, *, but: tuple[str, ObjectKey]) -> bool:
        """Say whether another copy of the source is here: the rule gives it another name."""
        for kind in WRITTEN:
            for found in member.list(kind):
                other, info = marks_of(found), found["metadata"]
                is_same = other.owner == marks.owner and (other.provenance.get("source") or {}) == source
                if is_same and (kind, ObjectKey(info.get("namespace", ""), info["name"])) != but:
                    return True
        return False


def _allowed_by(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("annotations") or {}).get(meta.ALLOW_DELETIONS, ""))


def _rule_uid(marks: Marks, rule: Manifest, *, local: str) -> str:
    """Tell the uid that the rule of a copy has here; what a synced rule has here is of no account."""
    is_own = marks.provenance.get("ruleOwner", "") in ("", local)
    return str(marks.provenance.get("ruleUID", "")) if is_own else str(rule["metadata"]["uid"])
