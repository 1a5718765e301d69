"""The keeper of what is our own: the local Cluster, the Secret that we publish, core rules, feature and tombstones.

Law: every pass looks anew and writes only what differs; whatever goes wrong becomes words and another try.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NoReturn, Protocol

from registry_controller.api import meta, names
from registry_controller.api.cluster import read_cluster
from registry_controller.api.errors import AlreadyExists, BadInput, Conflict, RegistryError, TooManyRequests
from registry_controller.api.meta import GVR, ClusterUID, Manifest, ObjectKey
from registry_controller.api.tombstone import Tombstone, is_own_tombstone, published_secret, tombstone_manifest
from registry_controller.core.backoff import backoff_s
from registry_controller.local import manifests
from registry_controller.local.client import LocalClient, LocalWriter
from registry_controller.local.kubeconfig_secret import KubeconfigSecret, PublishSettings
from registry_controller.report.logs import Logger

_PASS_TIMEOUT_S: Final = 60.0
_SPACING_S: Final = 0.2  # so that a burst of events is one pass
_BACKOFF_BASE_S: Final = 0.5
_BACKOFF_CAP_S: Final = 5.0
_PERIOD_S: Final = (45.0, 75.0)  # a minute, jittered, for what no event tells (an address, a CA)


class LocalSettings(PublishSettings, Protocol):
    """The options that this room reads."""

    @property
    def provision_local_cluster(self) -> str: ...

    @property
    def manage_local_cluster_secret(self) -> bool: ...

    @property
    def core_resources_source_enabled(self) -> bool: ...


class Tombstones(Protocol):
    """Word of members that have left, as it should stand here."""

    def keeps(self) -> Iterable[Tombstone]:
        """List those that are missing here."""

    def drops(self) -> Iterable[Manifest]:
        """List the objects that should not be here."""


class LocalController:
    """Keep our own things as they should be.

    `problem` is why they cannot be written, empty while all is well; `on_change` hears that it changed.
    """

    def __init__(
        self,
        *,
        writer: LocalWriter,
        settings: LocalSettings,
        cluster_id: ClusterUID,
        tombstones: Tombstones,
        log: Logger,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self.problem = ""
        self._api = LocalClient(writer)
        self._settings = settings
        self._cluster_id = cluster_id
        self._tombstones = tombstones
        self._log = log
        self._on_change = on_change
        self._published = KubeconfigSecret(api=self._api, settings=settings, log=log)
        self._poked = asyncio.Event()
        self._had_cluster = False
        self._retry_after_s = 0.0

    def request_pass(self) -> None:
        """Say that something of ours may have changed; cheap, and many are one."""
        self._poked.set()

    async def run(self) -> NoReturn:
        """Look and repair, forever: at once, when poked, and about once a minute."""
        attempt = 0
        while True:
            self._poked.clear()
            problem = await self.reconcile()
            attempt = attempt + 1 if problem else 0
            if attempt != 1:  # one failure is no news: the other clusters would see this one Failed for a moment
                self._say(problem)
            chance = random.random()  # noqa: S311  jitter
            retry_s = backoff_s(attempt, base=_BACKOFF_BASE_S, cap=_BACKOFF_CAP_S, chance=chance)
            period_s = min(random.uniform(*_PERIOD_S), self._published.renew_in_s())  # noqa: S311  jitter
            await self._rest(retry_s if problem else period_s)

    async def reconcile(self) -> str:
        """Make one pass; return what is wrong, in words, or the empty string."""
        self._retry_after_s = 0.0
        try:
            async with asyncio.timeout(_PASS_TIMEOUT_S):
                return await self._pass()
        except TimeoutError:
            return f"our own objects could not be kept: no answer within {_PASS_TIMEOUT_S:.0f} s"

    async def _pass(self) -> str:
        found: list[Manifest] = []
        problems = [*await self._keep_tombstones(), await self._attempt(self._find(found))]
        self._had_cluster = self._had_cluster or bool(found)
        if not problems[-1] and len(found) == 1:  # none: not a member; two: a conflict, on both until one goes
            problems.append(await self._keep(found[0]))
        return "; ".join(problem for problem in problems if problem)

    async def _keep_tombstones(self) -> Sequence[str]:
        """Write and delete them, each by itself."""
        made = [await self._attempt(self._put_up(stone)) for stone in sorted(self._tombstones.keeps())]
        return made + [await self._attempt(self._take_away(manifest)) for manifest in list(self._tombstones.drops())]

    async def _put_up(self, stone: Tombstone) -> None:
        with contextlib.suppress(AlreadyExists):  # made meanwhile, and not heard yet
            await self._api.create(meta.FEATURES, tombstone_manifest(stone))
            self._log.info("keeps a tombstone", cluster_id=stone.member, said_by=stone.reported_by)

    async def _take_away(self, manifest: Manifest) -> None:
        await self._api.delete(meta.FEATURES, manifest)
        self._log.info("dropped a tombstone", name=meta.metadata_of(manifest)["name"])

    async def _find(self, found: list[Manifest]) -> None:
        """Find the Clusters with our ID, or make one."""
        clusters = await self._api.list(meta.CLUSTERS)
        found += [cluster for cluster in clusters if _cluster_id(cluster) == self._cluster_id]
        if not found:
            made = await self._provision(clusters)
            found += [made] if made is not None else []

    async def _provision(self, clusters: Sequence[Manifest]) -> Manifest | None:
        """Create our own Cluster, once in a life, and again after a tombstone of our own was taken away."""
        tombstone = await self._own_tombstone()
        name = self._settings.provision_local_cluster
        if tombstone is not None:
            self._had_cluster = False
            if not clusters and self._settings.manage_local_cluster_secret:
                await self._published.withdraw(published_secret(tombstone))
        elif name and not self._had_cluster:
            return await self._make_cluster(name, clusters)
        return None

    async def _own_tombstone(self) -> Manifest | None:
        """Find the tombstone that says that this cluster has left: it outlives every daemon."""
        features = await self._api.list(meta.FEATURES)
        return next((manifest for manifest in features if is_own_tombstone(manifest, of=self._cluster_id)), None)

    async def _make_cluster(self, name: str, clusters: Sequence[Manifest]) -> Manifest:
        if any(meta.metadata_of(cluster).get("name") == name for cluster in clusters):
            raise BadInput(f"Cluster {name}: has another clusterID than this cluster's {self._cluster_id}")
        wanted = manifests.local_cluster(name, cluster_id=self._cluster_id, namespace=self._settings.namespace)
        made = await self._api.create(meta.CLUSTERS, wanted)
        self._log.info("made the local Cluster", cluster=name)
        return made

    async def _keep(self, manifest: Manifest) -> str:
        """Keep what belongs to our own Cluster; while it is disabled or going away, leave all of it as it is."""
        try:
            cluster = read_cluster(manifest)
        except BadInput as error:
            return str(error)
        if cluster.disabled or meta.metadata_of(manifest).get("deletionTimestamp"):
            return ""
        problems = [await self._attempt(self._keep_core(manifest))]
        if self._settings.manage_local_cluster_secret:
            problems.append(await self._attempt(self._published.keep(cluster)))
        return "; ".join(problem for problem in problems if problem)

    async def _attempt(self, step: Awaitable[None]) -> str:
        """Take one step and return its problem: the rules do not wait for the Secret, nor it for them."""
        try:
            await step
        except Conflict:  # somebody was faster: look again
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
            self._log.info("made a core object", resource=gvr, name=key)
            return
        if meta.metadata_of(current).get("deletionTimestamp"):
            return
        repaired = manifests.repaired(current, wanted=wanted)
        if repaired is not None:
            await self._api.replace(gvr, repaired)
            self._log.info("put a core object back", resource=gvr, name=key)

    async def _withdraw(self) -> None:
        """Delete the feature that offers our members and rules; one of that name that is not ours stays."""
        current = await self._api.read(meta.FEATURES, ObjectKey("", names.CORE_FEATURE_OBJECT))
        if current is not None and meta.labels_of(current).get(meta.CORE_RESOURCE) == "true":
            await self._api.delete(meta.FEATURES, current)
            self._log.info("deleted the core feature: switched off", name=names.CORE_FEATURE_OBJECT)

    def _say(self, problem: str) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        if problem:
            self._log.warning("our own objects cannot be kept", problem=problem)
        else:
            self._log.info("our own objects are kept again")
        if self._on_change is not None:
            self._on_change()

    async def _rest(self, duration_s: float) -> None:
        pause_s = max(_SPACING_S, self._retry_after_s)
        await asyncio.sleep(pause_s)
        try:
            async with asyncio.timeout(max(0.0, duration_s - pause_s)):
                await self._poked.wait()
        except TimeoutError:
            return


def _cluster_id(cluster: Manifest) -> object:
    spec = cluster.get("spec")
    return spec.get("clusterID") if isinstance(spec, dict) else None
