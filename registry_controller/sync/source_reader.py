"""Reads the body of a source: from the cache of bodies, else by name at the peer."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable
from typing import Final

from registry_controller.api.errors import ApiError
from registry_controller.api.meta import ClusterUID
from registry_controller.clusters.peer import Connection
from registry_controller.kube.object import PartialObject
from registry_controller.kube.watch import read_object
from registry_controller.sync.reconciler import ASK_TIMEOUT_S
from registry_controller.sync.state_reader import Offer
from registry_controller.watch.body_cache import BodyCache, BodyKey
from registry_controller.watch.fairness import EvaluationLimiter

LARGE_BYTES: Final = 256 * 1024
_LARGE_AT_ONCE: Final = 2
"""The most large objects of one member: decoded, an object may take ten times its length until it is written."""


class SourceReader:
    """Reads sources. `connection` returns the connection to a peer, None while it is not connected."""

    def __init__(
        self,
        *,
        bodies: BodyCache,
        connection: Callable[[ClusterUID], Connection | None],
        evaluations: EvaluationLimiter,
    ) -> None:
        self._bodies = bodies
        self._connection = connection
        self.evaluations = evaluations
        self._large = collections.defaultdict[ClusterUID, asyncio.Semaphore](lambda: asyncio.Semaphore(_LARGE_AT_ONCE))

    async def read(self, offer: Offer) -> PartialObject:
        """Return the body of a source; ApiError while its peer is not connected."""
        obj = self._bodies.peek(_slot_of(offer))
        if obj is not None:
            return obj
        connection = self._connection(offer.cache.peer)
        if connection is None:
            raise ApiError("the peer is not connected; waiting for it")
        gvr = await connection.discovery.resolve(offer.cache.kind)
        obj = await read_object(connection.reader, gvr, offer.key, kind=offer.cache.kind, timeout_s=ASK_TIMEOUT_S)
        await self.evaluations.wait(offer.cache.kind)
        return obj

    def limit_large(self, offer: Offer) -> asyncio.Semaphore:
        """Return the semaphore that limits how many large objects of one peer are decoded at a time."""
        return self._large[offer.cache.peer]

    def drop(self, offer: Offer, obj: PartialObject) -> None:
        """Drop a body that was written, unless a stream has brought a newer one."""
        record = offer.cache.records.get(offer.key)
        if record is not None and record.revision <= obj.revision:
            self._bodies.drop(_slot_of(offer))


def _slot_of(offer: Offer) -> BodyKey:
    return BodyKey(offer.cache.peer, offer.cache.kind, offer.key)
