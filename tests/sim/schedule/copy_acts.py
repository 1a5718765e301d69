"""What people do in a schedule to copies, and what looks like one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from registry_controller.api import meta
from tests.original_marks import last_applied
from tests.sim.checks.expected_copies import ADDED, is_of_later_version, key_of, marks_of
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.member import Member
from tests.sim.cluster.refusal import Refusal
from tests.sim.schedule.drawing import a_new_place, another, one, one_and_a_value
from tests.sim.schedule.stage import Spot, Stage, deed
from tests.sim.schedule.vocabulary import CANARY, LEFT, NAMES, TUNED, UNLABELLED, make_object

FINALIZER = "sim.example/held"


@deed(one_and_a_value, weight=6)
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


@deed(one_and_a_value, weight=9)
def sets_what_is_left(stage: Stage, member: Member, which: int, value: str) -> bool:
    """Set, as a controller here, the field that a copy's rule leaves to this cluster."""
    found = stage.choose_copy(member, which, of=lambda copy: bool(marks_of(copy).provenance.get("left")))
    if found is None:
        return False
    body = "data" if found["kind"] == "ConfigMap" else "spec"
    member.write_as("tuner", {**found, body: {**(found.get(body) or {}), LEFT: value}})
    return True


@deed(one_and_a_value, weight=0)
def tunes_copy(stage: Stage, member: Member, which: int, value: str) -> bool:
    """Set, as a controller here, a map and a label that a copy's rule leaves to this cluster."""
    unlabelled = {"remove": [UNLABELLED]}
    found = stage.choose_copy(member, which, of=lambda copy: _mutations(member, copy).get("labels") == unlabelled)
    if found is None:
        return False
    tuned = {"spec": {TUNED: {"by": value, "more": "yes"}}} if _mutations(member, found).get("overrides") else {}
    parts = {name: found[name] for name in ("kind", "apiVersion")}
    info = {"name": found["metadata"]["name"], "namespace": found["metadata"].get("namespace", "")}
    member.write_as("tuner", {**parts, "metadata": {**info, "labels": {UNLABELLED: value}}, **tuned})
    return True


def _mutations(member: Member, copy: Manifest) -> dict[str, Any]:
    """Read what the rule that made a copy makes of its sources."""
    rule = member.find("ResourceSyncRule", str(marks_of(copy).provenance.get("rule", "")))
    entries = rule["spec"]["rules"] if rule is not None else ()
    return next((entry.get("mutations") or {} for entry in entries), {})


@deed(one, weight=4)
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


@deed(one, weight=3)
def makes_copy_its_own(stage: Stage, member: Member, which: int) -> bool:
    """Take all marks off a copy: it is native from then on."""
    return _annotate(stage, member, which, {meta.OWNER: None, meta.PROVENANCE: None})


@deed(one, weight=2)
def takes_provenance_off(stage: Stage, member: Member, which: int) -> bool:
    """Take the provenance off a copy: it looks as the Go original leaves it."""
    return _annotate(stage, member, which, {meta.PROVENANCE: None})


@deed(one, weight=2)
def freezes_copy(stage: Stage, member: Member, which: int) -> bool:
    """Say on a copy that it is to be left alone."""
    return _annotate(stage, member, which, {meta.SYNC_DISABLED: "true"})


_EDITS: Sequence[Callable[[dict[str, Any]], dict[str, Any]]] = (
    lambda spec: {**spec, "rules": []},
    lambda spec: {**spec, "targetClusters": {"names": ["nobody"]}},
    lambda spec: {**spec, "clusterFeatureMatch": [{"featureName": "nothing"}]},
    lambda spec: {name: value for name, value in spec.items() if name not in ("targetClusters", "clusterFeatureMatch")},
    lambda spec: {**spec, "rules": [{"match": [{"labels": [{"matchLabels": {"sync": "nothing"}}]}]}]},
)


@deed(lambda chance, who, names: (*one(chance, who, names), chance.randrange(len(_EDITS))), weight=5)
def edits_a_rules_copy(stage: Stage, member: Member, which: int, edit: int) -> bool:
    """Edit the copy of another member's rule."""
    return _edit_rule(stage, member, which, edit, {})


