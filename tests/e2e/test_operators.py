"""The examples of operators over a group, on real clusters: each writes in its own cluster alone."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from registry_controller.group import Conflict, Group, RegistryError
from tests.e2e.commands import merge_kubeconfigs
from tests.e2e.group import ROOT, Member, config_map, eventually, steadily
from tests.e2e.operators import FAN_OUT, Program, expect, fan_out_job, install_fan_out, states

DIRECTORY = ROOT / "examples" / "service-directory"

pytestmark = pytest.mark.group(3, prefix="ops")


@pytest.fixture(scope="module")
def operators(members: list[Member], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Program]]:
    """Run the operator of fan-out-job in each member; the first one has the FanOutJobs."""
    output = tmp_path_factory.mktemp("operators")
    install_fan_out(members)
    script, main = str(FAN_OUT / "fan_out_job.py"), members[0].name
    programs = [
        Program(member, script, "--main", main, account="fan-out-job", output=output / member.name)
        for member in members
    ]
    yield programs
    for program in programs:
        program.stop()


def job_of(member: Member, name: str) -> dict[str, Any] | None:
    return member.find("-n", "default", "job", name)


def patch_status(member: Member, name: str, status: dict[str, Any]) -> None:
    """Write a Job's status as its controller does."""
    patch = json.dumps({"status": status})
    member.kubectl("-n", "default", "patch", "job", name, "--subresource=status", "--type=merge", "-p", patch)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def condition(type_: str, reason: str) -> dict[str, str]:
    return {"type": type_, "status": "True", "reason": reason, "lastTransitionTime": now(), "lastProbeTime": now()}


def play(member: Member, name: str, *, fails: bool = False) -> None:
    """Run a Job to its end: the API server accepts these states in this order alone."""
    eventually(lambda: job_of(member, name), what=f"the Job {name} of {member.name}")
    patch_status(member, name, {"startTime": now(), "active": 1, "ready": 0, "uncountedTerminatedPods": {}})
    if fails:
        ends = [condition("FailureTarget", "BackoffLimitExceeded"), condition("Failed", "BackoffLimitExceeded")]
        rest: dict[str, Any] = {"failed": 1}
    else:
        ends = [condition("SuccessCriteriaMet", "CompletionsReached"), condition("Complete", "CompletionsReached")]
        rest = {"succeeded": 1, "completionTime": now()}
    patch_status(member, name, {"active": 0, "terminating": 0, "conditions": ends[:1]})
    patch_status(member, name, {"conditions": ends, **rest})


