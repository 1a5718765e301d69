"""What people do in a schedule to the group itself: swaps, credentials, members that come and go."""

from __future__ import annotations

import base64
from typing import Any

import orjson

from registry_controller.api import meta
from registry_controller.api.tombstone import Tombstone, tombstone_manifest
from registry_controller.core.decision.tombstones import LASTS
from registry_controller.membership.quota import MOST_OF_ONE
from tests.sim.checks.expected_copies import marks_of
from tests.sim.cluster.clock import today
from tests.sim.cluster.group import carry_over, hand_over
from tests.sim.cluster.member import NAMESPACE, READER, Member
from tests.sim.schedule.drawing import another, nothing
from tests.sim.schedule.object_acts import has_features
from tests.sim.schedule.stage import Stage, deed
from tests.sim.schedule.vocabulary import ADDED_LABEL, CHOSEN, EVIL


@deed(another, weight=2)
def disables(stage: Stage, member: Member, peer: str) -> bool:
    """Stop reading a peer, or read it again."""
    found = member.find("Cluster", peer)
    if found is None:
        return False
    annotations = dict(found["metadata"].get("annotations") or {})
    disabled = annotations.pop(meta.CLUSTER_DISABLED, None)
    annotations |= {} if disabled else {meta.CLUSTER_DISABLED: "true"}
    member.replace({**found, "metadata": {**found["metadata"], "annotations": annotations}})
    stage.at_the_end(lambda: enable(member, peer))
    return True


def enable(member: Member, peer: str) -> None:
    """Read a peer again."""
    found = member.find("Cluster", peer)
    if found is not None and meta.CLUSTER_DISABLED in (found["metadata"].get("annotations") or {}):
        kept = {key: text for key, text in found["metadata"]["annotations"].items() if key != meta.CLUSTER_DISABLED}
        member.replace({**found, "metadata": {**found["metadata"], "annotations": kept}})


@deed(another, weight=2)
def swaps(stage: Stage, member: Member, peer: str) -> None:
    """Carry two Clusters with their Secrets to each other, if they are not there."""
    for giver, taker in ((member, stage.group[peer]), (stage.group[peer], member)):
        if giver.find("Cluster", giver.name) and giver.find("Secret", giver.published, namespace=NAMESPACE):
            hand_over(giver, taker)


@deed(
    lambda chance, who, names: (*another(chance, who, names), chance.choice((None, None, None, 0.0, 0.3, 2.5))),
    weight=2,
)
def forgets_member(stage: Stage, member: Member, peer: str, after_s: float | None = None) -> bool:
    """Delete another member's Cluster here: so long after the deletion of its own one there, or that one alone."""
    other = stage.group[peer]
    if member.find("Cluster", peer) is None:
        return False
    if after_s is None or other.daemon is None or not has_one_name(stage, other):
        member.delete("Cluster", peer)
        return True

    def forget() -> None:
        if member.find("Cluster", peer) is not None:
            member.delete("Cluster", peer)

    other.delete("Cluster", peer)
    stage.until(after_s, forget)
    return True


@deed(another, weight=1)
def names_anothers_secret(stage: Stage, member: Member, peer: str) -> bool:
    """Make a Cluster, of nobody, that names the Secret of another member; take it away at the end.

    It stays here: what its owner never said goes from member to member for ever.
    """
    if member.find("Cluster", "nobody") is not None:
        return False
    reference = {"name": stage.group[peer].published, "namespace": NAMESPACE}
    spec = {"clusterID": "99999999-0000-4000-8000-000000000000", "authInfo": {"secretRef": reference}}
    info = {"name": "nobody", "annotations": {meta.SYNC_DISABLED: "true"}}
    member.create({"kind": "Cluster", "metadata": info, "spec": spec})
    stage.at_the_end(lambda: _forget(member, "nobody"))
    return True


def _forget(member: Member, name: str) -> None:
    if member.find("Cluster", name) is not None:
        member.delete("Cluster", name)


@deed(nothing, weight=0)
def has_many_names(stage: Stage, member: Member) -> bool:
    """Make more Clusters of the own ID than others take; take them away at the end.

    Not while the own Cluster is missing or going: one of these would be made again in its place, under another name.
    """
    own = member.find("Cluster", member.name)
    if own is None or "deletionTimestamp" in own["metadata"]:
        return False
    names = [f"{member.name}-{number}" for number in range(MOST_OF_ONE + 1)]
    if stage.rebuilt or not has_one_name(stage, member):
        return False
    for name in names:
        member.create({"kind": "Cluster", "metadata": {"name": name}, "spec": {"clusterID": member.id}})
        stage.at_the_end(lambda name=name: _forget(member, name))  # type: ignore[misc]
    return True


