"""Evaluates pipelines: functions, fields, methods and variables.

Law: before every call, the budget is charged for the size of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.lex import position
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.nodes import (
    Chain,
    Constant,
    Dot,
    Function,
    Operand,
    Pipeline,
    Tree,
    Variable,
)
from registry_controller.gotemplate.values import (
    MISSING,
    Int,
    MissingKey,
    StringMap,
    TemplateObject,
    UntypedFloat,
    UntypedInt,
    is_true,
    key_of,
    type_of,
)

Library = Mapping[str, Callable[..., Any]]
"""Functions by name. The first parameter of each is the budget."""
Scope = list[tuple[str, Any]]
"""Variables; the newest is the last."""

_LAZY: Final = frozenset(("and", "or"))
_NOT_PIPED: Final = object()
_READ_IN_ONE_STEP: Final = 64


class _PositionedError(TemplateError):
    """An error whose message has a position."""


class Expressions:
    """Evaluates the operands of one template."""

    def __init__(self, tree: Tree, data: Mapping[str, Any], library: Library, budget: Budget) -> None:
        self._tree = tree
        self._data = data
        self._library = library
        self._budget = budget

    def pipeline(self, node: Pipeline, dot: Any, scope: Scope) -> Any:
        """Return the value of a pipeline, and set its variables."""
        value: Any = _NOT_PIPED
        for command in node.commands:
            value = self._command(command, value, dot, scope)
            if value is None:
                value = MISSING
        for name in node.variables:
            if node.declares:
                scope.append((name, value))
            else:
                self.assign(scope, name, value, node.at)
        return value

    def assign(self, scope: Scope, name: str, value: Any, at: int) -> None:
        """Set the newest variable with a name."""
        scope[self._find(scope, name, at)] = (name, value)

    def _find(self, scope: Scope, name: str, at: int) -> int:
        """Return the index of the newest variable with a name, and charge the budget for the search."""
        last = len(scope) - 1
        for index in range(last, -1, -1):
            if scope[index][0] == name:
                self._budget.step_for_lookups(last - index)
                return index
        raise self.error(f"undefined variable {name}", at)

    def error(self, words: str, at: int) -> TemplateError:
        """Return an error with a position."""
        return _PositionedError(f"template {position(self._tree.source, at)}: {words}")

    def guard(self, call: Callable[[], Any], at: int, *, name: str = "") -> Any:
        """Return the result of a call. Adds the position to errors, and converts type errors of the call."""
        try:
            return call()
        except _PositionedError:
            raise
        except TemplateError as error:
            words = str(error)
        except (TypeError, ValueError, OverflowError, ArithmeticError, LookupError, AttributeError):
            words = "invalid arguments"
        raise self.error(f"{name}: {words}" if name and not words.startswith(f"{name}:") else words, at)

    def _command(self, operands: tuple[Operand, ...], final: Any, dot: Any, scope: Scope) -> Any:
        self._budget.step()
        first, rest = operands[0], operands[1:]
        if isinstance(first, Function):
            return self._function(first, rest, final, dot, scope)
        if isinstance(first, Chain):
            return self._chain(first, rest, final, dot, scope)
        if rest or final is not _NOT_PIPED:
            raise self.error("arguments are given to a value that is not a function", first.at)
        if isinstance(first, Constant) and first.value is None:
            raise self.error("nil is not a command", first.at)
        return self._value(first, dot, scope)

    def _value(self, operand: Operand, dot: Any, scope: Scope) -> Any:
        match operand:
            case Constant():
                return _typed(operand.value)
            case Dot():
                return dot
            case Variable():
                return scope[self._find(scope, operand.name, operand.at)][1]
            case Function():
                return self._function(operand, (), _NOT_PIPED, dot, scope)
            case Chain():
                return self._chain(operand, (), _NOT_PIPED, dot, scope)
            case Pipeline():
                return self.pipeline(operand, dot, scope)

    def _function(self, node: Function, rest: tuple[Operand, ...], final: Any, dot: Any, scope: Scope) -> Any:
        if node.name in _LAZY:
            return self._and_or(node, rest, final, dot, scope)
        arguments = [self._argument(operand, dot, scope) for operand in rest]
        if final is not _NOT_PIPED:
            arguments.append(final)
        self.guard(lambda: self._charge(arguments), node.at, name=node.name)
        return self.guard(lambda: self._library[node.name](self._budget, *arguments), node.at, name=node.name)

    def _argument(self, operand: Operand, dot: Any, scope: Scope) -> Any:
        """Evaluate an argument. A constant stays untyped; the word nil is MISSING, unlike a null in an object."""
        if isinstance(operand, Constant):
            return MISSING if operand.value is None else operand.value
        return self._value(operand, dot, scope)

    def _charge(self, arguments: list[Any]) -> None:
        """Charge steps for the size of the arguments."""
        size = sum(len(value) for value in arguments if isinstance(value, str | list | Mapping))
        self._budget.step(size // _READ_IN_ONE_STEP)

    def _and_or(self, node: Function, rest: tuple[Operand, ...], final: Any, dot: Any, scope: Scope) -> Any:
        """Evaluate `and` or `or` up to the first value that decides."""
        if not rest and final is _NOT_PIPED:
            raise self.error(f"{node.name}: at least one argument is required", node.at)
        value: Any = MISSING
        for operand in rest:
            value = _typed(self._argument(operand, dot, scope))
            if is_true(value) == (node.name == "or"):
                return value
        return value if final is _NOT_PIPED else final

    def _chain(self, node: Chain, rest: tuple[Operand, ...], final: Any, dot: Any, scope: Scope) -> Any:
        if isinstance(node.base, Constant) and node.base.value is None:
            raise self.error("nil has no fields", node.at)
        self._budget.step_for_lookups(len(node.fields))
        value = self._value(node.base, dot, scope)
        path = ""
        for index, name in enumerate(node.fields):
            path += f".{name}"
            is_last = index == len(node.fields) - 1
            if is_last and (rest or final is not _NOT_PIPED) and not isinstance(value, MissingKey):
                called = isinstance(value, TemplateObject) and value.method(name)[0]
                words = f"{name} takes no arguments" if called else f"{name} has arguments but is not a method"
                raise self.error(words, node.at)
            value = self._field(value, name, path, node.at)
        return value

    def _field(self, value: Any, name: str, path: str, at: int) -> Any:
        if isinstance(value, MissingKey):
            return MissingKey(path)
        if isinstance(value, TemplateObject):
            is_method, result = value.method(name)
            if is_method:
                self._budget.step_for_lookups(len(result) if isinstance(result, StringMap) else 0)
                return result
            if name[:1].isupper():
                self._budget.step_for_lookups(value.width)
            found = value.field(name)
            return MissingKey(path) if isinstance(found, MissingKey) else found
        if value is self._data and name not in value:
            raise self.error(f".{name} does not exist; available: {', '.join(f'.{known}' for known in self._data)}", at)
        if isinstance(value, Mapping):
            if name not in value:
                self._budget.step_for_lookups(len(value))
            key = key_of(value, name)
            return value[key] if key is not None else MissingKey(path)
        if value is None:
            raise self.error(f"nil has no field {name}", at)
        raise self.error(f"type {type_of(value)} has no field {name}", at)


def _typed(value: Any) -> Any:
    """Convert an untyped constant to its default type."""
    if isinstance(value, UntypedFloat):
        return float(value)
    return Int(value) if isinstance(value, UntypedInt) else value
