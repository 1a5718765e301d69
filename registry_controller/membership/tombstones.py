"""Tombstones, gathered: who has left as they say, here and at live members.

Laws: looked at anew with every plan · nothing is written in here: whoever keeps our own things reads what is to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from typing import Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, State
from registry_controller.api.feature import Feature
from registry_controller.api.meta import GVR, ClusterUID, Manifest
from registry_controller.api.tombstone import Tombstone, read_original_tombstone, read_tombstone
from registry_controller.cache.members import cluster_target, membership_marked, membership_of
from registry_controller.cache.registry import Registry, StoredCluster
from registry_controller.clusters.liveness import SilenceTimer
from registry_controller.clusters.peer import Peer
from registry_controller.core.decision.ownership import Marks, read_marks
from registry_controller.core.decision.tombstones import Leavers, MembershipFacts, Memberships, leavers
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_SPARED_S: Final = 300.0
"""For how long a tombstone that was taken away, by whomever, is not put up again."""
_LOOK_EVERY_S: Final = 3600.0  # at the calendar


class TombstoneTracker:
    """Who has left.

    `look_at` hears whose objects want a fresh look, `look_at_offers` that all that is relayed does, `changed` that
    tombstones are to be written. Of several daemons here the one for which `speaks_of` says so writes a tombstone.
    """

    def __init__(
        self,
        *,
        local: ClusterUID,
        trusts_after_s: float,
        registry: Registry,
        links: Mapping[ClusterUID, Peer],
        proven: Callable[[], Iterable[ClusterUID]],
        speaks_of: Callable[[GVR, str], bool],
        today: Callable[[], date],
        look_at: Callable[[ClusterUID], None],
        look_at_offers: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.now = Leavers()
        self._local = local
        self._trusts_after_s = trusts_after_s
        self._registry = registry
        self._links = links
        self._proven = proven
        self._speaks_of = speaks_of
        self._today = today
        self._look_at = look_at
        self._look_at_offers = look_at_offers
        self._changed = changed
        self._heard: frozenset[ClusterUID] = frozenset()
        self._met: dict[ClusterUID, frozenset[str]] = {}
        self._silences = SilenceTimer(links)
        self._stood: set[str] = set()
        self._dropped: dict[str, float] = {}
        self._looked = asyncio.Event()

    def update(self) -> None:
        """Look at all tombstones anew."""
        known = self._knowledge()
        was, self.now = self.now, leavers(known)
        self._heard, before = frozenset(known.there), self._heard
        if self._heard - before:
            self._look_at_offers()
        for member in sorted(self.now.gone - was.gone):
            log.info("member left, as a tombstone says", cluster_id=member)
        touched = _differing(was.over, self.now.over) | (self.now.gone ^ was.gone)
        touched |= {member for member in _differing(was.known, self.now.known) if member in self.now.over}
        if self.now.has_left != was.has_left:
            log.info("this cluster has left the group" if self.now.has_left else "this cluster is a member again")
            touched |= self.now.known.keys()
        for member in sorted(touched):
            self._look_at(member)
        if (self.now.to_keep, self.now.to_drop, self.now.has_left) != (was.to_keep, was.to_drop, was.has_left):
            self._changed()
        self._looked.set()

    def bars(self, peer: ClusterUID, member: ClusterUID, membership: str) -> bool:
        """Say whether what a peer relays of a membership does not come here.

        While the peer's tombstones are not heard, nothing does: they may speak of it.
        """
        return self.now.bars(member, membership) or (peer not in self._heard and member not in self.now.known)

    def gone(self, natural: ClusterUID | None, marks: Marks | None) -> frozenset[ClusterUID]:
        """Tell who is gone, to whoever looks at the Cluster with these marks that stands for `natural`, or at none.

        Of a membership that came since that was judged nobody has said so.
        """
        if natural is None or marks is None or self.now.takes(natural, membership_marked(marks, natural)):
            return self.now.gone
        return self.now.gone - {natural}

    def judged(self, members: frozenset[ClusterUID]) -> frozenset[ClusterUID]:
        """Choose the members that had a Cluster here when it was judged who is gone."""
        return frozenset(member for member in members if member in self.now.known)

    def keeps(self) -> Iterable[Tombstone]:
        """List the tombstones that are to stand here, too."""
        due_s = asyncio.get_running_loop().time() - _SPARED_S
        return [
            stone for stone in self.now.to_keep if self._dropped.get(stone.name, due_s) <= due_s and self._writes(stone)
        ]

    def drops(self) -> Iterator[Manifest]:
        """List the objects that are to go."""
        for manifest, stone in self._standing():
            if stone in self.now.to_drop and self._writes(stone):
                yield manifest

    async def run(self) -> NoReturn:
        """Look again when time alone changes something."""
        while True:
            self._looked.clear()
            due_s = min(_LOOK_EVERY_S, self.now.due_s or _LOOK_EVERY_S) if self.now.over else None
            try:
                async with asyncio.timeout(due_s):
                    await self._looked.wait()
            except TimeoutError:
                self.update()

    def _knowledge(self) -> MembershipFacts:
        live = {uid: link for uid, link in self._links.items() if link.is_alive}
        here = frozenset(stone for _, stone in self._standing())
        memberships = self._memberships()
        self._remember(memberships, here)
        there = {
            uid: frozenset(_stones(features))
            for uid, link in live.items()
            if (features := link.features.held) is not None
        }
        proven = frozenset(self._proven())
        obj = {uid: held for uid, link in live.items() if (held := link.clusters.held) is not None}
        if not (here or proven or any(there.values())):
            obj = {}  # of whom there is nothing to say, nobody needs to know more
        return MembershipFacts(
            local=self._local,
            here=here,
            there=there,
            alive=frozenset(live),
            memberships=memberships,
            lives={
                uid: frozenset(view.membership for view in held.values() if view.cluster_id == uid)
                for uid, held in obj.items()
            },
            finds={
                uid: frozenset(
                    (view.cluster_id, view.membership) for view in held.values() if view.state == State.READY.value
                )
                for uid, held in obj.items()
            },
            holds_us=frozenset(
                uid for uid, held in obj.items() if any(view.cluster_id == self._local for view in held.values())
            ),
            met=dict(self._met),
            proven=proven,
            silent_s=self._silences.count({stone.member for stone in here}),
            today=self._today(),
            trusts_after_s=self._trusts_after_s,
        )

    def _writes(self, stone: Tombstone) -> bool:
        return self._speaks_of(meta.FEATURES, stone.name)

    def _remember(self, memberships: Memberships, here: Iterable[Tombstone]) -> None:
        """Remember which memberships were here, until a tombstone stands here: of each one is made, once."""
        for member, uids in memberships.items():
            if found := frozenset(uid for uid in uids if uid):
                self._met[member] = found
        names = {stone.name for stone in here}
        now_s = asyncio.get_running_loop().time()
        self._dropped |= dict.fromkeys(self._stood - names, now_s)
        self._dropped = {name: at_s for name, at_s in self._dropped.items() if at_s > now_s - _SPARED_S}
        self._stood = names
        for stone in here:
            self._met[stone.member] = self._met.get(stone.member, frozenset()) - {stone.membership}

    def _memberships(self) -> Memberships:
        found: dict[ClusterUID, set[str | None]] = {}
        for name, held in self._registry.clusters.items():
            if held.cluster is not None:
                found.setdefault(held.cluster.cluster_id, set()).add(self._membership(name, held.cluster, held))
        return {member: frozenset(uids) for member, uids in found.items()}

    def _membership(self, name: str, cluster: Cluster, held: StoredCluster) -> str | None:
        if cluster.cluster_id == self._local:
            return cluster.uid
        annotations = meta.annotations_of(held.manifest)
        if not read_marks(annotations, of=cluster_target(name)).is_copy:
            return None
        return membership_of(annotations, name, cluster.cluster_id)

    def _standing(self) -> Iterator[tuple[Manifest, Tombstone]]:
        """List the tombstones that stand here by our own right, with their objects."""
        for manifest in self._registry.features.values():
            stone = read_original_tombstone(manifest)
            if stone is not None:
                yield manifest, stone


def _stones(features: Iterable[Feature]) -> Iterator[Tombstone]:
    return filter(None, map(read_tombstone, features))


def _differing(old: Mapping[ClusterUID, object], new: Mapping[ClusterUID, object]) -> set[ClusterUID]:
    return {member for member in {*old, *new} if old.get(member) != new.get(member)}