@deed(nothing, weight=1)
def leaves_a_secret_of_nobody(stage: Stage, member: Member) -> bool:
    """Make a registry Secret that no Cluster names."""
    if member.find("Secret", "nobody", namespace=NAMESPACE) is not None:
        return False
    info = {"name": "nobody", "namespace": NAMESPACE}
    member.create({"kind": "Secret", "metadata": info, "type": meta.REGISTRY_SECRET_TYPE, "stringData": {"a": "b"}})
    return True


@deed(nothing, weight=2)
def rotates(stage: Stage, member: Member) -> bool:
    """Take the published token away; the new one has to be carried, because nobody can read it any more."""
    name = f"{READER}-token"
    if member.find("Secret", name, namespace=NAMESPACE) is None:
        return False
    member.delete("Secret", name, namespace=NAMESPACE)
    return True


@deed(nothing, weight=1)
def drops_published_secret(stage: Stage, member: Member) -> bool:
    """Delete the Secret in which the own credentials are published; the daemon makes it again."""
    if member.find("Secret", member.published, namespace=NAMESPACE) is None:
        return False
    member.delete("Secret", member.published, namespace=NAMESPACE)
    return True


@deed(another, weight=2)
def carries_credentials(stage: Stage, member: Member, peer: str) -> bool:
    """Carry the present Secret of a member to another one, over the one that is there."""
    return carry_secret(member, stage.group[peer])


def carry_secret(giver: Member, taker: Member) -> bool:
    """Put a member's present credentials into the Secret that another one has of it."""
    found = giver.find("Secret", giver.published, namespace=NAMESPACE)
    held = taker.find("Secret", giver.published, namespace=NAMESPACE)
    if found is None or held is None or held["data"] == found["data"]:
        return False
    taker.replace({**held, "data": found["data"]})
    return True


def carry_reference(giver: Member, taker: Member) -> bool:
    """Name a member's present Secret in the Cluster that another one has of it and cannot read."""
    found, held = giver.find("Cluster", giver.name), taker.find("Cluster", giver.name)
    if found is None or held is None or found["spec"].get("authInfo") == held["spec"].get("authInfo"):
        return False
    if taker.condition("Cluster", giver.name, "Ready").get("status") == "True":
        return False
    taker.replace({**held, "spec": {**held["spec"], "authInfo": found["spec"].get("authInfo")}})
    return True


def carry_rebuilt(giver: Member, taker: Member) -> bool:
    """Carry a Cluster and its Secret over a Cluster of a former ID that a person carried: nobody else does (P11)."""
    held = taker.find("Cluster", giver.name)
    if giver.find("Cluster", giver.name) is None or not giver.find("Secret", giver.published, namespace=NAMESPACE):
        return False
    if held is None or held["spec"]["clusterID"] == giver.id or marks_of(held).owner:
        return False
    carry_over(giver, taker)
    return True


@deed(another, weight=1)
def forges_address(stage: Stage, member: Member, peer: str) -> bool:
    """Change the address in the Secret that is here of another member, and say that it is newer than hers."""
    found = stage.copy_at(member, ("Secret", NAMESPACE, stage.group[peer].published))
    said = marks_of(found).provenance if found is not None else {}
    if found is None or not said:
        return False
    text = base64.b64decode(found["data"][meta.KUBECONFIG_KEY]).decode().replace(f"https://{peer}.", EVIL)
    _forge(member, {**found, "data": {meta.KUBECONFIG_KEY: base64.b64encode(text.encode()).decode()}})
    return True


@deed(another, weight=1)
def forges_endpoint(stage: Stage, member: Member, peer: str) -> bool:
    """Give the Cluster that is here of another member an endpoint of one's own, and say that it is newer than hers."""
    found = stage.copy_at(member, ("Cluster", "", peer))
    if found is None or not marks_of(found).provenance:
        return False
    endpoints = [{"serverAddress": f"{EVIL}sim:6443"}]
    _forge(member, {**found, "spec": {**found["spec"], "kubernetesApiEndpoints": endpoints}})
    return True


def take_forgery_back(member: Member, peer: str) -> bool:
    """Take forged endpoints off the Cluster that is here of another member."""
    found = member.find("Cluster", peer)
    if found is None or EVIL not in str(found["spec"].get("kubernetesApiEndpoints")):
        return False
    spec = {name: value for name, value in found["spec"].items() if name != "kubernetesApiEndpoints"}
    member.replace({**found, "spec": spec})
    return True


def _forge(member: Member, manifest: dict[str, Any]) -> None:
    """Write a copy that says to be of a far later state of its source."""
    said = marks_of(manifest).provenance
    source = {**said["source"], "resourceVersion": str(int(said["source"]["resourceVersion"]) + 10**6)}
    marks = orjson.dumps({**said, "source": source}, option=orjson.OPT_SORT_KEYS).decode()
    annotations = {**manifest["metadata"]["annotations"], meta.PROVENANCE: marks}
    member.replace({**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}})


