"""Parses a template into a tree. As in Go, an unknown function or variable is an error of the parser."""

from __future__ import annotations

from collections.abc import Collection

from registry_controller.gotemplate.constants import read_text
from registry_controller.gotemplate.cursor import Cursor
from registry_controller.gotemplate.lex import LexToken
from registry_controller.gotemplate.limits import Limits, TemplateError
from registry_controller.gotemplate.nodes import ActionNode, BranchNode, JumpNode, Node, TemplateNode, TextNode, Tree
from registry_controller.gotemplate.pipelines import Pipelines
from registry_controller.gotemplate.quoting import quote


def parse(source: str, *, functions: Collection[str], limits: Limits) -> Tree:
    """Return the tree of a template. Raises TemplateError with a position if Go refuses the template."""
    if len(source) > limits.source:
        raise TemplateError(f"template is longer than {limits.source} characters")
    return _Parser(source, functions, limits).tree()


def _has_content(nodes: tuple[Node, ...]) -> bool:
    return any(not isinstance(node, TextNode) or node.text.strip() for node in nodes)


class _Parser:
    def __init__(self, source: str, functions: Collection[str], limits: Limits) -> None:
        self._tree = Tree(source)
        self._cursor = Cursor(source, limits)
        self._pipelines = Pipelines(self._cursor, functions)
        self._loops = 0

    def tree(self) -> Tree:
        body: list[Node] = []
        while self._cursor.peek().kind != "eof":
            if self._cursor.is_keyword("define"):
                self._define()
            else:
                nodes, stop = self._nodes(top=True)
                body += nodes
                if stop:
                    self._cursor.fail(self._cursor.peek(), f"unexpected {stop}")
        self._add_definition("", tuple(body))
        self._tree.body = self._tree.defined[""]
        return self._tree

    def _nodes(self, *, top: bool = False) -> tuple[list[Node], str]:
        """Return the nodes up to `end` or `else`, and this keyword, not consumed; at the top, up to `define`."""
        nodes: list[Node] = []
        self._cursor.descend()
        try:
            while (token := self._cursor.peek()).kind != "eof":
                if token.kind == "text":
                    nodes.append(TextNode(self._cursor.advance().text))
                    continue
                for word in ("end", "else"):
                    if self._cursor.is_keyword(word) and not (word == "end" and self._cursor.peek(1).text == "}}"):
                        return nodes, word
                if self._cursor.is_keyword("define"):
                    if not top:
                        self._cursor.fail(token, "unexpected define")
                    return nodes, ""
                nodes.append(self._action())
            if not top:
                self._cursor.fail(self._cursor.peek(), "missing {{ end }} of an action")
            return nodes, ""
        finally:
            self._cursor.ascend()

    def _expect_action(self, word: str) -> None:
        self._cursor.expect("begin", "an action")
        self._cursor.expect(word, word)

    def _expect_end(self) -> None:
        self._cursor.skip_space()
        token = self._cursor.advance()
        if (token.kind, token.text) != ("end", "}}"):
            self._cursor.fail_unexpected(token)

    def _define(self) -> None:
        self._expect_action("define")
        name = self._quoted_name()
        self._expect_end()
        self._define_body(name)

    def _quoted_name(self) -> str:
        self._cursor.skip_space()
        token = self._cursor.advance()
        if token.kind not in ("string", "raw"):
            self._cursor.fail(token, "expected a name in quotes")
        return self._unquoted(token)

    def _define_body(self, name: str) -> None:
        saved, self._pipelines.variables, loops, self._loops = self._pipelines.variables, ["$"], self._loops, 0
        nodes, stop = self._nodes()
        if stop != "end":
            self._cursor.fail(self._cursor.peek(), f"unexpected {stop}")
        self._expect_action("end")
        self._expect_end()
        self._pipelines.variables, self._loops = saved, loops
        self._add_definition(name, tuple(nodes))

    def _add_definition(self, name: str, nodes: tuple[Node, ...]) -> None:
        """Store a defined template. Of two templates with one name, only one may have content."""
        defined = self._tree.defined.get(name, ())
        if not _has_content(defined):
            self._tree.defined[name] = nodes
        elif _has_content(nodes):
            self._cursor.fail(self._cursor.peek(-1), f"template {quote(name)} is defined twice")

    def _action(self) -> Node:
        begin = self._cursor.expect("begin", "an action")
        self._cursor.skip_space()
        token = self._cursor.peek()
        if token.kind in ("if", "with", "range"):
            self._cursor.advance()
            return self._branch(token.kind)
        if token.kind in ("break", "continue"):
            self._cursor.advance()
            if not self._loops:
                self._cursor.fail(token, f"{token.kind} outside a range")
            self._expect_end()
            return JumpNode(token.kind)
        if token.kind in ("template", "block"):
            self._cursor.advance()
            return self._call(token)
        if token.kind in ("end", "else", "define") and token.text != "}}":
            self._cursor.fail(token, f"unexpected {token.text}")
        return ActionNode(self._pipelines.read(begin.at, closes="end"))

    def _call(self, token: LexToken) -> Node:
        name = self._quoted_name()
        self._cursor.skip_space()
        pipeline = None
        if self._cursor.peek().text == "}}" and self._cursor.peek().kind == "end":
            self._cursor.advance()
            if token.kind == "block":
                self._cursor.fail(token, "missing value of a block")
        else:
            pipeline = self._pipelines.read(token.at, closes="end")
        if token.kind == "block":
            self._define_body(name)
        return TemplateNode(name, pipeline, token.at)

    def _branch(self, kind: str) -> Node:
        known = len(self._pipelines.variables)
        pipeline = self._pipelines.read(self._cursor.peek().at, closes="end", is_range=kind == "range")
        self._loops += kind == "range"
        body, stop = self._nodes()
        self._loops -= kind == "range"
        otherwise: list[Node] = []
        if stop == "else":
            self._expect_action("else")
            self._cursor.skip_space()
            token = self._cursor.peek()
            if token.kind in ("if", "with") and token.kind == kind:
                self._cursor.advance()
                otherwise = [self._branch(kind)]
                del self._pipelines.variables[known:]
                return BranchNode(kind, pipeline, tuple(body), tuple(otherwise))
            self._expect_end()
            otherwise, stop = self._nodes()
            if stop != "end":
                self._cursor.fail(self._cursor.peek(), f"unexpected {stop}")
        self._expect_action("end")
        self._expect_end()
        del self._pipelines.variables[known:]
        return BranchNode(kind, pipeline, tuple(body), tuple(otherwise))

    def _unquoted(self, token: LexToken) -> str:
        try:
            return read_text(token.text)
        except TemplateError as error:
            self._cursor.fail(token, str(error))
