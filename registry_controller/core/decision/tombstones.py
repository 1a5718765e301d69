"""Departures by tombstone: which tombstones are valid, which are stored here, and which members they remove (O6).

Laws: a membership that is alive here ends by its own report, or by `leave NAME` here once its own Cluster has been
missing for long, and never while that Cluster is there · a tombstone is a report of the member that made it, and
a member that answers confirms or withdraws its own · a report of another member removes only a member that was silent
for long enough · no member is removed by a tombstone that is not stored here, so that a restart undoes no removal · a
removal is final.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone
from registry_controller.core.decision.days import AHEAD, is_day_agreed

LASTS: Final = timedelta(days=90)
"""The time for which a tombstone counts. A tombstone of another cluster with a later end is invalid."""
STAYS: Final = timedelta(days=30)
"""The time for which a tombstone stays, and counts, after its last day: a clock may be ahead for a while."""
_MOST_UNKNOWN: Final = 256
_MOST: Final = 512
"""The tombstones that may be stored here when one more is added, of a member that is unknown here or of a known one.

Members read at most 1,024 features of each other.
"""

Memberships = Mapping[ClusterUID, frozenset[str | None]]


@dataclass(frozen=True, slots=True)
class MembershipFacts:
    """The facts about memberships at one moment, which decide about tombstones.

    `here` are the tombstones stored here, `there` the tombstones at live members whose features are listed.
    `memberships` are the memberships of the Clusters here, by member: the Cluster's uid at the member itself, empty
    where it is unknown, None for a Cluster that a person carried here and that is not adopted yet. `lives` has, for
    each live member whose Clusters are listed, the uids of its Clusters for itself; `finds` the members, with their
    memberships, that are Ready there; `holds_us` are the members that have a Cluster of the local cluster. `met` are
    the memberships that were here and have no tombstone yet, by member, and `proven` the members with a proven
    departure. `ordered` are the stored tombstones of which this cluster knows that they are orders: `leave` was given
    here, or the member's own was read at the member. `returned` are stored tombstones with the note, here or
    at a live member, that their member was back with a later membership. `lasting` are the live members whose own
    Cluster has been missing for long.
    `revisions` are the last known revisions of the Clusters of memberships, by membership, `former` the memberships
    that were here before a later one of the same member. `withdrawn` has the author and the name of each
    tombstone of which the author, live or local, records that it was deleted there. `days` are the days at live
    members, by their clocks. `silent_s` is for how many seconds a member has been silent while other members answered.
    After `trusts_after_s` seconds of silence the report of another member counts; 0 means never.
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
    ordered: frozenset[Tombstone]
    lasting: frozenset[ClusterUID]
    revisions: Mapping[str, int]
    former: Mapping[ClusterUID, frozenset[str]]
    silent_s: Mapping[ClusterUID, float]
    withdrawn: frozenset[tuple[ClusterUID, str]]
    today: date
    days: frozenset[date]
    trusts_after_s: float
    returned: frozenset[Tombstone] = frozenset()

    @property
    def is_day_agreed(self) -> bool:
        """True while the clock of a live member agrees with the local one; otherwise nothing expires."""
        return is_day_agreed(self.today, there=self.days)

    def is_expired(self, stone: Tombstone) -> bool:
        """Report whether a tombstone counts no more, because its time is over."""
        return self.is_day_agreed and self.today - stone.until > STAYS

    def is_made_ahead(self, stone: Tombstone) -> bool:
        """Report whether a tombstone lasts longer than one that any known clock may have made."""
        return stone.until - max({self.today, *self.days}) > LASTS + AHEAD

    def is_farewell(self, stone: Tombstone) -> bool:
        """Report whether a live member shows that this membership of itself is over: by this tombstone, or its own."""
        shown = self.there.get(stone.member, ())
        return any(one.reported_by == one.member and one[:2] == stone[:2] for one in shown)

    def covers(self, stone: Tombstone, membership: str) -> bool:
        """Report whether a tombstone is about a membership of its member, or about a later one."""
        if stone.covers(membership):
            return True
        return _is_earlier(stone, membership, self.revisions.get(membership, 0), former=self.former)

    def is_order(self, stone: Tombstone) -> bool:
        """Report whether a stored tombstone is an order: `leave` here, or the tombstone that was read at the member."""
        return stone in self.ordered or self.is_farewell(stone)


