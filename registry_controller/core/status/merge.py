"""Merges a wanted status into the stored status.

Laws: the result is None when nothing is to be written · merging twice is merging once · unknown fields stay · a changed
time alone (`lastTransitionTime`, `lastHeartbeatTime`) is never written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_TIMES: Final = ("lastTransitionTime", "lastHeartbeatTime")

Status = Mapping[str, Any]


def merge_status(current: Status | None, wanted: Status, *, now: str) -> Status | None:
    """Return the merge patch's `status`, or None when the stored status contains all of `wanted`.

    Each field of `wanted` replaces the whole stored field, or removes it with None; all other fields stay. Its
    `conditions` replace the conditions of their types; a condition whose status is None is removed, and conditions of
    other types stay. A condition's `lastTransitionTime` changes only with its status. `now` is RFC 3339 in UTC.
    """
    stored = current or {}
    patch: dict[str, Any] = {}
    for field, value in wanted.items():
        if field == "conditions":
            continue
        if value is None:
            if stored.get(field) is not None:
                patch[field] = None
        elif not is_same_value(stored.get(field), value):
            patch[field] = _build_replacement(stored.get(field), value)
    conditions = merge_conditions(list_conditions(stored), list_conditions(wanted), now=now)
    if conditions is not None:
        patch["conditions"] = conditions
    return patch or None


def merge_conditions(stored: Sequence[Status], wanted: Sequence[Status], *, now: str) -> list[Status] | None:
    """Return the whole list of conditions to write, in the stored order, new ones last; None for no difference."""
    ours = {str(condition["type"]) for condition in wanted}
    news = {str(condition["type"]): condition for condition in wanted if condition.get("status") is not None}
    merged: list[Status] = []
    changed = False
    for old in stored:
        kind = str(old.get("type", ""))
        new = news.pop(kind, None)
        if kind not in ours:
            merged.append(old)
        elif new is None:  # removed, or a second condition of its type
            changed = True
        elif _is_same_condition(old, new):
            merged.append(old)
        else:
            kept = old.get("lastTransitionTime") if old.get("status") == new.get("status") else None
            merged.append(_set_times(new, since=kept, now=now))
            changed = True
    merged.extend(_set_times(new, since=None, now=now) for new in news.values())
    return merged if changed or news else None


def find_transitions(current: Status | None, wanted: Status) -> list[Status]:
    """List the wanted conditions whose status or reason differs from the stored one, or that are new."""
    stored = {condition.get("type"): condition for condition in list_conditions(current)}
    found = []
    for condition in list_conditions(wanted):
        if condition.get("status") is None:
            continue
        old = stored.get(condition["type"], {})
        if any(old.get(part) != condition.get(part) for part in ("status", "reason")):
            found.append(condition)
    return found


def is_same_value(stored: object, wanted: object) -> bool:
    """Return whether a stored value is the wanted one; an empty value and a missing one are equal, as in Go."""
    if isinstance(stored, str | int) and type(stored) is type(wanted):
        return stored == wanted
    if isinstance(stored, dict) and isinstance(wanted, dict) and stored.keys() == wanted.keys():
        return all(is_same_value(value, wanted[key]) for key, value in stored.items())
    if _is_empty(stored) and _is_empty(wanted):
        return True
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        return all(is_same_value(stored.get(key), wanted.get(key)) for key in stored.keys() | wanted.keys())
    if isinstance(stored, list | tuple) and isinstance(wanted, list | tuple):
        return len(stored) == len(wanted) and all(map(is_same_value, stored, wanted))
    return type(stored) is type(wanted) and stored == wanted


def is_same_status(stored: Status, wanted: Status) -> bool:
    """Return what `is_same_value` returns; faster for statuses that are equal, as most are."""
    return stored == wanted or is_same_value(stored, wanted)


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str | Mapping | list | tuple) and not value)


def _build_replacement(stored: object, wanted: Any) -> Any:
    """Build the value with which a merge patch replaces the stored one: null removes a key of an object."""
    if not (isinstance(stored, Mapping) and isinstance(wanted, Mapping)):
        return wanted
    removed = {key: None for key in stored if key not in wanted}
    return removed | {key: _build_replacement(stored.get(key), value) for key, value in wanted.items()}


def list_conditions(status: object) -> Sequence[Status]:
    """List the conditions of a stored status, which may be anything."""
    found = status.get("conditions") if isinstance(status, Mapping) else None
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list | tuple) else ()


def find_condition(status: object, type_: str) -> Status:
    """Return a condition of a stored status, which may be anything; empty if it is missing."""
    return next((item for item in list_conditions(status) if item.get("type") == type_), {})


def _is_same_condition(old: Status, new: Status) -> bool:
    """Return whether a stored condition is the wanted one.

    A condition without observedGeneration was written by the original controller, or pruned by its CRDs; that alone is
    no reason to write.
    """
    wanted = {key: value for key, value in new.items() if key != "observedGeneration" or key in old}
    return is_same_status(_strip_times(old), _strip_times(wanted))


def _strip_times(condition: Status) -> Status:
    return {key: value for key, value in condition.items() if key not in _TIMES}


def _set_times(condition: Status, *, since: object, now: str) -> Status:
    """Return a condition with its times: that of its last transition, and that of this write."""
    return {**_strip_times(condition), "lastTransitionTime": since or now, "lastHeartbeatTime": now}
