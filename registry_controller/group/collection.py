"""Deletes the objects whose owners are objects of one cluster, as far as the limit allows.

Laws: an object goes only after its owner's member has answered that the owner is gone · an object whose owner's member
is silent, refuses, has left or is not known is kept · an object is deleted only in a state in which it has the
mark whose owner was asked about.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.group.collection_limits import CollectionLimits
from registry_controller.group.local_access import LocalAccess
from registry_controller.group.members import MemberConnection
from registry_controller.group.objects import Object
from registry_controller.group.owned_objects import Owned, OwnedObjects
from registry_controller.group.owner_proof import Existence, ask_member, streams_of
from registry_controller.group.ownership import Owner, OwnerMark
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_SETTLE_S: Final = 1.0
"""Deletions that come together are counted together."""
_AGAIN_S: Final = 10.0


class Collection:
    """The objects whose owners are objects of one cluster. `connection` returns the connection to its member."""

    def __init__(
        self,
        cluster: ClusterUID,
        *,
        connection: Callable[[], MemberConnection | None],
        access: LocalAccess,
        owned: OwnedObjects,
        limits: CollectionLimits,
    ) -> None:
        self._cluster = cluster
        self._connection = connection
        self._access = access
        self._owned = owned
        self._limits = limits
        self._asks: set[Target] = set()
        self._going: set[Target] = set()
        self._kept: dict[Target, str] = {}
        self._has_news = asyncio.Event()

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
        connection = self._connection()
        owned = ((target, self._owned.get(target)) for target in targets)
        asks = {target for target, found in owned if found and not _is_seen(connection, found.mark.owner)}
        if asks:
            self._asks |= asks
            self._has_news.set()

    def note_gone(self, target: Target) -> None:
        """Note that an object has gone, or has another owner."""
        self._limits.note_gone(target, self._cluster, is_collected=target in self._going)
        self._going.discard(target)
        self._settle(target)

    async def run(self, ready: Callable[[], Awaitable[None]]) -> NoReturn:
        """Collect forever; `ready` waits until all objects, and the stored counts, were read."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S if self._asks or self._limits.is_halted(self._cluster) else None):
                    await self._has_news.wait()
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
        going = sum(target in self._owned for target in self._going)
        if self._limits.is_halted(self._cluster):
            wanted = sum(not self._is_orphan(target) for target in candidates)
            if not await self._limits.admit(self._cluster, wanted + going):
                return
        gone = await self._find_gone(candidates, going=going)
        if not gone:
            return
        if not await self._limits.admit(self._cluster, len(gone) + going):
            for target in candidates:
                self._keep(target, "deletions are halted: too many would go at once")
            return
        for target, proven in gone:
            await self._delete(target, proven)
        await self._limits.store()

    async def _find_gone(self, candidates: Sequence[Target], *, going: int) -> Sequence[tuple[Target, Owned]]:
        """Return the objects to delete: those whose owners are gone, up to one more than the limit allows."""
        gone: list[tuple[Target, Owned]] = []
        for target in candidates:
            proven = await self._ask(target)
            if proven is None:
                continue
            if proven.mark.propagation == "Orphan":
                await self._release(target, proven)
                continue
            gone.append((target, proven))
            if self._limits.would_halt(self._cluster, len(gone) + going):
                break
        return gone

    def _may_ask(self, target: Target) -> bool:
        """Return whether the owner of an object is to be asked about now."""
        found, connection = self._owned.get(target), self._connection()
        is_here = found is not None and not found.is_deleting and found.mark.owner.cluster == self._cluster
        if found is None or not is_here or _is_seen(connection, found.mark.owner):
            self._settle(target)
            return False
        if connection is not None and connection.is_alive and not _is_read(connection, found.mark.owner):
            self._keep(target, f"{connection.name} does not show objects of the kind of its owner now")
            return False
        return True

    async def _ask(self, target: Target) -> Owned | None:
        """Return an object with the mark whose owner is gone, by the answer of its member; None without that proof."""
        asked = self._owned.get(target)
        if asked is None:
            return None
        answer = await ask_member(self._connection(), asked.mark.owner)
        if answer.existence is Existence.THERE:
            self._settle(target, mark=asked.mark)
        elif answer.existence is Existence.UNKNOWN:
            self._keep(target, answer.reason)
        return asked if answer.existence is Existence.GONE else None

    async def _delete(self, target: Target, proven: Owned) -> None:
        """Delete an object whose owner is gone, unless it, or its mark, has changed meanwhile."""

        async def delete(obj: Object) -> None:
            self._going.add(target)
            await self._access.delete(obj, propagation=proven.mark.propagation)
            log.info("owned object deleted", target=target, owner=proven.mark.owner.target, cluster=self._cluster)

        if not await self._change(target, proven, delete):
            self._going.discard(target)

    async def _release(self, target: Target, proven: Owned) -> None:
        """Remove the mark of an object whose owner is gone, and keep the object."""

        async def release(obj: Object) -> None:
            await self._access.patch(obj, {"annotations": {meta.GROUP_OWNER: None}})
            log.info("owned object released", target=target, owner=proven.mark.owner.target, cluster=self._cluster)

        await self._change(target, proven, release)

    async def _change(self, target: Target, proven: Owned, change: Callable[[Object], Awaitable[None]]) -> bool:
        """Change an object in a state in which it has the mark that was asked about; return whether that succeeded.

        The owner in another mark is to be asked about.
        """
        try:
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
        self._kept.pop(target, None)


def _is_seen(connection: MemberConnection | None, owner: Owner) -> bool:
    """Return whether a watch shows an owner."""
    found = (stream.objects.get(owner.key) for stream in streams_of(connection, owner))
    return any(obj is not None and obj.uid == owner.uid for obj in found)


def _is_read(connection: MemberConnection, owner: Owner) -> bool:
    """Return whether a watch shows all objects of an owner's kind, as they are now."""
    return any(stream.is_complete and not stream.problem for stream in streams_of(connection, owner))
