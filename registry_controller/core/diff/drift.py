"""Compares a copy with the wanted copy, and builds the object to write when it differs (A1).

Laws: compare and merge use the same walk, so compare reports exactly the changes of merge · compare never reports a
difference for a result of merge · values that the server or its controllers allocate are no drift · the value
of another manager at a place that the rule takes out is no drift · values are not reported · the remainder
after a write does not depend on the additions of other managers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, Final, NamedTuple

from registry_controller.api import meta, provenance
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import Manifest, Target
from registry_controller.core.diff.managed_fields import FieldOwners, read_owners
from registry_controller.core.diff.remainder import NOTHING_REMAINS, Remainder, digest_found
from registry_controller.core.diff.walk import MergeWalk, format_place
from registry_controller.core.mutation.left_fields import LeftFields, LeftPath, build_left_fields
from registry_controller.core.mutation.local_fields import Path, fit_service, get_local_fields
from registry_controller.core.mutation.mutate import SERVER_SET_METADATA, is_mark

_KEPT_METADATA: Final = ("uid", "resourceVersion", "finalizers", "ownerReferences", "generateName")
_REMOVED_AT_ADOPTION: Final = frozenset((meta.KUBECTL_LAST_APPLIED, meta.GO_LAST_APPLIED))
_ONLY_OURS: Final = frozenset((meta.OWNER, meta.ORIGINAL_GVK, meta.ORIGINAL_NAME, meta.ORIGINAL_NAMESPACE))
_NEVER_UNDONE: Final = frozenset((meta.CLUSTER_DISABLED, meta.ALLOW_DELETIONS))


class Drift(enum.Enum):
    """The result of comparing a copy with the wanted copy."""

    IN_SYNC = "in sync"
    AMBIGUOUS = "has further fields that the daemon may have written: defaults, or former fields of the source"
    DIFFERS = "differs"


class Left(NamedTuple):
    """The places that a rule leaves to this cluster, and the field behind the kind's scale subresource, if any."""

    paths: tuple[LeftPath, ...] = ()
    replicas: Path = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of compare: the `paths` that differ, and the other `managers` of those fields, all sorted.

    `left` are the places where another manager's value stays. `unpaired` are lists in which a place is left, and whose
    elements cannot be paired: they are written as the rule wants them. `remainder` is the rest of the
    difference if the API server stores the copy as it is.
    """

    drift: Drift
    paths: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    unpaired: tuple[str, ...] = ()
    remainder: Remainder = dataclass_field(default=NOTHING_REMAINS, compare=False)

    @property
    def is_in_sync(self) -> bool:
        return self.drift is Drift.IN_SYNC


NOTHING_LEFT: Final = Left()


def compare(desired: Manifest, current: Manifest, *, manager: str, left: Left = NOTHING_LEFT) -> Comparison:
    """Compare a copy with the wanted copy; `manager` is the daemon's field manager."""
    return compare_and_merge(desired, current, manager=manager, left=left)[0]


def merge(desired: Manifest, current: Manifest, *, manager: str, left: Left = NOTHING_LEFT) -> Manifest:
    """Build the body of the PUT that makes `current` the wanted copy; fields of other managers stay."""
    return compare_and_merge(desired, current, manager=manager, left=left)[1]


def compare_and_merge(
    desired: Manifest, current: Manifest, *, manager: str, left: Left = NOTHING_LEFT
) -> tuple[Comparison, Manifest]:
    """Compare a copy with the wanted copy, and build the body of the PUT that makes it the wanted one."""
    merged, walk = _walk(desired, current, manager=manager, left=left)
    drift = Drift.DIFFERS if walk.paths else Drift.AMBIGUOUS if walk.is_ambiguous else Drift.IN_SYNC
    remainder = NOTHING_REMAINS
    if drift is not Drift.IN_SYNC:
        state = digest_found(walk.paths, walk.found) if walk.paths else b""
        remainder = Remainder(state, tuple(sorted(walk.extras)), tuple(sorted(walk.lost)))
    paths, managers, kept, unpaired = (
        tuple(sorted(set(texts))) for texts in (walk.paths, walk.managers, walk.left, walk.unpaired)
    )
    return Comparison(drift, paths, managers, kept, unpaired, remainder), merged


def is_repaired(desired: Manifest, current: Manifest, stored: Manifest, *, manager: str, left: Left) -> bool:
    """Return whether another difference from the wanted copy remains once `current` is stored as `stored`.

    A value that is not wanted, and that the API server renews at each write, is there before and after, with
    another value. An example is the time of the write. To write the copy repairs nothing then.
    """
    before, after = (_walk(desired, found, manager=manager, left=left)[1] for found in (current, stored))
    return _list_remaining(before) != _list_remaining(after)


def _list_remaining(walk: MergeWalk) -> tuple[bytes, set[str]]:
    """Return the digest of what differs, and the places of values that the daemon wrote and that are not wanted."""
    ours = set(walk.ours)
    others = [(place, found) for place, found in zip(walk.paths, walk.found, strict=True) if place not in ours]
    return digest_found([place for place, _ in others], [found for _, found in others]), ours


