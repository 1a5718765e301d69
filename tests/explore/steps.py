"""The words of the search: its steps, and its states.

A state is a tuple of numbers: of the three seats, the ghost, and the acts that are left. A seat is a cluster with the
ways by which its daemon reads the others. Each number stands for a value in a table, so that what happens at a seat
that is the same is computed once in a search.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from tests.explore.world import MEMBERS, NAMES

T = TypeVar("T", bound=Hashable)

State = tuple[int, ...]
"""Numbers of the seats and of the ghost, and the count of acts that are left."""

GHOST: Final = len(MEMBERS)
LEFT: Final = GHOST + 1


class Step(NamedTuple):
    """One step: its kind, and the members that it is about."""

    kind: str
    who: int = 0
    other: int = 0

    def __str__(self) -> str:
        who, other = NAMES[self.who], NAMES[self.other]
        return _WORDS[self.kind].format(who=who, other=other)


_WORDS: Final = {
    "swap": "{who} and {other} swap their Clusters and Secrets",
    "leave": "`leave` at {who}",
    "declare": "`leave {other}` at {who}",
    "delete": "the own Cluster of {who} is deleted",
    "replace": "the own Cluster of {who} is deleted and made again",
    "rename": "the Cluster of {who} names another Secret, and the earlier one is deleted",
    "rotate": "the credentials of {who} are withdrawn",
    "rule": "a rule is made at {who}",
    "unrule": "the rule is deleted at {who}",
    "crash": "the daemon of {who} is killed",
    "restart": "the daemon of {who} is started",
    "cut": "the way from {who} to {other} is cut",
    "heal": "the way from {who} to {other} is mended",
    "deliver": "{who} hears the next state of {other}",
    "moment": "time passes: a missing own Cluster is due",
    "window": "time passes: the stabilization window is over",
    "absence": "time passes: absences have lasted",
    "trust": "time passes: silences have lasted",
    "repair": "all ways are mended, all daemons are started",
}
ACTS: Final = frozenset({
    "swap", "leave", "declare", "delete", "replace", "rename", "rotate", "rule", "unrule", "crash", "restart", "cut",
    "heal",
})  # fmt: skip


ABSTRACTED: Final = (
    "a cluster has one Cluster of each member, its Secrets, one rule, and a copy of one object of each member",
    "without acts on the rule each cluster has its own one; with them, one member made it, and people act on it there",
    "the rule selects every member and every object, with deletionPolicy Delete; its content never differs",
    "a daemon's reaction to one delivery is one step, and its writes reach a reader together",
    "a way carries all kinds in one order; after a long cut it begins with a list",
    "a change that a reader reads nowhere is no event for it: of copies of objects, and of what is there of itself",
    "an act is one state, but `leave`, a replaced Cluster and a renamed Secret are two",
    "time passes only while nothing is under way, what is due earlier first; ages are of three lengths, do not add up",
    "a watch with withdrawn credentials goes on until time passes; a rule that is gone acts until the window is over",
    "a lost own Cluster is made again with the Secret that it named",
    "left out: the limit on deletions, days, grace periods, clones, rebuilt clusters, aliases, quotas, withdrawals,",
    "  and the note in a tombstone that its member is back",
)
"""What the abstract network does not have, or has in a simpler form."""


class Table(Generic[T]):
    """Values and their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._values: list[T] = []

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def __len__(self) -> int:
        return len(self._values)

    def number(self, value: T) -> int:
        """Return the number of a value."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._values)
            self._values.append(value)
        return found
