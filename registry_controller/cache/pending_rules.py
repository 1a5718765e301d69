"""The rules whose selections must still be listed, because the rules are new or were edited.

Laws: an object is always evaluated by all rules at once, as they are at that moment · before everything that a rule
selects was evaluated by it, the absence of a hit proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from registry_controller.api.selection import Selection


@dataclass(slots=True)
class _Pending:
    """A rule since it came or changed: the generation, and the selections that were not listed since."""

    since: int
    unlisted: set[Selection]


class PendingRules:
    """The pending rules of one kind at one peer. `generation` counts the changes of the kind's rules."""

    def __init__(self) -> None:
        self.generation = 0
        self._pending: dict[str, _Pending] = {}

    def __contains__(self, rule: object) -> bool:
        return rule in self._pending

    def __bool__(self) -> bool:
        return bool(self._pending)

    def change(self, *, gone: Iterable[str], fresh: Mapping[str, Iterable[Selection]]) -> None:
        """Start a generation: some rules are gone, and those in `fresh` ask for selections that must be listed."""
        self.generation += 1
        for rule in gone:
            self._pending.pop(rule, None)
        for rule, selections in fresh.items():
            self._pending[rule] = _Pending(self.generation, set(selections))

    def unlisted(self) -> Iterator[tuple[Selection, int]]:
        """Yield each selection that must be listed, with the generation from which on its list counts."""
        for pending in self._pending.values():
            for selection in pending.unlisted:
                yield selection, pending.since

    def settle(self, is_listed: Callable[[Selection, int], bool]) -> Mapping[str, int]:
        """Return the rules that wait no longer, and since when they waited.

        `is_listed` returns true if a selection was listed whole since a generation.
        """
        ended: dict[str, int] = {}
        for rule, pending in list(self._pending.items()):
            pending.unlisted = {one for one in pending.unlisted if not is_listed(one, pending.since)}
            if not pending.unlisted:
                del self._pending[rule]
                ended[rule] = pending.since
        return ended

    def has_evaluated(self, rule: str, *, evaluated: int) -> bool:
        """Return true if a rule, as it is now, has seen an object that was last evaluated in a generation.

        True also for objects that the rule does not select.
        """
        pending = self._pending.get(rule)
        return pending is None or evaluated >= pending.since
