"""The values of overrides: templates that see the object and both Clusters, rendered before anything is changed.

Law: the same rule on the same object in the same context gives the same values. No I/O, no clock, no chance.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from registry_controller.api.syncrule import Override
from registry_controller.core.overrides import Action, Operation, read_override
from registry_controller.core.pointer import Key
from registry_controller.core.yamlvalue import parse_value
from registry_controller.gotemplate import Template, as_decoded, compile_template

_KEPT_AT_HOME = frozenset(("labels", "annotations", "finalizers", "ownerReferences"))


def check_override(override: Override) -> None:
    """Raise InvalidObject, with the field's path, for an override that no object could satisfy."""
    _read(override)


def render_overrides(overrides: Iterable[Override], *, data: Mapping[str, Any]) -> list[tuple[Operation, Any]]:
    """Render all values; raise InvalidObject for the first that cannot be."""
    readings = [(override, *_read(override)) for override in overrides]
    if any(template is not None for _, _, template in readings):
        data = as_decoded(data)
    return [(operation, _value(override, operation, template, data)) for override, operation, template in readings]


def may_move(override: Override) -> bool:
    """Say whether an override may change an object's name or namespace."""
    operation, _ = _read(override)
    tokens = operation.pointer.tokens
    if not tokens or not isinstance(tokens[0], Key) or tokens[0].name != "metadata":
        return not tokens
    return len(tokens) == 1 or (isinstance(tokens[1], Key) and tokens[1].name not in _KEPT_AT_HOME)


@functools.lru_cache(maxsize=4096)
def _read(override: Override) -> tuple[Operation, Template | None]:
    operation = read_override(override)
    if operation.action is Action.REMOVE or "{{" not in override.value:
        return operation, None
    return operation, compile_template(override.value, path=f"{override.path}.value")


def _value(override: Override, operation: Operation, template: Template | None, data: Mapping[str, Any]) -> Any:
    if operation.action is Action.REMOVE:
        return None
    text = override.value if template is None else template.render(data)
    return parse_value(text, path=f"{override.path}.value") if override.parse_value else text
