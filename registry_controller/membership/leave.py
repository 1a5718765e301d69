"""The `leave` command: declares that a member has left, waits for the daemon, and cleans up here.

Laws: the command can be interrupted and run again at any moment · credentials stay valid for as long as a member still
has to read with them that this cluster has left.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from datetime import date
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, State, read_cluster
from registry_controller.api.errors import AlreadyExists, BadInput, Conflict, InvalidObject, RegistryError
from registry_controller.api.meta import GVR, ClusterUID, Manifest, ObjectKey
from registry_controller.api.tombstone import (
    Tombstone,
    fits_in_tombstone,
    further_labels,
    is_later_tombstone,
    is_ordered,
    is_own_tombstone,
    published_secret,
    read_original_tombstone,
    tombstone_manifest,
)
from registry_controller.cache.members import cluster_target, membership_marked, secret_target
from registry_controller.core.decision.marks import NATIVE, Marks, read_marks
from registry_controller.core.decision.tombstones import LASTS
from registry_controller.core.status.cluster import MISSING_FOR_LONG, OWN_CLUSTER_MISSING
from registry_controller.local.client import ClusterClient, age
from registry_controller.local.kubeconfig_secret import is_published
from registry_controller.local.reader_token import tokens_left
from registry_controller.settings import Settings

_POLL_S: Final = 0.5
_ATTEMPTS: Final = 10
_WHY_LONG: Final = "; a rule in DeletionHalted delays this, and the daemon of this cluster must be running"
_CONTINUE: Final = "; run the same command again to continue"


class LeaveIncomplete(RegistryError):
    """The time is over, and a person or the daemon still has something to do."""


class LeaveCommand:
    """Takes this cluster out of the group, or declares that another member has left.

    Calls `report` with a sentence for each step.
    """

    def __init__(
        self, *, api: ClusterClient, local: ClusterUID, settings: Settings, today: date, report: Callable[[str], None]
    ) -> None:
        self._api = api
        self._local = local
        self._settings = settings
        self._today = today
        self._report = report

    async def question(self, name: str) -> str:
        """Return the question to confirm: for this cluster, or for the member of that name. Raises BadInput."""
        if name:
            await self._find(name)
            return (
                f"Declare that Cluster {name} is gone for good, so that all members remove it, and delete its copies "
                "here whose rules have the deletionPolicy Delete?"
            )
        own = [cluster.name for cluster in await self._clusters() if cluster.cluster_id == self._local]
        called = f" {', '.join(own)}" if own else ""
        return f"Take this cluster{called} out of its group, delete its Cluster, and revoke its credentials?"

    async def leave(self, *, without: Collection[str] = (), wait_s: float) -> None:
        """Take this cluster out of the group, without waiting for the members in `without`. Raises RegistryError."""
        clusters = await self._clusters()
        own = [cluster for cluster in clusters if cluster.cluster_id == self._local]
        unknown = set(without) - {cluster.name for cluster in clusters if cluster.cluster_id != self._local}
        if len(own) > 1:
            names = ", ".join(sorted(cluster.name for cluster in own))
            raise BadInput(
                f"Clusters {names} all have this cluster's ID: delete all but one of them, and run this again"
            )
        if unknown:
            raise BadInput(
                f"--without {', '.join(sorted(unknown))}: no other member's Cluster has that name here; "
                "`kubectl get clusters` lists the names"
            )
        if own:
            await self._declare_local(own[0])
        secret = await self._find_published()
        await self._delete_clusters(without)
        deadline = _now_s() + wait_s
        await self._wait(self._list_left_over, deadline=deadline)
        if not self._settings.manage_local_cluster_secret:
            self._report(
                "this cluster has left; MANAGE_LOCAL_CLUSTER_SECRET is false: revoke its credentials yourself, and "
                "delete the Secret that holds them"
            )
            return
        await self._wait(lambda: self._list_credentials(secret), deadline=deadline)
        self._report("this cluster has left, and its credentials are revoked")

    async def declare(self, name: str, *, wait_s: float) -> None:
        """Declare that another member has left, because it cannot do so itself. Raises RegistryError."""
        same = await self._find(name)
        stones = [await self._make_tombstone(found) for found in same]
        for stone in stones:
            await self._put_tombstone(stone, ordered=True)
        self._report(f"declared that {name} has left")
        # The daemon does not delete a Cluster that a person created here and that was never read from its member.
        await self._delete_clusters([found.name for found in same if not await self._is_copy(found)])
        deadline = _now_s() + wait_s
        await self._wait(lambda: self._list_remains(same, stones), deadline=deadline)
        for found in same:
            if found.secret is not None:
                await self._delete_secret(found.secret)
        self._report(
            f"{name} is removed from this cluster; each other member removes it after {name} has been silent there for "
            "controller.memberLeftTrustSeconds"
        )

    async def _find(self, name: str) -> Sequence[Cluster]:
        """Find the Clusters of the member of that name; BadInput when it cannot be declared to have left."""
        manifest = await self._api.read(meta.CLUSTERS, ObjectKey("", name))
        if manifest is None:
            raise BadInput(f"Cluster {name}: does not exist here; `kubectl get clusters` lists the names")
        cluster = read_cluster(manifest)
        same = [found for found in await self._clusters() if found.cluster_id == cluster.cluster_id]
        self._check(manifest, cluster, same)
        return same

    def _check(self, manifest: Manifest, cluster: Cluster, same: Sequence[Cluster]) -> None:
        name = cluster.name
        if cluster.cluster_id == self._local:
            raise BadInput(f"Cluster {name}: is this cluster; run `registry-controller leave` without a name")
        if any(found.contested for found in same):
            raise BadInput(
                f"Cluster {name}: two API servers have its ID {cluster.cluster_id}, and both would be declared to have "
                "left; delete the Cluster and the Secret of the one that is no member instead"
            )
        if (manifest.get("status") or {}).get("state") == State.READY.value and not _lacks_its_cluster(manifest):
            raise BadInput(
                f"Cluster {name}: is Ready, and did not lack its own Cluster for controller.memberAbsenceSeconds; run "
                f"`registry-controller leave` in that cluster, or stop reading it with "
                f"the annotation {meta.CLUSTER_DISABLED}"
            )
        if not fits_in_tombstone(cluster.cluster_id):
            raise BadInput(
                f"Cluster {name}: its clusterID {cluster.cluster_id!r} is not a UID; delete the Cluster instead"
            )
        if _read_marks(manifest).frozen:
            raise BadInput(
                f"Cluster {name}: the annotation {meta.SYNC_DISABLED} keeps it; remove the annotation, and "
                "run this again"
            )

    async def _make_tombstone(self, cluster: Cluster) -> Tombstone:
        manifest = await self._api.read(meta.CLUSTERS, ObjectKey("", cluster.name)) or {}
        marks = read_marks(meta.annotations_of(manifest), of=cluster_target(cluster.name))
        membership = membership_marked(marks, cluster.cluster_id)
        revision = marks.revision if membership else 0
        return Tombstone(cluster.cluster_id, membership, self._local, self._today + LASTS, revision)

    async def _declare_local(self, own: Cluster) -> None:
        manifest = await self._api.read(meta.CLUSTERS, ObjectKey("", own.name)) or {}
        revision = meta.revision(str(meta.metadata_of(manifest).get("resourceVersion", "")))
        stone = Tombstone(self._local, own.uid, self._local, self._today + LASTS, revision)
        await self._put_tombstone(stone, secret=str(own.secret or ""), ordered=True)
        await self._delete(meta.CLUSTERS, ObjectKey("", own.name), uid=own.uid)
        self._report(f"deleted the Cluster {own.name}; the other members remove it when they read that")

    async def _find_published(self) -> ObjectKey | None:
        """Find the Secret with this cluster's credentials, in this cluster's own tombstone."""
        features = await self._api.list(meta.FEATURES)
        found = [manifest for manifest in features if is_own_tombstone(manifest, of=self._local)]
        if not found:
            raise BadInput("this cluster is not a member: no Cluster here has its ID, so there is nothing to leave")
        return published_secret(max(found, key=age))

    async def _list_left_over(self) -> Sequence[str]:
        members = [cluster for cluster in await self._clusters() if cluster.cluster_id != self._local]
        left = [f"{cluster.name}: {await self._explain(cluster)}" for cluster in sorted(members, key=lambda c: c.name)]
        return left or await self._list_secrets()

    async def _list_secrets(self) -> Sequence[str]:
        """List the credentials of other members that are still here: they are deleted after their Clusters."""
        of_registry = f"type={meta.REGISTRY_SECRET_TYPE}"
        found = await self._api.list(meta.SECRETS, namespace=self._settings.namespace, fields=of_registry)
        return [words for manifest in found if (words := self._explain_secret(manifest))]

    def _explain_secret(self, manifest: Manifest) -> str:
        info = meta.metadata_of(manifest)
        key = ObjectKey(info["namespace"], info["name"])
        marks = read_marks(meta.annotations_of(manifest), of=secret_target(key))
        if marks.owner in (None, self._local):
            return ""
        if marks.frozen:
            return f"Secret {key}: the annotation {meta.SYNC_DISABLED} keeps it; remove it, or delete the Secret"
        return f"Secret {key}: waits until the daemon has deleted it{_WHY_LONG}"

    async def _explain(self, cluster: Cluster) -> str:
        manifest = await self._api.read(meta.CLUSTERS, ObjectKey("", cluster.name))
        marks = _read_marks(manifest or {"metadata": {"name": cluster.name}})
        if marks.frozen:
            return (
                f"the annotation {meta.SYNC_DISABLED} keeps its Cluster; remove the annotation, or leave the member "
                f"out with --without {cluster.name}"
            )
        if manifest is not None and not marks.is_copy:
            return (
                f"a person created its Cluster here, and nothing was read from the member since; leave it out with "
                f"--without {cluster.name}"
            )
        return f"waits until it has removed this cluster, and its copies are deleted here{_WHY_LONG}"

    async def _list_credentials(self, secret: ObjectKey | None) -> Sequence[str]:
        found = await self._api.read(meta.SECRETS, secret) if secret is not None else None
        if (found is not None and is_published(found, of=self._local)) or await tokens_left(self._api, self._settings):
            return [
                "waits until the daemon has deleted this cluster's credentials; where the daemon runs with "
                "MANAGE_LOCAL_CLUSTER_SECRET=false, delete them yourself"
            ]
        return []

    async def _list_remains(self, same: Sequence[Cluster], stones: Sequence[Tombstone]) -> Sequence[str]:
        clusters = {cluster.name for cluster in await self._clusters()}
        left = [cluster.name for cluster in same if cluster.name in clusters]
        for stone in stones if left else ():
            if await self._api.read(meta.FEATURES, ObjectKey("", stone.name)) is None:
                raise BadInput(
                    f"Cluster {', '.join(left)}: the daemon deleted the tombstone, because the cluster answers, or "
                    "because this machine's clock differs from the daemon's; check both, and run this again"
                )
        waits = [
            f"{name}: waits until the daemon finds it silent, and its copies are deleted here{_WHY_LONG}"
            for name in left
        ]
        for cluster in same:
            if not left and cluster.secret is not None and await self._is_copied_secret(cluster.secret):
                waits.append(f"{cluster.name}: waits until the daemon has deleted its Secret {cluster.secret}")
        return waits

    async def _wait(self, list_left: Callable[[], Any], *, deadline: float) -> None:
        """Wait until nothing is left; LeaveIncomplete at the deadline. Failed requests are repeated until then."""
        reported: Sequence[str] = ()
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    found = await list_left()
            except TimeoutError:
                raise LeaveIncomplete(("; ".join(reported) or "no answer in time") + _CONTINUE) from None
            except BadInput:
                raise
            except RegistryError as error:
                found = [str(error)]
            if not found:
                return
            for words in found if found != reported else ():
                self._report(words)
            reported = found
            if _now_s() >= deadline:
                raise LeaveIncomplete("; ".join(reported) + _CONTINUE)
            await asyncio.sleep(_POLL_S)

    async def _delete(self, gvr: GVR, key: ObjectKey, *, uid: str) -> None:
        """Delete the object of that uid, also while it is being changed."""
        for _ in range(_ATTEMPTS):
            found = await self._api.read(gvr, key)
            if found is None or meta.metadata_of(found).get("uid") != uid:
                return
            with contextlib.suppress(Conflict):
                await self._api.delete(gvr, found)
                return
        raise LeaveIncomplete(f"{gvr} {key}: another client changes it all the time{_CONTINUE}")

    async def _put_tombstone(self, stone: Tombstone, *, secret: str = "", ordered: bool) -> None:
        """Create a tombstone; replace one of the same membership that was not ordered here, or that has expired."""
        wanted = tombstone_manifest(stone, secret=secret, ordered=ordered)
        try:
            await self._api.create(meta.FEATURES, wanted)
        except AlreadyExists:
            found = await self._api.read(meta.FEATURES, ObjectKey("", stone.name))
            if found is not None and is_later_tombstone(found):
                raise BadInput(
                    f"ClusterFeature {stone.name}: a later version of the daemon wrote it; upgrade this one, and "
                    "run this again"
                ) from None
            held = read_original_tombstone(found, at=self._local) if found is not None else None
            is_ours = held is not None and held.reported_by == stone.reported_by and held.until >= self._today
            if found is not None and not (is_ours and is_ordered(found)):
                info = {**meta.metadata_of(wanted), "resourceVersion": meta.metadata_of(found)["resourceVersion"]}
                info["labels"] = {**further_labels(meta.labels_of(found)), **info["labels"]}
                await self._api.replace(meta.FEATURES, {**wanted, "metadata": info})

    async def _delete_clusters(self, names: Collection[str]) -> None:
        """Delete Clusters of other members, and the Secrets that they name."""
        for cluster in await self._clusters():
            if cluster.name in names and cluster.cluster_id != self._local:
                await self._delete(meta.CLUSTERS, ObjectKey("", cluster.name), uid=cluster.uid)
                if cluster.secret is not None:
                    await self._delete_secret(cluster.secret)
                self._report(f"deleted the Cluster {cluster.name} and its Secret")

    async def _delete_secret(self, key: ObjectKey) -> None:
        """Delete a registry Secret, unless a Cluster here still names it."""
        found = await self._api.read(meta.SECRETS, key)
        if found is None or found.get("type") != meta.REGISTRY_SECRET_TYPE:
            return
        if key not in [cluster.secret for cluster in await self._clusters()]:
            await self._delete(meta.SECRETS, key, uid=meta.metadata_of(found)["uid"])

    async def _is_copy(self, cluster: Cluster) -> bool:
        found = await self._api.read(meta.CLUSTERS, ObjectKey("", cluster.name))
        return found is not None and _read_marks(found).is_copy

    async def _is_copied_secret(self, key: ObjectKey) -> bool:
        found = await self._api.read(meta.SECRETS, key)
        marks = read_marks(meta.annotations_of(found), of=secret_target(key)) if found is not None else NATIVE
        return marks.owner not in (None, self._local)

    async def _clusters(self) -> Sequence[Cluster]:
        """List the Clusters that can be read."""
        found = []
        for manifest in await self._api.list(meta.CLUSTERS):
            with contextlib.suppress(InvalidObject):
                found.append(read_cluster(manifest))
        return found


def _lacks_its_cluster(manifest: Manifest) -> bool:
    """Return whether the daemon reports that the member has had no Cluster of itself for long enough."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    wanted = (OWN_CLUSTER_MISSING, "True", MISSING_FOR_LONG)
    return any((one.get("type"), one.get("status"), one.get("reason")) == wanted for one in conditions)


def _read_marks(manifest: Manifest) -> Marks:
    return read_marks(meta.annotations_of(manifest), of=cluster_target(str(meta.metadata_of(manifest)["name"])))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
