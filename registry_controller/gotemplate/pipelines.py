"""Parses pipelines: their variables, commands and operands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection
from typing import Any, Final

from registry_controller.gotemplate.constants import read_character, read_number, read_text
from registry_controller.gotemplate.cursor import Cursor
from registry_controller.gotemplate.lex import LexToken
from registry_controller.gotemplate.limits import TemplateError
from registry_controller.gotemplate.nodes import Chain, Constant, Dot, Function, Operand, Pipeline, Variable
from registry_controller.gotemplate.quoting import quote

_NOT_CALLABLE: Final = (Constant, Dot)
_FROM_OUTSIDE: Final = re.compile(
    r"env|expandenv|getHostByName|now|ago|(?:must)?(?:[tT]oDate|date.*|htmlDate.*)|unixEpoch|duration.*|rand.*|shuffle"
    r"|uuidv4|gen[A-Z].*|buildCustomCert|derivePassword|bcrypt|htpasswd|encryptAES|decryptAES|lookup"
)
_MAX_NAME: Final = 64


class Pipelines:
    """Parses pipelines at a cursor. `variables` are the variables that are defined there."""

    def __init__(self, cursor: Cursor, functions: Collection[str]) -> None:
        self.variables = ["$"]
        self._cursor = cursor
        self._functions = functions

    def read(self, at: int, *, closes: str, is_range: bool = False) -> Pipeline:
        """Return the pipeline up to the token that closes it: `end` for an action, `close` for a parenthesis."""
        self._cursor.descend()
        variables, declares = self._declarations(is_range=is_range)
        commands: list[tuple[Operand, ...]] = []
        while True:
            self._cursor.skip_space()
            token = self._cursor.peek()
            if token.kind == closes and (closes != "end" or token.text == "}}"):
                self._cursor.advance()
                break
            commands.append(self._command(closes))
        if not commands:
            self._cursor.fail(self._cursor.peek(-1), "missing value")
        for command in commands[1:]:
            if isinstance(command[0], _NOT_CALLABLE):
                self._cursor.fail(self._cursor.peek(-1), "only a function or a method accepts a piped value")
        self._cursor.ascend()
        return Pipeline(tuple(commands), tuple(variables), declares, at)

    def _describe_unknown(self, name: str) -> str:
        """Return why a template cannot call a function, and which one it may mean."""
        if _FROM_OUTSIDE.fullmatch(name):
            why = "functions that read the process, the network, the clock or randomness do not exist"
        elif similar := difflib.get_close_matches(name[:_MAX_NAME], sorted(self._functions), n=1, cutoff=0.8):
            why = f"did you mean {similar[0]}?"
        else:
            why = "templates have Go's and sprig 2.22's functions; later ones and Helm's own do not exist"
        return f"unknown function {quote(name)}; {why}"

    def _declarations(self, *, is_range: bool) -> tuple[list[str], bool]:
        """Return the names of the variables that the pipeline sets, and whether it declares them.

        As in Go, the evaluation reports an assignment to an undefined variable.
        """
        names: list[str] = []
        while True:
            self._cursor.skip_space()
            start = self._cursor.at
            if self._cursor.peek().kind != "variable":
                break
            name = self._cursor.advance().text
            self._cursor.skip_space()
            kind = self._cursor.peek().kind
            if kind not in ("declare", "assign", "comma"):
                self._cursor.at = start
                break
            self._cursor.advance()
            names.append(name)
            self.variables.append(name)
            if kind != "comma":
                return names, kind == "declare"
            self._cursor.skip_space()
            if not is_range or len(names) == 2 or self._cursor.peek().kind not in ("variable", "end", "close"):
                self._cursor.fail(self._cursor.peek(), "too many variables, or an incomplete declaration")
        return names, True

    def _check_variable(self, name: str) -> None:
        if name not in self.variables:
            self._cursor.fail(self._cursor.peek(-1), f"undefined variable {name}")

    def _command(self, closes: str) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        self._cursor.skip_space()
        while (operand := self._operand()) is not None:
            operands.append(operand)
            if self._cursor.peek().kind != "space":
                break
            self._cursor.skip_space()
        token = self._cursor.peek()
        if not operands or token.kind not in ("pipe", closes):
            self._cursor.fail_unexpected(token)
        if token.kind == "pipe":
            self._cursor.advance()
        return tuple(operands)

    def _operand(self) -> Operand | None:
        term = self._term()
        if term is None:
            return None
        fields: list[str] = []
        first = self._cursor.peek()
        while self._cursor.peek().kind == "field":
            fields.append(self._cursor.advance().text[1:])
        if not fields:
            return term
        if isinstance(term, Constant | Dot):
            self._cursor.fail(first, "unexpected field after a constant or a dot")
        if isinstance(term, Chain):
            return Chain(term.base, (*term.fields, *fields), term.at)
        return Chain(term, tuple(fields), term.at)

    def _term(self) -> Operand | None:  # noqa: C901 -- one table
        token = self._cursor.peek()
        match token.kind:
            case "word" if token.text in ("true", "false"):
                found: Operand = Constant(token.text == "true", token.at)
            case "word":
                if token.text not in self._functions:
                    self._cursor.fail(token, self._describe_unknown(token.text))
                found = Function(token.text, token.at)
            case "nil":
                found = Constant(None, token.at)
            case "dot":
                found = Dot(token.at)
            case "field":
                found = Chain(Dot(token.at), (token.text[1:],), token.at)
            case "variable":
                self._cursor.advance()
                self._check_variable(token.text)
                return Variable(token.text, token.at)
            case "number":
                found = Constant(self._constant(read_number, token), token.at)
            case "char":
                found = Constant(self._constant(read_character, token), token.at)
            case "string" | "raw":
                found = Constant(self._constant(read_text, token), token.at)
            case "open":
                self._cursor.advance()
                return self.read(token.at, closes="close")
            case _:
                return None
        self._cursor.advance()
        return found

    def _constant(self, reader: Callable[[str], Any], token: LexToken) -> Any:
        try:
            return reader(token.text)
        except TemplateError as error:
            self._cursor.fail(token, str(error))
