"""The policy that refuses a second Cluster for this cluster, on a real API server. P1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hack.controlplane import CommandError, Group
from tests.e2e.group import API, CHART, CRDS, NAMESPACE, Member, eventually, holding_invariants, steadily

POLICY = "cluster-registry-controller-cluster-validator"
ENABLED = "webhooks.clusterValidator.enabled=true"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"
PEER_ID = "5b9e8f4e-0000-4000-8000-00000000000b"
OTHER_ID = "5b9e8f4e-0000-4000-8000-00000000000c"


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    """A cluster whose daemon makes its Cluster while the policy is there, with a peer that does not answer."""
    with Group(1, prefix="policy") as group, holding_invariants() as members:
        members.append(Member(group[0], ENABLED).install())
        members[0].daemon.wait_ready(timeout_s=180)
        eventually(lambda: is_local(members[0], members[0].name))
        members[0].create(cluster("peer", PEER_ID))
        eventually(lambda: members[0].get("cluster", "peer")["status"]["type"] == "Peer")
        eventually(lambda: refusal(members[0]))
        yield members[0]


def cluster(name: str, cluster_id: str, **fields: Any) -> dict[str, Any]:
    spec = {"clusterID": cluster_id, "authInfo": {"secretRef": {"name": name, "namespace": NAMESPACE}}}
    return {"apiVersion": API, "kind": "Cluster", "metadata": {"name": name}, "spec": spec, **fields}


def answer(member: Member, *arguments: str, manifest: dict[str, Any] | None = None) -> str:
    """Run kubectl; return what it prints when the request is refused, and the empty string when it passes."""
    try:
        member.kubectl(*arguments, stdin=json.dumps(manifest) if manifest is not None else None)
    except CommandError as error:
        return error.stderr
    return ""


def refusal(member: Member, name: str = "second", cluster_id: str | None = None) -> str:
    """Try to create a Cluster, for this cluster unless another ID is given, without storing it."""
    wanted = cluster(name, cluster_id or member.id)
    return answer(member, "create", "--dry-run=server", "-f", "-", manifest=wanted)


def message(name: str, local: str) -> str:
    return (
        f"denied request: Cluster {name}: spec.clusterID is the ID of this cluster, which Cluster {local} has already."
        f" If {name} is another cluster, set spec.clusterID to the UID of the namespace kube-system of that cluster."
        f" If {name} is to replace {local}, delete {local} first, and try again when it is gone."
    )


def is_local(member: Member, name: str) -> bool:
    return bool(member.get("cluster", name).get("status", {}).get("type") == "Local")


def upgrade(member: Member, *values: str) -> None:
    settings = [argument for value in values for argument in ("--set", value)]
    member.cluster.helm("upgrade", "cluster-registry", str(CHART), "-n", NAMESPACE, "--reuse-values", *settings)
    member.daemon.wait_ready(timeout_s=180)


# --- Refused -----------------------------------------------------------------------------------------------------

CREATE, APPLY = ("create", "-f", "-"), ("apply", "--server-side", "--force-conflicts", "-f", "-")

SECOND: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "created": (CREATE, {}),
    "applied": (("apply", "-f", "-"), {}),
    "applied server-side": (APPLY, {}),
    "with a generated name": (CREATE, {"metadata": {"generateName": "second-"}}),
    "with the status of a peer": (CREATE, {"status": {"type": "Peer", "state": "Ready"}}),
    "with the status of the local Cluster": (CREATE, {"status": {"type": "Local", "state": "Ready"}}),
    "from a backup": (CREATE, {"metadata": {"name": "second", "uid": PEER_ID, "resourceVersion": "1"}}),
    "disabled": (CREATE, {"metadata": {
        "name": "second", "annotations": {"cluster-registry.k8s.cisco.com/cluster-disabled": ""}}}),
    "by the daemon": ((*CREATE, f"--as={ACCOUNT}"), {}),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "fields"), SECOND.values(), ids=SECOND)
def test_a_second_cluster_is_refused(member: Member, arguments: tuple[str, ...], fields: dict[str, Any]) -> None:
    told = answer(member, *arguments, manifest=cluster("second", member.id) | fields)
    name = "second-" if "generateName" in fields.get("metadata", {}) else "second"
    assert f"ValidatingAdmissionPolicy '{POLICY}' with binding '{POLICY}' denied request: Cluster {name}" in told
    assert f"which Cluster {member.name} has already" in told
    assert "(Forbidden)" in told
    names = {item["metadata"]["name"] for item in json.loads(member.kubectl("get", "clusters", "-o", "json"))["items"]}
    assert names == {member.name, "peer"}


def test_the_refusal_says_what_is_wrong_where_and_what_to_do(member: Member) -> None:
    """The line is one, and whole."""
    told = answer(member, *CREATE, manifest=cluster("second", member.id)).strip()
    assert told.endswith(message("second", member.name))
    assert 'clusters.clusterregistry.k8s.cisco.com "second" is forbidden' in told


CHANGES = {"replace": ("replace", "-f", "-"), "apply": ("apply", "-f", "-"), "server-side apply": APPLY}


@pytest.mark.parametrize("verb", CHANGES.values(), ids=CHANGES)
def test_a_peer_is_not_changed_to_our_id(member: Member, verb: tuple[str, ...]) -> None:
    assert message("peer", member.name) in answer(member, *verb, manifest=cluster("peer", member.id))
    assert member.get("cluster", "peer")["spec"]["clusterID"] == PEER_ID


@pytest.mark.parametrize("form", ["merge", "json"])
def test_a_peer_is_not_patched_to_our_id(member: Member, form: str) -> None:
    patches = {
        "merge": {"spec": {"clusterID": member.id}},
        "json": [{"op": "replace", "path": "/spec/clusterID", "value": member.id}],
    }
    told = answer(member, "patch", "cluster", "peer", f"--type={form}", "-p", json.dumps(patches[form]))
    assert message("peer", member.name) in told
    assert member.get("cluster", "peer")["spec"]["clusterID"] == PEER_ID


# --- Passing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster_id", [OTHER_ID, PEER_ID], ids=["another cluster", "a second name for a peer"])
def test_a_cluster_with_another_id_passes(member: Member, cluster_id: str) -> None:
    member.create(cluster("third", cluster_id))
    eventually(lambda: member.get("cluster", "third")["status"]["type"] == "Peer", what="its status is written, too")
    member.kubectl("patch", "cluster", "third", "--type=merge", "-p", json.dumps({"spec": {"clusterID": "changed"}}))
    member.kubectl("delete", "cluster", "third")


TOUCHES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an annotation": (
        {"metadata": {"annotations": {"example.com/note": "1"}}},
        {"metadata": {"annotations": {"example.com/note": None}}},
    ),
    "a label": (
        {"metadata": {"labels": {"example.com/note": "1"}}}, {"metadata": {"labels": {"example.com/note": None}}},
    ),
    "a finalizer": ({"metadata": {"finalizers": ["example.com/hold"]}}, {"metadata": {"finalizers": None}}),
    "an endpoint": (
        {"spec": {"kubernetesApiEndpoints": [{"clientNetwork": "vpn", "serverAddress": "10.0.0.1:6443"}]}},
        {"spec": {"kubernetesApiEndpoints": None}},
    ),
    "the reference to its Secret": (
        {"spec": {"authInfo": {"secretRef": {"namespace": "elsewhere"}}}},
        {"spec": {"authInfo": {"secretRef": {"namespace": NAMESPACE}}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("touch", "undo"), TOUCHES.values(), ids=TOUCHES)
def test_an_update_that_leaves_the_id_passes(member: Member, touch: dict[str, Any], undo: dict[str, Any]) -> None:
    for name in (member.name, "peer"):
        for patch in (touch, undo):
            member.kubectl("patch", "cluster", name, "--type=merge", "-p", json.dumps(patch))


def test_a_write_of_the_status_passes(member: Member) -> None:
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": {"message": "written by hand"}}))
    for name in (member.name, "peer"):
        member.kubectl("patch", "cluster", name, *patch)
        eventually(lambda name=name: member.get("cluster", name)["status"].get("message") != "written by hand")


@pytest.mark.parametrize(
    "verb", [("replace", "-f", "-"), ("apply", "-f", "-"), APPLY], ids=lambda verb: " ".join(verb[:2])
)
def test_a_cluster_is_put_back_as_it_is(member: Member, verb: tuple[str, ...]) -> None:
    for name in (member.name, "peer"):
        stored = member.get("cluster", name)
        del stored["metadata"]["managedFields"], stored["metadata"]["resourceVersion"]
        assert answer(member, *verb, manifest=stored) == ""


def test_of_the_local_cluster_itself_is_said_that_it_is_there(member: Member) -> None:
    """It is no second one."""
    assert "(AlreadyExists)" in answer(member, *CREATE, manifest=cluster(member.name, member.id))


def test_the_local_cluster_is_deleted_and_created_again_at_once(member: Member) -> None:
    """As `kubectl replace --force` and tools for backups do: nothing waits for the API server's caches."""
    for _ in range(5):
        stored = member.get("cluster", member.name)
        member.kubectl("replace", "--force", "-f", "-", stdin=json.dumps(cluster(member.name, member.id)))
        assert member.get("cluster", member.name)["metadata"]["uid"] != stored["metadata"]["uid"]
        eventually(lambda: is_local(member, member.name))
        eventually(lambda: message("second", member.name) in refusal(member))


