"""Patterns with `*` (any text), `?` (any one character) and `\\` (the next character as it is)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_ANY: Final = None
_ONE: Final = ""


class Refused(Exception):
    """A path or pattern is not implemented, from `position` (0 is the first character) on."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(why)
        self.position = position
        self.why = why


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern as tokens: a character, `_ONE` or `_ANY`."""

    tokens: tuple[str | None, ...]

    @property
    def is_literal(self) -> bool:
        """True when only one text matches."""
        return all(self.tokens)

    @property
    def literal(self) -> str:
        """The text that a literal pattern matches."""
        return "".join(token or "" for token in self.tokens)

    def matches(self, text: str) -> bool:
        """Say whether the whole text fits; takes at most len(pattern) x len(text) steps."""
        tokens = self.tokens
        token = at = 0
        star = resume = -1
        while at < len(text):
            if token < len(tokens) and tokens[token] is _ANY:
                star, resume = token, at
                token += 1
            elif token < len(tokens) and tokens[token] in (_ONE, text[at]):
                token, at = token + 1, at + 1
            elif star >= 0:
                resume += 1
                token, at = star + 1, resume
            else:
                return False
        return all(left is _ANY for left in tokens[token:])


def compile_glob(pattern: str) -> Glob:
    """Read a pattern; a trailing backslash stands for itself."""
    tokens: list[str | None] = []
    characters = iter(pattern)
    for char in characters:
        if char == "\\":
            tokens.append(next(characters, "\\"))
        else:
            tokens.append({"*": _ANY, "?": _ONE}.get(char, char))
    return Glob(tuple(tokens))
