"""What people do in a schedule, to their own objects, to copies, rules, members and namespaces."""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence
from typing import Any

import orjson

from registry_controller.api import meta
from tests.sim.group import hand_over
from tests.sim.member import NAMESPACE, READER, Member
from tests.sim.oracle import key_of, marks_of
from tests.sim.stage import Stage, deed
from tests.sim.vocabulary import (
    BODY,
    CANARY,
    ELSEWHERE,
    KINDS,
    NAMES,
    NAMESPACES,
    SELECTIONS,
    SHAPES_OF,

    make_object,
    make_rule,
)

Names = Sequence[str]
FINALIZER = "sim.example/held"
HELD_KINDS = ("ConfigMap", "Secret", "Widget", "Region")


def _nothing(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return ()


def _place(chance: random.Random, who: str, names: Names, *, kinds: Sequence[str] = HELD_KINDS) -> tuple[Any, ...]:
    kind = chance.choice(kinds)
    namespace = "" if kind in ("Region", "Namespace") else chance.choices(NAMESPACES, (5, 3, 2))[0]
    return kind, namespace, chance.choice(NAMES)


def _object(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    more = [word for word, share in (("sync", 0.85), ("gold", 0.5), ("suffix", 0.7), ("disabled", 0.07),
                                     ("fixed", 0.06)) if chance.random() < share]  # fmt: skip
    kinds = chance.choices(KINDS, (6, 4, 6, 3, 1))
    return *_place(chance, who, names, kinds=kinds), f"v{chance.randrange(10**6)}", " ".join(more)


def _any(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    """Choose one of those that will be there: which, is seen then."""
    return (chance.randrange(1000),)


def _any_and_value(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return chance.randrange(1000), f"p{chance.randrange(10**6)}"


def _new(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return *_place(chance, who, names), f"p{chance.randrange(10**6)}"


def _rule(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    kind = chance.choices(KINDS, (6, 4, 6, 3, 1))[0]
    more = [word for word, share in (("gold", 0.25), ("targets", 0.2), ("makes", 0.3), ("stays", 0.25),
                                     ("suspended", 0.05)) if chance.random() < share]  # fmt: skip
    policy = chance.choice(("", "Orphan", "Delete", "Delete"))
    selection = chance.choices(SELECTIONS, (5, 2, 1, 1))[0]
    name = f"{kind.lower()}s-{chance.choice('12')}"
    return name, kind, chance.choice(SHAPES_OF[kind]), selection, policy, " ".join(more)


def _rule_name(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return (f"{chance.choice(KINDS).lower()}s-{chance.choice('12')}",)


def _other(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return (chance.choice([name for name in names if name != who]),)


# Their own objects.


@deed(_object, weight=30)
def puts(stage: Stage, member: Member, kind: str, namespace: str, name: str, value: str, more: str) -> bool:
    """Create an object, or change the own one that is there."""
    made = make_object(kind, namespace, name, value, more)
    found = member.find(kind, name, namespace=namespace)
    if found is None:
        member.create(made)
    elif stage.native_at(member, kind, namespace, name) is not None:
        member.replace({**found, **made, "metadata": {**found["metadata"], **made["metadata"]}})
    else:
        return False
    return True


@deed(_object, weight=4)
def puts_by_force(stage: Stage, member: Member, kind: str, namespace: str, name: str, value: str, more: str) -> bool:
    """Put an own object in the place of whatever is there: with a new uid."""
    if kind == "Namespace":
        return False
    member.replace_by_force(make_object(kind, namespace, name, value, more))
    return True


@deed(_any, weight=8)
def drops_one(stage: Stage, member: Member, which: int) -> bool:
    """Delete one of the own objects."""
    found = stage.natives(member, HELD_KINDS)
    if not found:
        return False
    drops(stage, member, *found[which % len(found)])
    return True


@deed(_place, weight=1)
def drops(stage: Stage, member: Member, kind: str, namespace: str, name: str) -> bool:
    """Delete an own object."""
    if stage.native_at(member, kind, namespace, name) is None:
        return False
    member.delete(kind, name, namespace=namespace)
    return True


@deed(lambda chance, who, names: (chance.randrange(1000), chance.randrange(9)), weight=4)
def tells(stage: Stage, member: Member, which: int, ready: int) -> bool:
    """Give an own object a status."""
    places = stage.natives(member, ("Widget", "Region"))
    found = stage.native_at(member, *places[which % len(places)]) if places else None
    if found is None:
        return False
    member.replace({**found, "status": {"ready": ready}}, subresource="status")
    return True


# Copies.


@deed(_any_and_value, weight=6)
def edits_copy(stage: Stage, member: Member, which: int, value: str) -> bool:
    """Change a copy."""
    found = stage.choose_copy(member, which)
    if found is None:
        return False
    kind = found["kind"]
    body = "data" if kind in ("ConfigMap", "Secret") else "spec"
    text = base64.b64encode((CANARY + value).encode()).decode() if kind == "Secret" else value
    member.replace({**found, body: {**(found.get(body) or {}), "value": text, "more": text}})
    return True


@deed(_any, weight=4)
def drops_copy(stage: Stage, member: Member, which: int) -> bool:
    """Delete a copy."""
    found = stage.choose_copy(member, which)
    if found is None:
        return False
    member.delete(found["kind"], found["metadata"]["name"], namespace=found["metadata"].get("namespace", ""))
    return True


def _annotate(stage: Stage, member: Member, which: int, changes: dict[str, str | None]) -> bool:
    found = stage.choose_copy(member, which)
    if found is None:
        return False
    annotations = {**(found["metadata"].get("annotations") or {}), **changes}
    kept = {name: text for name, text in annotations.items() if text is not None}
    member.replace({**found, "metadata": {**found["metadata"], "annotations": kept}})
    return True


@deed(_any, weight=3)
def makes_copy_its_own(stage: Stage, member: Member, which: int) -> bool:
    """Take all marks off a copy: it is native from then on."""
    return _annotate(stage, member, which, {meta.OWNER: None, meta.PROVENANCE: None})


@deed(_any, weight=2)
def takes_provenance_off(stage: Stage, member: Member, which: int) -> bool:
    """Take the provenance off a copy: it looks as the Go original leaves it."""
    return _annotate(stage, member, which, {meta.PROVENANCE: None})


@deed(_any, weight=2)
def freezes_copy(stage: Stage, member: Member, which: int) -> bool:
    """Say on a copy that it is to be left alone."""
    return _annotate(stage, member, which, {meta.SYNC_DISABLED: "true"})


@deed(_any, weight=2)
def thaws_copy(stage: Stage, member: Member, which: int) -> bool:
    """Say so no longer."""
    return _annotate(stage, member, which, {meta.SYNC_DISABLED: None})


@deed(_any, weight=2)
def forges_copy(stage: Stage, member: Member, which: int) -> bool:
    """Make a copy look newer than its source: as if the owner had been restored from a backup."""
    found = stage.choose_copy(member, which)
    said = marks_of(found).provenance if found is not None else {}
    if not said:
        return False
    source = {**said["source"], "resourceVersion": str(int(said["source"]["resourceVersion"]) + 10**6)}
    text = orjson.dumps({**said, "source": source}, option=orjson.OPT_SORT_KEYS).decode()
    return _annotate(stage, member, which, {meta.PROVENANCE: text})


@deed(lambda chance, who, names: (*_any(chance, who, names), chance.choice((0.5, 5.0, 20.0))), weight=3)
def holds_copy_while_it_goes(stage: Stage, member: Member, which: int, duration_s: float) -> bool:
    """Delete a copy that has a finalizer for a while."""
    found = stage.choose_copy(member, which)
    if found is None or found["metadata"].get("finalizers"):
        return False
    kind, (namespace, name) = found["kind"], key_of(found)
    member.replace({**found, "metadata": {**found["metadata"], "finalizers": [FINALIZER]}})
    member.delete(kind, name, namespace=namespace)

    def release() -> None:
        held = member.find(kind, name, namespace=namespace)
        if held is not None and held["metadata"].get("finalizers"):
            member.replace({**held, "metadata": {**held["metadata"], "finalizers": []}})

    stage.until(duration_s, release)
    return True


@deed(_new, weight=2)
def leaves_a_strangers_copy(stage: Stage, member: Member, kind: str, namespace: str, name: str, value: str) -> bool:
    """Create what looks like the copy of a cluster that nobody knows."""
    if kind not in BODY or member.find(kind, name, namespace=namespace) is not None:
        return False
    made = make_object(kind, namespace, name, value, "")
    made["metadata"]["annotations"][meta.OWNER] = "00000000-0000-4000-8000-000000000000"
    member.create(made)
    return True


@deed(lambda chance, who, names: (*_new(chance, who, names), *_other(chance, who, names)), weight=2)
def leaves_a_copy_by_go(
    stage: Stage, member: Member, kind: str, namespace: str, name: str, value: str, owner: str
) -> bool:
    """Create a copy as the Go original leaves it."""
    if kind not in BODY or member.find(kind, name, namespace=namespace) is not None:
        return False
    made = make_object(kind, namespace, name, value, "")
    made["metadata"]["annotations"] = {meta.OWNER: stage.group[owner].id, meta.GO_LAST_APPLIED: "UEsDBBQACAAI"}
    made["metadata"]["labels"] = {"sync": "yes", meta.OWNER: stage.group[owner].id}
    member.create(made)
    return True


# Rules and features.


@deed(_rule, weight=14)
def rules(stage: Stage, member: Member, name: str, kind: str, shape: str, selection: str, policy: str, more: str) -> bool:
    """Create a rule, or change the own one that is there."""
    made = make_rule(name, kind, shape, selection, policy, more)
    found = member.find("ResourceSyncRule", name)
    if found is None:
        member.create(made)
    elif marks_of(found).owner:
        return False
    else:
        annotations = made["metadata"].get("annotations") or {}
        member.replace({**found, "spec": made["spec"], "metadata": {**found["metadata"], "annotations": annotations}})
    return True


@deed(_any, weight=4)
def drops_one_rule(stage: Stage, member: Member, which: int) -> bool:
    """Delete one of the own rules."""
    found = stage.own_rules(member)
    if not found:
        return False
    member.delete("ResourceSyncRule", found[which % len(found)])
    return True


@deed(_rule_name, weight=1)
def drops_rule(stage: Stage, member: Member, name: str) -> bool:
    """Delete an own rule."""
    if stage.native_at(member, "ResourceSyncRule", "", name) is None:
        return False
    member.delete("ResourceSyncRule", name)
    return True


@deed(_rule, weight=6)
def edits_a_rule(
    stage: Stage, member: Member, name: str, kind: str, shape: str, selection: str, policy: str, more: str
) -> bool:
    """Change the first of the own rules of that kind, if there is one."""
    names = [found for found in stage.own_rules(member) if found.startswith(kind.lower())]
    return bool(names) and rules(stage, member, names[0], kind, shape, selection, policy, more)


@deed(_any, weight=3)
def suspends(stage: Stage, member: Member, which: int) -> bool:
    """Suspend one of the own rules, or let it go on."""
    names = stage.own_rules(member)
    if not names:
        return False
    found = member.get("ResourceSyncRule", names[which % len(names)])
    member.replace({**found, "spec": {**found["spec"], "suspend": not found["spec"].get("suspend")}})
    return True


@deed(_nothing, weight=4)
def turns_gold(stage: Stage, member: Member) -> None:
    """Make the feature that some rules ask for, or take it away."""
    if member.find("ClusterFeature", "gold") is None:
        member.create({"kind": "ClusterFeature", "metadata": {"name": "gold"}, "spec": {"featureName": "gold"}})
    else:
        member.delete("ClusterFeature", "gold")


# Namespaces.


@deed(lambda chance, who, names: (chance.choice(("extra", "team", ELSEWHERE)),), weight=3)
def makes_namespace(stage: Stage, member: Member, name: str) -> bool:
    """Make a namespace."""
    if member.find("Namespace", name) is not None:
        return False
    member.create({"kind": "Namespace", "metadata": {"name": name}})
    return True


@deed(lambda chance, who, names: (chance.choice(("extra", "team", ELSEWHERE)),), weight=2)
def drops_namespace(stage: Stage, member: Member, name: str) -> bool:
    """Delete a namespace with all that is in it."""
    if member.find("Namespace", name) is None:
        return False
    member.delete("Namespace", name)
    return True


@deed(lambda chance, who, names: (chance.choice(NAMES), f"v{chance.randrange(10**6)}"), weight=2)
def lives_in_a_copied_namespace(stage: Stage, member: Member, name: str, value: str) -> bool:
    """Make an own object in a namespace that came from another cluster."""
    found = stage.copy_at(member, "Namespace", "", name)
    if found is None or found["metadata"].get("deletionTimestamp"):
        return False
    if member.find("ConfigMap", "native", namespace=name) is None:
        member.create(make_object("ConfigMap", name, "native", value, ""))
    return True


# Members.


@deed(_other, weight=2)
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


@deed(_other, weight=2)
def swaps(stage: Stage, member: Member, peer: str) -> None:
    """Carry two Clusters with their Secrets to each other, if they are not there."""
    for giver, taker in ((member, stage.group[peer]), (stage.group[peer], member)):
        if giver.find("Cluster", giver.name) and giver.find("Secret", giver.name, namespace=NAMESPACE):
            hand_over(giver, taker)


@deed(_other, weight=2)
def forgets_member(stage: Stage, member: Member, peer: str) -> bool:
    """Delete another member's Cluster here."""
    if member.find("Cluster", peer) is None:
        return False
    member.delete("Cluster", peer)
    return True


@deed(_other, weight=1)
def names_anothers_secret(stage: Stage, member: Member, peer: str) -> bool:
    """Make a Cluster, of nobody, that names the Secret of another member; take it away at the end.

    It stays here: what its owner never said goes from member to member for ever.
    """
    if member.find("Cluster", "nobody") is not None:
        return False
    reference = {"name": peer, "namespace": NAMESPACE}
    spec = {"clusterID": "99999999-0000-4000-8000-000000000000", "authInfo": {"secretRef": reference}}
    info = {"name": "nobody", "annotations": {meta.SYNC_DISABLED: "true"}}
    member.create({"kind": "Cluster", "metadata": info, "spec": spec})
    stage.at_the_end(lambda: member.delete("Cluster", "nobody"))
    return True


@deed(_nothing, weight=1)
def leaves_a_secret_of_nobody(stage: Stage, member: Member) -> bool:
    """Make a registry Secret that no Cluster names."""
    if member.find("Secret", "nobody", namespace=NAMESPACE) is not None:
        return False
    info = {"name": "nobody", "namespace": NAMESPACE}
    member.create({"kind": "Secret", "metadata": info, "type": meta.REGISTRY_SECRET_TYPE, "stringData": {"a": "b"}})
    return True


@deed(_nothing, weight=2)
def rotates(stage: Stage, member: Member) -> bool:
    """Take the published token away; the new one has to be carried, because nobody can read it any more."""
    name = f"{READER}-token"
    if member.find("Secret", name, namespace=NAMESPACE) is None:
        return False
    member.delete("Secret", name, namespace=NAMESPACE)
    return True


@deed(_other, weight=2)
def carries_credentials(stage: Stage, member: Member, peer: str) -> bool:
    """Carry the present Secret of a member to another one, over the one that is there."""
    return carry_secret(member, stage.group[peer])


def carry_secret(giver: Member, taker: Member) -> bool:
    """Put a member's present credentials into the Secret that another one has of it."""
    found = giver.find("Secret", giver.name, namespace=NAMESPACE)
    held = taker.find("Secret", giver.name, namespace=NAMESPACE)
    if found is None or held is None or held["data"] == found["data"]:
        return False
    taker.replace({**held, "data": found["data"]})
    return True


@deed(_other, weight=1)
def forges_address(stage: Stage, member: Member, peer: str) -> bool:
    """Change the address in the Secret that is here of another member, and say that it is newer than hers."""
    found = stage.copy_at(member, "Secret", NAMESPACE, peer)
    said = marks_of(found).provenance if found is not None else {}
    if found is None or not said:
        return False
    text = base64.b64decode(found["data"][meta.KUBECONFIG_KEY]).decode().replace(f"https://{peer}.", "https://evil.")
    source = {**said["source"], "resourceVersion": str(int(said["source"]["resourceVersion"]) + 10**6)}
    marks = orjson.dumps({**said, "source": source}, option=orjson.OPT_SORT_KEYS).decode()
    annotations = {**found["metadata"]["annotations"], meta.PROVENANCE: marks}
    data = {meta.KUBECONFIG_KEY: base64.b64encode(text.encode()).decode()}
    member.replace({**found, "data": data, "metadata": {**found["metadata"], "annotations": annotations}})
    return True


@deed(_nothing, weight=1)
def leaves(stage: Stage, member: Member) -> bool:
    """Delete the own Cluster: the member leaves, until it comes back at the end."""
    if member.find("Cluster", member.name) is None:
        return False
    member.delete("Cluster", member.name)
    return True


