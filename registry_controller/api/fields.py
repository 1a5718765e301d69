"""Read typed fields out of decoded JSON; what does not fit is an error that spells the field's path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry_controller.api.errors import InvalidObject


@dataclass(frozen=True, slots=True)
class Field:
    """A value and where it was found. `value` is None for a field that is missing or null."""

    value: Any
    path: str

    def __getitem__(self, key: str) -> Field:
        return Field(self.mapping().get(key), f"{self.path}.{key}" if self.path else key)

    def mapping(self) -> Mapping[str, Any]:
        """Read an object; a missing one is empty."""
        if self.value is None:
            return {}
        if not isinstance(self.value, Mapping):
            raise InvalidObject(self.path, f"must be an object, not {_kind(self.value)}")
        return self.value

    def items(self, *, of: str = "") -> Sequence[Field]:
        """Read a list, `of` what is said where there is none; a missing one is empty."""
        if self.value is None:
            return ()
        if not isinstance(self.value, list):
            raise InvalidObject(self.path, f"must be a list{of and f' of {of}'}, not {_kind(self.value)}")
        return tuple(Field(value, f"{self.path}[{index}]") for index, value in enumerate(self.value))

    def text(self, default: str = "") -> str:
        """Read a string."""
        if self.value is None:
            return default
        if not isinstance(self.value, str):
            raise InvalidObject(self.path, f"must be a string, not {_kind(self.value)}")
        return self.value

    def flag(self) -> bool:
        """Read a boolean; a missing one is False."""
        if self.value is None:
            return False
        if not isinstance(self.value, bool):
            raise InvalidObject(self.path, f"must be true or false, not {_kind(self.value)}")
        return self.value

    def texts(self) -> tuple[str, ...]:
        """Read a list of strings."""
        return tuple(item.text() for item in self.items())

    def text_map(self) -> Mapping[str, str]:
        """Read an object whose values are strings."""
        return {key: self.entry(key).text() for key in self.mapping()}

    def entry(self, key: str) -> Field:
        """Take the value of a key that somebody chose, which may have dots: it stands in brackets."""
        return Field(self.mapping().get(key), f"{self.path}[{key}]")

    def int_or_text(self) -> int | str:
        """Read a string or an integer."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, str)):
            words = f"must be a text or a whole number, not {_kind(self.value)}"
            raise InvalidObject(self.path, f"{words}{_as_text(self.value)}")
        return self.value


def _as_text(value: object) -> str:
    """Advise how to write a value that could be one as a text."""
    if isinstance(value, bool):
        return f'; write it as a text: "{str(value).lower()}"'
    return "; write it as a text, in quotes" if isinstance(value, float) else ""


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number with a fraction", str: "a string", list: "a list"}
    return names.get(type(value), "null" if value is None else "an object")
