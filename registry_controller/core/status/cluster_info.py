"""Reads a cluster's metadata from its nodes: provider, distribution, versions and locality.

Law: the result does not depend on the order of the nodes. Fields without a value are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import Manifest

_CRI_SOCKET: Final = "kubeadm.alpha.kubernetes.io/cri-socket"
_OPENSHIFT: Final = "node.openshift.io/os_id"
_INTERSIGHT: Final = "iks.intersight.cisco.com/version"
_REGION: Final = "topology.kubernetes.io/region"
_ZONE: Final = "topology.kubernetes.io/zone"

_PROVIDERS: Final[Mapping[str, str]] = {
    "aws": "amazon",
    "azure": "azure",
    "gce": "google",
    "kind": "kind",
    "vsphere": "vsphere",
    # Not in the first release of the API. The cloud controller managers write these schemes:
    "digitalocean": "digitalocean",  # digitalocean/digitalocean-cloud-controller-manager, droplets.go
    "hcloud": "hetzner",  # hetznercloud/hcloud-cloud-controller-manager, docs on the provider ID
    "hrobot": "hetzner",  # the same, for dedicated servers
    "openstack": "openstack",  # kubernetes/cloud-provider-openstack, pkg/openstack/instancesv2.go
    "oci": "oracle",  # oracle/oci-cloud-controller-manager, ProviderName
    "ibm": "ibm",  # IBM Cloud Kubernetes Service: ibm://ACCOUNT///CLUSTER/WORKER
}

_MAX_TEXT_LENGTH: Final = 256
"""Characters of a text in a node; a label's value has 63 at most."""

_MAX_VALUES: Final = 64
"""Versions, regions or zones of one cluster."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The metadata in one node; empty texts are unknown. `problem` is why its providerID cannot be read."""

    name: str
    provider: str = ""
    distribution: str = ""
    kubelet: str = ""
    kube_proxy: str = ""
    region: str = ""
    zone: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _NodeTraits:
    provider: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    kubelet: str
    os_image: str

    def has_annotation(self, prefix: str) -> bool:
        return any(key.startswith(prefix) for key in self.annotations)


# The first match wins. The first four are younger than the API. They stand before EKS, because EKS is recognized only
# by labels and annotations that its nodes lack. The rest is in the order of the first release.
_DISTRIBUTIONS: Final[tuple[tuple[str, Callable[[_NodeTraits], bool]], ...]] = (
    # rancher/rke2 is built from k3s-io/k3s, whose annotations begin with the name of the program.
    ("RKE2", lambda node: node.has_annotation("rke2.io/") or "+rke2" in node.kubelet),
    ("TALOS", lambda node: node.os_image.startswith("Talos (")),  # siderolabs/talos: PRETTY_NAME in os-release
    ("K0S", lambda node: "+k0s" in node.kubelet),  # k0sproject/k0s: the suffix of its releases
    ("MICROK8S", lambda node: "microk8s.io/cluster" in node.labels),  # canonical/microk8s: kubelet's --node-labels
    (
        "EKS",
        lambda node: (
            node.provider == "amazon" and _CRI_SOCKET not in node.annotations and _OPENSHIFT not in node.labels
        ),
    ),
    ("PKE", lambda node: bool(node.labels.get("nodepool.banzaicloud.io/name") and node.annotations.get(_CRI_SOCKET))),
    ("GKE", lambda node: node.provider == "google" and bool(node.labels.get("cloud.google.com/gke-nodepool"))),
    ("AKS", lambda node: node.provider == "azure" and bool(node.labels.get("agentpool"))),
    ("KIND", lambda node: node.provider == "kind"),
    ("IKS", lambda node: node.provider == "cisco" and bool(node.labels.get(_INTERSIGHT))),
    ("OPENSHIFT", lambda node: bool(node.labels.get(_OPENSHIFT))),
    ("RKE", lambda node: node.has_annotation("rke.cattle.io/")),
    ("K3S", lambda node: node.has_annotation("k3s.io/")),
    # DigitalOcean's managed nodes carry their pool, as GKE's do.
    ("DOKS", lambda node: node.provider == "digitalocean" and "doks.digitalocean.com/node-pool" in node.labels),
)


