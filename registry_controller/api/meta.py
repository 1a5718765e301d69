"""Identities of objects and kinds, and every label and annotation that the registry reads or writes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, NewType
from urllib.parse import quote

from registry_controller.api.errors import ProtocolError

ClusterUID = NewType("ClusterUID", str)
"""UID of a cluster's `kube-system` namespace: `spec.clusterID` of a Cluster."""

UID_LENGTH: Final = 64
"""The maximum length of a UID; a UUID has 36 characters."""

Manifest = Mapping[str, Any]
"""A Kubernetes object as decoded JSON. Read-only: a change is a new object."""

GROUP: Final = "clusterregistry.k8s.cisco.com"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

FIELD_MANAGER: Final = "registry-controller"

_NAMES: Final = "cluster-registry.k8s.cisco.com"

OWNER: Final = f"{_NAMES}/resource-owner-cluster-id"
"""Annotation and label of a copy: the ID of the owner. Only the annotation counts, because controllers of Kubernetes
copy labels to other objects (from a Service to its Endpoints)."""

PROVENANCE: Final = f"{_NAMES}/provenance"
"""Annotation of a copy: see `api.provenance`."""

ORIGINAL_GVK: Final = f"{_NAMES}/original-group-version-kind"
"""Annotation of a copy whose kind differs from its source: `Kind.group/version` of the source."""

ORIGINAL_NAME: Final = f"{_NAMES}/original-name"
ORIGINAL_NAMESPACE: Final = f"{_NAMES}/original-namespace"
"""Labels of a copy whose name or namespace differs from its source."""

CLUSTER_DISABLED: Final = f"{_NAMES}/cluster-disabled"
"""Annotation of a Cluster, any value: the daemon does not read this peer."""

SYNC_DISABLED: Final = f"{_NAMES}/resource-sync-disabled"
"""Annotation, any value. On a source: no new copies. On a copy, set by a person: the copy stays unchanged."""

TARGET_CLUSTERS: Final = f"{_NAMES}/target-clusters"
TARGET_CLUSTER_SELECTOR: Final = f"{_NAMES}/target-cluster-selector"
"""Annotations of a source: the names of the Clusters that copy it, and a label selector for them. A rule obeys them
with `objectTargets: Required`. A copy has none."""

ALLOW_DELETIONS: Final = f"{_NAMES}/allow-deletions"
"""Annotation of a rule or Cluster: allows the deletions that were halted at the time in its value."""

DELETION_LIMIT_PERCENT: Final = f"{_NAMES}/deletion-limit-percent"
"""Annotation of a Pod of the daemon, as the chart sets it: the deletion limit of that daemon, for other replicas."""

DELETED_RULES: Final = f"{_NAMES}/deleted-rules"
"""Annotation of a ClusterFeature: the rules that were deleted in that cluster, see `api.deleted_rules`."""

LEFT: Final = f"{_NAMES}/left-"
"""The beginning of the names of a tombstone's labels."""
LEFT_MEMBER: Final = f"{_NAMES}/left-member"
LEFT_MEMBERSHIP: Final = f"{_NAMES}/left-membership"
LEFT_REPORTED_BY: Final = f"{_NAMES}/left-said-by"
LEFT_UNTIL: Final = f"{_NAMES}/left-until"
LEFT_FORMAT: Final = f"{_NAMES}/left-format"
"""Labels of a tombstone, the ClusterFeature that reports that a member has left: see `api.tombstone`."""
LEFT_REVISION: Final = f"{_NAMES}/left-revision"
"""Label of a tombstone: the revision of the Cluster of the membership. Lower ones belong to earlier memberships."""

LEFT_ORDERED: Final = f"{_NAMES}/left-ordered"
"""Annotation of a tombstone here: `leave` was given here, or this cluster has read it at the member that leaves."""
LEFT_RETURNED: Final = f"{_NAMES}/left-returned"
"""Label of a tombstone, `"true"`: its member was back since then, with a later membership."""
LEFT_SECRET: Final = f"{_NAMES}/left-secret"
"""Annotation of a tombstone that a cluster creates for itself: the Secret with its published credentials."""