@deed(lambda chance, who, names: (*one(chance, who, names), chance.randrange(len(_EDITS))), weight=1)
def keeps_a_rule_of_its_own(stage: Stage, member: Member, which: int, edit: int) -> bool:
    """Edit the copy of another member's rule, and say that it is to be left alone: it is to be obeyed as it is."""
    return _edit_rule(stage, member, which, edit, {meta.SYNC_DISABLED: "true"})


def _edit_rule(stage: Stage, member: Member, which: int, edit: int, annotations: dict[str, str]) -> bool:
    rules = stage.copied_rules(member)
    if not rules:
        return False
    found = rules[which % len(rules)]
    info = {**found["metadata"], "annotations": {**found["metadata"]["annotations"], **annotations}}
    member.replace({**found, "spec": _EDITS[edit](found["spec"]), "metadata": info})
    return True


@deed(one, weight=2)
def thaws_copy(stage: Stage, member: Member, which: int) -> bool:
    """Say so no longer."""
    return _annotate(stage, member, which, {meta.SYNC_DISABLED: None})


@deed(one, weight=2)
def forges_copy(stage: Stage, member: Member, which: int) -> bool:
    """Make a copy look newer than its source: as if the owner had been restored from a backup."""
    found = stage.choose_copy(member, which)
    said = marks_of(found).provenance if found is not None else {}
    if not said:
        return False
    source = {**said["source"], "resourceVersion": str(int(said["source"]["resourceVersion"]) + 10**6)}
    text = orjson.dumps({**said, "source": source}, option=orjson.OPT_SORT_KEYS).decode()
    return _annotate(stage, member, which, {meta.PROVENANCE: text})


def _rewrite_provenance(member: Member, found: Manifest, changes: dict[str, Any]) -> None:
    said = {**marks_of(found).provenance, **changes}
    text = orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode()
    info = found["metadata"]
    member.replace({**found, "metadata": {**info, "annotations": {**info["annotations"], meta.PROVENANCE: text}}})


@deed(lambda chance, who, names: (*one(chance, who, names), chance.choice((2, 2.0, "2", None))), weight=2)
def has_a_copy_of_a_later_version(stage: Stage, member: Member, which: int, number: object) -> bool:
    """Rewrite a copy's provenance in the next format, as a later daemon here does.

    Somebody goes back to this format at the end, and again where the etcd is restored after that.
    """
    found = stage.choose_copy(member, which, of=lambda copy: bool(marks_of(copy).provenance))
    if found is None or is_of_later_version(found):
        return False
    kind, (namespace, name) = found["kind"], key_of(found)

    def go_back() -> None:
        held = member.find(kind, name, namespace=namespace)
        if held is not None and is_of_later_version(held):
            _rewrite_provenance(member, held, {"format": 1})

    _rewrite_provenance(member, found, {"format": number})
    stage.at_the_end(_lasting(member, go_back))
    return True


def _lasting(member: Member, mend: Callable[[], None]) -> Callable[[], None]:
    """Mend, and mend again after each restore of the etcd: its backup may have what was mended since."""

    def mend_from_now_on() -> None:
        mend()
        member.server.store.restored.append(lambda: asyncio.get_running_loop().call_soon(mend))

    return mend_from_now_on


@deed(one, weight=2)
def has_a_field_of_a_later_version(stage: Stage, member: Member, which: int) -> bool:
    """Add a field to a copy's provenance, as a later daemon of the same format does."""
    found = stage.choose_copy(member, which, of=lambda copy: bool(marks_of(copy).provenance))
    if found is None:
        return False
    added = {"revision": found["metadata"]["resourceVersion"], "is": [True, None, "long" * 1500]}
    _rewrite_provenance(member, found, {ADDED: added})
    return True


@deed(lambda chance, who, names: (*one(chance, who, names), chance.choice((0.5, 5.0, 20.0))), weight=3)
def holds_copy_while_it_goes(stage: Stage, member: Member, which: int, duration_s: float) -> bool:
    """Delete a copy that has a finalizer for a while; its controller removes it again after the restore of an etcd."""
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

    stage.until(duration_s, _lasting(member, release))
    return True


