"""Tombstones, gathered: who has left as they say, here and at live members.

Laws: looked at anew with every plan · nothing is written in here: whoever keeps our own things reads what is to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from typing import Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import Feature, read_feature
from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.api.tombstone import Tombstone, read_tombstone
from registry_controller.core.leaving import Knowledge, Leavers, leavers
from registry_controller.core.own import read_marks
from registry_controller.engine.members import cluster_target
from registry_controller.engine.peerlink import PeerLink
from registry_controller.engine.registry import HeldCluster, Registry
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_LOOK_EVERY_S: Final = 3600.0  # at the calendar


class Leaving:
    """Who has left.

    `look_at` hears whose objects want a fresh look, `look_at_offers` that all that is relayed does, `changed` that
    tombstones are to be written.
    """

    def __init__(
        self,
        *,
        local: ClusterUID,
        trusts_after_s: float,
        registry: Registry,
        links: Mapping[ClusterUID, PeerLink],
        proven: Callable[[], Iterable[ClusterUID]],
        today: Callable[[], date],
        look_at: Callable[[ClusterUID], None],
        look_at_offers: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.now = Leavers()
        self._heard: frozenset[ClusterUID] = frozenset()
        self._local = local
        self._trusts_after_s = trusts_after_s
        self._registry = registry
        self._links = links
        self._proven = proven
        self._met: dict[ClusterUID, frozenset[str]] = {}
        self._today = today
        self._look_at = look_at
        self._look_at_offers = look_at_offers
        self._changed = changed
        self._looked = asyncio.Event()

    def look(self) -> None:
        """Look at all tombstones anew."""
        known = self._knowledge()
        was, self.now = self.now, leavers(known)
        self._heard, before = frozenset(known.there), self._heard
        if self._heard - before:
            self._look_at_offers()
        for member in sorted(self.now.gone - was.gone):
            log.info("member left, as a tombstone says", cluster_id=member)
        touched = _differing(was.over, self.now.over) | (self.now.gone ^ was.gone)
        if self.now.has_left != was.has_left:
            log.info("this cluster has left the group" if self.now.has_left else "this cluster is a member again")
            touched |= self.now.known.keys()
        for member in sorted(touched):
            self._look_at(member)
        if (self.now.to_keep, self.now.to_drop, self.now.has_left) != (was.to_keep, was.to_drop, was.has_left):
            self._changed()
        self._looked.set()

    def bars(self, peer: ClusterUID, member: ClusterUID, membership: str | None) -> bool:
        """Say whether what a peer relays of a member does not come here: of a membership, or (None) credentials.

        While its tombstones are not heard, nothing does: they may speak of it.
        """
        if peer not in self._heard:
            return True
        return self.now.bars_secret(member) if membership is None else self.now.bars(member, membership)

    def keeps(self) -> Iterable[Tombstone]:
        """List the tombstones that are to stand here, too."""
        return self.now.to_keep

    def drops(self) -> Iterator[Manifest]:
        """List the objects that are to go."""
        for manifest, stone in self._standing():
            if stone in self.now.to_drop:
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
                self.look()

    def _knowledge(self) -> Knowledge:
        live = {uid: link for uid, link in self._links.items() if link.alive}
        heard = {uid: held for uid, link in live.items() if (held := link.clusters.held) is not None}
        now_s = asyncio.get_running_loop().time()
        memberships = self._memberships()
        for member, uids in memberships.items():
            if known := frozenset(filter(None, uids)):
                self._met[member] = known
        return Knowledge(
            local=self._local,
            here=frozenset(stone for _, stone in self._standing()),
            there={
                uid: frozenset(_stones(features))
                for uid, link in live.items()
                if (features := link.features.held) is not None
            },
            alive=frozenset(live),
            memberships=memberships,
            met=dict(self._met),
            proven=frozenset(self._proven()),
            lives={
                uid: frozenset(view.uid for view in held.values() if view.cluster_id == uid)
                for uid, held in heard.items()
            },
            holds_us=frozenset(
                uid for uid, held in heard.items() if any(view.cluster_id == self._local for view in held.values())
            ),
            silent_s={uid: now_s - link.health.last_heard for uid, link in self._links.items() if not link.alive},
            today=self._today(),
            trusts_after_s=self._trusts_after_s,
        )

    def _memberships(self) -> Mapping[ClusterUID, frozenset[str | None]]:
        found: dict[ClusterUID, set[str | None]] = {}
        for name, held in self._registry.clusters.items():
            if held.cluster is not None:
                found.setdefault(held.cluster.cluster_id, set()).add(self._membership(name, held))
        return {member: frozenset(uids) for member, uids in found.items()}

    def _membership(self, name: str, held: HeldCluster) -> str | None:
        assert held.cluster is not None
        if held.cluster.cluster_id == self._local:
            return held.cluster.uid
        marks = read_marks(meta.annotations_of(held.manifest), of=cluster_target(name))
        provenance = marks.provenance
        if provenance is not None and provenance.owner == held.cluster.cluster_id:
            return provenance.uid
        return "" if marks.is_copy else None

    def _standing(self) -> Iterator[tuple[Manifest, Tombstone]]:
        """List the tombstones that stand here by our own right, with their objects."""
        for manifest in self._registry.features.values():
            if meta.OWNER in meta.annotations_of(manifest):
                continue
            try:
                stone = read_tombstone(read_feature(manifest))
            except InvalidObject:
                continue
            if stone is not None and stone.name == meta.metadata_of(manifest).get("name"):
                yield manifest, stone


def _stones(features: Iterable[Feature]) -> Iterator[Tombstone]:
    return filter(None, map(read_tombstone, features))


def _differing(old: Mapping[ClusterUID, object], new: Mapping[ClusterUID, object]) -> set[ClusterUID]:
    return {member for member in {*old, *new} if old.get(member) != new.get(member)}
