"""Decides whether this cluster's own Cluster is created again after it was lost, and how: as it last was.

Laws: a cluster that has left creates nothing · a Cluster that was deleted a moment ago may be created again by its
author · other members only show how the Cluster was: its ID, and the Secret that it names, are this cluster's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from registry_controller.api import meta
from registry_controller.api.cluster import read_cluster
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey, Target
from registry_controller.core.decision.marks import read_marks

REPLACED_S: Final = 3.0
"""`kubectl replace --force` and GitOps tools create an object again within this time after they have deleted it."""
MEMBERS_S: Final = 20.0
"""For how long a daemon that starts without its Cluster waits for members that show how it was."""

_COPY_MARKS: Final = frozenset((
    meta.OWNER, meta.PROVENANCE, meta.GO_LAST_APPLIED, meta.ORIGINAL_GVK, meta.ORIGINAL_NAME, meta.ORIGINAL_NAMESPACE,
))  # fmt: skip

_LOCAL_ANNOTATIONS: Final = (meta.CLUSTER_DISABLED, meta.ALLOW_DELETIONS)


class LostClusterFacts(NamedTuple):
    """The facts that decide whether the own Cluster is made, and how.

    `name` is the option PROVISION_LOCAL_CLUSTER. `last` is the Cluster as this process saw it last, `missing_s` for how
    many seconds it has been missing. `shown` are its copies at live members; `awaits_members` means that the
    Clusters of a member that may answer are not known yet. `published` is the Cluster to which the Secret with this
    cluster's credentials belongs, by its kubeconfig; None where there is not exactly one such Secret.
    `published_addresses` are the addresses in all of them.
    """

    name: str
    has_farewell: bool
    last: Manifest | None
    missing_s: float
    shown: Sequence[Manifest] = ()
    awaits_members: bool = False
    published: Manifest | None = None
    published_addresses: Collection[str] = ()


class Wait(NamedTuple):
    """Make nothing yet; ask again after so many seconds."""

    after_s: float


class Make(NamedTuple):
    """Make this Cluster; None for the one of the option's name, as it is made for a new cluster.

    `is_shown` means that members show it, which may have changed it.
    """

    cluster: Manifest | None
    is_shown: bool = False


def plan_own_cluster(facts: LostClusterFacts) -> Wait | Make | None:
    """Decide about the missing own Cluster: wait, make it, or leave it missing (None)."""
    if facts.has_farewell:
        return None
    if facts.last is not None:
        return Wait(REPLACED_S - facts.missing_s) if facts.missing_s < REPLACED_S else Make(facts.last)
    shown = choose_shown(facts.shown, published_addresses=facts.published_addresses)
    if shown is not None:
        return Make(shown, is_shown=True)
    if facts.awaits_members and facts.missing_s < MEMBERS_S:
        return Wait(1.0)
    if facts.published is not None:
        return Make(facts.published)
    return Make(None) if facts.name else None


def choose_shown(shown: Sequence[Manifest], *, published_addresses: Collection[str] = ()) -> Manifest | None:
    """Choose the state that most members show, first of those with an address that this cluster published.

    Endpoints with another address are left out: a member may have invented them. So are the annotations that members
    put on the copies of the Cluster for themselves.
    """
    shown = [_without_local_annotations(manifest) for manifest in shown]
    counts = Counter(_essence(manifest) for manifest in shown)

    def rank(manifest: Manifest) -> tuple[bool, int]:
        return _fits(manifest, published_addresses), counts[_essence(manifest)]

    found = max(shown, key=rank, default=None)
    if found is None or _fits(found, published_addresses):
        return found
    spec = {name: value for name, value in found["spec"].items() if name != "kubernetesApiEndpoints"}
    return {**found, "spec": spec}


def _without_local_annotations(manifest: Manifest) -> Manifest:
    """Return a member's copy of a Cluster without the annotations that apply to the cluster in which they are set."""
    info, annotations = meta.metadata_of(manifest), meta.annotations_of(manifest)
    target = Target(*meta.CLUSTER_KIND, "", str(info.get("name", "")))
    is_frozen = read_marks(annotations, of=target).frozen
    left_out = (*_LOCAL_ANNOTATIONS, *((meta.SYNC_DISABLED,) if is_frozen else ()))
    kept = {name: text for name, text in annotations.items() if name not in left_out}
    return {**manifest, "metadata": {**info, "annotations": kept}}


def _fits(manifest: Manifest, published_addresses: Collection[str]) -> bool:
    """Report whether the endpoint without a network has a published address, or there is nothing to compare."""
    try:
        endpoint = read_cluster(manifest).published_endpoint()
    except InvalidObject:
        return False
    if endpoint is None or not published_addresses or not endpoint.server_address.strip():
        return True
    return _host(endpoint.server_address) in map(_host, published_addresses)


def _host(address: str) -> str:
    host = address.strip().removeprefix("https://").rstrip("/").lower()
    return host.removesuffix(":443")


def restored_cluster(last: Manifest, *, cluster_id: ClusterUID, secret: ObjectKey | None = None) -> Manifest:
    """Build a Cluster as it last was, with labels, annotations and spec; it names `secret` if one is given."""
    spec = last.get("spec")
    spec = dict(spec) if isinstance(spec, Mapping) else {}
    if secret is not None:
        auth = spec.get("authInfo")
        auth = auth if isinstance(auth, Mapping) else {}
        spec["authInfo"] = {**auth, "secretRef": {"name": secret.name, "namespace": secret.namespace}}
    labels, annotations = _own_marks(last)
    marks = {"labels": labels, "annotations": annotations}
    return {
        "apiVersion": meta.API_VERSION,
        "kind": meta.CLUSTER.kind,
        "metadata": {"name": meta.metadata_of(last)["name"], **{part: kept for part, kept in marks.items() if kept}},
        "spec": {**spec, "clusterID": cluster_id},
    }


def named_secret(cluster: Manifest) -> ObjectKey | None:
    """Return the Secret that a Cluster names; None without a name and a namespace."""
    spec = cluster.get("spec")
    auth = spec.get("authInfo") if isinstance(spec, Mapping) else None
    reference = auth.get("secretRef") if isinstance(auth, Mapping) else None
    reference = reference if isinstance(reference, Mapping) else {}
    namespace, name = reference.get("namespace"), reference.get("name")
    return ObjectKey(namespace, name) if isinstance(namespace, str) and isinstance(name, str) and name else None


def _own_marks(manifest: Manifest) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the labels and annotations without those that daemons write on copies."""
    labels = {name: text for name, text in meta.labels_of(manifest).items() if name not in _COPY_MARKS}
    annotations = {name: text for name, text in meta.annotations_of(manifest).items() if name not in _COPY_MARKS}
    return labels, annotations


def _essence(manifest: Manifest) -> bytes:
    marks = _own_marks(manifest)
    return msgspec.json.encode((meta.metadata_of(manifest).get("name"), *marks, manifest.get("spec")), order="sorted")
