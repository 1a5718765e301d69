"""Reads objects from YAML with the position of each field: lines and columns are counted from 1.

Law: scalars are read as kubectl reads them, so that a boolean there is a boolean here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml

from registry_controller.core.mutation.yaml_scalar import read_scalar

_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_PLAIN: Final = "!plain"
_WHOLE: Final = 2.0**63
_TOP: Final = ("apiVersion", "kind")
"""Fields that occur twice in a document when the line `---` between two objects is missing."""


class Position(NamedTuple):
    """A position in a file."""

    line: int
    column: int


class Duplicate(NamedTuple):
    """A key that occurs twice in a mapping: its path in the document, its position, and the first position."""

    path: str
    place: Position
    first: Position

    @property
    def joins_objects(self) -> bool:
        """Return whether the document looks like two objects."""
        return self.path in _TOP


@dataclass(frozen=True, slots=True)
class Item:
    """An object of a document, which may be a List."""

    manifest: Mapping[str, Any]
    node: yaml.Node

    def node_at(self, path: str) -> yaml.Node:
        """Return the node of a path that ends in an element of a list, or the nearest node that exists."""
        return _find(self.node, path)

    def place(self, path: str) -> Position:
        """Return the position of a field's key, or of the nearest field that exists."""
        return _place_of(_find(self.node, path))


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file."""

    items: Sequence[Item]
    duplicates: Sequence[Duplicate]
    number: int
    """Its number in the file, counted from 1."""
    versions: Sequence[str]
    """Each `apiVersion` of the document itself; a valid document has one."""


def read_documents(text: str) -> Iterator[Document]:
    """Read the documents of a file; raise YAMLError for invalid YAML."""
    for number, node in enumerate(yaml.compose_all(text, Loader=_Loader), start=1):
        if node is not None:
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            versions = [str(value.value) for key, value in pairs if key.value == "apiVersion"]
            items = _items(node, _Loader("").construct_document(node))
            yield Document(tuple(items), tuple(_duplicates(node, "", set())), number, versions)


class _Loader(yaml.SafeLoader):
    """A loader that resolves plain scalars as kubectl does, and makes every key a text, as in JSON."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and implicit[0] and value != "<<":
            return _PLAIN
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        return {_key_text(key): value for key, value in super().construct_mapping(node, deep=deep).items()}


def _read_plain(_: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    """Read a scalar as its JSON, in which 80.0 is 80."""
    value = read_scalar(node.value, tag="", is_plain=True)
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE else value


_Loader.add_constructor(_PLAIN, _read_plain)


def _key_text(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else "null" if key is None else str(key)


def _items(node: yaml.Node, document: Any) -> Iterator[Item]:
    if not isinstance(document, Mapping):
        return
    if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
        for index, item in enumerate(document["items"]):
            yield from _items(_find(node, f"items[{index}]"), item)
    else:
        yield Item(document, node)


def _duplicates(node: yaml.Node, path: str, seen: set[int]) -> Iterator[Duplicate]:
    """Find keys that occur twice in a mapping; a node with aliases is checked once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        first: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value)
            below = f"{path}.{name}" if path else name
            if isinstance(key, yaml.ScalarNode) and first.setdefault(name, key) is not key:
                yield Duplicate(below, _place_of(key), _place_of(first[name]))
            yield from _duplicates(value, below, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _duplicates(item, f"{path}[{index}]", seen)


def _place_of(node: yaml.Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def _find(node: yaml.Node, path: str) -> yaml.Node:
    """Return the node of a path, a field's key, or the nearest node that exists."""
    found = node
    for name, bracketed in _STEP.findall(path):
        step = name or bracketed
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in reversed(node.value) if key.value == step), None)
            if pair is None:
                return found
            found, node = pair
        elif isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
            found = node = node.value[int(step)]
        else:
            return found
    return found
