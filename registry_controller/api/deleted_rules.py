"""The record of deleted rules: the rules that were created in a cluster and are known to be deleted there.

It is an annotation of a ClusterFeature, because all members read the features of their peers. A member that was away
when a rule was deleted reads it there.

Its format has a number; without one, it is format 1. A version that only adds a field keeps the number, and an earlier
version keeps fields that it does not know. A field of an entry is about that deletion, and goes with its entry. A field
of the record names the UIDs of the rules that it is about, because an earlier version adds and removes entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from registry_controller.api import meta, names
from registry_controller.api.jsontext import is_later, read_object, write_object
from registry_controller.api.meta import UID_LENGTH, Manifest
from registry_controller.api.syncrule import POLICIES

FORMAT: Final = 1
LASTS: Final = timedelta(days=90)
MOST: Final = 256
_LENGTH: Final = 256 * 1024  # an object's annotations have no more
_WRITTEN_LENGTH: Final = 128 * 1024  # the object has other annotations, too
_NAME_LENGTH: Final = 253
_FIELDS: Final = frozenset(("name", "uid", "day", "policy", "dayAgreed"))


class DeletedRule(NamedTuple):
    """A rule that was deleted in the cluster in which it was created, on the day `day` in UTC.

    `policy` is its last deletionPolicy; empty where that is not known, as in a record of an earlier version.
    `is_day_agreed` is false while no live member has agreed with the clock that showed the day.
    """

    name: str
    uid: str
    day: date
    policy: str = ""
    is_day_agreed: bool = True


def read_deleted_rules(annotations: Mapping[str, str]) -> frozenset[DeletedRule]:
    """Parse the record; entries that cannot be read, and a record of a later format, are left out."""
    return frozenset(_read_entries(_read_content(annotations)))


def has_later_format(annotations: Mapping[str, str]) -> bool:
    """Return whether the record was written by a later version: it is not to be changed."""
    return is_later(read_object(annotations.get(meta.DELETED_RULES, ""), most=_LENGTH), than=FORMAT)


def _read_content(annotations: Mapping[str, str]) -> Mapping[str, Any]:
    found = read_object(annotations.get(meta.DELETED_RULES, ""), most=_LENGTH)
    return {} if is_later(found, than=FORMAT) else found


def _read_entries(content: Mapping[str, Any]) -> Mapping[DeletedRule, Mapping[str, Any]]:
    """Return the rules in a record, each with the fields of its entry."""
    entries = content.get("rules")
    found = [entry for entry in entries[:MOST] if isinstance(entry, dict)] if isinstance(entries, list) else []
    return {rule: entry for entry in found if (rule := _read_entry(entry)) is not None}


def _write_entry(rule: DeletedRule) -> Mapping[str, Any]:
    entry: dict[str, Any] = {"name": rule.name, "uid": rule.uid, "day": rule.day.isoformat()}
    if rule.policy:
        entry["policy"] = rule.policy
    if not rule.is_day_agreed:
        entry["dayAgreed"] = False
    return entry


def _read_entry(entry: Mapping[str, Any]) -> DeletedRule | None:
    name, uid, day = entry.get("name"), entry.get("uid"), entry.get("day")
    if not (isinstance(name, str) and isinstance(uid, str) and isinstance(day, str)):
        return None
    if not (0 < len(name) <= _NAME_LENGTH and 0 < len(uid) <= UID_LENGTH):
        return None
    policy = found if (found := entry.get("policy")) in POLICIES else ""
    try:
        return DeletedRule(name, uid, date.fromisoformat(day), policy, entry.get("dayAgreed") is not False)
    except ValueError:
        return None


def write_deleted_rules(rules: Iterable[DeletedRule], *, before: Mapping[str, str] | None = None) -> str:
    """Return the value of the annotation: the same rules give the same text.

    `before` are the annotations with the record that it replaces, from which further fields are kept.
    """
    entries = [_write_entry(rule) for rule in sorted(rules)]
    content = _read_content(before or {})
    further = {
        rule[:2]: {field: value for field, value in entry.items() if field not in _FIELDS}
        for rule, entry in _read_entries(content).items()
    }
    plain = {"format": FORMAT, "rules": entries}
    kept = [{**further.get((entry["name"], entry["uid"]), {}), **entry} for entry in entries]
    whole = {**content, **plain, "rules": kept}
    return write_object(whole, plain=plain, most=_WRITTEN_LENGTH)


def deleted_rules_manifest(rules: Iterable[DeletedRule], *, before: Manifest | None = None) -> Manifest:
    """Return the ClusterFeature that holds the record. It replaces `before`, and keeps its other fields."""
    before = before or {}
    annotations = meta.annotations_of(before)
    return {
        **before,
        "apiVersion": meta.API_VERSION,
        "kind": meta.FEATURE.kind,
        "metadata": {
            **meta.metadata_of(before),
            "name": names.DELETED_RULES_OBJECT,
            "labels": {**meta.labels_of(before), meta.CORE_RESOURCE: "true"},
            "annotations": {**annotations, meta.DELETED_RULES: write_deleted_rules(rules, before=annotations)},
        },
        "spec": {"featureName": names.DELETED_RULES_FEATURE},
    }
