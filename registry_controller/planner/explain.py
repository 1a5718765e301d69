"""Explains an object: its owner, the rules that match it, the decision about it, and the cause of waiting.

Law: an explanation calls the functions that decide; it decides nothing itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from registry_controller.api.errors import NotFound, NotServed, RegistryError
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey, Target
from registry_controller.clusters.peer import Connection
from registry_controller.core.decision.decision import Reason
from registry_controller.core.decision.marks import Marks, is_membership, read_marks
from registry_controller.core.decision.state import SourceRef
from registry_controller.core.status.cluster import read_other_way
from registry_controller.engine import Engine
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.planner.dry_run import DryRun
from registry_controller.planner.plan import (
    PlanAction,
    PlanRow,
    add_failure,
    build_rows,
    explain_lost_match,
    explain_row,
    get_rule_name,
)
from registry_controller.planner.planned_deletions import hold_halted_deletions
from registry_controller.planner.rule_fit import (
    RuleFit,
    evaluate_rules,
    evaluate_rules_without_object,
    list_local_features,
    list_rules_for,
)
from registry_controller.report.reasons import explain_unread, message_of
from registry_controller.status.readiness import list_problems
from registry_controller.sync.reconciler import ASK_TIMEOUT_S

_MAX_CONCURRENT: Final = 16


@dataclass(frozen=True, slots=True)
class ExplainedSource:
    """An object in one cluster, how the rules here fit it, and the targets to which they copy it.

    `marks` are the marks of the object there: with another owner, it is a copy itself and no source.
    """

    ref: SourceRef
    marks: Marks
    fits: Sequence[RuleFit]
    targets: Sequence[Target] = ()


class UnreadObject(NamedTuple):
    """A cluster in which an object could not be read; the message names the cause and what to do."""

    cluster: ClusterUID
    message: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known about one object.

    `marks` are None when the object is not in this cluster, `copied_from` is None when it is not a copy. `unread`
    lists the clusters that may hold the object and did not let it be read. `rules` are set only when no source was
    found and one may exist: they show how the rules for the kind act here. `notes` name the owners that the daemon
    reads in another way than their Clusters here name.
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
    notes: Sequence[str] = ()

    @property
    def is_found(self) -> bool:
        """True when the object is in some cluster that could be read."""
        return self.marks is not None or bool(self.sources)

    @property
    def is_complete(self) -> bool:
        """True when every cluster answered: an object that was not found then does not exist."""
        return not self.unread and not self.problems

    @property
    def is_unread_here(self) -> bool:
        """True when the object may be in this cluster and could not be read."""
        return self.marks is None and any(unread.cluster == self.local for unread in self.unread)


class _LocalObject(NamedTuple):
    """The local API server's answer about an object.

    With an `error` there is no object; the marks may be known from a list all the same.
    """

    target: Target
    obj: PartialObject | None
    marks: Marks | None
    error: RegistryError | None = None

    @property
    def may_be_copy(self) -> bool:
        return self.marks.is_copy if self.marks is not None else self.error is not None


async def explain_object(dry_run: DryRun, kind: GVK, gvr: GVR, key: ObjectKey) -> Explanation:
    """Explain one object of the local cluster or of a peer.

    Where the object cannot be read, the explanation uses lists, provenance and rules alone.
    """
    engine = dry_run.engine
    target = Target(kind.group, kind.kind, *key)
    here = await _read_local(dry_run, gvr, target)
    marks = here.marks
    state = engine.reconciler.decide(target).state
    refs = {claim.source for claim in state.claims}
    refs |= {state.copied_from} if state.copied_from is not None else _list_provenance_sources(marks, kind, target)
    refs |= {SourceRef(peer, kind, key) for peer in engine.clusters.peers}
    read, unread = await _read_sources(engine, refs)
    owned = [source for source in read if source.marks.owner in (None, source.ref.owner)]
    sources = owned or read[:1]  # of copies in other clusters, one is enough
    own = target if marks is not None and not marks.is_copy else None
    if here.obj is not None and marks is not None and own and not is_membership(kind, here.obj.kind_type):
        ref = SourceRef(engine.local, kind, key)
        fits = evaluate_rules(engine, ref, {kind: here.obj}, features=list_local_features(engine))
        sources = [ExplainedSource(ref, marks, fits), *owned]
    if here.error is not None:
        unread = [UnreadObject(engine.local, explain_unread(kind, here.error, is_local=True)), *unread]
    targets = {target, *(become for source in sources for become in source.targets)}
    problems = list_problems(engine, rules={get_rule_name(stored) for stored in list_rules_for(engine, kind)})
    found = Explanation(
        target=target,
        local=engine.local,
        marks=marks,
        owner=(state.current.natural if state.current is not None else None) or (marks.owner if marks else None),
        copied_from=state.copied_from or next(iter(_list_provenance_sources(marks, kind, target)), None),
        sources=sources,
        planned=[_explain_native(row, own) for row in await _plan_targets(dry_run, targets, here)],
        problems=problems,
        unread=unread,
        rules=evaluate_rules_without_object(engine, kind) if not sources and (unread or problems) else (),
    )
    return replace(found, notes=list(_list_other_ways(engine, found)))


def _list_other_ways(engine: Engine, found: Explanation) -> Iterator[str]:
    """List how owners are read whose Clusters name another way; for an object that was not found, all peers count."""
    owners = {found.owner, *(source.ref.owner for source in found.sources), *(row.owner for row in found.planned)}
    for name, choice in sorted(engine.clusters.resolved.items()):
        stored, peer = engine.registry.clusters.get(name), choice.cluster.cluster_id
        if stored is None or peer == engine.local or (found.is_found and peer not in owners):
            continue
        if way := read_other_way(stored.manifest.get("status")):
            yield f"peer {name}: {way}"


async def _read_local(dry_run: DryRun, gvr: GVR, target: Target) -> _LocalObject:
    """Read an object of the local cluster; when that fails, take its marks from the list of its kind."""
    try:
        obj = decode_object(await dry_run.local_client.get(gvr, target.key))
    except NotFound:
        return _LocalObject(target, None, None)
    except RegistryError as error:
        current = dry_run.engine.reconciler.decide(target).state.current
        return _LocalObject(target, None, current.marks if current is not None else None, error)
    return _LocalObject(target, obj, read_marks(obj.annotations, of=target))


def _list_provenance_sources(marks: Marks | None, kind: GVK, target: Target) -> set[SourceRef]:
    """Return the source that a copy's provenance names, if any; for a copy of a kind that is not watched."""
    if marks is None or marks.owner is None:
        return set()
    provenance = marks.provenance
    known = (provenance.source, provenance.key) if provenance is not None else (kind, target.key)
    return {SourceRef(marks.owner, *known)}


