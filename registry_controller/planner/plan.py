"""What applying rules would do here: one row for each object, and one for whoever would lose it.

Law: a row says what the Decision says; nothing is decided here.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import ApiError, RegistryError
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.api.names import CORE_RULES
from registry_controller.cache.registry import StoredRule
from registry_controller.core.decision.decision import Apply, Hold, Reason, Skip, owner_of
from registry_controller.core.decision.ownership import Voice
from registry_controller.core.decision.state import SourceRef, TargetState
from registry_controller.core.rules.mismatch import Mismatch, find_feature_mismatch, get_target_mismatch
from registry_controller.engine import Engine
from registry_controller.planner.dry_run import DryRun, PlannedResult
from registry_controller.planner.recording_client import RecordedWrite
from registry_controller.report.reasons import words_of
from registry_controller.status.readiness import find_unserved_kinds, list_problems
from registry_controller.sync.outcomes import WriteFailure, outcomes_of, rule_of
from registry_controller.sync.results import ResultClass

_SOURCE_VOICES: Final = frozenset({Voice.OWNER, Voice.DISPUTED})


class PlanAction(enum.Enum):
    """What would become of an object here."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    SKIP = "skip"
    CONFLICT = "conflict"
    WAIT = "wait"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One object here, for one rule and owner. `source` is what it would be made of; None where that is not known.

    `failed` is what the rule's status says of the last try to write it, a reason and words; None where nothing failed.
    """

    action: PlanAction
    target: Target
    rule: str
    owner: ClusterUID
    reason: str
    message: str
    source: SourceRef | None = None
    failed: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """All rows, in the order of their targets.

    `notes` say what else one should know, as why a rule does nothing. `troubles` say what could not be heard: with
    any, the plan may be less than what would be done.
    """

    rows: Sequence[PlanRow]
    notes: Sequence[str]
    problems: Sequence[str]


async def make_plan(rehearsal: DryRun, rules: Sequence[str], *, now: datetime) -> Plan:
    """Foresee what these rules, and whoever is in their way, would do."""
    engine = rehearsal.engine
    foreseen = rehearsal.limit_deletions(await rehearsal.plan_targets(find_affected_targets(engine, rules)), now=now)
    named = engine.clusters.name_of
    rows = [
        explain_row(engine, row)
        for found in foreseen
        if not _is_without_owner(found)
        for row in build_rows(found, name_of=named)
    ]
    rows += [*_list_namespaces(foreseen), *_list_unevaluated(engine, rules)]
    rows.sort(key=lambda row: (row.target, row.action is PlanAction.CONFLICT, row.rule, row.owner))
    notes = [*_list_notes(engine, rules), *await _suggest_kinds(engine, rules)]
    return Plan(rows, notes, list_problems(engine, rules=rules))


def find_affected_targets(engine: Engine, rules: Iterable[str]) -> set[Target]:
    """Find the objects here that rules want, or made."""
    wanted = set(rules)
    targets: set[Target] = set()
    for cache in engine.sources.all_caches():
        for key, record in cache.records.items():
            targets.update(hit.target(key) for hit in record.hits if hit.rule in wanted)
    for local_cache in engine.copies.all_caches():
        for key, copy in local_cache.records.items():
            if copy.marks.provenance is not None and copy.marks.provenance.rule in wanted:
                targets.add(local_cache.target(key))
    return targets


def build_rows(found: PlannedResult, *, name_of: Callable[[ClusterUID], str]) -> Iterator[PlanRow]:
    """Read what would become of one object: first for whom it is, then for whoever loses it, or waits with it."""
    view, decision = found.judgement.view, found.result.decision
    reason, words = get_reason(found)
    failure = WriteFailure(reason, words) if found.error is not None else None
    said = outcomes_of(decision, view, name_of=name_of, losers=found.result.losers, failure=failure)
    owner = said[0].outcome.owner if said else owner_of(decision) or ClusterUID("")
    rule = said[0].outcome.rule if said else rule_of(view, decision)
    words = said[0].message or words if said else words
    made_of = decision.claim.source if isinstance(decision, Apply) else _find_source(view, owner)
    yield PlanRow(get_action(found), view.target, rule, owner, reason, words, made_of)
    for (other, other_owner, fate, why), message, lost in said[1:]:
        if fate is ResultClass.SYNCED:  # another rule that makes the same of it
            continue
        source = lost or _find_source(view, other_owner)
        yield PlanRow(_ACTIONS[fate], view.target, other, other_owner, why, message, source)


_ACTIONS: Final = {
    ResultClass.SKIPPED: PlanAction.SKIP,
    ResultClass.WAITING: PlanAction.WAIT,
    ResultClass.HELD: PlanAction.WAIT,
    ResultClass.CONFLICTING: PlanAction.CONFLICT,
}
"""What becomes of others than whom an object is for."""


def explain_row(engine: Engine, row: PlanRow) -> PlanRow:
    """Say of a copy that is asked for no more why that is so, where its owner or its rule stands still here."""
    if row.reason != Reason.NO_LONGER_WANTED.value:
        return row
    held = engine.registry.rules.get(row.rule)
    idle = find_idle_reason(engine, held) if held is not None else None
    if _is_disabled(engine, row.owner):
        message = f"its owner is disabled here ({meta.CLUSTER_DISABLED}) and not read; the copy stays"
        return replace(row, message=message)
    return row if idle is None else replace(row, message=f"its rule does nothing here: {idle}; the copy stays")


def _is_disabled(engine: Engine, owner: ClusterUID) -> bool:
    found = [resolved for resolved in engine.clusters.resolved.values() if resolved.cluster.cluster_id == owner]
    return any(resolved.disabled for resolved in found)


def _is_without_owner(found: PlannedResult) -> bool:
    """Say whether a name came up only because peers hold copies under it: nothing is there, and nothing will be."""
    view = found.judgement.view
    return view.current is None and not view.membership and all(c.voice not in _SOURCE_VOICES for c in view.claims)


def get_action(found: PlannedResult) -> PlanAction:
    """Say what would become of the object itself."""
    if found.error is not None:
        return PlanAction.FAIL
    verbs = {stroke.verb for stroke in found.writes if not _is_for_namespace(stroke, found.target)}
    if verbs:
        return PlanAction.UPDATE if len(verbs) > 1 else PlanAction(verbs.pop())
    decision = found.result.decision
    if isinstance(decision, Skip) and decision.reason in (Reason.LOCAL_OBJECT_EXISTS, Reason.CONFLICT):
        return PlanAction.CONFLICT
    return PlanAction.WAIT if isinstance(decision, Hold) else PlanAction.SKIP


def get_reason(found: PlannedResult) -> tuple[str, str]:
    """Say why: a word, and a sentence."""
    error, reason = found.error, found.result.decision.reason
    if error is not None:
        return (isinstance(error, ApiError) and error.reason) or type(error).__name__, str(error)
    if {"create", "delete"} <= {stroke.verb for stroke in found.writes}:
        return reason.value, f"{words_of(reason)}; it is deleted and made again"
    return reason.value, words_of(reason)


def _find_source(view: TargetState, owner: ClusterUID) -> SourceRef | None:
    claimed = next((claim.source for claim in view.claims if claim.owner == owner), None)
    copied = view.copied_from if view.copied_from is not None and view.copied_from.owner == owner else None
    return copied if copied is not None and any(claim.is_of(copied) for claim in view.claims) else claimed or copied


def _is_for_namespace(stroke: RecordedWrite, target: Target) -> bool:
    return stroke.gvr == meta.NAMESPACES and target.kind != meta.NAMESPACE.kind


def _list_namespaces(foreseen: Iterable[PlannedResult]) -> Iterator[PlanRow]:
    """List the namespaces that would be made for copies (A3)."""
    made: dict[str, str] = {}
    for found in foreseen:
        if any(_is_for_namespace(stroke, found.target) for stroke in found.writes):
            made.setdefault(found.target.namespace, rule_of(found.judgement.view, found.result.decision))
    for name, rule in made.items():
        target = Target("", meta.NAMESPACE.kind, "", name)
        words = "it is made for copies: the rule sets createNamespaces"
        yield PlanRow(PlanAction.CREATE, target, rule, ClusterUID(""), Reason.NAMESPACE_MISSING.value, words)


def _list_unevaluated(engine: Engine, rules: Iterable[str]) -> Iterator[PlanRow]:
    """List the sources on which a rule cannot be evaluated (W1)."""
    for cache in engine.sources.all_caches():
        for rule in rules:
            for key, error in cache.unclear.get(rule, {}).items():
                target = Target(cache.kind.group, cache.kind.kind, *key)
                source = SourceRef(cache.peer, cache.kind, key)
                yield PlanRow(PlanAction.FAIL, target, rule, cache.peer, Reason.NOT_EVALUATED.value, str(error), source)


def _list_notes(engine: Engine, rules: Iterable[str]) -> Iterator[str]:
    for name, resolved in sorted(engine.clusters.resolved.items()):
        if resolved.disabled and resolved.cluster.cluster_id != engine.local:
            yield f"peer {name} is disabled here ({meta.CLUSTER_DISABLED}) and not read"
    for name in rules:
        held = engine.registry.rules[name]
        owner = held.marks.owner
        if owner is not None and owner != engine.local:
            where = engine.clusters.name_of(owner)
            yield f"rule {name} belongs to cluster {where}: apply it there; what is changed in a copy of it is put back"
        if name in CORE_RULES and not held.is_synced(engine.local):
            yield f"rule {name} is kept by the daemon itself: what is changed in it is put back"
        idle = find_idle_reason(engine, held)
        if idle is not None:
            yield f"rule {name} does nothing here: {idle}"
        for peer in sorted(engine.clusters.peers.values(), key=lambda peer: peer.name):
            if held.rule is not None and peer.features.held is not None:
                miss = find_feature_mismatch(held.rule.features, peer.features.held)
                if miss is not None:
                    yield f"rule {name} does not read from peer {peer.name}: {miss}"


async def _suggest_kinds(engine: Engine, rules: Iterable[str]) -> Sequence[str]:
    """Say which kinds of this cluster may be meant with those that are not served: of another group or version."""
    notes = []
    for asked in sorted(find_unserved_kinds(engine, rules=rules)):
        with contextlib.suppress(RegistryError):
            kind, _ = await engine.discovery.find(asked.kind)
            if kind != asked:
                fields = f"group: {kind.group}, version: {kind.version}, kind: {kind.kind}"
                notes.append(f"this cluster serves a {kind.kind} of {kind.api_version}: is {{{fields}}} meant?")
    return notes


def get_rule_name(held: StoredRule) -> str:
    """Name a rule; also one that cannot be read any further."""
    return str(meta.metadata_of(held.manifest).get("name", ""))


def find_idle_reason(engine: Engine, held: StoredRule) -> Mismatch | None:
    """Say why a rule does nothing here at all; None where it does something."""
    lost = engine.registry.pruned.get(get_rule_name(held))
    if held.rule is None or not held.verdict.accepted:
        return Mismatch("spec", f"it is not accepted: {held.verdict.message}")
    if lost:
        return Mismatch("spec", f"the CRD here does not know {', '.join(lost)}: apply the CRDs of this release")
    if held.rule.suspend:
        return Mismatch("spec.suspend", "it is suspended")
    bar = held.bar(engine.registry.allowance, local=engine.local)
    if bar is not None:
        return Mismatch(bar.path, bar.message)
    return get_target_mismatch(engine.registry.selects_us(held.rule, local=engine.local))
