"""How often rules of other clusters may change here: each change has what they read listed anew, at every member.

Laws: what changes together passes together, however much it is · of changes without pause each list is heard between.
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
    """The door for changes of copied rules: it opens for a while, so many times at once, and then once in each pause.

    All clusters have one door, since one in bad hands may introduce others. Times are the loop's, in seconds.
    """

    def __init__(self) -> None:
        self._openings = float(AT_ONCE)
        self._counted_at_s = 0.0
        self._open_until_s = 0.0

    def enter(self, *, now: float) -> None:
        """Let a change pass; ChangesTooOften, with the time to wait, while the door is shut."""
        if now < self._open_until_s:
            return
        rested = (now - self._counted_at_s) / PAUSE_S
        self._openings, self._counted_at_s = min(AT_ONCE, self._openings + rested), now
        if self._openings < 1:
            wait_s = (1 - self._openings) * PAUSE_S
            raise ChangesTooOften(_WORDS.format(PAUSE_S), retry_after_s=wait_s)
        self._openings -= 1
        self._open_until_s = now + OPEN_S
