"""Is a peer alive? Decided from signs of life and unanswered probes; the clock is an argument.

Laws: one unanswered probe changes nothing; two in a row make a peer unreachable; any sign of life undoes that. A peer
that refuses us as strangers does so until it answers, whatever streams from before still bring: they may bring the
credentials that it takes.

    state        | heard      | unanswered
    -------------|------------|------------
    ANSWERING    | ANSWERING  | DOUBTED
    DOUBTED      | ANSWERING  | UNREACHABLE
    UNREACHABLE  | ANSWERING  | UNREACHABLE

A peer begins as ANSWERING: at start its word still counts until two probes have failed.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Final

SILENCE_S: Final = 15.0
PROBE_INTERVAL_S: Final = 5.0


class PeerState(enum.Enum):
    """How a peer has answered lately."""

    ANSWERING = "answering"
    DOUBTED = "doubted"
    UNREACHABLE = "unreachable"


class PeerSignal(enum.Enum):
    """What was noticed of a peer."""

    HEARD = "heard"
    UNANSWERED = "unanswered"


_NEXT: Final[Mapping[tuple[PeerState, PeerSignal], PeerState]] = {
    (PeerState.ANSWERING, PeerSignal.HEARD): PeerState.ANSWERING,
    (PeerState.ANSWERING, PeerSignal.UNANSWERED): PeerState.DOUBTED,
    (PeerState.DOUBTED, PeerSignal.HEARD): PeerState.ANSWERING,
    (PeerState.DOUBTED, PeerSignal.UNANSWERED): PeerState.UNREACHABLE,
    (PeerState.UNREACHABLE, PeerSignal.HEARD): PeerState.ANSWERING,
    (PeerState.UNREACHABLE, PeerSignal.UNANSWERED): PeerState.UNREACHABLE,
}


class PeerHealth:
    """Remember when a peer was last heard, and whether it proved to be who its Cluster says.

    Times are monotonic seconds. What counts as heard is the caller's to know: a watch event, a bookmark, an
    answered probe; never a 401, and a 403 on one kind is no failure of the peer.
    """

    __slots__ = ("_in_question", "_last_heard", "_last_suspected", "_next_probe_at", "_proven", "_refused", "_state")

    def __init__(self, *, now: float) -> None:
        self._state = PeerState.ANSWERING
        self._last_heard = now
        self._last_suspected = -math.inf
        self._next_probe_at = now + SILENCE_S
        self._proven = False
        self._refused = False
        self._in_question = False

    def signal_received(self, now: float) -> bool:
        """Note a sign of life; return True when the peer had been unreachable until now."""
        was_unreachable = self.unreachable
        self._state = _NEXT[self._state, PeerSignal.HEARD]
        self._last_heard = max(self._last_heard, now)
        if not self._in_question:  # then only a probe can tell that we are let in, however much its watches bring
            self._next_probe_at = self._last_heard + SILENCE_S
        return was_unreachable

    def answered(self, now: float) -> bool:
        """Note an answer to a probe; return what `heard` returns."""
        self._refused = self._in_question = False
        return self.signal_received(now)

    def probe_failed(self, now: float, *, started_at: float | None = None, refused: bool = False) -> bool:
        """Note a probe without an answer; return True when this made the peer unreachable.

        With `started_at` the next probe is due 5 s after that moment, so that a probe that waited for its whole
        timeout does not stretch the interval. A failure of a probe that began before the last sign of life is old
        news and changes nothing, unless we were `refused` or it is in question whether we are: then the next one is
        due in 5 s, too.
        """
        self._refused = self._refused or refused
        self._in_question = self._in_question or refused
        is_old_news = started_at is not None and started_at < self._last_heard
        if self._in_question or not is_old_news:
            self._next_probe_at = max(now, (now if started_at is None else started_at) + PROBE_INTERVAL_S)
        if is_old_news:
            return False
        was_unreachable = self.unreachable
        self._state = _NEXT[self._state, PeerSignal.UNANSWERED]
        return self.unreachable and not was_unreachable

    def suspect(self, now: float) -> bool:
        """Note that a request was refused as a stranger's; return True when a probe is due at once therefore.

        Whoever is refused at every request must not look well until the next regular probe. Not more often than
        every 5 s, because one kind may be refused for ever.
        """
        if self._state is not PeerState.ANSWERING or now < self._last_suspected + PROBE_INTERVAL_S:
            return False
        self._last_suspected = now
        self._in_question = True
        self._next_probe_at = now
        return True

    def next_probe_at(self) -> float:
        """Say when a probe is due: 15 s after the last sign of life, at a suspicion, then every 5 s without answer."""
        return self._next_probe_at

    def prove(self, now: float) -> bool:
        """Note that the peer's kube-system has the UID of its Cluster; return what `heard` returns."""
        self._proven = True
        return self.answered(now)

    def disprove(self) -> None:
        """Note that another cluster answers there; nothing is read until it is proven again."""
        self._proven = False

    @property
    def refused(self) -> bool:
        """True from a probe that was refused as a stranger's until one is answered."""
        return self._refused

    @property
    def alive(self) -> bool:
        """True until two probes in a row were not answered."""
        return not self.unreachable

    @property
    def unreachable(self) -> bool:
        return self._state is PeerState.UNREACHABLE

    @property
    def proven(self) -> bool:
        """True once the kube-system UID was found to be the `clusterID`."""
        return self._proven

    @property
    def last_signal_at(self) -> float:
        return self._last_heard
