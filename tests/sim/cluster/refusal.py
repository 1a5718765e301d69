"""How a simulated API server refuses a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Refusal(Exception):
    """What the server answers instead: a Status."""

    code: int
    reason: str
    message: str
    details: dict[str, Any] | None = None
