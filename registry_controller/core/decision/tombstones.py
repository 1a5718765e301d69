"""Who has left on somebody's word: what tombstones are believed, kept, and acted on (O6).

Laws: of a membership that is alive here nobody's word counts but its own · a tombstone is the word of whoever made it,
and who is heard speaks for itself · on another's word only who was silent for long enough goes · nothing is done on a
tombstone that is not kept here, so that a restart does not undo it, and what was done stays done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone

LASTS: Final = timedelta(days=90)
"""How long a tombstone counts. One of another cluster that wants to count for longer is none."""
_AHEAD: Final = timedelta(days=7)
"""By how much clocks may differ."""
_STRANGERS: Final = 256
_MOST: Final = 512
"""How many tombstones may stand here when one more of a member that is not known here is kept, or of one that is.

Members read at most 1,024 features of each other.
"""

Memberships = Mapping[ClusterUID, frozenset[str | None]]


@dataclass(frozen=True, slots=True)
class MembershipFacts:
    """What bears on tombstones, at one moment.

    `here` are those that stand here, `there` those that live members hold whose features were heard. `memberships`
    are those of the Clusters here, by the member for which they stand: the uid that the Cluster has at the member
    itself, empty where nobody has told it, None for a Cluster that was carried here by hand and has not been adopted.
    `lives` has, for each live member whose Clusters were heard, the uids of those that it has of itself; `finds` what
    it finds Ready: members and their memberships; `holds_us` are those that have a Cluster of ours. `met` are the
    memberships that were here and have no tombstone yet, by member, and `proven` the members that have shown us that
    they have left. `silent_s` says for how many seconds a member has been silent while others were heard.
    `trusts_after_s` is how long that must be before another's word counts; 0 for never.
    """

    local: ClusterUID
    here: frozenset[Tombstone]
    there: Mapping[ClusterUID, frozenset[Tombstone]]
    alive: frozenset[ClusterUID]
    memberships: Memberships
    lives: Mapping[ClusterUID, frozenset[str]]
    finds: Mapping[ClusterUID, frozenset[tuple[ClusterUID, str]]]
    holds_us: frozenset[ClusterUID]
    met: Mapping[ClusterUID, frozenset[str]]
    proven: frozenset[ClusterUID]
    silent_s: Mapping[ClusterUID, float]
    today: date
    trusts_after_s: float


@dataclass(frozen=True, slots=True)
class Leavers:
    """What tombstones come to.

    `gone` are the members that are to go from here, or whose Cluster has gone; of the latter only credentials may be
    left, and nothing else may go on their account. `has_left` says that this cluster has left itself.
    `over` are the memberships of which a tombstone is believed, by member, `known` those of the Clusters here.
    `to_keep` are tombstones that are to stand here, too, `to_drop` those that are here and should not be. `due_s` is
    in how many seconds the mere passing of time changes something; None for never.
    """

    gone: frozenset[ClusterUID] = frozenset()
    has_left: bool = False
    over: Mapping[ClusterUID, frozenset[str]] = field(default_factory=dict)
    known: Memberships = field(default_factory=dict)
    pending: Mapping[ClusterUID, frozenset[ClusterUID]] = field(default_factory=dict)
    """Of members that do not answer, and are still here: who says that they have left."""
    to_keep: frozenset[Tombstone] = frozenset()
    to_drop: frozenset[Tombstone] = frozenset()
    due_s: float | None = None

    def takes(self, member: ClusterUID, membership: str) -> bool:
        """Say whether the copy of a membership's Cluster is to go; one that came since is not judged yet."""
        return member in self.gone and membership in self.known.get(member, ())

    def bars(self, member: ClusterUID, membership: str) -> bool:
        """Say whether nothing of a membership comes here through others; empty for one that cannot be told.

        What is here may be kept fresh for as long as it is not to go: that brings nobody back.
        """
        if member in self.known:
            return member in self.gone
        over = self.over.get(member, frozenset())
        return membership in over or "" in over or (not membership and bool(over))


def leavers(known: MembershipFacts) -> Leavers:
    """Say what tombstones come to."""
    believed = frozenset(_believed(known))
    has_left = _has_left(known)
    standing: dict[ClusterUID, set[Tombstone]] = {}
    over: dict[ClusterUID, set[str]] = {}
    for stone in believed:
        over.setdefault(stone.member, set()).add(stone.membership)
        if stone in known.here:
            standing.setdefault(stone.member, set()).add(stone)
    waits_s = {member: _wait_s(known, member, stones) for member, stones in standing.items()}
    gone = {member for member, wait_s in waits_s.items() if wait_s is not None and wait_s <= 0}
    return Leavers(
        gone=frozenset(gone.union(_released(known)) if has_left else gone),
        has_left=has_left,
        over={member: frozenset(found) for member, found in over.items()},
        known=known.memberships,
        pending={
            member: frozenset(stone.reported_by for stone in stones if _covers(known, stone))
            for member, stones in standing.items()
            if member in known.memberships and member not in known.alive | gone
        },
        to_keep=_to_keep(known, believed),
        to_drop=frozenset(stone for stone in known.here if not _may_stay(known, stone)),
        due_s=min((wait_s for wait_s in waits_s.values() if wait_s is not None and wait_s > 0), default=None),
    )


