"""When statuses are reported again: together, soon, and after a start only once the caches are complete."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from registry_controller.cache.registry import Registry
from registry_controller.status import reporter
from registry_controller.status.reporter import StatusReporter
from tests.sim.cluster.loop import virtual
from tests.unit.status.engine_parts import LOCAL, registry, rule

REPORTED = {"observedGeneration": 3}
SOON_S = 0.05


class Reports:
    """Records what is reported."""

    def __init__(self, held: Registry) -> None:
        self.clusters = 0
        self.rules: list[str] = []
        self.is_ready = True
        self.reporter = StatusReporter(
            registry=held,
            local=LOCAL,
            is_ready=lambda: self.is_ready,
        )


class ClusterReports:
    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def report(self) -> None:
        self._reports.clusters += 1


class RuleReports:
    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def report(self, name: str) -> None:
        self._reports.rules.append(name)


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "INTERVAL_S", 0.01)


@contextlib.asynccontextmanager
async def running(held: Registry) -> AsyncIterator[Reports]:
    reports = Reports(held)
    async with asyncio.TaskGroup() as scope:
        reporting = reports.reporter.run(cast(Any, ClusterReports(reports)), cast(Any, RuleReports(reports)))
        task = scope.create_task(reporting, name="reporter")
        yield reports
        task.cancel()


@virtual
async def test_many_changes_of_a_rule_are_one_report() -> None:
    async with running(registry(rules=[rule()])) as reports:
        for _ in range(100):
            reports.reporter.rule_changed("rule")
        await asyncio.sleep(SOON_S)
        assert (reports.rules, reports.clusters) == (["rule"], 0)


@virtual
async def test_a_changed_cluster_reports_clusters_and_all_rules() -> None:
    async with running(registry(rules=[rule("one"), rule("two")])) as reports:
        reports.reporter.clusters_changed()
        await asyncio.sleep(SOON_S)
        assert (reports.rules, reports.clusters) == (["one", "two"], 1)


@virtual
async def test_a_change_during_a_report_is_reported_again() -> None:
    async with running(registry(rules=[rule()])) as reports:
        reports.reporter.rule_changed("rule")
        await asyncio.sleep(SOON_S)
        reports.reporter.rule_changed("rule")
        await asyncio.sleep(SOON_S)
        assert reports.rules == ["rule", "rule"]


@virtual
async def test_after_a_start_a_stored_status_stays_until_the_caches_are_complete() -> None:
    async with running(registry(rules=[rule("stored", status=REPORTED), rule("new")])) as reports:
        reports.is_ready = False
        reports.reporter.clusters_changed()
        await asyncio.sleep(SOON_S)
        assert reports.rules == ["new"]
        assert reports.clusters == 1
        reports.is_ready = True
        await asyncio.sleep(SOON_S)
        assert reports.rules == ["new", "stored"]


@virtual
async def test_a_stored_status_does_not_stay_for_longer_than_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "START_S", 0.0)
    async with running(registry(rules=[rule(status=REPORTED)])) as reports:
        reports.is_ready = False
        reports.reporter.rule_changed("rule")
        await asyncio.sleep(SOON_S)
        assert reports.rules == ["rule"]


@pytest.mark.parametrize(
    "changed",
    [
        rule(status={"observedGeneration": 2}),
        rule(status=REPORTED, suspend=True),
        rule(status=REPORTED, groupVersionKind={"version": "", "kind": ""}),
    ],
    ids=["an edited rule", "a suspended rule", "an invalid rule"],
)
@virtual
async def test_a_rule_that_does_not_act_or_was_edited_is_reported_at_once(changed: dict[str, Any]) -> None:
    async with running(registry(rules=[changed])) as reports:
        reports.is_ready = False
        reports.reporter.rule_changed("rule")
        await asyncio.sleep(SOON_S)
        assert reports.rules == ["rule"]
