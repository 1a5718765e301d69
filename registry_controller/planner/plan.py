"""Plans what applying rules would do here: one row for each object, and one for each rule that loses the object.

Law: a row reports the Decision; nothing is decided here.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import ApiError, RegistryError
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.api.names import CORE_RULES
from registry_controller.api.syncrule import SyncRule
from registry_controller.cache.stored_objects import StoredRule
from registry_controller.core.decision.decision import Apply, Hold, Reason, Skip, owner_of
from registry_controller.core.decision.marks import Voice
from registry_controller.core.decision.state import SourceRef, TargetState
from registry_controller.core.mutation.left_fields import format_path
from registry_controller.core.rules.destinations import find_lost_targets, is_unreadable
from registry_controller.core.rules.mismatch import Mismatch, find_feature_mismatch, get_target_mismatch
from registry_controller.core.rules.schema import describe_pruned
from registry_controller.engine import Engine
from registry_controller.planner.dry_run import DryRun, PlannedResult
from registry_controller.planner.planned_deletions import limit_deletions
from registry_controller.planner.recording_client import RecordedWrite
from registry_controller.report.reasons import explain_refusal, message_of
from registry_controller.status.readiness import find_unserved_kinds, list_problems
from registry_controller.sync.outcomes import FIELDS_LOST, UNREPORTED, WriteFailure, outcomes_of, rule_of
from registry_controller.sync.results import ResultClass

_SOURCE_VOICES: Final = frozenset({Voice.OWNER, Voice.DISPUTED})


class PlanAction(enum.Enum):
    """The action that the daemon would take on an object."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    SKIP = "skip"
    CONFLICT = "conflict"
    WAIT = "wait"
    FAIL = "fail"


WRITES: Final = frozenset({PlanAction.CREATE, PlanAction.UPDATE, PlanAction.DELETE})

_ACTIONS: Final = {
    ResultClass.SKIPPED: PlanAction.SKIP,
    ResultClass.WAITING: PlanAction.WAIT,
    ResultClass.HELD: PlanAction.WAIT,
    ResultClass.CONFLICTING: PlanAction.CONFLICT,
}
"""The actions for rules that do not get the object."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One object here, for one rule and owner. `source` is the object from which it is copied; None when unknown.

    `failed` has reason and message of the failed write that the rule's status reports; None without one. `left` are the
    fields that the rule leaves to this cluster. `not_asked` are the rights that the user lacks for a dry run: without
    it the API server does not show whether it would change the copy (A10).
    """

    action: PlanAction
    target: Target
    rule: str
    owner: ClusterUID
    reason: str
    message: str
    source: SourceRef | None = None
    failed: tuple[str, str] | None = None
    left: tuple[str, ...] = ()
    not_asked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All rows, sorted by target.

    `notes` are further information, for example why a rule does nothing. `problems` list the kinds and clusters that
    could not be read: with any, the plan may be incomplete. `writes` has the writes for each target.
    """

    rows: Sequence[PlanRow]
    notes: Sequence[str]
    problems: Sequence[str]
    writes: Mapping[Target, Sequence[RecordedWrite]] = field(default_factory=dict)


async def make_plan(dry_run: DryRun, rules: Sequence[str], *, now: datetime) -> Plan:
    """Plan what these rules would do, and what happens to conflicting rules."""
    engine = dry_run.engine
    planned = await dry_run.plan_targets(find_affected_targets(engine, rules))
    planned = limit_deletions(dry_run, planned, now=now)
    name_of = engine.clusters.name_of
    rows = [
        explain_row(engine, add_failure(engine, explain_lost_match(dry_run, row)))
        for result in planned
        if not _is_unowned(result)
        for row in build_rows(result, name_of=name_of)
    ]
    rows += [*_list_namespaces(planned), *_list_unevaluated(engine, rules)]
    rows.sort(key=lambda row: (row.target, row.action is PlanAction.CONFLICT, row.rule, row.owner))
    notes = [*_list_notes(engine, rules), *await _suggest_kinds(engine, rules)]
    writes = {result.target: result.writes for result in planned}
    return Plan(rows, notes, list_problems(engine, rules=rules), writes)


def find_affected_targets(engine: Engine, rules: Iterable[str]) -> set[Target]:
    """Find the targets that these rules want or have written."""
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


def build_rows(planned: PlannedResult, *, name_of: Callable[[ClusterUID], str]) -> Iterator[PlanRow]:
    """Yield the rows for one object: first for the rule that gets it, then for the rules that lose it or wait."""
    state, decision = planned.judgment.state, planned.result.decision
    reason, message = get_reason(planned)
    failure = WriteFailure(reason, message) if planned.error is not None else None
    found = planned.result
    reports = outcomes_of(decision, state, name_of=name_of, losers=found.losers, failure=failure, lost=found.lost)
    reason = FIELDS_LOST if found.lost and failure is None and reports else reason
    own = reports[:1] if failure is not None or decision.reason not in UNREPORTED else []
    owner = own[0].outcome.owner if own else owner_of(decision) or ClusterUID("")
    rule = own[0].outcome.rule if own else rule_of(state, decision)
    message = own[0].message or message if own else message
    source = decision.claim.source if isinstance(decision, Apply) else _find_source(state, owner)
    left = tuple(format_path(path) for path in planned.result.left)
    not_asked = tuple(str(right) for right in planned.missing_rights)
    yield PlanRow(
        get_action(planned), state.target, rule, owner, reason, message, source, left=left, not_asked=not_asked
    )
    for (other_rule, other_owner, result, other_reason), other_message, lost in reports[len(own) :]:
        if result is ResultClass.SYNCED:  # another rule that makes the same copy
            continue
        source = lost or _find_source(state, other_owner)
        yield PlanRow(_ACTIONS[result], state.target, other_rule, other_owner, other_reason, other_message, source)


def explain_row(engine: Engine, row: PlanRow) -> PlanRow:
    """Replace the message of a copy that is no longer wanted because its owner or its rule is inactive here."""
    if row.reason != Reason.NO_LONGER_WANTED.value:
        return row
    stored = engine.registry.rules.get(row.rule)
    idle = find_idle_reason(engine, stored) if stored is not None else None
    if _is_disabled(engine, row.owner):
        return replace(
            row, message=f"its owner is disabled here ({meta.CLUSTER_DISABLED}) and not read; the copy stays"
        )
    return row if idle is None else replace(row, message=f"its rule does nothing here: {idle}; the copy stays")


def explain_lost_match(dry_run: DryRun, row: PlanRow) -> PlanRow:
    """Return a deletion of a copy whose rule does not match the source any more with the time for which it waits."""
    if (row.action, row.reason) != (PlanAction.DELETE, Reason.NO_LONGER_MATCHES.value):
        return row
    for reason, message in list_failures(dry_run.engine, row):
        if reason == Reason.MAY_MATCH_AGAIN.value:
            return replace(row, action=PlanAction.WAIT, reason=reason, message=message)
    window_s = dry_run.settings.stabilization_window_seconds
    waits = f"; where the rule was not edited, the daemon waits {window_s} s for the source to match again"
    return replace(row, message=row.message + waits) if window_s else row


def add_failure(engine: Engine, row: PlanRow) -> PlanRow:
    """Add to a planned write the failure that the rule's status reports: only a write shows that it is refused."""
    for failed in list_failures(engine, row) if row.action in WRITES else ():
        row = replace(row, failed=failed)
    return row


