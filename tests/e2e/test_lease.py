"""What a daemon reports for programs and people who look: its Lease, its metrics, and conditions to wait for."""

from __future__ import annotations

import base64
import json
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from registry_controller import __version__
from registry_controller.api import meta
from registry_controller.api.daemon_lease import SELECTOR, DaemonLease, read_lease
from registry_controller.api.daemon_report import DaemonReport, PeerReport, RuleReport
from registry_controller.api.meta import ClusterUID
from tests.e2e.group import CONFIG_MAP, NAMESPACE, Member, config_map, eventually, in_sync, rule
from tests.oracle.kstatus_oracle import judge

pytestmark = pytest.mark.group(2, prefix="lease")


def leases(member: Member, *flags: str) -> list[DaemonLease]:
    found = json.loads(member.kubectl(*flags, "get", "leases", "-n", NAMESPACE, "-l", SELECTOR, "-o", "json"))
    return [read_lease(item) for item in found["items"]]


def report(member: Member) -> DaemonReport:
    (lease,) = leases(member)
    assert lease.report is not None
    return lease.report


def peer(member: Member, other: Member) -> PeerReport:
    unknown = PeerReport(other.name, ClusterUID(""))
    return next((found for found in report(member).peers if found.name == other.name), unknown)


def rule_report(member: Member, name: str) -> RuleReport:
    return next((found for found in report(member).rules if found.name == name), RuleReport(name))


def samples(member: Member) -> dict[str, float]:
    with urllib.request.urlopen(member.daemon.metrics_url, timeout=60) as answer:
        lines = (line.rpartition(" ") for line in answer.read().decode().splitlines() if not line.startswith("#"))
    return {name.removeprefix("registrycontroller_"): float(value) for name, _, value in lines if name}


def warnings(member: Member, message: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in member.log().splitlines() if line.startswith("{"))
    return [line for line in lines if line.get("level") == "warning" and line.get("msg") == message]


@pytest.mark.clause("S5")
def test_each_daemon_has_a_lease_that_names_its_peers(members: list[Member]) -> None:
    first, second = members
    for member, other in ((first, second), (second, first)):
        eventually(lambda member=member, other=other: peer(member, other).state == "Ready", what="the peer is Ready")
        (lease,) = leases(member)
        found = report(member)
        pods = member.get("-n", NAMESPACE, "pods")["items"]
        assert lease.holder in {pod["metadata"]["name"] for pod in pods}
        assert lease.is_current(datetime.now(UTC))
        assert (found.version, found.cluster_name, found.cluster_id) == (__version__, member.name, member.id)
        assert {entry.kind for entry in found.definitions} == {"Cluster", "ClusterFeature", "ResourceSyncRule"}
        assert not any(entry.drops for entry in found.definitions)
        assert peer(member, other).last_contact
        assert peer(member, member).is_local


@pytest.mark.clause("S5")
def test_a_lease_is_renewed(members: list[Member]) -> None:
    first, _ = members
    (before,) = leases(first)
    assert before.renewed is not None
    eventually(lambda: leases(first)[0].renewed > before.renewed, what="a renewal", every_s=2)


@pytest.mark.clause("S5")
def test_a_peer_may_read_the_lease_with_its_credentials(members: list[Member], tmp_path: Path) -> None:
    first, second = members
    held = first.get("-n", NAMESPACE, "secret", second.name)["data"]["kubeconfig"]
    kubeconfig = tmp_path / "reader.yaml"
    kubeconfig.write_bytes(base64.b64decode(held))
    kubeconfig.chmod(0o600)
    (lease,) = leases(first, f"--kubeconfig={kubeconfig}", f"--context={second.name}")
    assert lease.report is not None
    assert lease.report.cluster_name == second.name


