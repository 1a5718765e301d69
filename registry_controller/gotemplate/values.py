"""Values as Go has them: what is true, how they print, how they compare, and what fields they have.

A plain `int` is an int64, as numbers in objects are; `Int` is Go's int, as constants are. A plain list is Go's
`[]interface {}`, a plain mapping its `map[string]interface {}`. NOTHING is Go's invalid value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.limits import Budget, TemplateError


class Int(int):
    """Go's `int`."""


class UntypedInt(Int):
    """A whole constant without a type yet: where a float is asked for, `1` is one."""


class Byte(int):
    """Go's `uint8`: what indexing a text gives."""


class UntypedFloat(float):
    """A constant with a point or exponent, without a type yet: where an int is asked for, `1e3` is one."""


class Missing:
    """What a missing key gives: nil for conditions and defaults, an error to print."""

    def __init__(self, path: str = "") -> None:
        self.path = path


MISSING: Final = Missing()


class Slice(list[Any]):
    """A list with another element type than `interface {}`, or one that is nil, which prints as an empty one does."""

    def __init__(self, items: Iterable[Any] = (), *, element: str = "interface {}", is_nil: bool = False) -> None:
        super().__init__(items)
        self.element = element
        self.is_nil = is_nil


def strings(items: Iterable[Any]) -> Slice:
    """Make a `[]string`."""
    return Slice(items, element="string")


class MutableDict(dict[str, Any]):
    """A dict that the template made: the only kind that it may change."""


class StringMap(dict[str, str]):
    """Go's `map[string]string`: a missing key is the empty text for `index`."""

    is_nil = False


class TemplateObject:
    """A Kubernetes object: its fields by their JSON names or Go's, and its methods."""

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
        """Count the keys among which one is looked for that is spelled as Go does."""
        return len(self.manifest) + len(self.manifest.get("metadata") or ())

    def method(self, name: str) -> tuple[bool, Any]:
        """Call a method: whether there is one, and its result."""
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
        """Find a field; metadata's and the type's are promoted, as in Go's structs."""
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


def as_decoded(value: Any, *, budget: Budget) -> Any:
    """Give decoded JSON the numbers that Go decodes: an integer beyond 64 bits is a float. What has none is itself.

    TemplateError when the budget has too few steps for so many values.
    """
    if isinstance(value, Mapping):
        budget.pass_by(len(value))
        changed = {key: new for key, old in value.items() if (new := as_decoded(old, budget=budget)) is not old}
        return {**value, **changed} if changed else value
    if isinstance(value, list):
        budget.pass_by(len(value))
        items = [as_decoded(item, budget=budget) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def key_of(found: Mapping[str, Any], name: str) -> str | None:
    """Find the key that a field's name means: the same, else what Go's capitals hide."""
    if name in found:
        return name
    if not name[:1].isupper():
        return None
    folded = name.casefold()
    return min((key for key in found if key.casefold() == folded), default=None)


def is_missing(value: object) -> bool:
    """Say whether a value is nil."""
    return value is None or isinstance(value, Missing)


def is_true(value: object) -> bool:
    """Say whether `if` takes a value for true."""
    if is_missing(value):
        return False
    if isinstance(value, TemplateObject):
        return True
    return bool(value)


_TYPES: Final = (
    (Missing, "<nil>"), (type(None), "<nil>"), (bool, "bool"), (Int, "int"), (Byte, "uint8"), (int, "int64"),
    (float, "float64"), (str, "string"), (TemplateObject, "object"), (StringMap, "map[string]string"),
    (Mapping, "map[string]interface {}"), (list, "[]interface {}"),
)  # fmt: skip


def type_of(value: object) -> str:
    """Name a value's type as Go spells it."""
    if isinstance(value, Slice):
        return f"[]{value.element}"
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    return type(value).__name__


def kind_of(value: object) -> str:
    """Name the kind of a value as Go's reflection does."""
    name = type_of(value)
    if name.startswith(("map", "[")):
        return "map" if name.startswith("map") else "slice"
    return {"<nil>": "invalid", "object": "ptr"}.get(name, name)


def _basic(value: object) -> str:
    """Name what a value compares as; empty for what has no order."""
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((int, "int"), (float, "float"), (str, "string")):
        if isinstance(value, kind):
            return name
    return ""


def _is_nil(value: object) -> bool:
    return is_missing(value) or bool(getattr(value, "is_nil", False))


def equal(one: object, other: object) -> bool:
    """Compare as `eq` does; TemplateError for what cannot be compared."""
    kind, other_kind = _basic(one), _basic(other)
    if kind != other_kind:
        if is_missing(one) or is_missing(other):
            return False
        raise TemplateError("eq: incompatible types for comparison")
    if kind:
        return one == other
    if not (is_missing(one) or is_missing(other)) and kind_of(one) != kind_of(other):
        raise TemplateError("eq: types that cannot be compared")
    if _is_nil(one) or _is_nil(other):
        return _is_nil(one) and _is_nil(other)
    if not isinstance(other, TemplateObject):
        raise TemplateError(f"eq: values of type {type_of(other)} cannot be compared")
    return one is other


def less(one: object, other: object) -> bool:
    """Compare as `lt` does; TemplateError for what has no order."""
    kind, other_kind = _basic(one), _basic(other)
    if not kind or not other_kind:
        raise TemplateError("lt: a type that cannot be ordered")
    if kind != other_kind:
        raise TemplateError("lt: incompatible types for comparison")
    if kind == "bool":
        raise TemplateError("lt: a type that cannot be ordered")
    if isinstance(one, str) and isinstance(other, str):
        return one.encode() < other.encode()
    return one < other  # type: ignore[operator,no-any-return]
