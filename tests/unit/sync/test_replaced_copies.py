"""A9: copies that were deleted to be made anew."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api.meta import Target
from registry_controller.sync.replaced_copies import ReplacedCopies

pytestmark = pytest.mark.clause("A9")
MIB = 1024 * 1024


def place(number: int) -> Target:
    return Target("", "Secret", "default", str(number))


def copy(size: int = 1) -> dict[str, Any]:
    return {"data": {"key": "x" * size}}


def test_a_copy_is_kept_as_it_was_until_it_is_forgotten() -> None:
    copies = ReplacedCopies()
    copies.keep(place(1), copy(), why="a changed field is immutable")
    copies.keep(place(2), None, why="the cluster was rebuilt")
    found = [copies.get(place(number)) for number in (1, 2, 3)]
    assert [one.manifest if one is not None else "none" for one in found] == [copy(), None, "none"]
    copies.forget(place(1))
    copies.forget(place(3))
    assert copies.get(place(1)) is None


def test_the_oldest_go_beyond_the_limit() -> None:
    copies = ReplacedCopies()
    for number in range(20):
        copies.keep(place(number % 10), copy(MIB), why="why")
    assert [number for number in range(10) if copies.get(place(number)) is not None] == [3, 4, 5, 6, 7, 8, 9]
    for number in range(10):
        copies.forget(place(number))
    for number in range(10_000):
        copies.keep(place(number), None, why="why")
    assert sum(copies.get(place(number)) is not None for number in range(10_000)) == 8 * 1024


def test_the_data_of_a_secret_is_not_shown() -> None:
    """A6."""
    copies = ReplacedCopies()
    copies.keep(place(1), {"data": {"key": "c2VjcmV0"}}, why="why")
    assert "c2VjcmV0" not in repr(copies.get(place(1)))
