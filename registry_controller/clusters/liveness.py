"""Liveness of peers: the live ones, the duration of a silence, and the grace period of a peer without credentials.

Laws: silence counts only while at least one other peer answers; otherwise this cluster may be partitioned itself ·
a peer stays engaged without credentials only while its Cluster or Secret may be restored through it, and for 90 s at
most, which do not begin while it lacks its own Cluster, too · a peer whose Cluster went together with the own Cluster,
as with their definition, stays engaged until its Cluster can be stored here again and the peer has answered for 90 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final, NamedTuple, Protocol

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.decision.restoration import Restoration
from registry_controller.core.peer_health import count_silence

_GRACE_S: Final = 90.0
"""Longer than a copy that is deleted again and again is left alone for (A5)."""
_GRACE_PERIOD_S: Final = 1.0


class Liveness(NamedTuple):
    """The members with a Cluster here, the peers that are alive, and the IDs of clones, at one moment."""

    known: frozenset[ClusterUID]
    alive: frozenset[ClusterUID]
    contested: frozenset[ClusterUID]

    def changed_since(self, before: Liveness) -> frozenset[ClusterUID]:
        """Return the members that are known or alive now, or no longer."""
        return (self.known ^ before.known) | (self.alive ^ before.alive)


class HasLiveness(Protocol):
    """A peer that is alive or silent."""

    @property
    def is_alive(self) -> bool: ...


class SilenceTimer:
    """Counts for how long peers have been silent: from the first call of `count` with a peer, until it is alive."""

    def __init__(self, peers: Mapping[ClusterUID, HasLiveness]) -> None:
        self._peers = peers
        self._silent_s: Mapping[ClusterUID, float] = {}
        self._is_any_alive = False
        self._counted_at = 0.0

    def count(self, members: Iterable[ClusterUID]) -> Mapping[ClusterUID, float]:
        """Return for how long the silent ones of these members have been silent, in seconds."""
        now_s = asyncio.get_running_loop().time()
        silent = {uid for uid in members if (peer := self._peers.get(uid)) is not None and not peer.is_alive}
        self._silent_s = count_silence(
            silent, self._silent_s, passed_s=now_s - self._counted_at, was_any_alive=self._is_any_alive
        )
        self._is_any_alive, self._counted_at = any(peer.is_alive for peer in self._peers.values()), now_s
        return dict(self._silent_s)


class GracePeriods:
    """Keeps a peer engaged for 90 s after its Cluster or Secret was deleted here, so that it can be restored.

    `restoration(member, target)` returns whether the target may be restored here from the member itself. `members` are
    the peers in their grace period, which goes on while they are silent.
    """

    def __init__(self, *, restoration: Callable[[ClusterUID, Target], Restoration]) -> None:
        self.members: frozenset[ClusterUID] = frozenset()
        self._restoration = restoration
        self._since_s: Mapping[ClusterUID, float] = {}
        self._went_with_home: dict[ClusterUID, float | None] = {}
        """The peers whose Cluster went with the own one, each with the time at which its grace period began."""

    def update(
        self, missing: Mapping[ClusterUID, Target], *, silent: Set[ClusterUID] = frozenset(), is_home_lost: bool = False
    ) -> frozenset[ClusterUID]:
        """Return the peers that stay engaged, of those that can no longer be read; `missing` is what each lacks here.

        `silent` are the peers without a Cluster here that do not answer. `is_home_lost` means that the own Cluster is
        missing, and is to be made again.
        """
        now_s = asyncio.get_running_loop().time()
        found = {member: self._restoration(member, target) for member, target in missing.items()}
        since_s = {
            member: now_s if restoration is Restoration.AWAITED else self._since_s.get(member, now_s)
            for member, restoration in found.items()
            if restoration is not Restoration.NONE
        }
        self._since_s = {member: at_s for member, at_s in since_s.items() if now_s < at_s + _GRACE_S}
        self._update_home(missing, silent, is_home_lost=is_home_lost, now_s=now_s)
        self.members = frozenset(self._since_s.keys() | self._went_with_home.keys())
        return self.members

    def _update_home(
        self, missing: Mapping[ClusterUID, Target], silent: Set[ClusterUID], *, is_home_lost: bool, now_s: float
    ) -> None:
        without = {member for member, target in missing.items() if target.group == meta.GROUP} | silent
        if is_home_lost:
            self._went_with_home = dict.fromkeys(without)
            return
        for member, since_s in list(self._went_with_home.items()):
            if member not in without or (since_s is not None and now_s >= since_s + _GRACE_S):
                del self._went_with_home[member]
            elif member not in silent:
                self._went_with_home[member] = now_s if since_s is None else since_s

    @property
    def update_after_s(self) -> float | None:
        """The time until the next update in seconds; None while no peer is in its grace period."""
        return _GRACE_PERIOD_S if self.members else None