@deed(lambda chance, who, names: (*another(chance, who, names), chance.random() < 0.5), weight=1)
def declares_left(stage: Stage, member: Member, peer: str, has_more: bool = False) -> bool:
    """Say that a member has left, whether it is dead or not; `has_more`: as a later version says it."""
    found = stage.copy_at(member, ("Cluster", "", peer))
    if found is None or not marks_of(found).provenance or not has_features(member):
        return False
    said = marks_of(found).provenance
    until = today() + LASTS
    stone = Tombstone(found["spec"]["clusterID"], said["source"]["uid"], member.id, until)
    if member.find("ClusterFeature", stone.name) is not None:
        return False
    member.create(tombstone_manifest(stone, ordered=True, further={ADDED_LABEL: "yes"} if has_more else None))
    return True


@deed(lambda chance, who, names: (chance.random() < 0.5,), weight=1)
def leaves(stage: Stage, member: Member, has_more: bool = False) -> bool:
    """Bid farewell: the member leaves, until it comes back at the end; `has_more`: as a later version says it.

    Not one with several names, which `leave` refuses. Not one that was built anew: those who have not heard of that
    yet would bring the old one back under its name, and that is for people to clear up. Not one of which a clone runs:
    the clone would go on as the member, and the cluster would come back under its name.
    """
    own = member.find("Cluster", member.name)
    if own is None or own["metadata"].get("deletionTimestamp") or not has_one_name(stage, member):
        return False
    if stage.group.has_clone(member.name) or not has_features(member):
        return False
    stone = Tombstone(member.id, own["metadata"]["uid"], member.id, today() + LASTS)
    if member.find("ClusterFeature", stone.name) is None:
        further = {ADDED_LABEL: "yes"} if has_more else None
        member.create(tombstone_manifest(stone, secret=f"{NAMESPACE}/{member.name}", ordered=True, further=further))
    member.delete("Cluster", member.name)
    return True


@deed(nothing, weight=2)
def loses_its_own_cluster(stage: Stage, member: Member) -> bool:
    """Delete the own Cluster; the daemon makes it again."""
    if not has_one_name(stage, member):
        return False
    member.delete("Cluster", member.name)
    return True


@deed(nothing, weight=0)
def labels_its_own_cluster(stage: Stage, member: Member) -> bool:
    """Give the own Cluster the label by which some rules choose their clusters, or take it away."""
    found = member.find("Cluster", member.name)
    if found is None or member.name in stage.rebuilt or found["metadata"].get("deletionTimestamp"):
        return False
    labels = dict(found["metadata"].get("labels") or {})
    (name, value), *_ = CHOSEN.items()
    if labels.pop(name, None) is None:
        labels[name] = value
    member.replace({**found, "metadata": {**found["metadata"], "labels": labels}})
    return True


@deed(lambda chance, who, names: (chance.choice((0.5, 5.0, 20.0, 100.0)),), weight=0)
def holds_its_own_cluster_while_it_goes(stage: Stage, member: Member, duration_s: float) -> bool:
    """Delete the own Cluster, which has a foreign finalizer for a while: until then it is there."""
    if not has_one_name(stage, member) or not member.server.serves("Cluster"):
        return False
    found = member.get("Cluster", member.name)
    if found["metadata"].get("finalizers"):
        return False
    member.replace({**found, "metadata": {**found["metadata"], "finalizers": ["sim.example/held"]}})
    member.delete("Cluster", member.name)

    def release() -> None:
        held = member.find("Cluster", member.name)
        if held is not None and held["metadata"].get("finalizers"):
            member.replace({**held, "metadata": {**held["metadata"], "finalizers": []}})

    stage.until(duration_s, release)
    return True


def has_one_name(stage: Stage, member: Member) -> bool:
    """Say whether the own Cluster is made again under the name that the rest of the schedule expects."""
    own = [one["metadata"]["name"] for one in member.list("Cluster") if one["spec"].get("clusterID") == member.id]
    return own == [member.name] and member.name not in stage.rebuilt


@deed(lambda chance, who, names: (chance.choice((0.3, 2.0, 20.0)), chance.random() < 0.5), weight=3)
def replaces_its_own_cluster(stage: Stage, member: Member, pause_s: float, labelled: bool) -> bool:
    """Delete the own Cluster, and create it again in a moment, if the daemon has not."""
    if not has_one_name(stage, member):
        return False
    found = member.get("Cluster", member.name)
    info = {"name": member.name, **({"labels": {"again": "yes"}} if labelled else {})}
    again = {"kind": "Cluster", "metadata": info, "spec": found["spec"]}

    def create() -> None:
        is_there = member.find("Cluster", member.name) is not None
        if not is_there and member.name not in stage.rebuilt and member.server.serves("Cluster"):
            member.create(again)

    member.delete("Cluster", member.name)
    stage.until(pause_s, create)
    return True