@dataclass(frozen=True, slots=True)
class Leavers:
    """The effect of the tombstones.

    `gone` are the members to remove here, and the members whose Cluster was removed already. Of the latter, only
    credentials are deleted. `ordered` are those among them whose removal is an order. `has_left` means that the local
    cluster has left the group.
    `over` are the memberships with a valid tombstone, by member, `known` the memberships of the Clusters here.
    `to_keep` are tombstones to store here, too, `to_drop` stored tombstones to delete, `returned` stored tombstones
    whose member is or was back, with a later membership. `due_s` is in how many seconds time alone changes something;
    None for never.
    """

    gone: frozenset[ClusterUID] = frozenset()
    ordered: frozenset[ClusterUID] = frozenset()
    has_left: bool = False
    over: Mapping[ClusterUID, frozenset[str]] = field(default_factory=dict)
    stones: Mapping[ClusterUID, frozenset[Tombstone]] = field(default_factory=dict)
    """The valid tombstones, by member."""
    former: Mapping[ClusterUID, frozenset[str]] = field(default_factory=dict)
    known: Memberships = field(default_factory=dict)
    pending: Mapping[ClusterUID, frozenset[ClusterUID]] = field(default_factory=dict)
    """The members that report a departure, by member that is silent and still here."""
    to_keep: frozenset[Tombstone] = frozenset()
    farewells: frozenset[Tombstone] = frozenset()
    """The tombstones that live members show of themselves."""
    to_drop: frozenset[Tombstone] = frozenset()
    returned: frozenset[Tombstone] = frozenset()
    due_s: float | None = None

    def takes(self, member: ClusterUID, membership: str) -> bool:
        """Report whether the copy of a membership's Cluster is to be deleted; a newer Cluster is not."""
        return member in self.gone and membership in self.known.get(member, ())

    def bars(self, member: ClusterUID, membership: str, revision: int) -> bool:
        """Report whether relays bring no objects of a membership here; an empty `membership` is an unknown one.

        `revision` is that of the Cluster, 0 if it is unknown. Objects that are here may be updated until they are
        deleted: that brings no member back.
        """
        if member in self.known:
            return member in self.gone
        over = self.over.get(member, frozenset())
        if membership in over or "" in over or (not membership and over):
            return True
        stones = self.stones.get(member, ())
        return any(_is_earlier(stone, membership, revision, former=self.former) for stone in stones)


def _is_earlier(
    stone: Tombstone, membership: str, revision: int, *, former: Mapping[ClusterUID, frozenset[str]]
) -> bool:
    """Report whether a membership is earlier than that of a tombstone: by revision, else as it was met here."""
    if stone.revision and revision:
        return revision < stone.revision
    return membership in former.get(stone.member, ())


def leavers(known: MembershipFacts) -> Leavers:
    """Return the effect of the tombstones."""
    valid = frozenset(_valid(known))
    has_left = _has_left(known)
    standing: dict[ClusterUID, set[Tombstone]] = {}
    over: dict[ClusterUID, set[str]] = {}
    stones: dict[ClusterUID, set[Tombstone]] = {}
    for stone in valid:
        over.setdefault(stone.member, set()).add(stone.membership)
        stones.setdefault(stone.member, set()).add(stone)
        if stone in known.here:
            standing.setdefault(stone.member, set()).add(stone)
    waits_s = {member: _wait_s(known, member, stones) for member, stones in standing.items()}
    gone = {member for member, wait_s in waits_s.items() if wait_s is not None and wait_s <= 0}
    return Leavers(
        gone=frozenset(gone.union(_released(known)) if has_left else gone),
        ordered=frozenset(member for member in gone if all(map(known.is_order, _covering(known, standing[member])))),
        farewells=frozenset(stone for stone in valid if known.is_farewell(stone)),
        has_left=has_left,
        over={member: frozenset(found) for member, found in over.items()},
        stones={member: frozenset(found) for member, found in stones.items()},
        former=known.former,
        known=known.memberships,
        pending={
            member: frozenset(stone.reported_by for stone in stones if _covers(known, stone))
            for member, stones in standing.items()
            if member in known.memberships and member not in known.alive | gone
        },
        to_keep=_to_keep(known, valid),
        to_drop=frozenset(stone for stone in known.here if not _may_stay(known, stone)),
        returned=known.returned.union(stone for stone in known.here if _is_back_since(known, stone)),
        due_s=min((wait_s for wait_s in waits_s.values() if wait_s is not None and wait_s > 0), default=None),
    )


