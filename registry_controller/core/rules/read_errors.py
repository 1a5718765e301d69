"""Lists all errors of a rule that cannot be read, where the reader reports the first one."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.syncrule import read_rule
from registry_controller.core.rules.findings import Finding
from registry_controller.core.rules.validation import check_rule

_MOST: Final = 50
_PART: Final = re.compile(r"[^.\[\]]+|\[[^\]]*\]")
_Path = tuple[str, ...]
_VALID: Final[Mapping[str, Any]] = {
    "matchExpressions": {"key": "x", "operator": "Exists"},
    "content": {"key": "x", "value": ""},
    "overrides": {"type": "remove", "path": "/x"},
    "namespaces": "x",
}
"""The element that takes the place of an invalid one, by the name of its list; an empty object in other lists."""


def find_all_problems(manifest: meta.Manifest) -> list[Finding]:
    """Return the errors of a rule that cannot be read, at most 50, and the problems of its other fields.

    Each invalid field is left out before the rule is read again. That it is missing then is no error.
    """
    remaining, found = copy.deepcopy(dict(manifest)), list[Finding]()
    left_out: set[_Path] = set()
    while len(found) < _MOST:
        try:
            rule = read_rule(remaining)
        except InvalidObject as error:
            if _is_apart(error.path, left_out):
                found.append(Finding(error.path, error.message))
            path = _leave_out(remaining, _parts(error.path))
            if path is None:
                break
            left_out |= {path, _parts(error.path)}
        else:
            return found + [problem for problem in check_rule(rule, remaining) if _is_apart(problem.path, left_out)]
    return found


def _parts(path: str) -> _Path:
    return tuple(_PART.findall(path))


def _is_apart(path: str, left_out: Set[_Path]) -> bool:
    """Return whether neither a field, nor a field in it or above it, was left out."""
    parts = _parts(path)
    return not any(parts[: len(other)] == other or other[: len(parts)] == parts for other in left_out)


def _leave_out(manifest: dict[str, Any], path: _Path) -> _Path | None:
    """Leave out the value at a path, or else the field or element around it; return the path of that.

    An element of a list becomes a valid one, so that the other paths stay the same. None where no field is left.
    """
    holders = list(_holders(manifest, path))
    for depth, (holder, key) in reversed(list(enumerate(holders, start=1))):
        if isinstance(holder, dict) and key in holder:
            del holder[key]
            return path[:depth]
        valid = _VALID.get(path[depth - 2], {}) if depth > 1 else {}
        if isinstance(holder, list) and holder[int(key)] != valid:
            holder[int(key)] = copy.deepcopy(valid)
            return path[:depth]
    return None


def _holders(value: object, path: _Path) -> Iterator[tuple[Any, str]]:
    """List the objects and lists on a path, from the top, each with the key or index that leads on."""
    for part in path:
        key = part.strip("[]")
        if isinstance(value, Mapping):
            yield value, key
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            yield value, key
            value = value[int(key)]
        else:
            return
