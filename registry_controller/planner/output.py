"""Plans and explanations in text for people and in JSON for programs: two readings of the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.decision.decision import Reason
from registry_controller.core.decision.state import SourceRef
from registry_controller.engine import Engine
from registry_controller.planner.explain import ExplainedSource, Explanation
from registry_controller.planner.plan import Plan, PlanAction, PlanRow
from registry_controller.planner.rule_fit import Fit, RuleFit

JsonDocument = Mapping[str, Any]

_NO_RULE: Final = "  no rule here is for its kind"


class ClusterNames:
    """The names of clusters, as they are known here."""

    def __init__(self, engine: Engine) -> None:
        ids = {resolved.cluster.cluster_id for resolved in engine.clusters.resolved.values()}
        self._names = {cluster_id: engine.clusters.name_of(cluster_id) for cluster_id in ids}
        self.local = engine.local

    def get_name(self, cluster_id: ClusterUID) -> str:
        """Name a cluster, by its ID where it has no name here."""
        return self._names.get(cluster_id) or str(cluster_id)

    def build_document(self, cluster_id: ClusterUID | None) -> JsonDocument | None:
        """Name a cluster and its ID; None for none."""
        return {"name": self._names.get(cluster_id, ""), "clusterID": cluster_id} if cluster_id else None


def format_plan(plan: Plan, names: ClusterNames) -> str:
    """Spell a plan for people. What is in step already is only counted."""
    shown = [row for row in plan.rows if row.reason != Reason.IN_SYNC.value]
    table = [
        (row.action.value, str(row.target), _format_source(row, names), row.rule, f"{row.reason}: {row.message}")
        for row in shown
    ]
    heading = ("ACTION", "OBJECT", "FROM", "RULE", "REASON")
    lines = [_align_columns([heading, *table]), ""] if table else []
    return "\n".join(
        [*lines, _format_summary(plan), *(f"note: {note}" for note in plan.notes), *_format_problems(plan.problems)]
    )


def build_plan_document(plan: Plan, names: ClusterNames) -> JsonDocument:
    """Spell a plan for programs."""
    return {
        "cluster": names.build_document(names.local),
        "objects": [_build_row(row, names) for row in plan.rows],
        "summary": {action.value: sum(row.action is action for row in plan.rows) for action in PlanAction},
        "notes": plan.notes,
        "troubles": plan.problems,
    }


def format_explanation(found: Explanation, names: ClusterNames) -> str:
    """Spell an explanation for people."""
    lines = [f"{found.target} in cluster {names.get_name(found.local)}: {_format_local_state(found, names)}"]
    if not found.sources and not found.is_complete:
        lines += [f"  {_format_fit(opinion)}" for opinion in found.rules] or ([] if found.is_found else [_NO_RULE])
    for source in found.sources:
        if source.ref.owner != found.local:  # of what is here, the first line tells
            where = f"in cluster {names.get_name(source.ref.owner)}{_format_owner(source, names)}"
            lines += ["", f"{_format_ref(source.ref)} {where}"]
        lines += [f"  {_format_fit(opinion)}" for opinion in source.fits] or [_NO_RULE]
        lines += [f"  becomes {target} here" for target in source.targets]
    told = [row for row in found.planned if _is_shown(row, found)]
    lines += ["", *(_format_decision(row, names) for row in told)] if told else []
    unread = [f"not read: {_format_cluster(one.cluster, names)}: {one.message}" for one in found.unread]
    return "\n".join([*lines, *unread, *_format_problems(found.problems)])


def _is_shown(row: PlanRow, found: Explanation) -> bool:
    """Say whether a decision says anything of what was not found: that no rule asks for it only if none may."""
    if found.is_found or row.reason != Reason.NOT_WANTED.value:
        return True
    return not found.is_complete and all(opinion.fit is Fit.IDLE for opinion in found.rules)


def _format_cluster(cluster_id: ClusterUID, names: ClusterNames) -> str:
    return "here" if cluster_id == names.local else f"peer {names.get_name(cluster_id)}"


def build_explanation_document(found: Explanation, names: ClusterNames) -> JsonDocument:
    """Spell an explanation for programs."""
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
        "unread": [{"cluster": names.build_document(one.cluster), "message": one.message} for one in found.unread],
        "rules": [_build_fit(opinion) for opinion in found.rules],
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
            return f"stands for cluster {names.get_name(found.owner)}, and was carried here by hand"
        return "made here; this cluster owns it"
    words = f"a copy; cluster {names.get_name(found.owner or ClusterUID(''))} owns it"
    provenance = marks.provenance
    if provenance is not None:
        made_of = _format_ref(SourceRef(provenance.owner, provenance.source, provenance.key))
        return f"{words}; made of {made_of} by rule {provenance.rule}, deletionPolicy {provenance.policy}"
    return f"{words}; made before there was provenance"


def _format_owner(source: ExplainedSource, names: ClusterNames) -> str:
    owner = source.marks.owner
    if owner is None or owner == source.ref.owner:
        return ":"
    return f", where it is a copy itself, of cluster {names.get_name(owner)}'s:"


def _format_fit(opinion: RuleFit) -> str:
    why = f": {opinion.path}: {opinion.message}" if opinion.path else ""
    return f"rule {opinion.rule} {opinion.fit.value}{why}"


def _format_decision(row: PlanRow, names: ClusterNames) -> str:
    rule = f", by rule {row.rule}" if row.rule else ""
    where = f", from cluster {names.get_name(row.owner)}" if row.owner and row.owner != names.local else ""
    label = "waits for" if row.action is PlanAction.WAIT else "because"
    failed = f"\n  failed so far: {': '.join(filter(None, row.failed))}" if row.failed is not None else ""
    return f"decision on {row.target}: {row.action.value} ({row.reason}){rule}{where}\n  {label}: {row.message}{failed}"


def _format_source(row: PlanRow, names: ClusterNames) -> str:
    """Say from which cluster, and of which object where that has another name or kind."""
    if not row.owner or row.owner == names.local:
        return ""
    same = row.source is None or _get_target(row.source) == row.target
    return names.get_name(row.owner) + ("" if same or row.source is None else f" ({_format_ref(row.source)})")


def _format_summary(plan: Plan) -> str:
    counts = Counter(row.action for row in plan.rows)
    in_step = sum(row.reason == Reason.IN_SYNC.value for row in plan.rows)
    told = [
        f"{counts[action]} to {action.value}" for action in (PlanAction.CREATE, PlanAction.UPDATE, PlanAction.DELETE)
    ]
    others = {
        "in step already": in_step,
        "skipped": counts[PlanAction.SKIP] - in_step,
        "in conflict": counts[PlanAction.CONFLICT],
        "waiting": counts[PlanAction.WAIT],
        "failing": counts[PlanAction.FAIL],
    }
    return ", ".join([*told, *(f"{count} {words}" for words, count in others.items() if count)])


def _format_problems(troubles: Sequence[str]) -> Iterator[str]:
    for words in troubles:
        yield f"not heard: {words}"


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
    }


def _build_source(source: ExplainedSource, names: ClusterNames) -> JsonDocument:
    return {
        "object": _build_ref(source.ref, names),
        "copyOf": names.build_document(source.marks.owner) if source.marks.owner != source.ref.owner else None,
        "rules": [_build_fit(opinion) for opinion in source.fits],
        "becomes": [_build_target(target) for target in source.targets],
    }


def _build_fit(opinion: RuleFit) -> JsonDocument:
    return {
        "name": opinion.rule,
        "matches": opinion.fit is Fit.MATCHES,
        "fit": opinion.fit.name.capitalize(),
        "path": opinion.path or None,
        "message": opinion.message or None,
    }


def _build_ref(ref: SourceRef | None, names: ClusterNames) -> JsonDocument | None:
    return None if ref is None else {**_build_target(_get_target(ref)), "cluster": names.build_document(ref.owner)}


def _build_target(target: Target) -> JsonDocument:
    return {"group": target.group, "kind": target.kind, "namespace": target.namespace, "name": target.name}


def _align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Line rows up, as kubectl does."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