def test_the_daemon_makes_its_cluster_again(member: Member) -> None:
    member.daemon.stop()
    member.kubectl("delete", "cluster", member.name)
    eventually(lambda: refusal(member) == "")
    member.daemon.start()
    member.daemon.wait_ready(timeout_s=180)
    eventually(lambda: is_local(member, member.name))
    eventually(lambda: refusal(member))


def test_after_a_rename_the_new_name_counts(member: Member) -> None:
    """The name in the values is still the old one, and then there is none."""
    assert message("renamed", member.name) in answer(member, *CREATE, manifest=cluster("renamed", member.id))
    member.kubectl("delete", "cluster", member.name)
    eventually(lambda: answer(member, *CREATE, manifest=cluster("renamed", member.id)) == "")
    eventually(lambda: is_local(member, "renamed"))
    eventually(lambda: message(member.name, "renamed") in refusal(member, member.name))
    upgrade(member, "localCluster.name=")
    eventually(lambda: message("second", "renamed") in refusal(member))
    upgrade(member, f"localCluster.name={member.name}")
    member.kubectl("delete", "cluster", "renamed")
    eventually(lambda: answer(member, *CREATE, manifest=cluster(member.name, member.id)) == "")
    eventually(lambda: is_local(member, member.name))
    eventually(lambda: refusal(member))


