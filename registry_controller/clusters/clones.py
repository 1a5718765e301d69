"""Namesakes: several Cluster objects of one ID. What does the API server behind each of them call itself?

A cloned etcd makes two API servers with one ID, each of which names itself. Then nobody can say whose object is whose.

Laws: all of one ID are asked in one round and in one way, because answers of different moments differ without a
reason · a difference counts when the next round shows it, too · who does not answer has said nothing · what a server
answers cannot make it be asked more often.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError, TooMuch, Unreachable
from registry_controller.api.meta import ClusterUID
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.peer_objects import read_member
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.watch import PartialObject, decode_manifest, list_objects, read_cluster_id
from registry_controller.watch.limits import MOST_OWN

PERIOD_S: Final = 60.0
_AGAIN_S: Final = 2.0
_LIST_S: Final = 30.0

Answers = Mapping[str, frozenset[str]]
"""What the API server behind a Cluster, named by its uid, calls itself: nothing where it has another ID."""


@dataclass(slots=True)
class _Probe:
    """The Clusters of one ID that are asked, by their uids, and what they said in the last round."""

    wanted: Mapping[str, Credentials]
    answers: Answers = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[NoReturn] | None = None


class CloneDetector:
    """Ask the Clusters of each ID that has several, once a minute. `changed` is called when an answer changed."""

    def __init__(self, *, connect_peer: Callable[[Credentials], Reader], changed: Callable[[], None]) -> None:
        self._connect_peer = connect_peer
        self._changed = changed
        self._asked: dict[ClusterUID, _Probe] = {}

    def answers(self, cluster_id: ClusterUID) -> Answers:
        """Tell what those of an ID said that answered in the last round."""
        asked = self._asked.get(cluster_id)
        return asked.answers if asked is not None else {}

    def plan(self, scope: asyncio.TaskGroup, wanted: Mapping[ClusterUID, Mapping[str, Credentials]]) -> None:
        """Ask these, and no others: by the ID and the Cluster's uid."""
        for cluster_id in [uid for uid in self._asked if uid not in wanted]:
            task = self._asked.pop(cluster_id).task
            assert task is not None
            task.cancel()
        for cluster_id, found in wanted.items():
            asked = self._asked.get(cluster_id)
            if asked is None:
                asked = self._asked[cluster_id] = _Probe(found)
                asked.task = scope.create_task(self._ask(cluster_id, asked), name=f"namesakes {cluster_id}")
            elif asked.wanted != found:
                asked.answers = {uid: told for uid, told in asked.answers.items() if _is_same(uid, asked.wanted, found)}
                asked.wanted = found
                asked.news.set()

    async def _ask(self, cluster_id: ClusterUID, asked: _Probe) -> NoReturn:
        while True:
            asked.news.clear()
            wanted = asked.wanted
            found = await self._round(cluster_id, wanted)
            if _differ(found) and not _differ(asked.answers):
                await asyncio.sleep(_AGAIN_S)
                found = await self._round(cluster_id, wanted)
            found = {uid: told for uid, told in found.items() if _is_same(uid, wanted, asked.wanted)}
            if found != asked.answers:
                asked.answers = found
                self._changed()
            await asyncio.sleep(_AGAIN_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_S - _AGAIN_S):
                    await asked.news.wait()

    async def _round(self, cluster_id: ClusterUID, wanted: Mapping[str, Credentials]) -> Answers:
        async with asyncio.TaskGroup() as scope:
            tasks = {
                uid: scope.create_task(self._one(cluster_id, credentials), name=f"namesake {uid}")
                for uid, credentials in wanted.items()
            }
        return {uid: told for uid, task in tasks.items() if (told := task.result()) is not None}

    async def _one(self, cluster_id: ClusterUID, credentials: Credentials) -> frozenset[str] | None:
        try:
            return await self._own_names(cluster_id, credentials)
        except RegistryError:
            return None

    async def _own_names(self, cluster_id: ClusterUID, credentials: Credentials) -> frozenset[str]:
        """List the names by which the API server calls itself; none when it has another ID."""
        reader = self._connect_peer(credentials)
        try:
            if await read_cluster_id(reader) != cluster_id:
                return frozenset()
            return await _local_names(reader, cluster_id)
        finally:
            await reader.close()


def _is_same(uid: str, before: Mapping[str, Credentials], now: Mapping[str, Credentials]) -> bool:
    return uid in before and uid in now and before[uid] == now[uid]


def _differ(answers: Answers) -> bool:
    return len({names for names in answers.values() if names}) > 1


async def _local_names(reader: Reader, cluster_id: ClusterUID) -> frozenset[str]:
    found, heard_of, most = set(), 0, MOST_OWN[meta.CLUSTER]
    try:
        async with asyncio.timeout(_LIST_S), contextlib.aclosing(_clusters(reader)) as clusters:
            async for obj in clusters:
                heard_of += 1
                if heard_of > most:
                    raise TooMuch(f"{reader.server} offers more than {most} Clusters")
                view = read_member(obj, decode_manifest(obj.raw), peer=cluster_id)
                if view is not None and view.is_own_name_of(cluster_id):
                    found.add(obj.key.name)
    except TimeoutError:
        raise Unreachable(f"list {meta.CLUSTERS}: {reader.server} does not come to an end") from None
    return frozenset(found)


async def _clusters(reader: Reader) -> AsyncGenerator[PartialObject, None]:
    async with contextlib.aclosing(list_objects(reader, meta.CLUSTERS, EVERYTHING, kind=meta.CLUSTER)) as pages:
        async for page in pages:
            for obj in page.items:
                yield obj
