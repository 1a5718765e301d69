"""The daemon as it will run: the built image, in Pods that real kubelets start, on two clusters.

No CNI plugin here enforces NetworkPolicies: that the chart renders them is shown by the tests of the chart.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import tarfile
from pathlib import Path

import pytest

from hack.pods.cluster import NODE
from hack.pods.node import run_program
from registry_controller import __version__
from tests.e2e.commands import Ended, contexts, run
from tests.e2e.group import NAMESPACE, eventually, secret
from tests.pods.member import CHECK, DEPLOYMENT, SYNCED, PodMember

_CANARY = "a-canary-that-must-not-sing"
_PROBE = "import os, sys; print(os.getuid(), os.getgid()); open('/not-allowed', 'w')"


def _arrives(joined: list[PodMember], name: str) -> None:
    """A Secret that is created at the second member reaches the first, and its changes and its deletion do."""
    first, second = joined
    second.create(secret(name, {"a": "1"}, labels=SYNCED))
    wanted = second.get("secret", name)["data"]
    eventually(lambda: (first.find("secret", name) or {}).get("data") == wanted, what=f"{name} at {first.name}")
    second.kubectl("delete", "secret", name)
    eventually(lambda: first.find("secret", name) is None, what=f"deletion of {name} at {first.name}")


def test_pods_are_ready_and_restricted(members: list[PodMember]) -> None:
    for member in members:
        pod = member.pod()
        [status] = pod["status"]["containerStatuses"]
        assert status["ready"]
        assert status["restartCount"] == 0
        assert pod["spec"]["nodeName"] == NODE
        found = member.get("namespace", NAMESPACE)["metadata"]["labels"]
        assert found["pod-security.kubernetes.io/enforce"] == "restricted"
        assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


def test_the_program_is_no_root_and_cannot_write_its_root(members: list[PodMember]) -> None:
    command = ["-n", NAMESPACE, "exec", DEPLOYMENT, "--", "python", "-c", _PROBE]
    with pytest.raises(Exception, match="Read-only file system"):
        members[0].kubectl(*command)
    assert members[0].execute("python", "-c", _PROBE.rpartition(";")[0]).split() == ["65532", "65532"]


def test_a_namespace_that_is_restricted_refuses_the_pod_without_its_security_context(members: list[PodMember]) -> None:
    """Otherwise the label on the namespace would prove nothing."""
    pod = members[0].pod()
    container = {"name": "manager", "image": pod["spec"]["containers"][0]["image"]}
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}, "spec": {"containers": [container]}}
    with pytest.raises(Exception, match='violates PodSecurity "restricted'):
        members[0].kubectl("-n", NAMESPACE, "create", "-f", "-", stdin=json.dumps(bare))


def test_the_members_joined_after_checks_in_their_pods(joined: list[PodMember], join_ended: Ended) -> None:
    """A check on this machine would be reported, with the obstacle in the Pod."""
    assert "the checks ran on this machine" not in join_ended.stderr
    assert "warning:" not in join_ended.stderr
    assert f"{len(joined)} members are in step" in join_ended.stderr
    assert join_ended.stdout


def test_an_archive_has_logs_and_metrics_of_the_pods_and_no_data_of_a_secret(
    joined: list[PodMember], kubeconfig: Path, tmp_path: Path
) -> None:
    for member in joined:
        member.create(secret(f"canary-{member.name}", {"password": _CANARY}, namespace=NAMESPACE))
    _arrives(joined, "with-a-log")
    target = tmp_path / "report.tar.gz"
    ended = run(kubeconfig, "gather", *contexts(member.name for member in joined), "--file", str(target))
    assert ended.code == 0, ended.stderr
    with tarfile.open(target) as opened:
        files = {info.name: opened.extractfile(info).read().decode() for info in opened}  # type: ignore[union-attr]
    assert files["cluster-registry/problems.txt"] == ""
    hidden = [_CANARY, base64.b64encode(_CANARY.encode()).decode()]
    for member in joined:
        data = member.get("secret", member.name, "-n", NAMESPACE)["data"]
        hidden += [*data.values(), *(base64.b64decode(value).decode() for value in data.values())]
        folder = f"cluster-registry/{member.name}/pods/{member.pod()['metadata']['name']}"
        assert [json.loads(line) for line in files[f"{folder}.log"].splitlines()]
        assert "# HELP" in files[f"{folder}.metrics.txt"]
    assert [name for name, text in files.items() for value in hidden if value in text] == []


def test_a_secret_is_synced_over_the_nodes_network(joined: list[PodMember]) -> None:
    _arrives(joined, "hello")


def test_the_probes_answer_through_the_api_server(members: list[PodMember]) -> None:
    name = members[0].pod()["metadata"]["name"]
    for path in ("livez", "readyz"):
        members[0].kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:8090/proxy/{path}")
    metrics = members[0].kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:8080/proxy/metrics")
    assert "# HELP" in metrics


def test_logs_are_lines_of_json(joined: list[PodMember]) -> None:
    lines = [json.loads(line) for line in joined[0].log().splitlines()]
    assert len(lines) > 3


def test_the_command_line_works_inside_the_pod(joined: list[PodMember]) -> None:
    assert __version__ in joined[0].execute("registry-controller", "--version")
    joined[1].create(secret("explained", {"a": "1"}, labels=SYNCED))
    eventually(lambda: joined[0].find("secret", "explained"))
    assert joined[1].name in joined[0].execute("registry-controller", "explain", "secret", "default/explained")


@pytest.mark.parametrize("program", ["helm", "helm3"])
def test_helm_test_checks_a_member_in_a_pod_that_the_restricted_namespace_admits(
    joined: list[PodMember], program: str
) -> None:
    first, second = joined
    printed = first.run_tests(program)
    assert first.get("-n", NAMESPACE, "pod", CHECK)["status"]["phase"] == "Succeeded"
    log = first.kubectl("-n", NAMESPACE, "logs", CHECK)
    assert log in printed
    assert "all checks passed" in log
    lines = [re.split(" {2,}", line) for line in log.splitlines()]  # where it takes long, also lines about progress
    checked = {(line[1], line[2]) for line in lines if line[0] == "ok"}
    assert {"definitions", "own-rights", "daemon"} <= {check for _, check in checked}
    assert {(first.name, "token"), (second.name, "token"), (second.name, "as-seen")} <= checked


def test_a_rolling_update_to_two_replicas_and_back(joined: list[PodMember]) -> None:
    first = joined[0]
    first.upgrade("--set", "replicas=2")
    eventually(lambda: len(first.pods()) == 2, what="two Pods")
    _arrives(joined, "with-two")
    before = {pod["metadata"]["uid"] for pod in first.pods()}
    first.upgrade("--set", "replicas=2", "--set", "podAnnotations.rolled=yes")
    eventually(lambda: len(first.pods()) == 2 and not before & {pod["metadata"]["uid"] for pod in first.pods()})
    _arrives(joined, "rolled")
    first.upgrade("--set", "replicas=1")
    first.pod()
    _arrives(joined, "with-one")


def test_a_container_that_is_killed_starts_again(joined: list[PodMember]) -> None:
    first = joined[0]
    before = first.pod()["status"]["containerStatuses"][0]
    pids = first.nodes.node.run("pgrep", "-f", "registry-controller run").split()
    for pid in pids:
        first.nodes.node.run("kill", f"-{signal.SIGKILL.value}", pid)

    def is_back() -> bool:
        status = first.pod()["status"]["containerStatuses"][0]
        return bool(status["ready"]) and status["restartCount"] == before["restartCount"] + 1

    eventually(is_back, what="ready after a restart")
    _arrives(joined, "after-a-kill")


def test_a_pod_that_is_deleted_is_replaced(joined: list[PodMember]) -> None:
    first = joined[0]
    uid = first.pod()["metadata"]["uid"]
    first.kubectl("-n", NAMESPACE, "delete", "pod", first.pod()["metadata"]["name"], "--wait=true", "--timeout=120s")
    eventually(lambda: first.pod()["metadata"]["uid"] != uid)
    first.wait_available()
    _arrives(joined, "after-a-deletion")


def test_the_daemon_works_on_while_its_kubelet_is_gone(joined: list[PodMember]) -> None:
    first = joined[0]
    before = first.pod()
    first.nodes.kubelet.stop()
    eventually(lambda: first.nodes.node_status() != "True", what="the node is lost")
    _arrives(joined, "without-a-kubelet")
    first.nodes.kubelet.start()
    first.nodes.kubelet.wait_ready(300)
    first.wait_available()
    after = first.pod()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [s["restartCount"] for s in after["status"]["containerStatuses"]] == [
        s["restartCount"] for s in before["status"]["containerStatuses"]
    ]
    _arrives(joined, "with-a-kubelet")


def test_no_interface_and_no_route_lead_out_of_the_run(members: list[PodMember]) -> None:
    links = {item["ifname"] for item in json.loads(run_program(["ip", "-json", "link", "show"]))}
    assert links == {"lo", "nodes", "node1", "node2"}
    assert run_program(["ip", "route", "show", "default"]) == ""
    for member in members:
        assert member.nodes.node.run("ip", "route", "show", "default") == ""
