"""What a copy should be: the source, changed as its rule's matching entries say, and stripped of what stays behind.

Law: the input is never changed. Unchanged parts are shared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.fields import Field
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey, Target
from registry_controller.api.syncrule import MapMutation, RuleEntry
from registry_controller.core import syntax
from registry_controller.core.local_fields import is_controllers_annotation, without_local_fields

SERVER_SET: Final = frozenset(
    (
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "selfLink",
        "managedFields",
        "finalizers",
        "ownerReferences",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    )
)
"""Metadata that belongs to one object in one cluster."""

_NEVER_COPIED: Final = frozenset(
    (
        meta.KUBECTL_LAST_APPLIED,
        meta.GO_LAST_APPLIED,
        "banzaicloud.io/managed-component",
        "banzaicloud.io/related-to",
        meta.OWNER,
        meta.PROVENANCE,
        meta.ORIGINAL_GVK,
        meta.ORIGINAL_NAME,
        meta.ORIGINAL_NAMESPACE,
        meta.CLUSTER_DISABLED,
        meta.ALLOW_DELETIONS,
    )
)
_TRACKING_PREFIXES: Final = frozenset(("meta.helm.sh", "argocd.argoproj.io"))
_TRACKING_SUFFIX: Final = ".toolkit.fluxcd.io"


@dataclass(frozen=True, slots=True)
class Desired:
    """A copy as it should be, without provenance and without what the server sets."""

    target: Target
    gvk: GVK
    manifest: Manifest


def target_of(gvk: GVK, key: ObjectKey, entries: Sequence[RuleEntry]) -> tuple[Target, GVK]:
    """Say what a source of kind `gvk` gets here, and as which kind it is written."""
    for entry in entries:
        mutation = entry.mutations.kind
        gvk = GVK(mutation.group or gvk.group, mutation.version or gvk.version, mutation.kind or gvk.kind)
    return Target(gvk.group, gvk.kind, key.namespace, key.name), gvk


def desired(source: Manifest, gvk: GVK, entries: Sequence[RuleEntry], *, owner: ClusterUID) -> Desired:
    """Build the copy of a source of kind `gvk`; `owner` is the cluster where it was born.

    Raises InvalidObject for metadata that no API server would serve.
    """
    info = Field(source, "")["metadata"]
    key = ObjectKey(info["namespace"].text(), info["name"].text())
    target, copy_gvk = target_of(gvk, key, entries)
    annotations = _mutate(info["annotations"].text_map(), (entry.mutations.annotations for entry in entries))
    labels = _mutate(info["labels"].text_map(), (entry.mutations.labels for entry in entries))
    annotations = {name: text for name, text in annotations.items() if not _stays_behind(name)}
    labels = {name: text for name, text in labels.items() if not _stays_behind(name)}
    annotations[meta.OWNER] = owner
    if syntax.is_label_value(owner):
        labels[meta.OWNER] = owner
    if any(any(entry.mutations.kind) for entry in entries):
        annotations[meta.ORIGINAL_GVK] = str(gvk)
    kept = {name: value for name, value in info.mapping().items() if name not in SERVER_SET}
    copy: dict[str, Any] = {
        **{name: value for name, value in source.items() if name != "status"},
        "apiVersion": copy_gvk.api_version,
        "kind": copy_gvk.kind,
        "metadata": {**kept, "annotations": annotations, "labels": labels},
    }
    return Desired(target, copy_gvk, without_local_fields(copy, group=copy_gvk.group, kind=copy_gvk.kind))


def _mutate(found: Mapping[str, str], mutations: Iterable[MapMutation]) -> dict[str, str]:
    """Do all adds, in order, and then all removes."""
    changed = dict(found)
    removed: list[str] = []
    for mutation in mutations:
        changed.update(mutation.add)
        removed.extend(mutation.remove)
    for name in removed:
        changed.pop(name, None)
    return changed


def _stays_behind(name: str) -> bool:
    """Say whether an annotation or label belongs to the object in its own cluster (W5, W6)."""
    prefix = name.partition("/")[0]
    return (
        name in _NEVER_COPIED
        or prefix in _TRACKING_PREFIXES
        or prefix.endswith(_TRACKING_SUFFIX)
        or is_controllers_annotation(name)
    )
