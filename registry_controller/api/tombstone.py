"""Tombstone: the report of a member that a member has left the group.

It is stored as a ClusterFeature, because all members read the features of their peers. It is about one membership: the
Cluster object of the member in its own cluster. A member that joins again creates a new Cluster object, so an old
tombstone does not apply to it, independent of clocks.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final, NamedTuple

from registry_controller.api import meta, names
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import Feature, read_feature
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey

FORMAT: Final = 1
"""The format of the labels. A version that changes their meaning writes the next number in the label `left-format`."""

_LABELS: Final = (meta.LEFT_MEMBER, meta.LEFT_MEMBERSHIP, meta.LEFT_REPORTED_BY)
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
    if feature.feature_name != names.LEFT_FEATURE or meta.LEFT_FORMAT in feature.labels:
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


def has_later_format(feature: Feature) -> bool:
    """Return whether a later version of the daemon wrote a tombstone, in a format that this one cannot read."""
    return feature.feature_name == names.LEFT_FEATURE and meta.LEFT_FORMAT in feature.labels


def is_later_tombstone(manifest: Manifest, *, of: ClusterUID | None = None) -> bool:
    """Return whether the object is a tombstone of a later format; with `of`, one about that member."""
    try:
        feature = read_feature(manifest)
    except InvalidObject:
        return False
    return has_later_format(feature) and (of is None or feature.labels.get(meta.LEFT_MEMBER) == of)


def read_original_tombstone(manifest: Manifest) -> Tombstone | None:
    """Parse a tombstone that was created in the cluster that has it; None for a copy, and for another feature."""
    if meta.OWNER in meta.annotations_of(manifest):
        return None
    try:
        stone = read_tombstone(read_feature(manifest))
    except InvalidObject:
        return None
    return stone if stone is not None and stone.name == meta.metadata_of(manifest).get("name") else None


def is_own_tombstone(manifest: Manifest, *, of: ClusterUID) -> bool:
    """Return whether the object is the tombstone with which a cluster reports that it has left itself."""
    stone = read_original_tombstone(manifest)
    return stone is not None and stone.member == stone.reported_by == of


def is_ordered(manifest: Manifest) -> bool:
    """Return whether the object is a tombstone that was ordered, as this cluster knows."""
    return meta.LEFT_ORDERED in meta.annotations_of(manifest)


def published_secret(manifest: Manifest) -> ObjectKey | None:
    """Return the Secret in which a cluster that left had published its credentials, from its own tombstone."""
    namespace, _, name = meta.annotations_of(manifest).get(meta.LEFT_SECRET, "").partition("/")
    return ObjectKey(namespace, name) if namespace and name else None


def tombstone_manifest(stone: Tombstone, *, secret: str = "", ordered: bool = False) -> Manifest:
    """Return the ClusterFeature. `secret` is the cluster's Secret with published credentials, as NAMESPACE/NAME.

    `ordered` records that `leave` was given here, or that the member's own tombstone was read at the member.
    """
    labels = {
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
