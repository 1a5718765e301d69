"""Builds a copy: the source, changed by the matching entries of its rule, without the fields of its own cluster.

Law: the input is never changed. Unchanged parts are shared with it.
"""

from __future__ import annotations

import functools
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from registry_controller.api import meta, validation
from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.meta import GVK, ClusterUID, Manifest, Target
from registry_controller.api.syncrule import MapMutation, RuleEntry
from registry_controller.core.mutation.left_fields import LeftPath, LeftTracker
from registry_controller.core.mutation.local_fields import (
    CONTROLLER_ANNOTATIONS,
    LEFT,
    LOCAL_FIELDS,
    leave_field_of_kind,
    strip_local_fields,
)
from registry_controller.core.mutation.overrides import apply_overrides
from registry_controller.core.mutation.templates import render_overrides
from registry_controller.core.mutation.tracking_marks import MAY_TRACK, find_tracking_marks, without_tracking_marks
from registry_controller.gotemplate import DEFAULT, Budget, Pool, TemplateError

SERVER_SET_METADATA: Final = frozenset(
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
        meta.TARGET_CLUSTERS,
        meta.TARGET_CLUSTER_SELECTOR,
    )
)
_LEFT_OUT: Final = _NEVER_COPIED | CONTROLLER_ANNOTATIONS


@dataclass(frozen=True, slots=True, eq=False)
class TemplateContext:
    """The Cluster objects of the owner and of the local cluster, for templates.

    Contexts are compared by identity: the same context is used until one of the Clusters changes.
    """

    cluster: Manifest | None = None
    local_cluster: Manifest | None = None


NO_CONTEXT: Final = TemplateContext()


class MutatedCopy(msgspec.Struct, frozen=True):
    """A wanted copy, without provenance and without the metadata that the server sets.

    `status` is the wanted status; None when the rule does not copy it. `left` are the places that the rule takes out,
    and leaves to this cluster.
    """

    target: Target
    gvk: GVK
    manifest: Manifest
    status: Manifest | None = None
    left: tuple[LeftPath, ...] = ()


def get_copy_kind(gvk: GVK, entries: Sequence[RuleEntry]) -> GVK:
    """Return the kind of the copy of a source of kind `gvk`."""
    for entry in entries:
        mutation = entry.mutations.kind
        if any(mutation):
            gvk = GVK(mutation.group or gvk.group, mutation.version or gvk.version, mutation.kind or gvk.kind)
    return gvk


def build_copy(
    source: Manifest,
    gvk: GVK,
    entries: Sequence[RuleEntry],
    *,
    owner: ClusterUID,
    context: TemplateContext = NO_CONTEXT,
    pool: Pool | None = None,
) -> MutatedCopy:
    """Build the copy of a source of kind `gvk`; `owner` is the cluster that owns the source.

    Raises InvalidObject for invalid metadata, for a mutation that cannot be applied, and when the object's budget, or
    the pool, has too few steps left.
    """
    copy_gvk = get_copy_kind(gvk, entries)
    overrides = [override for entry in entries for override in entry.mutations.overrides]
    has_local_fields = (copy_gvk.group, copy_gvk.kind) in LOCAL_FIELDS
    budget = Budget(pool=pool) if overrides or has_local_fields or pool is not None else None
    info, pairs = _read_metadata(source, budget)
    tracking = _find_tracking_marks(pairs, copy_gvk, entries)
    pairs = _mutate_pairs(pairs, gvk, entries, owner=owner)
    copy: Manifest = {
        **source,
        "apiVersion": copy_gvk.api_version,
        "kind": copy_gvk.kind,
        "metadata": {name: value for name, value in info.items() if name not in SERVER_SET_METADATA} | pairs,
    }
    if "status" in copy:
        copy = {name: value for name, value in copy.items() if name != "status"}
    if budget is not None and has_local_fields:
        copy = _without_local_fields(copy, copy_gvk, budget)
    is_secret = (copy_gvk.group, copy_gvk.kind) == ("", "Secret")
    charge = budget.step if budget is not None else None
    removed, kind = _list_removed_texts(entries), (copy_gvk.group, copy_gvk.kind)
    tracker = LeftTracker(removed, is_secret=is_secret, charge=charge) if removed or overrides or kind in LEFT else None
    if budget is not None and overrides:
        whole = {**source, "apiVersion": copy_gvk.api_version, "kind": copy_gvk.kind, "metadata": {**info, **pairs}}
        data = {"Object": whole, "Cluster": context.cluster, "LocalCluster": context.local_cluster}
        values = render_overrides(overrides, data=data, budget=budget)
        copy = _finish_overrides(
            copy, apply_overrides(copy, values, budget=budget, left=tracker), source, gvk=copy_gvk, budget=budget
        )
    if tracking:
        copy = {**copy, "metadata": without_tracking_marks(copy["metadata"], tracking)}
    if is_secret and "stringData" in copy:
        copy = _merge_string_data(copy)
    left: tuple[LeftPath, ...] = ()
    if tracker is not None:
        copy = leave_field_of_kind(copy, tracker, group=copy_gvk.group, kind=copy_gvk.kind)
        left = tracker.left_in(copy, is_mark=is_mark)
    info = copy["metadata"]
    target = Target(copy_gvk.group, copy_gvk.kind, info.get("namespace", ""), info.get("name", ""))
    status = (source.get("status") or {}) if any(entry.mutations.sync_status for entry in entries) else None
    return MutatedCopy(target, copy_gvk, copy, status, left)


