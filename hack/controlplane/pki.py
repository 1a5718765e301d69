"""The files of keys and certificates that a cluster needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Pki:
    """The files that a cluster needs."""

    server_ca: Path
    client_ca: Path
    server: Pair
    admin: Pair
    controller_manager: Pair
    scheduler: Pair
    node: Pair
    token_key: Path
    token_public_key: Path
