"""What people do in a schedule to their own objects, to rules, features and namespaces."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from registry_controller.api import meta
from tests.sim.checks.expected_copies import marks_of
from tests.sim.cluster.group import rule
from tests.sim.cluster.member import Member
from tests.sim.cluster.refusal import Refusal
from tests.sim.schedule.drawing import HELD_KINDS, a_naming, a_place, a_rule, a_rule_name, an_object, nothing, one
from tests.sim.schedule.stage import Spot, Stage, deed
from tests.sim.schedule.vocabulary import (
    BODY,
    ELSEWHERE,
    LETS_IN,
    NAMED_BY_OWNER,
    NAMES,
    NOWHERE,
    Wish,
    gvk,
    make_object,
    make_rule,
)

REFUSED = {
    "RightsEscalation": "is attempting to grant RBAC permissions not currently held:",
    "QuotaExceeded": "it is forbidden: exceeded quota: small, requested: count/configmaps=1",
    "PodSecurityViolation": 'it is forbidden: violates PodSecurity "restricted:latest": privileged',
    "LimitRangeViolation": "it is forbidden: maximum cpu usage per Container is 1, but limit is 2",
}
"""How an API server refuses, by the reason that a rule's status gives."""

_MOMENTS_S = (0.3, 3.0, 20.0)

# Their own objects.


@deed(an_object, weight=30)
def puts(stage: Stage, member: Member, place: Spot, value: str, more: str) -> bool:
    """Create an object, or change the own one that is there."""
    made = make_object(place, value, more)
    found = stage.find(member, place)
    if found is None:
        member.create(made)
    elif stage.native_at(member, place) is not None:
        member.replace({**found, **made, "metadata": {**found["metadata"], **made["metadata"]}})
    else:
        return False
    return True


@deed(an_object, weight=4)
def puts_by_force(stage: Stage, member: Member, place: Spot, value: str, more: str) -> bool:
    """Put an own object in the place of whatever is there: with a new uid."""
    if place[0] == "Namespace":
        return False
    member.replace_by_force(make_object(place, value, more))
    return True


@deed(lambda chance, who, names: (chance.choice(("default", "team")), f"v{chance.randrange(10**6)}"), weight=2)
def has_what_stays_at_home(stage: Stage, member: Member, namespace: str, value: str) -> None:
    """Make what each cluster has for itself: the certificates of its API server, and something of Kubernetes' own.

    The first comes by no label either, nor by its namespace.
    """
    for place, more in (((namespace, "kube-root-ca.crt"), "sync"), (("kube-system", "x"), "")):
        member.apply(make_object(("ConfigMap", *place), value, more))


@deed(one, weight=8)
def drops_one(stage: Stage, member: Member, which: int) -> bool:
    """Delete one of the own objects."""
    found = stage.natives(member, HELD_KINDS)
    if not found:
        return False
    drops(stage, member, found[which % len(found)])
    return True


@deed(a_place, weight=1)
def drops(stage: Stage, member: Member, place: Spot) -> bool:
    """Delete an own object."""
    kind, namespace, name = place
    if stage.native_at(member, place) is None:
        return False
    member.delete(kind, name, namespace=namespace)
    return True


@deed(lambda chance, who, names: (*one(chance, who, names), chance.choice((*_MOMENTS_S, 50.0))), weight=10)
def hides_an_object(stage: Stage, member: Member, which: int, pause_s: float) -> bool:
    """Take from an own object what rules select it by, and give it back in a moment, or after a while."""
    places = [place for place in stage.natives(member, HELD_KINDS) if _is_selected(stage.find(member, place))]
    places = [place for place in places if _is_copied_to_go(stage, member, place)] or places
    if not places:
        return False
    place = places[which % len(places)]
    found, body = member.get(place[0], place[2], namespace=place[1]), BODY[place[0]]
    hidden = {**found, "metadata": {**found["metadata"], "labels": {}}}
    if "tier" in (found.get(body) or {}) and not found.get("immutable"):
        hidden[body] = {name: value for name, value in found[body].items() if name != "tier"}

    def give_back() -> None:
        now = stage.native_at(member, place)
        if now is None or (now["metadata"]["uid"], now["metadata"].get("labels")) != (found["metadata"]["uid"], {}):
            return
        shown = {**now, "metadata": {**now["metadata"], "labels": found["metadata"]["labels"]}}
        member.replace(shown | ({body: found[body]} if hidden.get(body) == now.get(body) and body else {}))

    member.replace(hidden)
    stage.until(pause_s, give_back)
    return True


