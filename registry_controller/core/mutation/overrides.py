"""Applies overrides: a path is resolved against the copy, and jsonpatch applies the change.

Laws: the document and the value are never changed, and unchanged parts are shared · either all overrides are applied or
none: an override that cannot be applied raises · no message contains any part of the document.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jsonpatch

from registry_controller.api.errors import InvalidObject
from registry_controller.api.syncrule import Override
from registry_controller.core.mutation.gopatch_path import (
    AppendToken,
    IndexToken,
    KeyToken,
    MatchToken,
    Modifier,
    PathToken,
    Pointer,
    parse_pointer,
)
from registry_controller.core.mutation.left_fields import LeftTracker
from registry_controller.gotemplate.limits import Budget, TemplateError

_INSERTING: Final = frozenset((Modifier.BEFORE, Modifier.AFTER))
_MAX_SHOWN: Final = 64
_BRACKETED: Final = re.compile(r"([\w-]{1,64})\[(-?[0-9]{1,9})\]", re.ASCII)
_STEPS: Final = {Modifier.PREV: -1, Modifier.NEXT: 1, Modifier.BEFORE: 0, Modifier.AFTER: 1}


class OverrideAction(enum.Enum):
    """The action of an override; the values are as in the API."""

    REPLACE = "replace"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Operation:
    """A parsed override. `path` is the path of its pointer in the rule."""

    action: OverrideAction
    pointer: Pointer
    path: str

    @property
    def field(self) -> str:
        """The top-level field of the object that the pointer leads to or into; empty for the whole object."""
        first = next(iter(self.pointer.tokens), None)
        return first.name if isinstance(first, KeyToken) else ""


@dataclass(frozen=True, slots=True)
class PatchOperation:
    """One operation of RFC 6902: `op` is add, replace or remove; `parts` are the pointer's parts, not escaped."""

    op: str
    parts: tuple[str | int, ...]
    value: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the operation as JSON of RFC 6902."""
        path = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in self.parts)
        return {"op": self.op, "path": path} | ({} if self.op == "remove" else {"value": self.value})


def read_override(override: Override) -> Operation:
    """Parse an override; raise InvalidObject for its type, or for its path, with the position."""
    try:
        action = OverrideAction(override.type)
    except ValueError:
        raise InvalidObject(f"{override.path}.type", "must be replace or remove") from None
    path = f"{override.path}.path"
    if not override.pointer:
        raise InvalidObject(path, "is required")
    return Operation(action, parse_pointer(override.pointer, path=path), path)


def apply_overrides(
    document: Any,
    changes: Iterable[tuple[Operation, Any]],
    *,
    budget: Budget | None = None,
    left: LeftTracker | None = None,
) -> Any:
    """Apply operations in order, each with its value (ignored by a removal); raise InvalidObject if one fails.

    Values that are searched or copied on the way to a path are charged to the budget. `left` collects the places that
    the operations take out.
    """
    budget, left = budget or Budget(), left if left is not None else LeftTracker()
    for operation, value in changes:
        try:
            change = resolve_override(operation, document, value=value, budget=budget)
            _track(left, operation, change, document)
            if change:
                document = _apply(document, change, path=operation.path, budget=budget)
        except TemplateError as error:
            raise InvalidObject(operation.path, f"{error}, together with the overrides before it") from None
    return document


def _track(left: LeftTracker, operation: Operation, change: PatchOperation | None, document: Any) -> None:
    """Record the place that an operation is about to take out of a document, or to put back."""
    tokens = operation.pointer.tokens
    if operation.action is OverrideAction.REMOVE:
        left.record_removal(tokens, document)
        if change is not None:
            left.record_shift(change.parts, document, by=-1)
        return
    left.record_replacement(tokens, document)
    if change is not None and change.op == "add" and change.parts:
        left.record_shift(change.parts, document, by=1)


def resolve_override(operation: Operation, document: Any, *, value: Any, budget: Budget) -> PatchOperation | None:
    """Return the operation of an override on this document; None when there is nothing to remove.

    Raises InvalidObject when the path does not fit the document.
    """
    tokens = operation.pointer.tokens
    if operation.action is OverrideAction.REMOVE:
        return _resolve_removal(tokens, document, path=operation.path, budget=budget)
    return _resolve_replacement(tokens, document, value, path=operation.path, budget=budget)


def _resolve_removal(
    tokens: tuple[PathToken, ...], document: Any, *, path: str, budget: Budget
) -> PatchOperation | None:
    if not tokens:
        raise InvalidObject(path, "the whole object cannot be removed")
    parts: list[str | int] = []
    found = document
    for token in tokens:
        part, _ = _locate(token, found, may_insert=False, path=path, budget=budget, optional="if it may be missing")
        if part is None:
            return None
        parts.append(part)
        found = found[part]
    return PatchOperation("remove", tuple(parts))


def _resolve_replacement(
    tokens: tuple[PathToken, ...], document: Any, value: Any, *, path: str, budget: Budget
) -> PatchOperation:
    parts: list[str | int] = []
    found = document
    for number, token in enumerate(tokens):
        rest = tokens[number + 1 :]
        if isinstance(token, AppendToken):
            _require_list(token, found, path=path)
            return PatchOperation("add", (*parts, "-"), value)
        part, inserts = _locate(token, found, may_insert=not rest, path=path, budget=budget)
        if part is None:
            name = token.name if isinstance(token, KeyToken) else "-"
            return PatchOperation("add", (*parts, name), _build_missing(token, rest, value, path=path))
        parts.append(part)
        if not rest:
            return PatchOperation("add" if inserts or isinstance(token, KeyToken) else "replace", tuple(parts), value)
        found = found[part]
    return PatchOperation("replace", (), value)


def _locate(
    token: PathToken, found: Any, *, may_insert: bool, path: str, budget: Budget, optional: str = "to create it"
) -> tuple[str | int | None, bool]:
    """Return the key or index of a token, None if it is optional and missing; and whether a value is inserted there.

    `optional` is what `?` behind a key is for.
    """
    match token:
        case AppendToken():
            raise _error_at(path, token, "`-` is behind the last element: there is nothing to remove")
        case KeyToken():
            if not isinstance(found, Mapping):
                raise _error_at(path, token, f"its parent must be an object, and is {_describe(found)}")
            if token.name not in found and not token.optional:
                raise _error_at(path, token, _describe_missing_key(token.name, optional))
            return (token.name if token.name in found else None), False
        case IndexToken():
            items = _require_list(token, found, path=path)
            return _resolve_index(token, token.number, len(items), may_insert=may_insert, path=path)
        case MatchToken():
            items = _require_list(token, found, path=path)
            budget.step(len(items))
            hits = [number for number, item in enumerate(items) if _element_matches(token, item)]
            if not hits and token.optional:
                return None, False
            if len(hits) != 1:
                raise _error_at(path, token, f"exactly one element must match this, and {len(hits)} do")
            return _resolve_index(token, hits[0], len(items), may_insert=may_insert, path=path)


def _describe_missing_key(name: str, optional: str) -> str:
    """Return the message for a key of the rule that the document lacks; the document's own keys may be data (A6)."""
    shown = name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}..."
    advice = advise_element(name) or f"correct it, or write `?` behind it {optional}"
    return f"there is no key `{shown}`: {advice}"


