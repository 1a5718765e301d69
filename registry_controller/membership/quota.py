"""How many Clusters of others are taken: so many of one ID, and so many in all. The rest does not come, which is said.

Law: what may come is told by the caches of one moment; who is here stays, however many there are.
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
"""Clusters of one ID: one is read, and one more is there for a moment when a cluster changes its name."""

MOST_CLUSTERS: Final = 2 * MOST_OWN[meta.CLUSTER]
"""In all, twice as many as are heard of one member: each may be a member that is dialled."""


class MemberQuota:
    """Who may still come. `members` know what is offered, `copies` what is here, at once after a write.

    `add` hears which targets want a fresh look, because there is room for them now.
    """

    def __init__(self, *, copies: CopyIndex, members: Members, add: Callable[[Target], None]) -> None:
        self._copies = copies
        self._members = members
        self._add = add
        self._kept_out: Mapping[ClusterUID, Mapping[str, str]] = {}

    def update(self) -> None:
        """Look anew for whom there is room."""
        was, here = self._kept_out, self._here()
        self._kept_out = {peer: over for peer in self._members.peers() if (over := self._surplus(peer, here))}
        for peer, names in was.items():
            there = self._members.there(peer)
            for name in sorted(names.keys() & there.keys() - self._kept_out.get(peer, {}).keys()):
                self._add(cluster_target(name))
                if (secret := there[name].secret) is not None:
                    self._add(secret_target(secret))

    def has_room_for(self, peer: ClusterUID, name: str) -> bool:
        """Say whether a Cluster that a peer holds is here, or may come."""
        return name not in self._surplus(peer)

    def has_room_for_secret(self, peer: ClusterUID, key: ObjectKey) -> bool:
        """Say whether a registry Secret that a peer holds is for a Cluster that is here, or may come."""
        if self._members.naming_here(key):
            return True
        named_by = [name for name, view in self._members.there(peer).items() if view.secret == key]
        return not named_by or not self._surplus(peer).keys() >= set(named_by)

    def problem(self, peer: ClusterUID) -> str:
        """Say, to people, what of a peer's Clusters does not come; empty where all may."""
        surplus = self._surplus(peer)
        if not surplus:
            return ""
        words = " and ".join(sorted(set(surplus.values())))
        return f"{len(surplus)} of the Clusters that it holds are not taken: {words}; delete what nobody needs"

    def _surplus(self, peer: ClusterUID, here: Mapping[str, ClusterUID | None] | None = None) -> Mapping[str, str]:
        """Map the names that do not come to the limit that they are over: of each ID the first ones come, by name."""
        here, there = self._here() if here is None else here, self._members.there(peer)
        of_one, in_all, found = Counter(here.values()), len(here), {}
        for name in sorted(there.keys() - here.keys()):
            view = there[name]
            if of_one[view.cluster_id] >= MOST_OF_ONE:
                found[name] = f"no more than {MOST_OF_ONE} of one ID"
            elif in_all >= MOST_CLUSTERS:
                found[name] = f"no more than {MOST_CLUSTERS} in all"
            else:
                of_one[view.cluster_id] += 1
                in_all += 1
        return found

    def _here(self) -> Mapping[str, ClusterUID | None]:
        cache = self._copies.cache_of(meta.GROUP, meta.CLUSTER.kind)
        return {key.name: record.natural for key, record in cache.records.items()} if cache is not None else {}
