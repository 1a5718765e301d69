"""`check` on real control planes: what is found before and after the installation, with what to do."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.controlplane.kubeconfig import write_kubeconfig
from tests.e2e.commands import Ended, contexts, run
from tests.e2e.group import NAMESPACE, Member, eventually
from tests.e2e.proxy import tls_front

pytestmark = pytest.mark.group(2, prefix="test")

READER = "cluster-registry-controller-reader"


@pytest.fixture(scope="module")
def kubeconfig(members: list[Member]) -> Path:
    path = members[0].cluster.directory.parent / "both.kubeconfig"
    write_kubeconfig(path, [member.cluster.entry for member in members])
    return path


def check(kubeconfig: Path, *arguments: str, of: tuple[str, ...] = ("test-1",)) -> Ended:
    return run(kubeconfig, "check", *contexts(of), *arguments)


def failures(done: Ended) -> list[dict[str, Any]]:
    return [one for one in json.loads(done.stdout) if one["result"] == "fail"]


def test_all_checks_of_a_sound_group_pass(members: list[Member], kubeconfig: Path) -> None:
    done = check(kubeconfig, of=("test-1", "test-2"))
    assert done.code == 0, done
    assert "all checks passed" in done.stderr
    names = {line.split()[3] for line in done.stdout.splitlines()[1:]}
    assert {
        "api-server", "definitions", "own-rights", "image", "address", "connection", "certificate", "token", "identity",
        "rights", "clock", "state", "as-seen",
    } <= names  # fmt: skip


def test_the_daemons_account_may_run_the_checks(members: list[Member], kubeconfig: Path, tmp_path: Path) -> None:
    """`helm test` runs them with this account, which may read no Deployment."""
    token = members[0].kubectl("-n", NAMESPACE, "create", "token", "cluster-registry-controller").strip()
    own = tmp_path / "own.kubeconfig"
    text = json.loads(members[0].kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
    text["users"][0]["user"] = {"token": token}
    own.write_text(json.dumps(text), encoding="utf-8")
    done = run(own, "check", "-o", "json")
    assert done.code == 0, done
    assert failures(done) == []


def test_a_missing_right_of_the_reader_is_named_with_its_remedy(members: list[Member], kubeconfig: Path) -> None:
    held = members[1].get("clusterrolebinding", READER)
    members[1].kubectl("delete", "clusterrolebinding", READER)
    try:
        done = check(kubeconfig, "-o", "json")
    finally:
        kept = {key: held[key] for key in ("apiVersion", "kind", "roleRef", "subjects")}
        members[1].create({**kept, "metadata": {key: held["metadata"][key] for key in ("name", "labels")}})
    assert done.code == 1
    (found,) = failures(done)
    assert (found["cluster"], found["check"], found["problem"]) == ("test-2", "rights", "MissingRight")
    assert "registry-controller rbac" in found["remedy"]


def test_a_ca_of_the_endpoint_that_did_not_sign_is_found_in_its_own_cluster(
    members: list[Member], kubeconfig: Path
) -> None:
    """The other members verify the certificate with it, and not with the CA in the Secret, which is right."""
    wrong = base64.b64encode(members[1].get("configmap", "kube-root-ca.crt")["data"]["ca.crt"].encode()).decode()
    server = members[0].cluster.server
    held = json.dumps({"spec": {"kubernetesApiEndpoints": [{"serverAddress": server, "caBundle": wrong}]}})
    members[0].kubectl("patch", "cluster", "test-1", "--type", "merge", "-p", held)
    try:
        found = failures(check(kubeconfig, "-o", "json"))
    finally:
        members[0].kubectl(
            "patch", "cluster", "test-1", "--type", "merge", "-p", '{"spec": {"kubernetesApiEndpoints": null}}'
        )
    assert [(one["cluster"], one["check"]) for one in found] == [("test-1", "certificate")]
    assert "which is not in the caBundle of its Cluster" in found[0]["message"] or (
        "has, and the caBundle of its Cluster has not" in found[0]["message"]
    )
    assert "spec.kubernetesApiEndpoints[].caBundle of Cluster test-1" in found[0]["remedy"]


def published_server(member: Member, name: str) -> str:
    """Return the address in the Secret of a member."""
    text = base64.b64decode(member.get("-n", NAMESPACE, "secret", name)["data"]["kubeconfig"])
    return str(yaml.safe_load(text)["clusters"][0]["cluster"]["server"])


def test_a_new_address_is_named_and_brought_by_a_join(members: list[Member], kubeconfig: Path) -> None:
    """A member that lost another one before its address changed takes the new address from none."""
    first, second = members
    both = ("test-1", "test-2")

    def publish(endpoints: object) -> None:
        patch = json.dumps({"spec": {"kubernetesApiEndpoints": endpoints}})
        second.kubectl("patch", "cluster", "test-2", "--type", "merge", "-p", patch)

    with tls_front(second.cluster) as front:
        publish([{"serverAddress": front.address, "caBundle": base64.b64encode(front.ca_pem).decode()}])
        earlier = f"https://{front.address}"
        eventually(lambda: published_server(first, "test-2") == earlier, what="the address of the front")
        eventually(lambda: first.get("cluster", "test-2")["spec"].get("kubernetesApiEndpoints"), what="the endpoint")
        first.daemon.restart()  # from now on it reads the other member at the front
        first.daemon.wait_ready(timeout_s=180)
        eventually(lambda: first.get("cluster", "test-2")["status"]["state"] == "Ready")
    eventually(lambda: first.get("cluster", "test-2")["status"]["state"] == "Failed", what="the front has ended")
    publish(None)
    eventually(lambda: published_server(second, "test-2") == second.cluster.server, what="the new address")
    words = f"it has the address {second.cluster.server} now"
    eventually(lambda: words in run(kubeconfig, "status", *contexts(both)).stderr, what="the status names it")
    found = {(one["context"], one["check"]): one for one in failures(check(kubeconfig, "-o", "json", of=both))}
    assert words in found["test-1", "connection"]["message"]
    assert found["test-1", "connection"]["problem"] == "AddressChanged"
    assert found["test-2", "as-seen"]["problem"] == "AddressChanged"
    assert all("registry-controller join" in one["remedy"] for one in found.values())
    done = run(kubeconfig, "join", *contexts(both))
    assert done.code == 0, done
    well = run(kubeconfig, "status", "--wait", "1m", *contexts(both))
    assert well.code == 0, well
    assert published_server(first, "test-2") == second.cluster.server


def test_a_definition_of_another_release_is_named(members: list[Member], kubeconfig: Path) -> None:
    name = "clusters.clusterregistry.k8s.cisco.com"
    held = members[0].get("crd", name)
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/kubernetesApiEndpoints"
    members[0].kubectl("patch", "crd", name, "--type", "json", "-p", json.dumps([{"op": "remove", "path": path}]))
    try:
        done = check(kubeconfig, "-o", "json")
    finally:
        wanted = held["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        add = {"op": "add", "path": path, "value": wanted["kubernetesApiEndpoints"]}
        members[0].kubectl("patch", "crd", name, "--type", "json", "-p", json.dumps([add]))
    assert done.code == 1
    (found,) = failures(done)
    assert (found["check"], found["problem"]) == ("definitions", "OldDefinitions")
    assert "kubernetesApiEndpoints" in found["message"]


def test_a_member_that_is_down_is_named(members: list[Member], kubeconfig: Path) -> None:
    server = members[1].cluster.apiserver
    server.kill()
    try:
        done = check(kubeconfig, "-o", "json")
    finally:
        server.start()
        server.wait_ready(90)
    assert done.code == 1
    assert ("test-2", "ConnectionRefused") in [(one["cluster"], one["problem"]) for one in failures(done)]


def test_the_checks_before_an_installation(members: list[Member], kubeconfig: Path) -> None:
    port = members[0].cluster.port
    done = check(kubeconfig, "--pre", "-o", "json")
    assert done.code == 0, done
    loopback = [one for one in json.loads(done.stdout) if one["problem"] == "LoopbackAddress"]
    assert "controller.apiServerEndpointAddress" in loopback[0]["remedy"]
    good = check(kubeconfig, "--pre", "--address", f"https://localhost:{port}")
    assert good.code == 0, good
    wrong = check(kubeconfig, "--pre", "--address", f"https://127.1:{port}", "-o", "json")
    assert wrong.code == 1
    (found,) = failures(wrong)
    assert found["problem"] == "CertificateNotValidForAddress"
    assert "it is valid for" in found["message"]
    assert check(kubeconfig, "--address", "x").code == 2
    assert check(kubeconfig, "--pre", "--address", "http://x").code == 2
