"""What is said about one field of an object that somebody wrote."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Something about one field: an error, which can never work, or else a warning, which may not be meant."""

    path: str
    message: str
    is_error: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
