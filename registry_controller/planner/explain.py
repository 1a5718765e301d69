"""Why an object here is as it is: whose it is, which rules want it, what is decided, and what is waited for.

Law: an explanation evaluates with the functions that decide; it has no opinion of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from registry_controller.api.errors import NotFound, RegistryError
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey, Target
from registry_controller.core.decision import Reason
from registry_controller.core.own import Marks, is_membership, read_marks
from registry_controller.core.view import SourceRef
from registry_controller.engine.engine import Engine
from registry_controller.engine.judge import ASK_TIMEOUT_S, Connection
from registry_controller.engine.settling import troubles
from registry_controller.kube.watch import Heard, decode_heard
from registry_controller.planner.opinions import Opinion, opinions_of, own_features, rules_for
from registry_controller.planner.plan import Action, Row, in_words, name_of, rows_of
from registry_controller.planner.rehearsal import Rehearsal
from registry_controller.report.reasons import words_of

_AT_ONCE: Final = 16
_WRITES: Final = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})


@dataclass(frozen=True, slots=True)
class Source:
    """An object as a cluster holds it, with what the rules here say of it, and what it becomes here.

    `marks` are those that it has there: with another owner, it is nobody's source.
    """

    ref: SourceRef
    marks: Marks
    opinions: Sequence[Opinion]
    targets: Sequence[Target] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known of one object. `marks` are None where it is not here; `copied_from` where it is no copy."""

    target: Target
    local: ClusterUID
    marks: Marks | None
    owner: ClusterUID | None
    copied_from: SourceRef | None
    sources: Sequence[Source]
    outlook: Sequence[Row]
    troubles: Sequence[str]

    @property
    def is_found(self) -> bool:
        """Say whether there is such an object anywhere that could be looked at."""
        return self.marks is not None or bool(self.sources)


async def explain(rehearsal: Rehearsal, kind: GVK, gvr: GVR, key: ObjectKey) -> Explanation:
    """Explain one object of our own cluster, or of its peers. RegistryError when it cannot be read here."""
    engine = rehearsal.engine
    target = Target(kind.group, kind.kind, *key)
    here = await _read_here(rehearsal, gvr, key)
    marks = read_marks(here.annotations, of=target) if here is not None else None
    view = engine.judge.look(target).view
    refs = {claim.source for claim in view.claims}
    refs |= {view.copied_from} if view.copied_from is not None else _copied_from(marks, kind, target)
    refs |= {SourceRef(peer, kind, key) for peer in engine.supervisor.links}
    found = await _look_at(engine, refs)
    at_home = [source for source in found if source.marks.owner in (None, source.ref.owner)]
    sources = at_home or found[:1]  # of copies elsewhere one will do
    own = target if marks is not None and not marks.is_copy else None
    if here is not None and marks is not None and not marks.is_copy and not is_membership(kind, here.kind_type):
        ref = SourceRef(engine.local, kind, key)
        opinions = list(opinions_of(engine, ref, {kind: here}, features=own_features(engine)))
        sources = [Source(ref, marks, opinions), *at_home]
    targets = {target, *(become for source in sources for become in source.targets)}
    rules = {name_of(held) for held in rules_for(engine, kind)}
    return Explanation(
        target=target,
        local=engine.local,
        marks=marks,
        owner=(view.current.natural if view.current is not None else None) or (marks.owner if marks else None),
        copied_from=view.copied_from or next(iter(_copied_from(marks, kind, target)), None),
        sources=sources,
        outlook=[_of_our_own(row, own) for row in await _outlook(rehearsal, targets, target, marks)],
        troubles=troubles(engine, rules=rules),
    )


async def _read_here(rehearsal: Rehearsal, gvr: GVR, key: ObjectKey) -> Heard | None:
    try:
        return decode_heard(await rehearsal.home.get(gvr, key))
    except NotFound:
        return None


def _copied_from(marks: Marks | None, kind: GVK, target: Target) -> set[SourceRef]:
    """Tell what a copy of a kind that nobody hears was made of."""
    if marks is None or marks.owner is None:
        return set()
    provenance = marks.provenance
    known = (provenance.source, provenance.key) if provenance is not None else (kind, target.key)
    return {SourceRef(marks.owner, *known)}


def _of_our_own(row: Row, own: Target | None) -> Row:
    """Say of an object that was born here, and that nobody else offers, that it is not for us to copy."""
    if row.target != own or row.reason != Reason.NOT_WANTED.value:
        return row
    return replace(row, rule="", words="it was made here; the members whose rules match it copy it from here")


