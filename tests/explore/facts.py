"""What one daemon of the abstract network knows: its own functions judge who is missing, and who has left.

Called: `leavers`, `observe_absence`, `lasts_from_s`, `left_from_s`, `evaluate_traces`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache
from typing import Final

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID
from registry_controller.core.decision.absence import (
    Absence,
    OwnClusterFacts,
    lasts_from_s,
    left_from_s,
    observe_absence,
)
from registry_controller.core.decision.deleted_rule import RuleTraces, SeenDeletion, StoredAs, evaluate_traces
from registry_controller.core.decision.marks import NATIVE, Marks, is_at_home
from registry_controller.core.decision.rule_state import RulePresence
from registry_controller.core.decision.tombstones import Leavers, MembershipFacts, leavers
from tests.explore.called import IDS, TODAY, Truths, marks_of, met_after, stone_of, tombstone_of, uid_of, ways_to
from tests.explore.world import (
    ABSENCE,
    TRUST,
    WINDOW,
    Cluster,
    Held,
    Peer,
    Rule,
    Store,
    put,
)

_SECONDS: Final = {WINDOW: 30.0, ABSENCE: 600.0}
"""How many seconds an age stands for; other ages are just begun."""
_Ages = tuple[int, int | None, bool]
"""What `Peer.absence` has."""


class Facts:
    """The facts of one daemon at one moment."""

    def __init__(self, who: int, cluster: Cluster, truths: Truths) -> None:
        assert cluster.mind is not None
        self.who = who
        self.cluster = cluster
        self.store, self.notes = cluster.store, cluster.notes
        both = zip(self.store.clusters, self.store.secrets, strict=True)
        is_read = [bool(ways_to(member, *known)) for member, known in enumerate(both)]
        peers = tuple(peer if read else None for peer, read in zip(cluster.mind.peers, is_read, strict=True))
        # Who has no Cluster or Secret here is read no more.
        self.mind = cluster.mind if peers == cluster.mind.peers else cluster.mind._replace(peers=peers)
        self.truths = truths

    def peers(self) -> Iterator[tuple[int, Peer]]:
        for number, peer in enumerate(self.mind.peers):
            if peer is not None:
                yield number, peer

    def _with_peer(self, member: int, peer: Peer) -> None:
        self.mind = self.mind._replace(peers=put(self.mind.peers, member, peer))

    # What is known of the members' own Clusters.

    def own_facts(self, member: int) -> OwnClusterFacts:
        peer = self.mind.peers[member]
        if peer is None or peer.view is None or not peer.is_alive or not peer.is_connected:
            return OwnClusterFacts(is_heard=False)
        clusters = peer.view.clusters
        return OwnClusterFacts(is_heard=True, has_own=clusters[member] is not None, has_any=any(clusters))

    def observe(self) -> None:
        """Observe absences and silences, and note the memberships that are here."""
        for member, peer in self.peers():
            stored = self.notes.absent[member]
            absence = _observe(self.own_facts(member), peer.absence, stored)
            is_counted = not peer.is_alive and any(stone.member == member for stone in self.store.stones)
            silent = (peer.silent or 0) if is_counted else None
            if (absence, silent) != (peer.absence, peer.silent):
                self._with_peer(member, peer._replace(absence=absence, silent=silent))
        met, last, former, revisions = met_after(
            self.who, self.store.clusters, self.store.stones, (self.mind.met, self.mind.last, self.mind.former),
            self.mind.revisions,
        )  # fmt: skip
        has_last = self.mind.has_last or self.own() is not None
        self.mind = self.mind._replace(met=met, last=last, former=former, revisions=revisions, has_last=has_last)
        self._observe_rule()

    def _observe_rule(self) -> None:
        """Note the rule that acts: one that is not here any more acts for the stabilization window."""
        mind, stored = self.mind, self.store.rule
        if stored is not None:
            if mind.acting != stored or mind.ending is not None:
                self.mind = mind._replace(acting=stored, ending=None)
        elif mind.acting is not None and mind.ending is None:
            self.mind = mind._replace(ending=0)
        elif mind.ending == WINDOW:
            self.mind = mind._replace(acting=None, ending=None)

    # The rule.

    def traces(self, rule: Rule) -> RuleTraces:
        """Return what is known of a rule at its owner."""
        is_local, peer = rule.home == self.who, self.mind.peers[rule.home]
        view = peer.view if peer is not None else None
        is_heard = self.mind.running == WINDOW and (
            is_local or (view is not None and peer is not None and peer.is_alive)
        )
        stored, seen, recorded = StoredAs.NONE, self.mind.seen, self.store.record
        acting = self.mind.acting
        if is_local and acting is not None:
            stored = StoredAs.ITSELF if acting.home == self.who else StoredAs.ANOTHER
        elif not is_local and peer is not None and view is not None:
            seen, recorded = peer.seen, frozenset(uid for uid, age in peer.record if age == WINDOW)
            if view.rule is not None:
                marks = _marks_of_rule(view.rule)
                is_own = is_at_home(marks, peer=IDS[rule.home], membership=False)
                stored = StoredAs.ITSELF if is_own else StoredAs.ANOTHER
        return RuleTraces(
            uid=f"r{rule.uid}",
            is_local=is_local,
            is_heard=is_heard,
            stored=stored,
            seen=[SeenDeletion(f"r{uid}", 2, seconds_of(age)) for uid, age in seen],
            recorded=frozenset(f"r{uid}" for uid in recorded),
            defined_since=1 if is_local else None,
            was_in_definition=True,
        )

    def evaluate_rule(self, rule: Rule) -> tuple[RulePresence, bool]:
        return evaluate_traces(self.traces(rule), window_s=seconds_of(WINDOW))

    def own(self) -> Held | None:
        return self.store.clusters[self.who]

    def _ends_s(self, member: int, *, by_itself: bool) -> float | None:
        peer = self.mind.peers[member]
        absence = _absence(peer.absence) if peer is not None else None
        if absence is None:
            return None
        ends = left_from_s if by_itself else lasts_from_s
        return ends(absence, lasts_s=seconds_of(ABSENCE), window_s=seconds_of(WINDOW))

    def has_lasted(self, member: int, *, by_itself: bool) -> bool:
        """Return whether an absence has lasted, so that `leave NAME` counts, or the member has left by itself."""
        at_s = self._ends_s(member, by_itself=by_itself)
        return at_s is not None and at_s <= 0

    # Tombstones.

    def leavers(self) -> Leavers:
        """Return what the tombstones lead to; the same facts are judged once."""
        peers = tuple(
            None
            if peer is None
            else (peer.is_alive, peer.silent, self.has_lasted(number, by_itself=False), *_listed(peer.view))
            for number, peer in enumerate(self.mind.peers)
        )
        key = (
            self.who, self.store.clusters, self.store.stones, self.notes.ordered, self.mind.met, self.mind.former,
            self.mind.revisions, self.mind.left, peers,
        )  # fmt: skip
        found = _LEAVERS.get(key)
        if found is None:
            found = _LEAVERS[key] = leavers(self.gather())
        return found

    def gather(self) -> MembershipFacts:
        live = {number: peer for number, peer in self.peers() if peer.is_alive}
        listed = {number: peer.view for number, peer in live.items() if peer.view is not None}
        here = frozenset(map(tombstone_of, self.store.stones))
        there = {IDS[number]: frozenset(map(tombstone_of, view.stones)) for number, view in listed.items()}
        proven = frozenset(IDS[member] for member, _ in self.mind.left)
        read = listed if here or proven or any(there.values()) else {}
        return MembershipFacts(
            local=IDS[self.who],
            here=here,
            there=there,
            alive=frozenset(IDS[number] for number in live),
            memberships={
                IDS[member]: frozenset({self.membership(member, held)})
                for member, held in enumerate(self.store.clusters)
                if held is not None
            },
            lives={
                IDS[number]: frozenset({uid_of(number, own.membership)} if (own := view.clusters[number]) else ())
                for number, view in read.items()
            },
            finds={IDS[number]: frozenset(_ready(number, view)) for number, view in read.items()},
            holds_us=frozenset(IDS[number] for number, view in read.items() if view.clusters[self.who] is not None),
            met={
                IDS[member]: frozenset(uid_of(member, one) for one in met) for member, met in enumerate(self.mind.met)
            },
            proven=proven,
            ordered=frozenset(map(tombstone_of, self.notes.ordered)),
            lasting=frozenset(IDS[number] for number, _ in self.peers() if self.has_lasted(number, by_itself=False)),
            revisions={uid_of(member, one): revision for member, one, revision in self.mind.revisions},
            former={
                IDS[one]: frozenset(uid_of(one, uid) for uid in former) for one, former in enumerate(self.mind.former)
            },
            silent_s={IDS[number]: float(peer.silent) for number, peer in self.peers() if peer.silent is not None},
            withdrawn=frozenset(),
            today=TODAY,
            days=frozenset({TODAY}),
            trusts_after_s=float(TRUST),
        )

    def membership(self, member: int, held: Held) -> str | None:
        return uid_of(member, held.membership) if held.is_copy or member == self.who else None

    def keep_stones(self, found: Leavers) -> bool:
        """Store and delete tombstones as asked; return whether there were any."""
        if not (found.to_keep or found.to_drop or self.notes.ordered):
            return False
        kept = {stone_of(stone) for stone in found.to_keep}
        stones = (self.store.stones | kept) - {stone_of(stone) for stone in found.to_drop}
        is_changed = stones != self.store.stones
        orders = {stone_of(stone) for stone in found.farewells} & kept
        self.store = self.store._replace(stones=stones)
        self.notes = self.notes._replace(ordered=(self.notes.ordered | orders) & stones)
        return is_changed


def _marks_of_rule(rule: Rule) -> Marks:
    return marks_of(meta.RULE, rule.home, f"r{rule.uid}", rule.uid) if rule.is_copy else NATIVE


def _ready(peer: int, view: Store) -> Iterator[tuple[ClusterUID, str]]:
    for member, held in enumerate(view.clusters):
        if held is not None and held.is_ready:
            yield IDS[member], uid_of(member, held.membership) if held.is_copy or member == peer else ""


def _listed(view: Store | None) -> tuple[Hashable, ...]:
    return (None, None) if view is None else (view.clusters, view.stones)


_LEAVERS: dict[Hashable, Leavers] = {}


def seconds_of(age: int) -> float:
    return _SECONDS.get(age, 0.0)


@cache
def _observe(facts: OwnClusterFacts, known: _Ages | None, stored: int | None) -> _Ages | None:
    since_s = None if stored is None else -seconds_of(stored)
    return _ages(observe_absence(facts, _absence(known), now_s=0.0, stored_since_s=since_s))


def _absence(ages: _Ages | None) -> Absence | None:
    if ages is None:
        return None
    since, heard, has_any = ages
    return Absence(-seconds_of(since), None if heard is None else -seconds_of(heard), has_any)


def _ages(absence: Absence | None) -> _Ages | None:
    if absence is None:
        return None
    heard = absence.heard_since_s
    return _age(absence.since_s), None if heard is None else _age(heard), absence.has_any


def _age(at_s: float) -> int:
    return max((age for age, seconds in _SECONDS.items() if seconds <= -at_s), default=0)
