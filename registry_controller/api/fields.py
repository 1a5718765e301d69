"""Typed access to fields of decoded JSON. A wrong type is an error with the field's path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry_controller.api.errors import InvalidObject


@dataclass(frozen=True, slots=True)
class Field:
    """A value and its path. A missing field has the value None, as has a null."""

    value: Any
    path: str

    def __getitem__(self, key: str) -> Field:
        return Field(self.mapping().get(key), f"{self.path}.{key}" if self.path else key)

    def mapping(self) -> Mapping[str, Any]:
        """Return an object; empty if the field is missing."""
        if self.value is None:
            return {}
        if not isinstance(self.value, Mapping):
            raise InvalidObject(self.path, f"must be an object, not {_kind(self.value)}")
        return self.value

    def items(self, *, of: str = "") -> Sequence[Field]:
        """Return the elements of a list; empty if the field is missing. `of` describes the elements in the error."""
        if self.value is None:
            return ()
        if not isinstance(self.value, list):
            raise InvalidObject(self.path, f"must be a list{of and f' of {of}'}, not {_kind(self.value)}")
        return tuple(Field(value, f"{self.path}[{index}]") for index, value in enumerate(self.value))

    def text(self, default: str = "") -> str:
        """Return a string."""
        if self.value is None:
            return default
        if not isinstance(self.value, str):
            raise InvalidObject(self.path, f"must be a string, not {_kind(self.value)}{_advice(self.value)}")
        return self.value

    def flag(self) -> bool:
        """Return a boolean; False if the field is missing."""
        if self.value is None:
            return False
        if not isinstance(self.value, bool):
            raise InvalidObject(self.path, f"must be true or false, not {_kind(self.value)}")
        return self.value

    def texts(self) -> tuple[str, ...]:
        """Return a list of strings."""
        return tuple(item.text() for item in self.items())

    def text_map(self) -> Mapping[str, str]:
        """Return an object whose values are strings."""
        return {key: self.entry(key).text() for key in self.mapping()}

    def entry(self, key: str) -> Field:
        """Return the field for a key of a map. A key may contain dots, so the path has it in brackets."""
        return Field(self.mapping().get(key), f"{self.path}[{key}]")

    def int_or_text(self) -> int | str:
        """Return a string or an integer."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, str)):
            words = f"must be a string or an integer, not {_kind(self.value)}"
            raise InvalidObject(self.path, f"{words}{_advice(self.value)}")
        return self.value


def _advice(value: object) -> str:
    """Return how to write a scalar as a string; empty for an object or a list."""
    if isinstance(value, bool):
        return f'; write it as a string: "{str(value).lower()}"'
    return "; write it as a string, in quotes" if isinstance(value, int | float) else ""


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number with a fraction", str: "a string", list: "a list"}
    return names.get(type(value), "null" if value is None else "an object")