Naming = tuple[str | None, str | None]
"""The names and the selector in the annotations of an object; None for no such annotation."""


@deed(a_naming, weight=0)
def names_clusters(stage: Stage, member: Member, which: int, naming: Naming) -> bool:
    """Say on an own object which clusters are to copy it, or say so no longer."""
    places = stage.natives(member, HELD_KINDS)
    return bool(places) and names_clusters_for(stage, member, places[which % len(places)], naming)


@deed(lambda chance, who, names: (*a_place(chance, who, names), a_naming(chance, who, names)[1]), weight=0)
def names_clusters_for(stage: Stage, member: Member, place: Spot, naming: Naming) -> bool:
    """Say so on the own object at a place."""
    found = stage.native_at(member, place)
    if found is None or found["metadata"].get("deletionTimestamp"):
        return False
    said = dict(zip((meta.TARGET_CLUSTERS, meta.TARGET_CLUSTER_SELECTOR), naming, strict=True))
    annotations = {**(found["metadata"].get("annotations") or {}), **said}
    kept = {name: text for name, text in annotations.items() if text is not None}
    member.replace({**found, "metadata": {**found["metadata"], "annotations": kept}})
    return True


def _is_copied_to_go(stage: Stage, member: Member, place: Spot) -> bool:
    """Say whether an object has a copy somewhere that goes when its rule does not want it."""
    found = (item for peer in stage.group.members if peer is not member for item in peer.list(place[0]))
    copied = (marks_of(item).provenance for item in found if marks_of(item).owner == member.id)
    return any(
        one.get("policy") == "Delete" and (one["source"]["namespace"], one["source"]["name"]) == place[1:]
        for one in copied
        if one
    )


def _is_selected(found: dict[str, Any] | None) -> bool:
    is_going = found is None or bool(found["metadata"].get("deletionTimestamp"))
    return not is_going and found is not None and (found["metadata"].get("labels") or {}).get("sync") == "yes"


@deed(lambda chance, who, names: (chance.randrange(1000), chance.randrange(9)), weight=4)
def tells(stage: Stage, member: Member, which: int, ready: int) -> bool:
    """Give an own object a status."""
    places = stage.natives(member, ("Widget", "Region"))
    found = stage.native_at(member, places[which % len(places)]) if places else None
    if found is None:
        return False
    member.replace({**found, "status": {"ready": ready}}, subresource="status")
    return True


# Rules and features.


@deed(a_rule, weight=14)
def rules(stage: Stage, member: Member, name: str, wish: Wish) -> bool:
    """Create a rule, or change the own one that is there."""
    made = make_rule(name, wish)
    found = member.find("ResourceSyncRule", name)
    if found is None:
        member.create(made)
    elif marks_of(found).owner:
        return False
    else:
        annotations = made["metadata"].get("annotations") or {}
        member.replace({**found, "spec": made["spec"], "metadata": {**found["metadata"], "annotations": annotations}})
    return True


@deed(one, weight=4)
def drops_one_rule(stage: Stage, member: Member, which: int) -> bool:
    """Delete one of the own rules."""
    found = stage.own_rules(member)
    if not found:
        return False
    member.delete("ResourceSyncRule", found[which % len(found)])
    return True


