"""What becomes of Clusters and their credentials: states, words, healing, metadata."""

from __future__ import annotations

import base64
import copy
import json
import socket

import pytest
import yaml

from tests.e2e.group import (
    API,
    CONFIG_MAP,
    NAMESPACE,
    Member,
    config_map,
    eventually,
    in_sync,
    rule,
    steadily,
)
from tests.e2e.proxy import tls_front

DISABLED = "cluster-registry.k8s.cisco.com/cluster-disabled"
CANARY = "canary-9f2b71c4"
NETWORK = "lan"
STAYS = {"cluster-registry.k8s.cisco.com/resource-sync-disabled": "true"}

pytestmark = pytest.mark.group(
    2, prefix="state", canaries=(CANARY,), verb="apply", values=(f"controller.network.name={NETWORK}",)
)


def _state(member: Member, name: str) -> tuple[str, str]:
    status = member.get("cluster", name).get("status", {})
    return status.get("state", ""), status.get("message", "")


def _kubeconfig(member: Member, name: str) -> dict:
    data = member.get("-n", NAMESPACE, "secret", name)["data"]["kubeconfig"]
    return yaml.safe_load(base64.b64decode(data))


def _stranger(
    name: str, kubeconfig: object, *, cluster_id: str, kind: str = "k8s.cisco.com/cluster-registry-secret"
) -> list:
    """A Cluster with its Secret, as a person would carry it here; the other members are not to learn of it."""
    text = kubeconfig if isinstance(kubeconfig, str) else yaml.safe_dump(kubeconfig)
    return [
        {
            "apiVersion": "v1", "kind": "Secret", "type": kind,
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": STAYS},
            "data": {"kubeconfig": base64.b64encode(text.encode()).decode()},
        },
        {
            "apiVersion": API, "kind": "Cluster", "metadata": {"name": name, "annotations": STAYS},
            "spec": {"clusterID": cluster_id, "authInfo": {"secretRef": {"name": name, "namespace": NAMESPACE}}},
        },
    ]  # fmt: skip


def test_adoption_removes_the_credential_that_apply_left_in_an_annotation(members: list[Member]) -> None:
    """O7, A6: the swap by apply works, too, and leaves no kubeconfig in any annotation."""
    first, second = members
    for kind in (("-n", NAMESPACE, "secret"), ("cluster",)):
        found = first.get(*kind, second.name)
        assert "kubectl.kubernetes.io/last-applied-configuration" not in found["metadata"]["annotations"]
    token = _kubeconfig(second, second.name)["users"][0]["user"]["token"]
    encoded = base64.b64encode(token.encode()).decode()[:40]
    for member in members:
        for text in (member.log(), member.kubectl("get", "clusters,rsr,events", "-A", "-o", "yaml")):
            assert token not in text
            assert encoded not in text


def test_the_published_secret_is_what_the_contract_says(members: list[Member]) -> None:
    """P2, P3."""
    first, _ = members
    secret = first.get("-n", NAMESPACE, "secret", first.name)
    assert secret["type"] == "k8s.cisco.com/cluster-registry-secret"
    assert set(secret["data"]) == {"kubeconfig"}
    assert "ownerReferences" not in secret["metadata"]
    assert "finalizers" not in secret["metadata"]
    kubeconfig = _kubeconfig(first, first.name)
    assert kubeconfig["current-context"] == first.name
    assert kubeconfig["clusters"][0]["cluster"]["server"] == first.cluster.server
    assert kubeconfig["users"][0]["name"] == "cluster-registry-controller-reader"


def test_a_deleted_token_is_revoked_and_a_new_one_spreads(members: list[Member]) -> None:
    """P3, P7: the group goes on with the new credentials, by nobody's hand."""
    first, second = members
    before = _kubeconfig(second, second.name)["users"][0]["user"]["token"]
    tokens = json.loads(
        second.kubectl("get", "secrets", "-n", NAMESPACE, "-o", "json",
                       "--field-selector", "type=kubernetes.io/service-account-token")
    )["items"]  # fmt: skip
    for token in tokens:
        second.kubectl("delete", "secret", "-n", NAMESPACE, token["metadata"]["name"])
    eventually(lambda: _kubeconfig(second, second.name)["users"][0]["user"]["token"] != before)
    eventually(
        lambda: _kubeconfig(first, second.name) == _kubeconfig(second, second.name),
        what="the copy of the Secret",
    )  # fmt: skip
    in_sync(members)


