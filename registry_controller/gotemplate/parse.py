"""Read tokens into a tree. Functions and variables must be known, as Go wants them to be when it reads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NoReturn

from registry_controller.gotemplate.constants import read_character, read_number, read_text
from registry_controller.gotemplate.lex import Token, place, tokens
from registry_controller.gotemplate.limits import Limits, TemplateError
from registry_controller.gotemplate.nodes import (
    Action,
    Branch,
    Call,
    Chain,
    Constant,
    Dot,
    Function,
    Jump,
    Node,
    Operand,
    Pipeline,
    Text,
    Tree,
    Variable,
)

_NOT_STAGES: Final = (Constant, Dot)
_END: Final = Token("eof", "", 0)


def parse(source: str, *, functions: Collection[str], limits: Limits) -> Tree:
    """Read a template; TemplateError with a position for one that Go would refuse."""
    if len(source) > limits.source:
        raise TemplateError(f"template is longer than {limits.source} characters")
    return _Parser(source, functions, limits).tree()


def _holds_something(nodes: tuple[Node, ...]) -> bool:
    return any(not isinstance(node, Text) or node.text.strip() for node in nodes)


class _Parser:
    def __init__(self, source: str, functions: Collection[str], limits: Limits) -> None:
        self._tree = Tree(source)
        self._tokens = list(tokens(source))
        self._at = 0
        self._functions = functions
        self._limits = limits
        self._depth = 0
        self._loops = 0
        self._variables = ["$"]

    def tree(self) -> Tree:
        body: list[Node] = []
        while self._peek().kind != "eof":
            if self._is_keyword("define"):
                self._define()
            else:
                nodes, stop = self._nodes(top=True)
                body += nodes
                if stop:
                    self._fail(self._peek(), f"an unexpected {stop}")
        self._define_as("", tuple(body))
        self._tree.body = self._tree.defined[""]
        return self._tree

    # Tokens.

    def _peek(self, ahead: int = 0) -> Token:
        index = self._at + ahead
        return self._tokens[index] if index < len(self._tokens) else _END

    def _next(self) -> Token:
        token = self._peek()
        self._at += 1
        return token

    def _skip_space(self) -> None:
        while self._peek().kind == "space":
            self._at += 1

    def _expect(self, kind: str, what: str) -> Token:
        self._skip_space()
        token = self._next()
        if token.kind != kind:
            self._fail(token, f"{what} is expected")
        return token

    def _is_keyword(self, word: str) -> bool:
        ahead = 1 if self._peek().kind == "begin" else 0
        while ahead and self._peek(ahead).kind == "space":
            ahead += 1
        return bool(ahead) and self._peek(ahead).kind == word

    def _fail(self, token: Token, words: str) -> NoReturn:
        at = token.at if token.kind != "eof" else len(self._tree.source)
        raise TemplateError(f"template {place(self._tree.source, at)}: {words}")

    # Lists of nodes.

    def _nodes(self, *, top: bool = False) -> tuple[list[Node], str]:
        """Read until `end` or `else` (its word is returned and not taken) or, at the top, until `define`."""
        nodes: list[Node] = []
        self._depth += 1
        if self._depth > self._limits.depth:
            self._fail(self._peek(), f"is nested more than {self._limits.depth} deep")
        try:
            while (token := self._peek()).kind != "eof":
                if token.kind == "text":
                    nodes.append(Text(self._next().text))
                    continue
                for word in ("end", "else"):
                    if self._is_keyword(word) and not (word == "end" and self._peek(1).text == "}}"):
                        return nodes, word
                if self._is_keyword("define"):
                    if not top:
                        self._fail(token, "an unexpected define")
                    return nodes, ""
                nodes.append(self._action())
            if not top:
                self._fail(self._peek(), "an action without its end")
            return nodes, ""
        finally:
            self._depth -= 1

    def _enter(self, word: str) -> None:
        self._expect("begin", "an action")
        self._expect(word, word)

    def _close(self) -> None:
        self._skip_space()
        token = self._next()
        if (token.kind, token.text) != ("end", "}}"):
            self._fail(token, f"an unexpected {token.text!r}")

    def _define(self) -> None:
        self._enter("define")
        name = self._name()
        self._close()
        self._body_of(name)

    def _name(self) -> str:
        self._skip_space()
        token = self._next()
        if token.kind not in ("string", "raw"):
            self._fail(token, "a name in quotes is expected")
        return str(self._read(read_text, token))

    def _body_of(self, name: str) -> None:
        saved, self._variables, loops, self._loops = self._variables, ["$"], self._loops, 0
        nodes, stop = self._nodes()
        if stop != "end":
            self._fail(self._peek(), f"an unexpected {stop}")
        self._enter("end")
        self._close()
        self._variables, self._loops = saved, loops
        self._define_as(name, tuple(nodes))

    def _define_as(self, name: str, nodes: tuple[Node, ...]) -> None:
        """Keep a template; of two with one name, one may hold something."""
        held = self._tree.defined.get(name, ())
        if not _holds_something(held):
            self._tree.defined[name] = nodes
        elif _holds_something(nodes):
            self._fail(self._peek(-1), f"a second template {name!r}")

    def _action(self) -> Node:
        begin = self._expect("begin", "an action")
        self._skip_space()
        token = self._peek()
        if token.kind in ("if", "with", "range"):
            self._next()
            return self._branch(token.kind)
        if token.kind in ("break", "continue"):
            self._next()
            if not self._loops:
                self._fail(token, f"a {token.kind} outside of range")
            self._close()
            return Jump(token.kind)
        if token.kind in ("template", "block"):
            self._next()
            return self._call(token)
        if token.kind in ("end", "else", "define") and token.text != "}}":
            self._fail(token, f"an unexpected {token.text}")
        return Action(self._pipeline(begin.at, closes="end"))

    def _call(self, token: Token) -> Node:
        name = self._name()
        self._skip_space()
        pipeline = None
        if self._peek().text == "}}" and self._peek().kind == "end":
            self._next()
            if token.kind == "block":
                self._fail(token, "a block without a value")
        else:
            pipeline = self._pipeline(token.at, closes="end")
        if token.kind == "block":
            self._body_of(name)
        return Call(name, pipeline, token.at)

    def _branch(self, kind: str) -> Node:
        known = len(self._variables)
        pipeline = self._pipeline(self._peek().at, closes="end", is_range=kind == "range")
        self._loops += kind == "range"
        body, stop = self._nodes()
        self._loops -= kind == "range"
        otherwise: list[Node] = []
        if stop == "else":
            self._enter("else")
            self._skip_space()
            token = self._peek()
            if token.kind in ("if", "with") and token.kind == kind:
                self._next()
                otherwise = [self._branch(kind)]
                del self._variables[known:]
                return Branch(kind, pipeline, tuple(body), tuple(otherwise))
            self._close()
            otherwise, stop = self._nodes()
            if stop != "end":
                self._fail(self._peek(), f"an unexpected {stop}")
        self._enter("end")
        self._close()
        del self._variables[known:]
        return Branch(kind, pipeline, tuple(body), tuple(otherwise))

    # Pipelines.

    def _pipeline(self, at: int, *, closes: str, is_range: bool = False) -> Pipeline:
        self._depth += 1
        if self._depth > self._limits.depth:
            self._fail(self._peek(), f"is nested more than {self._limits.depth} deep")
        variables, declares = self._declarations(is_range=is_range)
        commands: list[tuple[Operand, ...]] = []
        while True:
            self._skip_space()
            token = self._peek()
            if token.kind == closes and (closes != "end" or token.text == "}}"):
                self._next()
                break
            commands.append(self._command(closes))
        if not commands:
            self._fail(self._peek(-1), "a value is missing")
        for command in commands[1:]:
            if isinstance(command[0], _NOT_STAGES):
                self._fail(self._peek(-1), "only a function or method can take a piped value")
        self._depth -= 1
        return Pipeline(tuple(commands), tuple(variables), declares, at)

    def _declarations(self, *, is_range: bool) -> tuple[list[str], bool]:
        """Read what is set; whether it is known shows when it is evaluated, as in Go."""
        names: list[str] = []
        while True:
            self._skip_space()
            start = self._at
            if self._peek().kind != "variable":
                break
            name = self._next().text
            self._skip_space()
            kind = self._peek().kind
            if kind not in ("declare", "assign", "comma"):
                self._at = start
                break
            self._next()
            names.append(name)
            self._variables.append(name)
            if kind != "comma":
                return names, kind == "declare"
            self._skip_space()
            if not is_range or len(names) == 2 or self._peek().kind not in ("variable", "end", "close"):
                self._fail(self._peek(), "too many or unfinished declarations")
        return names, True

    def _known(self, name: str) -> None:
        if name not in self._variables:
            self._fail(self._peek(-1), f"an undefined variable {name}")

    def _command(self, closes: str) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        self._skip_space()
        while (operand := self._operand()) is not None:
            operands.append(operand)
            if self._peek().kind != "space":
                break
            self._skip_space()
        token = self._peek()
        if not operands or token.kind not in ("pipe", closes):
            self._fail(token, f"an unexpected {token.text!r}")
        if token.kind == "pipe":
            self._next()
        return tuple(operands)

    def _operand(self) -> Operand | None:
        term = self._term()
        if term is None:
            return None
        fields: list[str] = []
        first = self._peek()
        while self._peek().kind == "field":
            fields.append(self._next().text[1:])
        if not fields:
            return term
        if isinstance(term, Constant | Dot):
            self._fail(first, "a field of a constant or of the dot")
        if isinstance(term, Chain):
            return Chain(term.base, (*term.fields, *fields), term.at)
        return Chain(term, tuple(fields), term.at)

    def _term(self) -> Operand | None:  # noqa: C901 -- one table
        token = self._peek()
        match token.kind:
            case "word" if token.text in ("true", "false"):
                found: Operand = Constant(token.text == "true", token.at)
            case "word":
                if token.text not in self._functions:
                    self._fail(token, f"an unknown function {token.text!r}")
                found = Function(token.text, token.at)
            case "nil":
                found = Constant(None, token.at)
            case "dot":
                found = Dot(token.at)
            case "field":
                found = Chain(Dot(token.at), (token.text[1:],), token.at)
            case "variable":
                self._next()
                self._known(token.text)
                return Variable(token.text, token.at)
            case "number":
                found = Constant(self._read(read_number, token), token.at)
            case "char":
                found = Constant(self._read(read_character, token), token.at)
            case "string" | "raw":
                found = Constant(self._read(read_text, token), token.at)
            case "open":
                self._next()
                return self._pipeline(token.at, closes="close")
            case _:
                return None
        self._next()
        return found

    def _read(self, reader: Callable[[str], Any], token: Token) -> Any:
        try:
            return reader(token.text)
        except TemplateError as error:
            self._fail(token, str(error))