@deed(a_rule_name, weight=1)
def drops_rule(stage: Stage, member: Member, name: str) -> bool:
    """Delete an own rule."""
    if stage.native_at(member, ("ResourceSyncRule", "", name)) is None:
        return False
    member.delete("ResourceSyncRule", name)
    return True


@deed(a_rule, weight=6)
def edits_a_rule(stage: Stage, member: Member, name: str, wish: Wish) -> bool:
    """Change the first of the own rules of that kind, if there is one."""
    names = [found for found in stage.own_rules(member) if found.startswith(wish[0].lower())]
    return bool(names) and rules(stage, member, names[0], wish)


@deed(a_rule, weight=4)
def lets_a_rule_read_another_kind(stage: Stage, member: Member, name: str, wish: Wish) -> bool:
    """Change one of the own rules into one that reads another kind; its name stays."""
    for found in stage.own_rules(member):
        if member.get("ResourceSyncRule", found)["spec"]["groupVersionKind"] != gvk(wish[0]):
            return rules(stage, member, found, wish)
    return False


@deed(
    lambda chance, who, names: (
        *one(chance, who, names), chance.choice(("no namespace", "taken", "refused")), chance.choice((8.0, 40.0, 90.0))
    ),
    weight=6,
)  # fmt: skip
def moves_copies_in_vain(stage: Stage, member: Member, which: int, obstacle: str, duration_s: float) -> bool:
    """Let an own rule give its copies other names, or another namespace, that cannot be made here for a while."""
    names = [name for name in stage.own_rules(member) if _reads_namespaced(member.get("ResourceSyncRule", name))]
    names = [name for name in names if any(_made_by(stage, member, name))] or names
    if not names:
        return False
    found = member.get("ResourceSyncRule", names[which % len(names)])
    field, value = ("namespace", NOWHERE) if obstacle == "no namespace" else ("name", NAMED_BY_OWNER)
    override = {"type": "replace", "path": f"/metadata/{field}", "value": value}
    entries = [{**entry, "mutations": {"overrides": [override]}} for entry in found["spec"]["rules"]]
    kind, clear = found["spec"]["groupVersionKind"]["kind"], list[Callable[[], object]]()
    for peer in stage.group.members if obstacle != "no namespace" else ():
        for _, namespace, name in stage.natives(peer, (kind,)) if peer is not member else ():
            place = (kind, namespace, f"{name}-{peer.name}")
            if obstacle == "refused":
                clear.append(refuse(member, place))
            elif member.find("Namespace", namespace) is not None and stage.find(member, place) is None:
                member.create(make_object(place, "taken", ""))
                clear.append(functools.partial(drops, stage, member, place))

    def mend() -> None:
        if obstacle == "no namespace" and member.find("Namespace", NOWHERE) is None:
            member.create({"kind": "Namespace", "metadata": {"name": NOWHERE}})
        for one_of_them in clear:
            one_of_them()

    member.replace({**found, "spec": {**found["spec"], "rules": entries}})
    stage.until(duration_s, mend)
    return True


def _reads_namespaced(made: dict[str, Any]) -> bool:
    """Say whether a rule reads objects with a namespace, whatever its name says: it may have read another kind."""
    return made["spec"]["groupVersionKind"]["kind"] in ("ConfigMap", "Secret", "Widget")


def _made_by(stage: Stage, member: Member, rule_name: str) -> Iterator[str]:
    for kind in HELD_KINDS:
        for copy in member.list(kind):
            if marks_of(copy).provenance.get("rule") == rule_name:
                yield kind


def refuse(member: Member, place: Spot) -> Callable[[], object]:
    """Let a policy of a cluster refuse to write an object of that kind and name; return how it ends."""
    denied, one_name = member.server.denied, f"{place[0]} {place[2]}"
    denied.add(one_name)
    return functools.partial(denied.discard, one_name)


