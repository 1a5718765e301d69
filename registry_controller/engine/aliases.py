"""Aliases: two Cluster objects of one ID, of which only one is read. Is the other one genuine, too?

A cloned etcd makes two API servers with one ID, each of which names itself. Then nobody can say whose object is whose.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final, NamedTuple, NoReturn

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError, TooMuch, Unreachable
from registry_controller.api.meta import ClusterUID
from registry_controller.api.selection import EVERYTHING
from registry_controller.engine.room import MOST_OWN
from registry_controller.engine.taps import read_view
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.watch import Heard, decode_manifest, list_objects, read_cluster_id

PERIOD_S: Final = 60.0
_LIST_S: Final = 30.0


class Alias(NamedTuple):
    """A Cluster object that is not read, and the ID that it shares."""

    cluster_id: ClusterUID
    name: str


class Aliases:
    """Ask what each alias leads to now and then. `changed` is called when an answer changed."""

    def __init__(self, *, connect_peer: Callable[[Credentials], Reader], changed: Callable[[], None]) -> None:
        self._connect_peer = connect_peer
        self._changed = changed
        self._tasks: dict[Alias, tuple[Credentials, asyncio.Task[NoReturn]]] = {}
        self._told: dict[Alias, frozenset[str]] = {}

    def names_at(self, alias: Alias) -> frozenset[str] | None:
        """Tell what the API server calls itself: no name where it has another ID; None before it answered."""
        return self._told.get(alias)

    def plan(self, scope: asyncio.TaskGroup, wanted: Mapping[Alias, Credentials]) -> None:
        """Ask these, and no others."""
        for alias, (credentials, task) in list(self._tasks.items()):
            if wanted.get(alias) != credentials:
                task.cancel()
                del self._tasks[alias]
                if alias not in wanted:
                    self._told.pop(alias, None)
        for alias, credentials in wanted.items():
            if alias not in self._tasks:
                task = scope.create_task(self._ask(alias, credentials), name=f"alias {alias.name}")
                self._tasks[alias] = (credentials, task)

    async def _ask(self, alias: Alias, credentials: Credentials) -> NoReturn:
        while True:
            with contextlib.suppress(RegistryError):  # no answer proves nothing
                names = await self._own_names(alias.cluster_id, credentials)
                if names != self._told.get(alias):
                    self._told[alias] = names
                    self._changed()
            await asyncio.sleep(PERIOD_S)

    async def _own_names(self, cluster_id: ClusterUID, credentials: Credentials) -> frozenset[str]:
        """List the names by which the API server calls itself; none when it has another ID."""
        reader = self._connect_peer(credentials)
        try:
            if await read_cluster_id(reader) != cluster_id:
                return frozenset()
            return await _local_names(reader, cluster_id)
        finally:
            await reader.close()


async def _local_names(reader: Reader, cluster_id: ClusterUID) -> frozenset[str]:
    found, heard_of, most = set(), 0, MOST_OWN[meta.CLUSTER]
    try:
        async with asyncio.timeout(_LIST_S), contextlib.aclosing(_clusters(reader)) as clusters:
            async for heard in clusters:
                heard_of += 1
                if heard_of > most:
                    raise TooMuch(f"{reader.server} offers more than {most} Clusters")
                view = read_view(heard, decode_manifest(heard.raw), peer=cluster_id)
                if view is not None and view.is_own_name_of(cluster_id):
                    found.add(heard.key.name)
    except TimeoutError:
        raise Unreachable(f"list {meta.CLUSTERS}: {reader.server} does not come to an end") from None
    return frozenset(found)


async def _clusters(reader: Reader) -> AsyncGenerator[Heard, None]:
    async with contextlib.aclosing(list_objects(reader, meta.CLUSTERS, EVERYTHING, kind=meta.CLUSTER)) as pages:
        async for page in pages:
            for heard in page.items:
                yield heard
