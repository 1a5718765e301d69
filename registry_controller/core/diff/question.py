"""Decides whether a copy that differs from the wanted one is written, accepted, or put to the API server (A10, A2).

Laws: after a restart a difference leads to a question, and to no write without it; so does one in a copy whose
provenance names the present state and rule, where this daemon knows of no answer to that write · the same wish with the
same fields as after the last answer is in step, also where other fields of the copy changed · only a field that the
last wish may have had is suspected to be kept.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from registry_controller.core.diff.drift import Comparison, Drift
from registry_controller.core.diff.remainder import Remainder
from registry_controller.core.mutation.local_fields import Path


class NextStep(enum.Enum):
    """The next step for a difference."""

    IN_STEP = "nothing: the API server stores the wanted copy in this way"
    WRITE = "write the wanted copy"
    ASK = "ask the API server, by a dry run, how it stores the wanted copy"


class Known(NamedTuple):
    """The facts about the last wish that was written, or accepted.

    `is_remembered` is False after a restart. `is_same_wish` is True if the last wish was the present one, and
    `remainder` is that of then. `is_of_now` means that the provenance names the source's present state, and
    `is_same_origin` that it names the present rule and its overrides as well.
    """

    is_remembered: bool
    is_same_wish: bool
    remainder: Remainder
    is_of_now: bool
    is_same_origin: bool


def judge_difference(found: Comparison, known: Known, *, believes_provenance: bool = True) -> NextStep:
    """Return the next step for a comparison of a copy with the wanted one.

    `believes_provenance` saves a question where the provenance shows that additional fields are the API server's.
    """
    if found.drift is Drift.IN_SYNC:
        return NextStep.IN_STEP
    if list_suspects(found, known):
        return NextStep.ASK
    if found.drift is Drift.AMBIGUOUS:
        is_last_wish = known.is_same_wish or not known.is_remembered
        return NextStep.IN_STEP if believes_provenance and known.is_of_now and is_last_wish else NextStep.ASK
    if known.is_same_wish:
        return NextStep.IN_STEP if found.remainder.state == known.remainder.state else NextStep.WRITE
    is_older = known.is_remembered and not known.is_same_origin  # else another daemon wrote it, or an answer was lost
    return NextStep.WRITE if is_older else NextStep.ASK


def list_suspects(found: Comparison, known: Known) -> tuple[Path, ...]:
    """List the fields of a copy that are not wanted, and that the last wish may have had."""
    if known.is_same_wish:
        return tuple(path for path in found.remainder.extras if path in known.remainder.suspects)
    if known.is_same_origin and not known.is_remembered:
        return ()
    held = frozenset(known.remainder.extras if known.is_remembered else ())
    return tuple(path for path in found.remainder.extras if path not in held)
