"""Limits how often rules that come from other clusters may change here.

A change costs one list of the rule's own selection at each member. Other rules keep their records, but a selection may
be everything of a large kind. Without a limit, one cluster that edits its rule all the time would have every member
list such a kind at every other member without end. And as each change begins the list again, the rule would never be
synced: copies that wait for all rules of their kind would wait for ever.

Laws: changes within five seconds of each other pass together, however many they are · after many, one passes a minute,
so that the lists between two changes come to their end.
"""

from __future__ import annotations

from typing import Final

from registry_controller.api.errors import ChangesTooOften

AT_ONCE: Final = 240
OPEN_S: Final = 5.0
PAUSE_S: Final = 60.0
_WORDS: Final = (
    "rules of other clusters change here without pause; the next changes of any of them are taken together "
    "{:.0f} s later at most, until then the rule is here as it was"
)


class Pace:
    """A token bucket for changes of copied rules: `AT_ONCE` tokens, and a new one every `PAUSE_S` seconds.

    A token lets all changes of the next `OPEN_S` seconds pass. All clusters share one bucket, because a cluster in bad
    hands may introduce others. Times are the event loop's, in seconds.
    """

    def __init__(self) -> None:
        self._tokens = float(AT_ONCE)
        self._counted_at_s = 0.0
        self._open_until_s = 0.0

    def enter(self, *, now: float) -> None:
        """Let a change pass; ChangesTooOften, with the time to wait in seconds, while there is no token."""
        if now < self._open_until_s:
            return
        rested = (now - self._counted_at_s) / PAUSE_S
        self._tokens, self._counted_at_s = min(AT_ONCE, self._tokens + rested), now
        if self._tokens < 1:
            wait_s = (1 - self._tokens) * PAUSE_S
            raise ChangesTooOften(_WORDS.format(PAUSE_S), retry_after_s=wait_s)
        self._tokens -= 1
        self._open_until_s = now + OPEN_S
