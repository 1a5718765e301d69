"""One daemon of the abstract network, from a change to its rest: it writes until nothing is left to write.

Called: `plan_own_cluster`, `find_lost_farewell` and `relayed_claims`, and what `facts` and `deciding` call.

Law: a daemon's reaction depends on nothing but its cluster and, where an owner is asked by name, on that owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from registry_controller.api.tombstone import Tombstone
from registry_controller.core.decision.lost_cluster import LostClusterFacts, Make, plan_own_cluster
from registry_controller.core.decision.membership import relayed_claims
from registry_controller.core.decision.own_tombstone import FarewellFacts, find_lost_farewell
from registry_controller.core.decision.tombstones import Leavers
from tests.explore.called import IDS, NUMBERS, TODAY, Removal, Truths, stone_of, tombstone_of, uid_of, ways_to
from tests.explore.deciding import Deciding
from tests.explore.facts import seconds_of
from tests.explore.world import MEMBERS, NAMES, Cluster, Credentials, Held, Stone, named, put

_MOST: Final = 60


class Reaction(NamedTuple):
    """A cluster after its daemon has come to rest, and what the daemon deleted on the way."""

    cluster: Cluster
    removals: tuple[Removal, ...]


def react(who: int, cluster: Cluster, truths: Truths) -> Reaction:
    """Let a daemon write until nothing is left to write."""
    removals: list[Removal] = []
    for _ in range(_MOST):
        now = _Daemon(who, cluster, truths).step(removals)
        if now == cluster:
            return Reaction(cluster, tuple(removals))
        cluster = now
    raise AssertionError(f"{NAMES[who]}: its daemon does not come to rest: {cluster}")


class _Daemon(Deciding):
    """The steps of one daemon."""

    def _now(self) -> Cluster:
        return Cluster(self.store, self.notes, self.mind)

    def step(self, removals: list[Removal]) -> Cluster:
        """Take one step: the first write that is due."""
        self.observe()
        found = self.leavers()
        if self.keep_stones(found) or self._keep_own(found):
            return self._now()
        if self.decide_rule(found, removals):
            return self._now()
        for member in MEMBERS:
            if member != self.who and self.decide_all(member, found, removals):
                return self._now()
        self._report()
        return self._now()

    # The own Cluster.

    def _keep_own(self, found: Leavers) -> bool:
        """Make the own Cluster, publish credentials, or withdraw them; return whether anything changed."""
        own, secrets = self.own(), self.store.secrets[self.who]
        has_farewell = own is None and bool(self._own_stones(self.store.stones))
        if own is None and not has_farewell and (lost := find_lost_farewell(self._farewell_facts())) is not None:
            self.store = self.store._replace(stones=self.store.stones | {stone_of(lost)})
            return True
        if has_farewell:
            self.mind = self.mind._replace(missing=None, has_last=False)
            if not secrets or any(self.store.clusters):
                return False
            self.store = self.store._replace(secrets=put(self.store.secrets, self.who, ()))
            self.notes = self.notes._replace(accepted=0)
            return True
        if own is None:
            missing = self.mind.missing or 0
            self.mind = self.mind._replace(missing=missing)
            lost_facts = LostClusterFacts(
                name=NAMES[self.who],
                has_farewell=False,
                last={"metadata": {"name": NAMES[self.who]}} if self.mind.has_last else None,
                missing_s=seconds_of(missing),
                awaits_members=any(self._awaits(member) for member in MEMBERS),
            )
            if not isinstance(plan_own_cluster(lost_facts), Make):
                return False
            self._make_own()
            return True
        self.mind = self.mind._replace(missing=None)
        before = self.store
        self._publish(own)
        return self.store != before

    def _farewell_facts(self) -> FarewellFacts:
        """Return the facts about the own tombstones; nobody deletes one here, or withdraws it."""
        views = {number: peer.view for number, peer in self.peers() if peer.is_alive and peer.view is not None}
        held = {number: view.clusters[self.who] for number, view in views.items()}
        return FarewellFacts(
            has_cluster=self.own() is not None,
            saw_cluster=self.mind.has_last,
            stored=self._own_stones(self.store.stones),
            seen=frozenset(),
            withdrawn=frozenset(),
            alive=self._alive(),
            shown={IDS[number]: self._own_stones(view.stones) for number, view in views.items()},
            held_as={
                IDS[number]: frozenset({uid_of(self.who, one.membership)} if one is not None else ())
                for number, one in held.items()
            },
            today=TODAY,
        )

    def _own_stones(self, stones: Iterable[Stone]) -> frozenset[Tombstone]:
        return frozenset(tombstone_of(stone) for stone in stones if stone.member == stone.by == self.who)

    def _publish(self, own: Held) -> None:
        """Keep the Secret that the own Cluster names, with credentials that the API server accepts."""
        notes = self.notes
        if not notes.accepted:
            notes = notes._replace(tokens=notes.tokens + 1, accepted=notes.tokens + 1)
        self.notes = notes._replace(secret=own.secret)
        self.put_secret(self.who, own.secret, Credentials(own.secret, notes.accepted, is_copy=False))

    def _awaits(self, member: int) -> bool:
        peer = self.mind.peers[member]
        is_known = peer is not None and (not peer.is_alive or peer.view is not None)
        return member != self.who and self.store.clusters[member] is not None and not is_known

    def _make_own(self) -> None:
        cluster = with_own(self.who, self._now())
        self.store, self.notes = cluster.store, cluster.notes

    # Status.

    def _report(self) -> None:
        """Write which members are Ready, and since when one lacks its own Cluster."""
        clusters, absent = list(self.store.clusters), list(self.notes.absent)
        for member, held in enumerate(self.store.clusters):
            if held is None:
                absent[member] = None
                continue
            facts, peer = self.own_facts(member), self.mind.peers[member]
            is_ready = member == self.who or facts.is_heard
            clusters[member] = held._replace(is_ready=is_ready)
            if member != self.who and facts.is_heard:
                absent[member] = peer.absence[0] if peer is not None and peer.absence is not None else None
        self.store = self.store._replace(clusters=tuple(clusters))
        self.notes = self.notes._replace(absent=tuple(absent))


def with_own(who: int, cluster: Cluster) -> Cluster:
    """Return a cluster with a new own Cluster."""
    births, revisions = cluster.notes.births + 1, cluster.notes.revisions + 1
    own = Held(births, revisions, False, cluster.mind is not None, cluster.notes.secret)
    store = cluster.store._replace(clusters=put(cluster.store.clusters, who, own))
    return cluster._replace(store=store, notes=cluster.notes._replace(births=births, revisions=revisions))


def has_credentials(who: int, cluster: Cluster, member: int, *, token: int | None) -> bool:
    """Return whether a daemon has credentials that a member's API server accepts: its own, or those of a relay."""
    store, mind, held = cluster.store, cluster.mind, cluster.store.clusters[member]
    if mind is None or held is None or token is None:
        return False
    if any(way.token == token for way in ways_to(member, held, store.secrets[member])):
        return True
    daemon = _Daemon(who, cluster, (None,) * len(MEMBERS))
    state = daemon.secret_state(member, held.secret, daemon.leavers())
    for claim in relayed_claims(state):
        peer = mind.peers[NUMBERS[claim.peer]]
        offered = named(peer.view.secrets[member], held.secret) if peer is not None and peer.view is not None else None
        if offered is not None and offered.token == token:
            return True
    return False


def lacks_its_cluster(who: int, cluster: Cluster, member: int) -> bool:
    """Return whether the status here says that a member has lacked its own Cluster for long, and not all Clusters."""
    if cluster.mind is None:
        return False
    daemon = _Daemon(who, cluster, (None,) * len(MEMBERS))
    facts = daemon.own_facts(member)
    return facts.is_heard and not facts.has_own and facts.has_any and daemon.has_lasted(member, by_itself=False)
