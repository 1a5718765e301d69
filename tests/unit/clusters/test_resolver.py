"""The Cluster object that each cluster is read through, and its credentials. P1, P3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.clusters.clones import CloneState
from registry_controller.clusters.resolver import (
    Resolution,
    ResolvedCluster,
    ResolverInputs,
    resolve_clusters,
    sort_by_id,
)
from registry_controller.kube.kubeconfig import Credentials
from tests.unit.clusters.builders import LOCAL, NAMESPACE, cluster, credentials

B = ClusterUID("id-b")


def resolve(
    *clusters: Cluster,
    found: Mapping[str, Credentials | str] | None = None,
    clones: CloneState | None = None,
    network: str = "",
    of_cluster_api: frozenset[str] = frozenset(),
) -> Resolution:
    """Resolve Clusters; by default each Secret has credentials for a server with the Secret's name."""
    names = {cluster.secret.name for cluster in clusters if cluster.secret}
    by_name = {name: credentials(name) for name in names} if found is None else found
    return resolve_clusters(
        ResolverInputs(
            local=LOCAL,
            network_name=network,
            clusters=sort_by_id(clusters),
            credentials={ObjectKey(NAMESPACE, name): value for name, value in by_name.items()},
            clones=clones or CloneState(),
            of_cluster_api=frozenset(ObjectKey(NAMESPACE, name) for name in of_cluster_api),
        )
    )


def reasons(resolved: ResolvedCluster) -> dict[str, object]:
    """Return the fields that are set, apart from the Cluster."""
    fields = ("credentials", "auth_problem", "missing_auth", "disabled", "alias_of", "conflict", "waiting")
    return {field: value for field in fields if (value := getattr(resolved, field))}


DISABLED = {"metadata": {"annotations": {meta.CLUSTER_DISABLED: "true"}}}
ENDPOINTS = [
    {"serverAddress": "https://anywhere.test"},
    {"clientNetwork": "inside", "serverAddress": "https://inside.test"},
]


@pytest.mark.parametrize(
    ("options", "found", "result"),
    [
        ({}, None, {"credentials": credentials("b")}),
        ({}, {}, {"waiting": True}),
        ({}, {"b": "Secret registry/b: broken"}, {"auth_problem": "Secret registry/b: broken"}),
        ({"secret": None}, None, {"missing_auth": True}),
        (DISABLED, None, {"disabled": True}),
        (DISABLED, {}, {"disabled": True}),
    ],
    ids=[
        "credentials",
        "Secret not listed yet",
        "broken Secret",
        "no Secret named",
        "disabled",
        "disabled and not listed",
    ],
)
def test_p1_one_cluster_is_read_or_has_one_reason(
    options: dict[str, Any], found: Mapping[str, Credentials | str] | None, result: dict[str, object]
) -> None:
    resolution = resolve(cluster("b", **options), found=found)
    assert reasons(resolution.clusters["b"]) == result
    assert not resolution.clone_probes


@pytest.mark.parametrize(("network", "server"), [("", "anywhere"), ("inside", "inside"), ("other", "anywhere")])
def test_p3_an_endpoint_for_our_network_replaces_the_server(network: str, server: str) -> None:
    found = cluster("b", spec={"kubernetesApiEndpoints": ENDPOINTS})
    made = resolve(found, network=network).clusters["b"].credentials
    assert made is not None
    assert made.server == f"https://{server}.test"


def test_an_endpoint_that_cannot_be_used_is_a_problem_with_the_credentials() -> None:
    resolved = resolve(cluster("b", spec={"kubernetesApiEndpoints": [{"serverAddress": "not an address"}]})).clusters[
        "b"
    ]
    assert resolved.credentials is None
    assert "serverAddress" in resolved.auth_problem
    assert resolved.ways == (credentials("b"),)


def test_p7_the_address_in_the_secret_is_another_way_than_the_endpoint() -> None:
    resolved = resolve(cluster("b", spec={"kubernetesApiEndpoints": ENDPOINTS})).clusters["b"]
    assert [way.server for way in resolved.ways] == ["https://anywhere.test", credentials("b").server]


def test_o7_a_secret_that_several_members_name_is_used_for_none() -> None:
    resolution = resolve(cluster("b", secret="s"), cluster("c", secret="s"))
    problem = "Secret registry/s is named by the Clusters b, c: each needs one of its own"
    assert not any(found.ways for found in resolution.clusters.values())
    assert {name: reasons(found) for name, found in resolution.clusters.items()} == {
        "b": {"auth_problem": problem},
        "c": {"auth_problem": problem},
    }


def same(*names: str, **more: dict[str, Any]) -> list[Cluster]:
    """Build Clusters of one ID; `more` has fields of some, by name."""
    return [cluster(name, cluster_id="id-b", **more.get(name, {})) for name in names]


OLD = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
NEW = {"metadata": {"creationTimestamp": "2026-01-02T00:00:00Z"}}