def list_failures(engine: Engine, row: PlanRow) -> Iterator[tuple[str, str]]:
    """List the reasons and messages that the rule's status reports of an object."""
    stored = engine.registry.rules.get(row.rule)
    status = stored.manifest.get("status") if stored is not None else None
    for entry in (status or {}).get("clusters") or ():
        for failure in (entry.get("failures") or ()) if entry.get("clusterID") == row.owner else ():
            if failure.get("object") == str(row.target):
                yield str(failure.get("reason", "")), str(failure.get("message", ""))


def _is_disabled(engine: Engine, owner: ClusterUID) -> bool:
    resolved = [choice for choice in engine.clusters.resolved.values() if choice.cluster.cluster_id == owner]
    return any(choice.disabled for choice in resolved)


def _is_unowned(planned: PlannedResult) -> bool:
    """Return whether only copies at peers have the target's name: it does not exist here and will not be created."""
    state = planned.judgment.state
    return state.current is None and not state.membership and all(c.voice not in _SOURCE_VOICES for c in state.claims)


def get_action(planned: PlannedResult) -> PlanAction:
    """Return the action on the target itself."""
    if planned.error is not None:
        return PlanAction.FAIL
    verbs = {write.verb for write in planned.writes if not _is_for_namespace(write, planned.target)}
    if verbs:
        return PlanAction.UPDATE if len(verbs) > 1 else PlanAction(verbs.pop())
    decision = planned.result.decision
    if isinstance(decision, Skip) and decision.reason in (Reason.LOCAL_OBJECT_EXISTS, Reason.CONFLICT):
        return PlanAction.CONFLICT
    return PlanAction.WAIT if isinstance(decision, Hold) else PlanAction.SKIP


def get_reason(planned: PlannedResult) -> tuple[str, str]:
    """Return reason and message."""
    error, reason = planned.error, planned.result.decision.reason
    if error is not None:
        return (isinstance(error, ApiError) and error.reason) or type(error).__name__, explain_refusal(error)
    if {"create", "delete"} <= {write.verb for write in planned.writes}:
        return reason.value, f"{message_of(reason)}; it is deleted and created again"
    return reason.value, message_of(reason)


