"""Kubeconfig files with certificates and keys inside, without paths to other files. JSON is YAML."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .files import replace_file
from .pki import Pair


@dataclass(frozen=True, slots=True)
class Entry:
    """One cluster with one user; both have the cluster's name."""

    name: str
    server: str
    server_ca: Path
    user: Pair


def write_kubeconfig(path: Path, entries: Sequence[Entry]) -> Path:
    """Write the entries as contexts; the first is the current one."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": entries[0].name if entries else "",
        "clusters": [{"name": e.name, "cluster": _cluster(e)} for e in entries],
        "users": [{"name": e.name, "user": _user(e)} for e in entries],
        "contexts": [{"name": e.name, "context": {"cluster": e.name, "user": e.name}} for e in entries],
    }
    replace_file(path, json.dumps(config, indent=2).encode())
    return path


def _cluster(entry: Entry) -> dict[str, str]:
    return {"server": entry.server, "certificate-authority-data": _base64(entry.server_ca)}


def _user(entry: Entry) -> dict[str, str]:
    return {
        "client-certificate-data": _base64(entry.user.certificate),
        "client-key-data": _base64(entry.user.key),
    }


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