@pytest.mark.parametrize(
    ("fields", "own_names", "read"),
    [
        ({}, (), "b"),
        ({"b": NEW, "c": OLD}, (), "c"),
        ({"b": DISABLED}, (), "c"),
        ({"b": {"secret": None}}, (), "c"),
        ({"b": OLD, "c": NEW}, ("c",), "c"),
        ({"b": DISABLED}, ("b",), "b"),
    ],
    ids=["by name", "the older", "not the disabled", "not without a Secret", "its own name", "its own name, disabled"],
)
def test_p1_of_several_clusters_of_an_id_one_is_read_and_the_others_are_its_aliases(
    fields: dict[str, dict[str, Any]], own_names: tuple[str, ...], read: str
) -> None:
    clones = CloneState(own_names={B: frozenset(own_names)})
    resolved = resolve(*same("b", "c", **fields), clones=clones).clusters
    alias = ({"b", "c"} - {read}).pop()
    assert not resolved[read].alias_of
    assert (resolved[alias].alias_of, resolved[alias].credentials) == (read, None)


def test_p1_the_cluster_that_was_there_first_is_read_whatever_the_clock_says() -> None:
    """A daemon that starts knows it by its status."""
    clones = CloneState(first={B: "uid-b"})
    resolved = resolve(*same("b", "c", b=NEW, c=OLD), clones=clones).clusters
    assert (resolved["b"].alias_of, resolved["c"].alias_of) == ("", "b")
    was_read = {**NEW, "status": {"version": "v1.36.1"}}
    clusters = same("b", "c", b=was_read, c=OLD)
    assert CloneState().updated({B: clusters}, {}, {}).first == {B: "uid-b"}


def test_p1_a_copy_of_the_members_own_cluster_comes_before_an_older_one_that_was_made_here() -> None:
    """It was made again, and no other one: it is younger, and has the member's name."""
    read = {"status": {"version": "v1.36.1"}}
    own = {"metadata": {**NEW["metadata"], "annotations": {meta.OWNER: "id-b"}}}
    clusters = same("b", "c", b=own | read, c=OLD | read)
    assert CloneState().updated({B: clusters}, {}, {}).first == {B: "uid-b"}
    assert CloneState().updated({B: same("b", "c", b=own, c=OLD | read)}, {}, {}).first == {B: "uid-c"}, (
        "as it was read"
    )


@pytest.mark.parametrize(("own_names", "read"), [((), "b"), (("x",), "c"), (("c",), "c")], ids=["no", "other", "its"])
def test_p8_a_disabled_cluster_that_was_there_first_is_not_read_under_another_name_while_nothing_has_answered(
    own_names: tuple[str, ...], read: str
) -> None:
    """Otherwise a restart would read the cluster, and templates would show its other name."""
    clones = CloneState(own_names={B: frozenset(own_names)}, first={B: "uid-b"})
    resolved = resolve(*same("b", "c", b=DISABLED), clones=clones).clusters
    assert not resolved[read].alias_of


def test_p1_several_clusters_of_an_id_are_probed_for_clones_with_all_usable_credentials() -> None:
    clusters = [*same("b", "c", "d", "e", c={"secret": None}, d=DISABLED), cluster("alone")]
    probes = resolve(*clusters).clone_probes
    assert probes == {B: {"uid-b": credentials("b"), "uid-e": credentials("e")}}


def test_p1_clones_are_in_conflict_and_none_of_their_clusters_is_read() -> None:
    state = CloneState(clones={B: frozenset({"uid-b", "uid-c"})})
    resolution = resolve(*same("b", "c", "d"), clones=state)
    words = "two API servers have the ID id-b, as b, c: one is a clone; delete one of these Clusters"
    assert {name: reasons(found) for name, found in resolution.clusters.items()} == {
        name: {"conflict": words} for name in ("b", "c", "d")
    }
    assert set(resolution.clone_probes[B]) == {"uid-b", "uid-c", "uid-d"}


def test_the_local_cluster_needs_no_credentials_and_two_of_them_are_in_conflict() -> None:
    one, two = (cluster(name, cluster_id=LOCAL) for name in ("one", "two"))
    assert reasons(resolve(one, found={}).clusters["one"]) == {}
    words = "Clusters one, two all have this cluster's ID: keep one, delete the rest"
    resolution = resolve(two, one)
    assert {name: reasons(found) for name, found in resolution.clusters.items()} == {
        "one": {"conflict": words},
        "two": {"conflict": words},
    }
    assert not resolution.clone_probes


COPIED = {"metadata": {"annotations": {meta.OWNER: "id-b"}}}


def test_a_cluster_that_was_made_here_may_name_a_secret_of_cluster_api() -> None:
    found = resolve(cluster("b", secret="b-kubeconfig"), of_cluster_api=frozenset({"b-kubeconfig"}))
    assert reasons(found.clusters["b"]) == {"credentials": credentials("b-kubeconfig")}


def test_a_copied_cluster_is_never_read_with_a_secret_of_cluster_api() -> None:
    """Another member decides on the fields of a copied Cluster: it could send an administrator's token anywhere."""
    named = cluster("b", secret="b-kubeconfig", spec={"kubernetesApiEndpoints": ENDPOINTS}, **COPIED)
    found = resolve(named, of_cluster_api=frozenset({"b-kubeconfig"}))
    assert found.clusters["b"].ways == ()
    assert "only a Cluster that was made in this cluster may name it" in found.clusters["b"].auth_problem
    alias = resolve(
        cluster("b", secret="b-kubeconfig", **COPIED),
        cluster("c", cluster_id="id-b", secret="b-kubeconfig", **COPIED),
        of_cluster_api=frozenset({"b-kubeconfig"}),
    )
    assert alias.clone_probes == {}
    assert not any(resolved.ways for resolved in alias.clusters.values())