def _find_source(state: TargetState, owner: ClusterUID) -> SourceRef | None:
    claimed = next((claim.source for claim in state.claims if claim.owner == owner), None)
    copied = state.copied_from if state.copied_from is not None and state.copied_from.owner == owner else None
    return copied if copied is not None and any(claim.is_of(copied) for claim in state.claims) else claimed or copied


def _is_for_namespace(write: RecordedWrite, target: Target) -> bool:
    return write.gvr == meta.NAMESPACES and target.kind != meta.NAMESPACE.kind


def _list_namespaces(planned: Iterable[PlannedResult]) -> Iterator[PlanRow]:
    """List the namespaces that would be created for copies (A3)."""
    created: dict[str, str] = {}
    for result in planned:
        if any(_is_for_namespace(write, result.target) for write in result.writes):
            created.setdefault(result.target.namespace, rule_of(result.judgment.state, result.result.decision))
    for name, rule in created.items():
        target = Target("", meta.NAMESPACE.kind, "", name)
        message = "it is created for copies: the rule sets createNamespaces"
        yield PlanRow(PlanAction.CREATE, target, rule, ClusterUID(""), Reason.NAMESPACE_MISSING.value, message)


def _list_unevaluated(engine: Engine, rules: Iterable[str]) -> Iterator[PlanRow]:
    """List the sources on which a rule cannot be evaluated (W1)."""
    for cache in engine.sources.all_caches():
        for rule in rules:
            for key, error in cache.unclear.get(rule, {}).items():
                target = Target(cache.kind.group, cache.kind.kind, *key)
                source = SourceRef(cache.peer, cache.kind, key)
                why = Reason.TARGETS_UNREADABLE if is_unreadable(error) else Reason.NOT_EVALUATED
                yield PlanRow(PlanAction.FAIL, target, rule, cache.peer, why.value, str(error), source)


def _list_notes(engine: Engine, rules: Iterable[str]) -> Iterator[str]:
    for name, choice in sorted(engine.clusters.resolved.items()):
        if choice.disabled and choice.cluster.cluster_id != engine.local:
            yield f"peer {name} is disabled here ({meta.CLUSTER_DISABLED}) and not read"
    for name in rules:
        stored = engine.registry.rules[name]
        owner = stored.marks.owner
        if owner is not None and owner != engine.local:
            cluster = engine.clusters.name_of(owner)
            yield f"rule {name} belongs to cluster {cluster}: apply it there; changes to its copies are reverted"
        if name in CORE_RULES and not stored.is_synced(engine.local):
            yield f"rule {name} belongs to the daemon: changes to it are reverted"
        idle = find_idle_reason(engine, stored)
        if idle is not None:
            yield f"rule {name} does nothing here: {idle}"
        if stored.rule is not None:
            yield from _list_notes_on_members(engine, stored.rule)


def _list_notes_on_members(engine: Engine, rule: SyncRule) -> Iterator[str]:
    """List the members that may lose a field of a rule, and those that it does not read."""
    warning = find_lost_targets(rule, (one.manifest for one in engine.registry.clusters.values()))
    if warning is not None:
        yield f"rule {rule.name}: {warning}"
    for peer in sorted(engine.clusters.peers.values(), key=lambda peer: peer.name):
        if peer.features.held is not None:
            mismatch = find_feature_mismatch(rule.features, peer.features.held)
            if mismatch is not None:
                yield f"rule {rule.name} does not read from peer {peer.name}: {mismatch}"


async def _suggest_kinds(engine: Engine, rules: Iterable[str]) -> Sequence[str]:
    """Suggest, for kinds that are not served, kinds of the same name in another group or version."""
    notes = []
    for asked in sorted(find_unserved_kinds(engine, rules=rules)):
        with contextlib.suppress(RegistryError):
            kind, _ = await engine.discovery.find(asked.kind)
            if kind != asked:
                group = f"group: {kind.group}, " if kind.group else ""
                fields = f"{group}version: {kind.version}, kind: {kind.kind}"
                notes.append(f"this cluster serves a {kind.kind} of {kind.api_version}: do you mean {{{fields}}}?")
    return notes


def get_rule_name(stored: StoredRule) -> str:
    """Return a rule's name, also for a rule that is not accepted."""
    return str(meta.metadata_of(stored.manifest).get("name", ""))


def find_idle_reason(engine: Engine, stored: StoredRule) -> Mismatch | None:
    """Return why a rule does nothing at all here; None for a rule that acts."""
    pruned = engine.registry.pruned.get(get_rule_name(stored))
    if stored.rule is None or not stored.verdict.accepted:
        return Mismatch("spec", f"it is not accepted: {stored.verdict.message}")
    if pruned:
        return Mismatch("spec", describe_pruned(pruned))
    if stored.rule.suspend:
        return Mismatch("spec.suspend", "it is suspended")
    bar = stored.bar(engine.registry.allowance, local=engine.local)
    if bar is not None:
        return Mismatch(bar.path, bar.message)
    return get_target_mismatch(stored.rule, selected=engine.selection.selects_us(stored.rule))