# Valid tombstones.


def _valid(known: MembershipFacts) -> Iterator[Tombstone]:
    for stone in known.here:
        if not known.is_expired(stone) and not _is_withdrawn(known, stone) and _is_over(known, stone):
            yield stone
    for peer, stones in known.there.items():
        for stone in stones:
            heard = _as_heard(known, stone, peer)
            if heard is not None and _is_valid_at(known, heard, peer) and _is_over(known, heard):
                yield heard


def _as_heard(known: MembershipFacts, stone: Tombstone, peer: ClusterUID) -> Tombstone | None:
    """Return a tombstone at a member; one that was made here, and was lost and not withdrawn, as that member's report.

    No report of this cluster comes from another one.
    """
    if stone.reported_by != known.local:
        return stone
    if stone.member == known.local or (known.local, stone.name) in known.withdrawn:
        return None
    heard = stone._replace(reported_by=peer)
    return None if _is_withdrawn(known, heard) else heard


def _is_valid_at(known: MembershipFacts, stone: Tombstone, peer: ClusterUID) -> bool:
    """Report whether a tombstone at a member is valid: the member's own report, or that of a third member."""
    if known.is_expired(stone) or known.is_made_ahead(stone):
        return False
    if stone.reported_by == peer:
        return True
    return stone in known.there.get(stone.reported_by, {stone})


def _is_withdrawn(known: MembershipFacts, stone: Tombstone) -> bool:
    """Report whether the member that made a stored tombstone has withdrawn it.

    Its absence there is not enough, because a restored backup lacks it, too. The author records that it was deleted, or
    the member is Ready there; after the removal of the member only the latter counts.
    """
    there = known.there.get(stone.reported_by)
    if there is None or stone in there:
        return False
    found = known.finds.get(stone.reported_by, frozenset())
    is_taken_back = (stone.reported_by, stone.name) in known.withdrawn
    return (is_taken_back and _covers(known, stone)) or any(
        member == stone.member and stone.covers(uid) for member, uid in found
    )


def _is_back_since(known: MembershipFacts, stone: Tombstone) -> bool:
    """Report whether a later membership than that of a tombstone is here: without its Cluster it has not left."""
    return any(uid and not known.covers(stone, uid) for uid in known.memberships.get(stone.member, ()))


def _covers(known: MembershipFacts, stone: Tombstone) -> bool:
    """Report whether a tombstone is about a membership that is here, and not about an earlier one."""
    return any(uid is not None and known.covers(stone, uid) for uid in known.memberships.get(stone.member, ()))


def _is_over(known: MembershipFacts, stone: Tombstone) -> bool:
    """Report whether a membership has ended, as far as is known here."""
    if stone.member == known.local:
        return False
    if stone.member not in known.alive:
        return True
    own = known.lives.get(stone.member)
    return own is not None and not any(stone.covers(uid) for uid in own)


# Stored tombstones.


def _may_stay(known: MembershipFacts, stone: Tombstone) -> bool:
    """Report whether a stored tombstone is still valid, or cannot be checked."""
    if stone.member == known.local:
        return stone.reported_by == known.local
    if known.is_expired(stone) or _is_withdrawn(known, stone):
        return False
    return _is_over(known, stone) or stone.member not in known.lives


