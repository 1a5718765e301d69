"""Values with the semantics of Go: types, truth, comparison, fields and methods.

A plain `int` is an int64, as numbers in objects are; `Int` is Go's int, as constants are. A plain list is Go's
`[]interface {}`, a plain mapping its `map[string]interface {}`. MISSING is Go's invalid value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.limits import Budget, TemplateError


class Int(int):
    """Go's `int`."""


class UntypedInt(Int):
    """An integer constant without a type yet: as a float argument, `1` is a float."""


class Byte(int):
    """Go's `uint8`: an element of a string."""


class UntypedFloat(float):
    """A constant with a point or exponent, without a type yet: as an int argument, `1e3` is an int."""


class MissingKey:
    """The value of a missing key: nil in conditions and for defaults, an error when printed. `path` names the key."""

    def __init__(self, path: str = "") -> None:
        self.path = path


MISSING: Final = MissingKey()


class Slice(list[Any]):
    """A list whose element type is not `interface {}`, or a nil list, which prints as an empty list does."""

    def __init__(self, items: Iterable[Any] = (), *, element: str = "interface {}", is_nil: bool = False) -> None:
        super().__init__(items)
        self.element = element
        self.is_nil = is_nil


def strings(items: Iterable[Any]) -> Slice:
    """Return a `[]string`."""
    return Slice(items, element="string")


class MutableDict(dict[str, Any]):
    """A dict that the template created. The template may change no other dict."""


class StringMap(dict[str, str]):
    """Go's `map[string]string`: `index` returns the empty string for a missing key."""

    is_nil = False


class TemplateObject:
    """A Kubernetes object: its fields by JSON name or Go name, and its methods."""

    METHODS: Final[Mapping[str, tuple[str, Any]]] = {
        "GetName": ("name", ""), "GetNamespace": ("namespace", ""), "GetLabels": ("labels", {}),
        "GetAnnotations": ("annotations", {}), "GetUID": ("uid", ""), "GetResourceVersion": ("resourceVersion", ""),
        "GetGenerateName": ("generateName", ""), "GetGeneration": ("generation", 0),
    }  # fmt: skip
    _TYPE: Final = {"GetKind": "kind", "GetAPIVersion": "apiVersion"}

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self.manifest = manifest

    @property
    def width(self) -> int:
        """Return the number of keys that are compared with a Go name."""
        return len(self.manifest) + len(self.manifest.get("metadata") or ())

    def method(self, name: str) -> tuple[bool, Any]:
        """Call a method; return whether it exists, and its result."""
        if name in self._TYPE:
            return True, self.manifest.get(self._TYPE[name]) or ""
        if name in self.METHODS:
            key, default = self.METHODS[name]
            found = (self.manifest.get("metadata") or {}).get(key)
            if isinstance(default, dict):
                labels = StringMap(found or {})
                labels.is_nil = found is None
                return True, labels
            return True, found or default
        return False, None

    def field(self, name: str) -> Any:
        """Return a field, or MISSING. As in Go's structs, the fields of the metadata and of the type are promoted."""
        if name == "Object":
            return self.manifest
        if name == "ObjectMeta":
            return self.manifest.get("metadata") or {}
        found = key_of(self.manifest, name)
        if found is not None:
            return self.manifest[found]
        info = self.manifest.get("metadata") or {}
        found = key_of(info, name) if name[:1].isupper() else None
        return info[found] if found is not None else MISSING


def with_go_numbers(value: Any, *, budget: Budget) -> Any:
    """Return decoded JSON with the numbers that Go decodes: an integer beyond 64 bits becomes a float.

    A value without such an integer is returned itself. Raises TemplateError if the budget has too few steps.
    """
    if isinstance(value, Mapping):
        budget.step_for_lookups(len(value))
        changed = {key: new for key, old in value.items() if (new := with_go_numbers(old, budget=budget)) is not old}
        return {**value, **changed} if changed else value
    if isinstance(value, list):
        budget.step_for_lookups(len(value))
        items = [with_go_numbers(item, budget=budget) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def key_of(found: Mapping[str, Any], name: str) -> str | None:
    """Return the key for the name of a field: the name, or else the key that differs from a Go name only in case."""
    if name in found:
        return name
    if not name[:1].isupper():
        return None
    folded = name.casefold()
    return min((key for key in found if key.casefold() == folded), default=None)


def is_missing(value: object) -> bool:
    """Return whether a value is nil."""
    return value is None or isinstance(value, MissingKey)


def is_true(value: object) -> bool:
    """Return whether a value is true for `if`."""
    if is_missing(value):
        return False
    if isinstance(value, TemplateObject):
        return True
    return bool(value)


_TYPES: Final = (
    (MissingKey, "<nil>"), (type(None), "<nil>"), (bool, "bool"), (Int, "int"), (Byte, "uint8"), (int, "int64"),
    (float, "float64"), (str, "string"), (TemplateObject, "object"), (StringMap, "map[string]string"),
    (Mapping, "map[string]interface {}"), (list, "[]interface {}"),
)  # fmt: skip


def type_of(value: object) -> str:
    """Return the name of a value's type in Go."""
    if isinstance(value, Slice):
        return f"[]{value.element}"
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    return type(value).__name__


def kind_of(value: object) -> str:
    """Return the kind of a value as Go's reflection names it."""
    name = type_of(value)
    if name.startswith(("map", "[")):
        return "map" if name.startswith("map") else "slice"
    return {"<nil>": "invalid", "object": "ptr"}.get(name, name)


def _basic(value: object) -> str:
    """Return the basic kind for comparisons; empty for a value without an order."""
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((int, "int"), (float, "float"), (str, "string")):
        if isinstance(value, kind):
            return name
    return ""


def _is_nil(value: object) -> bool:
    return is_missing(value) or bool(getattr(value, "is_nil", False))


def equal(one: object, other: object) -> bool:
    """Compare as `eq` does. Raises TemplateError if the values cannot be compared."""
    kind, other_kind = _basic(one), _basic(other)
    if kind != other_kind:
        if is_missing(one) or is_missing(other):
            return False
        raise TemplateError("eq: incompatible types for comparison")
    if kind:
        return one == other
    if not (is_missing(one) or is_missing(other)) and kind_of(one) != kind_of(other):
        raise TemplateError("eq: values of these types cannot be compared")
    if _is_nil(one) or _is_nil(other):
        return _is_nil(one) and _is_nil(other)
    if not isinstance(other, TemplateObject):
        raise TemplateError(f"eq: values of type {type_of(other)} cannot be compared")
    return one is other


def less(one: object, other: object) -> bool:
    """Compare as `lt` does. Raises TemplateError if the values have no order."""
    kind, other_kind = _basic(one), _basic(other)
    if not kind or not other_kind:
        raise TemplateError("lt: values of this type have no order")
    if kind != other_kind:
        raise TemplateError("lt: incompatible types for comparison")
    if kind == "bool":
        raise TemplateError("lt: values of this type have no order")
    if isinstance(one, str) and isinstance(other, str):
        return one.encode() < other.encode()
    return one < other  # type: ignore[operator,no-any-return]
