"""Evaluates the tree of a template with data, and returns the output.

Law: every loop and every call charges the budget, so every evaluation ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from registry_controller.gotemplate.expressions import Expressions, Library, Scope
from registry_controller.gotemplate.formats import text_of
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.nodes import (
    ActionNode,
    BranchNode,
    JumpNode,
    Node,
    Pipeline,
    TemplateNode,
    TextNode,
    Tree,
)
from registry_controller.gotemplate.quoting import quote
from registry_controller.gotemplate.values import MISSING, Int, MissingKey, is_missing, is_true, type_of


class _LoopExit(Exception):
    """Leaves the body of a range for `break` or `continue`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


def evaluate(tree: Tree, data: Mapping[str, Any], *, library: Library, budget: Budget) -> str:
    """Return the output of a tree. Raises TemplateError with a position if the evaluation fails."""
    walker = _Walker(tree, data, library, budget)
    try:
        walker.walk(tree.body, data, [("$", data)])
    except RecursionError:
        raise TemplateError("template is nested too deeply") from None
    return "".join(walker.written)


class _Walker:
    def __init__(self, tree: Tree, data: Mapping[str, Any], library: Library, budget: Budget) -> None:
        self.written: list[str] = []
        self._tree = tree
        self._budget = budget
        self._values = Expressions(tree, data, library, budget)
        self._depth = 0

    def walk(self, nodes: tuple[Node, ...], dot: Any, scope: Scope) -> None:
        """Output nodes. Variables that they declare stay in `scope`; the caller removes them."""
        for node in nodes:
            self._budget.step()
            match node:
                case TextNode():
                    self._write(node.text)
                case ActionNode():
                    value = self._values.pipeline(node.pipeline, dot, scope)
                    if not node.pipeline.variables:
                        self._print(value, node.pipeline)
                case BranchNode(kind="range"):
                    self._range(node, dot, scope)
                case BranchNode():
                    self._branch(node, dot, scope)
                case TemplateNode():
                    self._call(node, dot, scope)
                case JumpNode():
                    raise _LoopExit(node.kind)

    def _write(self, text: str) -> None:
        self._budget.reserve_output(len(text))
        self.written.append(text)

    def _print(self, value: Any, pipeline: Pipeline) -> None:
        at = pipeline.commands[0][0].at
        if is_missing(value):
            key = f": {value.path} does not exist" if isinstance(value, MissingKey) and value.path else ""
            raise self._values.error(f"cannot print nil{key}", at)
        self._write(self._values.guard(lambda: text_of(value, self._budget), at))

    def _branch(self, node: BranchNode, dot: Any, scope: Scope) -> None:
        known = len(scope)
        value = self._values.pipeline(node.pipeline, dot, scope)
        if is_true(value):
            self.walk(node.body, value if node.kind == "with" else dot, scope)
        else:
            self.walk(node.otherwise, dot, scope)
        del scope[known:]

    def _range(self, node: BranchNode, dot: Any, scope: Scope) -> None:
        known = len(scope)
        value = self._values.pipeline(node.pipeline, dot, scope)
        mark = len(scope)
        is_empty = True
        for key, item in self._entries(value, node.pipeline):
            is_empty = False
            self._bind(node.pipeline, key, item, scope, mark)
            try:
                self.walk(node.body, item, scope)
            except _LoopExit as jump:
                if jump.kind == "break":
                    break
            finally:
                del scope[mark:]
        if is_empty:
            self.walk(node.otherwise, dot, scope)
        del scope[known:]

    def _bind(self, pipeline: Pipeline, key: Any, item: Any, scope: Scope, mark: int) -> None:
        """Set the variables of a range; the first of two variables is the key."""
        names = pipeline.variables
        bound = (key, item)[-len(names) :] if names else ()
        for index, (name, value) in enumerate(zip(names, bound, strict=True)):
            if pipeline.declares:
                scope[mark - len(names) + index] = (name, value)
            else:
                self._values.assign(scope, name, value, pipeline.at)

    def _entries(self, value: Any, pipeline: Pipeline) -> Iterator[tuple[Any, Any]]:
        if isinstance(value, list):
            for index, item in enumerate(value):
                self._budget.step()
                yield Int(index), item
        elif isinstance(value, Mapping):
            self._budget.step(len(value))  # sorts all keys even if the loop breaks early; the body may remove keys
            yield from [(key, value[key]) for key in sorted(value)]
        elif isinstance(value, int) and not isinstance(value, bool):
            if len(pipeline.variables) > 1:
                raise self._values.error("a range over a number takes only one variable", pipeline.at)
            kind = type(value)
            for index in range(value):
                self._budget.step()
                yield MISSING, kind(index)
        elif not is_missing(value):
            raise self._values.error(f"range cannot iterate over {type_of(value)}", pipeline.at)

    def _call(self, node: TemplateNode, dot: Any, scope: Scope) -> None:
        body = self._tree.defined.get(node.name)
        if body is None:
            raise self._values.error(f"template {quote(node.name)} is not defined", node.at)
        self._depth += 1
        if self._depth > self._budget.limits.depth:
            limit = self._budget.limits.depth
            raise self._values.error(f"template calls nested more than {limit} levels deep", node.at)
        value = MISSING if node.pipeline is None else self._values.pipeline(node.pipeline, dot, scope)
        self.walk(body, value, [("$", value)])
        self._depth -= 1