def read_anew(found: Manifest) -> dict[str, Any]:
    """Read an object as a person does who creates it again: without what belongs to that one alone."""
    kept = ("name", "namespace", "labels", "annotations")
    info = {name: value for name, value in found["metadata"].items() if name in kept}
    return {name: value for name, value in found.items() if name != "status"} | {"metadata": info}


@deed(
    lambda chance, who, names: (*one(chance, who, names), chance.choice(names), chance.choice(("", *NAMES, "mine"))),
    weight=4,
)
def clones_copy(stage: Stage, member: Member, which: int, where: str, name: str) -> bool:
    """Read a copy, and create it here or in another cluster, under another name or under its own."""
    found = stage.choose_copy(member, which, of=lambda copy: not is_of_later_version(copy))
    if found is None:
        return False
    made = read_anew(found)
    made["metadata"]["name"] = name or found["metadata"]["name"]
    there = stage.group[where]
    if there.find(made["kind"], made["metadata"]["name"], namespace=made["metadata"].get("namespace", "")) is not None:
        return False
    there.create(made)
    return True


@deed(lambda chance, who, names: (*one(chance, who, names), chance.choice((0.0, 1.0, 30.0))), weight=3)
def restores_copy(stage: Stage, member: Member, which: int, after_s: float) -> bool:
    """Delete a copy, and create it again as it was, as from a backup; by then its source may be gone."""
    found = stage.choose_copy(member, which, of=lambda copy: not is_of_later_version(copy))
    if found is None:
        return False
    kind, (namespace, name) = found["kind"], key_of(found)

    def restore() -> None:
        stage.note_put_back(member, kind, namespace)
        with contextlib.suppress(Refusal):
            member.replace_by_force(read_anew(found))

    member.delete(kind, name, namespace=namespace)
    stage.until(after_s, restore)
    return True


@deed(lambda chance, who, names: (*one(chance, who, names), chance.choice((5.0, 30.0, 100.0))), weight=4)
def puts_an_earlier_copy_back(stage: Stage, member: Member, which: int, after_s: float) -> bool:
    """Read a copy, or that of a rule, and write it again later as it was, marks included, as a backup tool does."""
    rules = stage.copied_rules(member) if which % 2 else ()
    found = rules[which % len(rules)] if rules else stage.choose_copy(member, which)
    if found is None or is_of_later_version(found):
        return False
    kind, key = found["kind"], key_of(found)

    def put_back() -> None:
        held = stage.copy_at(member, (kind, *key))
        if held is not None and not is_of_later_version(held) and "deletionTimestamp" not in held["metadata"]:
            with contextlib.suppress(Refusal):
                member.replace(read_anew(found))

    stage.until(after_s, put_back)
    return True


_STRANGER = "00000000-0000-4000-8000-000000000000"


def _mark(made: dict[str, Any], owner: str) -> None:
    """Mark an object as the Go original does."""
    made["metadata"]["annotations"] = {meta.OWNER: owner}
    made["metadata"]["annotations"] |= {meta.GO_LAST_APPLIED: last_applied(made)}


@deed(a_new_place, weight=2)
def leaves_a_strangers_copy(stage: Stage, member: Member, place: Spot, value: str) -> bool:
    """Create the copy of a cluster that nobody knows."""
    if stage.find(member, place) is not None:
        return False
    made = make_object(place, value, "")
    _mark(made, _STRANGER)
    member.create(made)
    return True


@deed(a_new_place, weight=1)
def leaves_a_strangers_mark(stage: Stage, member: Member, place: Spot, value: str) -> bool:
    """Create what has the mark of a cluster that nobody knows, and nothing that binds it."""
    if stage.find(member, place) is not None:
        return False
    made = make_object(place, value, "")
    made["metadata"]["annotations"][meta.OWNER] = _STRANGER
    member.create(made)
    return True


@deed(lambda chance, who, names: (*a_new_place(chance, who, names), *another(chance, who, names)), weight=2)
def leaves_a_copy_by_go(stage: Stage, member: Member, place: Spot, value: str, owner: str) -> bool:
    """Create a copy as the Go original leaves it."""
    if stage.find(member, place) is not None:
        return False
    made = make_object(place, value, "")
    made["metadata"]["labels"] = {"sync": "yes", meta.OWNER: stage.group[owner].id}
    _mark(made, stage.group[owner].id)
    member.create(made)
    return True