@pytest.mark.parametrize("first_comes", ["Cluster", "Secret"])
def test_a_member_that_names_another_secret_is_read_without_a_break(members: list[Member], first_comes: str) -> None:
    """P7: its Cluster comes before the Secret that it names, which its daemon fills; or somebody makes that first."""
    first, second = members
    other = f"{second.name}-{first_comes.lower()}"
    if first_comes == "Secret":
        held = second.get("-n", NAMESPACE, "secret", second.name)
        info = {"name": other, "namespace": NAMESPACE}
        second.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": info, "type": held["type"], "data": held["data"]}
        )
    since = first.cluster.audit_offset()
    for name in (other, second.name):
        reference = {"spec": {"authInfo": {"secretRef": {"name": name}}}}
        second.kubectl("patch", "cluster", second.name, "--type=merge", "-p", json.dumps(reference))
        eventually(
            lambda name=name: _kubeconfig(first, name) == _kubeconfig(second, name), what="the Secret of the new name"
        )
        eventually(lambda: _state(first, second.name)[0] == "Ready")
        in_sync(members)
    said = [line["requestURI"] for line in first.cluster.audit(since=since) if line["verb"] == "delete"]
    assert not [path for path in said if path.partition("?")[0].endswith(f"/clusters/{second.name}")]


def test_a_disabled_peer_is_not_read(members: list[Member]) -> None:
    """P8, W5: until it is enabled again; the annotation speaks for this cluster alone."""
    first, second = members
    first.kubectl("annotate", "cluster", second.name, f"{DISABLED}=true")
    eventually(lambda: _state(first, second.name)[0] == "Disabled")
    assert DISABLED not in second.get("cluster", second.name)["metadata"].get("annotations", {})
    steadily(lambda: _state(first, second.name)[0] == "Disabled", for_s=2)
    first.kubectl("annotate", "cluster", second.name, f"{DISABLED}-")
    in_sync(members)


def test_bad_credentials_are_refused_in_words(members: list[Member]) -> None:
    """P4, P8: naming the field, never the value."""
    first, second = members
    good = _kubeconfig(second, second.name)
    entry = good["clusters"][0]
    server = entry["cluster"]
    table = {
        "exec": ({"users": [{"name": "u", "user": {"exec": {"command": "touch", "args": [CANARY]}}}]}, "exec"),
        "insecure": (
            {"clusters": [{**entry, "cluster": {**server, "insecure-skip-tls-verify": True}}]},
            "insecure",
        ),
        "password": ({"users": [{"name": "u", "user": {"username": "u", "password": CANARY}}]}, "password"),
        "http": ({"clusters": [{**entry, "cluster": {**server, "server": "http://127.0.0.1:1"}}]}, "server"),
        "garbage": (f"{{{{{CANARY}", "kubeconfig"),
    }
    for name, (change, word) in table.items():
        document = change if isinstance(change, str) else {**good, **change}
        first.create(*_stranger(f"bad-{name}", document, cluster_id=f"id-{name}"))
        state, message = eventually(lambda name=name: (found := _state(first, f"bad-{name}"))[0] and found, what=name)
        assert state == "InvalidAuthInfo", (name, message)
        assert word in message
        assert CANARY not in message
    for name in table:
        first.kubectl("delete", "cluster", f"bad-{name}")
        first.kubectl("delete", "-n", NAMESPACE, "secret", f"bad-{name}")


