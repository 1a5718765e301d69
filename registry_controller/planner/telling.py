"""Plans and explanations in text for people and in JSON for programs: two readings of the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.decision.decision import Reason
from registry_controller.core.decision.state import SourceRef
from registry_controller.engine import Engine
from registry_controller.planner.explain import Explanation, Source
from registry_controller.planner.opinions import Fit, Opinion
from registry_controller.planner.plan import Plan, PlanAction, Row

JsonDocument = Mapping[str, Any]

_NO_RULE: Final = "  no rule here is for its kind"


class ClusterNames:
    """The names of clusters, as they are known here."""

    def __init__(self, engine: Engine) -> None:
        ids = {choice.cluster.cluster_id for choice in engine.clusters.resolved.values()}
        self._names = {cluster_id: engine.clusters.name_of(cluster_id) for cluster_id in ids}
        self.local = engine.local

    def text(self, cluster_id: ClusterUID) -> str:
        """Name a cluster, by its ID where it has no name here."""
        return self._names.get(cluster_id) or str(cluster_id)

    def document(self, cluster_id: ClusterUID | None) -> JsonDocument | None:
        """Name a cluster and its ID; None for none."""
        return {"name": self._names.get(cluster_id, ""), "clusterID": cluster_id} if cluster_id else None


def plan_text(plan: Plan, names: ClusterNames) -> str:
    """Spell a plan for people. What is in step already is only counted."""
    shown = [row for row in plan.rows if row.reason != Reason.IN_SYNC.value]
    table = [
        (row.action.value, str(row.target), _from(row, names), row.rule, f"{row.reason}: {row.words}") for row in shown
    ]
    heading = ("ACTION", "OBJECT", "FROM", "RULE", "REASON")
    lines = [_columns([heading, *table]), ""] if table else []
    return "\n".join([*lines, _sum(plan), *(f"note: {note}" for note in plan.notes), *_troubles(plan.troubles)])


def plan_document(plan: Plan, names: ClusterNames) -> JsonDocument:
    """Spell a plan for programs."""
    return {
        "cluster": names.document(names.local),
        "objects": [_row(row, names) for row in plan.rows],
        "summary": {action.value: sum(row.action is action for row in plan.rows) for action in PlanAction},
        "notes": plan.notes,
        "troubles": plan.troubles,
    }


def explanation_text(found: Explanation, names: ClusterNames) -> str:
    """Spell an explanation for people."""
    lines = [f"{found.target} in cluster {names.text(found.local)}: {_here(found, names)}"]
    if not found.sources and not found.is_whole:
        lines += [f"  {_opinion_text(opinion)}" for opinion in found.rules] or ([] if found.is_found else [_NO_RULE])
    for source in found.sources:
        if source.ref.owner != found.local:  # of what is here, the first line tells
            where = f"in cluster {names.text(source.ref.owner)}{_standing(source, names)}"
            lines += ["", f"{_ref_text(source.ref)} {where}"]
        lines += [f"  {_opinion_text(opinion)}" for opinion in source.opinions] or [_NO_RULE]
        lines += [f"  becomes {target} here" for target in source.targets]
    told = [row for row in found.outlook if _is_certain(row, found)]
    lines += ["", *(_decision_text(row, names) for row in told)] if told else []
    unread = [f"not read: {_place(one.cluster, names)}: {one.words}" for one in found.unread]
    return "\n".join([*lines, *unread, *_troubles(found.troubles)])


def _is_certain(row: Row, found: Explanation) -> bool:
    """Say whether a decision says anything of what was not found: that no rule asks for it only if none may."""
    if found.is_found or row.reason != Reason.NOT_WANTED.value:
        return True
    return not found.is_whole and all(opinion.fit is Fit.IDLE for opinion in found.rules)


def _place(cluster_id: ClusterUID, names: ClusterNames) -> str:
    return "here" if cluster_id == names.local else f"peer {names.text(cluster_id)}"


def explanation_document(found: Explanation, names: ClusterNames) -> JsonDocument:
    """Spell an explanation for programs."""
    marks = found.marks
    return {
        "cluster": names.document(found.local),
        "object": _target(found.target),
        "here": _here_word(found),
        "owner": names.document(found.owner),
        "copiedFrom": _ref(found.copied_from, names),
        "madeBy": marks.provenance.rule if marks is not None and marks.provenance is not None else None,
        "sources": [_source(source, names) for source in found.sources],
        "decisions": [_row(row, names) for row in found.outlook],
        "unread": [{"cluster": names.document(one.cluster), "message": one.words} for one in found.unread],
        "rules": [_opinion(opinion) for opinion in found.rules],
        "troubles": found.troubles,
    }


def _here_word(found: Explanation) -> str:
    if found.marks is not None:
        return "copy" if found.marks.is_copy else "native"
    return "unread" if found.is_unread_here else "absent"


def _here(found: Explanation, names: ClusterNames) -> str:
    marks = found.marks
    if marks is None:
        if found.is_unread_here:
            return "cannot be read here" + ("" if found.is_found else ", and is in no other cluster that could be read")
        read = "is read" if found.is_whole else "could be read"
        return "not here" if found.is_found else f"not here, nor in any cluster that {read}"
    if not marks.is_copy:
        if found.owner is not None and found.owner != found.local:
            return f"stands for cluster {names.text(found.owner)}, and was carried here by hand"
        return "made here; this cluster owns it"
    words = f"a copy; cluster {names.text(found.owner or ClusterUID(''))} owns it"
    provenance = marks.provenance
    if provenance is not None:
        made_of = _ref_text(SourceRef(provenance.owner, provenance.source, provenance.key))
        return f"{words}; made of {made_of} by rule {provenance.rule}, deletionPolicy {provenance.policy}"
    return f"{words}; made before there was provenance"


def _standing(source: Source, names: ClusterNames) -> str:
    owner = source.marks.owner
    if owner is None or owner == source.ref.owner:
        return ":"
    return f", where it is a copy itself, of cluster {names.text(owner)}'s:"


def _opinion_text(opinion: Opinion) -> str:
    why = f": {opinion.path}: {opinion.words}" if opinion.path else ""
    return f"rule {opinion.rule} {opinion.fit.value}{why}"


def _decision_text(row: Row, names: ClusterNames) -> str:
    rule = f", by rule {row.rule}" if row.rule else ""
    where = f", from cluster {names.text(row.owner)}" if row.owner and row.owner != names.local else ""
    label = "waits for" if row.action is PlanAction.WAIT else "because"
    failed = f"\n  failed so far: {': '.join(filter(None, row.failed))}" if row.failed is not None else ""
    return f"decision on {row.target}: {row.action.value} ({row.reason}){rule}{where}\n  {label}: {row.words}{failed}"


def _from(row: Row, names: ClusterNames) -> str:
    """Say from which cluster, and of which object where that has another name or kind."""
    if not row.owner or row.owner == names.local:
        return ""
    same = row.source is None or _named(row.source) == row.target
    return names.text(row.owner) + ("" if same or row.source is None else f" ({_ref_text(row.source)})")


def _sum(plan: Plan) -> str:
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


def _troubles(troubles: Sequence[str]) -> Iterator[str]:
    for words in troubles:
        yield f"not heard: {words}"


def _named(ref: SourceRef) -> Target:
    return Target(ref.kind.group, ref.kind.kind, *ref.key)


def _ref_text(ref: SourceRef) -> str:
    return str(_named(ref))


def _row(row: Row, names: ClusterNames) -> JsonDocument:
    return {
        "action": row.action.value,
        "object": _target(row.target),
        "rule": row.rule or None,
        "owner": names.document(row.owner),
        "source": _ref(row.source, names),
        "reason": row.reason,
        "message": row.words,
        "waitsFor": row.words if row.action is PlanAction.WAIT else None,
        "failed": None if row.failed is None else {"reason": row.failed[0], "message": row.failed[1]},
    }


def _source(source: Source, names: ClusterNames) -> JsonDocument:
    return {
        "object": _ref(source.ref, names),
        "copyOf": names.document(source.marks.owner) if source.marks.owner != source.ref.owner else None,
        "rules": [_opinion(opinion) for opinion in source.opinions],
        "becomes": [_target(target) for target in source.targets],
    }


def _opinion(opinion: Opinion) -> JsonDocument:
    return {
        "name": opinion.rule,
        "matches": opinion.fit is Fit.MATCHES,
        "fit": opinion.fit.name.capitalize(),
        "path": opinion.path or None,
        "message": opinion.words or None,
    }


def _ref(ref: SourceRef | None, names: ClusterNames) -> JsonDocument | None:
    return None if ref is None else {**_target(_named(ref)), "cluster": names.document(ref.owner)}


def _target(target: Target) -> JsonDocument:
    return {"group": target.group, "kind": target.kind, "namespace": target.namespace, "name": target.name}


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Line rows up, as kubectl does."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