def test_a_job_runs_in_each_member_and_the_resource_has_their_states(
    members: list[Member], operators: list[Program], tmp_path: Path
) -> None:
    main, second, third = members
    for member in members:
        member.kubectl("apply", "-f", str(DIRECTORY / "rbac.yaml"))
    main.apply(fan_out_job("hello"))
    expect(main, "hello", "Running", "Running", "Running", "Running", members=members)
    play(main, "hello")
    play(second, "hello")
    expect(main, "hello", "Running", "Finished", "Finished", "Running", members=members)
    uids = {member.name: (job_of(member, "hello") or {})["metadata"]["uid"] for member in members}

    # A Job that was deleted runs again, unless it had ended.
    for member in (second, third):
        member.kubectl("-n", "default", "delete", "job", "hello")
    made = eventually(lambda: job_of(third, "hello"), what="the Job that had not ended")
    assert made["metadata"]["uid"] != uids[third.name]
    steadily(lambda: job_of(second, "hello") is None, what="a finished Job runs once")
    assert states(main, "hello")[1][second.name] == "Finished"

    # Error as soon as any Job failed.
    main.apply(fan_out_job("bad"))
    play(second, "bad", fails=True)
    eventually(lambda: states(main, "bad")[0] == "Error", what="the error of one member")

    # A control plane is down: nothing is deleted, also where a resource goes meanwhile.
    service = {"selector": {"app": "x"}, "ports": [{"name": "web", "port": 80}]}
    for member in (second, third):
        info = {"name": "web", "namespace": "default", "labels": {"service-directory": "yes"}}
        member.apply({"apiVersion": "v1", "kind": "Service", "metadata": info, "spec": service})
    directory = Program(
        main, str(DIRECTORY / "service_directory.py"), account="service-directory", output=tmp_path / "directory"
    )

    def listed() -> dict[str, bool]:
        data = main.get("-n", "default", "configmap", "service-directory").get("data") or {}
        return {name: entry["stale"] for name, entry in json.loads(data.get("default.web", "{}")).items()}

    try:
        eventually(lambda: listed() == {second.name: False, third.name: False}, what="both Services")
        third.cluster.apiserver.stop()
        expect(main, "hello", "Running", "Finished", "Finished", "Unknown", members=members)
        eventually(lambda: listed() == {second.name: False, third.name: True}, what="a stale Service")
        directory.stop()  # a new process knows it from the ConfigMap
        operators[1].stop()
        main.kubectl("-n", "default", "delete", "fanoutjob", "bad")
        eventually(lambda: job_of(main, "bad") is None, what="the Job at home")
        directory.start()
        operators[1].start()
        eventually(lambda: job_of(second, "bad") is None, what="the Job of an operator that was restarted")
        steadily(lambda: listed() == {second.name: False, third.name: True}, what="the stale Service stays")
        assert job_of(main, "hello")
        third.cluster.apiserver.start()
        third.cluster.apiserver.wait_ready(timeout_s=180)
        eventually(lambda: job_of(third, "bad") is None, what="the Job of the member that was down")
        assert job_of(third, "hello")
        eventually(lambda: listed() == {second.name: False, third.name: False}, what="a Service that is known again")
        second.kubectl("-n", "default", "delete", "service", "web")
        eventually(lambda: listed() == {third.name: False}, what="the deletion of a Service")
    finally:
        directory.stop()

    play(third, "hello")
    expect(main, "hello", "Finished", "Finished", "Finished", "Finished", members=members)
    main.kubectl("-n", "default", "delete", "fanoutjob", "hello")
    for member in members:
        eventually(lambda member=member: job_of(member, "hello") is None, what=f"the Job of {member.name}")


async def test_local_writes_are_those_of_a_real_api_server(members: list[Member], tmp_path: Path) -> None:
    """Over contexts, without the group: the named one is written to."""
    first, second, _ = members
    merged = merge_kubeconfigs(members, at=tmp_path / "config")
    first.apply(config_map("written", {"theirs": "1"}))
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "written", "namespace": "default"}}
    names = [first.name, second.name]
    async with Group.from_contexts(names, operator="writer", local_context=first.name, kubeconfig=merged) as group:
        await group.wait_known()
        assert [group[name].is_local for name in names] == [True, False]
        local = group.local
        stored = await local.apply({**head, "data": {"mine": "1", "old": "1"}})
        stored = await local.apply({**head, "data": {"mine": "2"}})
        assert stored.manifest["data"] == {"theirs": "1", "mine": "2"}
        with pytest.raises(Conflict, match="force=True"):
            await local.apply({**head, "data": {"theirs": "2"}})
        with pytest.raises(RegistryError, match="the kind may not have a field of the manifest"):
            await local.apply({**head, "date": {}})
        with pytest.raises(RegistryError, match="create the namespace nowhere"):
            await local.apply({**head, "metadata": {"name": "written", "namespace": "nowhere"}})
        stored = await local.apply({**head, "data": {"theirs": "2"}}, force=True)
        assert stored.manifest["data"] == {"theirs": "2"}
        added = await asyncio.gather(*(local.add_finalizer(stored, f"example.com/f-{number}") for number in range(3)))
        assert all(added)
        await local.delete(stored)
        for number in range(3):
            await local.remove_finalizer(stored, f"example.com/f-{number}")
        assert await local.get("configmaps", "written", namespace="default") is None
        local.event(stored, reason="Written", message="it was written", type="Warning")
    events = first.get("-n", "default", "events", "--field-selector", "reason=Written")["items"]
    assert [(one["involvedObject"]["uid"], one["type"], one["source"]) for one in events] == [
        (stored.uid, "Warning", {"component": "writer"})
    ]
    assert second.find("-n", "default", "configmap", "written") is None
