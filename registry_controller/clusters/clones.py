"""Clones: several API servers with one cluster ID, as after a copy of an etcd.

Each clone calls itself by a name of its own. While there are clones, the owner of an object cannot be determined.

Laws: all Clusters of one ID are probed in one round and in one way, because answers of different moments differ without
a reason · a difference counts when the next round confirms it · a missing answer proves nothing: another server does
not take the place of a silent one · a server's answers cannot raise the rate of its probes · clones stay in conflict
until one is gone, also after a restart: the status of their Clusters records the conflict.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster
from registry_controller.api.errors import RegistryError, TooMuch, Unreachable
from registry_controller.api.meta import ClusterUID
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.peer_objects import read_member
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.listing import list_objects
from registry_controller.kube.object import PartialObject, decode_manifest
from registry_controller.kube.watch import read_cluster_id
from registry_controller.watch.limits import MOST_OWN

PERIOD_S: Final = 60.0
_AGAIN_S: Final = 2.0
_LIST_S: Final = 30.0

Answers = Mapping[str, frozenset[str]]
"""The names by which the API server behind a Cluster calls itself, by the Cluster's uid; empty for another ID."""

CloneProbes = Mapping[ClusterUID, Mapping[str, Credentials]]
"""The credentials to probe with, by cluster ID and by the Cluster's uid."""


@dataclass(frozen=True, slots=True)
class CloneState:
    """The conclusions from all answers so far.

    `own_names` are the names by which a cluster ID calls itself, `clones` the uids of the Clusters that lead to clones,
    both by cluster ID. `seen` are the uids of the Clusters that were there before. `aliases` are the uids of the
    Clusters whose server last proved the ID, and calls itself by other names. `first` is the uid of the Cluster that
    counts for an ID while its server is silent: the first one, until another one is proven.
    """

    own_names: Mapping[ClusterUID, frozenset[str]] = field(default_factory=dict)
    clones: Mapping[ClusterUID, frozenset[str]] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()
    aliases: frozenset[str] = frozenset()
    first: Mapping[ClusterUID, str] = field(default_factory=dict)

    def updated(
        self,
        clusters: Mapping[ClusterUID, Sequence[Cluster]],
        answers: Mapping[ClusterUID, Answers],
        servers: Mapping[str, str],
    ) -> CloneState:
        """Return the state for the peers' Clusters here now, sorted by their IDs.

        `servers` has the address to which a Cluster leads, by the Cluster's uid, as far as that is known.
        """
        own_names = {uid: names for uid, names in self.own_names.items() if uid in clusters}
        clones: dict[ClusterUID, frozenset[str]] = {}
        aliases: set[str] = set()
        first: dict[ClusterUID, str] = {}
        for cluster_id, same in clusters.items():
            by_uid = answers.get(cluster_id, {})
            answered = {cluster.name: by_uid.get(cluster.uid) for cluster in same}
            proven = {one.uid: names for one in same if (names := answered[one.name]) and one.name in names}
            named = list(proven.values()) or [names for names in answered.values() if names]
            if proven or (named and cluster_id not in own_names):
                own_names[cluster_id] = frozenset[str]().union(*named)
            aliases |= {
                cluster.uid
                for cluster in same
                if _is_alias(cluster, answered[cluster.name], was=cluster.uid in self.aliases)
            }
            known = self.clones.get(cluster_id, frozenset())
            if any(cluster.contested and cluster.uid not in self.seen for cluster in same):
                # Each Cluster has its own status, and one of them may not have been written.
                known |= {cluster.uid for cluster in same}
            first_one = _find_first(same, self.first.get(cluster_id))
            first[cluster_id] = first_one.uid
            if _is_replaced(first_one, by_uid, servers):
                known |= {first_one.uid}
            names = find_clones(answered, were={cluster.name for cluster in same if cluster.uid in known})
            if names:
                clones[cluster_id] = frozenset(cluster.uid for cluster in same if cluster.name in names)
            elif proven and first_one.uid not in proven:
                first[cluster_id] = min(proven)
        seen = frozenset(cluster.uid for same in clusters.values() for cluster in same)
        return CloneState(own_names, clones, seen, frozenset(aliases), first)


def find_clones(answered: Mapping[str, frozenset[str] | None], *, were: Set[str]) -> frozenset[str]:
    """Return the names of the Clusters of one ID that lead to different API servers.

    `answered` has, by the Cluster's name, the names by which its API server calls itself; None without an answer: then
    the Cluster keeps its last result. A Cluster is suspected once its server calls itself by the Cluster's name, and a
    former clone (`were`) under any name. A silent Cluster counts as a clone if it is in `were`.
    """
    suspects = {name: names for name, names in answered.items() if names and (name in names or name in were)}
    silent = {name for name, names in answered.items() if names is None and name in were}
    several = len(set(suspects.values())) + len(silent) > 1
    return frozenset({*suspects, *silent}) if several else frozenset()


@dataclass(slots=True)
class _Probe:
    """The probed Clusters of one ID, by their uids, and the answers of the last round.

    `is_compared` means that a round with these Clusters has ended.
    """

    wanted: Mapping[str, Credentials]
    answers: Answers = field(default_factory=dict)
    is_compared: bool = False
    is_changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[NoReturn] | None = None


