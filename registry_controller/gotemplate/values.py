"""Values as Go has them: what is true, how they print, how they compare, and what fields they have.

A plain `int` is an int64, as numbers in objects are; `Int` is Go's int, as constants are. Text is counted in characters
but for `len`, `slice` and widths of `trunc`, which count bytes as Go does. NOTHING is Go's invalid value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from registry_controller.gotemplate.limits import Budget, TemplateError


class Int(int):
    """Go's `int`."""


class Ideal(float):
    """A constant without a type yet: where an int is asked for, `1e3` is one."""


class Nothing:
    """What a missing key gives: nil for conditions and defaults, an error to print."""

    def __init__(self, path: str = "") -> None:
        self.path = path


NOTHING: Final = Nothing()


class Texts(list[Any]):
    """Go's `[]string`."""


class Object:
    """A Kubernetes object: its fields by their JSON names or Go's, and its methods."""

    METHODS: Final[Mapping[str, tuple[str, Any]]] = {
        "GetName": ("name", ""), "GetNamespace": ("namespace", ""), "GetLabels": ("labels", {}),
        "GetAnnotations": ("annotations", {}), "GetUID": ("uid", ""), "GetResourceVersion": ("resourceVersion", ""),
        "GetGenerateName": ("generateName", ""), "GetGeneration": ("generation", 0),
    }  # fmt: skip
    _TYPE: Final = {"GetKind": "kind", "GetAPIVersion": "apiVersion"}

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self.manifest = manifest

    def method(self, name: str) -> tuple[bool, Any]:
        """Call a method: whether there is one, and its result."""
        if name in self._TYPE:
            return True, self.manifest.get(self._TYPE[name]) or ""
        if name in self.METHODS:
            key, default = self.METHODS[name]
            return True, (self.manifest.get("metadata") or {}).get(key) or default
        return False, None

    def field(self, name: str) -> Any:
        """Find a field; metadata's and the type's are promoted, as in Go's structs."""
        if name == "Object":
            return self.manifest
        found = key_of(self.manifest, name)
        if found is not None:
            return self.manifest[found]
        info = self.manifest.get("metadata") or {}
        found = key_of(info, name) if name[:1].isupper() else None
        return info[found] if found is not None else NOTHING


def key_of(found: Mapping[str, Any], name: str) -> str | None:
    """Find the key that a field's name means: the same, else what Go's capitals hide."""
    if name in found:
        return name
    if not name[:1].isupper():
        return None
    folded = name.casefold()
    return next((key for key in sorted(found) if key.casefold() == folded), None)


def is_missing(value: object) -> bool:
    """Say whether a value is nil."""
    return value is None or isinstance(value, Nothing)


def is_true(value: object) -> bool:
    """Say whether `if` takes a value for true."""
    if is_missing(value):
        return False
    if isinstance(value, Object):
        return True
    return bool(value)


_TYPES: Final = (
    (Nothing, "<nil>"), (type(None), "<nil>"), (bool, "bool"), (Int, "int"), (int, "int64"), (float, "float64"),
    (str, "string"), (Object, "object"), (Mapping, "map[string]interface {}"), (Texts, "[]string"),
    (list, "[]interface {}"),
)  # fmt: skip


def type_of(value: object) -> str:
    """Name a value's type as Go spells it."""
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


def float_text(number: float, *, small: int = -4, big: int = 6) -> str:
    """Spell a float: the shortest that reads back, with an exponent below `small` and from `big` on."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    text = repr(number)
    mantissa, _, power = text.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    mantissa = mantissa.lstrip("-")
    whole, _, fraction = mantissa.partition(".")
    raw = (whole + fraction).lstrip("0")
    shift = int(power or 0) + len(whole)
    leading = len(whole + fraction) - len((whole + fraction).lstrip("0"))
    exponent = shift - leading - 1
    raw = raw.rstrip("0") or "0"
    if raw == "0":
        return f"{sign}0"
    if exponent < small or exponent >= big:
        rest = f".{raw[1:]}" if len(raw) > 1 else ""
        return f"{sign}{raw[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{raw}"
    if len(raw) <= exponent + 1:
        return f"{sign}{raw}{'0' * (exponent + 1 - len(raw))}"
    return f"{sign}{raw[: exponent + 1]}.{raw[exponent + 1 :]}"


def text_of(value: object, budget: Budget, *, nil: str = "<nil>") -> str:
    """Spell a value as %v does."""
    budget.step()
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return float_text(value)
    if is_missing(value):
        return nil
    if isinstance(value, Object):
        raise TemplateError("a whole object cannot be written; take its fields, or toJson of .Object.Object")
    if isinstance(value, Mapping):
        parts = [f"{key}:{text_of(value[key], budget)}" for key in sorted(value)]
        text = f"map[{' '.join(parts)}]"
    elif isinstance(value, list):
        text = f"[{' '.join(text_of(item, budget) for item in value)}]"
    else:
        raise TemplateError(f"a value of type {type_of(value)} cannot be written")
    budget.make(len(text))
    return text


def basic(value: object) -> str:
    """Name what a value compares as; empty for what does not."""
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((int, "int"), (float, "float"), (str, "string")):
        if isinstance(value, kind):
            return name
    return ""


def equal(one: object, other: object) -> bool:
    """Compare as `eq` does; TemplateError for what cannot be compared."""
    if basic(one) != basic(other):
        if is_missing(one) or is_missing(other):
            return False
        raise TemplateError("eq: incompatible types for comparison")
    if basic(one):
        return one == other
    if is_missing(one) or is_missing(other):
        return is_missing(one) and is_missing(other)
    raise TemplateError(f"eq: values of type {type_of(one)} cannot be compared")


def less(one: object, other: object) -> bool:
    """Compare as `lt` does; TemplateError for what has no order."""
    kind = basic(one)
    if kind in ("", "bool"):
        raise TemplateError("lt: a type that cannot be ordered")
    if kind != basic(other):
        raise TemplateError("lt: incompatible types for comparison")
    if isinstance(one, str) and isinstance(other, str):
        return one.encode() < other.encode()
    return one < other  # type: ignore[operator,no-any-return]
