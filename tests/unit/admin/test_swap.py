"""The swap as a value: which Clusters and Secrets members lack of each other."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from registry_controller.admin.objects import key_of
from registry_controller.admin.swap import Action, Change, Membership, plan_swap, redacted, with_address
from registry_controller.api import meta
from registry_controller.api.errors import BadInput
from registry_controller.api.meta import ClusterUID, ObjectKey

NAMESPACE = "cluster-registry"


def cluster(name: str, uid: str, *, state: str = "Ready", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": meta.API_VERSION,
        "kind": "Cluster",
        "metadata": {"name": name, "uid": f"object-{name}", "resourceVersion": "7", **metadata},
        "spec": {"clusterID": uid, "authInfo": {"secretRef": {"name": name, "namespace": NAMESPACE}}},
        "status": {"state": state},
    }


def secret(name: str, kubeconfig: str = "ZmlsZQ==", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": "u", "resourceVersion": "9", **metadata},
        "type": meta.REGISTRY_SECRET_TYPE,
        "data": {"kubeconfig": kubeconfig},
    }


def fresh(*names: str) -> list[Membership]:
    """Return members that know nobody."""
    return [
        Membership(
            label=f"kind-{name}",
            cluster_id=ClusterUID(f"id-{name}"),
            own=cluster(name, f"id-{name}"),
            secret=secret(name),
            clusters=[cluster(name, f"id-{name}")],
            held={ObjectKey(NAMESPACE, name): secret(name)},
        )
        for name in names
    ]


def apply(members: list[Membership], changes: list[Change]) -> list[Membership]:
    """Return the members after the changes, as their daemons would find them."""
    found = list(members)
    for change in changes:
        at = found[change.at]
        if change.gvr == meta.SECRETS:
            found[change.at] = replace(at, held={**at.held, key_of(change.manifest): change.manifest})
        else:
            stored = {**change.manifest, "status": {"state": "Ready"}}
            found[change.at] = replace(at, clusters=[*at.clusters, stored])
    return found


def told(changes: Any) -> set[tuple[int, str]]:
    return {(change.at, change.what) for change in changes}


def test_two_fresh_members_swap_secrets_first() -> None:
    changes = plan_swap(fresh("a", "b"))
    assert told(changes) == {(0, "secret/b"), (0, "cluster/b"), (1, "secret/a"), (1, "cluster/a")}
    assert [change.gvr for change in changes] == [meta.SECRETS, meta.SECRETS, meta.CLUSTERS, meta.CLUSTERS]
    assert {change.action for change in changes} == {Action.CREATE}


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_swap_that_is_done_twice_changes_nothing(size: int) -> None:
    members = fresh(*"abcde"[:size])
    for direct in (True, False):
        changes = list(plan_swap(members, direct=direct))
        assert plan_swap(apply(members, changes), direct=direct) == []


def test_the_first_member_swaps_once_with_each_other_one() -> None:
    changes = plan_swap(fresh(*"abcde"))
    assert len(changes) == 4 * 4
    assert all(0 in (change.at, "abcde".index(key_of(change.manifest).name)) for change in changes)


def test_a_cluster_joins_a_group_by_one_swap() -> None:
    one, two, three = fresh("a", "b", "c")
    _, two, three = apply([one, two, three], [
        change for change in plan_swap([one, two, three], direct=True)
        if change.at in (1, 2) and key_of(change.manifest).name in "bc"
    ])  # fmt: skip
    assert told(plan_swap([one, two, three])) == {(0, "secret/b"), (0, "cluster/b"), (1, "secret/a"), (1, "cluster/a")}
    assert told(plan_swap([three, one, two])) == {(0, "secret/a"), (0, "cluster/a"), (1, "secret/c"), (1, "cluster/c")}


def test_what_a_broken_swap_left_out_is_added() -> None:
    members = fresh("a", "b")
    every = plan_swap(members)
    for count in range(len(every)):
        for done in itertools.combinations(every, count):
            rest = plan_swap(apply(members, list(done)))
            assert told(rest) == told(every) - told(done)


def test_the_objects_are_as_their_owner_published_them_without_identity_and_tools() -> None:
    one, two = fresh("a", "b")
    marks = {
        "labels": {"team": "x", meta.OWNER: "id-z"},
        "annotations": {meta.KUBECTL_LAST_APPLIED: "{}", "note": "y", meta.PROVENANCE: "{}"},
    }
    one = replace(one, own=cluster("a", "id-a", **marks), secret=secret("a", **marks))
    found = {change.what: change.manifest for change in plan_swap([one, two]) if change.at == 1}
    for manifest in found.values():
        info = meta.metadata_of(manifest)
        assert info["labels"] == {"team": "x"}
        assert info["annotations"] == {"note": "y"}
        assert not {"uid", "resourceVersion"} & set(info)
        assert "status" not in manifest
    assert found["secret/a"]["data"] == one.secret["data"]
    assert found["cluster/a"]["spec"] == one.own["spec"]


def test_a_secret_that_does_not_work_is_carried_over_again_and_keeps_its_marks() -> None:
    members = fresh("a", "b")
    members = apply(members, list(plan_swap(members)))
    key = ObjectKey(NAMESPACE, "a")
    old = secret("a", "b2xk", annotations={meta.PROVENANCE: "mark"})
    members[1] = replace(members[1], held={**members[1].held, key: old})
    assert plan_swap(members) == []  # it is Ready: sync brings the new one
    failed = [cluster("a", "id-a", state="Failed") if key_of(one).name == "a" else one for one in members[1].clusters]
    members[1] = replace(members[1], clusters=failed)
    (change,) = plan_swap(members)
    assert (change.at, change.action, change.what) == (1, Action.UPDATE, "secret/a")
    assert change.manifest == {**old, "data": members[0].secret["data"]}


def test_names_in_conflict_are_refused() -> None:
    one, two = fresh("a", "b")
    same = replace(two, own=cluster("a", "id-b"))
    with pytest.raises(BadInput, match="both clusters have the name a"):
        plan_swap([one, same])
    rebuilt = replace(two, clusters=[*two.clusters, cluster("a", "id-of-before")])
    with pytest.raises(BadInput, match="has a Cluster a with the ID id-of-before"):
        plan_swap([one, rebuilt])
    with pytest.raises(BadInput, match="both Clusters name the Secret cluster-registry/a"):
        plan_swap([one, replace(two, secret=secret("a"))])


def test_an_address_replaces_the_first_endpoint_without_a_network() -> None:
    own = cluster("a", "id-a")
    first = with_address(own, address="https://a:6443", ca_bundle="")
    assert first is not None
    assert first["spec"]["kubernetesApiEndpoints"] == [{"serverAddress": "https://a:6443"}]
    assert with_address(first, address="https://a:6443", ca_bundle="") is None
    vpn = {"clientNetwork": "vpn", "serverAddress": "10.0.0.1"}
    held = {**own, "spec": {**own["spec"], "kubernetesApiEndpoints": [vpn, {"serverAddress": "b", "caBundle": "x"}]}}
    changed = with_address(held, address="https://a", ca_bundle="")
    assert changed is not None
    assert changed["spec"]["kubernetesApiEndpoints"] == [vpn, {"serverAddress": "https://a", "caBundle": "x"}]
    assert changed["metadata"] == own["metadata"]


def test_redacted_secrets_show_no_data_and_are_refused_by_kubectl() -> None:
    shown = redacted(secret("a"))
    assert shown["data"] == {"kubeconfig": "<redacted>"}  # no base64: an API server refuses it
    assert redacted(cluster("a", "x")) == cluster("a", "x")
    applied = secret("a")
    again = {meta.KUBECTL_LAST_APPLIED: "the data again", "kapp.k14s.io/original": "and again"}
    applied["metadata"]["annotations"] = {**again, meta.OWNER: "kept"}
    assert redacted(applied)["metadata"]["annotations"] == {"kapp.k14s.io/original": "<redacted>", meta.OWNER: "kept"}
