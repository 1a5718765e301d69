"""hack/fuzz: when a run counts as one in which nothing was found."""

from __future__ import annotations

import pytest

from hack.programs.fuzz import LAWS, LEAST_AN_HOUR, Round, Tally, _conclude

TARGET = "values.a_value_is_one"


def _tried(target: str, cases: int, said: str = "") -> Tally:
    tally = Tally(started=0.0)
    tally.add(Round(target, 1, cases, 1.0, said))
    return tally


@pytest.mark.parametrize(
    ("tally", "code", "says"),
    [
        (_tried(TARGET, LEAST_AN_HOUR), 0, f"{LEAST_AN_HOUR} an hour"),
        (_tried(TARGET, LEAST_AN_HOUR - 1), 1, f"are too few, {LEAST_AN_HOUR} the least"),
        (_tried(TARGET, 0), 1, "0 cases an hour are too few"),
        (_tried(TARGET, LEAST_AN_HOUR, "it differs"), 1, "1 divergences"),
        (_tried(LAWS, 0), 0, "0 divergences"),
        (_tried(LAWS, 0, "a law is broken"), 1, "1 divergences"),
    ],
    ids=["enough", "one too few", "none", "a divergence", "the laws alone", "a broken law"],
)
def test_a_run_that_tried_too_little_fails(
    tally: Tally, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """After one hour."""
    assert _conclude(tally, sorted(tally.rounds), 3600.0) == code
    assert says in capsys.readouterr().out


def test_a_run_in_which_nothing_was_tried_fails() -> None:
    assert _conclude(Tally(started=0.0), [LAWS, TARGET], 3600.0) == 1