def _explain_native(row: PlanRow, own: Target | None) -> PlanRow:
    """Replace the message of an object that was created here and that no peer offers."""
    if row.target != own or row.reason != Reason.NOT_WANTED.value:
        return row
    return replace(row, rule="", message="it was created here; members whose rules match it copy it from here")


async def _plan_targets(dry_run: DryRun, targets: Iterable[Target], here: _LocalObject) -> Sequence[PlanRow]:
    """Return the plan's rows for targets; a target that no rule wants here is skipped.

    The daemon decides only about kinds that it watches: the kinds that rules write, and Secrets in its own namespace.
    """
    engine = dry_run.engine
    decided = {target for target in targets if _is_decided(engine, target, here)}
    planned = hold_halted_deletions(engine.registry, await dry_run.plan_targets(decided))
    name_of = engine.clusters.name_of
    rows = [_add_failure(dry_run, row) for result in planned for row in build_rows(result, name_of=name_of)]
    return rows + [_build_unwanted_row(engine, target, here) for target in sorted({*targets} - decided)]


def _is_decided(engine: Engine, target: Target, here: _LocalObject) -> bool:
    """Return whether the daemon decides about a target, now or once its caches are complete."""
    cache = engine.copies.cache_of(target.group, target.kind)
    as_copy = target == here.target and here.may_be_copy
    is_awaited = as_copy and not engine.orphans.is_complete
    return is_awaited or (cache is not None and cache.may_show(target.key, as_copy=as_copy))


