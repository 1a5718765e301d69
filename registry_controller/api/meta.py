"""Identities of objects, and every label and annotation that the registry reads or writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NewType

ClusterUID = NewType("ClusterUID", str)
"""UID of a cluster's `kube-system` namespace: the `clusterID` of the contract."""

UID_LENGTH: Final = 64
"""The longest uid that is taken for one; a UUID has 36 characters."""

Manifest = Mapping[str, Any]
"""A Kubernetes object as decoded JSON. Read only: what is changed is built anew."""

GROUP: Final = "clusterregistry.k8s.cisco.com"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

FIELD_MANAGER: Final = "registry-controller"

_NAMES: Final = "cluster-registry.k8s.cisco.com"

OWNER: Final = f"{_NAMES}/resource-owner-cluster-id"
"""Annotation and label of a copy: where the object was born. Only the annotation decides, because
Kubernetes' own controllers pass labels on (a Service's to its Endpoints)."""

PROVENANCE: Final = f"{_NAMES}/provenance"
"""Annotation of a copy: see `api.provenance`."""

ORIGINAL_GVK: Final = f"{_NAMES}/original-group-version-kind"
"""Annotation of a copy whose kind was mutated: `Kind.group/version` of the source."""

ORIGINAL_NAME: Final = f"{_NAMES}/original-name"
ORIGINAL_NAMESPACE: Final = f"{_NAMES}/original-namespace"
"""Labels of a copy whose name or namespace was mutated."""

CLUSTER_DISABLED: Final = f"{_NAMES}/cluster-disabled"
"""Annotation of a Cluster, any value: do not read this peer."""

SYNC_DISABLED: Final = f"{_NAMES}/resource-sync-disabled"
"""Annotation, any value: on a source, make no new copies; set by hand on a copy, leave the copy alone."""

ALLOW_DELETIONS: Final = f"{_NAMES}/allow-deletions"
"""Annotation of a rule: lifts its delete brake for the moment that it names."""

LEFT_MEMBER: Final = f"{_NAMES}/left-member"
LEFT_MEMBERSHIP: Final = f"{_NAMES}/left-membership"
LEFT_SAID_BY: Final = f"{_NAMES}/left-said-by"
LEFT_UNTIL: Final = f"{_NAMES}/left-until"
"""Labels of a ClusterFeature that says that a member has left: see `api.tombstone`."""

LEFT_SECRET: Final = f"{_NAMES}/left-secret"
"""Annotation of the one that a cluster makes of itself: the Secret in which it had published its credentials."""

CORE_RESOURCE: Final = "cluster-registry-controller.k8s.cisco.com/core-sync-resource"
"""Label, `"true"`: the rules and the feature that the daemon makes itself. Never a source."""

GO_LAST_APPLIED: Final = "banzaicloud.com/last-applied"
"""Annotation by the Go original: a zip of the whole object. Who has it was last written by Go."""

KUBECTL_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

READER_AGGREGATED: Final = f"{_NAMES}/reader-aggregated"
CONTROLLER_AGGREGATED: Final = f"{_NAMES}/controller-aggregated"
"""Labels of ClusterRoles, `"true"`: what peers may read here, and what the daemon may write here."""

REGISTRY_SECRET_TYPE: Final = "k8s.cisco.com/cluster-registry-secret"
KUBECONFIG_KEY: Final = "kubeconfig"


_LAST_REVISION: Final = 2**63 - 1
"""etcd counts in an int64."""


class GVK(NamedTuple):
    """A kind as one API version serves it. The core group is the empty string."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """Spell group and version as an object's `apiVersion` does."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}/{self.version}"


class GroupKind(NamedTuple):
    """A kind in any version, or with `*` every kind of a group: `Secret`, `Role.rbac.authorization.k8s.io`."""

    group: str
    kind: str

    def covers(self, group: str, kind: str) -> bool:
        """Say whether a kind is meant."""
        return self.group == group and self.kind in (kind, "*")

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GVR(NamedTuple):
    """Where a kind is served: the plural resource, and whether its objects live in namespaces."""

    group: str
    version: str
    resource: str
    namespaced: bool
    has_status: bool = False

    @property
    def prefix(self) -> str:
        """Spell the URL path of the API version, `/api/v1` or `/apis/GROUP/VERSION`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Spell the URL path of the collection, of one object, or of its subresource."""
        path = self.prefix
        if self.namespaced and namespace:
            path += f"/namespaces/{namespace}"
        path += f"/{self.resource}"
        if name:
            path += f"/{name}"
        if subresource:
            path += f"/{subresource}"
        return path

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}/{self.version}" if self.group else f"{self.resource}.{self.version}"


class ObjectKey(NamedTuple):
    """Namespace (empty for cluster-scoped objects) and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Target(NamedTuple):
    """What a source gets here after mutations; the key of every reconcile.

    The version is left out on purpose: one object is served in several versions.
    """

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.key}"


CLUSTER: Final = GVK(GROUP, VERSION, "Cluster")
RULE: Final = GVK(GROUP, VERSION, "ResourceSyncRule")
FEATURE: Final = GVK(GROUP, VERSION, "ClusterFeature")
SECRET: Final = GVK("", "v1", "Secret")
NAMESPACE: Final = GVK("", "v1", "Namespace")
NODE: Final = GVK("", "v1", "Node")
POD: Final = GVK("", "v1", "Pod")

CLUSTERS: Final = GVR(GROUP, VERSION, "clusters", False, True)
RULES: Final = GVR(GROUP, VERSION, "resourcesyncrules", False, True)
FEATURES: Final = GVR(GROUP, VERSION, "clusterfeatures", False, True)
SECRETS: Final = GVR("", "v1", "secrets", True)
NAMESPACES: Final = GVR("", "v1", "namespaces", False, True)
NODES: Final = GVR("", "v1", "nodes", False, True)


def metadata_of(manifest: Manifest) -> Manifest:
    """Read an object's metadata; an empty mapping when there is none."""
    found = manifest.get("metadata")
    return found if isinstance(found, Mapping) else {}


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    """Read an object's annotations; an empty mapping when there are none."""
    return metadata_of(manifest).get("annotations") or {}


def labels_of(manifest: Manifest) -> Mapping[str, str]:
    """Read an object's labels; an empty mapping when there are none."""
    return metadata_of(manifest).get("labels") or {}


def condition_of(manifest: Manifest, type_: str) -> str:
    """Read the status of one condition of an object: True, False or Unknown; empty when it has none."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return next((str(one.get("status", "")) for one in conditions if one.get("type") == type_), "")


def revision(text: object) -> int:
    """Read a resourceVersion as the number that it is; 0 for one that is missing, no number, or beyond etcd's.

    Kubernetes documents resourceVersions of one resource as comparable numbers since 1.35 (KEP-5504).
    """
    found = int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20 else 0
    return found if found <= _LAST_REVISION else 0


def cluster_id(text: str) -> ClusterUID:
    """Read a cluster's ID as it stands in an annotation; what is too long for one is nobody's, and stays apart.

    For it stands a digest of 71 characters, which is too long, too.
    """
    if len(text) <= UID_LENGTH:
        return ClusterUID(text)
    return ClusterUID("sha256:" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest())


def group_version(api_version: str) -> tuple[str, str]:
    """Split an object's `apiVersion` into group and version."""
    group, _, version = api_version.rpartition("/")
    return group, version