_Pairs = dict[str, dict[str, str]]
"""The annotations and labels, under the names of their fields."""


def _read_metadata(source: Manifest, budget: Budget | None) -> tuple[Manifest, _Pairs]:
    """Return an object's metadata, and its annotations and labels; InvalidObject where their types are wrong."""
    info = source.get("metadata")
    if not isinstance(info, dict):
        info = Field(info, "metadata").mapping()
    for name in ("namespace", "name"):
        if not isinstance(info.get(name), str):
            Field(info.get(name), f"metadata.{name}").text()
    fields: dict[str, Mapping[str, Any]] = {}
    for name in ("annotations", "labels"):
        found = info.get(name, {})
        fields[name] = found if isinstance(found, dict) else Field(found, f"metadata.{name}").mapping()
    _charge_maps(sum(map(len, fields.values())), budget)
    return info, {name: _read_texts(found, name) for name, found in fields.items()}


def _read_texts(found: Mapping[str, Any], name: str) -> dict[str, str]:
    for text in found.values():
        if not isinstance(text, str):
            return dict(Field(found, f"metadata.{name}").text_map())
    return dict(found)


def _mutate_pairs(pairs: _Pairs, gvk: GVK, entries: Sequence[RuleEntry], *, owner: ClusterUID) -> _Pairs:
    """Change annotations and labels, and add the owner's marks."""
    annotations, labels = pairs["annotations"], pairs["labels"]
    _apply_map_mutations(annotations, [entry.mutations.annotations for entry in entries])
    _apply_map_mutations(labels, [entry.mutations.labels for entry in entries])
    for texts in (annotations, labels):
        for name in _LEFT_OUT.intersection(texts):
            del texts[name]
    annotations[meta.OWNER] = owner
    if _is_label_value(owner):
        labels[meta.OWNER] = owner
    if any(any(entry.mutations.kind) for entry in entries):
        annotations[meta.ORIGINAL_GVK] = str(gvk)
    return pairs


def _find_tracking_marks(pairs: _Pairs, kind: GVK, entries: Sequence[RuleEntry]) -> dict[str, dict[str, str]]:
    """Return by field the marks of tools that applied the source, without those that an entry adds (W6).

    Templates see them, and overrides find them.
    """
    marks = {}
    for field, texts in pairs.items():
        if not MAY_TRACK.search("\n".join(texts)):
            continue
        if found := find_tracking_marks(texts, field=field, kind=(kind.group, kind.kind)):
            mutations = [
                entry.mutations.labels if field == "labels" else entry.mutations.annotations for entry in entries
            ]
            added = {name for mutation in mutations for name in mutation.add}
            marks[field] = {name: text for name, text in found.items() if name not in added}
    return marks


