"""Formats plans and explanations: as text for people, and as JSON for programs, from the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.decision.decision import Reason
from registry_controller.core.decision.state import SourceRef
from registry_controller.engine import Engine
from registry_controller.planner.explain import ExplainedSource, Explanation, UnreadObject
from registry_controller.planner.plan import Plan, PlanAction, PlanRow
from registry_controller.planner.rule_fit import Fit, RuleFit

JsonDocument = Mapping[str, Any]

_NO_RULE: Final = "  no rule here reads its kind"


class ClusterNames:
    """The names of the group's clusters, as the local cluster's Cluster objects have them."""

    def __init__(self, engine: Engine) -> None:
        ids = {resolved.cluster.cluster_id for resolved in engine.clusters.resolved.values()}
        self._names = {cluster_id: engine.clusters.name_of(cluster_id) for cluster_id in ids}
        self.local = engine.local

    def get_name(self, cluster_id: ClusterUID) -> str:
        """Return a cluster's name, or its ID when it has no Cluster here."""
        return self._names.get(cluster_id) or str(cluster_id)

    def build_document(self, cluster_id: ClusterUID | None) -> JsonDocument | None:
        """Return a cluster's name and ID as JSON; None without a cluster."""
        return {"name": self._names.get(cluster_id, ""), "clusterID": cluster_id} if cluster_id else None


PLAN_HEADINGS: Final = ("ACTION", "OBJECT", "FROM", "RULE", "REASON")


def list_plan_lines(
    plan: Plan, names: ClusterNames, *, is_wide: bool = False
) -> Sequence[tuple[PlanAction, list[str]]]:
    """List the lines of a plan: the action, and a cell for each heading.

    Objects that are in sync already are left out unless `is_wide`.
    """
    return [
        (row.action, [row.action.value, str(row.target), _format_source(row, names), row.rule, _format_reason(row)])
        for row in plan.rows
        if is_wide or row.reason != Reason.IN_SYNC.value
    ]


def format_plan_end(plan: Plan) -> str:
    """Format the counts of a plan, its notes and its problems as text."""
    return "\n".join(
        [_format_summary(plan), *(f"note: {note}" for note in plan.notes), *_format_problems(plan.problems)]
    )


def build_plan_document(plan: Plan, names: ClusterNames) -> JsonDocument:
    """Build a plan's JSON document."""
    return {
        "cluster": names.build_document(names.local),
        "objects": [_build_row(row, names) for row in plan.rows],
        "summary": {action.value: sum(row.action is action for row in plan.rows) for action in PlanAction},
        "notes": plan.notes,
        "troubles": plan.problems,
    }


def format_explanation(found: Explanation, names: ClusterNames) -> str:
    """Format an explanation as text."""
    lines = [f"{found.target} in cluster {names.get_name(found.local)}: {_format_local_state(found, names)}"]
    if not found.sources and not found.is_complete:
        lines += [f"  {_format_fit(fit)}" for fit in found.rules] or ([] if found.is_found else [_NO_RULE])
    for source in found.sources:
        if source.ref.owner != found.local:  # the first line describes the local object
            where = f"in cluster {names.get_name(source.ref.owner)}{_format_owner(source, names)}"
            lines += ["", f"{_format_ref(source.ref)} {where}"]
        lines += [f"  {_format_fit(fit)}" for fit in source.fits] or [_NO_RULE]
        lines += [f"  is copied to {target} here" for target in source.targets]
    shown = [row for row in found.planned if _is_shown(row, found)]
    lines += ["", *(_format_decision(row, names) for row in shown)] if shown else []
    unread = [format_unread(unread, names) for unread in found.unread]
    notes = [f"note: {note}" for note in found.notes]
    return "\n".join([*lines, *unread, *_format_problems(found.problems), *notes])


def _is_shown(row: PlanRow, found: Explanation) -> bool:
    """Return whether a decision is certain: "no rule wants it" is so for an unfound object only if no rule acts."""
    if found.is_found or row.reason != Reason.NOT_WANTED.value:
        return True
    return not found.is_complete and all(fit.fit is Fit.IDLE for fit in found.rules)


def format_unread(unread: UnreadObject, names: ClusterNames) -> str:
    """Return the line about a cluster in which an object could not be read."""
    return f"not read: {_format_cluster(unread.cluster, names)}: {unread.message}"


def _format_cluster(cluster_id: ClusterUID, names: ClusterNames) -> str:
    return "here" if cluster_id == names.local else f"peer {names.get_name(cluster_id)}"


def build_explanation_document(found: Explanation, names: ClusterNames) -> JsonDocument:
    """Build an explanation's JSON document."""
    marks = found.marks
    return {
        "cluster": names.build_document(found.local),
        "object": _build_target(found.target),
        "here": _get_local_state(found),
        "owner": names.build_document(found.owner),
        "copiedFrom": _build_ref(found.copied_from, names),
        "madeBy": marks.provenance.rule if marks is not None and marks.provenance is not None else None,
        "sources": [_build_source(source, names) for source in found.sources],
        "decisions": [_build_row(row, names) for row in found.planned],
        "unread": [
            {"cluster": names.build_document(unread.cluster), "message": unread.message} for unread in found.unread
        ],
        "rules": [_build_fit(fit) for fit in found.rules],
        "notes": found.notes,
        "troubles": found.problems,
    }


def _get_local_state(found: Explanation) -> str:
    if found.marks is not None:
        return "copy" if found.marks.is_copy else "native"
    return "unread" if found.is_unread_here else "absent"


