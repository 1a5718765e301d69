"""The parts of a template that was read. `at` is where a part begins in the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, text, boolean or nil."""

    value: Any
    at: int


@dataclass(frozen=True, slots=True)
class Dot:
    """The present value."""

    at: int


@dataclass(frozen=True, slots=True)
class Variable:
    """`$` or `$name`."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function's name."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Fields of something, one after the other."""

    base: Operand
    fields: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each of which gets the value of the one before as its last argument; then what is set to the value."""

    commands: tuple[tuple[Operand, ...], ...]
    variables: tuple[str, ...]
    declares: bool
    at: int


Operand = Constant | Dot | Variable | Function | Chain | Pipeline


@dataclass(frozen=True, slots=True)
class TextNode:
    """What is written as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class ActionNode:
    """A pipeline whose value is written, unless it sets a variable."""

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
    """Another template by its name."""

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
    """A template with those that it defines."""

    source: str
    body: tuple[Node, ...] = ()
    defined: dict[str, tuple[Node, ...]] = field(default_factory=dict)
