"""Walk a tree with data, and write.

Law: every loop and every call takes from the budget, so an evaluation ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.lex import place
from registry_controller.gotemplate.limits import Budget, TemplateError
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
from registry_controller.gotemplate.values import (
    NOTHING,
    Ideal,
    Int,
    Nothing,
    Object,
    is_missing,
    is_true,
    key_of,
    text_of,
    type_of,
)

Library = Mapping[str, Callable[..., Any]]
"""Functions by name; each takes the budget first, and then its arguments."""

_LAZY: Final = frozenset(("and", "or"))
_NO_FINAL: Final = object()


class _Jumping(Exception):
    """A break or continue on its way to its range."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class _At(TemplateError):
    """An error that has its position already."""


def evaluate(tree: Tree, data: Mapping[str, Any], *, library: Library, budget: Budget) -> str:
    """Render a tree; TemplateError with a position for what cannot be evaluated."""
    walker = _Walker(tree, data, library, budget)
    try:
        walker.walk(tree.body, data, [("$", data)])
    except RecursionError:
        raise TemplateError("is nested too deeply") from None
    return "".join(walker.written)


class _Walker:
    def __init__(self, tree: Tree, data: Mapping[str, Any], library: Library, budget: Budget) -> None:
        self.written: list[str] = []
        self._data = data
        self._tree = tree
        self._library = library
        self._budget = budget
        self._depth = 0
        self._size = 0

    def walk(self, nodes: tuple[Node, ...], dot: Any, scope: list[tuple[str, Any]]) -> None:
        known = len(scope)
        for node in nodes:
            self._budget.step()
            match node:
                case Text():
                    self._write(node.text)
                case Action():
                    value = self._pipeline(node.pipeline, dot, scope)
                    if not node.pipeline.variables:
                        self._print(value, node.pipeline)
                case Branch(kind="range"):
                    self._range(node, dot, scope)
                case Branch():
                    self._branch(node, dot, scope)
                case Call():
                    self._call(node, dot, scope)
                case Jump():
                    raise _Jumping(node.kind)
        del scope[known:]

    def _write(self, text: str) -> None:
        self._size += len(text)
        if self._size > self._budget.limits.output:
            raise TemplateError(f"writes more than {self._budget.limits.output} characters")
        self.written.append(text)

    def _print(self, value: Any, pipeline: Pipeline) -> None:
        at = pipeline.commands[0][0].at
        if is_missing(value):
            key = f": there is no {value.path}" if isinstance(value, Nothing) and value.path else ""
            raise self._error(f"nothing to write{key}", at)
        self._write(self._guard(lambda: text_of(value, self._budget), at))

    def _branch(self, node: Branch, dot: Any, scope: list[tuple[str, Any]]) -> None:
        known = len(scope)
        value = self._pipeline(node.pipeline, dot, scope)
        if is_true(value):
            self.walk(node.body, value if node.kind == "with" else dot, scope)
        else:
            self.walk(node.otherwise, dot, scope)
        del scope[known:]

    def _range(self, node: Branch, dot: Any, scope: list[tuple[str, Any]]) -> None:
        known = len(scope)
        value = self._pipeline(node.pipeline, dot, scope, is_range=True)
        entries = self._entries(value, node)
        names = node.pipeline.variables
        if not entries:
            del scope[known:]
            self.walk(node.otherwise, dot, scope)
            return
        for key, item in entries:
            self._budget.step()
            mark = len(scope)
            bound = (item,) if len(names) == 1 else (key, item)
            for name, one in zip(names, bound, strict=False):
                if node.pipeline.declares:
                    scope.append((name, one))
                else:
                    self._assign(scope, name, one)
            try:
                self.walk(node.body, item, scope)
            except _Jumping as jump:
                if jump.kind == "break":
                    break
            finally:
                del scope[mark:]
        del scope[known:]

    def _entries(self, value: Any, node: Branch) -> list[tuple[Any, Any]]:
        if is_missing(value):
            return []
        if isinstance(value, list):
            return [(Int(index), item) for index, item in enumerate(value)]
        if isinstance(value, Mapping):
            return [(key, value[key]) for key in sorted(value)]
        if isinstance(value, int) and not isinstance(value, bool):
            if len(node.pipeline.variables) > 1:
                raise self._error("a range over a number has no second variable", node.pipeline.at)
            self._guard(lambda: self._budget.make(value), node.pipeline.at)
            kind = type(value)
            return [(kind(index), kind(index)) for index in range(value)]
        raise self._error(f"range cannot iterate over {type_of(value)}", node.pipeline.at)

    def _call(self, node: Call, dot: Any, scope: list[tuple[str, Any]]) -> None:
        body = self._tree.defined.get(node.name)
        if body is None:
            raise self._error(f"no template {node.name!r} is defined", node.at)
        self._depth += 1
        if self._depth > self._budget.limits.depth:
            raise self._error(f"templates call each other more than {self._budget.limits.depth} deep", node.at)
        value = NOTHING if node.pipeline is None else self._pipeline(node.pipeline, dot, scope)
        self.walk(body, value, [("$", value)])
        self._depth -= 1

    # Values.

    def _pipeline(self, node: Pipeline, dot: Any, scope: list[tuple[str, Any]], *, is_range: bool = False) -> Any:
        value: Any = _NO_FINAL
        for command in node.commands:
            value = self._command(command, value, dot, scope)
        if not is_range:
            for name in node.variables:
                if node.declares:
                    scope.append((name, value))
                else:
                    self._assign(scope, name, value)
        return value

    @staticmethod
    def _assign(scope: list[tuple[str, Any]], name: str, value: Any) -> None:
        for index in range(len(scope) - 1, -1, -1):
            if scope[index][0] == name:
                scope[index] = (name, value)
                return

    def _command(self, operands: tuple[Operand, ...], final: Any, dot: Any, scope: list[tuple[str, Any]]) -> Any:
        self._budget.step()
        first, rest = operands[0], operands[1:]
        if isinstance(first, Function):
            return self._function(first, rest, final, dot, scope)
        if isinstance(first, Chain):
            return self._chain(first, rest, final, dot, scope)
        if rest or final is not _NO_FINAL:
            raise self._error("arguments for what is no function", first.at)
        if isinstance(first, Constant) and first.value is None:
            raise self._error("nil is no command", first.at)
        return self._value(first, dot, scope)

    def _value(self, operand: Operand, dot: Any, scope: list[tuple[str, Any]]) -> Any:
        match operand:
            case Constant():
                return float(operand.value) if isinstance(operand.value, Ideal) else operand.value
            case Dot():
                return dot
            case Variable():
                return next(value for name, value in reversed(scope) if name == operand.name)
            case Function():
                return self._function(operand, (), _NO_FINAL, dot, scope)
            case Chain():
                return self._chain(operand, (), _NO_FINAL, dot, scope)
            case Pipeline():
                return self._pipeline(operand, dot, scope)

    def _function(
        self, node: Function, rest: tuple[Operand, ...], final: Any, dot: Any, scope: list[tuple[str, Any]]
    ) -> Any:
        if node.name in _LAZY:
            return self._lazy(node, rest, final, dot, scope)
        arguments = [
            operand.value if isinstance(operand, Constant) else self._value(operand, dot, scope) for operand in rest
        ]
        if final is not _NO_FINAL:
            arguments.append(final)
        return self._guard(lambda: self._library[node.name](self._budget, *arguments), node.at, name=node.name)

    def _lazy(
        self, node: Function, rest: tuple[Operand, ...], final: Any, dot: Any, scope: list[tuple[str, Any]]
    ) -> Any:
        """`and` and `or` stop at the first value that decides."""
        if not rest and final is _NO_FINAL:
            raise self._error(f"{node.name}: needs an argument", node.at)
        value: Any = NOTHING
        for operand in rest:
            value = self._value(operand, dot, scope)
            if is_true(value) == (node.name == "or"):
                return value
        return value if final is _NO_FINAL else final

    def _chain(self, node: Chain, rest: tuple[Operand, ...], final: Any, dot: Any, scope: list[tuple[str, Any]]) -> Any:
        if isinstance(node.base, Constant) and node.base.value is None:
            raise self._error("nil has no fields", node.at)
        value = self._value(node.base, dot, scope)
        path = ""
        for index, name in enumerate(node.fields):
            path += f".{name}"
            is_last = index == len(node.fields) - 1
            called = isinstance(value, Object) and value.method(name)[0]
            if is_last and (rest or final is not _NO_FINAL):
                words = f"{name} takes no arguments" if called else f"{name} has arguments but is no method"
                raise self._error(words, node.at)
            value = self._field(value, name, path, node.at)
        return value

    def _field(self, value: Any, name: str, path: str, at: int) -> Any:
        if isinstance(value, Nothing):
            return Nothing(path)
        if isinstance(value, Object):
            is_method, result = value.method(name)
            if is_method:
                return result
            found = value.field(name)
            return Nothing(path) if isinstance(found, Nothing) else found
        if value is self._data and name not in value:
            raise self._error(f"there is no .{name}; there are {', '.join(f'.{known}' for known in self._data)}", at)
        if isinstance(value, Mapping):
            key = key_of(value, name)
            return value[key] if key is not None else Nothing(path)
        if value is None:
            raise self._error(f"nil has no field {name}", at)
        raise self._error(f"a {type_of(value)} has no field {name}", at)

    # Errors.

    def _error(self, words: str, at: int) -> TemplateError:
        return _At(f"template {place(self._tree.source, at)}: {words}")

    def _guard(self, call: Callable[[], Any], at: int, *, name: str = "") -> Any:
        """Call; give errors their position, and let no mistake of an argument's type escape."""
        try:
            return call()
        except _At:
            raise
        except TemplateError as error:
            words = str(error)
        except (TypeError, ValueError, OverflowError, ArithmeticError, LookupError, AttributeError):
            words = "cannot be done with these arguments"
        raise self._error(f"{name}: {words}" if name and not words.startswith(f"{name}:") else words, at)
