"""The engine, run until it has heard everything, and then asked what it would do.

Law: each target is judged and carried out by the daemon's own judge and carrier; only the pen is another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from registry_controller.api import meta
from registry_controller.api.errors import Conflict, RegistryError, TooManyRequests, Unreachable
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey, Target
from registry_controller.cache.local_cache import LocalCache, RuleAndOwner
from registry_controller.cache.members import cluster_target
from registry_controller.cache.source_cache import SourceCache
from registry_controller.core.decision.decision import Apply, Delete, Hold, Reason, owner_of
from registry_controller.core.decision.deletion_limit import LimitVerdict, judge
from registry_controller.engine import Engine
from registry_controller.engine import Settings as EngineSettings
from registry_controller.kube.connect import Reader, Writer, connect_peer
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.watch import read_cluster_id
from registry_controller.planner.recording_client import RecordedWrite, RecordingClient
from registry_controller.planner.staging import stage_rule
from registry_controller.report.metrics import Metrics
from registry_controller.status.readiness import list_pending
from registry_controller.sync.applier import Applier, Result
from registry_controller.sync.copy_writer import CopyWriter
from registry_controller.sync.deletion_limiter import allowed_moment, is_limited, stored_window
from registry_controller.sync.reconciler import Judgment

_LOOK_EVERY_S: Final = 0.05
_AT_ONCE: Final = 16
_MORE_ATTEMPTS: Final = 3
_PAUSE_S: Final = 0.3  # something changed while it was read
_PATIENCE_S: Final = 0.2  # at least, where a server asks for some and does not say how much


class Settings(EngineSettings, Protocol):
    """The options that this room reads."""

    @property
    def deletion_limit_percent(self) -> int: ...


@dataclass(frozen=True, slots=True)
class PlannedResult:
    """What would become of one target: what was judged, what came of it, and the writes that this would take.

    `error` is why it would not be carried out.
    """

    judgement: Judgment
    result: Result
    writes: tuple[RecordedWrite, ...] = ()
    error: RegistryError | None = None

    @property
    def target(self) -> Target:
        return self.judgement.view.target

    @property
    def has_settled(self) -> bool:
        """False when something changed while it was read."""
        is_late = isinstance(self.judgement.decision, Apply) and isinstance(self.result.decision, Hold)
        return not (is_late or isinstance(self.error, Conflict))


class DryRun:
    """An engine without hands. `home` must refuse every write but a dry run."""

    def __init__(
        self, settings: Settings, *, home: Writer, local: ClusterUID, connect_peer: Callable[[Credentials], Reader]
    ) -> None:
        self.engine = Engine(settings, home=home, local=local, connect_peer=connect_peer, listener=_IgnoreChanges())
        self._settings = settings
        self.local_client = home
        self._metrics = Metrics()
        self._digest_key = secrets.token_bytes(32)

    async def watch(self) -> None:
        """Hear everything, until cancelled."""
        async with asyncio.TaskGroup() as scope:
            self.engine.start_local(scope)
            self.engine.start_peers(scope)

    async def wait_until_ready(self, *, wait_s: float) -> None:
        """Wait until everything that can be heard was heard, at most so long."""
        deadline = asyncio.get_running_loop().time() + wait_s
        while list_pending(self.engine):
            if asyncio.get_running_loop().time() >= deadline:
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    async def decide_members(self) -> None:
        """Decide about the Clusters first: it depends on who has left what becomes of everything else (O6)."""
        cache = self.engine.copies.cache_of(meta.GROUP, meta.CLUSTER.kind)
        for key in sorted(cache.records) if cache is not None else ():
            with contextlib.suppress(RegistryError):
                await self.engine.reconciler.decide_with_proof(self.engine.reconciler.decide(cluster_target(key.name)))

    async def plan_targets(self, targets: Iterable[Target]) -> Sequence[PlannedResult]:
        """Say what would become of each target, in their order."""
        turn = asyncio.Semaphore(_AT_ONCE)

        async def one(target: Target) -> PlannedResult:
            async with turn:
                return await self._plan_target(target)

        async with asyncio.TaskGroup() as scope:
            tasks = [scope.create_task(one(target), name=f"foresee {target}") for target in sorted(set(targets))]
        return [task.result() for task in tasks]

    def limit_deletions(self, foreseen: Sequence[PlannedResult], *, now: datetime) -> Sequence[PlannedResult]:
        """Halt the deletions among them that the brake would halt, were they wanted together (W4)."""
        wanted = Counter(origin for found in foreseen if (origin := _get_limited_origin(found)) is not None)
        made = Counter(origin for found in foreseen if (origin := _get_created_origin(found)) is not None)
        halted = {origin for origin, count in wanted.items() if self._would_halt(origin, count, made[origin], now)}
        return [_halt(found) if _get_limited_origin(found) in halted else found for found in foreseen]

    def keep_halted(self, foreseen: Sequence[PlannedResult]) -> Sequence[PlannedResult]:
        """Hold the deletions among them that the daemon's brake has halted, whoever waits with them."""
        return [_halt(found) if self._is_halted(_get_limited_origin(found)) else found for found in foreseen]

    def _is_halted(self, origin: RuleAndOwner | None) -> bool:
        window = stored_window(self.engine.registry, origin) if origin is not None else None
        if origin is None or window is None or not window.halted_at:
            return False
        return window.halted_at != allowed_moment(self.engine.registry, origin[0])

    def _would_halt(self, origin: RuleAndOwner, wanted: int, made: int, now: datetime) -> bool:
        registry, counts = self.engine.registry, self.engine.copies.counts
        _, verdict = judge(
            stored_window(registry, origin),
            present=counts[origin] + counts["", origin[1]] + made,
            wanted=wanted,
            now=now,
            percent=self._settings.deletion_limit_percent,
            allowed=allowed_moment(registry, origin[0]),
        )
        return verdict is LimitVerdict.HALT and self._settings.deletion_limit_percent > 0

    async def _plan_target(self, target: Target) -> PlannedResult:
        found = await self._apply_dry(target)
        for _ in range(_MORE_ATTEMPTS):
            if found.has_settled:
                break
            await asyncio.sleep(_PAUSE_S)
            found = await self._apply_dry(target)
        return found

    async def _apply_dry(self, target: Target) -> PlannedResult:
        pencil = RecordingClient(self.local_client)
        judgement = self.engine.reconciler.decide(target)
        try:
            judgement = await self.engine.reconciler.decide_with_proof(judgement)
            carried = await self._build_applier(pencil).apply(judgement)
        except RegistryError as error:
            return PlannedResult(judgement, Result(judgement.decision), error=error)
        return PlannedResult(judgement, carried, tuple(pencil.writes))

    def _build_applier(self, pencil: RecordingClient) -> Applier:
        """Make a carrier for one target, so that its strokes are known as its own."""
        engine = self.engine
        hand = CopyWriter(
            reader=self.local_client,
            pen=pencil,
            discovery=engine.discovery,
            bodies=engine.bodies,
            digest_key=self._digest_key,
            on_stored=_ignore,
            believes_provenance=False,  # the rule may be another one than it was then
        )
        return Applier(
            copies=engine.copies,
            bodies=engine.bodies,
            turns=engine.sources.evaluations,
            hand=hand,
            metrics=self._metrics,
            connection=engine.connection,
            relays=engine.relay_policy,
            recreated=_ignore,
        )


