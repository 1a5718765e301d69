"""Tombstone: the report of a member that a member has left the group.

It is stored as a ClusterFeature, because all members read the features of their peers. It is about one membership: the
Cluster object of the member in its own cluster. A member that joins again creates a new Cluster object, so an old
tombstone does not apply to it, independent of clocks.

A version that adds to a tombstone adds a label whose name begins with `left-`, and that is about the same membership.
An earlier version keeps it when it stores the tombstone in its own cluster, too. The annotations of the object are no
part of the tombstone: each cluster has its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Final, NamedTuple

from registry_controller.api import meta, names
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import Feature, read_feature
from registry_controller.api.jsontext import is_later_text
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey
from registry_controller.api.validation import is_label_key, is_label_value

FORMAT: Final = 1
"""The format of the labels of tombstones and of withdrawals.

A version that changes their meaning writes the next number in the label `left-format`.
"""

_LABELS: Final = (meta.LEFT_MEMBER, meta.LEFT_MEMBERSHIP, meta.LEFT_REPORTED_BY)
_KNOWN: Final = frozenset((*_LABELS, meta.LEFT_UNTIL, meta.LEFT_FORMAT, meta.LEFT_REVISION))
_REVISION: Final = re.compile("[0-9]{1,20}")
_ID: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Tombstone(NamedTuple):
    """The report that `member` has left, by `said_by`, valid through the day `until` in UTC.

    `membership` is the UID of the member's Cluster object in its own cluster. Empty if it is unknown: the report is
    then about every membership. `revision` is a resourceVersion that this Cluster had there, 0 if it is unknown: what
    is older is of an earlier membership.
    """

    member: ClusterUID
    membership: str
    reported_by: ClusterUID
    until: date
    revision: int = 0

    @property
    def name(self) -> str:
        """Return the name of the object; each membership has its own."""
        return f"left-{self.member}.{self.membership}".removesuffix(".")

    def covers(self, membership: str) -> bool:
        """Return whether the tombstone is about a membership. An empty, unknown membership matches every other one."""
        return "" in (membership, self.membership) or membership == self.membership


def fits_in_tombstone(cluster_id: str) -> bool:
    """Return whether a tombstone can contain a member's ID; it can contain every UID that Kubernetes creates."""
    return _ID.fullmatch(cluster_id) is not None


def read_tombstone(feature: Feature) -> Tombstone | None:
    """Parse a tombstone; None for another feature, for an invalid tombstone, and for one of a later format."""
    return _read(feature) if feature.feature_name == names.LEFT_FEATURE else None


def read_withdrawal(feature: Feature) -> Tombstone | None:
    """Parse the record that the author of a tombstone has withdrawn it; return the tombstone, None without one."""
    return _read(feature) if feature.feature_name == names.WITHDRAWN_FEATURE else None


def _read(feature: Feature) -> Tombstone | None:
    if _is_later(feature):
        return None
    member, membership, said_by = (feature.labels.get(label, "") for label in _LABELS)
    try:
        until = date.fromisoformat(feature.labels.get(meta.LEFT_UNTIL, ""))
    except ValueError:
        return None
    if not (
        fits_in_tombstone(member) and fits_in_tombstone(said_by) and (not membership or fits_in_tombstone(membership))
    ):
        return None
    revision = feature.labels.get(meta.LEFT_REVISION, "")
    known = int(revision) if _REVISION.fullmatch(revision) else 0
    return Tombstone(ClusterUID(member), membership, ClusterUID(said_by), until, known)


def _is_later(feature: Feature) -> bool:
    return is_later_text(feature.labels.get(meta.LEFT_FORMAT, "1"), than=FORMAT)


def has_later_format(feature: Feature) -> bool:
    """Return whether a later version of the daemon wrote a tombstone or a withdrawal that this one cannot read."""
    return feature.feature_name in (names.LEFT_FEATURE, names.WITHDRAWN_FEATURE) and _is_later(feature)