DAEMON: Final = f"{_NAMES}/daemon"
"""Annotation of the own Cluster: the version of the daemon there, and the formats that it writes, see `api.formats`."""

DAEMON_LEASE: Final = f"{_NAMES}/daemon-lease"
"""Label, `"true"`, of the Lease of each daemon."""
DAEMON_REPORT: Final = f"{_NAMES}/daemon-report"
"""Annotation of the Lease of a daemon: its report about itself, its peers and rules, see `api.daemon_report`."""

CORE_RESOURCE: Final = "cluster-registry-controller.k8s.cisco.com/core-sync-resource"
"""Label, `"true"`, of the rules and the feature that the daemon creates. They are never sources."""

GROUP_OWNER: Final = f"{_NAMES}/group-owner"
"""Annotation that an operator over a group gives to an object here: its owner at a member, see `group.ownership`."""

GO_LAST_APPLIED: Final = "banzaicloud.com/last-applied"
"""Annotation by the Go original: the whole object, compressed. The last writer of an object with it was Go."""

KUBECTL_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

READER_AGGREGATED: Final = f"{_NAMES}/reader-aggregated"
CONTROLLER_AGGREGATED: Final = f"{_NAMES}/controller-aggregated"
"""Labels, `"true"`, of ClusterRoles that grant peers to read here, and the daemon to write here."""

REGISTRY_SECRET_TYPE: Final = "k8s.cisco.com/cluster-registry-secret"
KUBECONFIG_KEY: Final = "kubeconfig"
CLUSTER_API_SECRET_TYPE: Final = "cluster.x-k8s.io/secret"
CLUSTER_API_SECRET_SUFFIX: Final = "-kubeconfig"
"""The end of the name of a Secret in which Cluster API keeps the kubeconfig of a cluster that it made."""
MULTICLUSTER_RUNTIME_LABEL: Final = "sigs.k8s.io/multicluster-runtime-kubeconfig"
"""Label, `"true"`, by which the kubeconfig provider of multicluster-runtime finds Secrets with a key `kubeconfig`."""


_PLAIN_SEGMENT: Final = re.compile(r"[A-Za-z0-9.:-]+")

_LAST_REVISION: Final = 2**63 - 1
"""etcd counts revisions in an int64."""


class GVK(NamedTuple):
    """A kind in one API version. The core group is the empty string."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """Return group and version in the form of an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}/{self.version}"


class GroupKind(NamedTuple):
    """A kind in any version, as `Role.rbac.authorization.k8s.io`; the kind `*` is every kind of the group."""

    group: str
    kind: str

    def covers(self, group: str, kind: str) -> bool:
        """Return whether a kind is this kind, or one of these kinds."""
        return self.group == group and self.kind in (kind, "*")

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GVR(NamedTuple):
    """The resource under which a kind is served, in one API version."""

    group: str
    version: str
    resource: str
    namespaced: bool
    has_status: bool = False
    has_scale: bool = False

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of an object, or of a subresource.

        It consists of checked parts, so that no name leads to another path; ProtocolError for a name that no object can
        have.
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{_path_segment(namespace)}"
        path += f"/{self.resource}"
        if name:
            path += f"/{_path_segment(name)}"
        return f"{path}/{subresource}" if subresource else path

    def object_path(self, key: ObjectKey, *, subresource: str = "") -> str:
        """Return the URL path of one object; ProtocolError for a name that no object can have."""
        if self.namespaced != bool(key.namespace):
            raise ProtocolError(f"{self} {key}: {'needs a' if self.namespaced else 'has no'} namespace")
        if not key.name:
            _path_segment(key.name)
        return self.path(key.namespace, key.name, subresource)

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}/{self.version}" if self.group else f"{self.resource}.{self.version}"


