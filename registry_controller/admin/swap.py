"""The swap as a value: the Clusters and Secrets that members lack of each other. Pure.

Laws: a member gets the Cluster and the Secret of another one as that one published them, and nothing else · members
that know each other get nothing · a swap that is done twice changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry_controller.admin.objects import key_of, state_of, with_id
from registry_controller.api import meta
from registry_controller.api.cluster import State
from registry_controller.api.errors import BadInput
from registry_controller.api.meta import GVR, ClusterUID, Manifest, ObjectKey
from registry_controller.core.decision.lost_cluster import restored_cluster

_LEFT_OUT: Final = frozenset({meta.KUBECTL_LAST_APPLIED, meta.GO_LAST_APPLIED, meta.OWNER, meta.PROVENANCE})

_OURS: Final = f"{meta.OWNER.partition('/')[0]}/"
"""The prefix of the annotations of a Secret that are shown: tools such as kapp keep the whole Secret in another one."""


class Action(enum.Enum):
    """The effect of a change."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Change:
    """One object to write at the member `at`, which is its index."""

    at: int
    action: Action
    gvr: GVR
    manifest: Manifest

    @property
    def what(self) -> str:
        """The object for people: `secret/a`."""
        return f"{self.gvr.resource.removesuffix('s')}/{key_of(self.manifest).name}"


@dataclass(frozen=True, slots=True)
class Membership:
    """One cluster with its published objects, and with its objects of the other members.

    `label` is its context. `own` and `secret` are its Cluster and Secret. `held` are the Secrets here at the keys that
    the Clusters of the other members name, None for a missing one.
    """

    label: str
    cluster_id: ClusterUID
    own: Manifest
    secret: Manifest
    clusters: Sequence[Manifest]
    held: Mapping[ObjectKey, Manifest | None]

    @property
    def name(self) -> str:
        """The name of its Cluster."""
        return key_of(self.own).name

    def cluster_of(self, other: Membership) -> Manifest | None:
        """Return the Cluster here of another member, under any name; the one of its name first."""
        found = sorted(with_id(self.clusters, other.cluster_id), key=lambda one: key_of(one).name != other.name)
        return found[0] if found else None

    def knows(self, other: Membership) -> bool:
        """Return whether both objects of another member are here."""
        return self.cluster_of(other) is not None and self.held.get(key_of(other.secret)) is not None


def plan_swap(members: Sequence[Membership], *, direct: bool = False) -> Sequence[Change]:
    """List the changes that make all members know each other, Secrets first.

    Members that know each other are parts of one group; the first member swaps with one member of each other part, and
    sync brings the rest. With `direct`, every two members swap. Raises BadInput for names that are in conflict.
    """
    check_names(members)
    pairs = [(i, j) for i in range(len(members)) for j in range(i + 1, len(members))]
    if not direct:
        pairs = _join_parts(members, pairs)
    changes = [change for i, j in pairs for change in (*_hand_over(members, i, j), *_hand_over(members, j, i))]
    renewed = [change for i, j in _ordered(len(members)) for change in _renew(members, i, j)]
    known = {(change.at, change.gvr, key_of(change.manifest)) for change in changes}
    changes += [one for one in renewed if (one.at, one.gvr, key_of(one.manifest)) not in known]
    return sorted(changes, key=lambda change: change.gvr is not meta.SECRETS)


def check_names(members: Sequence[Membership]) -> None:
    """Raise BadInput where a name stands for two clusters."""
    for i, j in _ordered(len(members)):
        giver, taker = members[i], members[j]
        if i < j and giver.name == taker.name:
            raise BadInput(
                f"--context {giver.label} and --context {taker.label}: both clusters have the name {giver.name}; "
                "rename one of them (docs/operations.md, Rename a cluster)"
            )
        if key_of(giver.secret) == key_of(taker.secret):
            raise BadInput(
                f"--context {giver.label} and --context {taker.label}: both Clusters name the Secret "
                f"{key_of(giver.secret)}; name another one in spec.authInfo.secretRef of one of them"
            )
        for cluster in taker.clusters:
            other_id = (cluster.get("spec") or {}).get("clusterID")
            if key_of(cluster).name == giver.name and other_id != giver.cluster_id:
                raise BadInput(
                    f"--context {taker.label}: has a Cluster {giver.name} with the ID {other_id}, and --context "
                    f"{giver.label} has the ID {giver.cluster_id}; if that cluster was rebuilt, delete its earlier "
                    f"Cluster and Secret in {taker.label}, or else rename one of them"
                )


