"""Collects the tombstones here and at live members; `core/decision/tombstones.py` decides which members have left.

Laws: all tombstones are evaluated again with every plan · nothing is written in here: the local controller reads which
tombstones to create and which to delete.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Final, NoReturn, Protocol

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, State
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import Feature, read_feature
from registry_controller.api.meta import GVR, ClusterUID, Manifest
from registry_controller.api.tombstone import (
    Tombstone,
    further_labels,
    has_returned,
    is_later_tombstone,
    is_ordered,
    read_original_tombstone,
    read_tombstone,
    read_withdrawal,
    withdrawal_manifest,
)
from registry_controller.cache.members import cluster_target, membership_marked
from registry_controller.cache.registry import Registry
from registry_controller.cache.stored_objects import StoredCluster
from registry_controller.clusters.liveness import SilenceTimer
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.watch_plan import differing
from registry_controller.core.decision.marks import Marks, read_marks
from registry_controller.core.decision.met_memberships import MetMemberships, note_memberships
from registry_controller.core.decision.own_tombstone import FarewellFacts, find_lost_farewell
from registry_controller.core.decision.tombstones import STAYS, Leavers, MembershipFacts, Memberships, leavers
from registry_controller.membership.absences import Absences
from registry_controller.membership.departures import Departures
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_DELETED_S: Final = 300.0
"""For how long a tombstone is not created again after it was deleted here, unless its member shows it of itself."""
_LEAST_S: Final = 0.001
"""The least time between updates that time alone asks for: a timer may end a little before its moment."""
_PERIOD_S: Final = 3600.0  # for the date


class TombstoneObserver(Protocol):
    """Receives the effects of tombstones."""

    def on_member_changed(self, member: ClusterUID) -> None:
        """The objects and copies of this member need new decisions."""

    def on_relays_changed(self) -> None:
        """The relayed Clusters and Secrets need new decisions: another peer's tombstones are known."""

    def on_left(self) -> None:
        """This cluster has left the group."""

    def on_tombstones_changed(self) -> None:
        """Tombstones are to be created or deleted here."""


