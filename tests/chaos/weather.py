"""What an edge does to what passes: a value, so that a schedule can name it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weather:
    """What an edge does; the default passes everything on.

    cut: every connection is reset, new ones too. swallow_up, swallow_down: requests, answers are taken and thrown away
    (both: half-open). stall: nothing is read any more, so that the senders' buffers fill. latency_s: for each chunk.
    bytes_per_s: for each direction of a connection. reset_after_bytes: of answers, on each connection. corrupt_every:
    one bit of every so many-th chunk of answers.
    """

    cut: bool = False
    swallow_up: bool = False
    swallow_down: bool = False
    stall: bool = False
    latency_s: float = 0.0
    bytes_per_s: float = 0.0
    reset_after_bytes: int = 0
    corrupt_every: int = 0


CLEAR = Weather()
CUT = Weather(cut=True)
HALF_OPEN = Weather(swallow_up=True, swallow_down=True)
STALLED = Weather(stall=True)