def advise_element(name: str) -> str:
    """Return how to write a key with an index in brackets; empty for any other key."""
    found = _BRACKETED.fullmatch(name)
    return f"an element of a list is `/{found[1]}/{found[2]}`, or `/{found[1]}/name=x`" if found is not None else ""


def _element_matches(token: MatchToken, item: Any) -> bool:
    """Return whether an element has the token's string; a number or a boolean is never equal to a string."""
    return isinstance(item, Mapping) and isinstance(text := item.get(token.key), str) and text == token.value


def _resolve_index(
    token: IndexToken | MatchToken, number: int, length: int, *, may_insert: bool, path: str
) -> tuple[int, bool]:
    """Apply the modifiers to an index; return the index, and whether a value is inserted there.

    An index below 0 counts from the end.
    """
    modifiers = token.modifiers
    inserting = [modifier for modifier in modifiers if modifier in _INSERTING]
    if inserting and (not may_insert or inserting != [modifiers[-1]]):
        raise _error_at(path, token, "`:before` and `:after` may only end a path, and only to replace")
    number += sum(_STEPS[modifier] for modifier in modifiers if modifier not in _INSERTING)
    if not -length <= number < length:
        raise _error_at(path, token, f"there is no such element: the array has {length}")
    number = number % length
    return (number + _STEPS[inserting[0]], True) if inserting else (number, False)


def _build_missing(token: PathToken, rest: tuple[PathToken, ...], value: Any, *, path: str) -> Any:
    """Build the value of a missing token, with all parts down to the override's value."""
    if not rest:
        return value
    following, behind = rest[0], rest[1:]
    if isinstance(token, MatchToken):
        if not isinstance(following, KeyToken) or (following.name == token.key and behind):
            raise _error_at(path, following, "cannot be created: its parent is a new object with one string")
        return {token.key: token.value, following.name: _build_missing(following, behind, value, path=path)}
    match following:
        case KeyToken():
            return {following.name: _build_missing(following, behind, value, path=path)}
        case MatchToken() | AppendToken():
            return [_build_missing(following, behind, value, path=path)]
        case IndexToken():
            raise _error_at(path, following, "an index cannot be created; only a key, `key=value` or `-` can")


def _require_list(token: PathToken, found: Any, *, path: str) -> list[Any]:
    if not isinstance(found, list):
        raise _error_at(path, token, f"its parent must be an array, and is {_describe(found)}")
    return found


def _describe(found: Any) -> str:
    if found is None:
        return "null"
    return "an object" if isinstance(found, Mapping) else "an array" if isinstance(found, list) else "a single value"


def _apply(document: Any, change: PatchOperation, *, path: str, budget: Budget) -> Any:
    copy = _copy_spine(document, change.parts, budget)
    try:
        return jsonpatch.apply_patch(copy, [change.to_json()], in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        raise InvalidObject(path, "cannot be applied") from None  # jsonpatch's message contains the document


def _copy_spine(document: Any, parts: tuple[str | int, ...], budget: Budget) -> Any:
    """Copy the objects and arrays on the way to a path: the change modifies only these."""
    if not parts:
        return document
    budget.step_for_lookups(1 + len(document))
    copy: Any = dict(document) if isinstance(document, Mapping) else list(document)
    if len(parts) > 1:
        copy[parts[0]] = _copy_spine(copy[parts[0]], parts[1:], budget)
    return copy


def _error_at(path: str, token: PathToken, why: str) -> InvalidObject:
    return InvalidObject(path, f"character {token.at}: {why}")