@deed(
    lambda chance, who, names: (chance.choice(sorted(REFUSED)), chance.choice(NAMES), chance.choice((8.0, 30.0))),
    weight=4,
)
def refuses_copies(stage: Stage, member: Member, reason: str, name: str, duration_s: float) -> None:
    """Refuse every ConfigMap of a name, and every Widget, for a while, as a quota or another admission does."""
    places = [f"{kind} {name}" for kind in ("ConfigMap", "Widget")]
    for place in places:
        member.server.refused[place] = Refusal(403, "Forbidden", REFUSED[reason])
    stage.until(duration_s, lambda: [member.server.refused.pop(place, None) for place in places] and None)


@deed(one, weight=3)
def suspends(stage: Stage, member: Member, which: int) -> bool:
    """Suspend one of the own rules, or let it go on."""
    names = stage.own_rules(member)
    if not names:
        return False
    found = member.get("ResourceSyncRule", names[which % len(names)])
    member.replace({**found, "spec": {**found["spec"], "suspend": not found["spec"].get("suspend")}})
    return True


@deed(nothing, weight=4)
def turns_gold(stage: Stage, member: Member) -> bool:
    """Make the feature that some rules ask for, or take it away."""
    if not has_features(member):
        return False
    if member.find("ClusterFeature", "gold") is None:
        member.create({"kind": "ClusterFeature", "metadata": {"name": "gold"}, "spec": {"featureName": "gold"}})
    else:
        member.delete("ClusterFeature", "gold")
    return True


def has_features(member: Member) -> bool:
    """Say whether ClusterFeatures can be made here now."""
    return member.server.serves("ClusterFeature") and not member.server.is_terminating("ClusterFeature")


@deed(lambda chance, who, names: (*one(chance, who, names), chance.choice(_MOMENTS_S)), weight=3)
def replaces_a_rule(stage: Stage, member: Member, which: int, pause_s: float) -> bool:
    """Delete one of the own rules, and create it again in a moment, as `kubectl replace --force` does."""
    names = stage.own_rules(member)
    return bool(names) and _replace(stage, member, "ResourceSyncRule", names[which % len(names)], pause_s=pause_s)


@deed(lambda chance, who, names: (chance.choice(_MOMENTS_S),), weight=3)
def replaces_the_feature(stage: Stage, member: Member, pause_s: float) -> bool:
    """Delete the feature that some rules ask for, and create it again in a moment."""
    return _replace(stage, member, "ClusterFeature", "gold", pause_s=pause_s)


def _replace(stage: Stage, member: Member, kind: str, name: str, *, pause_s: float) -> bool:
    found = member.find(kind, name)
    if found is None:
        return False
    annotations = found["metadata"].get("annotations") or {}
    again = {"kind": kind, "metadata": {"name": name, "annotations": annotations}, "spec": found["spec"]}

    def create() -> None:
        server = member.server
        if member.find(kind, name) is None and server.serves(kind) and not server.is_terminating(kind):
            member.create(again)

    member.delete(kind, name)
    stage.until(pause_s, create)
    return True


@deed(lambda chance, who, names: (chance.choice(NAMES), f"v{chance.randrange(10**6)}"), weight=0)
def shares_what_lets_in(stage: Stage, member: Member, name: str, value: str) -> bool:
    """Have what lets in whoever holds it, and a rule that asks for such: from another cluster it does nothing."""
    found = stage.find(member, ("Secret", "default", name))
    if found is not None or member.find("ResourceSyncRule", "letting-in") is not None:
        return False
    member.create({**make_object(("Secret", "default", name), value, "sync"), "type": LETS_IN})
    entry = {"match": [{"content": [{"key": "type", "value": LETS_IN}]}]}
    member.create(rule("letting-in", gvk("Secret"), entry, deletionPolicy="Delete"))
    return True


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
    found = stage.copy_at(member, ("Namespace", "", name))
    if found is None or found["metadata"].get("deletionTimestamp"):
        return False
    if member.find("ConfigMap", "native", namespace=name) is None:
        member.create(make_object(("ConfigMap", name, "native"), value, ""))
    return True
