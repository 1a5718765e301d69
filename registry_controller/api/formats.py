"""The formats that daemons write for each other, and the annotation of a Cluster that names them.

It is an annotation, because the schema of the Go original drops unknown fields of a status. It is for people, when they
upgrade members one by one: no decision of a daemon depends on it. Its own format has a number, too; without one, it is
format 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from registry_controller.api import deleted_rules, names, provenance, tombstone
from registry_controller.api.feature import Feature
from registry_controller.api.jsontext import is_later, read_object, write_object

_FORMAT: Final = 1
_LENGTH: Final = 64 * 1024

FORMATS: Final[Mapping[str, int]] = {
    "provenance": provenance.FORMAT,
    "tombstone": tombstone.FORMAT,
    "withdrawal": tombstone.FORMAT,
    "deletedRules": deleted_rules.FORMAT,
}


def write_daemon_version(version: str, *, before: str = "") -> str:
    """Return the value of the annotation for a daemon of this version: `before`, if that has a later format.

    Otherwise, further fields of `before` are kept.
    """
    found = read_object(before, most=_LENGTH)
    if is_later(found, than=_FORMAT):
        return before
    plain = {"version": version, "formats": FORMATS}
    return write_object({**found, **plain}, plain=plain, most=_LENGTH)


def read_daemon_version(annotation: str) -> str:
    """Return the version that the annotation names; empty without one."""
    found = read_object(annotation, most=_LENGTH).get("version")
    return found if isinstance(found, str) else ""


def read_daemon_formats(annotation: str) -> Mapping[str, int]:
    """Return the formats that the annotation names; empty without them."""
    found = read_object(annotation, most=_LENGTH).get("formats")
    formats = found if isinstance(found, dict) else {}
    return {name: number for name, number in formats.items() if isinstance(number, int)}


def is_later_version(annotation: str) -> bool:
    """Return whether a later version of the daemon wrote the annotation, in a format that this one cannot read."""
    return is_later(read_object(annotation, most=_LENGTH), than=_FORMAT)


def is_later_feature(feature: Feature, annotations: Mapping[str, str]) -> bool:
    """Return whether a feature is a tombstone, a withdrawal or a record of deleted rules, of a later format."""
    is_record = feature.name == names.DELETED_RULES_OBJECT
    return tombstone.has_later_format(feature) or (is_record and deleted_rules.has_later_format(annotations))
