"""What `leave` does: say that a member has left, wait until the daemon has drawn the consequences, and clear up.

Laws: it can be broken off and begun again at any moment · nobody loses the credentials by which a member is still to
hear the news.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import date
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, State, read_cluster
from registry_controller.api.errors import AlreadyExists, BadInput, RegistryError
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey
from registry_controller.api.tombstone import (
    Tombstone,
    can_be_named,
    left_secret,
    read_standing,
    tombstone_manifest,
)
from registry_controller.core.leaving import LASTS
from registry_controller.core.own import Marks, read_marks
from registry_controller.engine.homeapi import HomeApi
from registry_controller.engine.members import cluster_target, membership_of
from registry_controller.engine.published import is_published
from registry_controller.engine.readertoken import TokenSettings, tokens_left

_LOOK_EVERY_S: Final = 0.5
_BRAKE: Final = "; rules may hold that back (DeletionHalted)"


class StillThere(RegistryError):
    """It is not over: somebody, or the daemon, has something left to do."""


class Farewell:
    """Leaves the group, or says of another member that it has. `say` is told what is done, in words."""

    def __init__(
        self, *, api: HomeApi, local: ClusterUID, settings: TokenSettings, today: date, say: Callable[[str], None]
    ) -> None:
        self._api = api
        self._local = local
        self._settings = settings
        self._today = today
        self._say = say

    async def leave(self, *, without: Collection[str] = (), wait_s: float) -> None:
        """Take this cluster out of the group. Members in `without` are not waited for. RegistryError in words."""
        own = [manifest for manifest in await self._clusters() if self._is_own(manifest)]
        if len(own) > 1:
            names = ", ".join(sorted(meta.metadata_of(manifest)["name"] for manifest in own))
            raise BadInput(f"Clusters {names} all have this cluster's ID: delete all but one first")
        if own:
            await self._say_farewell(own[0])
        secret = await self._published()
        await self._forget(without)
        await self._until(self._left_over, wait_s=wait_s)
        await self._until(lambda: self._credentials_left(secret), wait_s=wait_s)
        self._say("its credentials are revoked: nobody can read this cluster with them any more")

    async def declare(self, name: str, *, wait_s: float) -> None:
        """Say that another member has left, because it cannot say so itself. RegistryError in words for people."""
        manifest = await self._api.read(meta.CLUSTERS, ObjectKey("", name))
        if manifest is None:
            raise BadInput(f"Cluster {name}: there is none here")
        cluster = read_cluster(manifest)
        self._check_may_be_said(manifest, cluster)
        same = [found for found in await self._clusters() if read_cluster(found).cluster_id == cluster.cluster_id]
        for found in same:
            await self._set_up(self._tombstone(found))
        self._say(f"said that {name} has left")
        # Carried here by hand, and never heard: the daemon leaves such a one to people.
        by_hand = [found for found in same if not _marks(found).is_copy]
        await self._forget([meta.metadata_of(found)["name"] for found in by_hand])
        stones = [self._tombstone(found).name for found in same]
        for found in same:
            await self._until(lambda found=found: self._still_there(read_cluster(found), stones), wait_s=wait_s)  # type: ignore[misc]
            if (secret := read_cluster(found).secret) is not None:
                await self._drop_secret(secret)
        self._say(f"{name} is gone from here; other members follow when they have not heard of it for long enough")

    def _check_may_be_said(self, manifest: Manifest, cluster: Cluster) -> None:
        name = cluster.name
        if cluster.cluster_id == self._local:
            raise BadInput(f"Cluster {name}: is this cluster itself; to leave, give no name")
        if (manifest.get("status") or {}).get("state") == State.READY.value:
            raise BadInput(
                f"Cluster {name}: is Ready; let it leave by itself, with `registry-controller leave` there, or stop "
                f"reading it with the annotation {meta.CLUSTER_DISABLED}"
            )
        if not can_be_named(cluster.cluster_id):
            raise BadInput(f"Cluster {name}: its clusterID {cluster.cluster_id!r} is no UID; delete the Cluster")
        if _marks(manifest).frozen:
            raise BadInput(f"Cluster {name}: the annotation {meta.SYNC_DISABLED} keeps it as it is; remove that first")

    def _tombstone(self, manifest: Manifest) -> Tombstone:
        cluster = read_cluster(manifest)
        membership = membership_of(meta.annotations_of(manifest), cluster.name, cluster.cluster_id)
        return Tombstone(cluster.cluster_id, membership, self._local, self._today + LASTS)

    async def _say_farewell(self, own: Manifest) -> None:
        cluster = read_cluster(own)
        stone = Tombstone(self._local, cluster.uid, self._local, self._today + LASTS)
        await self._set_up(stone, secret=str(cluster.secret or ""))
        await self._api.delete(meta.CLUSTERS, own)
        self._say(f"deleted the Cluster {cluster.name}: the other members let go of it when they read that")

    async def _published(self) -> ObjectKey | None:
        """Find where the credentials are, as the tombstone of our own remembers it."""
        features = await self._api.list(meta.FEATURES)
        found = [
            manifest
            for manifest in features
            if (stone := read_standing(manifest)) is not None and stone.member == stone.said_by == self._local
        ]
        if not found:
            raise BadInput("this cluster is no member: no Cluster here has its ID")
        return left_secret(max(found, key=_age))

    async def _left_over(self) -> Sequence[str]:
        names = [meta.metadata_of(found)["name"] for found in await self._clusters() if not self._is_own(found)]
        return [
            f"{name}: waits until it has let go of this cluster, and what came from there has gone from here{_BRAKE}"
            for name in sorted(names)
        ]

    async def _credentials_left(self, secret: ObjectKey | None) -> Sequence[str]:
        found = await self._api.read(meta.SECRETS, secret) if secret is not None else None
        if (found is not None and is_published(found)) or await tokens_left(self._api, self._settings):
            return ["the daemon has not taken the credentials away yet"]
        return []

    async def _still_there(self, cluster: Cluster, stones: Sequence[str]) -> Sequence[str]:
        if await self._api.read(meta.CLUSTERS, ObjectKey("", cluster.name)) is not None:
            for name in stones:
                if await self._api.read(meta.FEATURES, ObjectKey("", name)) is None:
                    raise BadInput(
                        f"Cluster {cluster.name}: the daemon took the tombstone away; the cluster answers it, or the "
                        "clock of this machine is far from the daemon's"
                    )
            return [f"{cluster.name}: waits until it is sure that it is silent, and its copies have gone{_BRAKE}"]
        if cluster.secret is None or await self._marked_secret(cluster.secret) is None:
            return []
        return [f"{cluster.name}: its Secret {cluster.secret} is still here"]

    async def _until(self, left: Callable[[], Any], *, wait_s: float) -> None:
        """Wait until nothing is left to do; StillThere after so long."""
        said: Sequence[str] = ()
        try:
            async with asyncio.timeout(wait_s):
                while found := await left():
                    for words in found if found != said else ():
                        self._say(words)
                    said = found
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            raise StillThere("; ".join(said) or f"no answer within {wait_s:g} s") from None

    async def _set_up(self, stone: Tombstone, *, secret: str = "") -> None:
        """Put up a tombstone, in the place of one by somebody else."""
        wanted = tombstone_manifest(stone, secret=secret)
        try:
            await self._api.create(meta.FEATURES, wanted)
        except AlreadyExists:
            found = await self._api.read(meta.FEATURES, ObjectKey("", stone.name))
            held = read_standing(found) if found is not None else None
            if found is not None and (held is None or held.said_by != stone.said_by):
                info = {**meta.metadata_of(wanted), "resourceVersion": meta.metadata_of(found)["resourceVersion"]}
                await self._api.replace(meta.FEATURES, {**wanted, "metadata": info})

    async def _forget(self, names: Collection[str]) -> None:
        """Delete Clusters of others, and the Secrets that they name."""
        for manifest in await self._clusters():
            if meta.metadata_of(manifest)["name"] not in names or self._is_own(manifest):
                continue
            cluster = read_cluster(manifest)
            await self._api.delete(meta.CLUSTERS, manifest)
            if cluster.secret is not None:
                await self._drop_secret(cluster.secret)
            self._say(f"deleted the Cluster {cluster.name}, and its Secret")

    async def _drop_secret(self, key: ObjectKey) -> None:
        """Delete a registry Secret, unless a Cluster here still names it."""
        found = await self._api.read(meta.SECRETS, key)
        if found is None or found.get("type") != meta.REGISTRY_SECRET_TYPE:
            return
        if key not in [read_cluster(manifest).secret for manifest in await self._clusters()]:
            await self._api.delete(meta.SECRETS, found)

    async def _marked_secret(self, key: ObjectKey) -> Manifest | None:
        found = await self._api.read(meta.SECRETS, key)
        return found if found is not None and meta.OWNER in meta.annotations_of(found) else None

    async def _clusters(self) -> Sequence[Manifest]:
        return await self._api.list(meta.CLUSTERS)

    def _is_own(self, manifest: Manifest) -> bool:
        return bool((manifest.get("spec") or {}).get("clusterID") == self._local)


def _marks(manifest: Manifest) -> Marks:
    return read_marks(meta.annotations_of(manifest), of=cluster_target(str(meta.metadata_of(manifest)["name"])))


def _age(manifest: Manifest) -> tuple[str, str]:
    info = meta.metadata_of(manifest)
    return str(info.get("creationTimestamp")), str(info.get("name"))
