"""May this Cluster be stored? Decided from the object and the Clusters that are here.

Law: only a second name for the cluster that we are in is refused. An update that leaves clusterID as it was passes,
or what is in conflict already could not be mended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from registry_controller.api.cluster import ClusterType
from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.meta import Manifest


@dataclass(frozen=True, slots=True)
class Admission:
    """What the API server is told; `message` is for the person whose request is refused."""

    allowed: bool
    message: str = ""


ALLOWED = Admission(True)


@dataclass(frozen=True, slots=True)
class _Facts:
    name: str
    cluster_id: str
    type: str


def admit_cluster(new: Manifest, *, old: Manifest | None, here: Iterable[Manifest]) -> Admission:
    """Judge a Cluster that is created, or replaces `old`; `here` are all Clusters as they are stored."""
    wanted = _read(new)
    if wanted is None or not wanted.cluster_id or wanted.type == ClusterType.PEER.value:
        return ALLOWED
    before = _read(old) if old is not None else None
    if before is not None and before.cluster_id == wanted.cluster_id:
        return ALLOWED
    rivals = (other for manifest in here if (other := _read(manifest)) is not None)
    taken = sorted(other.name for other in rivals if _is_rival(other, wanted=wanted))
    if not taken:
        return ALLOWED
    return Admission(
        False,
        f"Cluster {wanted.name}: spec.clusterID is the ID of this cluster, for which Cluster {taken[0]} stands already;"
        f" give {wanted.name} the ID of the cluster that it is for, or delete {taken[0]} first",
    )


def _is_rival(other: _Facts, *, wanted: _Facts) -> bool:
    is_same = other.cluster_id == wanted.cluster_id and other.name != wanted.name
    return is_same and other.type == ClusterType.LOCAL.value


def _read(manifest: Manifest) -> _Facts | None:
    """Read what counts; None where the schema, whose matter that is, would have refused it."""
    field = Field(manifest, "")
    try:
        cluster_id = field["spec"]["clusterID"].text()
        return _Facts(field["metadata"]["name"].text(), cluster_id, field["status"]["type"].text())
    except InvalidObject:
        return None
