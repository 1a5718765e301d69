"""Limits the cost of templates before memory is allocated: none blocks the daemon or exhausts its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class TemplateError(Exception):
    """A template cannot be parsed or evaluated. The package's functions convert it to InvalidObject."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one template's source, and of all evaluations that share a budget.

    `source` is in characters, `output` in characters or elements, `depth` in levels of nesting.
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
    """Steps that several budgets share. `whose` names, in the error, the work that shares the steps."""

    __slots__ = ("_left", "_most", "_whose")

    def __init__(self, most: int, *, whose: str) -> None:
        self._left = self._most = most
        self._whose = whose

    def spend(self, count: int) -> None:
        """Charge steps. Raises TemplateError beyond the limit."""
        self._left -= count
        if self._left < 0:
            raise TemplateError(f"takes more than {self._most} steps, together with {self._whose}")


class Budget:
    """The rest of the limits for one template, or for templates that are evaluated together.

    Every charge also applies to `pool`, if there is one.
    """

    def __init__(self, limits: Limits = DEFAULT, *, pool: Pool | None = None) -> None:
        self.limits = limits
        self.steps_left = limits.steps
        self._made = 4 * limits.output
        self._written = 0
        self._pool = pool

    def step(self, count: int = 1) -> None:
        """Charge steps. Raises TemplateError beyond the limit."""
        self.steps_left -= count
        if self.steps_left < 0:
            raise TemplateError(f"takes more than {self.limits.steps} steps")
        if self._pool is not None:
            self._pool.spend(count)

    def step_for_lookups(self, count: int) -> None:
        """Charge steps for keys, fields or variables that are compared one by one."""
        self.step(count // _PASSED_IN_ONE_STEP)

    def scan(self, text: str) -> str:
        """Charge steps for a string that is read character by character, and return the string."""
        self.step(len(text) // _SPELLED_IN_ONE_STEP)
        return text

    def reserve_output(self, size: int) -> None:
        """Reserve characters of output. Raises TemplateError beyond the limit."""
        self._written += size
        if self._written > self.limits.output:
            raise TemplateError(f"template writes more than {self.limits.output} characters")

    def reserve_elements(self, count: int) -> None:
        """Reserve the memory of a list or dict; an element costs as much as 16 characters."""
        self.reserve(_ELEMENT * count)

    def reserve(self, size: int) -> None:
        """Reserve the memory of a string or list, in characters or elements, before it is created."""
        if size > self.limits.output:
            raise TemplateError(f"creates a value of more than {self.limits.output} characters or elements")
        self._made -= max(size, 0)
        if self._made < 0:
            raise TemplateError(f"creates more than {4 * self.limits.output} characters or elements in total")
        if self._pool is not None:
            self._pool.spend(max(size, 0) // _MADE_IN_ONE_STEP)
