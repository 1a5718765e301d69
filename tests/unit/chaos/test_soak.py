"""The soak sees what grows, what is not given back, and that too little was done."""

from __future__ import annotations

import math

import pytest

from tests.chaos.figures import Figures
from tests.chaos.soak import LEFT, REPLACED, Record, Sample

MINUTES = 60
HELD = Figures(memory_kib=95_000, descriptors=50, sockets=20, threads=7, tasks=90, queue=0)


def _record(*, rise_kib_per_h: float = 0, rest: Figures = HELD, queue: int = 0, left: int = 120) -> Record:
    """Write down an hour in which memory rises, with the waves of what comes and goes."""
    record = Record(lasted_s=60.0 * MINUTES)
    record.samples["a"] = [
        Sample(at_s, HELD._replace(memory_kib=int(_memory_kib(at_s, rise_kib_per_h)), queue=queue))
        for at_s in range(0, 60 * MINUTES, 2)
    ]
    record.rest["a"] = (HELD, rest)
    record.done.update({LEFT: left, REPLACED: 60})
    return record


def _memory_kib(at_s: float, rise_kib_per_h: float) -> float:
    warm = 9_000 * (1 - math.exp(-at_s / 300))
    return HELD.memory_kib + warm + 1_500 * math.sin(at_s / 40) + rise_kib_per_h * at_s / 3600


def test_what_is_flat_after_it_is_warm_is_right() -> None:
    assert _record(rest=HELD._replace(memory_kib=104_000)).wrong() == []


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (_record(rise_kib_per_h=8_000), "a: memory rose by 3.9 MiB in the second half"),
        (_record(rest=HELD._replace(memory_kib=110_000)), "a: memory_kib at rest were 95000, and are 110000"),
        (_record(rest=HELD._replace(descriptors=60)), "a: descriptors at rest were 50, and are 60"),
        (_record(rest=HELD._replace(threads=10)), "a: threads at rest were 7, and are 10"),
        (_record(rest=HELD._replace(tasks=100)), "a: tasks at rest were 90, and are 100"),
        (_record(rest=HELD._replace(queue=1)), "a: queue at rest were 0, and are 1"),
        (_record(queue=5_000), "a: the queue held 5000 keys"),
        (_record(left=100), "members left, joined or had a token replaced only 260 times"),
    ],
)
def test_what_is_wrong_is_said(record: Record, words: str) -> None:
    assert record.wrong() == [words]


def test_without_samples_nothing_can_be_said() -> None:
    record = _record()
    record.samples["a"] = record.samples["a"][-5:]
    assert record.wrong() == ["a: too few samples to say anything"]