def carry_over(desired: Manifest, current: Manifest, *, manager: str, left: Left) -> Manifest:
    """Build the copy that takes the place of `current`: the wanted one, with the cluster's values at left places."""
    if not left.paths:
        return desired
    merged = _walk(desired, current, manager=manager, left=left, only_left=True)[0]
    info = {name: value for name, value in merged["metadata"].items() if name not in _KEPT_METADATA}
    return {**merged, "metadata": info}


def _walk(
    desired: Manifest, current: Manifest, *, manager: str, left: Left, only_left: bool = False
) -> tuple[Manifest, MergeWalk]:
    target = _get_target(desired)
    owners = read_owners(current, manager=manager)
    walk = MergeWalk(get_local_fields(target.group, target.kind), left.replicas, only_left)
    tree = build_left_fields(left.paths, settled=_read_settled(current, target)) if left.paths else None
    try:
        content = walk.merge_mapping(_get_content(desired), _get_content(current), owners, (), tree)
        below = tree.field("metadata") if tree is not None else None
        metadata = _merge_metadata(desired, current, owners.of_field("metadata"), walk, below)
    except RecursionError:
        raise InvalidObject("object", "is nested too deeply") from None
    identity = {name: desired[name] for name in ("apiVersion", "kind") if name in desired}
    merged = {**identity, "metadata": metadata, **content}
    if (target.group, target.kind) == ("", "Service") and not only_left:
        merged = fit_service(merged, current)
    return merged, walk


def _read_settled(current: Manifest, target: Target) -> frozenset[str]:
    """Read the digests of the places that were left when a copy was last written."""
    found = provenance.decode(meta.annotations_of(current).get(meta.PROVENANCE), of=target)
    return frozenset(found.left) if found is not None else frozenset()


def _get_content(manifest: Manifest) -> Manifest:
    left_out = ("apiVersion", "kind", "metadata", "status")
    return {name: value for name, value in manifest.items() if name not in left_out}


def _get_target(manifest: Manifest) -> Target:
    info = meta.metadata_of(manifest)
    group, _ = meta.group_version(str(manifest.get("apiVersion", "")))
    return Target(group, str(manifest.get("kind", "")), info.get("namespace") or "", info.get("name") or "")


def _merge_metadata(
    desired: Manifest, current: Manifest, owners: FieldOwners, walk: MergeWalk, left: LeftFields | None
) -> dict[str, Any]:
    """Merge metadata: labels and annotations of other managers stay, and metadata that the server sets is no drift."""
    wanted, found = meta.metadata_of(desired), meta.metadata_of(current)
    left_out = SERVER_SET_METADATA | {"labels", "annotations"}
    merged = {name: value for name, value in wanted.items() if name not in left_out}
    merged |= {name: found[name] for name in _KEPT_METADATA if name in found}
    for field in ("labels", "annotations"):
        below = left.field(field) if left is not None else None
        pairs = _merge_map(desired, current, owners.of_field(field), walk, field=field, left=below)
        if pairs:
            merged[field] = pairs
    return merged


def _merge_map(
    desired: Manifest,
    current: Manifest,
    owners: FieldOwners,
    walk: MergeWalk,
    *,
    field: str,
    left: LeftFields | None,
) -> dict[str, str]:
    """Merge labels or annotations."""
    wanted: Mapping[str, str] = meta.metadata_of(desired).get(field) or {}
    found: Mapping[str, str] = meta.metadata_of(current).get(field) or {}
    target = _get_target(desired)
    for name, text in wanted.items():
        if name not in found or not _is_same_text(name, text, found[name], target):
            walk.add_difference(("metadata", field, name), owners.of_field(name), found=found.get(name))
        if name not in found:
            walk.lost.append(format_place(("metadata", field, name)))
    merged = dict(wanted)
    for name, text in found.items():
        if name in wanted:
            continue
        below = left.field(name) if left is not None and not is_mark(name) else None
        by = owners.of_field(name)
        is_left = below is not None and (below.is_settled or by.has_stranger)
        if is_left:
            walk.left.append(format_place(("metadata", field, name)))
        if not is_left and (walk.only_left or _is_to_be_removed(name, found, by, target)):
            walk.add_difference(("metadata", field, name), by, found=text)
            if by.include_us and not by.other_managers:
                walk.ours.append(format_place(("metadata", field, name)))
        else:
            merged[name] = text
    return merged


def _is_same_text(name: str, wanted: str, found: str, target: Target) -> bool:
    if wanted == found or name != meta.PROVENANCE:
        return wanted == found
    one, other = provenance.decode(wanted, of=target), provenance.decode(found, of=target)
    if other is None:  # of membership, which every version updates: a later replica here wrote it
        return provenance.has_later_format(found)
    return one is not None and one.same_origin(other)


def _is_to_be_removed(name: str, found: Mapping[str, str], owners: FieldOwners, target: Target) -> bool:
    """Return whether to remove a label or annotation that is not wanted: the daemon wrote it, or it must not stay."""
    if name in _NEVER_UNDONE:
        return False
    if name in _REMOVED_AT_ADOPTION or name in _ONLY_OURS:
        return True
    if name == meta.SYNC_DISABLED:
        written = provenance.decode(found.get(meta.PROVENANCE), of=target)
        if written is not None and written.inherited:
            return True
    return owners.is_known and owners.include_us and not owners.other_managers
