"""The engine with a recording client: it watches until its caches are complete, and then plans writes.

Law: the daemon's own reconciler and applier decide about each target and apply the decision; only the client differs.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.errors import Conflict, RegistryError, Unreachable
from registry_controller.api.meta import ClusterUID, GroupKind, Manifest, ObjectKey, Target
from registry_controller.cache.members import cluster_target
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Apply, Decision, Hold, Reason
from registry_controller.engine import Engine
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.patience import patiently
from registry_controller.kube.watch import read_cluster_id
from registry_controller.kube.writer import Writer
from registry_controller.planner.recording_client import MissingRight, RecordedWrite, RecordingClient
from registry_controller.report.metrics import Metrics
from registry_controller.settings import Settings
from registry_controller.status.readiness import list_pending
from registry_controller.sync.applier import Applier, SourceReader
from registry_controller.sync.copy_updater import CopyUpdater
from registry_controller.sync.copy_writer import CopyWriter
from registry_controller.sync.made_once import MadeOnce
from registry_controller.sync.reconciler import Judgment, Result
from registry_controller.sync.replaced_copies import ReplacedCopies

_POLL_INTERVAL_S: Final = 0.05
_MAX_CONCURRENT: Final = 16
_MAX_RETRIES: Final = 3
_RETRY_DELAY_S: Final = 0.3  # after something changed while it was read

_SERVER_SET: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "ownerReferences", "finalizers")
"""Metadata that a server keeps when a rule is applied over a stored one."""


@dataclass(frozen=True, slots=True)
class PlannedResult:
    """The plan for one target: the decision, the result of applying it, and the writes that this would take.

    `error` is the error that would keep the daemon from applying the decision. `missing_rights` are the rights of the
    user without which dry runs were refused: the form that the API server would store is not known then.
    """

    judgment: Judgment
    result: Result
    writes: tuple[RecordedWrite, ...] = ()
    error: RegistryError | None = None
    missing_rights: tuple[MissingRight, ...] = ()

    @property
    def target(self) -> Target:
        return self.judgment.state.target

    @property
    def is_stable(self) -> bool:
        """False when something changed while it was read."""
        is_late = isinstance(self.judgment.decision, Apply) and isinstance(self.result.decision, Hold)
        return not (is_late or isinstance(self.error, Conflict))


class DryRun:
    """An engine that plans. `local_client` must refuse every write that is not a dry run."""

    def __init__(
        self,
        settings: Settings,
        *,
        local_client: Writer,
        local: ClusterUID,
        connect_peer: Callable[[Credentials], Reader],
    ) -> None:
        self.engine = Engine(
            replace(settings, stabilization_window_seconds=0),  # one moment is all that a dry run sees
            client=local_client,
            local=local,
            connect_peer=connect_peer,
            observer=_IgnoreChanges(),
        )
        self.keeps_bodies = False
        """Whether planned writes have the bodies of objects, which may be large."""
        self.settings = settings
        self.local_client = local_client
        self._metrics = Metrics()
        self._digest_key = secrets.token_bytes(32)

    async def watch(self) -> None:
        """Run the engine's watches until cancelled."""
        async with asyncio.TaskGroup() as scope:
            self.engine.start_local(scope)
            self.engine.start_peers(scope)

    async def wait_until_complete(self, *, wait_s: float) -> None:
        """Wait until the caches are complete, at most `wait_s` seconds."""
        deadline = asyncio.get_running_loop().time() + wait_s
        while list_pending(self.engine):
            if asyncio.get_running_loop().time() >= deadline:
                return
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def decide_members(self) -> None:
        """Decide about the Clusters first: decisions about other objects depend on which members have left (O6)."""
        cache = self.engine.copies.cache_of(*meta.CLUSTER_KIND)
        for key in sorted(cache.records) if cache is not None else ():
            with contextlib.suppress(RegistryError):
                await self.engine.reconciler.prove(self.engine.reconciler.decide(cluster_target(key.name)))

    async def plan_targets(self, targets: Iterable[Target]) -> Sequence[PlannedResult]:
        """Return the plan for each target, sorted by target."""
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

        async def plan_one(target: Target) -> PlannedResult:
            async with semaphore:
                return await self._plan_target(target)

        async with asyncio.TaskGroup() as scope:
            tasks = [scope.create_task(plan_one(target), name=f"plan {target}") for target in sorted(set(targets))]
        return await self._plan_moves([task.result() for task in tasks])

    async def _plan_moves(self, planned: Sequence[PlannedResult]) -> Sequence[PlannedResult]:
        """Plan the copies that wait for a new copy again, as if the planned objects were here."""
        decided = [(one.target, one.result.decision) for one in planned if one.error is None]
        made = {target: decision.claim for target, decision in decided if isinstance(decision, Apply)}
        self.engine.states.origins.planned = made
        waits = Reason.NEW_COPY_MISSING
        try:
            return [
                await self._plan_target(one.target) if one.result.decision.reason is waits else one for one in planned
            ]
        finally:
            self.engine.states.origins.planned = {}

    async def _plan_target(self, target: Target) -> PlannedResult:
        planned = await self._apply_dry(target)
        for _ in range(_MAX_RETRIES):
            if planned.is_stable:
                break
            await asyncio.sleep(_RETRY_DELAY_S)
            planned = await self._apply_dry(target)
        return planned

    async def _apply_dry(self, target: Target) -> PlannedResult:
        client = RecordingClient(self.local_client, keeps_bodies=self.keeps_bodies)
        found = await self.engine.reconciler.reconcile(target, limiter=_NoLimit(), applier=self._build_applier(client))
        writes = tuple(client.writes) if found.error is None else ()
        return PlannedResult(found.judgment, found.result, writes, found.error, tuple(client.missing_rights))

    def _build_applier(self, client: RecordingClient) -> Applier:
        """Build an applier for one target, so that the client records the writes of this target alone."""
        engine = self.engine
        copy_writer = CopyWriter(
            reader=self.local_client,
            client=client,
            discovery=engine.discovery,
            bodies=engine.bodies,
            digest_key=self._digest_key,
            on_stored=_ignore,
            containers=engine.containers,
            believes_provenance=False,  # the rule may differ from the one that made the copy
        )
        sources = SourceReader(
            bodies=engine.bodies, connection=engine.clusters.connection, evaluations=engine.sources.evaluations
        )
        updater = CopyUpdater(
            local=engine.local,
            copies=engine.copies,
            bodies=engine.bodies,
            writer=copy_writer,
            metrics=self._metrics,
            made_once=MadeOnce(),  # nothing is made here
            replaced=ReplacedCopies(),
            recreated=_ignore,
            put_back=_ignore,
            lost=_ignore,
        )
        return Applier(
            copies=engine.copies,
            sources=sources,
            updater=updater,
            gone_copies=engine.gone_copies,
            relays=engine.relay_policy,
            rules=engine.registry.rules,
            acting=engine.registry.acting,
            definitions=engine.registry.rule_definitions.found,
        )


