"""Renders the values of overrides: templates of the object and both Clusters, rendered before the copy is changed.

Laws: the same rule on the same object in the same context gives the same values · all values of a rule share the
budget of one template. No I/O, no clock, no chance.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from registry_controller.api.errors import InvalidObject
from registry_controller.api.syncrule import Override
from registry_controller.core.mutation.gopatch_path import KeyToken
from registry_controller.core.mutation.overrides import Operation, OverrideAction, read_override
from registry_controller.core.mutation.yaml_value import parse_value
from registry_controller.gotemplate import DEFAULT, Budget, Template, TemplateError, compile_template, with_go_numbers

_NOT_MOVING = frozenset(("labels", "annotations", "finalizers", "ownerReferences"))


class _TemplateCache:
    """The compiled templates that were used last, together no longer than `max_characters`."""

    def __init__(self, *, max_characters: int) -> None:
        self._max_characters = max_characters
        self._templates: dict[tuple[str, str], Template] = {}
        self._size = 0

    def get(self, source: str, *, path: str) -> Template:
        """Return a template from the cache, or compile it."""
        key = (source, path)
        template = self._templates.pop(key, None)
        if template is None:
            template = compile_template(source, path=path)
            self._size += _OVERHEAD_CHARACTERS + len(source)
        self._templates[key] = template
        while self._size > self._max_characters:
            oldest, path = next(iter(self._templates))
            del self._templates[(oldest, path)]
            self._size -= _OVERHEAD_CHARACTERS + len(oldest)
        return template


_OVERHEAD_CHARACTERS: Final = 64
_CHARACTERS_A_STEP: Final = 2
_TEMPLATES: Final = _TemplateCache(max_characters=8 * DEFAULT.source)  # a character takes up to 75 bytes: 38 MiB


def is_template(override: Override) -> bool:
    """Return whether an override's value is a template."""
    return "{{" in override.value


def check_override(override: Override) -> None:
    """Raise InvalidObject, with the field's path, for an override that is invalid for every object."""
    _get_template(override, read_operation(override))


def render_overrides(
    overrides: Iterable[Override], *, data: Mapping[str, Any], budget: Budget
) -> list[tuple[Operation, Any]]:
    """Render all values within one budget; raise InvalidObject for the first one that fails."""
    parsed = [
        (override, operation := read_operation(override), _get_charged_template(override, operation, budget))
        for override in overrides
    ]
    if any(template is not None for _, _, template in parsed):
        data = _decode_data(data, budget)
    return [
        (operation, _render_value(override, operation, template, data, budget))
        for override, operation, template in parsed
    ]


def may_move(override: Override) -> bool:
    """Return whether an override may change an object's name or namespace."""
    tokens = read_operation(override).pointer.tokens
    if not tokens or not isinstance(tokens[0], KeyToken) or tokens[0].name != "metadata":
        return not tokens
    return len(tokens) == 1 or (isinstance(tokens[1], KeyToken) and tokens[1].name not in _NOT_MOVING)


def read_operation(override: Override) -> Operation:
    """Parse an override, or return it from a cache; raise InvalidObject for its type or its path."""
    return _read_cached(override.type, override.pointer, override.path)


@functools.lru_cache(maxsize=4096)
def _read_cached(type_: str, pointer: str, path: str) -> Operation:
    return read_override(Override(type_, pointer, "", False, path))


def _get_template(override: Override, operation: Operation) -> Template | None:
    if operation.action is OverrideAction.REMOVE or not is_template(override):
        return None
    return _TEMPLATES.get(override.value, path=f"{override.path}.value")


def _get_charged_template(override: Override, operation: Operation, budget: Budget) -> Template | None:
    """Return an override's template; charge for it each time, because it may have to be compiled again."""
    if operation.action is not OverrideAction.REMOVE and is_template(override):
        try:
            budget.step(len(override.value) // _CHARACTERS_A_STEP)
        except TemplateError as error:
            raise InvalidObject(f"{override.path}.value", str(error)) from None
    return _get_template(override, operation)


def _decode_data(data: Mapping[str, Any], budget: Budget) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = with_go_numbers(data, budget=budget)
    except TemplateError as error:
        raise InvalidObject("overrides", str(error)) from None
    return found


def _render_value(
    override: Override, operation: Operation, template: Template | None, data: Mapping[str, Any], budget: Budget
) -> Any:
    if operation.action is OverrideAction.REMOVE:
        return None
    text = override.value if template is None else template.render(data, budget=budget)
    if not override.parse_value:
        return text
    path = f"{override.path}.value"
    try:
        return parse_value(text, path=path, budget=budget)
    except TemplateError as error:
        raise InvalidObject(path, f"the rendered YAML {error}") from None
