"""Why an object here is as it is: whose it is, which rules want it, what is decided, and what is waited for.

Law: an explanation evaluates with the functions that decide; it has no opinion of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from registry_controller.api.errors import NotFound, NotServed, RegistryError
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey, Target
from registry_controller.clusters.peer import Connection
from registry_controller.core.decision.decision import Reason
from registry_controller.core.decision.ownership import Marks, is_membership, read_marks
from registry_controller.core.decision.state import SourceRef
from registry_controller.engine import Engine
from registry_controller.kube.watch import PartialObject, decode_object
from registry_controller.planner.dry_run import DryRun
from registry_controller.planner.plan import PlanAction, PlanRow, build_rows, explain_row, get_rule_name
from registry_controller.planner.rule_fit import (
    RuleFit,
    evaluate_rules,
    evaluate_rules_without_object,
    list_local_features,
    list_rules_for,
)
from registry_controller.report.reasons import words_of
from registry_controller.status.readiness import list_problems
from registry_controller.sync.reconciler import ASK_TIMEOUT_S
from registry_controller.watch.stream import why_unheard

_AT_ONCE: Final = 16
_WRITES: Final = frozenset({PlanAction.CREATE, PlanAction.UPDATE, PlanAction.DELETE})


@dataclass(frozen=True, slots=True)
class ExplainedSource:
    """An object as a cluster holds it, with what the rules here say of it, and what it becomes here.

    `marks` are those that it has there: with another owner, it is nobody's source.
    """

    ref: SourceRef
    marks: Marks
    fits: Sequence[RuleFit]
    targets: Sequence[Target] = ()


class UnreadObject(NamedTuple):
    """A cluster in which an object could not be read, and why: what is missing, and what to do."""

    cluster: ClusterUID
    message: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known of one object. `marks` are None where it is not here; `copied_from` where it is no copy.

    `unread` says where it could not be read, though it may be there. `rules` are what the rules for its kind say
    without it, where nobody was found who has it, and somebody may.
    """

    target: Target
    local: ClusterUID
    marks: Marks | None
    owner: ClusterUID | None
    copied_from: SourceRef | None
    sources: Sequence[ExplainedSource]
    planned: Sequence[PlanRow]
    problems: Sequence[str]
    unread: Sequence[UnreadObject] = ()
    rules: Sequence[RuleFit] = ()

    @property
    def is_found(self) -> bool:
        """Say whether there is such an object anywhere that could be looked at."""
        return self.marks is not None or bool(self.sources)

    @property
    def is_complete(self) -> bool:
        """Say whether everybody was asked, and answered: what was not found then is not there."""
        return not self.unread and not self.problems

    @property
    def is_unread_here(self) -> bool:
        """Say whether it may be here, and could not be read."""
        return self.marks is None and any(unread.cluster == self.local for unread in self.unread)


class _LocalObject(NamedTuple):
    """What our own API server says of an object; `error` is why it says nothing. `marks` may be known all the same."""

    target: Target
    obj: PartialObject | None
    marks: Marks | None
    error: RegistryError | None = None

    @property
    def may_be_copy(self) -> bool:
        return self.marks.is_copy if self.marks is not None else self.error is not None


