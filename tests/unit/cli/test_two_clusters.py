"""Commands on one or two clusters that refuse a request, or do not answer; the servers are real ones on loopback."""

from __future__ import annotations

import asyncio
import json
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from registry_controller.api import meta
from registry_controller.api.daemon_lease import lease_manifest
from registry_controller.api.daemon_report import DaemonReport, PeerReport
from registry_controller.api.meta import ClusterUID
from registry_controller.cli import program
from registry_controller.cli.events import EVENTS
from tests.unit.admin.api_server import NAMESPACE, ApiServer, running
from tests.unit.admin.test_checks import World, lease, move

BOTH = ("--context", "a", "--context", "b")
MANAGERS = [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]


def write_config(folder: Path, *servers: ApiServer) -> Path:
    """Write a kubeconfig with a context for each server."""
    config = folder / "kubeconfig"
    found: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": servers[0].name}
    for server in servers:
        one = json.loads(server.kubeconfig.replace('"c"', f'"{server.name}"').replace('"u"', f'"{server.name}"'))
        for part in ("clusters", "users", "contexts"):
            found.setdefault(part, []).extend(one[part])
    config.write_text(json.dumps(found), encoding="utf-8")
    return config


async def run(config: Path, *args: str) -> Result:
    """Run a command beside the servers."""
    return await asyncio.to_thread(CliRunner().invoke, program, [*args, "--kubeconfig", str(config)])


def event(name: str) -> dict[str, Any]:
    about = {"apiVersion": meta.API_VERSION, "kind": "Cluster", "name": name}
    info = {"name": f"event-{name}", "namespace": "default", "managedFields": MANAGERS}
    return {"metadata": info, "involvedObject": about, "lastTimestamp": "2026-01-01T00:00:00Z", "reason": "R"}


async def test_the_events_of_the_clusters_that_answer_are_printed(tmp_path: Path) -> None:
    first, second = ApiServer("a"), ApiServer("b")
    first.put(EVENTS, event("here"))
    second.forbidden.add(("list", "events"))
    async with running(first, second):
        config = write_config(tmp_path, first, second)
        found = await run(config, "events", *BOTH)
        document = await run(config, "events", *BOTH, "-o", "json")
        alone = await run(config, "events", "--context", "b", "-o", "json")
    assert found.exit_code == document.exit_code == alone.exit_code == 1
    assert "cluster/here" in found.stdout
    (line,) = found.stderr.splitlines()
    assert line.startswith("Error: context b: your user may not list events")
    (item,) = json.loads(document.stdout)["items"]
    assert item["metadata"] == {"name": "event-here", "namespace": "default"}
    assert (alone.stdout, alone.stderr) == ("", found.stderr)


async def test_no_event_is_not_reported_of_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    first, second = ApiServer("a"), ApiServer("b")
    second.forbidden.add(("list", "events"))
    async with running(first, second):
        found = await run(write_config(tmp_path, first, second), "events", *BOTH)
    assert (found.exit_code, found.stdout) == (1, "")
    assert "no Events" not in found.stderr


async def test_a_context_that_the_kubeconfig_lacks_ends_events_with_2(tmp_path: Path) -> None:
    server = ApiServer("a")
    async with running(server):
        found = await run(write_config(tmp_path, server), "events", *BOTH)
    assert (found.exit_code, found.stdout) == (2, "")


async def test_the_rest_of_a_cluster_that_refuses_its_version_is_gathered(tmp_path: Path) -> None:
    server = ApiServer("a")
    server.forbidden.add(("get", "version"))
    target = tmp_path / "report.tar.gz"
    async with running(server):
        found = await run(write_config(tmp_path, server), "gather", "--context", "a", "--file", str(target))
    assert found.exit_code == 1
    with tarfile.open(target) as opened:
        names = {name.removeprefix("cluster-registry/") for name in opened.getnames()}
        problems = opened.extractfile("cluster-registry/problems.txt")
        assert problems is not None
        (line,) = problems.read().decode().splitlines()
    assert line.startswith("context a: ")
    assert "/version" in line
    assert names >= {"a/clusters.yaml", "a/resourcesyncrules.yaml", "a/events.yaml", "a/leases.yaml"}
    assert "a/server.yaml" not in names


async def test_a_cluster_that_does_not_answer_is_one_problem_of_gather(tmp_path: Path) -> None:
    server = ApiServer("a")
    async with running(server):
        config = write_config(tmp_path, server)
    found = await run(config, "gather", "--context", "a", "--file", str(tmp_path / "report.tar.gz"))
    assert found.exit_code == 1
    assert found.stderr.count("warning: ") == 1


async def test_the_objects_to_write_are_printed_without_their_managers(tmp_path: Path) -> None:
    world = World()
    async with running(world.a, world.b):
        world.fill()
        world.a.find(meta.CLUSTERS, "a")["metadata"]["managedFields"] = MANAGERS
        config = write_config(tmp_path, world.a, world.b)
        given = ("--dry-run", "--skip-checks", "--endpoint", "a=https://a.example.com:6443")
        found = {form: await run(config, "join", *BOTH, *given, "-o", form) for form in ("yaml", "json")}
    assert [one.exit_code for one in found.values()] == [0, 0], found
    for printed in (yaml.safe_load(found["yaml"].stdout), json.loads(found["json"].stdout)[0]["object"]):
        assert printed["metadata"]["name"] == "a"
        assert "managedFields" not in printed["metadata"]