@pytest.mark.clause("S4")
def test_a_rule_is_waited_for_by_its_readiness(members: list[Member]) -> None:
    """S4, S5: a conflict is not Ready, and ends; the Lease counts the copies, and so do the metrics."""
    first, second = members
    second.create(config_map("wanted", {"a": "1"}), config_map("taken", {"a": "1"}))
    first.create(config_map("taken", {"a": "mine"}))
    matches = [{"objectKey": {"name": name, "namespace": "default"}} for name in ("wanted", "taken")]
    made = rule("waited", CONFIG_MAP, {"match": matches})
    made["metadata"]["annotations"] = {meta.SYNC_DISABLED: "true"}
    first.apply(made)
    eventually(lambda: first.condition("rsr", "waited", "Ready").get("reason") == "Conflict")
    assert first.condition("rsr", "waited", "Ready")["status"] == "False"
    assert judge([first.get("rsr", "waited")]) != ["Current"]
    eventually(lambda: rule_report(first, "waited").reason == "Conflict", what="the Lease")
    (owner,) = rule_report(first, "waited").owners
    assert (owner.owner, owner.in_step, owner.conflicting) == (second.name, 1, 1)
    found = samples(first)
    assert found['copies{rule="waited",state="in_step"}'] == 1.0
    assert found['copies{rule="waited",state="conflicting"}'] == 1.0
    first.kubectl("delete", "cm", "taken")
    first.kubectl("wait", "--for=condition=Ready", "--timeout=180s", "rsr/waited")
    held = first.get("rsr", "waited")
    assert judge([held]) == ["Current"]
    assert held["status"]["observedGeneration"] == held["metadata"]["generation"]
    assert samples(first)["copy_delay_seconds_count"] > 0
    first.kubectl("patch", "rsr", "waited", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    eventually(lambda: first.condition("rsr", "waited", "Ready").get("reason") == "Suspended")
    assert judge([first.get("rsr", "waited")]) == ["InProgress"]
    first.kubectl("delete", "rsr", "waited")


@pytest.mark.clause("S4")
def test_the_kinds_have_an_age_and_a_category_and_core_rules_a_label(members: list[Member]) -> None:
    first, second = members
    for kind in ("clusters", "rsr", "cf"):
        assert "AGE" in first.kubectl("get", kind).splitlines()[0].split()
    listed = first.kubectl("get", "cluster-registry", "-o", "name").split()
    kinds = {name.partition("/")[0].partition(".")[0] for name in listed}
    assert kinds == {"cluster", "clusterfeature", "resourcesyncrule"}
    without = first.kubectl("get", "rsr", "-l", f"!{meta.CORE_RESOURCE}", "-o", "name")
    assert "cluster-registry-core-resource" not in without
    held = first.get("cluster", second.name)
    eventually(lambda: first.get("cluster", second.name)["status"].get("observedGeneration"))
    assert first.get("cluster", second.name)["status"]["observedGeneration"] == held["metadata"]["generation"]
    assert "observedGeneration" not in first.get("cluster", first.name)["status"]


@pytest.mark.clause("S4")
def test_a_disabled_cluster_is_not_ready(members: list[Member]) -> None:
    first, second = members
    first.kubectl("annotate", "cluster", second.name, f"{meta.CLUSTER_DISABLED}=true")
    eventually(lambda: first.condition("cluster", second.name, "Ready").get("reason") == "ClusterIsDisabled")
    assert judge([first.get("cluster", second.name)]) == ["InProgress"]
    first.kubectl("annotate", "cluster", second.name, f"{meta.CLUSTER_DISABLED}-")
    first.kubectl("wait", "--for=condition=Ready", "--timeout=180s", f"cluster/{second.name}")
    eventually(lambda: judge([first.get("cluster", second.name)]) == ["Current"], what="kstatus")
    in_sync(members)


@pytest.mark.clause("S5")
def test_a_peer_that_cannot_be_reached_is_reported_everywhere(members: list[Member]) -> None:
    first, second = members
    assert samples(first)[f'peer_up{{peer="{second.name}"}}'] == 1.0
    second.cluster.apiserver.stop()
    try:
        eventually(lambda: warnings(first, "peer does not answer"), what="a warning in the log")
        eventually(lambda: samples(first)[f'peer_up{{peer="{second.name}"}}'] == 0.0, what="peer_up is 0")
        eventually(lambda: peer(first, second).state == "Failed", what="the Lease")
        found = peer(first, second)
        assert found.reason
        assert found.since
        assert found.last_contact
        contact = samples(first)[f'peer_last_contact_timestamp_seconds{{peer="{second.name}"}}']
        assert contact < datetime.now(UTC).timestamp()
    finally:
        second.cluster.apiserver.start()
        second.cluster.apiserver.wait_ready(timeout_s=180)
    eventually(lambda: peer(first, second).state == "Ready", what="the Lease")
    assert samples(first)[f'peer_up{{peer="{second.name}"}}'] == 1.0
    in_sync(members)
