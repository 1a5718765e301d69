"""Limits the number of Clusters that are copied here: for each cluster ID, and in all. Status reports the rest.

Law: the caches of one moment decide what may be copied; a Cluster that is here stays, however many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, ObjectKey, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.members import Members, cluster_target, secret_target
from registry_controller.watch.limits import MOST_OWN

MOST_OF_ONE: Final = 4
"""Clusters of one ID: one is read, and a second one exists for a moment while a cluster changes its name."""

MOST_CLUSTERS: Final = 2 * MOST_OWN[meta.CLUSTER]
"""In all, twice as many as are read from one member: each may be a member to connect to."""


class MemberQuota:
    """Compares the Clusters that peers offer (`members`) with the Clusters here (`copies`, current after each write).

    Calls `add` for the targets that may be copied now and could not before.
    """

    def __init__(self, *, copies: CopyIndex, members: Members, add: Callable[[Target], None]) -> None:
        self._copies = copies
        self._members = members
        self._add = add
        self._surplus_before: Mapping[ClusterUID, Mapping[str, str]] = {}

    def update(self) -> None:
        """Find the Clusters that may be copied now and could not before."""
        before, here = self._surplus_before, self._here()
        self._surplus_before = {peer: over for peer in self._members.peers() if (over := self._surplus(peer, here))}
        for peer, names in before.items():
            there = self._members.there(peer)
            for name in sorted(names.keys() & there.keys() - self._surplus_before.get(peer, {}).keys()):
                self._add(cluster_target(name))
                if (secret := there[name].secret) is not None:
                    self._add(secret_target(secret))

    @property
    def has_surplus(self) -> bool:
        """True while Clusters that peers offer are not copied here, as of the last update."""
        return bool(self._surplus_before)

    def has_room_for(self, peer: ClusterUID, name: str) -> bool:
        """Return whether a Cluster that a peer holds is here, or may be copied."""
        return name not in self._surplus(peer)

    def has_room_for_secret(self, peer: ClusterUID, key: ObjectKey) -> bool:
        """Return whether a registry Secret that a peer holds is for a Cluster that is here, or may be copied."""
        if self._members.naming_here(key):
            return True
        named_by = [name for name, record in self._members.there(peer).items() if record.secret == key]
        return not named_by or not self._surplus(peer).keys() >= set(named_by)

    def problem(self, peer: ClusterUID) -> str:
        """Return a sentence on a peer's Clusters that are not copied; empty when all may be."""
        surplus = self._surplus(peer)
        if not surplus:
            return ""
        words = " and ".join(sorted(set(surplus.values())))
        return f"{len(surplus)} of the Clusters that it holds are not copied here: {words}; delete the unneeded ones"

    def _surplus(self, peer: ClusterUID, here: Mapping[str, ClusterUID | None] | None = None) -> Mapping[str, str]:
        """Map the names that are not copied to the exceeded limit; of each ID the first names are, alphabetically."""
        here, there = self._here() if here is None else here, self._members.there(peer)
        of_one, in_all, found = Counter(here.values()), len(here), {}
        for name in sorted(there.keys() - here.keys()):
            record = there[name]
            if of_one[record.cluster_id] >= MOST_OF_ONE:
                found[name] = f"no more than {MOST_OF_ONE} of one ID"
            elif in_all >= MOST_CLUSTERS:
                found[name] = f"no more than {MOST_CLUSTERS} in all"
            else:
                of_one[record.cluster_id] += 1
                in_all += 1
        return found

    def _here(self) -> Mapping[str, ClusterUID | None]:
        cache = self._copies.cache_of(*meta.CLUSTER_KIND)
        return {key.name: record.natural for key, record in cache.records.items()} if cache is not None else {}
