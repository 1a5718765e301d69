"""Records which places and rules were deleted within the limit's window: a second deletion counts each time (W4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from registry_controller.api.meta import Target
from registry_controller.core.decision.deletion_limit import LENGTH


class DeletedPlaces:
    """The places of which a copy was deleted within the window. `now_s` is the clock, in seconds."""

    def __init__(self, *, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._deleted_s: dict[Target, float] = {}

    def note(self, target: Target) -> None:
        """Note that a copy went, and forget the places whose window is over."""
        now_s = self._now_s()
        self._deleted_s.pop(target, None)
        self._deleted_s[target] = now_s
        while (oldest := next(iter(self._deleted_s))) != target and self._is_past(self._deleted_s[oldest]):
            del self._deleted_s[oldest]

    def has(self, target: Target) -> bool:
        """Return whether a copy was deleted at a place within the window."""
        deleted_s = self._deleted_s.get(target)
        return deleted_s is not None and not self._is_past(deleted_s)

    def _is_past(self, at_s: float) -> bool:
        return self._now_s() - at_s >= LENGTH.total_seconds()


@dataclass(slots=True)
class _RuleDeletion:
    """The last deletion of a rule of one name. `is_back` means that a rule of that name is here again."""

    at_s: float
    is_first: bool = True
    is_back: bool = False


class RuleOrders:
    """The deletions of rules, by name: the first one within the window is an order. `now_s` is the clock."""

    def __init__(self, *, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._began_s = now_s()
        self._deleted: dict[str, _RuleDeletion] = {}

    def is_first(self, rule: str, *, was_repeated: Callable[[], bool] = lambda: False) -> bool:
        """Return whether the present deletion of a rule is the first one of its name within the window.

        `was_repeated` is asked about a rule of which nothing is known, in the first window after the start.
        """
        held = self._deleted.get(rule)
        if held is None:
            is_new = self._now_s() - self._began_s < LENGTH.total_seconds()
            held = self._deleted[rule] = _RuleDeletion(self._now_s(), not (is_new and was_repeated()))
        elif held.is_back:
            is_first = self._now_s() - held.at_s >= LENGTH.total_seconds()
            held = self._deleted[rule] = _RuleDeletion(self._now_s(), is_first)
        return held.is_first

    def note_back(self, rule: str) -> None:
        """Note that a rule of that name is here."""
        held = self._deleted.get(rule)
        if held is not None:
            held.is_back = True
            if self._now_s() - held.at_s >= LENGTH.total_seconds():
                del self._deleted[rule]