def test_missing_and_wrong_secrets_and_clusters_are_said(members: list[Member]) -> None:
    """P5, P8, P1: no secretRef, no Secret, another cluster behind the kubeconfig, an alias."""
    first, second = members
    good = _kubeconfig(second, second.name)
    without = {"apiVersion": API, "kind": "Cluster", "metadata": {"name": "without"}, "spec": {"clusterID": "w"}}
    first.create(without)
    eventually(lambda: _state(first, "without")[0] == "MissingAuthInfo")
    _, absent = _stranger("absent", good, cluster_id="absent-id")
    first.create(absent)
    eventually(lambda: _state(first, "absent")[0] == "InvalidAuthInfo")
    first.create(*_stranger("wrong", good, cluster_id="another-id"))
    state, message = eventually(lambda: (found := _state(first, "wrong"))[0] and found)
    assert state == "Failed"
    assert "another cluster" in message
    first.create(*_stranger("alias", good, cluster_id=second.id))
    eventually(lambda: second.name in _state(first, "alias")[1], what="an alias says what is read instead")
    assert _state(first, second.name)[0] == "Ready"
    for name in ("without", "absent", "wrong", "alias"):
        first.kubectl("delete", "cluster", name)
    first.kubectl("delete", "-n", NAMESPACE, "secret", "wrong", "alias")


def test_a_secret_of_another_type_or_with_two_masters_is_refused(members: list[Member]) -> None:
    """P8, O7: a Secret belongs to one Cluster, has one type, and what is wrong with it heals when it is mended."""
    first, second = members
    good = _kubeconfig(second, second.name)
    first.create(*_stranger("typed", good, cluster_id="typed-id", kind="Opaque"))
    state, message = eventually(lambda: (found := _state(first, "typed"))[0] and found)
    assert state == "InvalidAuthInfo"
    assert message.startswith(
        f"Secret {NAMESPACE}/typed of type k8s.cisco.com/cluster-registry-secret does not exist; "
    )
    first.kubectl("delete", "-n", NAMESPACE, "secret", "typed")
    secret, _ = _stranger("typed", good, cluster_id="typed-id")
    first.create(secret)
    eventually(lambda: "another cluster" in _state(first, "typed")[1], what="the mended Secret is used")
    _, rival = _stranger("rival", good, cluster_id="rival-id")
    rival["spec"]["authInfo"]["secretRef"]["name"] = "typed"
    first.create(rival)
    for name in ("typed", "rival"):
        message = eventually(lambda name=name: "rival" in (said := _state(first, name)[1]) and said, what=name)
        assert "typed" in message
        assert _state(first, name)[0] == "InvalidAuthInfo"
        assert first.condition("cluster", name, "Ready")["status"] == "False"
    first.kubectl("delete", "cluster", "rival")
    eventually(lambda: "another cluster" in _state(first, "typed")[1], what="its master is alone again")
    first.kubectl("delete", "cluster", "typed")
    first.kubectl("delete", "-n", NAMESPACE, "secret", "typed")
    in_sync(members)


def test_two_local_clusters_are_in_conflict_until_one_goes(members: list[Member]) -> None:
    """P1."""
    first, _ = members
    first.create(
        {"apiVersion": API, "kind": "Cluster", "metadata": {"name": "double"}, "spec": {"clusterID": first.id}}
    )
    for name in (first.name, "double"):
        eventually(lambda name=name: first.condition("cluster", name, "LocalConflict").get("status") == "True")
    first.kubectl("delete", "cluster", "double")
    eventually(lambda: first.condition("cluster", first.name, "LocalConflict").get("status") == "False")
    in_sync(members)


def test_metadata_is_read_from_the_nodes(members: list[Member]) -> None:
    """P10: it is read when a daemon starts, and again every few minutes."""
    first, second = members
    second.create(
        {
            "apiVersion": "v1", "kind": "Node", "spec": {"providerID": "kind://docker/second/node"},
            "metadata": {"name": "node", "labels": {"topology.kubernetes.io/region": "north"}},
        }
    )  # fmt: skip
    first.daemon.restart()
    found = eventually(
        lambda: (status := first.get("cluster", second.name)["status"]).get("provider") and status, within_s=40
    )
    assert found["provider"] == "kind"
    assert found["distribution"] == "KIND"
    assert found["locality"]["region"] == "north"


