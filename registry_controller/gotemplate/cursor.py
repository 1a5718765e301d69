"""The position of the parser in a template: the tokens, the next token, and the nesting depth."""

from __future__ import annotations

from typing import Final, NoReturn

from registry_controller.gotemplate.lex import LexToken, position, tokens
from registry_controller.gotemplate.limits import Limits, TemplateError
from registry_controller.gotemplate.quoting import quote

_END: Final = LexToken("eof", "", 0)


class Cursor:
    """Moves through the tokens of a template."""

    def __init__(self, source: str, limits: Limits) -> None:
        self.source = source
        self.at = 0
        self._tokens = list(tokens(source))
        self._limits = limits
        self._depth = 0

    def descend(self) -> None:
        """Enter a nesting level. Raises TemplateError beyond the limit."""
        self._depth += 1
        if self._depth > self._limits.depth:
            self.fail(self.peek(), f"nested more than {self._limits.depth} levels deep")

    def ascend(self) -> None:
        """Leave a nesting level."""
        self._depth -= 1

    def peek(self, ahead: int = 0) -> LexToken:
        """Return the next token, or the token `ahead` places after it, without moving."""
        index = self.at + ahead
        return self._tokens[index] if index < len(self._tokens) else _END

    def advance(self) -> LexToken:
        """Return the next token and move past it."""
        token = self.peek()
        self.at += 1
        return token

    def skip_space(self) -> None:
        """Move past space."""
        while self.peek().kind == "space":
            self.at += 1

    def expect(self, kind: str, what: str) -> LexToken:
        """Move past space and a token of this kind, and return the token; `what` names it in the error."""
        self.skip_space()
        token = self.advance()
        if token.kind != kind:
            self.fail(token, f"expected {what}")
        return token

    def is_keyword(self, word: str) -> bool:
        """Return whether an action with this keyword begins here."""
        ahead = 1 if self.peek().kind == "begin" else 0
        while ahead and self.peek(ahead).kind == "space":
            ahead += 1
        return bool(ahead) and self.peek(ahead).kind == word

    def fail_unexpected(self, token: LexToken) -> NoReturn:
        """Raise TemplateError for a token that Go's grammar does not allow here."""
        self.fail(token, "unexpected end of the template" if token.kind == "eof" else f"unexpected {quote(token.text)}")

    def fail(self, token: LexToken, words: str) -> NoReturn:
        """Raise TemplateError with the position of a token."""
        at = token.at if token.kind != "eof" else len(self.source)
        raise TemplateError(f"template {position(self.source, at)}: {words}")