@contextlib.asynccontextmanager
async def start_dry_run(
    settings: Settings,
    *,
    local_client: Writer,
    now: datetime,
    wait_s: float,
    manifests: Iterable[Manifest] = (),
    connect_peer: Callable[[Credentials], Reader] = connect_peer,
) -> AsyncIterator[DryRun]:
    """Yield a dry run after its caches are complete, or after `wait_s` seconds.

    The rules in `manifests` replace the stored rules of the same names. Raises RegistryError when the local API server
    cannot be read.
    """
    dry_run = await _connect(settings, local_client=local_client, wait_s=wait_s, connect_peer=connect_peer)
    for manifest in manifests:
        stage_rule(dry_run.engine.registry, manifest, now=now)
    failure: Exception | None = None
    async with asyncio.TaskGroup() as scope:
        watching = scope.create_task(dry_run.watch(), name="watch")
        try:
            await dry_run.wait_until_complete(wait_s=wait_s)
            await dry_run.decide_members()
            yield dry_run
        except Exception as error:  # a TaskGroup would wrap it
            failure = error
        finally:
            watching.cancel()
    if failure is not None:
        raise failure


async def _connect(
    settings: Settings, *, local_client: Writer, wait_s: float, connect_peer: Callable[[Credentials], Reader]
) -> DryRun:
    """Read the local cluster's ID and the registry's kinds; retry after a 429."""
    try:
        async with asyncio.timeout(wait_s):
            local = await patiently(lambda: read_cluster_id(local_client), tries=None)
            dry_run = DryRun(settings, local_client=local_client, local=local, connect_peer=connect_peer)
            await patiently(dry_run.engine.registry_reader.read_once, tries=None)
            return dry_run
    except TimeoutError:
        message = f"the registry's kinds were not listed within {wait_s:g} s; is the API server overloaded?"
        raise Unreachable(f"{local_client.server}: {message}") from None


def stage_rule(registry: Registry, manifest: Manifest, *, now: datetime) -> str:
    """Put a rule into the registry as if it had just been applied to this cluster; return its name.

    It replaces the stored rule of its name. Without one, it is a new rule that was created at `now`.
    """
    name = str(meta.metadata_of(manifest)["name"])
    stored = registry.rules.get(name)
    before = stored.manifest if stored is not None else None
    registry.apply(meta.RULES.resource, None, merge_stored(manifest, before, now=now))
    return name


def merge_stored(manifest: Manifest, stored: Manifest | None, *, now: datetime) -> Manifest:
    """Return the rule that the API server would store when a rule is applied over the stored one."""
    info, before = meta.metadata_of(manifest), meta.metadata_of(stored or {})
    kept: dict[str, Any] = {key: before[key] for key in _SERVER_SET if key in before}
    if stored is None:
        kept = {"creationTimestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}", "generation": 1}
    elif stored.get("spec") != manifest.get("spec"):
        kept["generation"] = (before.get("generation") or 0) + 1
    maps = {
        field: merged
        for field in ("labels", "annotations")
        if (merged := {**(before.get(field) or {}), **(info.get(field) or {})})
    }
    return {
        "apiVersion": meta.API_VERSION,
        "kind": meta.RULE.kind,
        "metadata": {"name": info["name"], **kept, **maps},
        "spec": manifest.get("spec") or {},
        "status": (stored or {}).get("status") or {},
    }


class _NoLimit:
    """Counts no deletion: `planned_deletions` limits all deletions of a plan together."""

    counted: Final = frozenset[Target]()

    def limit(self, target: Target, decision: Decision, *, rule: str, is_idle: bool = False) -> Decision:
        return decision

    def withdraw(self, target: Target) -> None:
        pass

    def defer(self, target: Target) -> None:
        pass


class _IgnoreChanges:
    """An observer that ignores every change: a dry run reads the caches once they are complete."""

    def on_target_changed(self, target: Target, flow: str = "") -> None:
        pass

    def on_peers_changed(self) -> None:
        pass

    def on_replicas_changed(self) -> None:
        pass

    def on_schema_changed(self, kind: GroupKind) -> None:
        pass

    def on_watches_changed(self) -> None:
        pass

    def on_own_kind_changed(self, plural: str, name: str) -> None:
        pass

    def on_credentials_changed(self, key: ObjectKey) -> None:
        pass

    def on_tokens_changed(self) -> None:
        pass

    def on_records_changed(self) -> None:
        pass

    def on_copy_gone(self, target: Target) -> None:
        pass


def _ignore(*_: object) -> None:
    pass
