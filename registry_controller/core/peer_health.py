"""Decides whether a peer is alive, from its signals and from probes; the time is an argument.

Laws: one unanswered probe changes nothing · two in a row make a peer unreachable · any signal makes it alive again ·
a peer that refuses the credentials (401) counts as refusing until it answers a probe, even while watches that began
before still send events: those may bring the new credentials.

    state        | received   | unanswered
    -------------|------------|------------
    ANSWERING    | ANSWERING  | SUSPECT
    SUSPECT      | ANSWERING  | UNREACHABLE
    UNREACHABLE  | ANSWERING  | UNREACHABLE

A peer begins as ANSWERING: it counts as alive until two probes have failed.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, TypeVar

SILENCE_S: Final = 15.0
PROBE_INTERVAL_S: Final = 5.0


_Peer = TypeVar("_Peer", bound=Hashable)


def count_silence(
    silent: Iterable[_Peer], before_s: Mapping[_Peer, float], *, passed_s: float, was_any_alive: bool
) -> Mapping[_Peer, float]:
    """Return for how many seconds each of the silent peers has been silent, `passed_s` after the last count.

    That time counts only where another peer was alive: otherwise this cluster may be cut off itself. A peer that was
    not counted before begins now.
    """
    counted_s = passed_s if was_any_alive else 0.0
    return {peer: before_s[peer] + counted_s if peer in before_s else 0.0 for peer in silent}


class PeerState(enum.Enum):
    """The state of a peer."""

    ANSWERING = "answering"
    SUSPECT = "suspect"
    UNREACHABLE = "unreachable"


class PeerSignal(enum.Enum):
    """A signal from a peer, or a probe without an answer."""

    RECEIVED = "received"
    UNANSWERED = "unanswered"


_NEXT: Final[Mapping[tuple[PeerState, PeerSignal], PeerState]] = {
    (PeerState.ANSWERING, PeerSignal.RECEIVED): PeerState.ANSWERING,
    (PeerState.ANSWERING, PeerSignal.UNANSWERED): PeerState.SUSPECT,
    (PeerState.SUSPECT, PeerSignal.RECEIVED): PeerState.ANSWERING,
    (PeerState.SUSPECT, PeerSignal.UNANSWERED): PeerState.UNREACHABLE,
    (PeerState.UNREACHABLE, PeerSignal.RECEIVED): PeerState.ANSWERING,
    (PeerState.UNREACHABLE, PeerSignal.UNANSWERED): PeerState.UNREACHABLE,
}


class PeerHealth:
    """Records a peer's signals and probes.

    Times are monotonic seconds. Signals are watch events, bookmarks and answered probes. A 401 is never a signal, and a
    403 for one kind is not a failure of the peer.
    """

    __slots__ = (
        "_has_answered",
        "_in_question",
        "_last_signal_at",
        "_last_suspected",
        "_next_probe_at",
        "_refused",
        "_state",
    )

    def __init__(self, *, now: float) -> None:
        self._state = PeerState.ANSWERING
        self._last_signal_at = now
        self._last_suspected = -math.inf
        self._next_probe_at = now + SILENCE_S
        self._refused = False
        self._in_question = False
        self._has_answered = False

    def signal_received(self, now: float) -> bool:
        """Record a signal; return whether the peer was unreachable before."""
        was_unreachable = self.unreachable
        self._state = _NEXT[self._state, PeerSignal.RECEIVED]
        self._has_answered = True
        self._last_signal_at = max(self._last_signal_at, now)
        if not self._in_question:  # otherwise only a probe can show that the credentials are accepted
            self._next_probe_at = self._last_signal_at + SILENCE_S
        return was_unreachable

    def answered(self, now: float) -> bool:
        """Record an answered probe; return whether the peer was unreachable before."""
        self._refused = self._in_question = False
        return self.signal_received(now)

    def probe_failed(self, now: float, *, started_at: float | None = None, refused: bool = False) -> bool:
        """Record a probe without an answer; return whether this made the peer unreachable.

        With `started_at`, the next probe is due 5 s after that time, so that a probe that waited for its whole timeout
        does not extend the interval. The failure of a probe that began before the last signal changes nothing. But
        after a 401, for this probe (`refused`) or suspected before it, the next probe is due in 5 s as well.
        """
        self._refused = self._refused or refused
        self._in_question = self._in_question or refused
        is_outdated = started_at is not None and started_at < self._last_signal_at
        if self._in_question or not is_outdated:
            self._next_probe_at = max(now, (now if started_at is None else started_at) + PROBE_INTERVAL_S)
        if is_outdated:
            return False
        was_unreachable = self.unreachable
        self._state = _NEXT[self._state, PeerSignal.UNANSWERED]
        return self.unreachable and not was_unreachable

    def suspect(self, now: float) -> bool:
        """Record a 401; return whether a probe is due at once.

        The state must not wait for the next regular probe while every request gets a 401. A probe is due at most every
        5 s, because the peer may refuse one kind forever.
        """
        if self._state is not PeerState.ANSWERING or now < self._last_suspected + PROBE_INTERVAL_S:
            return False
        self._last_suspected = now
        self._in_question = True
        self._next_probe_at = now
        return True

    def next_probe_at(self) -> float:
        """Return when a probe is due: 15 s after the last signal, at a 401, and every 5 s without an answer."""
        return self._next_probe_at

    @property
    def last_signal_at(self) -> float | None:
        """The time of the last signal; None before the first one."""
        return self._last_signal_at if self._has_answered else None

    @property
    def refused(self) -> bool:
        """True from a probe that got a 401 until one is answered."""
        return self._refused

    @property
    def alive(self) -> bool:
        """True until two probes in a row were not answered."""
        return not self.unreachable

    @property
    def unreachable(self) -> bool:
        return self._state is PeerState.UNREACHABLE