class CloneDetector:
    """Probes the Clusters of each ID that has several, once a minute. Calls `changed` when an answer changed."""

    def __init__(self, *, connect_peer: Callable[[Credentials], Reader], changed: Callable[[], None]) -> None:
        self._connect_peer = connect_peer
        self._changed = changed
        self._probes: dict[ClusterUID, _Probe] = {}

    @property
    def answers(self) -> Mapping[ClusterUID, Answers]:
        """The answers of the last round; Clusters without an answer are missing."""
        return {cluster_id: probe.answers for cluster_id, probe in self._probes.items()}

    @property
    def uncompared(self) -> frozenset[ClusterUID]:
        """The IDs whose Clusters were not all asked yet: they may lead to clones."""
        return frozenset(uid for uid, probe in self._probes.items() if not probe.is_compared)

    def set_probes(self, scope: asyncio.TaskGroup, wanted: CloneProbes) -> None:
        """Probe exactly these Clusters."""
        for cluster_id in [uid for uid in self._probes if uid not in wanted]:
            task = self._probes.pop(cluster_id).task
            assert task is not None
            task.cancel()
        for cluster_id, found in wanted.items():
            probe = self._probes.get(cluster_id)
            if probe is None:
                probe = self._probes[cluster_id] = _Probe(found)
                probe.task = scope.create_task(self._run(cluster_id, probe), name=f"clones {cluster_id}")
            elif probe.wanted != found:
                probe.answers = {
                    uid: names for uid, names in probe.answers.items() if _is_same(uid, probe.wanted, found)
                }
                probe.wanted = found
                probe.is_compared = False
                probe.is_changed.set()

    async def _run(self, cluster_id: ClusterUID, probe: _Probe) -> NoReturn:
        while True:
            probe.is_changed.clear()
            wanted = probe.wanted
            found = await self._ask_all(cluster_id, wanted)
            if _differ(found) and not _differ(probe.answers):
                await asyncio.sleep(_AGAIN_S)
                found = await self._ask_all(cluster_id, wanted)
            found = {uid: names for uid, names in found.items() if _is_same(uid, wanted, probe.wanted)}
            is_first = probe.wanted is wanted and not probe.is_compared
            probe.is_compared = probe.is_compared or is_first
            if found != probe.answers or is_first:
                probe.answers = found
                self._changed()
            await asyncio.sleep(_AGAIN_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PERIOD_S - _AGAIN_S):
                    await probe.is_changed.wait()

    async def _ask_all(self, cluster_id: ClusterUID, wanted: Mapping[str, Credentials]) -> Answers:
        async with asyncio.TaskGroup() as scope:
            tasks = {
                uid: scope.create_task(self._ask(cluster_id, credentials), name=f"clone {uid}")
                for uid, credentials in wanted.items()
            }
        return {uid: names for uid, task in tasks.items() if (names := task.result()) is not None}

    async def _ask(self, cluster_id: ClusterUID, credentials: Credentials) -> frozenset[str] | None:
        try:
            return await self._own_names(cluster_id, credentials)
        except RegistryError:
            return None

    async def _own_names(self, cluster_id: ClusterUID, credentials: Credentials) -> frozenset[str] | None:
        """List the names by which the API server calls itself; none when it has another ID.

        A server that has the ID and no Cluster of itself may lack it for a moment only, which is no answer: None.
        """
        reader = self._connect_peer(credentials)
        try:
            if await read_cluster_id(reader) != cluster_id:
                return frozenset()
            return await _local_names(reader, cluster_id) or None
        finally:
            await reader.close()


def _find_first(same: Sequence[Cluster], before: str | None) -> Cluster:
    """Return the Cluster that was there first.

    A clock that was set back lets a later one look older, and so does a Cluster that was made again: a copy of the
    member's own one comes before one that was made here.
    """
    return min(
        same,
        key=lambda cluster: (
            cluster.uid != before,
            not cluster.was_read,
            not cluster.is_copy,
            cluster.created,
            cluster.name,
        ),
    )


def _is_replaced(cluster: Cluster, answers: Answers, servers: Mapping[str, str]) -> bool:
    """Return whether a Cluster does not answer, while only servers elsewhere do that do not call themselves so.

    A member that was renamed answers at its former address, too.
    """
    server, others = servers.get(cluster.uid), {servers.get(uid) for uid in answers}
    is_name_kept = any(cluster.name in names for names in answers.values())
    return cluster.uid not in answers and server is not None and server not in others and not is_name_kept


def _is_alias(cluster: Cluster, names: frozenset[str] | None, *, was: bool) -> bool:
    """Return whether a Cluster's server calls itself by other names; without an answer, as before."""
    return was if names is None else bool(names) and cluster.name not in names


def _is_same(uid: str, before: Mapping[str, Credentials], now: Mapping[str, Credentials]) -> bool:
    return uid in before and uid in now and before[uid] == now[uid]


def _differ(answers: Answers) -> bool:
    return len({names for names in answers.values() if names}) > 1


async def _local_names(reader: Reader, cluster_id: ClusterUID) -> frozenset[str]:
    found, count, most = set(), 0, MOST_OWN[meta.CLUSTER]
    try:
        async with asyncio.timeout(_LIST_S), contextlib.aclosing(_clusters(reader)) as clusters:
            async for obj in clusters:
                count += 1
                if count > most:
                    raise TooMuch(f"{reader.server} offers more than {most} Clusters")
                record = read_member(obj, decode_manifest(obj.raw), peer=cluster_id)
                if record is not None and record.is_own_name_of(cluster_id):
                    found.add(obj.key.name)
    except TimeoutError:
        raise Unreachable(f"list {meta.CLUSTERS}: {reader.server} does not come to an end") from None
    return frozenset(found)


async def _clusters(reader: Reader) -> AsyncGenerator[PartialObject, None]:
    async with contextlib.aclosing(list_objects(reader, meta.CLUSTERS, EVERYTHING, kind=meta.CLUSTER)) as pages:
        async for page in pages:
            for obj in page.items:
                yield obj
