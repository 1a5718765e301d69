"""Lists the fields that the writes of a plan change, without the data of Secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ObjectKey
from registry_controller.planner.dry_run import DryRun
from registry_controller.planner.plan import Plan, PlanAction, PlanRow
from registry_controller.planner.recording_client import RecordedWrite

_MOST_FIELDS: Final = 50
_MOST_TEXT: Final = 80
_SERVER_SET: Final = frozenset(
    {"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"}
)
_SHOWN_OF_SECRETS: Final = (("metadata", "labels"), ("metadata", "finalizers"), ("type",), ("immutable",))
"""The fields of a Secret whose values are shown: annotations may repeat its data, as kubectl's annotation does."""
_MISSING: Final = object()
_FieldPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A change of one field: `+` adds it, `-` removes it, `~` changes it. `text` has its path, and its values."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class ObjectChanges:
    """The changes of one row of a plan. `problem` is the reason why they are not known; empty where they are."""

    row: PlanRow
    changes: Sequence[FieldChange]
    problem: str = ""


async def read_changes(plan: Plan, dry_run: DryRun) -> Sequence[ObjectChanges]:
    """Read the objects that a plan changes, and list the changes of each; a dry run shows the stored form."""
    found = []
    for row in plan.rows:
        if row.action not in (PlanAction.CREATE, PlanAction.UPDATE, PlanAction.DELETE):
            continue
        writes = [write for write in plan.writes.get(row.target, ()) if write.body]
        try:
            changes = [change for write in writes for change in await _list_changes(row, write, dry_run)]
        except RegistryError as error:
            found.append(ObjectChanges(row, (), str(error)))
        else:
            found.append(ObjectChanges(row, changes))
    return found


async def _list_changes(row: PlanRow, write: RecordedWrite, dry_run: DryRun) -> Sequence[FieldChange]:
    client = dry_run.local_client
    wanted = msgspec.json.decode(write.body)
    is_secret = _has_secret_data(row)
    key = ObjectKey(row.target.namespace, row.target.name)
    if write.verb == "create" and row.action is not PlanAction.UPDATE:
        return list_field_changes({}, wanted, is_secret=is_secret)
    if (write.gvr == meta.NAMESPACES) != (row.target.kind == meta.NAMESPACE.kind):
        return ()
    stored = msgspec.json.decode(await client.get(write.gvr, key))
    if write.verb == "update":
        answer = await client.replace(write.gvr, key, write.body, dry_run=True, subresource=write.subresource)
        return list_field_changes(stored, msgspec.json.decode(answer), is_secret=is_secret)
    # The copy is deleted and created again: fields that the API server sets are not in the new object.
    changes = list_field_changes(stored, wanted, is_secret=is_secret)
    return [change for change in changes if change.sign != "-"]


def _has_secret_data(row: PlanRow) -> bool:
    """Return whether an object has the data of a Secret: it is one, or it is copied from one."""
    secret = (meta.SECRET.group, meta.SECRET.kind)
    source = row.source
    return secret in ((row.target.group, row.target.kind), (source.kind.group, source.kind.kind) if source else ())


def list_field_changes(before: Any, after: Any, *, is_secret: bool) -> Sequence[FieldChange]:
    """List the fields that differ, at most 50, without fields that the API server sets; of a Secret, without data."""
    found = [_describe(*change, is_secret=is_secret) for change in _compare(before, after, ())]
    if len(found) > _MOST_FIELDS:
        return [*found[:_MOST_FIELDS], FieldChange("~", f"and {len(found) - _MOST_FIELDS} more fields")]
    return found


def _compare(before: Any, after: Any, path: _FieldPath) -> Iterator[tuple[_FieldPath, Any, Any]]:
    """Yield path, former value and new value of each leaf that differs; a missing value is `_MISSING`."""
    if _is_ignored(path) or before == after:
        return
    pairs: Sequence[tuple[str | int, Any, Any]]
    if _is_map(before, after):
        old, new = _or_empty(before, {}), _or_empty(after, {})
        pairs = [(key, old.get(key, _MISSING), new.get(key, _MISSING)) for key in sorted({*old, *new})]
    elif _is_list(before, after):
        old, new = _or_empty(before, []), _or_empty(after, [])
        pairs = [(at, _item(old, at), _item(new, at)) for at in range(max(len(old), len(new)))]
    else:
        pairs = ()
    if not pairs:
        yield path, before, after
    for key, old, new in pairs:
        yield from _compare(old, new, (*path, key))


def _is_map(before: Any, after: Any) -> bool:
    return all(value is _MISSING or isinstance(value, Mapping) for value in (before, after))


def _is_list(before: Any, after: Any) -> bool:
    return all(value is _MISSING or isinstance(value, list) for value in (before, after))


def _or_empty(value: Any, empty: Any) -> Any:
    return empty if value is _MISSING else value


def _item(values: Sequence[Any], at: int) -> Any:
    return values[at] if at < len(values) else _MISSING


def _is_ignored(path: _FieldPath) -> bool:
    if path[:1] == ("metadata",) and len(path) == 2:
        return path[1] in _SERVER_SET
    return path == ("metadata", "annotations", meta.KUBECTL_LAST_APPLIED)


def _describe(path: _FieldPath, before: Any, after: Any, *, is_secret: bool) -> FieldChange:
    sign = "+" if before is _MISSING else "-" if after is _MISSING else "~"
    name = format_field(path)
    if is_secret and not any(path[: len(shown)] == shown for shown in _SHOWN_OF_SECRETS):
        return FieldChange(sign, f"{name} (value hidden)")
    if sign == "~":
        return FieldChange(sign, f"{name}: {_shorten(before)} -> {_shorten(after)}")
    return FieldChange(sign, f"{name}: {_shorten(after if sign == '+' else before)}")


def format_field(path: _FieldPath) -> str:
    """Return a path as in a JSONPath: `spec.ports[0].name`, `metadata.labels["a.b/c"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("_", "").replace("-", "").isalnum():
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def _shorten(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."