def further_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels of a tombstone beside its fields: the note of a return, and new ones of a later version."""
    return {
        label: text
        for label, text in labels.items()
        if label.startswith(meta.LEFT) and label not in _KNOWN and is_label_key(label) and is_label_value(text)
    }


def is_later_tombstone(manifest: Manifest, *, of: ClusterUID | None = None) -> bool:
    """Return whether the object is a tombstone of a later format; with `of`, one about that member."""
    try:
        feature = read_feature(manifest)
    except InvalidObject:
        return False
    is_tombstone = feature.feature_name == names.LEFT_FEATURE and _is_later(feature)
    return is_tombstone and (of is None or feature.labels.get(meta.LEFT_MEMBER) == of)


def read_original_tombstone(manifest: Manifest, *, at: ClusterUID) -> Tombstone | None:
    """Parse a tombstone that was created in the cluster `at` that has it; None for a copy, and for another feature."""
    if meta.is_marked_as_copy(manifest, at=at):
        return None
    try:
        stone = read_tombstone(read_feature(manifest))
    except InvalidObject:
        return None
    return stone if stone is not None and stone.name == meta.metadata_of(manifest).get("name") else None


def withdrawal_manifest(stone: Tombstone) -> Manifest:
    """Return the ClusterFeature that records that the author of a tombstone has withdrawn it."""
    labels = meta.labels_of(tombstone_manifest(stone))
    return {
        "apiVersion": meta.API_VERSION,
        "kind": meta.FEATURE.kind,
        "metadata": {"name": stone.name.replace("left-", "back-", 1), "labels": labels},
        "spec": {"featureName": names.WITHDRAWN_FEATURE},
    }


def is_own_tombstone(manifest: Manifest, *, of: ClusterUID) -> bool:
    """Return whether the object is the tombstone with which a cluster reports that it has left itself."""
    stone = read_original_tombstone(manifest, at=of)
    return stone is not None and stone.member == stone.reported_by == of


def is_ordered(manifest: Manifest) -> bool:
    """Return whether the object is a tombstone that was ordered, as this cluster knows."""
    return meta.LEFT_ORDERED in meta.annotations_of(manifest)


def has_returned(labels: Mapping[str, str]) -> bool:
    """Return whether a tombstone with these labels has the note that its member was back, with a later membership."""
    return labels.get(meta.LEFT_RETURNED) == "true"


def with_return(manifest: Manifest) -> Manifest:
    """Return a tombstone with the note that its member is back, with a later membership."""
    info = meta.metadata_of(manifest)
    labels = {**meta.labels_of(manifest), meta.LEFT_RETURNED: "true"}
    return {**manifest, "metadata": {**info, "labels": labels}}


def published_secret(manifest: Manifest) -> ObjectKey | None:
    """Return the Secret in which a cluster that left had published its credentials, from its own tombstone."""
    namespace, _, name = meta.annotations_of(manifest).get(meta.LEFT_SECRET, "").partition("/")
    return ObjectKey(namespace, name) if namespace and name else None


def tombstone_manifest(
    stone: Tombstone, *, secret: str = "", ordered: bool = False, further: Mapping[str, str] | None = None
) -> Manifest:
    """Return the ClusterFeature. `secret` is the cluster's Secret with published credentials, as NAMESPACE/NAME.

    `ordered` records that `leave` was given here, or that the member's own tombstone was read at the member. `further`
    are its labels beside its fields.
    """
    labels = {
        **(further or {}),
        meta.LEFT_MEMBER: stone.member,
        **({meta.LEFT_MEMBERSHIP: stone.membership} if stone.membership else {}),
        meta.LEFT_REPORTED_BY: stone.reported_by,
        meta.LEFT_UNTIL: stone.until.isoformat(),
        **({meta.LEFT_REVISION: str(stone.revision)} if stone.revision else {}),
    }
    marks = {meta.LEFT_SECRET: secret, meta.LEFT_ORDERED: "true" if ordered else ""}
    found = {name: text for name, text in marks.items() if text}
    annotations = {"annotations": found} if found else {}
    return {
        "apiVersion": meta.API_VERSION,
        "kind": meta.FEATURE.kind,
        "metadata": {"name": stone.name, "labels": labels, **annotations},
        "spec": {"featureName": names.LEFT_FEATURE},
    }