def test_while_the_local_cluster_is_disabled_no_cluster_is_refused(member: Member) -> None:
    annotation = "cluster-registry.k8s.cisco.com/cluster-disabled"
    member.kubectl("annotate", "cluster", member.name, f"{annotation}=yes")
    eventually(lambda: refusal(member) == "")
    member.kubectl("annotate", "cluster", member.name, f"{annotation}-")
    eventually(lambda: message("second", member.name) in refusal(member))


def test_without_a_local_cluster_every_cluster_passes_and_a_conflict_can_be_repaired(member: Member) -> None:
    """P1: both are in conflict until one is removed."""
    member.daemon.stop()
    steadily(lambda: refusal(member), for_s=2, what="it works while no daemon runs")
    member.kubectl("delete", "cluster", member.name)
    eventually(lambda: refusal(member) == "")
    both = (member.name, "second")
    member.create(*(cluster(name, member.id) for name in both))
    member.kubectl("patch", "cluster", "peer", "--type=merge", "-p", json.dumps({"spec": {"clusterID": member.id}}))
    member.kubectl("patch", "cluster", "peer", "--type=merge", "-p", json.dumps({"spec": {"clusterID": PEER_ID}}))
    member.daemon.start()
    for name in both:
        eventually(lambda name=name: member.condition("cluster", name, "LocalConflict")["status"] == "True")
        eventually(lambda name=name: is_local(member, name))
    eventually(lambda: refusal(member, "third"))
    for name in both:
        member.kubectl("annotate", "--overwrite", "cluster", name, "example.com/note=2")
    hold = json.dumps({"metadata": {"finalizers": ["example.com/hold"]}})
    member.kubectl("patch", "cluster", "second", "--type=merge", "-p", hold)
    member.kubectl("delete", "cluster", "second", "--wait=false")
    assert member.get("cluster", "second")["metadata"]["deletionTimestamp"]
    let_go = json.dumps({"metadata": {"finalizers": None}})
    member.kubectl("patch", "cluster", "second", "--type=merge", "-p", let_go)
    eventually(lambda: member.find("cluster", "second") is None)
    eventually(lambda: member.condition("cluster", member.name, "LocalConflict")["status"] == "False")


