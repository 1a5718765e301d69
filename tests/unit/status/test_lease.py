"""S5: the Lease of a daemon is renewed once a minute and after a change, and a refusal is logged once."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from registry_controller.api import errors, meta
from registry_controller.api.daemon_lease import RENEWAL_S, lease_manifest, lease_name, read_lease
from registry_controller.api.daemon_report import DaemonReport
from registry_controller.api.meta import GVR, ClusterUID, ObjectKey
from registry_controller.report import logs
from registry_controller.status.lease import SPACING_S, LeaseWriter
from tests.sim.cluster.loop import virtual
from tests.unit.local.fake_server import FakeServer

NAMESPACE, POD = "registry", "controller-7d9f"
BEGAN = datetime(2026, 1, 31, 12, tzinfo=UTC)
REPORT = DaemonReport("1.2.3", "2026-01-31T12:00:00Z", "a", ClusterUID("0000000a"))

pytestmark = pytest.mark.clause("S5")


class Server(FakeServer):
    """A server whose replace answers 404 for an object that was deleted."""

    async def replace(self, gvr: GVR, key: ObjectKey, body: bytes, *, dry_run: bool) -> bytes:
        if self.find(gvr, key.name, key.namespace) is None:
            raise errors.NotFound("gone", names_object=True)
        return await super().replace(gvr, key, body, dry_run=dry_run)


class World:
    """A Lease writer, its server, and its report, in virtual time."""

    def __init__(self) -> None:
        self.server = Server()
        self.report = REPORT
        self.reports = 0
        self.writer = LeaseWriter(self.server, namespace=NAMESPACE, holder=POD, report=self._report, now=self.now)

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=asyncio.get_running_loop().time())

    def _report(self) -> DaemonReport:
        self.reports += 1
        return self.report

    def stored(self) -> Any:
        found = self.server.find(meta.LEASES, lease_name(POD), NAMESPACE)
        return read_lease(found) if found is not None else None

    def put(self, holder: str, *, age: timedelta) -> None:
        self.server.put(meta.LEASES, lease_manifest(REPORT, namespace=NAMESPACE, holder=holder, now=self.now() - age))


@contextlib.asynccontextmanager
async def running(prepare: Callable[[World], None] = lambda _: None) -> AsyncIterator[World]:
    world = World()
    prepare(world)
    async with asyncio.TaskGroup() as scope:
        task = scope.create_task(world.writer.run(), name="lease")
        await asyncio.sleep(0.1)
        yield world
        task.cancel()


@virtual
async def test_a_lease_is_made_at_the_start_and_renewed_once_a_minute() -> None:
    async with running() as world:
        first = world.stored()
        assert (first.holder, first.report) == (POD, REPORT)
        await asyncio.sleep(3 * RENEWAL_S)
        assert world.server.writes == ["create leases", *["replace leases"] * 3]
        assert world.stored().renewed > first.renewed


@virtual
async def test_a_change_is_written_soon_and_many_changes_at_most_every_five_seconds() -> None:
    async with running() as world:
        world.report = replace(REPORT, rules_total=7)
        for _ in range(100):
            world.writer.request()
            await asyncio.sleep(SPACING_S / 10)
        assert world.stored().report.rules_total == 7
        assert 10 <= len(world.server.writes) <= 12


@virtual
async def test_the_lease_of_an_earlier_process_of_the_pod_is_taken_over() -> None:
    async with running(lambda world: world.put(POD, age=timedelta(minutes=1))) as world:
        assert world.server.writes == ["replace leases"]
        assert world.stored().is_current(world.now())


@virtual
async def test_a_lease_that_is_deleted_or_changed_is_written_again() -> None:
    async with running() as world:
        world.server.drop(meta.LEASES, lease_name(POD), NAMESPACE)
        await asyncio.sleep(RENEWAL_S)
        assert world.server.writes == ["create leases", "create leases"]
        world.put(POD, age=timedelta(0))
        await asyncio.sleep(RENEWAL_S)
        assert world.server.writes[2:] == ["replace leases"]


@virtual
async def test_a_refusal_is_logged_once_with_what_to_do_and_tried_again_each_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warned: list[dict[str, object]] = []
    monkeypatch.setattr(logs.Logger, "warning", lambda _, message, **values: warned.append({"msg": message, **values}))

    def refuse(world: World) -> None:
        world.server.forbidden = {("create", "leases"), ("get", "leases"), ("list", "leases")}

    async with running(refuse) as world:
        await asyncio.sleep(3 * RENEWAL_S)
        assert world.reports == 4
        assert world.stored() is None
        (line,) = warned
        assert "cannot write the Lease of this daemon" in str(line["msg"])
        assert "grant the daemon get, list, create, update and delete of leases.coordination" in str(line["advice"])
        assert "as the Role of the chart does" in str(line["advice"])
        world.server.forbidden = set()
        await asyncio.sleep(RENEWAL_S)
        assert world.stored() is not None


@virtual
async def test_a_server_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> bytes:
        raise errors.Unreachable("timed out")

    async with running() as world:
        with monkeypatch.context() as patch:
            patch.setattr(world.server, "replace", fail)
            await asyncio.sleep(RENEWAL_S)
        await asyncio.sleep(RENEWAL_S)
        assert world.server.writes == ["create leases", "replace leases"]


@virtual
async def test_the_leases_of_daemons_that_are_gone_for_a_day_are_deleted_and_no_others() -> None:
    def put(world: World) -> None:
        world.put("gone", age=timedelta(days=1, minutes=1))
        world.put("away", age=timedelta(hours=23))
        other = {"metadata": {"name": "other", "namespace": NAMESPACE}, "spec": {"renewTime": "2020-01-01T00:00:00Z"}}
        world.server.put(meta.LEASES, other)

    async with running(put) as world:
        left = {json.loads(json.dumps(one))["metadata"]["name"] for one in world.server.objects.values()}
        assert {"cluster-registry-away", "other", lease_name(POD)} <= left
        assert "cluster-registry-gone" not in left
        await asyncio.sleep(2 * 3600)
        assert "delete leases" in world.server.writes[2:]
        assert world.server.find(meta.LEASES, "cluster-registry-away", NAMESPACE) is None