class ObjectKey(NamedTuple):
    """Namespace and name of an object. The namespace is empty for a cluster-scoped object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Target(NamedTuple):
    """The identity of a copy in this cluster, after mutations; the key of every reconciliation.

    It has no version, because a server serves the same object in several versions.
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
CLUSTER_KIND: Final = GroupKind(GROUP, CLUSTER.kind)
RULE_KIND: Final = GroupKind(GROUP, RULE.kind)
SECRET: Final = GVK("", "v1", "Secret")
NAMESPACE: Final = GVK("", "v1", "Namespace")
NODE: Final = GVK("", "v1", "Node")
POD: Final = GVK("", "v1", "Pod")

LEASE: Final = GVK("coordination.k8s.io", "v1", "Lease")

CLUSTERS: Final = GVR(GROUP, VERSION, "clusters", False, True)
RULES: Final = GVR(GROUP, VERSION, "resourcesyncrules", False, True)
FEATURES: Final = GVR(GROUP, VERSION, "clusterfeatures", False, True)
SECRETS: Final = GVR("", "v1", "secrets", True)
NAMESPACES: Final = GVR("", "v1", "namespaces", False, True)
NODES: Final = GVR("", "v1", "nodes", False, True)
LEASES: Final = GVR("coordination.k8s.io", "v1", "leases", True)


def metadata_of(manifest: Manifest) -> Manifest:
    """Return an object's metadata; empty if it has none."""
    found = manifest.get("metadata")
    return found if isinstance(found, Mapping) else {}


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    """Return an object's annotations; empty if it has none."""
    return metadata_of(manifest).get("annotations") or {}


def is_marked_as_copy(manifest: Manifest, *, at: ClusterUID) -> bool:
    """Return whether an object in the cluster `at` has the mark of another cluster; a name in that mark is not read."""
    return (annotations_of(manifest).get(OWNER) or at) != at


def labels_of(manifest: Manifest) -> Mapping[str, str]:
    """Return an object's labels; empty if it has none."""
    return metadata_of(manifest).get("labels") or {}


def condition_of(manifest: Manifest, type_: str) -> str:
    """Return the status of a condition of an object: True, False or Unknown; empty if the condition is missing."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return next((str(one.get("status", "")) for one in conditions if one.get("type") == type_), "")


def condition_since(manifest: Manifest, type_: str) -> datetime | None:
    """Return since when a condition is True; None if it is not, or has no time."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    times = [
        one.get("lastTransitionTime") for one in conditions if (one.get("type"), one.get("status")) == (type_, "True")
    ]
    try:
        since = datetime.fromisoformat(str(times[0] if times else ""))
    except ValueError:
        return None
    return since if since.tzinfo is not None else None


def revision(text: object) -> int:
    """Return a resourceVersion as a number; 0 if it is missing, not a number, or beyond the range of etcd.

    Since Kubernetes 1.35, resourceVersions of one resource are documented as comparable numbers (KEP-5504).
    """
    found = int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20 else 0
    return found if found <= _LAST_REVISION else 0


def cluster_id(text: str) -> ClusterUID:
    """Return a cluster's ID from an annotation.

    A value that is too long for an ID belongs to no cluster. It becomes a digest, so that different values stay
    different. The digest has 71 characters, so it is too long for an ID, too.
    """
    if len(text) <= UID_LENGTH:
        return ClusterUID(text)
    return ClusterUID("sha256:" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest())


def group_version(api_version: str) -> tuple[str, str]:
    """Split an object's `apiVersion` into group and version."""
    group, _, version = api_version.rpartition("/")
    return group, version


def _path_segment(name: str) -> str:
    """Return a name as one segment of a URL path; ProtocolError for a name that no object can have."""
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise ProtocolError(f"{json.dumps(name[:300], ensure_ascii=False)}: is not a valid name of an object")
    return name if _PLAIN_SEGMENT.fullmatch(name) else quote(name, safe=":")


def spell_allowance(kind: GVK, name: str, *, since: str) -> str:
    """Return the command that allows the deletions which a rule or a Cluster has halted since a moment."""
    resource = "rsr" if kind == RULE else f"clusters.{GROUP}"
    return f"kubectl annotate --overwrite {resource} {name} {ALLOW_DELETIONS}={since}"
