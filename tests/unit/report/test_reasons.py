"""The messages of the reasons of Decisions."""

from __future__ import annotations

from registry_controller.core.decision.decision import Reason
from registry_controller.report.reasons import WORDS


def test_every_reason_has_words_and_no_two_the_same() -> None:
    assert set(WORDS) == set(Reason)
    assert len(set(WORDS.values())) == len(WORDS)
