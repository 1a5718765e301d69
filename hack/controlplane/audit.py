"""The audit log of an API server: requests, their users and their results.

Law: with the default policy it never holds a body (level Metadata), and so no Secret. A watch has two events: its
beginning and its end.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from .api import Manifest

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


def read_audit(log: Path, *, since: int = 0) -> list[Manifest]:
    """Read the events from an offset (bytes) on; a last line that is still being written is left out."""
    try:
        with log.open("rb") as file:
            file.seek(since)
            content = file.read()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines() if line.strip()]


def audit_offset(log: Path) -> int:
    """Return the offset (bytes) behind the last complete line."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            while end > 0:
                start = max(0, end - 65536)
                file.seek(start)
                newline = file.read(end - start).rfind(b"\n")
                if newline >= 0:
                    return start + newline + 1
                end = start
    except FileNotFoundError:
        pass
    return 0
