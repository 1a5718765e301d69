"""What `leave` does: say that a member has left, wait until the daemon has drawn the consequences, and clear up.

Laws: it can be broken off and begun again at any moment · nobody loses the credentials by which a member is still to
hear the news.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from datetime import date
from typing import Any, Final, Protocol

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, State, read_cluster
from registry_controller.api.errors import AlreadyExists, BadInput, Conflict, InvalidObject, RegistryError
from registry_controller.api.meta import GVR, ClusterUID, Manifest, ObjectKey
from registry_controller.api.tombstone import (
    Tombstone,
    fits_in_tombstone,
    is_own_tombstone,
    published_secret,
    read_original_tombstone,
    tombstone_manifest,
)
from registry_controller.cache.members import cluster_target, membership_of, secret_target
from registry_controller.core.decision.ownership import Marks, read_marks
from registry_controller.core.decision.tombstones import LASTS
from registry_controller.local.client import LocalClient, age
from registry_controller.local.kubeconfig_secret import is_published
from registry_controller.local.reader_token import TokenSettings, tokens_left

_LOOK_EVERY_S: Final = 0.5
_ATTEMPTS: Final = 10
_BRAKE: Final = "; rules may hold that back (DeletionHalted), and nothing happens while no daemon of this cluster runs"
_AGAIN: Final = "; the same command goes on from here"


class Settings(TokenSettings, Protocol):
    """The options that this room reads."""

    @property
    def manage_local_cluster_secret(self) -> bool: ...


class StillThere(RegistryError):
    """It is not over: somebody, or the daemon, has something left to do."""


class LeaveCommand:
    """Leaves the group, or says of another member that it has. `say` is told what is done, in words."""

    def __init__(
        self, *, api: LocalClient, local: ClusterUID, settings: Settings, today: date, say: Callable[[str], None]
    ) -> None:
        self._api = api
        self._local = local
        self._settings = settings
        self._today = today
        self._say = say

    async def question(self, name: str) -> str:
        """Ask whether this cluster is to leave, or the member of that name; BadInput where that one cannot be said."""
        if name:
            await self._find(name)
            return f"Cluster {name} is dead: let all members forget it, and delete here what its rules say?"
        own = [cluster.name for cluster in await self._clusters() if cluster.cluster_id == self._local]
        called = f" {', '.join(own)}" if own else ""
        return f"Take this cluster{called} out of its group, delete its Cluster, and revoke its credentials?"

    async def leave(self, *, without: Collection[str] = (), wait_s: float) -> None:
        """Take this cluster out of the group. Members in `without` are not waited for. RegistryError in words."""
        clusters = await self._clusters()
        own = [cluster for cluster in clusters if cluster.cluster_id == self._local]
        unknown = set(without) - {cluster.name for cluster in clusters if cluster.cluster_id != self._local}
        if len(own) > 1:
            names = ", ".join(sorted(cluster.name for cluster in own))
            raise BadInput(f"Clusters {names} all have this cluster's ID: delete all but one first")
        if unknown:
            raise BadInput(f"--without {', '.join(sorted(unknown))}: there is no other Cluster of that name here")
        if own:
            await self._say_farewell(own[0])
        secret = await self._published()
        await self._forget(without)
        deadline = _now_s() + wait_s
        await self._until(self._left_over, deadline=deadline)
        if not self._settings.manage_local_cluster_secret:
            self._say("its credentials are managed by you: revoke them, and delete the Secret in which they are")
            return
        await self._until(lambda: self._credentials_left(secret), deadline=deadline)
        self._say("its credentials are revoked: nobody can read this cluster with them any more; it has left")

    async def declare(self, name: str, *, wait_s: float) -> None:
        """Say that another member has left, because it cannot say so itself. RegistryError in words for people."""
        same = await self._find(name)
        stones = [await self._tombstone(found) for found in same]
        for stone in stones:
            await self._set_up(stone)
        self._say(f"said that {name} has left")
        # Carried here by hand, and never heard: the daemon leaves such a one to people.
        await self._forget([found.name for found in same if found.owner is None])
        deadline = _now_s() + wait_s
        await self._until(lambda: self._still_there(same, stones), deadline=deadline)
        for found in same:
            if found.secret is not None:
                await self._drop_secret(found.secret)
        self._say(f"{name} is gone from here; other members follow when they have not heard of it for long enough")

    async def _find(self, name: str) -> Sequence[Cluster]:
        """Find the Clusters of the member of that name; BadInput where nobody may say that it has left."""
        manifest = await self._api.read(meta.CLUSTERS, ObjectKey("", name))
        if manifest is None:
            raise BadInput(f"Cluster {name}: there is none here")
        cluster = read_cluster(manifest)
        same = [found for found in await self._clusters() if found.cluster_id == cluster.cluster_id]
        self._check_may_be_said(manifest, cluster, same)
        return same

    def _check_may_be_said(self, manifest: Manifest, cluster: Cluster, same: Sequence[Cluster]) -> None:
        name = cluster.name
        if cluster.cluster_id == self._local:
            raise BadInput(f"Cluster {name}: is this cluster itself; to leave, give no name")
        if any(found.contested for found in same):
            raise BadInput(
                f"Cluster {name}: two API servers have its ID {cluster.cluster_id}, and it would be said of both; "
                "delete the Cluster of the one that is no member, and its Secret, instead"
            )
        if (manifest.get("status") or {}).get("state") == State.READY.value:
            raise BadInput(
                f"Cluster {name}: is Ready; let it leave by itself, with `registry-controller leave` there, or stop "
                f"reading it with the annotation {meta.CLUSTER_DISABLED}"
            )
        if not fits_in_tombstone(cluster.cluster_id):
            raise BadInput(f"Cluster {name}: its clusterID {cluster.cluster_id!r} is no UID; delete the Cluster")
        if _marks(manifest).frozen:
            raise BadInput(f"Cluster {name}: the annotation {meta.SYNC_DISABLED} keeps it as it is; remove that first")

    async def _tombstone(self, cluster: Cluster) -> Tombstone:
        manifest = await self._api.read(meta.CLUSTERS, ObjectKey("", cluster.name)) or {}
        membership = membership_of(meta.annotations_of(manifest), cluster.name, cluster.cluster_id)
        return Tombstone(cluster.cluster_id, membership, self._local, self._today + LASTS)

    async def _say_farewell(self, own: Cluster) -> None:
        stone = Tombstone(self._local, own.uid, self._local, self._today + LASTS)
        await self._set_up(stone, secret=str(own.secret or ""))
        await self._delete(meta.CLUSTERS, ObjectKey("", own.name), uid=own.uid)
        self._say(f"deleted the Cluster {own.name}: the other members let go of it when they read that")

    async def _published(self) -> ObjectKey | None:
        """Find where the credentials are, as the tombstone of our own remembers it."""
        features = await self._api.list(meta.FEATURES)
        found = [manifest for manifest in features if is_own_tombstone(manifest, of=self._local)]
        if not found:
            raise BadInput("this cluster is no member: no Cluster here has its ID")
        return published_secret(max(found, key=age))

    async def _left_over(self) -> Sequence[str]:
        others = [cluster for cluster in await self._clusters() if cluster.cluster_id != self._local]
        left = [f"{cluster.name}: {await self._why_left(cluster)}" for cluster in sorted(others, key=lambda c: c.name)]
        return left or await self._secrets_left()

    async def _secrets_left(self) -> Sequence[str]:
        """Say which credentials of others are here still: they outlive their Clusters for a moment."""
        of_registry = f"type={meta.REGISTRY_SECRET_TYPE}"
        found = await self._api.list(meta.SECRETS, namespace=self._settings.namespace, fields=of_registry)
        return [words for manifest in found if (words := self._why_secret_left(manifest))]

    def _why_secret_left(self, manifest: Manifest) -> str:
        info = meta.metadata_of(manifest)
        key = ObjectKey(info["namespace"], info["name"])
        marks = read_marks(meta.annotations_of(manifest), of=secret_target(key))
        if marks.owner in (None, self._local):
            return ""
        if marks.frozen:
            return f"Secret {key}: the annotation {meta.SYNC_DISABLED} keeps it; remove it, or delete the Secret"
        return f"Secret {key}: waits until the daemon has taken it away{_BRAKE}"

    async def _why_left(self, cluster: Cluster) -> str:
        manifest = await self._api.read(meta.CLUSTERS, ObjectKey("", cluster.name))
        marks = _marks(manifest or {"metadata": {"name": cluster.name}})
        if marks.frozen:
            return f"the annotation {meta.SYNC_DISABLED} keeps its Cluster; remove it, or leave it out with --without"
        if manifest is not None and not marks.is_copy:
            return "was carried here by hand, and has not been heard since; leave it out with --without"
        return f"waits until it has let go of this cluster, and what came from there has gone from here{_BRAKE}"

    async def _credentials_left(self, secret: ObjectKey | None) -> Sequence[str]:
        found = await self._api.read(meta.SECRETS, secret) if secret is not None else None
        if (found is not None and is_published(found)) or await tokens_left(self._api, self._settings):
            return [
                "waits until the daemon has taken this cluster's credentials away; one that runs with "
                "MANAGE_LOCAL_CLUSTER_SECRET=false leaves that to you"
            ]
        return []

    async def _still_there(self, same: Sequence[Cluster], stones: Sequence[Tombstone]) -> Sequence[str]:
        clusters = {cluster.name for cluster in await self._clusters()}
        left = [cluster.name for cluster in same if cluster.name in clusters]
        for stone in stones if left else ():
            if await self._api.read(meta.FEATURES, ObjectKey("", stone.name)) is None:
                raise BadInput(
                    f"Cluster {', '.join(left)}: the daemon took the tombstone away; the cluster answers it, or the "
                    "clock of this machine is far from the daemon's"
                )
        waits = [f"{name}: waits until it is sure that it is silent, and its copies have gone{_BRAKE}" for name in left]
        for cluster in same:
            if not left and cluster.secret is not None and await self._marked_secret(cluster.secret) is not None:
                waits.append(f"{cluster.name}: its Secret {cluster.secret} is still here")
        return waits

    async def _until(self, left: Callable[[], Any], *, deadline: float) -> None:
        """Wait until nothing is left to do; StillThere when it is too late. What fails for a while is tried again."""
        said: Sequence[str] = ()
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    found = await left()
            except TimeoutError:
                raise StillThere(("; ".join(said) or "no answer in time") + _AGAIN) from None
            except BadInput:
                raise
            except RegistryError as error:
                found = [str(error)]
            if not found:
                return
            for words in found if found != said else ():
                self._say(words)
            said = found
            if _now_s() >= deadline:
                raise StillThere("; ".join(said) + _AGAIN)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _delete(self, gvr: GVR, key: ObjectKey, *, uid: str) -> None:
        """Delete the very object of that uid, whatever is written to it meanwhile."""
        for _ in range(_ATTEMPTS):
            found = await self._api.read(gvr, key)
            if found is None or meta.metadata_of(found).get("uid") != uid:
                return
            with contextlib.suppress(Conflict):
                await self._api.delete(gvr, found)
                return
        raise StillThere(f"{gvr} {key}: is written to all the time; run the same command again")

    async def _set_up(self, stone: Tombstone, *, secret: str = "") -> None:
        """Put up a tombstone, in the place of one by somebody else."""
        wanted = tombstone_manifest(stone, secret=secret)
        try:
            await self._api.create(meta.FEATURES, wanted)
        except AlreadyExists:
            found = await self._api.read(meta.FEATURES, ObjectKey("", stone.name))
            held = read_original_tombstone(found) if found is not None else None
            is_good = held is not None and held.reported_by == stone.reported_by and held.until >= self._today
            if found is not None and not is_good:
                info = {**meta.metadata_of(wanted), "resourceVersion": meta.metadata_of(found)["resourceVersion"]}
                await self._api.replace(meta.FEATURES, {**wanted, "metadata": info})

    async def _forget(self, names: Collection[str]) -> None:
        """Delete Clusters of others, and the Secrets that they name."""
        for cluster in await self._clusters():
            if cluster.name in names and cluster.cluster_id != self._local:
                await self._delete(meta.CLUSTERS, ObjectKey("", cluster.name), uid=cluster.uid)
                if cluster.secret is not None:
                    await self._drop_secret(cluster.secret)
                self._say(f"deleted the Cluster {cluster.name}, and its Secret")

    async def _drop_secret(self, key: ObjectKey) -> None:
        """Delete a registry Secret, unless a Cluster here still names it."""
        found = await self._api.read(meta.SECRETS, key)
        if found is None or found.get("type") != meta.REGISTRY_SECRET_TYPE:
            return
        if key not in [cluster.secret for cluster in await self._clusters()]:
            await self._delete(meta.SECRETS, key, uid=meta.metadata_of(found)["uid"])

    async def _marked_secret(self, key: ObjectKey) -> Manifest | None:
        found = await self._api.read(meta.SECRETS, key)
        return found if found is not None and meta.OWNER in meta.annotations_of(found) else None

    async def _clusters(self) -> Sequence[Cluster]:
        """List the Clusters; one that cannot be read is nobody's."""
        found = []
        for manifest in await self._api.list(meta.CLUSTERS):
            with contextlib.suppress(InvalidObject):
                found.append(read_cluster(manifest))
        return found


def _marks(manifest: Manifest) -> Marks:
    return read_marks(meta.annotations_of(manifest), of=cluster_target(str(meta.metadata_of(manifest)["name"])))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