def _ordered(size: int) -> Sequence[tuple[int, int]]:
    return [(i, j) for i in range(size) for j in range(size) if i != j]


def _join_parts(members: Sequence[Membership], pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs by which the first member is connected with each part of the group that it does not know."""
    part = list(range(len(members)))
    for i, j in pairs:
        if members[i].knows(members[j]) and members[j].knows(members[i]):
            old, new = sorted((part[i], part[j]), reverse=True)
            part = [new if found == old else found for found in part]
    firsts = [part.index(number) for number in dict.fromkeys(part)]
    return [(0, first) for first in firsts[1:]]


def _hand_over(members: Sequence[Membership], giver: int, taker: int) -> Sequence[Change]:
    one, other = members[giver], members[taker]
    found: list[Change] = []
    if other.held.get(key_of(one.secret)) is None:
        found.append(Change(taker, Action.CREATE, meta.SECRETS, carried_secret(one.secret)))
    if other.cluster_of(one) is None:
        wanted = restored_cluster(one.own, cluster_id=one.cluster_id)
        found.append(Change(taker, Action.CREATE, meta.CLUSTERS, _without_tools(wanted)))
    return found


def _renew(members: Sequence[Membership], giver: int, taker: int) -> Sequence[Change]:
    """Carry a Secret over again where the taker does not read the giver with the one that it has."""
    one, other = members[giver], members[taker]
    cluster, held = other.cluster_of(one), other.held.get(key_of(one.secret))
    if cluster is None or held is None or state_of(cluster) in (State.READY.value, ""):
        return ()
    if held.get("type") != meta.REGISTRY_SECRET_TYPE:
        raise BadInput(
            f"--context {other.label}: its Secret {key_of(held)} is of the type {held.get('type')}; delete it, and run "
            "this again"
        )
    if held.get("data") == one.secret.get("data"):
        return ()
    return [Change(taker, Action.UPDATE, meta.SECRETS, {**held, "data": one.secret.get("data")})]


def carried_secret(secret: Manifest) -> Manifest:
    """Return a published Secret as another cluster gets it."""
    info = meta.metadata_of(secret)
    return _without_tools(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": info["name"],
                "namespace": info["namespace"],
                "labels": dict(meta.labels_of(secret)),
                "annotations": dict(meta.annotations_of(secret)),
            },
            "type": secret.get("type"),
            "data": dict(secret.get("data") or {}),
        }
    )


def _without_tools(manifest: Manifest) -> Manifest:
    """Return an object without the records of kubectl, and without empty fields of its metadata."""
    info = dict(meta.metadata_of(manifest))
    for part in ("labels", "annotations"):
        kept = {name: text for name, text in (info.pop(part, None) or {}).items() if name not in _LEFT_OUT}
        if kept:
            info[part] = kept
    return {**manifest, "metadata": info}


def with_address(own: Manifest, *, address: str, ca_bundle: str) -> Manifest | None:
    """Return a Cluster that publishes this address and CA (base64); an empty one stays. None where it does already."""
    spec = own.get("spec") or {}
    endpoints: list[Any] = [dict(one) for one in spec.get("kubernetesApiEndpoints") or ()]
    index = next((at for at, one in enumerate(endpoints) if not one.get("clientNetwork")), None)
    before = endpoints[index] if index is not None else {}
    given = {"serverAddress": address, "caBundle": ca_bundle}
    wanted = {**before, **{name: text for name, text in given.items() if text}}
    if wanted == before:
        return None
    changed = [*endpoints, wanted] if index is None else [*endpoints[:index], wanted, *endpoints[index + 1 :]]
    return {**own, "spec": {**spec, "kubernetesApiEndpoints": changed}}


def redacted(manifest: Manifest) -> Manifest:
    """Return an object for output; of a Secret without its values, and without annotations that may repeat them."""
    if manifest.get("kind") != "Secret":
        return manifest
    hidden = {
        part: dict.fromkeys(manifest[part], "<redacted>") for part in ("data", "stringData") if manifest.get(part)
    }
    info = dict(meta.metadata_of(manifest))
    if info.get("annotations"):
        info["annotations"] = {
            name: text if name.startswith(_OURS) else "<redacted>"
            for name, text in info["annotations"].items()
            if name != meta.KUBECTL_LAST_APPLIED
        }
    return {**manifest, "metadata": info, **hidden}
