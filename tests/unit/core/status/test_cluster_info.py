"""P10: what the nodes say of their cluster."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.core.status.cluster_info import combine_nodes, read_node

CRI = "kubeadm.alpha.kubernetes.io/cri-socket"
SOCKET = {CRI: "/run/containerd/containerd.sock"}


def node(
    name: str = "n",
    *,
    provider_id: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    kubelet: str = "v1.32.1",
    kube_proxy: str = "",
    os_image: str = "",
) -> Mapping[str, Any]:
    info = {"kubeletVersion": kubelet, "kubeProxyVersion": kube_proxy, "osImage": os_image}
    return {
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"providerID": provider_id} if provider_id else {},
        "status": {"nodeInfo": info},
    }


def read(*nodes: Mapping[str, Any], server_version: str = "v1.32.9") -> Mapping[str, Any]:
    return combine_nodes((read_node(node) for node in nodes), server_version=server_version)


@pytest.mark.parametrize(
    ("provider_id", "provider"),
    [
        ("aws:///eu-west-1a/i-0123", "amazon"),
        ("azure:///subscriptions/x/y", "azure"),
        ("gce://project/zone/name", "google"),
        ("gce://example.com:project/zone/name", "google"),
        ("kind://docker/kind/kind-control-plane", "kind"),
        ("vsphere://4212-ab", "vsphere"),
        ("digitalocean://1234", "digitalocean"),
        ("hcloud://1234", "hetzner"),
        ("openstack:///6789", "openstack"),
        ("oci://ocid1.instance.oc1", "oracle"),
        ("ocid1.instance.oc1..aaa", None),
        ("ibm://account///cluster/worker", "ibm"),
        ("unheard://of", None),
        ("awsome://x", None),
        ("", None),
    ],
)
def test_the_scheme_of_the_provider_id_names_the_provider(provider_id: str, provider: str | None) -> None:
    assert read(node(provider_id=provider_id)).get("provider") == provider


def test_vsphere_under_intersight_is_cisco() -> None:
    labels = {"iks.intersight.cisco.com/version": "1"}
    found = read(node(provider_id="vsphere://1", labels=labels))
    assert (found["provider"], found["distribution"]) == ("cisco", "IKS")
    assert (
        read(node(provider_id="vsphere://1", labels={"iks.intersight.cisco.com/version": ""}))["provider"] == "vsphere"
    )


@pytest.mark.parametrize("provider_id", ["://x", "1aws:x", "a b:c", "aws://x\n"])
def test_a_provider_id_that_is_no_url_is_an_error_that_names_the_node(provider_id: str) -> None:
    with pytest.raises(InvalidObject, match=r"node bad: spec\.providerID") as caught:
        read(node("good", provider_id="aws:///x"), node("bad", provider_id=provider_id))
    assert provider_id not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "distribution"),
    [
        ({"provider_id": "aws:///x"}, "EKS"),
        ({"provider_id": "aws:///x", "annotations": {CRI: ""}}, None),
        ({"provider_id": "aws:///x", "labels": {"node.openshift.io/os_id": ""}}, None),
        ({"provider_id": "aws:///x", "labels": {"node.openshift.io/os_id": "rhcos"}}, "OPENSHIFT"),
        ({"labels": {"nodepool.banzaicloud.io/name": "p"}, "annotations": SOCKET}, "PKE"),
        ({"labels": {"nodepool.banzaicloud.io/name": "p"}}, None),
        ({"labels": {"nodepool.banzaicloud.io/name": ""}, "annotations": SOCKET}, None),
        ({"provider_id": "gce://p/z/n", "labels": {"cloud.google.com/gke-nodepool": "a"}}, "GKE"),
        ({"provider_id": "aws://p", "annotations": SOCKET, "labels": {"cloud.google.com/gke-nodepool": "a"}}, None),
        ({"provider_id": "azure:///s", "labels": {"agentpool": "a"}}, "AKS"),
        ({"provider_id": "azure:///s"}, None),
        ({"provider_id": "kind://docker/k/n"}, "KIND"),
        ({"annotations": {"rke.cattle.io/external-ip": "x"}}, "RKE"),
        ({"annotations": {"k3s.io/node-args": "[]"}}, "K3S"),
        ({"annotations": {"k3s.iox/node-args": "[]"}}, None),
        ({"provider_id": "aws:///x", "annotations": {"k3s.io/node-args": "[]"}}, "EKS"),
        ({"provider_id": "aws:///x", "annotations": {"rke2.io/node-args": "[]"}}, "RKE2"),
        ({"provider_id": "aws:///x", "os_image": "Talos (v1.9.1)"}, "TALOS"),
        ({"kubelet": "v1.31.2+k0s"}, "K0S"),
        ({"labels": {"microk8s.io/cluster": "true"}}, "MICROK8S"),
        ({"provider_id": "digitalocean://1", "labels": {"doks.digitalocean.com/node-pool": "p"}}, "DOKS"),
        ({}, None),
    ],
)
def test_marks_on_a_node_tell_the_distribution(changes: Mapping[str, Any], distribution: str | None) -> None:
    assert read(node(**changes)).get("distribution") == distribution


def test_versions_are_distinct_sorted_and_without_empties() -> None:
    found = read(
        node("b", kubelet="v1.31.0", kube_proxy="v1.31.0"),
        node("a", kubelet="v1.32.0", kube_proxy=""),
        node("c", kubelet="v1.31.0", kube_proxy="v1.30.0"),
    )
    assert found["kubeletVersions"] == ["v1.31.0", "v1.32.0"]
    assert found["kubeProxyVersions"] == ["v1.30.0", "v1.31.0"]
    assert found["version"] == "v1.30.0"


def test_nodes_that_report_no_kube_proxy_leave_the_version_to_the_api_server() -> None:
    found = read(node(kubelet="v1.34.0"))
    assert found["version"] == "v1.32.9"
    assert "kubeProxyVersions" not in found


def test_without_nodes_only_the_version_is_known() -> None:
    assert read() == {"version": "v1.32.9"}


def test_locality_joins_the_regions() -> None:
    region, zone = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
    found = read(
        node("a", labels={region: "us", zone: "us-1"}),
        node("b", labels={region: "eu", zone: "eu-1"}),
        node("c", labels={region: "eu"}),
    )
    assert found["locality"] == {"region": "eu, us", "regions": ["eu", "us"], "zones": ["eu-1", "us-1"]}


def test_zones_alone_are_a_locality_and_nothing_is_none() -> None:
    assert read(node(labels={"topology.kubernetes.io/zone": "z"}))["locality"] == {"zones": ["z"]}
    assert "locality" not in read(node())


def test_the_order_in_which_nodes_are_listed_says_nothing() -> None:
    nodes = [
        node("a", annotations=SOCKET),
        node("b", provider_id="gce://p/z/n", labels={"cloud.google.com/gke-nodepool": "x"}),
        node("c", provider_id="aws:///x", kube_proxy="v1.1.1"),
    ]
    found = [read(*order) for order in itertools.permutations(nodes)]
    assert all(each == found[0] for each in found)
    assert (found[0]["provider"], found[0]["distribution"]) == ("google", "GKE")


@pytest.mark.parametrize("broken", [{}, {"metadata": None, "spec": [], "status": {"nodeInfo": 3}}])
def test_a_node_without_the_usual_shape_says_nothing(broken: Mapping[str, Any]) -> None:
    assert combine_nodes([read_node(broken)], server_version="v1") == {"version": "v1"}


def test_what_a_strangers_nodes_say_is_bounded() -> None:
    """P7: a status of megabytes could not be written, here or by anybody else."""
    found = read(*(node(f"n{number}", kubelet=f"{number:04}" + "v" * 1000) for number in range(200)))
    assert len(found["kubeletVersions"]) == 64
    assert {len(version) for version in found["kubeletVersions"]} == {256}
