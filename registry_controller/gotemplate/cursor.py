"""Where a template is being read: its tokens, the one that comes next, and how deep it is nested."""

from __future__ import annotations

from typing import Final, NoReturn

from registry_controller.gotemplate.lex import LexToken, place, tokens
from registry_controller.gotemplate.limits import Limits, TemplateError

_END: Final = LexToken("eof", "", 0)


class Cursor:
    """A place in a template."""

    def __init__(self, source: str, limits: Limits) -> None:
        self.source = source
        self.at = 0
        self._tokens = list(tokens(source))
        self._limits = limits
        self._depth = 0

    def descend(self) -> None:
        """Go one level down, if there may be one more."""
        self._depth += 1
        if self._depth > self._limits.depth:
            self.fail(self.peek(), f"is nested more than {self._limits.depth} deep")

    def ascend(self) -> None:
        """Come back up."""
        self._depth -= 1

    def peek(self, ahead: int = 0) -> LexToken:
        """Look at a token, this one or one further on."""
        index = self.at + ahead
        return self._tokens[index] if index < len(self._tokens) else _END

    def advance(self) -> LexToken:
        """Take a token."""
        token = self.peek()
        self.at += 1
        return token

    def skip_space(self) -> None:
        """Go on to what is no space."""
        while self.peek().kind == "space":
            self.at += 1

    def expect(self, kind: str, what: str) -> LexToken:
        """Take a token of a kind behind any space; `what` names it in the error."""
        self.skip_space()
        token = self.advance()
        if token.kind != kind:
            self.fail(token, f"{what} is expected")
        return token

    def is_keyword(self, word: str) -> bool:
        """Say whether an action begins here, with this word."""
        ahead = 1 if self.peek().kind == "begin" else 0
        while ahead and self.peek(ahead).kind == "space":
            ahead += 1
        return bool(ahead) and self.peek(ahead).kind == word

    def fail(self, token: LexToken, words: str) -> NoReturn:
        """Raise TemplateError with a token's position."""
        at = token.at if token.kind != "eof" else len(self.source)
        raise TemplateError(f"template {place(self.source, at)}: {words}")
