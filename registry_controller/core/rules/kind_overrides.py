"""Overrides of a copy's `apiVersion` and `kind`, which only `mutations.groupVersionKind` may change.

Law: it is an error only where no object and no other override could let it be as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.syncrule import Override, SyncRule
from registry_controller.core.mutation.gopatch_path import KeyToken
from registry_controller.core.mutation.overrides import Operation, OverrideAction
from registry_controller.core.mutation.templates import is_template, read_operation
from registry_controller.core.rules.finding import Finding

_KEPT: Final = ("apiVersion", "kind")
_INSTEAD: Final = "mutations.groupVersionKind does that"


def kind_overrides(rule: SyncRule) -> Iterator[Finding]:
    """Find overrides that must not change what they are for: errors where they cannot but do it."""
    found = [*_operations(rule)]
    for name in _KEPT:
        touching = [(override, operation) for override, operation in found if _top_of(operation) == name]
        # One that writes what was there may mend what another one did.
        is_error = all(_changes(rule, name, override, operation) for override, operation in touching)
        words = f"{'changes' if is_error else 'must not change'} {name}: {_INSTEAD}"
        yield from (Finding(operation.path, words, is_error=is_error) for _, operation in touching)


def _operations(rule: SyncRule) -> Iterator[tuple[Override, Operation]]:
    for override in (override for entry in rule.entries for override in entry.mutations.overrides):
        try:
            yield override, read_operation(override)
        except InvalidObject:
            continue  # which is found elsewhere


def _top_of(operation: Operation) -> str:
    """Name the field of the whole object that is changed, or in which something is."""
    first = next(iter(operation.pointer.tokens), None)
    return first.name if isinstance(first, KeyToken) else ""


def _changes(rule: SyncRule, name: str, override: Override, operation: Operation) -> bool:
    """Say whether an override takes away what a copy must have, looks for something in a text, or writes another."""
    if operation.action is OverrideAction.REMOVE or len(operation.pointer.tokens) > 1:
        return True
    if is_template(override) or override.parse_value:
        return False
    if name == "kind":
        return override.value not in _parts(rule, "kind")
    group, version = meta.group_version(override.value)
    return group not in _parts(rule, "group") or version not in _parts(rule, "version")


def _parts(rule: SyncRule, part: str) -> Sequence[str]:
    """List what a part of the copy's kind may be, whichever entries match."""
    return [getattr(kind, part) for kind in (rule.kind, *(entry.mutations.kind for entry in rule.entries))]