def test_wrong_credentials_for_a_silent_peer_are_put_right_when_it_is_back(members: list[Member]) -> None:
    """P7, O7: it is read over the way that worked before, and its own Secret is the right one."""
    first, second = members
    second.cluster.apiserver.stop()
    eventually(lambda: _state(first, second.name)[0] == "Failed")
    good = _kubeconfig(first, second.name)
    with socket.socket() as closed:  # bound, and never listening: whoever dials is refused
        closed.bind(("127.0.0.1", 0))
        bad = copy.deepcopy(good)
        bad["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{closed.getsockname()[1]}"
        encoded = base64.b64encode(yaml.safe_dump(bad).encode()).decode()
        patch = json.dumps({"data": {"kubeconfig": encoded}})
        first.kubectl("patch", "-n", NAMESPACE, "secret", second.name, "--type=merge", "-p", patch)
        steadily(lambda: _kubeconfig(first, second.name) == bad, what="nobody undoes it while the peer is silent")
        second.cluster.apiserver.start()
        second.cluster.apiserver.wait_ready(timeout_s=180)
        eventually(lambda: _kubeconfig(first, second.name) == good, what="the peer's own Secret")
        in_sync(members)


def test_a_peer_is_reached_by_the_endpoint_of_our_network(members: list[Member]) -> None:
    """P2, P5: the entry with our network's name and its CA beats what the kubeconfig says, which nobody could use."""
    first, second = members
    with tls_front(second.cluster) as front:
        ca = base64.b64encode(front.ca_pem).decode()
        endpoints = [
            {"clientNetwork": "elsewhere", "serverAddress": "127.0.0.1:2"},
            {"clientNetwork": NETWORK, "serverAddress": front.address, "caBundle": ca},
            {"serverAddress": "127.0.0.1:1"},
        ]
        patch = json.dumps({"spec": {"kubernetesApiEndpoints": endpoints}})
        second.kubectl("patch", "cluster", second.name, "--type=merge", "-p", patch)
        eventually(
            lambda: _kubeconfig(first, second.name)["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1",
            what="the Secret that nobody can reach, published and spread",
        )  # fmt: skip
        first.daemon.restart()
        first.daemon.wait_ready(timeout_s=180)
        first.apply(rule("by-network", CONFIG_MAP, {"match": [{"objectKey": {"name": "by-network"}}]}))
        second.apply(config_map("by-network", {"a": "1"}))
        eventually(lambda: first.find("cm", "by-network"))
        patch = '{"spec":{"kubernetesApiEndpoints":null}}'
        second.kubectl("patch", "cluster", second.name, "--type=merge", "-p", patch)
        eventually(
            lambda: "kubernetesApiEndpoints" not in first.get("cluster", second.name)["spec"],
            what="the way back, which spreads through the front",
        )  # fmt: skip
        # Both halves of it: the Cluster comes from the person, the Secret from the daemon, and either may be first.
        eventually(
            lambda: _kubeconfig(first, second.name)["clusters"][0]["cluster"]["server"] == second.cluster.server,
            what="the address in the Secret, which spreads through the front",
        )  # fmt: skip
        in_sync(members)
    in_sync(members)


def test_a_local_cluster_that_is_disabled_says_so(members: list[Member]) -> None:
    """P8, S4: our own Cluster is not Ready, and no more is said of it; the peers go on: the annotation speaks here."""
    first, second = members
    first.kubectl("annotate", "cluster", first.name, f"{DISABLED}=true")
    status = eventually(
        lambda: (found := first.get("cluster", first.name)["status"]).get("state") == "Disabled" and found
    )
    assert status["type"] == "Peer"
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [("Ready", "False")]
    assert "version" not in status
    steadily(lambda: _state(second, first.name)[0] == "Ready", for_s=2)
    first.kubectl("annotate", "cluster", first.name, f"{DISABLED}-")
    in_sync(members)


def test_a_local_cluster_that_is_deleted_is_made_again(members: list[Member]) -> None:
    """P2, O6: to delete it is no way to leave the group."""
    first, second = members
    before = first.get("cluster", first.name)["metadata"]["uid"]
    first.kubectl("delete", "cluster", first.name)
    made = eventually(lambda: first.find("cluster", first.name), what="it is made again")
    assert made["metadata"]["uid"] != before
    assert second.find("cluster", first.name) is not None
    in_sync(members)
