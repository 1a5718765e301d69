"""A member's own Cluster that is missing for a while, on real clusters. O6, P2, A1."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.credentials import is_refused, kubeconfig
from tests.e2e.group import (
    CONFIG_MAP,
    CRDS,
    NAMESPACE,
    Member,
    config_map,
    eventually,
    in_sync,
    joined_group,
    rule,
    steadily,
)

LABELS = {"region": "north"}
COUNT = 10
MISSING = "OwnClusterMissing"
DEFINITION = "clusters.clusterregistry.k8s.cisco.com"


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    with joined_group(2, prefix="own") as found:
        first, second = found
        match = {"match": [{"labels": [{"matchLabels": {"keep": "goes"}}]}]}
        first.apply(rule("goes", CONFIG_MAP, match, deletionPolicy="Delete"))
        names = [f"copied-{number}" for number in range(COUNT)]
        second.apply(*(config_map(name, {"at": second.name}, labels={"keep": "goes"}) for name in names))
        second.kubectl("label", "cluster", second.name, "region=north")
        eventually(lambda: len(copies(first)) == COUNT, what="copies")
        yield found


def copies(member: Member) -> dict[str, str]:
    """Return the uids of the copies, which tell whether one was made anew."""
    found = json.loads(member.kubectl("-n", "default", "get", "configmaps", "-l", "keep", "-o", "json"))["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


def own(member: Member) -> dict[str, Any]:
    return member.get("cluster", member.name)


def created_by_hand(cluster: dict[str, Any], *, labels: bool) -> str:
    info = {"name": cluster["metadata"]["name"], **({"labels": LABELS} if labels else {})}
    return json.dumps({**{key: cluster[key] for key in ("apiVersion", "kind", "spec")}, "metadata": info})


def check_as_before(members: list[Member], before: dict[str, str]) -> None:
    """Nothing is lost, and what changes at the owner arrives."""
    first, second = members
    in_sync(members)
    assert copies(first) == before
    assert first.find("-n", NAMESPACE, "secret", second.name) is not None
    value = str(time.monotonic())
    second.apply(config_map("copied-0", {"at": value}, labels={"keep": "goes"}))
    eventually(lambda: first.get("-n", "default", "configmap", "copied-0")["data"] == {"at": value}, what="news")
    eventually(lambda: not first.condition("cluster", second.name, MISSING), what="the condition has gone")


@pytest.mark.parametrize("labels", [True, False], ids=["with its labels", "without its labels"])
def test_an_own_cluster_that_is_replaced_loses_nothing(members: list[Member], labels: bool) -> None:
    """O6: deleted, and created again 0.3 s later, as `kubectl replace --force` does."""
    first, second = members
    before, cluster = copies(first), own(second)
    credentials = first.get("-n", NAMESPACE, "secret", second.name)["metadata"]["uid"]
    second.kubectl("delete", "cluster", second.name)
    time.sleep(0.3)
    second.kubectl("create", "-f", "-", stdin=created_by_hand(cluster, labels=labels))
    steadily(lambda: copies(first) == before, for_s=10.0, what="the copies stay")
    check_as_before(members, before)
    assert first.get("-n", NAMESPACE, "secret", second.name)["metadata"]["uid"] == credentials
    assert second.get("cluster", second.name)["metadata"].get("labels", {}) == (LABELS if labels else {})
    second.kubectl("label", "--overwrite", "cluster", second.name, "region=north")


def test_an_own_cluster_that_is_deleted_is_made_again_as_it_was(members: list[Member]) -> None:
    """P2, O6: also as it was edited at the last moment, and also after a restart."""
    first, second = members
    before, cluster = copies(first), own(second)
    second.kubectl("label", "--overwrite", "cluster", second.name, "last=word")
    second.kubectl("delete", "cluster", second.name)
    made = eventually(lambda: second.find("cluster", second.name), what="the Cluster again")
    assert made["metadata"]["labels"] == {**LABELS, "last": "word"}
    assert made["spec"] == cluster["spec"]
    check_as_before(members, before)

    second.daemon.stop()
    second.kubectl("delete", "cluster", second.name)
    second.daemon.start()
    made = eventually(lambda: second.find("cluster", second.name), what="the Cluster after a restart")
    assert made["metadata"]["labels"] == {**LABELS, "last": "word"}
    assert made["spec"] == cluster["spec"]
    check_as_before(members, before)


@pytest.mark.parametrize("away_s", [0.0, 20.0])
def test_a_reinstalled_definition_loses_nobody(members: list[Member], away_s: float) -> None:
    """A1, O6: all Clusters go with it, and all come again."""
    first, second = members
    before, labels = copies(first), own(second)["metadata"]["labels"]
    second.kubectl("delete", "crd", DEFINITION)
    time.sleep(away_s)
    assert copies(first) == before
    second.kubectl("create", "-f", str(CRDS / "clusterregistry.k8s.cisco.com_clusters.yaml"))
    eventually(lambda: second.find("cluster", second.name), what="the own Cluster")
    assert own(second)["metadata"]["labels"] == labels
    eventually(lambda: second.find("cluster", first.name), what="the peer's Cluster")
    check_as_before(members, before)


def test_a_definition_reinstalled_while_no_daemon_runs_loses_nobody(members: list[Member]) -> None:
    """A1, P2: the Secrets here lead to the members, and these show the Clusters."""
    first, second = members
    before, labels = copies(first), own(second)["metadata"]["labels"]
    second.daemon.stop()
    second.kubectl("delete", "crd", DEFINITION)
    second.kubectl("create", "-f", str(CRDS / "clusterregistry.k8s.cisco.com_clusters.yaml"))
    second.daemon.start()
    eventually(lambda: second.find("cluster", second.name), what="the own Cluster")
    assert own(second)["metadata"]["labels"] == labels
    check_as_before(members, before)


def test_a_daemons_namespace_that_was_deleted_needs_a_swap_and_says_so(members: list[Member], tmp_path: Path) -> None:
    """P2, O5: the Clusters and all copies stay; then the credentials of both sides are carried over."""
    first, second = members
    before, held = copies(first), tmp_path / "kubeconfig"
    held.write_bytes(kubeconfig(first, second))
    for member in members:
        member.daemon.stop()  # a watch outlives the token that opened it, and would bring the new credentials
    second.kubectl("delete", "namespace", NAMESPACE)
    second.install()
    eventually(lambda: is_refused(second, held), what="the token that is gone is refused")
    first.daemon.start()
    eventually(lambda: "by a new swap" in message(second, first.name), what="the member here needs a swap")
    eventually(lambda: "carry the Secret" in message(first, second.name), what="the other one needs it, too")
    assert copies(first) == before
    for giver, taker in ((first, second), (second, first)):
        found = giver.get("-n", NAMESPACE, "secret", giver.name)
        info = {"name": giver.name, "namespace": NAMESPACE}
        taker.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": info, "type": found["type"], "data": found["data"]}
        )
    check_as_before(members, before)


def message(member: Member, name: str) -> str:
    status = member.get("cluster", name)["status"]
    return str(status.get("message", "")) if status.get("state") != "Ready" else ""


def test_only_an_absence_that_lasts_is_a_departure_and_never_with_a_definition_that_is_going() -> None:
    """O6: Kubernetes lists a definition that is being deleted without the verb create; its objects go one by one."""
    values = ("controller.memberAbsenceSeconds=30", "controller.stabilizationWindowSeconds=30")
    with joined_group(2, prefix="going", values=values) as (first, second):
        second.daemon.stop()
        second.kubectl(
            "patch", "cluster", first.name, "--type=merge", "-p", _FINALIZERS.format('"test.example.com/held"')
        )
        second.kubectl("delete", "crd", DEFINITION, "--wait=false")
        eventually(lambda: second.find("cluster", second.name) is None, what="the own Cluster goes")
        eventually(lambda: reason(first, second.name) == "MissingForLong", what="the absence is seen, and lasts")
        steadily(lambda: first.find("cluster", second.name), for_s=15.0, what="nobody has left")
        second.kubectl("patch", "cluster", first.name, "--type=merge", "-p", _FINALIZERS.format(""))
        eventually(lambda: second.find("crd", DEFINITION) is None, what="the definition has gone")
        second.kubectl("create", "-f", str(CRDS / "clusterregistry.k8s.cisco.com_clusters.yaml"))
        second.daemon.start()
        in_sync([first, second])

        second.daemon.stop()
        second.kubectl("delete", "cluster", second.name)
        eventually(lambda: first.find("cluster", second.name) is None, what="the member has left")
        eventually(lambda: first.find("-n", NAMESPACE, "secret", second.name) is None, what="its credentials are gone")
        second.daemon.start()
        second.daemon.wait_ready(timeout_s=180)


_FINALIZERS = '{{"metadata":{{"finalizers":[{}]}}}}'


def reason(member: Member, name: str) -> str:
    return str(member.condition("cluster", name, MISSING).get("reason", ""))
