"""Tombstone: somebody's word that a member has left the group, kept as a ClusterFeature, because features are read.

It speaks of one membership: of the Cluster object that the member had at home. Whoever joins again makes another one,
of which an old tombstone says nothing, whatever any clock says.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final, NamedTuple

from registry_controller.api import meta, names
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import Feature, read_feature
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey

_NAMED: Final = (meta.LEFT_MEMBER, meta.LEFT_MEMBERSHIP, meta.LEFT_SAID_BY)
_ID: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Tombstone(NamedTuple):
    """Who has left, on whose word, and the last day on which that counts, in UTC.

    `membership` is the uid of the Cluster object that the member had at home; empty where that was never learnt: then
    any is meant.
    """

    member: ClusterUID
    membership: str
    said_by: ClusterUID
    until: date

    @property
    def name(self) -> str:
        """Name the object: there is one for each membership."""
        return f"left-{self.member}.{self.membership}".removesuffix(".")

    def covers(self, membership: str) -> bool:
        """Say whether it speaks of a membership. What nobody could tell (empty), here or there, may be any."""
        return "" in (membership, self.membership) or membership == self.membership


def can_be_named(cluster_id: str) -> bool:
    """Say whether a tombstone can name a member: any UID that Kubernetes makes can be."""
    return _ID.fullmatch(cluster_id) is not None


def read_tombstone(feature: Feature) -> Tombstone | None:
    """Read a tombstone; None for any other feature, and for one that cannot be read."""
    if feature.feature_name != names.LEFT_FEATURE:
        return None
    member, membership, said_by = (feature.labels.get(label, "") for label in _NAMED)
    try:
        until = date.fromisoformat(feature.labels.get(meta.LEFT_UNTIL, ""))
    except ValueError:
        return None
    if not (can_be_named(member) and can_be_named(said_by) and (not membership or can_be_named(membership))):
        return None
    return Tombstone(ClusterUID(member), membership, ClusterUID(said_by), until)


def read_standing(manifest: Manifest) -> Tombstone | None:
    """Read a tombstone that stands where it is by its own right; None for a copy, and for any other feature."""
    if meta.OWNER in meta.annotations_of(manifest):
        return None
    try:
        stone = read_tombstone(read_feature(manifest))
    except InvalidObject:
        return None
    return stone if stone is not None and stone.name == meta.metadata_of(manifest).get("name") else None


def is_farewell(manifest: Manifest, *, of: ClusterUID) -> bool:
    """Say whether this is the tombstone by which a cluster says of itself that it has left."""
    stone = read_standing(manifest)
    return stone is not None and stone.member == stone.said_by == of


def left_secret(manifest: Manifest) -> ObjectKey | None:
    """Tell where a cluster that has left had published its credentials, as its own tombstone remembers it."""
    namespace, _, name = meta.annotations_of(manifest).get(meta.LEFT_SECRET, "").partition("/")
    return ObjectKey(namespace, name) if namespace and name else None


def tombstone_manifest(stone: Tombstone, *, secret: str = "") -> Manifest:
    """Build the ClusterFeature; `secret` is that of the cluster's own, as NAMESPACE/NAME."""
    labels = {
        meta.LEFT_MEMBER: stone.member,
        **({meta.LEFT_MEMBERSHIP: stone.membership} if stone.membership else {}),
        meta.LEFT_SAID_BY: stone.said_by,
        meta.LEFT_UNTIL: stone.until.isoformat(),
    }
    annotations = {"annotations": {meta.LEFT_SECRET: secret}} if secret else {}
    return {
        "apiVersion": meta.API_VERSION,
        "kind": meta.FEATURE.kind,
        "metadata": {"name": stone.name, "labels": labels, **annotations},
        "spec": {"featureName": names.LEFT_FEATURE},
    }