async def explain(rehearsal: DryRun, kind: GVK, gvr: GVR, key: ObjectKey) -> Explanation:
    """Explain one object of our own cluster, or of its peers; where it cannot be read, what can be told without it."""
    engine = rehearsal.engine
    target = Target(kind.group, kind.kind, *key)
    here = await _read_local(rehearsal, gvr, target)
    marks = here.marks
    view = engine.reconciler.decide(target).view
    refs = {claim.source for claim in view.claims}
    refs |= {view.copied_from} if view.copied_from is not None else _list_provenance_sources(marks, kind, target)
    refs |= {SourceRef(peer, kind, key) for peer in engine.clusters.peers}
    found, unread = await _read_sources(engine, refs)
    at_home = [source for source in found if source.marks.owner in (None, source.ref.owner)]
    sources = at_home or found[:1]  # of copies elsewhere one will do
    own = target if marks is not None and not marks.is_copy else None
    if here.obj is not None and marks is not None and own and not is_membership(kind, here.obj.kind_type):
        ref = SourceRef(engine.local, kind, key)
        opinions = evaluate_rules(engine, ref, {kind: here.obj}, features=list_local_features(engine))
        sources = [ExplainedSource(ref, marks, opinions), *at_home]
    if here.error is not None:
        unread = [UnreadObject(engine.local, why_unheard(kind, here.error, at_home=True)), *unread]
    targets = {target, *(become for source in sources for become in source.targets)}
    wrong = list_problems(engine, rules={get_rule_name(held) for held in list_rules_for(engine, kind)})
    return Explanation(
        target=target,
        local=engine.local,
        marks=marks,
        owner=(view.current.natural if view.current is not None else None) or (marks.owner if marks else None),
        copied_from=view.copied_from or next(iter(_list_provenance_sources(marks, kind, target)), None),
        sources=sources,
        planned=[_explain_native(row, own) for row in await _plan_targets(rehearsal, targets, here)],
        problems=wrong,
        unread=unread,
        rules=evaluate_rules_without_object(engine, kind) if not sources and (unread or wrong) else (),
    )


async def _read_local(rehearsal: DryRun, gvr: GVR, target: Target) -> _LocalObject:
    """Read an object here; of one that cannot be read what its kind's list said, if that may be read."""
    try:
        obj = decode_object(await rehearsal.local_client.get(gvr, target.key))
    except NotFound:
        return _LocalObject(target, None, None)
    except RegistryError as error:
        current = rehearsal.engine.reconciler.decide(target).view.current
        return _LocalObject(target, None, current.marks if current is not None else None, error)
    return _LocalObject(target, obj, read_marks(obj.annotations, of=target))


def _list_provenance_sources(marks: Marks | None, kind: GVK, target: Target) -> set[SourceRef]:
    """Tell what a copy of a kind that nobody hears was made of."""
    if marks is None or marks.owner is None:
        return set()
    provenance = marks.provenance
    known = (provenance.source, provenance.key) if provenance is not None else (kind, target.key)
    return {SourceRef(marks.owner, *known)}


def _explain_native(row: PlanRow, own: Target | None) -> PlanRow:
    """Say of an object that was born here, and that nobody else offers, that it is not for us to copy."""
    if row.target != own or row.reason != Reason.NOT_WANTED.value:
        return row
    return replace(row, rule="", message="it was made here; the members whose rules match it copy it from here")


async def _plan_targets(rehearsal: DryRun, targets: Iterable[Target], here: _LocalObject) -> Sequence[PlanRow]:
    """Say what would become of targets; of what no rule asks for here, that nothing does.

    The daemon looks at nothing else: it hears a kind where rules write it, and of Secrets its own namespace always.
    """
    engine = rehearsal.engine
    judged = {target for target in targets if _is_decided(engine, target, here)}
    foreseen = rehearsal.keep_halted(await rehearsal.plan_targets(judged))
    name_of = engine.clusters.name_of
    rows = [_add_failure(engine, row) for found in foreseen for row in build_rows(found, name_of=name_of)]
    return rows + [_build_unwanted_row(engine, target, here) for target in sorted({*targets} - judged)]


def _is_decided(engine: Engine, target: Target, here: _LocalObject) -> bool:
    """Say whether the daemon decides about a target, now or once it has heard what is here."""
    cache = engine.copies.cache_of(target.group, target.kind)
    as_copy = target == here.target and here.may_be_copy
    is_awaited = as_copy and not engine.orphans.is_complete
    return is_awaited or (cache is not None and cache.may_show(target.key, as_copy=as_copy))