async def test_a_cluster_that_refuses_its_version_is_shown_and_checked_without_it(tmp_path: Path) -> None:
    world = World()
    world.a.forbidden.add(("get", "version"))
    async with running(world.a, world.b):
        world.fill()
        config = write_config(tmp_path, world.a, world.b)
        status = json.loads((await run(config, "status", "--context", "a", "-o", "json")).stdout)
        check = json.loads((await run(config, "check", "--context", "a", "-o", "json")).stdout)
    assert status["members"][0]["name"] == "a"
    assert status["members"][0]["serverVersion"] == ""
    (version,) = (one for one in check if one["check"] == "api-server")
    assert (version["result"], version["problem"]) == ("warn", "OwnRightMissing")
    assert "/version" in version["message"]
    assert {"token", "as-seen"} <= {one["check"] for one in check}


async def test_a_daemon_with_a_lease_is_one_line_of_version(tmp_path: Path) -> None:
    world = World()
    async with running(world.a, world.b):
        world.fill()
        found = await run(write_config(tmp_path, world.a, world.b), "version", "--context", "a", "-o", "json")
    shown = [(one["cluster"], one["daemon"]) for one in json.loads(found.stdout)["daemons"]]
    assert shown == [("a", "pod"), ("b", None)]


async def test_a_join_that_waits_names_the_member_that_lacks_the_other_one(tmp_path: Path) -> None:
    world = World()
    async with running(world.a, world.b):
        world.fill()
        lacking = {"type": "ClustersSynced", "status": "False", "message": "does not find cluster a Ready"}
        world.a.find(meta.CLUSTERS, "b")["status"]["conditions"] = [lacking]
        refused = {"state": "Failed", "message": "https://a refuses connections"}
        world.b.find(meta.CLUSTERS, "a")["status"] = refused
        config = write_config(tmp_path, world.a, world.b)
        found = await run(config, "join", *BOTH, "--skip-checks", "--wait", "0s")
    assert found.exit_code == 1
    assert "a does not read b yet: b does not find cluster a Ready" in found.stderr
    assert "b does not read a yet: https://a refuses connections" in found.stderr


def bring_in_step(world: World) -> None:
    """Store in each cluster that it reads the other one, and is in step with it."""
    for one, other in ((world.a, "b"), (world.b, "a")):
        one.find(meta.CLUSTERS, other)["status"]["conditions"] = [{"type": "ClustersSynced", "status": "True"}]


def shown_lease(world: World, *, state: str) -> dict[str, Any]:
    """Return the Lease of the daemon of a, which finds b in this state."""
    peers = (PeerReport("a", ClusterUID(world.a.cluster_id), "Ready", is_local=True),)
    peers += (PeerReport("b", ClusterUID(world.b.cluster_id), state),)
    report = DaemonReport("0.9.1", "2026-01-01T00:00:00Z", "a", ClusterUID(world.a.cluster_id), peers=peers)
    return dict(lease_manifest(report, namespace=NAMESPACE, holder="pod", now=datetime.now(UTC)))


async def test_a_join_waits_until_the_lease_shows_the_member(tmp_path: Path) -> None:
    world = World()
    async with running(world.a, world.b):
        world.fill()
        bring_in_step(world)
        world.a.put(meta.LEASES, shown_lease(world, state="Failed"))
        config = write_config(tmp_path, world.a, world.b)
        async with asyncio.TaskGroup() as tasks:
            join = tasks.create_task(run(config, "join", *BOTH, "--skip-checks"))
            await asyncio.sleep(2)
            assert not join.done()
            world.a.put(meta.LEASES, shown_lease(world, state="Ready"))
        found = join.result()
    assert found.exit_code == 0, found.stderr
    assert found.stderr.splitlines() == [
        "the Lease in a does not show b as Ready yet",
        "2 members are in step",
    ]


async def test_a_join_ends_well_where_the_lease_does_not_show_the_member_in_time(tmp_path: Path) -> None:
    world = World()
    async with running(world.a, world.b):
        world.fill()
        bring_in_step(world)
        world.a.put(meta.LEASES, shown_lease(world, state="Failed"))
        config = write_config(tmp_path, world.a, world.b)
        found = await run(config, "join", *BOTH, "--skip-checks", "--wait", "1s")
    assert (found.exit_code, found.stdout) == (0, "nothing to change\n")
    assert "does not show b as Ready yet" in found.stderr


async def test_a_check_without_a_pod_names_both_causes(tmp_path: Path) -> None:
    world = World()
    async with running(world.a, world.b):
        world.fill()
        world.a.forbidden.add(("list", "pods"))
        found = await run(write_config(tmp_path, world.a, world.b), "join", *BOTH, "--dry-run")
    assert "no Pod of its daemon is ready, or your user may not read Pods" in found.stderr


async def test_the_new_address_of_a_member_that_does_not_answer_is_named_with_the_join(tmp_path: Path) -> None:
    """The member a has an earlier address of b; with the context of b, the address that it publishes is known."""
    world = World()
    async with running(world.a, world.b):
        world.fill()
        move(world, at="a", name="b")
        refused = {"state": "Failed", "message": "https://127.0.0.1:1 refuses connections"}
        world.a.find(meta.CLUSTERS, "b")["status"] = refused
        world.a.drop(meta.LEASES, lease(world.a, ago=timedelta())["metadata"]["name"], NAMESPACE)
        config = write_config(tmp_path, world.a, world.b)
        status = await run(config, "status", *BOTH)
        check = [json.loads((await run(config, "check", *some, "-o", "json")).stdout) for some in (BOTH, BOTH[:2])]
    words = f"it has the address {world.b.server} now"
    assert f"a: b is Failed: {refused['message']}; {words}: run `registry-controller join`" in status.stderr
    both, alone = (
        next(one for one in found if (one["cluster"], one["check"], one["result"]) == ("b", "connection", "fail"))
        for found in check
    )
    assert both["message"].endswith(words)
    assert (both["problem"], alone["problem"]) == ("AddressChanged", "ConnectionRefused")
    assert all("`registry-controller join`" in one["remedy"] for one in (both, alone))
