"""The nodes of a parsed template. `at` is the offset of a node in the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, string, boolean or nil."""

    value: Any
    at: int


@dataclass(frozen=True, slots=True)
class Dot:
    """`.`, the current value."""

    at: int


@dataclass(frozen=True, slots=True)
class Variable:
    """`$` or `$name`."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Function:
    """The name of a function."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Fields of an operand, one after the other."""

    base: Operand
    fields: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands; the value of each is the last argument of the next. `variables` are set to the last value."""

    commands: tuple[tuple[Operand, ...], ...]
    variables: tuple[str, ...]
    declares: bool
    at: int


Operand = Constant | Dot | Variable | Function | Chain | Pipeline


@dataclass(frozen=True, slots=True)
class TextNode:
    """Text that is output unchanged."""

    text: str


@dataclass(frozen=True, slots=True)
class ActionNode:
    """A pipeline whose value is output, unless the pipeline sets a variable."""

    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class BranchNode:
    """`if`, `with` or `range`."""

    kind: str
    pipeline: Pipeline
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class TemplateNode:
    """A call of another template by its name."""

    name: str
    pipeline: Pipeline | None
    at: int


@dataclass(frozen=True, slots=True)
class JumpNode:
    """`break` or `continue`."""

    kind: str


Node = TextNode | ActionNode | BranchNode | TemplateNode | JumpNode


@dataclass(slots=True)
class Tree:
    """A template, and the templates that it defines."""

    source: str
    body: tuple[Node, ...] = ()
    defined: dict[str, tuple[Node, ...]] = field(default_factory=dict)
