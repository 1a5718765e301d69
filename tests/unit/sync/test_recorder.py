"""S1, A4: what a worker records of a result, and when the key comes back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from registry_controller.api.errors import (
    ApiError,
    Conflict,
    Contested,
    Forbidden,
    NotFound,
    RegistryError,
    TooManyRequests,
)
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.core.decision.decision import Apply, Decision, Delete, Hold, Reason, Skip
from registry_controller.core.decision.marks import Voice
from registry_controller.core.decision.state import Claim, LostMatch, Origin, TargetState
from registry_controller.report.metrics import Metrics
from registry_controller.sync.reconciler import Judgment, Reconciliation, Result, WorkerPool
from registry_controller.sync.recorder import Recorder
from registry_controller.sync.results import ResultClass, Results
from registry_controller.sync.workqueue import WorkQueue
from tests.sim.cluster.loop import run

OWNER = ClusterUID("owner")
TARGET = Target("", "ConfigMap", "default", "one")
CLAIM = Claim(
    OWNER, OWNER, Voice.OWNER, GVK("", "v1", "ConfigMap"), ObjectKey("default", "one"), "uid", "2026-01-01", 7, "rule"
)
PLACE = ("rule", OWNER)
APPLY = Apply(CLAIM, Reason.UPDATE)


class Bench:
    """One worker, for which each look has the same result. `looks` are the times of the looks, in seconds."""

    def __init__(self, decision: Decision, error: RegistryError | None = None) -> None:
        self.decision, self.error = decision, error
        self.looks: list[float] = []
        self.lost_match: LostMatch | None = None
        self.queue = WorkQueue(chance=lambda: 1.0)
        self.metrics = Metrics()
        self.changes: list[str] = []
        self.results = Results(on_change=self.changes.append)
        self.recorder = Recorder(queue=self.queue, results=self.results, metrics=self.metrics, name_of=str)
        self.controller = WorkerPool(
            queue=self.queue, reconcile=self.reconcile, recorder=self.recorder, metrics=self.metrics
        )

    async def reconcile(self, target: Target) -> Reconciliation:
        self.looks.append(asyncio.get_running_loop().time() - self._began_s)
        state = TargetState(
            target, (CLAIM,), None, ClusterUID("here"), frozenset((OWNER,)), frozenset((OWNER,)),
            origin=Origin(lost_match=self.lost_match),
        )  # fmt: skip
        return Reconciliation(Judgment(state, (), self.decision), Result(self.decision), self.error)

    async def work(self, duration_s: float) -> None:
        self._began_s = asyncio.get_running_loop().time()
        self.queue.add(TARGET)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(duration_s):
                await self.controller.run()

    def count(self, result: ResultClass) -> int:
        return self.results.counts(PLACE)[result]


def worked(decision: Decision, error: RegistryError | None = None, *, duration_s: float = 100.0) -> Bench:
    bench = Bench(decision, error)
    run(lambda: bench.work(duration_s))
    return bench


def pauses_of(looks: list[float]) -> list[float]:
    return [later - sooner for sooner, later in itertools.pairwise(looks)]


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        (APPLY, ResultClass.SYNCED),
        (Skip(Reason.IN_SYNC, OWNER), ResultClass.SYNCED),
        (Skip(Reason.LOCAL_OBJECT_EXISTS, OWNER), ResultClass.CONFLICTING),
        (Hold(Reason.OWNER_SILENT, OWNER), ResultClass.HELD),
        (Hold(Reason.NAMESPACE_MISSING, OWNER), ResultClass.WAITING),
    ],
)
def test_a_result_is_recorded_and_the_key_does_not_come_back_by_itself(decision: Decision, result: ResultClass) -> None:
    bench = worked(decision)
    assert bench.looks == [0.0]
    assert bench.count(result) == 1


def test_only_what_was_written_counts_as_a_write() -> None:
    assert PLACE in worked(APPLY).results.wrote_at
    assert PLACE not in worked(Skip(Reason.IN_SYNC, OWNER)).results.wrote_at
    assert PLACE not in worked(APPLY).results.went_back_at
    assert PLACE in worked(Apply(CLAIM, Reason.HISTORY_RESTORED)).results.went_back_at


def test_what_was_deleted_has_no_result_any_more() -> None:
    async def scenario() -> None:
        bench = Bench(Hold(Reason.OWNER_SILENT, OWNER))
        await bench.work(1.0)
        assert bench.count(ResultClass.HELD) == 1
        bench.decision = Delete("uid", 1, Reason.SOURCE_DELETED, OWNER)
        await bench.work(1.0)
        assert not bench.results.counts(PLACE)

    run(scenario)


def test_a_deletion_that_is_being_judged_leaves_what_was_recorded() -> None:
    """W4: it is over in a moment."""

    async def scenario() -> None:
        bench = Bench(APPLY)
        await bench.work(1.0)
        bench.decision = Hold(Reason.DELETION_JUDGED, OWNER)
        await bench.work(1.0)
        assert bench.count(ResultClass.SYNCED) == 1

    run(scenario)


@pytest.mark.clause("W3")
def test_a_copy_whose_source_may_match_again_is_looked_at_once_its_time_is_over() -> None:
    """Once, and it is named with the moment, although it is held."""

    async def scenario() -> None:
        bench = Bench(Hold(Reason.MAY_MATCH_AGAIN, OWNER))
        due_s = asyncio.get_running_loop().time() + 30.0
        bench.lost_match = LostMatch(due_s, "2026-01-01T00:00:30Z")
        await bench.work(29.0)
        (failed,) = bench.results.failures(PLACE)
        assert failed.reason == "MayMatchAgain"
        assert failed.message.endswith("2026-01-01T00:00:30Z")
        assert (bench.looks, bench.count(ResultClass.HELD)) == ([0.0], 1)
        bench.decision = APPLY
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60.0):
                await bench.controller.run()
        assert bench.looks == [0.0, pytest.approx(30.0)]
        assert not bench.results.failures(PLACE)

    run(scenario)


@pytest.mark.parametrize(
    "reason", [Reason.NEEDS_PROOF, Reason.STALE_SOURCE, Reason.CONTENT_REMAINS, Reason.OWNER_LEAVES]
)
def test_what_no_event_ends_is_looked_at_again_later_each_time(reason: Reason) -> None:
    """O5, A4."""
    looks = worked(Hold(reason, OWNER), duration_s=300.0).looks
    pauses = pauses_of(looks)
    assert len(pauses) > 5
    assert pauses == sorted(pauses)
    assert pauses[0] >= 1.0
    assert pauses[-1] <= 61.0


def test_a_failure_is_recorded_and_comes_back_later_each_time() -> None:
    """A4: for both the older rule and what may grant the right."""
    bench = worked(APPLY, Forbidden("may not create ConfigMaps", lacks_right=True))
    (failure,) = bench.results.failures(PLACE)
    assert failure.reason == "Forbidden"
    assert "grant it with a ClusterRole labelled" in failure.message
    assert bench.count(ResultClass.FAILING) == 1
    pauses = pauses_of(bench.looks)
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.2


def test_a_conflict_is_no_failure() -> None:
    """A4: something changed meanwhile; the key is looked at again at once."""
    bench = worked(APPLY, Conflict("the object was modified"), duration_s=0.5)
    assert len(bench.looks) > 2
    assert not bench.results.counts(PLACE)


def test_a_namespace_that_is_missing_is_waited_for() -> None:
    """A3: the server knows it before the cache does."""
    bench = worked(APPLY, NotFound('namespaces "default" not found', details_kind="namespaces"), duration_s=3.0)
    assert bench.count(ResultClass.WAITING) == 1
    assert len(bench.looks) > 1
    assert bench.looks[1] >= 1.0


def _too_many(wait_s: float) -> TooManyRequests:
    error = TooManyRequests("busy")
    error.retry_after_s = wait_s
    return error


@pytest.mark.parametrize(
    ("error", "not_before"), [(_too_many(20.0), True), (Contested("someone", retry_after_s=20.0), False)]
)
def test_a_wait_that_was_asked_for_is_kept(error: RegistryError, not_before: bool) -> None:
    """A4, A5: no event shortens what a server asked for; an event shortens our own pauses."""

    async def scenario() -> None:
        bench = Bench(APPLY, error)
        work = asyncio.get_running_loop().create_task(bench.work(30.0))
        await asyncio.sleep(5.0)
        bench.queue.add(TARGET)
        await work
        assert len([look for look in bench.looks if look < 19.0]) == (1 if not_before else 2)
        assert [look for look in bench.looks if look >= 19.0]

    run(scenario)


def test_a_wait_by_choice_does_not_grow() -> None:
    """A5."""
    looks = worked(APPLY, Contested("someone", retry_after_s=20.0), duration_s=200.0).looks
    pauses = pauses_of(looks)
    assert len(pauses) >= 8
    assert max(pauses) < 21.0


def test_one_failing_key_blocks_no_other() -> None:
    """A4."""

    async def scenario() -> None:
        bench = Bench(APPLY)
        fine = bench.reconcile

        async def reconcile(target: Target) -> Reconciliation:
            found = await fine(target)
            return found if target != TARGET else Reconciliation(found.judgment, found.result, ApiError("no"))

        bench.controller = WorkerPool(
            queue=bench.queue, reconcile=reconcile, recorder=bench.recorder, metrics=bench.metrics
        )
        bench.queue.add(TARGET._replace(name="two"))
        await bench.work(10.0)
        assert (bench.count(ResultClass.SYNCED), bench.count(ResultClass.FAILING)) == (1, 1)

    run(scenario)


def test_the_metrics_count_decisions_and_failures() -> None:
    counted: Callable[[Bench], Any] = lambda bench: bench.metrics.render()[0].decode()  # noqa: E731
    assert 'decisions_total{decision="Apply",reason="Update"} 1.0' in counted(worked(APPLY))
    failed = worked(APPLY, Forbidden("no"), duration_s=0.01)
    assert 'decisions_total{decision="Apply",reason="Forbidden"} 1.0' in counted(failed)