def test_a_conflict_is_repaired_by_another_id_which_does_not_come_back(member: Member) -> None:
    member.daemon.stop()
    member.kubectl("delete", "cluster", member.name)
    eventually(lambda: refusal(member) == "")
    member.create(*(cluster(name, member.id) for name in (member.name, "second")))
    member.daemon.start()
    eventually(lambda: is_local(member, "second") and is_local(member, member.name))
    member.kubectl("patch", "cluster", "second", "--type=merge", "-p", json.dumps({"spec": {"clusterID": OTHER_ID}}))
    eventually(lambda: member.condition("cluster", member.name, "LocalConflict")["status"] == "False")
    back = ("patch", "cluster", "second", "--type=merge", "-p", json.dumps({"spec": {"clusterID": member.id}}))
    assert message("second", member.name) in answer(member, *back)
    member.kubectl("delete", "cluster", "second")


# --- The policy itself, and the daemon ----------------------------------------------------------------------------


def test_the_api_server_finds_no_wrong_type_in_it(member: Member) -> None:
    def status() -> dict[str, Any]:
        found = member.get("validatingadmissionpolicy", POLICY)
        is_checked = found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
        return dict(found["status"]) if is_checked else {}

    assert eventually(status)["typeChecking"] == {}


def test_the_daemon_ignores_the_options_of_the_webhook_and_names_them_in_one_line(member: Member) -> None:
    """As a Deployment has them that another chart made."""
    options = {"ENABLED": "true", "NAME": "some-webhook", "PORT": "9443", "CERTIFICATE_DIRECTORY": "/tmp/webhooks"}
    names = {f"CLUSTER_VALIDATOR_WEBHOOK_{name}": value for name, value in options.items()}
    deployment = ("deployment/cluster-registry-controller", "-n", NAMESPACE)
    member.kubectl("set", "env", *deployment, *(f"{name}={value}" for name, value in names.items()))
    member.daemon.wait_ready(timeout_s=180)
    lines = [line for line in member.log().splitlines() if "CLUSTER_VALIDATOR_WEBHOOK" in line]
    assert len(lines) == 1
    assert f"{', '.join(names)} have no effect and are ignored" in lines[0]
    member.kubectl("set", "env", *deployment, *(f"{name}-" for name in names))
    member.daemon.wait_ready(timeout_s=180)


def test_of_two_charts_in_one_cluster_each_has_its_own_policy(member: Member) -> None:
    place = ("-n", "elsewhere")
    member.cluster.helm("install", "other", str(CHART), *place, "--create-namespace", "--set", ENABLED)
    names = member.kubectl("get", "validatingadmissionpolicy,validatingadmissionpolicybinding", "-o", "name").split()
    for name in (POLICY, "other-cluster-registry-controller-cluster-validator"):
        assert len([found for found in names if found.endswith(f"/{name}")]) == 2
    eventually(lambda: message("second", member.name) in refusal(member))
    assert refusal(member, "third", OTHER_ID) == ""
    member.cluster.helm("uninstall", "other", *place)
    steadily(lambda: message("second", member.name) in refusal(member), for_s=2)
    member.kubectl("delete", "namespace", "elsewhere")


def test_the_definition_may_go_and_come_back(member: Member) -> None:
    """All Clusters go with it; the policy takes up the new ones."""
    file = str(CRDS / "clusterregistry.k8s.cisco.com_clusters.yaml")
    member.daemon.stop()
    member.kubectl("delete", "-f", file)
    member.kubectl("apply", "--server-side", "-f", file)
    member.kubectl("wait", "--for=condition=Established", "-f", file, "--timeout=180s")
    member.daemon.start()
    member.daemon.wait_ready(timeout_s=180)
    eventually(lambda: is_local(member, member.name))
    eventually(lambda: message("second", member.name) in refusal(member))
    member.create(cluster("peer", PEER_ID))


def test_switched_off_it_leaves_nothing_behind_and_the_daemon_finds_the_conflict(member: Member) -> None:
    """P1: LocalConflict is there without the policy, and updates pass when it is there again."""
    upgrade(member, "webhooks.clusterValidator.enabled=false")
    for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding"):
        assert member.find(kind, POLICY) is None
    eventually(lambda: refusal(member) == "")
    member.create(cluster("second", member.id))
    for name in (member.name, "second"):
        eventually(lambda name=name: member.condition("cluster", name, "LocalConflict")["status"] == "True")
    upgrade(member, ENABLED)
    eventually(lambda: refusal(member, "third"))
    member.kubectl("annotate", "cluster", "second", "example.com/note=1")
    member.kubectl("delete", "cluster", "second")
    eventually(lambda: member.condition("cluster", member.name, "LocalConflict")["status"] == "False")
