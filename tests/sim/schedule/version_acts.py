"""What a later version of the daemon did in a cluster, before this one runs in it (again)."""

from __future__ import annotations

from typing import Any

import orjson

from registry_controller.api import meta, names
from registry_controller.api.tombstone import Tombstone, tombstone_manifest
from registry_controller.core.decision.tombstones import LASTS
from tests.sim.checks.expected_copies import ADDED, is_of_later_version, marks_of
from tests.sim.cluster.clock import today
from tests.sim.cluster.member import Member
from tests.sim.schedule.drawing import another, nothing, one
from tests.sim.schedule.object_acts import drops_one_rule
from tests.sim.schedule.stage import Stage, deed
from tests.sim.schedule.vocabulary import ADDED_ANNOTATION


@deed(another, weight=2)
def has_a_tombstone_of_a_later_version(stage: Stage, member: Member, peer: str) -> bool:
    """Say in the next format that a member has left: it counts for nothing, and stays."""
    found = stage.copy_at(member, ("Cluster", "", peer))
    said = marks_of(found).provenance if found is not None else {}
    if found is None or not said:
        return False
    stone = Tombstone(found["spec"]["clusterID"], said["source"]["uid"], member.id, today() + LASTS)
    if member.find("ClusterFeature", stone.name) is not None:
        return False
    made = tombstone_manifest(stone, ordered=True)
    made["metadata"]["labels"][meta.LEFT_FORMAT] = "2"
    member.create(made)
    return True


@deed(one, weight=3)
def has_a_record_of_a_later_version(stage: Stage, member: Member, which: int) -> bool:
    """Have a record of deleted rules in the next format, and delete a rule, which is not added to it."""
    if is_of_later_version(_record(member)):
        return False
    _annotate_record(member, {meta.DELETED_RULES: '{"format":2,"rules":{}}'})
    drops_one_rule(stage, member, which)
    return True


@deed(nothing, weight=3)
def has_fields_of_a_later_version(stage: Stage, member: Member) -> bool:
    """Add fields to the record of deleted rules and its entries, and to what the own Cluster says of its daemon."""
    held, own = _record(member), member.find("Cluster", member.name)
    if is_of_later_version(held) or own is None:
        return False
    record = orjson.loads(held["metadata"]["annotations"].get(meta.DELETED_RULES, '{"format":1,"rules":[]}'))
    record |= {ADDED: {"is": [True, None]}, "rules": [{**entry, ADDED: entry["uid"]} for entry in record["rules"]]}
    _annotate_record(member, {meta.DELETED_RULES: orjson.dumps(record).decode(), ADDED_ANNOTATION: "yes"})
    annotations = own["metadata"].get("annotations") or {}
    daemon = {**orjson.loads(annotations.get(meta.DAEMON, "{}")), ADDED: {"is": "yes"}}
    annotations = {**annotations, meta.DAEMON: orjson.dumps(daemon).decode()}
    member.replace({**own, "metadata": {**own["metadata"], "annotations": annotations}})
    return True


def _record(member: Member) -> dict[str, Any]:
    """Find the record of deleted rules, or make an empty one to be created."""
    info = {"name": names.DELETED_RULES_OBJECT, "labels": {meta.CORE_RESOURCE: "true"}, "annotations": {}}
    made = {"kind": "ClusterFeature", "metadata": info, "spec": {"featureName": names.DELETED_RULES_FEATURE}}
    return member.find("ClusterFeature", names.DELETED_RULES_OBJECT) or made


def _annotate_record(member: Member, changes: dict[str, str]) -> None:
    held = _record(member)
    info = {**held["metadata"], "annotations": {**held["metadata"]["annotations"], **changes}}
    (member.replace if "uid" in info else member.create)({**held, "metadata": info})
