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
        return {key: self[key].text() for key in self.mapping()}

    def whole(self) -> int:
        """Read an integer."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise InvalidObject(self.path, f"must be an integer, not {_kind(self.value)}")
        return self.value


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "null" if value is None else "an object")
