"""Who has left on somebody's word: what tombstones are believed, kept, and acted on (O6).

Laws: a tombstone is the word of whoever made it: while that cluster is alive, only what it holds itself counts · of a
membership that is alive here nobody's word counts but its own · on another's word, only who was silent for long
enough goes · nothing is done on a tombstone that is not kept here, so that a restart does not undo it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone

LASTS: Final = timedelta(days=90)
"""How long a tombstone counts. One that wants to count for longer is no tombstone of ours."""
_AHEAD: Final = timedelta(days=2)
"""By how much clocks may differ."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What bears on tombstones, at one moment.

    `here` are those that stand here, `there` those that live members hold whose features were heard. `memberships`
    are those of the Clusters here, by the member for which they stand: the uid that the Cluster has at the member
    itself, empty where nobody has told it, None for a Cluster that was carried here by hand and has not been adopted.
    `lives` has, for each live member whose Clusters were heard, the uids of those that it has of itself, `holds_us`
    the live members that have a Cluster of ours. `met` are the memberships that were here at some time, by member, and
    `proven` the members that have shown us that they have left. `silent_s` says for how many seconds an unreachable
    member has been silent. `trusts_after_s` is how long that must be before another's word counts; 0 for never.
    """

    local: ClusterUID
    here: frozenset[Tombstone]
    there: Mapping[ClusterUID, frozenset[Tombstone]]
    alive: frozenset[ClusterUID]
    memberships: Mapping[ClusterUID, frozenset[str | None]]
    lives: Mapping[ClusterUID, frozenset[str]]
    holds_us: frozenset[ClusterUID]
    met: Mapping[ClusterUID, frozenset[str]]
    proven: frozenset[ClusterUID]
    silent_s: Mapping[ClusterUID, float]
    today: date
    trusts_after_s: float


@dataclass(frozen=True, slots=True)
class Leavers:
    """What tombstones come to.

    `gone` are the members that are to go from here, or are gone; `has_left` says that this cluster has left itself.
    `over` are the memberships of which a tombstone is believed, by member, `known` those of the Clusters here.
    `to_keep` are tombstones that are to stand here, too, `to_drop` those that are here and should not be. `due_s` is
    in how many seconds the mere passing of time changes something; None for never.
    """

    gone: frozenset[ClusterUID] = frozenset()
    has_left: bool = False
    over: Mapping[ClusterUID, frozenset[str]] = field(default_factory=dict)
    to_keep: frozenset[Tombstone] = frozenset()
    to_drop: frozenset[Tombstone] = frozenset()
    due_s: float | None = None
    known: Mapping[ClusterUID, frozenset[str | None]] = field(default_factory=dict)

    def bars(self, member: ClusterUID, membership: str) -> bool:
        """Say whether a membership that others hold of a member is over; one that nobody can tell is, with any."""
        over = self.over.get(member, frozenset())
        return membership in over if membership else bool(over)

    def bars_secret(self, member: ClusterUID) -> bool:
        """Say whether credentials that others hold of a member are those of a membership that is over."""
        here = self.known.get(member, frozenset())
        return all(uid is not None and self.bars(member, uid) for uid in here) and self.bars(member, "")


def leavers(known: Knowledge) -> Leavers:
    """Say what tombstones come to."""
    believed = frozenset(_believed(known))
    has_left = _has_left(known)
    gone, due_s = set(), None
    for stone in believed & known.here:
        wait_s = _wait_s(known, stone)
        if wait_s is not None and wait_s <= 0:
            gone.add(stone.member)
        elif wait_s is not None:
            due_s = wait_s if due_s is None else min(due_s, wait_s)
    if has_left:
        gone |= set(_released(known))
    over: dict[ClusterUID, set[str]] = {}
    for stone in believed:
        over.setdefault(stone.member, set()).add(stone.membership)
    return Leavers(
        gone=frozenset(gone),
        has_left=has_left,
        over={member: frozenset(found) for member, found in over.items()},
        to_keep=_to_keep(known, believed),
        to_drop=frozenset(stone for stone in known.here if not _may_stay(known, stone)),
        due_s=due_s,
        known=known.memberships,
    )


def _believed(known: Knowledge) -> Iterator[Tombstone]:
    for holder, stones in ((known.local, known.here), *known.there.items()):
        for stone in stones:
            if _counts(known, stone, holder) and _is_over(known, stone):
                yield stone


def _counts(known: Knowledge, stone: Tombstone, holder: ClusterUID) -> bool:
    """Say whether who holds a tombstone may say so, today."""
    if stone.member == known.local or not known.today <= stone.until <= known.today + LASTS + _AHEAD:
        return False
    if stone.said_by in (known.local, holder):
        return holder == stone.said_by
    heard = known.there.get(stone.said_by)
    return heard is None or stone in heard


def _is_over(known: Knowledge, stone: Tombstone) -> bool:
    """Say whether a membership does not live on, for all that is known here."""
    if stone.member not in known.alive:
        return True
    own = known.lives.get(stone.member)
    return own is not None and not any(stone.covers(uid) for uid in own) and (bool(stone.membership) or not own)


def _may_stay(known: Knowledge, stone: Tombstone) -> bool:
    """Say whether a tombstone here is good for something still, or nothing is known that speaks against it."""
    if stone.member == known.local:
        return stone.said_by == known.local
    if stone.until < known.today:
        return False
    return _counts(known, stone, known.local) and (_is_over(known, stone) or stone.member not in known.lives)


def _witnessed(known: Knowledge) -> Iterator[Tombstone]:
    """Say of what members have shown us: our own word is as good as theirs, and can be had when they are gone."""
    for member in known.proven:
        for membership in known.met.get(member, ()):
            stone = Tombstone(member, membership, known.local, known.today + LASTS)
            if _is_over(known, stone):
                yield stone


def _to_keep(known: Knowledge, believed: frozenset[Tombstone]) -> frozenset[Tombstone]:
    """Choose the tombstones of memberships that are known here: what speaks of others fills no shelf of ours."""
    names = {stone.name for stone in known.here}
    members = {stone.member for stone in known.here}
    kept: dict[str, Tombstone] = {}
    for stone in [*sorted(believed - known.here), *_witnessed(known)]:
        met = known.memberships.get(stone.member, frozenset()) | known.met.get(stone.member, frozenset())
        if stone.membership in met and stone.name not in names:
            kept[stone.name] = stone
        elif "" in met and stone.member not in members:
            kept[stone.member] = stone  # of a membership that nobody could tell: one word is enough
    return frozenset(kept.values())


def _wait_s(known: Knowledge, stone: Tombstone) -> float | None:
    """Tell in how many seconds a member is to go on a tombstone that stands here; None while it is not."""
    here = known.memberships.get(stone.member, frozenset())
    if stone.member in known.alive or not all(uid is not None and stone.covers(uid) for uid in here):
        return None
    if not here or (stone.said_by == known.local and "" not in here - {stone.membership}):
        return 0.0
    silent_s = known.silent_s.get(stone.member)
    if silent_s is None or not known.trusts_after_s:
        return None
    return known.trusts_after_s - silent_s


def _has_left(known: Knowledge) -> bool:
    own = known.memberships.get(known.local, frozenset())
    over = {stone.membership for stone in known.here if stone.member == stone.said_by == known.local}
    return bool(over) and own <= over


def _released(known: Knowledge) -> Iterator[ClusterUID]:
    """List whom this cluster, which has left, need not wait for: who has no Cluster of it any more, or none here."""
    for member in known.memberships.keys() - {known.local}:
        if member in known.lives and member not in known.holds_us:
            yield member
