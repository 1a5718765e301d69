"""LabelSelectors as in Kubernetes, and selectors of the same form for annotations."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field


class Operator(enum.Enum):
    """The operator of a requirement, as in the API."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement on the value of one key."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, found: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement; as in Kubernetes, a missing key meets NotIn."""
        value = found.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all be met; without requirements, everything is selected."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, found: Mapping[str, str]) -> bool:
        """Return whether labels (or annotations) meet every requirement."""
        for requirement in self.requirements:  # noqa: SIM110 - a generator costs more than the comparison
            if not requirement.matches(found):
                return False
        return True


def read_selector(field: Field, *, labels_field: str = "matchLabels") -> Selector:
    """Parse `{matchLabels, matchExpressions}`; `labels_field` is `matchAnnotations` for annotations."""
    wanted = [
        Requirement(key, Operator.IN, frozenset((value,)))
        for key, value in sorted(field[labels_field].text_map().items())
    ]
    wanted.extend(_read_expression(item) for item in field["matchExpressions"].items())
    return Selector(tuple(wanted))


_SIGN: Final = re.compile(r"[,()]")
_MOST_SHOWN: Final = 80
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_REQUIREMENT: Final = re.compile(
    rf"(?P<not>!\s*)?(?P<alone>{_NAME})"
    rf"|(?P<key>{_NAME})\s*(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<of>{_NAME})\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)"
)


def parse_selector(text: str, *, path: str = "label_selector") -> Selector:
    """Parse a label selector as kubectl takes it: `a=b,c!=d,e in (f,g),h notin (i),j,!k`; InvalidObject otherwise.

    `path` is the path of the text, for the error. The time is linear in the length of the text.
    """
    if not text.strip():
        return Selector()
    return Selector(tuple(_parse_requirement(part, path) for part in split_requirements(text)))


def split_requirements(text: str) -> list[str]:
    """Split a selector at the commas between requirements, not at those between the values of one: `a in (1,2),b=3`."""
    parts, start, is_inside = list[str](), 0, False
    for found in _SIGN.finditer(text):
        sign = found[0]
        if sign != ",":
            is_inside = sign == "("
        elif not is_inside:
            parts.append(text[start : found.start()])
            start = found.end()
    return [*parts, text[start:]]


def _parse_requirement(text: str, path: str) -> Requirement:
    found = _REQUIREMENT.fullmatch(text.strip())
    if found is None:
        shown = text.strip()[:_MOST_SHOWN]
        raise InvalidObject(path, f"{shown!r} is no requirement such as a=b, a!=b, a in (b,c) or !a")
    if found["alone"] is not None:
        return Requirement(found["alone"], Operator.DOES_NOT_EXIST if found["not"] else Operator.EXISTS)
    if found["key"] is not None:
        operator = Operator.NOT_IN if found["sign"] == "!=" else Operator.IN
        return Requirement(found["key"], operator, frozenset((found["value"],)))
    values = frozenset(value.strip() for value in found["values"].split(","))
    return Requirement(found["of"], Operator.IN if found["word"] == "in" else Operator.NOT_IN, values)


def _read_expression(field: Field) -> Requirement:
    key = field["key"].text()
    if not key:
        raise InvalidObject(f"{field.path}.key", "is required")
    try:
        operator = Operator(field["operator"].text())
    except ValueError:
        raise InvalidObject(f"{field.path}.operator", "must be In, NotIn, Exists or DoesNotExist") from None
    values = frozenset(field["values"].texts())
    if operator in (Operator.IN, Operator.NOT_IN) and not values:
        raise InvalidObject(f"{field.path}.values", f"must have at least one value for {operator.value}")
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and values:
        raise InvalidObject(f"{field.path}.values", f"must be empty for {operator.value}")
    return Requirement(key, operator, values)
