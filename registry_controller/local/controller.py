"""Reconciles this cluster's own objects: its Cluster, its published Secret, the core rules and feature, tombstones.

Law: every pass reads the objects again and writes only differences; each failure is reported and retried.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, NoReturn, Protocol

from registry_controller import __version__
from registry_controller.api import meta, names
from registry_controller.api.cluster import read_cluster
from registry_controller.api.deleted_rules import (
    DeletedRule,
    deleted_rules_manifest,
    has_later_format,
    read_deleted_rules,
)
from registry_controller.api.errors import AlreadyExists, ApiError, BadInput, Conflict, RegistryError, TooManyRequests
from registry_controller.api.formats import read_daemon_version, write_daemon_version
from registry_controller.api.meta import GVR, ClusterUID, Manifest, ObjectKey
from registry_controller.api.tombstone import (
    Tombstone,
    is_later_tombstone,
    is_own_tombstone,
    published_secret,
    tombstone_manifest,
    with_return,
)
from registry_controller.core.backoff import backoff_s
from registry_controller.kube.writer import LocalWriter
from registry_controller.local import manifests
from registry_controller.local.client import ClusterClient
from registry_controller.local.cluster_profiles import ClusterProfiles
from registry_controller.local.kubeconfig_secret import KubeconfigSecret
from registry_controller.local.own_cluster import LostClusterSource, NoLostClusters, OwnClusterMaker
from registry_controller.report.logs import Logger
from registry_controller.settings import Settings

_PASS_TIMEOUT_S: Final = 60.0
_SPACING_S: Final = 0.2  # many events at once cause one pass
_BACKOFF_BASE_S: Final = 0.5
_BACKOFF_CAP_S: Final = 5.0
_PERIOD_S: Final = (45.0, 75.0)  # a minute with jitter, for changes without an event (an address, a CA)


class TombstoneSource(Protocol):
    """The desired tombstones, as differences."""

    def list_missing(self) -> Iterable[Tombstone]:
        """List the tombstones to create here."""

    def further_labels(self, stone: Tombstone) -> Mapping[str, str]:
        """Return the labels beside the fields of a tombstone to create here."""

    def is_farewell(self, stone: Tombstone) -> bool:
        """Return whether the member shows this tombstone of itself."""

    def has_lost_farewell(self) -> bool:
        """Return whether this cluster has left, and its own tombstone was lost here."""

    def list_unwanted(self) -> Iterable[Manifest]:
        """List the tombstone objects to delete here."""

    def list_returned(self) -> Iterable[Manifest]:
        """List the tombstone objects in which it is to be noted that their member is back."""

    def list_withdrawals(self) -> Iterable[Manifest]:
        """List the records of withdrawn tombstones to create here."""


class DeletedRulesSource(Protocol):
    """The rules of this cluster that are known to be deleted."""

    def update_record(self, stored: frozenset[DeletedRule]) -> frozenset[DeletedRule]:
        """Return the record of them that replaces the stored one."""


_LATER: Final = "a later version of the daemon wrote it, and this one leaves it alone: upgrade the daemon here"


class LocalController:
    """Reconciles this cluster's own objects.

    `problem` is the reason why they cannot be written, empty without any; `on_change` is called when it changed.
    `writes_version` returns whether this daemon writes its version over another one.
    """

    def __init__(
        self,
        *,
        writer: LocalWriter,
        settings: Settings,
        cluster_id: ClusterUID,
        tombstones: TombstoneSource,
        deleted_rules: DeletedRulesSource,
        log: Logger,
        lost_clusters: LostClusterSource | None = None,
        writes_version: Callable[[str, str], bool] = lambda *_: True,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self.problem = ""
        self._api = ClusterClient(writer)
        self._settings = settings
        self._cluster_id = cluster_id
        self._tombstones = tombstones
        self._deleted_rules = deleted_rules
        self._log = log
        self._writes_version = writes_version
        self._on_change = on_change
        self._maker = OwnClusterMaker(
            api=self._api, settings=settings, cluster_id=cluster_id, source=lost_clusters or NoLostClusters(), log=log
        )
        self._secret = KubeconfigSecret(api=self._api, settings=settings, log=log)
        self._profiles = ClusterProfiles(api=self._api, settings=settings, log=log)
        self._is_requested = asyncio.Event()
        self._retry_after_s = 0.0

    def request_pass(self) -> None:
        """Request a pass; many requests at once cause one."""
        self._is_requested.set()

    def token_expires_at_s(self) -> float:
        """Return when the published token expires: seconds since 1970, infinity for never, NaN while not known."""
        return self._secret.token_expires_at_s()

    async def run(self) -> NoReturn:
        """Make a pass at once, at each request, and about once a minute."""
        attempt = 0
        while True:
            self._is_requested.clear()
            problem = await self.reconcile()
            attempt = attempt + 1 if problem else 0
            if (
                attempt != 1
            ):  # a single failure is not reported: the status of this Cluster would be Failed for a moment
                self._report(problem)
            chance = random.random()  # noqa: S311  jitter
            retry_s = backoff_s(attempt, base=_BACKOFF_BASE_S, cap=_BACKOFF_CAP_S, chance=chance)
            period_s = min(random.uniform(*_PERIOD_S), self._secret.renew_in_s())  # noqa: S311  jitter
            check_s = self._maker.check_after_s
            await self._rest(retry_s if problem else period_s if check_s is None else min(period_s, check_s))

    async def reconcile(self) -> str:
        """Make one pass; return the problems as a sentence, or the empty string."""
        self._retry_after_s = 0.0
        try:
            async with asyncio.timeout(_PASS_TIMEOUT_S):
                return await self._pass()
        except TimeoutError:
            return f"this cluster's own objects cannot be reconciled: no answer within {_PASS_TIMEOUT_S:.0f} s"

    async def _pass(self) -> str:
        found: list[Manifest] = []
        restored = await self._attempt(self._maker.restore_members())
        problems = [
            *await self._keep_tombstones(),
            await self._attempt(self._keep_deleted_rules()),
            restored,
            await self._attempt(self._find(found)),
        ]
        if (
            not problems[-1] and len(found) == 1
        ):  # without any it is no member; two are in conflict until one is deleted
            problems.append(await self._keep(found[0]))
        await self._profiles.keep()
        return "; ".join(problem for problem in problems if problem)

    async def _keep_tombstones(self) -> Sequence[str]:
        """Create and delete tombstones; a failure does not stop the rest."""
        made = [await self._attempt(self._create_tombstone(stone)) for stone in sorted(self._tombstones.list_missing())]
        made += [await self._attempt(self._record_withdrawal(found)) for found in self._tombstones.list_withdrawals()]
        made += [await self._attempt(self._note_return(found)) for found in list(self._tombstones.list_returned())]
        unwanted = list(self._tombstones.list_unwanted())
        return made + [await self._attempt(self._delete_tombstone(manifest)) for manifest in unwanted]

    async def _keep_deleted_rules(self) -> None:
        """Keep the record that members read of the rules that were deleted here."""
        key = ObjectKey("", names.DELETED_RULES_OBJECT)
        current = await self._api.read(meta.FEATURES, key)
        annotations = meta.annotations_of(current) if current is not None else {}
        if has_later_format(annotations):
            return
        held = read_deleted_rules(annotations)
        wanted = self._deleted_rules.update_record(held)
        if wanted == held:
            return
        manifest = deleted_rules_manifest(wanted, before=current)
        if current is None:
            await self._api.create(meta.FEATURES, manifest)
        else:
            await self._api.replace(meta.FEATURES, manifest)
        self._log.info("recorded deleted rules", rules=", ".join(sorted(rule.name for rule in wanted - held)))

    async def _create_tombstone(self, stone: Tombstone) -> None:
        with contextlib.suppress(AlreadyExists):  # created already, and not in the cache yet
            ordered, further = self._tombstones.is_farewell(stone), self._tombstones.further_labels(stone)
            await self._api.create(meta.FEATURES, tombstone_manifest(stone, ordered=ordered, further=further))
            self._log.info("created a tombstone", clusterID=stone.member, reportedBy=stone.reported_by)

    async def _record_withdrawal(self, manifest: Manifest) -> None:
        with contextlib.suppress(AlreadyExists):
            await self._api.create(meta.FEATURES, manifest)
            self._log.info("recorded that a tombstone was withdrawn", name=meta.metadata_of(manifest)["name"])

    async def _note_return(self, manifest: Manifest) -> None:
        await self._api.replace(meta.FEATURES, with_return(manifest))
        self._log.info("noted that a member is back", name=meta.metadata_of(manifest)["name"])

    async def _delete_tombstone(self, manifest: Manifest) -> None:
        await self._api.delete(meta.FEATURES, manifest)
        self._log.info("deleted a tombstone", name=meta.metadata_of(manifest)["name"])

    async def _find(self, found: list[Manifest]) -> None:
        """Find the Clusters with this cluster's ID, or create one."""
        clusters = await self._api.list(meta.CLUSTERS)
        found += [cluster for cluster in clusters if _cluster_id(cluster) == self._cluster_id]
        self._maker.note_found(found)
        if not found:
            made = await self._provision(clusters)
            found += [made] if made is not None else []

    async def _provision(self, clusters: Sequence[Manifest]) -> Manifest | None:
        """Make this cluster's Cluster, unless its own tombstone stands: then it has left."""
        features = await self._api.list(meta.FEATURES)
        later = next((found for found in features if is_later_tombstone(found, of=self._cluster_id)), None)
        if later is not None:
            self._maker.note_farewell()
            raise BadInput(f"ClusterFeature {meta.metadata_of(later)['name']}: {_LATER}")
        tombstone = next((found for found in features if is_own_tombstone(found, of=self._cluster_id)), None)
        if tombstone is None and not self._tombstones.has_lost_farewell():
            return await self._maker.make(clusters)
        self._maker.note_farewell()
        if tombstone is None:  # it is created with the next pass
            return None
        if not clusters and self._settings.manage_local_cluster_secret:
            await self._secret.withdraw(published_secret(tombstone), of=self._cluster_id)
        return None

    async def _keep(self, manifest: Manifest) -> str:
        """Reconcile the objects of our Cluster; change none of them while it is disabled or being deleted."""
        try:
            cluster = read_cluster(manifest)
        except BadInput as error:
            return str(error)
        if cluster.disabled or meta.metadata_of(manifest).get("deletionTimestamp"):
            return ""
        problems = [
            await self._attempt(self._keep_core(manifest)),
            await self._attempt(self._keep_version(manifest)),
        ]
        if self._settings.manage_local_cluster_secret:
            problems.append(await self._attempt(self._secret.keep(cluster)))
        return "; ".join(problem for problem in problems if problem)

    async def _attempt(self, step: Awaitable[None]) -> str:
        """Take one step and return its problem, so that the next step follows a failure, too."""
        try:
            await step
        except Conflict:  # the object has changed meanwhile
            self.request_pass()
        except TooManyRequests as error:
            self._retry_after_s = error.retry_after_s
            return str(error)
        except RegistryError as error:
            return str(error)
        return ""

    async def _keep_core(self, cluster: Manifest) -> None:
        for gvr, wanted in self._core_objects(cluster):
            await self._ensure(gvr, wanted)
        if not self._settings.core_resources_source_enabled:
            await self._withdraw()

    async def _keep_version(self, cluster: Manifest) -> None:
        """Keep the annotation of the own Cluster with the version of the daemon, and the formats that it writes."""
        annotations = meta.annotations_of(cluster)
        before = annotations.get(meta.DAEMON, "")
        wanted = write_daemon_version(__version__, before=before)
        if before == wanted or not self._writes_version(__version__, read_daemon_version(before)):
            return
        info = {**meta.metadata_of(cluster), "annotations": {**annotations, meta.DAEMON: wanted}}
        await self._api.replace(meta.CLUSTERS, {**cluster, "metadata": info})

    def _core_objects(self, cluster: Manifest) -> Sequence[tuple[GVR, Manifest]]:
        rules = manifests.core_rules(cluster, namespace=self._settings.namespace)
        wanted = [(meta.RULES, rule) for rule in rules]
        if self._settings.core_resources_source_enabled:
            wanted.append((meta.FEATURES, manifests.core_feature(cluster)))
        return wanted

    async def _ensure(self, gvr: GVR, wanted: Manifest) -> None:
        key = ObjectKey("", meta.metadata_of(wanted)["name"])
        current = await self._api.read(gvr, key)
        if current is None:
            await self._api.create(gvr, wanted)
            self._log.info("created a core object", resource=gvr, name=key.name)
            return
        if meta.metadata_of(current).get("deletionTimestamp"):
            return
        repaired = manifests.repaired(current, wanted=wanted)
        if repaired is not None and await self._changes(gvr, current, repaired):
            await self._api.replace(gvr, repaired)
            self._log.info("restored a core object", resource=gvr, name=key.name)

    async def _changes(self, gvr: GVR, current: Manifest, repaired: Manifest) -> bool:
        """Return whether a repair would change the stored object: an older CRD may drop its fields (A10)."""
        try:
            stored = await self._api.replace(gvr, repaired, dry_run=True)
        except ApiError as error:
            if error.status != HTTPStatus.BAD_REQUEST:
                raise
            return True  # a webhook does not support dry runs
        return not manifests.is_same(stored, current)

    async def _withdraw(self) -> None:
        """Delete the core feature, which offers our members and rules; another object of its name stays."""
        current = await self._api.read(meta.FEATURES, ObjectKey("", names.CORE_FEATURE_OBJECT))
        if current is not None and meta.labels_of(current).get(meta.CORE_RESOURCE) == "true":
            await self._api.delete(meta.FEATURES, current)
            self._log.info(
                "deleted the core feature, because CORE_RESOURCES_SOURCE_ENABLED is false",
                name=names.CORE_FEATURE_OBJECT,
            )

    def _report(self, problem: str) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        if problem:
            self._log.warning("this cluster's own objects cannot be written", problem=problem)
        else:
            self._log.info("this cluster's own objects can be written again")
        if self._on_change is not None:
            self._on_change()

    async def _rest(self, duration_s: float) -> None:
        pause_s = max(_SPACING_S, self._retry_after_s)
        await asyncio.sleep(pause_s)
        try:
            async with asyncio.timeout(max(0.0, duration_s - pause_s)):
                await self._is_requested.wait()
        except TimeoutError:
            return


def _cluster_id(cluster: Manifest) -> object:
    spec = cluster.get("spec")
    return spec.get("clusterID") if isinstance(spec, dict) else None