def _format_local_state(found: Explanation, names: ClusterNames) -> str:
    marks = found.marks
    if marks is None:
        if found.is_unread_here:
            return "cannot be read here" + ("" if found.is_found else ", and is in no other cluster that could be read")
        read = "is read" if found.is_complete else "could be read"
        return "not here" if found.is_found else f"not here, nor in any cluster that {read}"
    if not marks.is_copy:
        if found.owner is not None and found.owner != found.local:
            return f"applied here by hand; it belongs to cluster {names.get_name(found.owner)}"
        return "created here; this cluster owns it"
    text = f"a copy; cluster {names.get_name(found.owner or ClusterUID(''))} owns it"
    provenance = marks.provenance
    if provenance is not None:
        source = _format_ref(SourceRef(provenance.owner, provenance.source, provenance.key))
        text = f"{text}; copied from {source} by rule {provenance.rule}, deletionPolicy {provenance.policy}"
        if not marks.is_bound_in(found.local):
            text += "; it was made in another cluster, and stays as it is here until its owner offers it"
        return text
    return f"{text}; created by a version that recorded no provenance"


def _format_owner(source: ExplainedSource, names: ClusterNames) -> str:
    owner = source.marks.owner
    if owner is None or owner == source.ref.owner:
        return ":"
    return f", where it is a copy of the object in cluster {names.get_name(owner)}:"


def _format_fit(fit: RuleFit) -> str:
    why = f": {fit.path}: {fit.message}" if fit.path else ""
    notes = "".join(f"\n    ignored: {note}" for note in fit.notes)
    return f"rule {fit.rule} {fit.fit.value}{why}{notes}"


def _format_decision(row: PlanRow, names: ClusterNames) -> str:
    rule = f", by rule {row.rule}" if row.rule else ""
    where = f", from cluster {names.get_name(row.owner)}" if row.owner and row.owner != names.local else ""
    label = "waits for" if row.action is PlanAction.WAIT else "because"
    failed = f"\n  failed so far: {': '.join(filter(None, row.failed))}" if row.failed is not None else ""
    left = f"\n  left to this cluster: {', '.join(row.left)}" if row.left else ""
    not_asked = f"\n  not asked: {_format_not_asked(row)}" if row.not_asked else ""
    decided = f"decision on {row.target}: {row.action.value} ({row.reason}){rule}{where}"
    return f"{decided}\n  {label}: {row.message}{not_asked}{failed}{left}"


def _format_reason(row: PlanRow) -> str:
    failed = f"; failed so far: {': '.join(filter(None, row.failed))}" if row.failed is not None else ""
    not_asked = f"; not asked: {_format_not_asked(row)}" if row.not_asked else ""
    return f"{row.reason}: {row.message}{not_asked}{failed}"


def _format_not_asked(row: PlanRow) -> str:
    return f"you may not {' nor '.join(row.not_asked)}, so no dry run shows whether the API server would change it"


def _format_source(row: PlanRow, names: ClusterNames) -> str:
    """Format the source's cluster, and the source where it has another name or kind than the target."""
    if not row.owner or row.owner == names.local:
        return ""
    same = row.source is None or _get_target(row.source) == row.target
    return names.get_name(row.owner) + ("" if same or row.source is None else f" ({_format_ref(row.source)})")


def _format_summary(plan: Plan) -> str:
    counts = Counter(row.action for row in plan.rows)
    in_sync = sum(row.reason == Reason.IN_SYNC.value for row in plan.rows)
    changes = [
        f"{counts[action]} to {action.value}" for action in (PlanAction.CREATE, PlanAction.UPDATE, PlanAction.DELETE)
    ]
    others = {
        "in sync": in_sync,
        "skipped": counts[PlanAction.SKIP] - in_sync,
        "in conflict": counts[PlanAction.CONFLICT],
        "waiting": counts[PlanAction.WAIT],
        "failing": counts[PlanAction.FAIL],
    }
    return ", ".join([*changes, *(f"{count} {text}" for text, count in others.items() if count)])


def _format_problems(problems: Sequence[str]) -> Iterator[str]:
    for problem in problems:
        yield f"unavailable: {problem}"


def _get_target(ref: SourceRef) -> Target:
    return Target(ref.kind.group, ref.kind.kind, *ref.key)


def _format_ref(ref: SourceRef) -> str:
    return str(_get_target(ref))


def _build_row(row: PlanRow, names: ClusterNames) -> JsonDocument:
    return {
        "action": row.action.value,
        "object": _build_target(row.target),
        "rule": row.rule or None,
        "owner": names.build_document(row.owner),
        "source": _build_ref(row.source, names),
        "reason": row.reason,
        "message": row.message,
        "waitsFor": row.message if row.action is PlanAction.WAIT else None,
        "failed": None if row.failed is None else {"reason": row.failed[0], "message": row.failed[1]},
        "leftHere": row.left,
        "notAsked": row.not_asked,
    }


def _build_source(source: ExplainedSource, names: ClusterNames) -> JsonDocument:
    return {
        "object": _build_ref(source.ref, names),
        "copyOf": names.build_document(source.marks.owner) if source.marks.owner != source.ref.owner else None,
        "rules": [_build_fit(fit) for fit in source.fits],
        "becomes": [_build_target(target) for target in source.targets],
    }


def _build_fit(fit: RuleFit) -> JsonDocument:
    return {
        "name": fit.rule,
        "matches": fit.fit is Fit.MATCHES,
        "fit": fit.fit.name.capitalize(),
        "path": fit.path or None,
        "message": fit.message or None,
        "ignored": fit.notes,
    }


def _build_ref(ref: SourceRef | None, names: ClusterNames) -> JsonDocument | None:
    return None if ref is None else {**_build_target(_get_target(ref)), "cluster": names.build_document(ref.owner)}


def _build_target(target: Target) -> JsonDocument:
    return {"group": target.group, "kind": target.kind, "namespace": target.namespace, "name": target.name}