async def _outlook(
    rehearsal: Rehearsal, targets: Iterable[Target], asked: Target, marks: Marks | None
) -> Sequence[Row]:
    """Say what would become of targets; of what no rule asks for here, that nothing does. `marks` are of the one asked.

    The daemon looks at nothing else: it hears a kind where rules write it, and of Secrets its own namespace always.
    """
    engine = rehearsal.engine
    of_asked = marks if marks is not None and marks.is_copy else None
    copies = {asked: of_asked} if of_asked is not None else {}
    judged = {target for target in targets if _is_judged(engine, target, as_copy=target in copies)}
    foreseen = rehearsal.keep_halted(await rehearsal.foresee(judged))
    name_of = engine.supervisor.name_of
    rows = [_with_failure(engine, row) for found in foreseen for row in rows_of(found, name_of=name_of)]
    return rows + [_unasked(engine, target, copies.get(target)) for target in sorted({*targets} - judged)]


def _is_judged(engine: Engine, target: Target, *, as_copy: bool) -> bool:
    """Say whether the daemon decides about a target, now or once it has heard what is here."""
    feed = engine.copies.feed(target.group, target.kind)
    is_awaited = as_copy and not engine.leftovers.is_complete
    return is_awaited or (feed is not None and feed.may_show(target.key, as_copy=as_copy))


def _unasked(engine: Engine, target: Target, copy: Marks | None) -> Row:
    """Say that nothing becomes of what no rule asks for here; of a copy, that it stays."""
    why = Reason.NOT_WANTED if copy is None else Reason.NO_LONGER_WANTED
    rule = copy.provenance.rule if copy is not None and copy.provenance is not None else ""
    owner = (copy.owner if copy is not None else None) or ClusterUID("")
    return in_words(engine, Row(Action.SKIP, target, rule, owner, why.value, words_of(why)))


def _with_failure(engine: Engine, row: Row) -> Row:
    """Say of a write what the daemon says that came of it: what refuses a write shows in the write alone."""
    held = engine.registry.rules.get(row.rule)
    status = held.manifest.get("status") if held is not None else None
    for entry in (status or {}).get("clusters") or () if row.action in _WRITES else ():
        for failure in (entry.get("failures") or ()) if entry.get("clusterID") == row.owner else ():
            if failure.get("object") == str(row.target):
                row = replace(row, failed=(str(failure.get("reason", "")), str(failure.get("message", ""))))
    return in_words(engine, row)


async def _look_at(engine: Engine, refs: Iterable[SourceRef]) -> list[Source]:
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(ref: SourceRef) -> Source | None:
        async with turn:
            return await _look_at_one(engine, ref)

    async with asyncio.TaskGroup() as scope:
        tasks = [scope.create_task(one(ref), name=f"look at {ref.owner}") for ref in sorted(refs, key=_order)]
    return [source for task in tasks if (source := task.result()) is not None]


def _order(ref: SourceRef) -> tuple[object, ...]:
    return (ref.owner, ref.kind, ref.key)


async def _look_at_one(engine: Engine, ref: SourceRef) -> Source | None:
    """Read a source in every version that a rule asks for; None where it is not there, or cannot be read."""
    link, connection = engine.supervisor.links.get(ref.owner), engine.connection(ref.owner)
    if link is None or connection is None:
        return None
    found: dict[GVK, Heard] = {}
    for kind in {ref.kind, *(held.rule.kind for held in rules_for(engine, ref.kind) if held.rule is not None)}:
        heard = await _read_at(connection, kind, ref.key)
        if heard is not None:
            found[kind] = heard
    if not found:
        return None
    marks = read_marks(next(iter(found.values())).annotations, of=Target(ref.kind.group, ref.kind.kind, *ref.key))
    opinions = list(opinions_of(engine, ref, found, features=link.features.held or ()))
    return Source(ref, marks, opinions, _targets(engine, ref))


async def _read_at(connection: Connection, kind: GVK, key: ObjectKey) -> Heard | None:
    try:
        gvr = await connection.discovery.resolve(kind)
        if gvr.namespaced != bool(key.namespace):
            return None
        return decode_heard(await connection.reader.get(gvr, key, timeout_s=ASK_TIMEOUT_S))
    except RegistryError:
        return None


def _targets(engine: Engine, ref: SourceRef) -> Sequence[Target]:
    """List what a source becomes here."""
    targets = {
        hit.target(ref.key)
        for feed in engine.sources.feeds_of(ref.owner)
        if (feed.kind.group, feed.kind.kind) == (ref.kind.group, ref.kind.kind) and ref.key in feed.records
        for hit in feed.records[ref.key].hits
    }
    return sorted(targets)
