"""The fields of built-in kinds that every cluster sets itself: they are never copied, and are no drift in a copy.

A path is a tuple of keys; `*` is any element of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.api.meta import Manifest
from registry_controller.core.mutation.left_fields import LeftTracker

Path = tuple[str, ...]
"""Keys from the object down; an element of a list is `*`."""

_JOB_LABELS: Final = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)

LOCAL_FIELDS: Final[Mapping[tuple[str, str], frozenset[Path]]] = {
    ("", "Service"): frozenset(
        (
            ("spec", "clusterIP"),
            ("spec", "clusterIPs"),
            ("spec", "ipFamilies"),
            ("spec", "healthCheckNodePort"),
            ("spec", "ports", "*", "nodePort"),
        )
    ),
    ("", "PersistentVolumeClaim"): frozenset((("spec", "volumeName"),)),
    ("", "PersistentVolume"): frozenset((("spec", "claimRef", "uid"), ("spec", "claimRef", "resourceVersion"))),
    ("", "Pod"): frozenset((("spec", "nodeName"),)),
    ("", "Namespace"): frozenset((("spec", "finalizers"),)),
    ("", "ServiceAccount"): frozenset((("secrets",),)),
    ("batch", "Job"): frozenset(
        (
            ("spec", "selector"),
            *(("metadata", "labels", label) for label in _JOB_LABELS),
            *(("spec", "template", "metadata", "labels", label) for label in _JOB_LABELS),
        )
    ),
}
"""By group and kind the fields that each cluster sets itself."""

CONTROLLER_ANNOTATIONS: Final = frozenset(
    (
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deployment.kubernetes.io/revision",
        "deployment.kubernetes.io/revision-history",
        "endpoints.kubernetes.io/last-change-trigger-time",
        "control-plane.alpha.kubernetes.io/leader",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/provisioned-by",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
        "batch.kubernetes.io/job-tracking",
        "openshift.io/sa.scc.mcs",
        "openshift.io/sa.scc.supplemental-groups",
        "openshift.io/sa.scc.uid-range",
    )
)
"""The controllers of Kubernetes write these in every cluster, and would overwrite copied values again and again."""

_CLUSTER_ROLE: Final = ("rbac.authorization.k8s.io", "ClusterRole")
LEFT: Final[Mapping[tuple[str, str], Path]] = {
    ("batch", "Job"): ("spec", "ttlSecondsAfterFinished"),
    _CLUSTER_ROLE: ("rules",),
}
"""The field of a kind that the cluster decides on, unless an override sets it; for ClusterRoles, of aggregated ones."""

_HEADLESS_VALUES: Final = ("None", ["None"])


def get_local_fields(group: str, kind: str) -> frozenset[Path]:
    """Return the fields of a kind that each cluster sets itself."""
    return LOCAL_FIELDS.get((group, kind), frozenset())


def leave_field_of_kind(manifest: Manifest, left: LeftTracker, *, group: str, kind: str) -> Manifest:
    """Return an object without the field that its own cluster decides on, unless an override has set it.

    The controller of aggregated ClusterRoles computes `rules`. A Job with a time to live would be deleted after it has
    finished, made again, and run again.
    """
    path = LEFT.get((group, kind), ())
    is_computed = path != LEFT[_CLUSTER_ROLE] or manifest.get("aggregationRule") is not None
    return _without_field(manifest, path) if path and is_computed and left.record_field(path) else manifest


def _without_field(manifest: Manifest, path: Path) -> Manifest:
    name, *below = path
    if not below:
        return {key: value for key, value in manifest.items() if key != name}
    value = manifest.get(name)
    return {**manifest, name: _without_field(value, tuple(below))} if isinstance(value, Mapping) else manifest


def is_local_field(path: Path, value: object, *, fields: frozenset[Path]) -> bool:
    """Return whether the cluster set this value at this path; `None` for a headless Service is the author's value."""
    return path in fields and value not in _HEADLESS_VALUES