def _get_limited_origin(found: PlannedResult) -> RuleAndOwner | None:
    """Tell whose brake a foreseen deletion is for; None for what is not braked."""
    decision = found.result.decision
    if found.error is not None or not isinstance(decision, Delete) or not is_limited(decision):
        return None
    return (found.judgement.view.rule, decision.owner)


def _get_created_origin(found: PlannedResult) -> RuleAndOwner | None:
    """Tell of what origin a copy is that would be made; None where none would."""
    decision = found.result.decision
    is_made = isinstance(decision, Apply) and found.judgement.view.current is None and found.error is None
    return (decision.claim.rule, decision.claim.owner) if is_made and isinstance(decision, Apply) else None


def _halt(found: PlannedResult) -> PlannedResult:
    return replace(found, result=Result(Hold(Reason.DELETION_HALTED, owner_of(found.result.decision))), writes=())


@contextlib.asynccontextmanager
async def start_dry_run(
    settings: Settings,
    *,
    home: Writer,
    now: datetime,
    wait_s: float,
    manifests: Iterable[Manifest] = (),
    connect_peer: Callable[[Credentials], Reader] = connect_peer,
) -> AsyncIterator[DryRun]:
    """Give a rehearsal that has heard what it could within `wait_s` seconds, with rules from files in their places.

    Raises RegistryError when our own API server cannot be read.
    """
    rehearsal = await _connect(settings, home=home, wait_s=wait_s, connect_peer=connect_peer)
    for manifest in manifests:
        stage_rule(rehearsal.engine.registry, manifest, now=now)
    failure: Exception | None = None
    async with asyncio.TaskGroup() as scope:
        listening = scope.create_task(rehearsal.watch(), name="listen")
        try:
            await rehearsal.wait_until_ready(wait_s=wait_s)
            await rehearsal.decide_members()
            yield rehearsal
        except Exception as error:  # a TaskGroup would wrap it
            failure = error
        finally:
            listening.cancel()
    if failure is not None:
        raise failure


async def _connect(
    settings: Settings, *, home: Writer, wait_s: float, connect_peer: Callable[[Credentials], Reader]
) -> DryRun:
    """Read who we are, and our own kinds; a server that asks for patience is asked again when it says."""
    try:
        async with asyncio.timeout(wait_s):
            while True:
                try:
                    local = await read_cluster_id(home)
                    rehearsal = DryRun(settings, home=home, local=local, connect_peer=connect_peer)
                    await rehearsal.engine.registry_reader.read_once()
                except TooManyRequests as error:
                    await asyncio.sleep(max(error.retry_after_s, _PATIENCE_S))
                else:
                    return rehearsal
    except TimeoutError:
        raise Unreachable(f"{home.server}: our own kinds were not listed within {wait_s:g} s") from None


class _IgnoreChanges:
    """Nobody to tell: a rehearsal looks at everything at its end."""

    def target_changed(self, target: Target, lane: str = "") -> None:
        pass

    def clusters_changed(self) -> None:
        pass

    def cache_changed(self, cache: SourceCache | LocalCache) -> None:
        pass

    def own_kind_changed(self, plural: str, name: str) -> None:
        pass

    def credentials_changed(self, key: ObjectKey) -> None:
        pass

    def tokens_changed(self) -> None:
        pass

    def tombstones_changed(self) -> None:
        pass


def _ignore(*_: object) -> None:
    pass
