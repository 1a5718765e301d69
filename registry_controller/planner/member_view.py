"""Summarizes the explanation of an object in one member: the owner, the state of the copy, since when, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.core.decision.decision import Reason
from registry_controller.engine import Engine
from registry_controller.planner.explain import ExplainedSource, Explanation
from registry_controller.planner.output import ClusterNames, format_unread
from registry_controller.planner.plan import PlanAction, PlanRow


class ObjectState(StrEnum):
    """The state of an object in one member."""

    OWNED = "owned here"
    IN_STEP = "in step"
    BEHIND = "behind"
    MISSING = "missing"
    GOING = "to be deleted"
    CONFLICT = "in conflict"
    WAITING = "waiting"
    FAILING = "failing"
    LEFT = "left as it is"
    UNKNOWN = "unknown"


_OF_ACTIONS = {
    PlanAction.CREATE: ObjectState.MISSING,
    PlanAction.UPDATE: ObjectState.BEHIND,
    PlanAction.DELETE: ObjectState.GOING,
    PlanAction.CONFLICT: ObjectState.CONFLICT,
    PlanAction.WAIT: ObjectState.WAITING,
    PlanAction.FAIL: ObjectState.FAILING,
}
_WITHOUT_SINCE = frozenset({ObjectState.OWNED, ObjectState.IN_STEP, ObjectState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class MemberView:
    """An object in one member. `since` is the last change of its source (RFC 3339), while the copy is not in step."""

    cluster: str
    owner: str
    state: ObjectState
    since: str = ""
    why: str = ""


async def view_object(found: Explanation, engine: Engine, names: ClusterNames) -> MemberView:
    """Summarize the explanation of one member; the source is read once for the time of its last change."""
    row = next((row for row in found.planned if row.target == found.target), None)
    state = find_state(found, row)
    source = next((one for one in found.sources if one.marks.owner in (None, one.ref.owner)), None)
    owner = found.owner or (source.ref.owner if source is not None else None)
    since = "" if state in _WITHOUT_SINCE or source is None else await _read_last_change(engine, source)
    notes = () if state in (ObjectState.OWNED, ObjectState.IN_STEP) else found.notes
    return MemberView(
        names.get_name(found.local),
        names.get_name(owner) if owner else "",
        state,
        since,
        "; ".join(filter(None, [_explain(found, row, state, names), *notes])),
    )


def find_state(found: Explanation, row: PlanRow | None) -> ObjectState:
    """Return the state of an object in the member whose explanation this is; `row` is the decision about it."""
    if found.marks is not None and not found.marks.is_copy:
        is_refused = row is not None and row.action is PlanAction.CONFLICT
        return ObjectState.CONFLICT if is_refused else ObjectState.OWNED
    if row is not None and row.failed is not None:
        return ObjectState.FAILING
    if row is not None and row.action in _OF_ACTIONS:
        return _OF_ACTIONS[row.action]
    if row is not None and row.reason == Reason.IN_SYNC.value:
        return ObjectState.IN_STEP
    if found.marks is not None:
        return ObjectState.LEFT
    return ObjectState.UNKNOWN if _may_exist(found) else ObjectState.MISSING


def _may_exist(found: Explanation) -> bool:
    """Return whether the object may be in a cluster that could not be read; no decision about it counts then."""
    return found.is_unread_here or not (found.is_found or found.is_complete)


def _explain(found: Explanation, row: PlanRow | None, state: ObjectState, names: ClusterNames) -> str:
    if state in (ObjectState.OWNED, ObjectState.IN_STEP) and not found.problems:
        return ""
    is_open = state is ObjectState.UNKNOWN or (row is not None and row.reason == Reason.OWNER_NOT_HEARD.value)
    if is_open and found.unread:
        return format_unread(found.unread[0], names)
    if state in (ObjectState.IN_STEP, ObjectState.UNKNOWN):
        return f"unavailable: {found.problems[0]}"
    if row is not None and row.failed is not None:
        return ": ".join(filter(None, row.failed))
    # For an object that no rule copies, the first clause that fails is more exact than the decision.
    if row is not None and row.reason == Reason.NOT_WANTED.value:
        fit = next((fit for source in found.sources for fit in source.fits if fit.path), None)
        if fit is not None:
            return f"rule {fit.rule} {fit.fit.value}: {fit.path}: {fit.message}"
    return f"{row.reason}: {row.message}" if row is not None else ""


async def _read_last_change(engine: Engine, source: ExplainedSource) -> str:
    """Return the time at which a source was last written, but for its status; empty where it is not known."""
    connection = engine.clusters.connection(source.ref.owner)
    if connection is None:
        return ""
    try:
        gvr = await connection.discovery.resolve(source.ref.kind)
        manifest = msgspec.json.decode(await connection.reader.get(gvr, source.ref.key))
    except (RegistryError, msgspec.DecodeError):
        return ""
    return find_last_change(manifest if isinstance(manifest, dict) else {})


def find_last_change(manifest: Mapping[str, Any]) -> str:
    """Return the time of the last write to an object, but for its status, as the API server recorded it."""
    info = meta.metadata_of(manifest)
    entries = info.get("managedFields")
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    times = [str(entry["time"]) for entry in found if entry.get("time") and entry.get("subresource") != "status"]
    return max(times, default=str(info.get("creationTimestamp") or ""))