def _build_unwanted_row(engine: Engine, target: Target, here: _LocalObject) -> PlanRow:
    """Return the row of a target that no rule wants here: nothing happens, and a copy stays."""
    marks = here.marks if target == here.target else None
    if marks is not None and marks.owner is not None:
        rule = marks.provenance.rule if marks.provenance is not None else ""
        why = Reason.NO_LONGER_WANTED
        return explain_row(engine, PlanRow(PlanAction.SKIP, target, rule, marks.owner, why.value, message_of(why)))
    why, message = Reason.NOT_WANTED, message_of(Reason.NOT_WANTED)
    if target == here.target and here.may_be_copy:
        message += "; a copy that the daemon may not read stays as it is"
    return PlanRow(PlanAction.SKIP, target, "", ClusterUID(""), why.value, message)


def _add_failure(dry_run: DryRun, row: PlanRow) -> PlanRow:
    return explain_row(dry_run.engine, add_failure(dry_run.engine, explain_lost_match(dry_run, row)))


async def _read_sources(engine: Engine, refs: Iterable[SourceRef]) -> tuple[list[ExplainedSource], list[UnreadObject]]:
    """Read sources; return those that exist, and those that could not be read."""
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

    async def read_one(ref: SourceRef) -> ExplainedSource | UnreadObject | None:
        async with semaphore:
            try:
                return await _read_source(engine, ref)
            except RegistryError as error:
                return UnreadObject(ref.owner, explain_unread(ref.kind, error, is_local=False))

    async with asyncio.TaskGroup() as scope:
        tasks = [scope.create_task(read_one(ref), name=f"read at {ref.owner}") for ref in sorted(refs, key=_sort_key)]
    results = [task.result() for task in tasks]
    sources = [result for result in results if isinstance(result, ExplainedSource)]
    return sources, [result for result in results if isinstance(result, UnreadObject)]


def _sort_key(ref: SourceRef) -> tuple[object, ...]:
    return (ref.owner, ref.kind, ref.key)


async def _read_source(engine: Engine, ref: SourceRef) -> ExplainedSource | None:
    """Read a source in every version that a rule asks for; None when it does not exist or its cluster is not read.

    Raises RegistryError when it can be read in no version and may exist.
    """
    peer, connection = engine.clusters.peers.get(ref.owner), engine.clusters.connection(ref.owner)
    if peer is None or connection is None:
        return None
    found: dict[GVK, PartialObject] = {}
    failure: RegistryError | None = None
    for kind in {
        ref.kind,
        *(stored.rule.kind for stored in list_rules_for(engine, ref.kind) if stored.rule is not None),
    }:
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
    fits = evaluate_rules(engine, ref, found, features=peer.features.held or ())
    return ExplainedSource(ref, marks, fits, _list_targets(engine, ref))


async def _read_at(connection: Connection, kind: GVK, key: ObjectKey) -> PartialObject | None:
    """Read an object at a peer; None when it does not exist. Raises RegistryError when that is unknown."""
    try:
        gvr = await connection.discovery.resolve(kind)
        if gvr.namespaced != bool(key.namespace):
            return None
        return decode_object(await connection.reader.get(gvr, key, timeout_s=ASK_TIMEOUT_S))
    except (NotFound, NotServed):
        return None


def _list_targets(engine: Engine, ref: SourceRef) -> Sequence[Target]:
    """List the targets to which rules copy a source."""
    targets = {
        hit.target(ref.key)
        for cache in engine.sources.caches_of(ref.owner)
        if (cache.kind.group, cache.kind.kind) == (ref.kind.group, ref.kind.kind) and ref.key in cache.records
        for hit in cache.records[ref.key].hits
    }
    return sorted(targets)