def strip_local_fields(manifest: Manifest, *, group: str, kind: str, charge: Callable[[int], None]) -> Manifest:
    """Return a manifest without the fields that each cluster sets itself; the input is not changed.

    `charge` is called with the number of values before they are copied one by one.
    """
    fields = get_local_fields(group, kind)
    if (group, kind) == ("", "Pod"):
        manifest = _strip_token_volume(manifest, charge)
    if (group, kind) == ("batch", "Job") and _get_spec(manifest).get("manualSelector") is True:
        return manifest
    if not fields:
        return manifest
    stripped: Manifest = _strip(manifest, (), fields, charge)
    if (group, kind) == ("", "Namespace") and not stripped.get("spec"):
        return {key: value for key, value in stripped.items() if key != "spec"}
    return stripped


def _strip(value: Any, path: Path, fields: frozenset[Path], charge: Callable[[int], None]) -> Any:
    """Return a value without its local fields; parts without local fields are shared with the input."""
    if not any(field[: len(path)] == path for field in fields):
        return value
    if isinstance(value, Mapping):
        charge(len(value))
        return {
            key: _strip(child, (*path, key), fields, charge)
            for key, child in value.items()
            if not is_local_field((*path, key), child, fields=fields)
        }
    if isinstance(value, list):
        charge(len(value))
        return [_strip(child, (*path, "*"), fields, charge) for child in value]
    return value


def _get_spec(manifest: Manifest) -> Mapping[str, Any]:
    spec = manifest.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _strip_token_volume(manifest: Manifest, charge: Callable[[int], None]) -> Manifest:
    """Return a Pod without the token volume that admission adds to every Pod; the volume's name is random."""
    spec = _get_spec(manifest)

    def is_token(item: object) -> bool:
        return isinstance(item, Mapping) and str(item.get("name", "")).startswith("kube-api-access-")

    def stripped(container: Any) -> Any:
        mounts = container.get("volumeMounts") if isinstance(container, Mapping) else None
        if not isinstance(mounts, list):
            return container
        charge(len(mounts))
        return {**container, "volumeMounts": [mount for mount in mounts if not is_token(mount)]}

    changed: dict[str, Any] = {}
    if isinstance(volumes := spec.get("volumes"), list):
        charge(len(volumes))
        changed["volumes"] = [volume for volume in volumes if not is_token(volume)]
    for field in ("containers", "initContainers"):
        if isinstance(containers := spec.get(field), list):
            charge(len(containers))
            changed[field] = [stripped(container) for container in containers]
    return {**manifest, "spec": {**spec, **changed}} if changed else manifest


def fit_service(merged: dict[str, Any], current: Manifest) -> dict[str, Any]:
    """Make the allocated fields of a Service's present state fit its new type; keep node ports by port name."""
    spec = dict(_get_spec(merged))
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "healthCheckNodePort"):
            spec.pop(field, None)
    if kind != "LoadBalancer" or spec.get("externalTrafficPolicy") != "Local":
        spec.pop("healthCheckNodePort", None)
    ports = [dict(port) for port in _get_ports(spec)]
    for port in ports:
        if kind not in ("NodePort", "LoadBalancer"):
            port.pop("nodePort", None)
    if kind in ("NodePort", "LoadBalancer"):
        _keep_node_ports(ports, _get_ports(_get_spec(current)))
    if "ports" in spec:
        spec["ports"] = ports
    return {**merged, "spec": spec} if "spec" in merged else merged


def _get_ports(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    ports = spec.get("ports")
    return [port for port in ports if isinstance(port, Mapping)] if isinstance(ports, list) else []


def _keep_node_ports(ports: list[dict[str, Any]], current: list[Mapping[str, Any]]) -> None:
    """Set the node port of ports without one to the node port that the port of their name has now."""
    used = {(port["nodePort"], port.get("protocol", "TCP")) for port in ports if "nodePort" in port}
    named = {port["name"]: port for port in current if port.get("name") and port.get("nodePort")}
    for port in ports:
        before = named.get(port.get("name", ""))
        if "nodePort" in port or before is None:
            continue
        node_port = (before["nodePort"], port.get("protocol", "TCP"))
        if node_port not in used:
            port["nodePort"] = before["nodePort"]
            used.add(node_port)
