"""Deletes the objects whose owners are objects of one cluster, as far as the limit allows.

Laws: an object goes only after its owner's member has answered that the owner is gone · an object whose owner's member
is silent, refuses, has left or is not known is kept · an object is deleted only in a state in which it has the
mark whose owner was asked about · an owner that no watch shows is asked about again in rounds: no event
shows its deletion.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError, ServerError, Unreachable
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.group.collection_limits import CollectionLimits
from registry_controller.group.local_access import LocalAccess
from registry_controller.group.members import MemberConnection
from registry_controller.group.objects import Object
from registry_controller.group.owned_objects import Owned, OwnedObjects
from registry_controller.group.owner_proof import Existence, Witnesses, ask_members, streams_of
from registry_controller.group.ownership import Owner, OwnerMark
from registry_controller.group.rounds import AGAIN_S, Rounds, next_after
from registry_controller.group.shown_objects import find_object
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_SETTLE_S: Final = 1.0
"""Deletions that come together are counted together."""
_HALTED: Final = "deletions are halted: too many would go at once"


class Collection:
    """The objects whose owners are objects of one cluster.

    `witnesses` returns the members with its ID, and `unidentified` the members without a known one, with the reasons.
    """

    def __init__(
        self,
        cluster: ClusterUID,
        *,
        witnesses: Callable[[], Witnesses],
        unidentified: Callable[[], Mapping[str, str]],
        access: LocalAccess,
        owned: OwnedObjects,
        limits: CollectionLimits,
    ) -> None:
        self._cluster = cluster
        self._witnesses = witnesses
        self._unidentified = unidentified
        self._access = access
        self._owned = owned
        self._limits = limits
        self._asks: set[Target] = set()
        self._shown_gone: set[Target] = set()
        self._going: set[Target] = set()
        self._kept: dict[Target, str] = {}
        self._has_news = asyncio.Event()
        self._asked_last: Target | None = None

    @property
    def kept(self) -> Mapping[Target, str]:
        """Return the objects whose owner may be gone and that are kept, each with the reason."""
        return self._kept

    @property
    def waiting(self) -> int:
        """Return for how many objects it is not known whether their owners are there."""
        return len(self._asks)

    def ask_soon(self, targets: Iterable[Target]) -> None:
        """Note that the owners of objects may be gone; those that a watch shows are not asked about."""
        asks = self._unseen(targets)
        if asks:
            self._asks |= asks
            self._has_news.set()

    def note_owner(self, targets: Iterable[Target], *, is_gone: bool) -> None:
        """Note that a watch has shown the owner of objects, or that it is gone.

        Then it is asked about although another watch, which may not have come that far, still shows it.
        """
        targets = set(targets)
        self._shown_gone = self._shown_gone | targets if is_gone else self._shown_gone - targets
        self.ask_soon(targets)

    def note_going(self, target: Target) -> None:
        """Note that an object was being deleted when it was read first: an earlier process may have deleted it."""
        self._going.add(target)

    def note_gone(self, target: Target) -> None:
        """Note that an object has gone, or has another owner."""
        self._limits.note_gone(target, self._cluster, is_collected=target in self._going)
        self._going.discard(target)
        self._settle(target)

    async def run(self, ready: Callable[[], Awaitable[None]]) -> NoReturn:
        """Collect forever; `ready` waits until the stored counts, and the objects that can be read, were read."""
        await ready()
        now_s = asyncio.get_running_loop().time
        rounds = Rounds(now_s=now_s())
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    await self._has_news.wait()
            if not self._limits.is_halted(self._cluster):  # where all that is asked about counts as waiting
                self._asks |= self._unseen(rounds.take(self._unseen_of_cluster, now_s=now_s()))
            await asyncio.sleep(_SETTLE_S)
            await ready()
            self._has_news.clear()
            try:
                await self._collect()
            except RegistryError as error:
                log.warning("owned objects cannot be collected", cluster=self._cluster, error=str(error))

    async def _collect(self) -> None:
        candidates = [target for target in sorted(self._asks) if self._may_ask(target)]
        if not self._asks:
            await self._limits.end_halt(self._cluster)
        orphans = {target: None for target in candidates if self._is_orphan(target)}
        await self._release_orphans(orphans)
        candidates = [target for target in candidates if target not in orphans]
        going = sum(target in self._owned for target in self._going.difference(candidates))
        if self._limits.is_halted(self._cluster) and not await self._limits.admit(
            self._cluster, len(candidates) + going
        ):
            await self._find_back(candidates)
            return
        gone = await self._find_gone(candidates, going=going)
        if not gone:
            return
        if not await self._limits.admit(self._cluster, len(gone) + going):
            for target in candidates:
                self._keep(target, _HALTED)
            return
        for target in gone:
            await self._delete(target)
        await self._limits.store()

    async def _find_gone(self, candidates: Sequence[Target], *, going: int) -> Sequence[Target]:
        """Return the objects whose owners are gone, up to one more than the limit allows."""
        gone: list[Target] = []
        for target in candidates:
            if await self._ask(target) is not None:
                gone.append(target)
            if self._limits.would_halt(self._cluster, len(gone) + going):
                break
        return gone

    async def _find_back(self, candidates: Sequence[Target]) -> None:
        """Settle the objects of a halt whose owners are back, among the next few of them."""
        for target in next_after(self._asked_last, candidates):
            self._asked_last = target
            if await self._ask(target) is not None:
                self._keep(target, _HALTED)

    def _unseen(self, targets: Iterable[Target]) -> set[Target]:
        """Return the objects whose owners no watch shows."""
        connections = self._witnesses().connections
        owned = ((target, self._owned.get(target)) for target in targets)
        return {target for target, found in owned if found and not self._is_seen(target, found, connections)}

    def _unseen_of_cluster(self) -> set[Target]:
        return self._unseen(self._owned.of_cluster(self._cluster))

    def _may_ask(self, target: Target) -> bool:
        """Return whether the owner of an object is to be asked about now."""
        found, connections = self._owned.get(target), self._witnesses().connections
        is_here = found is not None and not found.is_deleting and found.mark.owner.cluster == self._cluster
        if found is None or not is_here or self._is_seen(target, found, connections):
            self._settle(target)
            return False
        for connection in connections:
            if connection.is_alive and not _is_read(connection, found.mark.owner):
                self._keep(target, f"{connection.name} does not show objects of the kind of its owner now")
                return False
        return True

    async def _ask(self, target: Target) -> Owned | None:
        """Return an object with the mark whose owner is gone, by the answer of its member; None without that proof."""
        asked = self._owned.get(target)
        if asked is None:
            return None
        answer = await ask_members(self._witnesses(), asked.mark.owner, unidentified=self._unidentified())
        if answer.existence is Existence.THERE:
            self._settle(target, mark=asked.mark)
        elif answer.existence is Existence.UNKNOWN:
            self._keep(target, answer.reason)
        return asked if answer.existence is Existence.GONE else None

    async def _delete(self, target: Target) -> None:
        """Delete an object whose owner is gone at this moment, unless it, or its mark, has changed meanwhile.

        The first answer, by which the deletion was counted, may be old: the deletions before this one take time.
        """
        proven = await self._ask(target)
        if proven is None or proven.mark.propagation == "Orphan":
            return

        async def delete(obj: Object) -> None:
            self._going.add(target)
            try:
                await self._access.delete(obj, propagation=proven.mark.propagation)
            except (Unreachable, ServerError):
                raise  # it may be on its way: it counts once it is gone
            except RegistryError:
                self._going.discard(target)
                raise
            log.info("owned object deleted", target=target, owner=proven.mark.owner.target, cluster=self._cluster)

        await self._change(target, proven, delete)

    async def _release_orphans(self, targets: Iterable[Target]) -> None:
        """Remove the marks of objects whose owners are gone, and keep the objects."""
        for target in targets:
            proven = await self._ask(target)
            if proven is not None and proven.mark.propagation == "Orphan":
                await self._change(target, proven, functools.partial(self._release, target))

    async def _release(self, target: Target, obj: Object) -> None:
        await self._access.patch(obj, {"annotations": {meta.GROUP_OWNER: None}})
        log.info("owned object released", target=target, cluster=self._cluster)

    async def _change(self, target: Target, proven: Owned, change: Callable[[Object], Awaitable[None]]) -> bool:
        """Change an object in a state in which it has the mark that was asked about; return whether that succeeded.

        The owner in another mark is to be asked about. A mark names the cluster of its object: where the local cluster
        is another one by now, it is no mark.
        """
        try:
            if await self._access.cluster_id() != self._owned.cluster:
                return False
            obj = await self._access.read_again(proven.kind, target.key, uid=proven.uid)
            if obj is not None:
                now = self._owned.read(obj)
                if now is None or now.mark != proven.mark:
                    return False
                await change(obj)
        except RegistryError as error:
            self._keep(target, str(error))
            return False
        self._settle(target, mark=proven.mark)
        return True

    def _is_seen(self, target: Target, found: Owned, connections: Sequence[MemberConnection]) -> bool:
        """Return whether a watch shows the owner of an object at each of these members."""
        if target in self._shown_gone or not connections:
            return False
        return all(_shows(connection, found.mark.owner) for connection in connections)

    def _is_orphan(self, target: Target) -> bool:
        found = self._owned.get(target)
        return found is not None and found.mark.propagation == "Orphan"

    def _keep(self, target: Target, reason: str) -> None:
        if self._kept.get(target) != reason:
            self._kept[target] = reason
            log.debug("owned object kept", target=target, reason=reason)

    def _settle(self, target: Target, *, mark: OwnerMark | None = None) -> None:
        """Note that nothing is to be done about an object; with `mark`, unless it has another one by now."""
        found = self._owned.get(target)
        if mark is not None and found is not None and found.mark != mark:
            return
        self._asks.discard(target)
        self._shown_gone.discard(target)
        self._kept.pop(target, None)


def _shows(connection: MemberConnection, owner: Owner) -> bool:
    found = find_object(list(streams_of(connection, owner)), owner.key)
    return found is not None and found.uid == owner.uid


def _is_read(connection: MemberConnection, owner: Owner) -> bool:
    """Return whether a watch shows all objects of an owner's kind, as they are now."""
    return any(stream.is_current for stream in streams_of(connection, owner))
