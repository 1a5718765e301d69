"""Go's Printf, Sprint and Sprintln for the values of templates."""

from __future__ import annotations

from typing import Any, Final

from registry_controller.gotemplate.formats import PLAIN, FormatSpec, format_value, text_of
from registry_controller.gotemplate.limits import Budget
from registry_controller.gotemplate.values import is_missing, type_of

_WIDEST: Final = 1_000_000
_FLAGS: Final = "+-# 0"
_GO_SYNTAX: Final = "vw"


def printf(budget: Budget, pattern: str, *given: Any) -> str:
    """Format values by a pattern as Go does, with Go's texts for mistakes in the pattern."""
    text = _Printf(budget, pattern, given).text()
    budget.reserve(len(text))
    return text


def sprint(budget: Budget, *given: Any) -> str:
    """Format values, with a space between two values if neither is a string."""
    parts: list[str] = []
    for index, value in enumerate(given):
        if index and not isinstance(value, str) and not isinstance(given[index - 1], str):
            parts.append(" ")
        parts.append(text_of(value, budget))
    return _joined(budget, "", parts)


def sprintln(budget: Budget, *given: Any) -> str:
    """Format values with spaces between all of them, and a newline at the end."""
    return _joined(budget, " ", [text_of(value, budget) for value in given]) + "\n"


def _joined(budget: Budget, between: str, parts: list[str]) -> str:
    budget.reserve(sum(map(len, parts)) + len(parts))
    return between.join(parts)


class _Printf:
    """Formats one pattern: keeps the offset in the pattern, and the index of the next argument."""

    def __init__(self, budget: Budget, pattern: str, given: tuple[Any, ...]) -> None:
        self._budget = budget
        self._pattern = pattern
        self._given = given
        self._at = 0
        self._next = 0
        self._is_reordered = False
        self._is_good = True
        self._is_after_index = False
        self._written: list[str] = []

    def text(self) -> str:
        pattern, written = self._pattern, self._written
        while True:
            start = pattern.find("%", self._at)
            if start < 0:
                written.append(pattern[self._at :])
                break
            self._budget.step()
            written.append(pattern[self._at : start])
            self._at = start + 1
            self._is_good, self._is_after_index = True, False
            if not self._directive():
                break
        if not self._is_reordered and self._next < len(self._given):
            written.append(self._extra_arguments())
        return "".join(written)

    def _directive(self) -> bool:
        """Write the text of one directive; return whether the pattern goes on."""
        flags = set()
        while self._peek() and self._peek() in _FLAGS:
            flags.add(self._next_char())
        self._read_index()
        width = self._width(flags)
        precision = self._precision()
        if not self._is_after_index:
            self._read_index()
        if not self._peek():
            self._written.append("%!(NOVERB)")
            return False
        verb = self._next_char()
        if verb == "%":
            self._written.append("%")
        elif not self._is_good:
            self._written.append(f"%!{verb}(BADINDEX)")
        elif self._next >= len(self._given):
            self._written.append(f"%!{verb}(MISSING)")
        else:
            is_go = verb in _GO_SYNTAX and "#" in flags
            if verb in _GO_SYNTAX:
                flags -= {"#", "+"}
            form = FormatSpec(verb, frozenset(flags), width, precision, is_go)
            self._written.append(format_value(self._budget, form, self._given[self._next]))
            self._next += 1
        return True

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next_char(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1]

    def _read_index(self) -> None:
        """Read an index such as `[3]`, which selects the next argument."""
        if self._peek() != "[":
            self._is_after_index = False
            return
        self._is_reordered = True
        close = self._pattern.find("]", self._at)
        if close < 0 or len(self._pattern) - self._at < 3:
            self._at += 1
            self._is_good = self._is_after_index = False
            return
        digits = self._pattern[self._at + 1 : close]
        self._at = close + 1
        number = _number(digits)
        self._is_after_index = number is not None
        if number is None or not 0 < number <= len(self._given):
            self._is_good = False
        else:
            self._next = number - 1

    def _width(self, flags: set[str]) -> int | None:
        if self._peek() == "*":
            self._at += 1
            width = self._int_argument()
            if width is None:
                self._written.append("%!(BADWIDTH)")
            elif width < 0:
                width = -width
                flags.add("-")
                flags.discard("0")
            self._is_after_index = False
            return width
        width = self._digits()
        if self._is_after_index and width is not None:
            self._is_good = False
        return width

    def _precision(self) -> int | None:
        if self._peek() != "." or self._at + 1 >= len(self._pattern):
            return None
        self._at += 1
        if self._is_after_index:
            self._is_good = False
        self._read_index()
        if self._peek() == "*":
            self._at += 1
            precision = self._int_argument()
            if precision is not None and precision < 0:
                precision = None
            if precision is None:
                self._written.append("%!(BADPREC)")
            self._is_after_index = False
            return precision
        return self._digits() or 0

    def _digits(self) -> int | None:
        start = self._at
        while self._peek().isascii() and self._peek().isdigit():
            self._at += 1
        if start == self._at:
            return None
        number = _number(self._pattern[start : self._at])
        if number is None:
            self._at = len(self._pattern)  # Go stops reading a pattern at such a number
        return number

    def _int_argument(self) -> int | None:
        if self._next >= len(self._given):
            return None
        value = self._given[self._next]
        self._next += 1
        good = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _WIDEST
        return int(value) if good else None

    def _extra_arguments(self) -> str:
        parts = []
        for value in self._given[self._next :]:
            shown = "<nil>" if is_missing(value) else f"{type_of(value)}={format_value(self._budget, PLAIN, value)}"
            parts.append(shown)
        return f"%!(EXTRA {', '.join(parts)})"


def _number(digits: str) -> int | None:
    """Return a number as Go's fmt reads it; None without digits, or if it is too large before its last digit."""
    if not digits or not digits.isascii() or not digits.isdigit():
        return None
    significant = digits.lstrip("0")
    return None if len(significant) > 8 or int(significant[:-1] or 0) > _WIDEST else int(digits)