def read_node(node: Manifest) -> NodeFacts:
    """Read a Node object; `combine_nodes` needs only the result."""
    labels = _read_texts(meta.labels_of(node))
    info = _read_mapping(_read_mapping(node.get("status")).get("nodeInfo"))
    name = _read_text(meta.metadata_of(node).get("name"))
    kubelet = _read_text(info.get("kubeletVersion"))
    try:
        provider = _read_provider(_read_text(_read_mapping(node.get("spec")).get("providerID")), labels=labels)
    except ValueError as error:
        return NodeFacts(name=name, problem=str(error))
    marks = _NodeTraits(
        provider, labels, _read_texts(meta.annotations_of(node)), kubelet, _read_text(info.get("osImage"))
    )
    return NodeFacts(
        name=name,
        provider=provider,
        distribution=next((distribution for distribution, fits in _DISTRIBUTIONS if fits(marks)), ""),
        kubelet=kubelet,
        kube_proxy=_read_text(info.get("kubeProxyVersion")),
        region=labels.get(_REGION, ""),
        zone=labels.get(_ZONE, ""),
    )


def combine_nodes(facts: Iterable[NodeFacts], *, server_version: str) -> Mapping[str, Any]:
    """Combine the nodes into the fields of a Cluster's status; unknown fields are missing.

    `server_version` is the API server's gitVersion. Raises InvalidObject for a providerID that cannot be read.
    """
    nodes = sorted(facts, key=lambda node: node.name)
    for node in nodes:
        if node.problem:
            raise InvalidObject(f"node {node.name}: spec.providerID", node.problem)
    kube_proxies = _list_distinct(node.kube_proxy for node in nodes)
    found = {
        "provider": next((node.provider for node in nodes if node.provider), ""),
        "distribution": next((node.distribution for node in nodes if node.distribution), ""),
        "version": kube_proxies[0] if kube_proxies else server_version,
        "kubeletVersions": _list_distinct(node.kubelet for node in nodes),
        "kubeProxyVersions": kube_proxies,
        "locality": _build_locality(nodes),
    }
    return {field: value for field, value in found.items() if value}


def _read_provider(provider_id: str, *, labels: Mapping[str, str]) -> str:
    """Read the provider from a URL's scheme; raise ValueError for a text that is not a URL in Go either.

    Only the scheme is checked: for domain-scoped projects, Google writes `gce://example.com:project/...`.
    """
    if _CONTROL.search(provider_id):
        raise ValueError("must not contain control characters")
    scheme = _SCHEME.match(provider_id)
    if scheme is None:
        if ":" in provider_id.partition("/")[0]:
            raise ValueError("must begin with a scheme, such as aws://")
        return ""
    provider = _PROVIDERS.get(scheme.group().lower(), "")
    return "cisco" if provider == "vsphere" and labels.get(_INTERSIGHT) else provider


def _build_locality(nodes: Iterable[NodeFacts]) -> Mapping[str, Any]:
    nodes = list(nodes)
    regions = _list_distinct(node.region for node in nodes)
    found = {
        "region": ", ".join(regions),
        "regions": regions,
        "zones": _list_distinct(node.zone for node in nodes),
    }
    return {field: value for field, value in found.items() if value}


def _list_distinct(values: Iterable[str]) -> list[str]:
    return sorted({value for value in values if value})[:_MAX_VALUES]


def _read_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_text(value: object) -> str:
    return value[:_MAX_TEXT_LENGTH] if isinstance(value, str) else ""


def _read_texts(value: Mapping[str, Any]) -> Mapping[str, str]:
    return {key: _read_text(text) for key, text in _read_mapping(value).items()}
