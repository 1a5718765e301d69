"""The formats that daemons write for each other, and the annotation of a Cluster that names them.

It is an annotation, because the schema of the Go original drops unknown fields of a status. It is for people, when they
upgrade members one by one: no decision of a daemon depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from registry_controller.api import deleted_rules, provenance, tombstone

FORMATS: Final[Mapping[str, int]] = {
    "provenance": provenance.FORMAT,
    "tombstone": tombstone.FORMAT,
    "deletedRules": deleted_rules.FORMAT,
}


def write_daemon_version(version: str) -> str:
    """Return the value of the annotation for a daemon of this version."""
    return orjson.dumps({"version": version, "formats": FORMATS}, option=orjson.OPT_SORT_KEYS).decode()