def _list_removed_texts(entries: Sequence[RuleEntry]) -> list[LeftPath]:
    """List the labels and annotations that entries remove."""
    return [
        ("metadata", field, name)
        for entry in entries
        for field, mutation in (("labels", entry.mutations.labels), ("annotations", entry.mutations.annotations))
        for name in mutation.remove
    ]


def _without_local_fields(copy: Manifest, gvk: GVK, budget: Budget) -> Manifest:
    try:
        return strip_local_fields(copy, group=gvk.group, kind=gvk.kind, charge=budget.step)
    except TemplateError as error:
        raise InvalidObject("spec", str(error)) from None


def _charge_maps(count: int, budget: Budget | None) -> None:
    """Charge for labels and annotations before they are read one by one; None is a budget that nothing else uses."""
    if budget is None and count <= DEFAULT.steps:
        return
    try:
        (budget or Budget()).step(count)
    except TemplateError as error:
        raise InvalidObject("metadata", str(error)) from None


def _strip_metadata(manifest: Manifest) -> Manifest:
    """Return a manifest without its status and without the metadata that a server sets."""
    info = {name: value for name, value in meta.metadata_of(manifest).items() if name not in SERVER_SET_METADATA}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": info}


def _finish_overrides(before: Manifest, after: Manifest, source: Manifest, *, gvk: GVK, budget: Budget) -> Manifest:
    """Check a copy after its overrides, restore its marks, and label it with the source's name if that changed."""
    field = Field(after, "")
    if (field["apiVersion"].text(), field["kind"].text()) != (gvk.api_version, gvk.kind):
        raise InvalidObject("overrides", "must not change apiVersion or kind: use mutations.groupVersionKind instead")
    info, info_before, source_info = field["metadata"], meta.metadata_of(before), meta.metadata_of(source)
    name, namespace = info["name"].text(), info["namespace"].text()
    if not validation.is_name_of(gvk.group, gvk.kind, name):
        raise InvalidObject("overrides", f"metadata.name is not a valid name of a {gvk.kind}")
    if bool(namespace) != bool(info_before.get("namespace")) or (namespace and not validation.is_namespace(namespace)):
        raise InvalidObject("overrides", "metadata.namespace is not a valid namespace after the overrides")
    _charge_maps(len(info["annotations"].mapping()) + len(info["labels"].mapping()), budget)
    annotations, labels = info["annotations"].text_map(), info["labels"].text_map()
    annotations = {key: text for key, text in annotations.items() if key not in _NEVER_COPIED}
    labels = {key: text for key, text in labels.items() if key not in _NEVER_COPIED}
    for pairs, marks in (
        (annotations, info_before.get("annotations") or {}),
        (labels, info_before.get("labels") or {}),
    ):
        pairs.update({key: marks[key] for key in (meta.OWNER, meta.ORIGINAL_GVK) if key in marks})
    for label, copied, original in (
        (meta.ORIGINAL_NAME, name, source_info.get("name")),
        (meta.ORIGINAL_NAMESPACE, namespace, source_info.get("namespace")),
    ):
        if original and copied != original and validation.is_label_value(original):
            labels[label] = original
    return _strip_metadata({**after, "metadata": {**info.mapping(), "annotations": annotations, "labels": labels}})


def _merge_string_data(secret: Manifest) -> Manifest:
    """Merge `stringData` into `data`, as the API server does: the stored Secret, which is compared, has only `data`."""
    field = Field(secret, "")
    texts = field["stringData"].text_map()
    encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
    data = {**field["data"].mapping(), **encoded}
    rest = {name: value for name, value in secret.items() if name != "stringData"}
    return {**rest, "data": data} if encoded else rest


def _apply_map_mutations(texts: dict[str, str], mutations: Sequence[MapMutation]) -> None:
    """Apply all additions, in order, and then all removals."""
    for mutation in mutations:
        texts.update(mutation.add)
    for mutation in mutations:
        for name in mutation.remove:
            texts.pop(name, None)


def is_mark(name: str) -> bool:
    """Return whether an annotation or label is a mark of the daemon, or of the tools that it replaces."""
    return name in _NEVER_COPIED or name == meta.SYNC_DISABLED


@functools.lru_cache(maxsize=1024)
def _is_label_value(text: str) -> bool:
    return validation.is_label_value(text)