def _build_unwanted_row(engine: Engine, target: Target, here: _LocalObject) -> PlanRow:
    """Say that nothing becomes of what no rule asks for here; of a copy, that it stays."""
    marks = here.marks if target == here.target else None
    if marks is not None and marks.owner is not None:
        rule = marks.provenance.rule if marks.provenance is not None else ""
        why = Reason.NO_LONGER_WANTED
        return explain_row(engine, PlanRow(PlanAction.SKIP, target, rule, marks.owner, why.value, words_of(why)))
    why, words = Reason.NOT_WANTED, words_of(Reason.NOT_WANTED)
    if target == here.target and here.may_be_copy:
        words += "; a copy that the daemon may not read stays as it is"
    return PlanRow(PlanAction.SKIP, target, "", ClusterUID(""), why.value, words)


def _add_failure(engine: Engine, row: PlanRow) -> PlanRow:
    """Say of a write what the daemon says that came of it: what refuses a write shows in the write alone."""
    held = engine.registry.rules.get(row.rule)
    status = held.manifest.get("status") if held is not None else None
    for entry in (status or {}).get("clusters") or () if row.action in _WRITES else ():
        for failure in (entry.get("failures") or ()) if entry.get("clusterID") == row.owner else ():
            if failure.get("object") == str(row.target):
                row = replace(row, failed=(str(failure.get("reason", "")), str(failure.get("message", ""))))
    return explain_row(engine, row)


async def _read_sources(engine: Engine, refs: Iterable[SourceRef]) -> tuple[list[ExplainedSource], list[UnreadObject]]:
    """Read sources, and say which could not be; those that are not there are left out."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(ref: SourceRef) -> ExplainedSource | UnreadObject | None:
        async with turn:
            try:
                return await _read_source(engine, ref)
            except RegistryError as error:
                return UnreadObject(ref.owner, why_unheard(ref.kind, error, at_home=False))

    async with asyncio.TaskGroup() as scope:
        tasks = [scope.create_task(one(ref), name=f"look at {ref.owner}") for ref in sorted(refs, key=_get_sort_key)]
    found = [task.result() for task in tasks]
    return [one for one in found if isinstance(one, ExplainedSource)], [
        one for one in found if isinstance(one, UnreadObject)
    ]


def _get_sort_key(ref: SourceRef) -> tuple[object, ...]:
    return (ref.owner, ref.kind, ref.key)


async def _read_source(engine: Engine, ref: SourceRef) -> ExplainedSource | None:
    """Read a source in every version that a rule asks for; None where it is not there, or its cluster is not read.

    RegistryError when it can be read in none of them, and may be there.
    """
    peer, connection = engine.clusters.peers.get(ref.owner), engine.connection(ref.owner)
    if peer is None or connection is None:
        return None
    found: dict[GVK, PartialObject] = {}
    failure: RegistryError | None = None
    for kind in {ref.kind, *(held.rule.kind for held in list_rules_for(engine, ref.kind) if held.rule is not None)}:
        try:
            obj = await _read_at(connection, kind, ref.key)
        except RegistryError as error:
            failure = error
            continue
        if obj is not None:
            found[kind] = obj
    if not found:
        if failure is not None:
            raise failure
        return None
    marks = read_marks(next(iter(found.values())).annotations, of=Target(ref.kind.group, ref.kind.kind, *ref.key))
    opinions = evaluate_rules(engine, ref, found, features=peer.features.held or ())
    return ExplainedSource(ref, marks, opinions, _list_targets(engine, ref))


async def _read_at(connection: Connection, kind: GVK, key: ObjectKey) -> PartialObject | None:
    """Read an object there; None where there is none. RegistryError when nobody can say."""
    try:
        gvr = await connection.discovery.resolve(kind)
        if gvr.namespaced != bool(key.namespace):
            return None
        return decode_object(await connection.reader.get(gvr, key, timeout_s=ASK_TIMEOUT_S))
    except (NotFound, NotServed):
        return None


def _list_targets(engine: Engine, ref: SourceRef) -> Sequence[Target]:
    """List what a source becomes here."""
    targets = {
        hit.target(ref.key)
        for cache in engine.sources.caches_of(ref.owner)
        if (cache.kind.group, cache.kind.kind) == (ref.kind.group, ref.kind.kind) and ref.key in cache.records
        for hit in cache.records[ref.key].hits
    }
    return sorted(targets)
