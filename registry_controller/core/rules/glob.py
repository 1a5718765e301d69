"""Patterns with `*` (any text), `?` (any one character) and `\\` (the next character as it is)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_ANY: Final = None
_ONE: Final = ""
_COMPARED_IN_ONE_STEP: Final = 512


class Refused(Exception):
    """A path or pattern is not implemented, from `position` (0 is the first character) on."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(why)
        self.position = position
        self.why = why


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern as tokens: a character, `_ONE` or `_ANY`. `parts` are what stands between stars; none of a literal."""

    tokens: tuple[str | None, ...]
    parts: tuple[re.Pattern[str], ...] = field(repr=False, compare=False)

    @property
    def is_literal(self) -> bool:
        """True when only one text matches."""
        return all(self.tokens)

    @property
    def literal(self) -> str:
        """The text that a literal pattern matches."""
        return "".join(token or "" for token in self.tokens)

    def cost(self, text: str) -> int:
        """Count the steps that a comparison with a text may take: each character with each of the pattern."""
        return 1 + len(self.tokens) * len(text) // _COMPARED_IN_ONE_STEP

    def matches(self, text: str) -> bool:
        """Say whether the whole text fits: each part between stars where it comes first, and the last at the end."""
        if not self.parts:
            return text == self.literal
        found = self.parts[0].match(text)
        for part in self.parts[1:]:
            found = found and part.search(text, found.end())
        return found is not None


def compile_glob(pattern: str) -> Glob:
    """Read a pattern; a trailing backslash stands for itself."""
    tokens: list[str | None] = []
    characters = iter(pattern)
    for char in characters:
        if char == "\\":
            tokens.append(next(characters, "\\"))
        else:
            tokens.append({"*": _ANY, "?": _ONE}.get(char, char))
    return Glob(tuple(tokens), () if all(tokens) else _parts(tokens))


def _parts(tokens: list[str | None]) -> tuple[re.Pattern[str], ...]:
    """Make an expression of each part between stars; the last one ends where the text does."""
    parts = [""]
    for token in tokens:
        if token is _ANY:
            parts.append("")
        else:
            parts[-1] += re.escape(token) if token else "."
    parts[-1] += r"\Z"
    return tuple(re.compile(part, re.DOTALL) for part in parts)
