"""What a template may cost: checked before anything is made, so that none stalls the daemon or eats its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class TemplateError(Exception):
    """A template cannot be read or evaluated; turned into InvalidObject, with its position, at the door."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one template's source, and of all evaluations that share a budget.

    Text counts in characters, and so do lists and dicts in elements.
    """

    source: int = 64 * 1024
    output: int = 1024 * 1024
    steps: int = 100_000
    depth: int = 50


DEFAULT: Final = Limits()
_ELEMENT: Final = 16
_PASSED_IN_ONE_STEP: Final = 8
_SPELLED_IN_ONE_STEP: Final = 16
_MADE_IN_ONE_STEP: Final = 64


class Pool:
    """Steps that several budgets take from together. `whose` says in the error with what they are shared."""

    __slots__ = ("_left", "_most", "_whose")

    def __init__(self, most: int, *, whose: str) -> None:
        self._left = self._most = most
        self._whose = whose

    def spend(self, count: int) -> None:
        """Take steps; TemplateError when there are no more."""
        self._left -= count
        if self._left < 0:
            raise TemplateError(f"takes more than {self._most} steps, together with {self._whose}")


class Budget:
    """What is left of the limits: for one template, or for all that are evaluated together; and of a pool, if any."""

    def __init__(self, limits: Limits = DEFAULT, *, pool: Pool | None = None) -> None:
        self.limits = limits
        self.steps_left = limits.steps
        self._made = 4 * limits.output
        self._written = 0
        self._pool = pool

    def step(self, count: int = 1) -> None:
        """Take steps; TemplateError when there are no more."""
        self.steps_left -= count
        if self.steps_left < 0:
            raise TemplateError(f"takes more than {self.limits.steps} steps")
        if self._pool is not None:
            self._pool.spend(count)

    def pass_by(self, count: int) -> None:
        """Take steps for keys, fields or variables that are looked at one by one."""
        self.step(count // _PASSED_IN_ONE_STEP)

    def scan(self, text: str) -> str:
        """Take steps for a text whose characters are looked at one by one, and give it back."""
        self.step(len(text) // _SPELLED_IN_ONE_STEP)
        return text

    def reserve_output(self, size: int) -> None:
        """Ask to write so many characters."""
        self._written += size
        if self._written > self.limits.output:
            raise TemplateError(f"template writes more than {self.limits.output} characters")

    def reserve_elements(self, count: int) -> None:
        """Ask to make a list or dict of so many elements, each of which takes as much memory as many characters."""
        self.reserve(_ELEMENT * count)

    def reserve(self, size: int) -> None:
        """Ask to make a text or list of so many elements, before it is made."""
        if size > self.limits.output:
            raise TemplateError(f"makes a value of more than {self.limits.output} characters or elements")
        self._made -= max(size, 0)
        if self._made < 0:
            raise TemplateError(f"makes more than {4 * self.limits.output} characters or elements in all")
        if self._pool is not None:
            self._pool.spend(max(size, 0) // _MADE_IN_ONE_STEP)