def _to_keep(known: MembershipFacts, valid: frozenset[Tombstone]) -> frozenset[Tombstone]:
    """Choose the tombstones to store here, too: all of known members, and some of unknown members."""
    names = {stone.name for stone in known.here}
    members = {stone.member for stone in known.here}
    kept: dict[str, Tombstone] = {}
    for stone in [*sorted(valid - known.here), *_witnessed(known)]:
        count = len(kept) + len(names)
        met = known.memberships.get(stone.member, frozenset()) | known.met.get(stone.member, frozenset())
        if stone.name in names or stone.reported_by not in {known.local, *known.memberships} or count >= _MOST:
            continue  # its author must be known here, to be able to withdraw it
        if known.is_day_agreed and stone.until < known.today:
            continue  # it is not passed on any more
        if stone.membership in met:
            kept[stone.name] = stone
        elif met:  # of a membership that is unknown here, or of another one: one tombstone is enough
            if stone.member not in members and not any(held.member == stone.member for held in kept.values()):
                kept[stone.name] = stone
        elif count < _MOST_UNKNOWN:
            kept[stone.name] = stone
    return frozenset(kept.values())


def _witnessed(known: MembershipFacts) -> Iterator[Tombstone]:
    """Yield our own tombstones of proven departures: they stay readable when the member is gone."""
    for member in known.proven:
        for membership in sorted(known.met.get(member, ())):
            revision = known.revisions.get(membership, 0)
            stone = Tombstone(member, membership, known.local, known.today + LASTS, revision)
            if _is_over(known, stone):
                yield stone


# Removals.


def _wait_s(known: MembershipFacts, member: ClusterUID, stones: set[Tombstone]) -> float | None:
    """Return in how many seconds the stored tombstones remove a member; None while they do not."""
    here = known.memberships.get(member, frozenset())
    if member in known.alive:
        return _wait_for_live_s(known, member, stones)
    if not here:  # only credentials are left, which no Cluster names, and containers that are not empty
        if stones <= known.returned:
            return None
        was_another = any(not any(known.covers(stone, uid) for stone in stones) for uid in known.met.get(member, ()))
        counts = known.trusts_after_s or any(_counts_at_once(known, stone) for stone in stones)
        return 0.0 if counts and not was_another else None
    waits_s: list[float] = [0.0]
    for uid in here:
        found = [stone for stone in stones if uid is not None and known.covers(stone, uid)]
        if not found:
            return None
        if not any(_counts_at_once(known, stone) for stone in found):
            if member not in known.silent_s or not known.trusts_after_s:
                return None
            waits_s.append(known.trusts_after_s - known.silent_s[member])
    return max(waits_s)


def _wait_for_live_s(known: MembershipFacts, member: ClusterUID, stones: set[Tombstone]) -> float | None:
    """Return 0 when orders remove a member that answers; None while they do not.

    A member that shows its own tombstone and no Cluster of itself has left. That holds also where a person carried its
    Cluster here.
    """
    farewells = {stone for stone in stones if known.is_farewell(stone)}
    orders = farewells | {stone for stone in stones if stone in known.ordered and member in known.lasting}
    here = known.memberships.get(member, frozenset())
    is_no_member = bool(farewells) and known.lives.get(member) == frozenset()

    def is_over(uid: str | None) -> bool:
        return is_no_member if uid is None else any(known.covers(stone, uid) for stone in orders)

    return 0.0 if here and all(map(is_over, here)) else None


def _counts_at_once(known: MembershipFacts, stone: Tombstone) -> bool:
    return stone.reported_by == known.local or known.is_order(stone)


def _covering(known: MembershipFacts, stones: Iterable[Tombstone]) -> list[Tombstone]:
    """List the tombstones that are about the memberships here; all of them, if only credentials are left."""
    return [stone for stone in stones if _covers(known, stone)] or list(stones)


def _has_left(known: MembershipFacts) -> bool:
    is_reported = any(stone.member == stone.reported_by == known.local for stone in known.here)
    return is_reported and known.local not in known.memberships


def _released(known: MembershipFacts) -> Iterator[ClusterUID]:
    """Yield the members for which the local cluster, which has left, need not wait: they have no Cluster of ours."""
    for member in known.memberships.keys() - {known.local}:
        if member in known.lives and member not in known.holds_us:
            yield member
