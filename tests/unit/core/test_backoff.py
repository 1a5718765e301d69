"""P6: the pause before the next try."""

from __future__ import annotations

import pytest

from registry_controller.core.backoff import backoff_s


@pytest.mark.parametrize(
    ("attempt", "chance", "expected"),
    [(0, 1.0, 0.5), (1, 1.0, 1.0), (3, 1.0, 4.0), (4, 1.0, 5.0), (10_000, 1.0, 5.0), (2, 0.5, 1.0), (9, 0.0, 0.0)],
)
def test_backoff_doubles_up_to_its_cap_and_is_jittered(attempt: int, chance: float, expected: float) -> None:
    assert backoff_s(attempt, base=0.5, cap=5.0, chance=chance) == expected
