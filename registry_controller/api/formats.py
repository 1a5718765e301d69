"""The formats that daemons write for each other, and the annotation of a Cluster that names them.

It is an annotation, because the schema of the Go original drops unknown fields of a status. It is for people, when they
upgrade members one by one: no decision of a daemon depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import orjson

from registry_controller.api import deleted_rules, meta, provenance, tombstone

FORMATS: Final[Mapping[str, int]] = {
    "provenance": provenance.FORMAT,
    "tombstone": tombstone.FORMAT,
    "deletedRules": deleted_rules.FORMAT,
}
_LENGTH: Final = 1024


class DaemonVersion(NamedTuple):
    """The version of a daemon, and the formats that it writes."""

    version: str
    formats: Mapping[str, int]


def write_daemon_version(version: str) -> str:
    """Return the value of the annotation for a daemon of this version."""
    return orjson.dumps({"version": version, "formats": FORMATS}, option=orjson.OPT_SORT_KEYS).decode()


def read_daemon_version(annotations: Mapping[str, str]) -> DaemonVersion | None:
    """Parse the annotation of a Cluster; None if it is missing or cannot be read."""
    text = annotations.get(meta.DAEMON, "")
    try:
        found = orjson.loads(text) if len(text) <= _LENGTH else None
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("version"), str):
        return None
    formats = found.get("formats")
    known = formats.items() if isinstance(formats, dict) else ()
    return DaemonVersion(found["version"], {name: number for name, number in known if isinstance(number, int)})
