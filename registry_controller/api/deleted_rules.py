"""The record of deleted rules: the rules that were created in a cluster and are known to be deleted there.

It is an annotation of a ClusterFeature, because all members read the features of their peers. A member that was away
when a rule was deleted reads it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Final, NamedTuple

import orjson

from registry_controller.api import meta, names
from registry_controller.api.meta import UID_LENGTH, Manifest

FORMAT: Final = 1
LASTS: Final = timedelta(days=90)
MOST: Final = 256
_LENGTH: Final = 128 * 1024
_NAME_LENGTH: Final = 253


class DeletedRule(NamedTuple):
    """A rule that was deleted in the cluster in which it was created, on the day `day` in UTC."""

    name: str
    uid: str
    day: date


def read_deleted_rules(annotations: Mapping[str, str]) -> frozenset[DeletedRule]:
    """Parse the record; entries that cannot be read, and a record of a later format, are left out."""
    found = _read_content(annotations)
    entries = found.get("rules") if found.get("format") == FORMAT else None
    read = (_read_entry(entry) for entry in entries[:MOST]) if isinstance(entries, list) else ()
    return frozenset(rule for rule in read if rule is not None)


def has_later_format(annotations: Mapping[str, str]) -> bool:
    """Return whether the record was written by a later version: it is not to be changed."""
    number = _read_content(annotations).get("format")
    return isinstance(number, int) and number > FORMAT


def _read_content(annotations: Mapping[str, str]) -> Mapping[str, object]:
    text = annotations.get(meta.DELETED_RULES, "")
    try:
        found = orjson.loads(text) if text and len(text) <= _LENGTH else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_entry(entry: object) -> DeletedRule | None:
    if not isinstance(entry, dict):
        return None
    name, uid, day = entry.get("name"), entry.get("uid"), entry.get("day")
    if not (isinstance(name, str) and isinstance(uid, str) and isinstance(day, str)):
        return None
    if not (0 < len(name) <= _NAME_LENGTH and 0 < len(uid) <= UID_LENGTH):
        return None
    try:
        return DeletedRule(name, uid, date.fromisoformat(day))
    except ValueError:
        return None


def write_deleted_rules(rules: Iterable[DeletedRule]) -> str:
    """Return the value of the annotation: the same rules give the same text."""
    entries = [{"name": rule.name, "uid": rule.uid, "day": rule.day.isoformat()} for rule in sorted(rules)]
    return orjson.dumps({"format": FORMAT, "rules": entries}).decode()


def keep_lasting(rules: Iterable[DeletedRule], *, today: date) -> frozenset[DeletedRule]:
    """Return the rules whose record still lasts: the latest ones, where there are too many."""
    lasting = sorted((rule for rule in rules if today - LASTS <= rule.day), key=lambda rule: (rule.day, rule))
    return frozenset(lasting[-MOST:])


def deleted_rules_manifest(rules: Iterable[DeletedRule]) -> Manifest:
    """Return the ClusterFeature that holds the record."""
    return {
        "apiVersion": meta.API_VERSION,
        "kind": meta.FEATURE.kind,
        "metadata": {
            "name": names.DELETED_RULES_OBJECT,
            "labels": {meta.CORE_RESOURCE: "true"},
            "annotations": {meta.DELETED_RULES: write_deleted_rules(rules)},
        },
        "spec": {"featureName": names.DELETED_RULES_FEATURE},
    }