# What is believed.


def _believed(known: MembershipFacts) -> Iterator[Tombstone]:
    for stone in known.here:
        if stone.until >= known.today and not _is_withdrawn(known, stone) and _is_over(known, stone):
            yield stone
    for holder, stones in known.there.items():
        for stone in stones:
            if _may_say(known, stone, holder) and _is_over(known, stone):
                yield stone


def _may_say(known: MembershipFacts, stone: Tombstone, holder: ClusterUID) -> bool:
    """Say whether a member that holds a tombstone may say so: as its own word, or as that of another member."""
    if not known.today <= stone.until <= known.today + LASTS + _AHEAD or stone.reported_by == known.local:
        return False
    if stone.reported_by == holder:
        return True
    return stone in known.there.get(stone.reported_by, {stone})


def _is_withdrawn(known: MembershipFacts, stone: Tombstone) -> bool:
    """Say whether whoever made a tombstone that stands here has taken it back.

    After it was acted on that takes more than its absence, which may be that of a restored backup: the member must be
    Ready there.
    """
    said = known.there.get(stone.reported_by)
    if said is None or stone in said:
        return False
    found = known.finds.get(stone.reported_by, frozenset())
    return _covers(known, stone) or any(member == stone.member and stone.covers(uid) for member, uid in found)


def _covers(known: MembershipFacts, stone: Tombstone) -> bool:
    """Say whether a tombstone speaks of a membership that stands here, and not of an earlier one."""
    return any(uid is not None and stone.covers(uid) for uid in known.memberships.get(stone.member, ()))


def _is_over(known: MembershipFacts, stone: Tombstone) -> bool:
    """Say whether a membership does not live on, for all that is known here."""
    if stone.member == known.local:
        return False
    if stone.member not in known.alive:
        return True
    own = known.lives.get(stone.member)
    return own is not None and not any(stone.covers(uid) for uid in own)


# What stands here.


def _may_stay(known: MembershipFacts, stone: Tombstone) -> bool:
    """Say whether a tombstone here is good for something still, or nothing is known that speaks against it."""
    if stone.member == known.local:
        return stone.reported_by == known.local
    if stone.until < known.today or _is_withdrawn(known, stone):
        return False
    return _is_over(known, stone) or stone.member not in known.lives


def _to_keep(known: MembershipFacts, believed: frozenset[Tombstone]) -> frozenset[Tombstone]:
    """Choose the tombstones that are to stand here, too: all of members that are known here, some of others."""
    names = {stone.name for stone in known.here}
    members = {stone.member for stone in known.here}
    kept: dict[str, Tombstone] = {}
    for stone in [*sorted(believed - known.here), *_witnessed(known)]:
        count = len(kept) + len(names)
        met = known.memberships.get(stone.member, frozenset()) | known.met.get(stone.member, frozenset())
        if stone.name in names or stone.reported_by not in {known.local, *known.memberships} or count >= _MOST:
            continue  # who said it must be known here, to be able to take it back
        if stone.membership in met:
            kept[stone.name] = stone
        elif met:  # of a membership that nobody here could tell, or of another one: one word is enough
            if stone.member not in members and not any(held.member == stone.member for held in kept.values()):
                kept[stone.name] = stone
        elif count < _STRANGERS:
            kept[stone.name] = stone
    return frozenset(kept.values())


def _witnessed(known: MembershipFacts) -> Iterator[Tombstone]:
    """Say of what members have shown us: our own word is as good as theirs, and can be had when they are gone."""
    for member in known.proven:
        for membership in sorted(known.met.get(member, ())):
            stone = Tombstone(member, membership, known.local, known.today + LASTS)
            if _is_over(known, stone):
                yield stone


# What is done.


def _wait_s(known: MembershipFacts, member: ClusterUID, stones: set[Tombstone]) -> float | None:
    """Tell in how many seconds a member goes on the tombstones that stand here; None while it does not."""
    here = known.memberships.get(member, frozenset())
    if member in known.alive:
        return None
    if not here:  # what is left are credentials that nobody names
        was_another = any(not any(stone.covers(uid) for stone in stones) for uid in known.met.get(member, ()))
        counts = known.trusts_after_s or any(stone.reported_by == known.local for stone in stones)
        return 0.0 if counts and not was_another else None
    waits_s: list[float] = [0.0]
    for uid in here:
        said_by = {stone.reported_by for stone in stones if uid is not None and stone.covers(uid)}
        if not said_by:
            return None
        if known.local not in said_by:
            if member not in known.silent_s or not known.trusts_after_s:
                return None
            waits_s.append(known.trusts_after_s - known.silent_s[member])
    return max(waits_s)


def _has_left(known: MembershipFacts) -> bool:
    said = any(stone.member == stone.reported_by == known.local for stone in known.here)
    return said and known.local not in known.memberships


def _released(known: MembershipFacts) -> Iterator[ClusterUID]:
    """List whom this cluster, which has left, need not wait for: who has no Cluster of it any more."""
    for member in known.memberships.keys() - {known.local}:
        if member in known.lives and member not in known.holds_us:
            yield member