class TombstoneTracker:
    """The conclusions from all tombstones (`now`).

    Of several replicas here, the one for which `writes_status_of` returns True creates and deletes a tombstone. A
    relay's tombstone counts after its member has been silent for `trusts_after_s` seconds; 0 is never.
    """

    def __init__(
        self,
        *,
        local: ClusterUID,
        trusts_after_s: float,
        registry: Registry,
        peers: Mapping[ClusterUID, Peer],
        absences: Absences,
        departures: Departures,
        writes_status_of: Callable[[GVR, str], bool],
        today: Callable[[], date],
        observer: TombstoneObserver,
    ) -> None:
        self.now = Leavers()
        self._local = local
        self._trusts_after_s = trusts_after_s
        self._registry = registry
        self._peers = peers
        self._absences = absences
        self._departures = departures
        self._writes_status_of = writes_status_of
        self._today = today
        self._observer = observer
        self._known_at: frozenset[ClusterUID] = frozenset()
        self._met = MetMemberships()
        self._revisions: dict[str, int] = {}
        self._silence = SilenceTimer(peers)
        self._names: set[str] = set()
        self._withdrawing: frozenset[Tombstone] = frozenset()
        self._lost_farewell: Tombstone | None = None
        self._farewells: Mapping[Tombstone, Mapping[str, str]] = {}
        """The own tombstones that were here since this cluster had a Cluster last, with their further labels."""
        self._deleted_at_s: dict[str, float] = {}
        self._is_updated = asyncio.Event()

    def update(self) -> None:
        """Evaluate all tombstones again, and report the differences."""
        self._absences.update()
        facts = self._gather()
        was, self.now = self.now, leavers(facts)
        self._known_at, before = frozenset(facts.there), self._known_at
        if self._known_at - before:
            self._observer.on_relays_changed()
        for member in sorted(self.now.gone - was.gone):
            log.info("member left: a tombstone records it", clusterID=member)
        changed = differing(was.over, self.now.over) | (self.now.gone ^ was.gone) | (self.now.ordered ^ was.ordered)
        changed |= {member for member in differing(was.known, self.now.known) if member in self.now.over}
        if self.now.has_left != was.has_left:
            if self.now.has_left:
                log.info("this cluster has left the group")
                self._observer.on_left()
            else:
                log.info("this cluster is a member again")
            changed |= self.now.known.keys()
        for member in sorted(changed):
            self._observer.on_member_changed(member)
        before_withdrawn, self._withdrawing = self._withdrawing, frozenset(self._withdrawals())
        is_changed = _kept(self.now) != _kept(was)
        before_lost, self._lost_farewell = self._lost_farewell, self._find_lost_farewell()
        if is_changed or self._withdrawing != before_withdrawn or self._lost_farewell != before_lost:
            self._observer.on_tombstones_changed()
        self._is_updated.set()

    def bars(self, peer: ClusterUID, member: ClusterUID, membership: str, revision: int) -> bool:
        """Return whether objects of a membership that a peer relays are not copied here.

        `revision` is that of the membership's Cluster, 0 if it is unknown. Until the peer's own tombstones are known,
        no unknown member is: one of them may be about it.
        """
        is_unheard = peer not in self._known_at and member not in self.now.known
        return is_unheard or self.now.bars(member, membership, revision)

    def gone(self, natural: ClusterUID | None, marks: Marks | None) -> frozenset[ClusterUID]:
        """Return the members that are gone, for a decision on the Cluster of `natural` with these marks, or on none.

        A membership that began after the last update is not gone.
        """
        if natural is None or marks is None or self.now.takes(natural, membership_marked(marks, natural)):
            return self.now.gone
        return self.now.gone - {natural}

    def ends(self, member: ClusterUID) -> bool:
        """Return whether a member has left that has no Cluster here now, or this cluster has.

        A tombstone covers the membership that was here last, or the member's own Cluster was missing for long.
        """
        last = self._met.last.get(member) or {""}
        is_barred = any(self.now.bars(member, uid, self._revisions.get(uid, 0)) for uid in last)
        return self.now.has_left or member in self._departures.left or is_barred

    def judged(self, members: frozenset[ClusterUID]) -> frozenset[ClusterUID]:
        """Return the members among these that had a Cluster here at the last update."""
        return frozenset(member for member in members if member in self.now.known)

    def list_missing(self) -> Iterable[Tombstone]:
        """List the tombstones to create here."""
        due_s = asyncio.get_running_loop().time() - _DELETED_S
        lost = self._find_lost_farewell()
        return [
            stone
            for stone in (self.now.to_keep if lost is None else {*self.now.to_keep, lost})
            if (self.is_farewell(stone) or self._deleted_at_s.get(stone.name, due_s) <= due_s)
            and self._is_written_here(stone)
            and stone.name not in self._registry.features  # as one of a later format
        ]

    def further_labels(self, stone: Tombstone) -> Mapping[str, str]:
        """Return the labels beside the fields of a tombstone to create here; of different ones the author's."""
        if stone in self._farewells:
            return self._farewells[stone]
        labels: dict[str, str] = {}
        for uid in sorted(self._peers, key=lambda uid: uid == stone.reported_by):
            for feature, shown in _read_tombstones(self._peers[uid].features.held or ()):
                if shown.name == stone.name:
                    labels |= further_labels(feature.labels)
        return labels

    def has_lost_farewell(self) -> bool:
        """Return whether this cluster has left, and its own tombstone was lost here."""
        return self._find_lost_farewell() is not None

    def _find_lost_farewell(self) -> Tombstone | None:
        standing = frozenset(stone for _, stone in self._standing() if self._is_own(stone))
        has_cluster = bool(self._registry.local_clusters(self._local))
        if standing or has_cluster:
            return None
        if any(is_later_tombstone(manifest, of=self._local) for manifest in self._registry.features.values()):
            return None
        live = {uid: peer for uid, peer in self._peers.items() if peer.is_alive}
        features = {uid: peer.features.held for uid, peer in live.items()}
        clusters = {uid: peer.clusters.held for uid, peer in live.items()}
        return find_lost_farewell(
            FarewellFacts(
                has_cluster=has_cluster,
                saw_cluster=self._local in self._registry.deleted_clusters,
                stored=standing,
                seen=frozenset(self._farewells),
                withdrawn=frozenset(name for author, name in self._withdrawn(live) if author == self._local),
                alive=frozenset(live),
                shown={
                    uid: frozenset(stone for _, stone in _read_tombstones(held) if self._is_own(stone))
                    for uid, held in features.items()
                    if held is not None
                },
                held_as={
                    uid: frozenset(one.membership for one in held.values() if one.cluster_id == self._local)
                    for uid, held in clusters.items()
                    if held is not None
                },
                today=self._today(),
            )
        )

    def _is_own(self, stone: Tombstone) -> bool:
        return stone.member == stone.reported_by == self._local

    def is_farewell(self, stone: Tombstone) -> bool:
        """Return whether the member shows this tombstone of itself, so that it is an order here, or it is our own."""
        return stone in self.now.farewells or self._is_own(stone)

    def list_unwanted(self) -> Iterator[Manifest]:
        """List the tombstone objects to delete here."""
        standing = list(self._standing())
        names = {stone.name for _, stone in standing if stone.reported_by == self._local}
        for manifest, stone in standing:
            if stone in self.now.to_drop and self._is_written_here(stone):
                yield manifest
        for manifest in self._registry.features.values():
            withdrawal = self._own_withdrawal(manifest)
            if withdrawal is not None and (withdrawal.name in names or self._today() - withdrawal.until > STAYS):
                yield manifest

    def list_returned(self) -> Iterator[Manifest]:
        """List the tombstone objects in which it is to be noted that their member is back."""
        for manifest, stone in self._standing():
            is_noted = has_returned(meta.labels_of(manifest))
            if stone in self.now.returned and not is_noted and self._is_written_here(stone):
                yield manifest

    def _own_withdrawal(self, manifest: Manifest) -> Tombstone | None:
        if meta.is_marked_as_copy(manifest, at=self._local):
            return None
        with contextlib.suppress(InvalidObject):
            found = read_withdrawal(read_feature(manifest))
            return found if found is not None and found.reported_by == self._local else None
        return None

    def list_withdrawals(self) -> Iterable[Manifest]:
        """List the records to create here: tombstones of this cluster that were deleted here."""
        found = map(withdrawal_manifest, self._withdrawals())
        return [one for one in found if one["metadata"]["name"] not in self._registry.features]

    def _withdrawals(self) -> Iterator[Tombstone]:
        for stone in self._registry.deleted_tombstones.values():
            if stone.reported_by == self._local and stone.until >= self._today() and self._is_written_here(stone):
                yield stone

    def _withdrawn(self, live: Mapping[ClusterUID, Peer]) -> Iterator[tuple[ClusterUID, str]]:
        """List the authors and names of the tombstones that are withdrawn."""
        for stone in self._registry.deleted_tombstones.values():
            yield stone.reported_by, stone.name
        held = {uid: peer.features.held or () for uid, peer in live.items()}
        held[self._local] = tuple(self._own_features())
        for author, features in held.items():
            for stone in filter(None, map(read_withdrawal, features)):
                if stone.reported_by == author:
                    yield author, stone.name

    def _own_features(self) -> Iterator[Feature]:
        for manifest in self._registry.features.values():
            with contextlib.suppress(InvalidObject):
                yield read_feature(manifest)

    async def run(self) -> NoReturn:
        """Update when time alone changes the conclusions."""
        while True:
            self._is_updated.clear()
            stones_s = min(_PERIOD_S, self.now.due_s or _PERIOD_S) if self.now.over else None
            due_s = min((at_s for at_s in (stones_s, self._absences.due_s) if at_s is not None), default=None)
            try:
                async with asyncio.timeout(max(_LEAST_S, due_s) if due_s is not None else None):
                    await self._is_updated.wait()
            except TimeoutError:
                self.update()

    def _gather(self) -> MembershipFacts:
        live = {uid: peer for uid, peer in self._peers.items() if peer.is_alive}
        standing = list(self._standing())
        here = frozenset(stone for _, stone in standing)
        memberships = self._memberships()
        self._record(memberships, standing)
        shown = {
            uid: list(_read_tombstones(features))
            for uid, peer in live.items()
            if (features := peer.features.held) is not None
        }
        there = {uid: frozenset(stone for _, stone in stones) for uid, stones in shown.items()}
        noted = {stone.name for stones in shown.values() for feature, stone in stones if has_returned(feature.labels)}
        proven = frozenset(self._departures.left)
        clusters = {
            uid: {} if self._absences.serves_none(uid) else held
            for uid, peer in live.items()
            if (held := peer.clusters.held) is not None
            and (peer.clusters.is_listed or self._absences.serves_none(uid))  # not those from before a silence
        }
        if not (here or proven or any(there.values())):
            clusters = {}  # without any tombstone or proof the Clusters of peers decide nothing
        return MembershipFacts(
            local=self._local,
            here=here,
            there=there,
            alive=frozenset(live),
            memberships=memberships,
            lives={
                uid: frozenset(record.membership for record in held.values() if record.cluster_id == uid)
                for uid, held in clusters.items()
            },
            finds={
                uid: frozenset(
                    (record.cluster_id, record.membership)
                    for record in held.values()
                    if record.state == State.READY.value
                )
                for uid, held in clusters.items()
            },
            holds_us=frozenset(
                uid
                for uid, held in clusters.items()
                if any(record.cluster_id == self._local for record in held.values())
            ),
            met=self._met.met,
            proven=proven,
            ordered=frozenset(stone for manifest, stone in standing if is_ordered(manifest)),
            returned=frozenset(
                stone for manifest, stone in standing if stone.name in noted or has_returned(meta.labels_of(manifest))
            ),
            lasting=self._absences.lasting(),
            revisions=dict(self._revisions),
            former=self._met.former,
            silent_s=self._silence.count({stone.member for stone in here}),
            withdrawn=frozenset(self._withdrawn(live)),
            today=self._today(),
            days=frozenset(day for peer in live.values() if (day := peer.day_there) is not None),
            trusts_after_s=self._trusts_after_s,
        )

    def _is_written_here(self, stone: Tombstone) -> bool:
        return self._writes_status_of(meta.FEATURES, stone.name)

    def _record(self, memberships: Memberships, standing: Sequence[tuple[Manifest, Tombstone]]) -> None:
        """Record the memberships that were here until a tombstone stands here: one is created once for each."""
        here = [stone for _, stone in standing]
        self._met = note_memberships(self._met, memberships, here)
        if self._local in memberships or any(map(self._is_own, here)):
            own = [(manifest, stone) for manifest, stone in standing if self._is_own(stone)]
            self._farewells = {stone: further_labels(meta.labels_of(manifest)) for manifest, stone in own}
        names = {stone.name for stone in here}
        now_s = asyncio.get_running_loop().time()
        self._deleted_at_s |= dict.fromkeys(self._names - names, now_s)
        self._deleted_at_s = {name: at_s for name, at_s in self._deleted_at_s.items() if at_s > now_s - _DELETED_S}
        self._names = names

    def _memberships(self) -> Memberships:
        found: dict[ClusterUID, set[str | None]] = {}
        for name, stored in self._registry.clusters.items():
            if stored.cluster is not None:
                found.setdefault(stored.cluster.cluster_id, set()).add(self._membership(name, stored.cluster, stored))
        return {member: frozenset(uids) for member, uids in found.items()}

    def _membership(self, name: str, cluster: Cluster, stored: StoredCluster) -> str | None:
        if cluster.cluster_id == self._local:
            return cluster.uid
        marks = read_marks(meta.annotations_of(stored.manifest), of=cluster_target(name))
        if not marks.is_copy:
            return None
        membership = membership_marked(marks, cluster.cluster_id)
        if membership:
            self._revisions[membership] = marks.revision
        return membership

    def _standing(self) -> Iterator[tuple[Manifest, Tombstone]]:
        """List the tombstones here that are no copies, with their objects."""
        for manifest in self._registry.standing_features():
            stone = read_original_tombstone(manifest, at=self._local)
            if stone is not None:
                yield manifest, stone


def _kept(now: Leavers) -> tuple[object, ...]:
    """Return the conclusions that the objects here follow."""
    return now.to_keep, now.to_drop, now.returned, now.has_left


def _read_tombstones(features: Iterable[Feature]) -> Iterator[tuple[Feature, Tombstone]]:
    for feature in features:
        stone = read_tombstone(feature)
        if stone is not None:
            yield feature, stone
