"""The kinds that the simulated API server serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from registry_controller.api.meta import ObjectKey


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind. Custom ones keep what they are given; `counts` says that changes of the content count as generations.

    It is stored in `version`. In `others`, and where it is not `installed` at all, it is served once its definition
    says so. There is one object a kind: they are told apart by identity, which is quick.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    has_status: bool = False
    custom: bool = False
    counts: bool = False
    fields: frozenset[str] = field(default=frozenset())
    others: tuple[str, ...] = ()
    installed: bool = True
    scales: bool = False

    @property
    def versions(self) -> tuple[str, ...]:
        return (self.version, *self.others)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def definition(self) -> ObjectKey:
        """Name its definition."""
        return ObjectKey("", f"{self.plural}.{self.group}")

    @property
    def tracks_generation(self) -> bool:
        return self.custom or self.counts

    def resource(self) -> list[Mapping[str, Any]]:
        """List the entries of discovery."""
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        entry = {"name": self.plural, "singularName": self.kind.lower(), "namespaced": self.namespaced}
        found = [{**entry, "kind": self.kind, "verbs": verbs}]
        if self.has_status:
            found.append(
                {**entry, "name": f"{self.plural}/status", "kind": self.kind, "verbs": ["get", "patch", "update"]}
            )
        if self.scales:
            found.append(
                {**entry, "name": f"{self.plural}/scale", "kind": "Scale", "verbs": ["get", "patch", "update"]}
            )
        return found


_OURS = "clusterregistry.k8s.cisco.com"

KINDS = (
    Kind("", "v1", "namespaces", "Namespace", namespaced=False, has_status=True),
    Kind("", "v1", "nodes", "Node", namespaced=False, has_status=True),
    Kind("", "v1", "configmaps", "ConfigMap"),
    Kind("", "v1", "secrets", "Secret", fields=frozenset({"type"})),
    Kind("", "v1", "serviceaccounts", "ServiceAccount"),
    Kind("", "v1", "events", "Event"),
    Kind(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
        namespaced=False, has_status=True, counts=True,
    ),
    Kind("apps", "v1", "deployments", "Deployment", has_status=True, counts=True, scales=True),
    Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False),
    Kind("batch", "v1", "jobs", "Job", has_status=True),
    Kind("coordination.k8s.io", "v1", "leases", "Lease"),
    Kind("", "v1", "pods", "Pod", has_status=True),
    Kind(_OURS, "v1alpha1", "clusters", "Cluster", namespaced=False, has_status=True, custom=True),
    Kind(_OURS, "v1alpha1", "resourcesyncrules", "ResourceSyncRule", namespaced=False, has_status=True, custom=True),
    Kind(_OURS, "v1alpha1", "clusterfeatures", "ClusterFeature", namespaced=False, has_status=True, custom=True),
    Kind("sim.example", "v1", "widgets", "Widget", has_status=True, custom=True, others=("v1beta1",)),
    Kind("sim.example", "v1", "gadgets", "Gadget", has_status=True, custom=True),
    Kind("sim.example", "v1", "regions", "Region", namespaced=False, has_status=True, custom=True),
    Kind("sim.example", "v1beta1", "relics", "Relic", has_status=True, custom=True, installed=False),
)  # fmt: skip

BY_KIND = {kind.kind: kind for kind in KINDS}
BY_PLURAL = {(kind.group, version, kind.plural): kind for kind in KINDS for version in kind.versions}
BY_DEFINITION = {kind.definition.name: kind for kind in KINDS if kind.custom}
