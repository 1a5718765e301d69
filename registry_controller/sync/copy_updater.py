"""Chooses the write of a copy (create, update, recreate, delete) and its pauses; `copy_writer` sends it.

Laws: a copy that changed since the Decision is decided again · a copy in step costs no write · of a copy that a
controller or a person here keeps changing, deleting, or making again, the first few repairs are made at once; after
them there is one a minute, until no repair was needed for a while (A5) · only a state that was written before is a
repair, and a deletion that was carried out before: a change by the owner or by a rule is written at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import orjson

from registry_controller.api import meta
from registry_controller.api.errors import Conflict, Contested, Forbidden, Immutable, Invalid
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.copy_record import CopyRecord
from registry_controller.cache.local_cache import LocalCache
from registry_controller.cache.write_results import Deleted, StatusStored, Unchanged
from registry_controller.core.decision.decision import Delete, Reason
from registry_controller.core.decision.state import NamespaceState, TargetState
from registry_controller.core.diff.managed_fields import read_owners
from registry_controller.kube.object import PartialObject
from registry_controller.report.metrics import Metrics
from registry_controller.sync.contention import Contention, Repair
from registry_controller.sync.copy_writer import CopyWriter, copy_slot
from registry_controller.sync.desired_copy import DesiredCopy
from registry_controller.sync.made_once import MadeOnce
from registry_controller.sync.pace import Pace
from registry_controller.sync.replaced_copies import ReplacedCopies
from registry_controller.sync.stored_form import IRREPLACEABLE
from registry_controller.watch.body_cache import BodyCache

_T = TypeVar("_T")

_STAYS: Final = (
    "a {} is not deleted to be made again, its deletion would delete other objects: undo the change, or delete it here"
)
"""The message where a field of such an object may not change (A2)."""


class CopyUpdater:
    """Updates copies. `recreated` is called with a copy that was deleted and created again, its rule, and why.

    `put_back` is called with a copy, its rule, and the lists in which the rule leaves a place, and that were written as
    the rule wants them, because their elements could not be paired. `lost` is called with a copy that lacks wanted
    fields, because the API server here does not store them. `digest` returns the digest of an object's synced
    fields.
    """

    def __init__(
        self,
        *,
        local: ClusterUID,
        copies: CopyIndex,
        bodies: BodyCache,
        writer: CopyWriter,
        metrics: Metrics,
        made_once: MadeOnce,
        replaced: ReplacedCopies,
        recreated: Callable[[Target, str, str], None],
        put_back: Callable[[Target, str, tuple[str, ...]], None],
        lost: Callable[[Target], None],
    ) -> None:
        self._local = local
        self._copies = copies
        self._bodies = bodies
        self._writer = writer
        self._metrics = metrics
        self._made_once = made_once
        self.digest = writer.digest
        self._recreated = recreated
        self._put_back = put_back
        self._lost = lost
        self._contention = Contention()
        self._replaced = replaced
        self._pace = Pace()

    async def update(
        self, state: TargetState, wanted: DesiredCopy, cache: LocalCache, record: CopyRecord | None, *, reason: Reason
    ) -> bool:
        """Write a copy, and its status, where they differ from the wanted state; return whether that took a write."""
        self._contention.record_wanted(state.target)
        has_written = await self._update(state, wanted, cache, record, reason=reason)
        self._replaced.forget(state.target)
        record = cache.records.get(state.target.key)
        digest = self._writer.status_digest(wanted)
        if record is not None and record.status_digest != digest:
            has_written = await self._update_status(wanted, cache, record, digest) or has_written
            record = cache.records.get(state.target.key)
        if record is not None and (record.remainder.lost or record.status_lost):
            self._lost(state.target)
        return has_written

    async def _update_status(
        self, wanted: DesiredCopy, cache: LocalCache, record: CopyRecord, digest: bytes | None
    ) -> bool:
        """Write the status of a copy; this is a repair where the same status was written before."""
        target = wanted.target
        is_repair = digest is not None and self._contention.is_status_repair(target, digest)
        now = self._check_contention(target, is_repair=is_repair)
        update = self._writer.write_status(wanted, record, cache)
        has_written, managers, _ = await self._timed("update status", target, update)
        if digest is not None:
            self._contention.record_status(target, digest)
        if has_written and is_repair:
            self._contention.record_repair(target, Repair.CHANGES, managers, now=now)
        return has_written

    async def delete(self, state: TargetState, decision: Delete) -> None:
        """Delete the copy that the decision is about; this is a repair where it was made again."""
        cache = self._copies.cache_of(state.target.group, state.target.kind)
        if cache is None:
            return
        is_repair = self._contention.is_made_again(state.target, decision.uid)
        now = self._check_contention(state.target, is_repair=is_repair)
        self._keep_pace(state.target)
        obj = self._bodies.peek(copy_slot(cache.kind, state.target.key)) if is_repair else None
        self._contention.record_absence(state.target)
        self._replaced.forget(state.target)
        await self._delete(state.target, cache, uid=decision.uid, revision=decision.revision)
        self._contention.record_deletion(state.target, decision.uid)
        if is_repair:
            self._contention.record_repair(state.target, Repair.CREATES, _list_managers(obj), now=now)

    def note_idle(self, state: TargetState, *, is_held: bool) -> None:
        """Record that nothing is written for a target now: without a copy, its next creation is not a repair.

        `is_held` means that a copy is offered, and may be written once something else is known here.
        """
        if state.current is None:
            self._contention.record_absence(state.target)
        if not is_held or state.namespace is not NamespaceState.ACTIVE:
            self._replaced.forget(state.target)

    def is_in_step(self, target: Target, made_from: object) -> bool:
        """Report, without a body, whether the copy here was made from this very state by this very rule."""
        cache, record = self._copies.find(target)
        if cache is None or record is None or record.made_from != made_from:
            return False
        if not self._is_as_written(record, cache, target):
            return False
        self._replaced.forget(target)
        return True

    async def _update(
        self, state: TargetState, wanted: DesiredCopy, cache: LocalCache, record: CopyRecord | None, *, reason: Reason
    ) -> bool:
        decided_on = state.current.revision if state.current is not None else None
        if (record.revision if record is not None else None) != decided_on:
            raise Conflict(f"{state.target} changed while its source was read; trying again")
        if record is None:
            await self._create(state, wanted, cache)
            return True
        if reason is Reason.REBUILT:
            await self._recreate(wanted, record, cache, why="the cluster was rebuilt and has another ID now")
            return True
        is_answered = record.desired == wanted.digest and not record.remainder.suspects
        if is_answered and self._is_as_written(record, cache, state.target):
            return False
        is_repair = record.desired == wanted.digest or self._contention.is_repair(state.target, wanted.digest)
        now = self._check_contention(state.target, is_repair=is_repair)
        self._keep_pace(state.target)
        try:
            update = self._writer.write(wanted, record, cache, adopt=reason is Reason.ADOPT)
            has_written, managers, unpaired = await self._timed("update", state.target, update)
        except Immutable as error:
            if (state.target.group, state.target.kind) in IRREPLACEABLE:
                raise Immutable(f"{error}; {_STAYS.format(state.target.kind)}") from None
            why = f"the API server keeps {', '.join(error.kept)}" if error.kept else "a changed field is immutable"
            await self._recreate(wanted, cache.records.get(state.target.key) or record, cache, why=why)
            has_written, managers, unpaired = True, error.managers, ()
        self._contention.record_write(state.target, wanted.digest)
        if has_written and unpaired:
            self._put_back(state.target, _rule_of(wanted), unpaired)
        if has_written and is_repair:
            self._contention.record_repair(state.target, Repair.CHANGES, managers, now=now)
        return has_written

    async def _create(self, state: TargetState, wanted: DesiredCopy, cache: LocalCache) -> None:
        """Create a copy; this is a repair where the copy was deleted here, and not its namespace."""
        is_there = state.namespace is NamespaceState.ACTIVE
        is_repair = is_there and self._contention.is_repair(state.target, wanted.digest)
        now = self._check_contention(state.target, is_repair=is_repair)
        self._keep_pace(state.target)
        if state.namespace is NamespaceState.MISSING:
            self._replaced.forget(state.target)
            await self._writer.create_namespace(state.target.namespace)
        await self._make(wanted, cache)
        if is_repair:
            self._contention.record_repair(state.target, Repair.DELETES, now=now)

    async def _recreate(self, wanted: DesiredCopy, record: CopyRecord, cache: LocalCache, *, why: str) -> None:
        """Delete a copy and create it again, unless the API server would refuse that (A2, P11)."""
        target = wanted.target
        present = await self._writer.read(wanted, record)
        await self._writer.check_replaceable(wanted, over=present)
        self._contention.record_absence(target)
        self._replaced.keep(target, present, why=why)
        await self._delete(target, cache, uid=record.uid, revision=record.revision)
        await self._make(wanted, cache)

    async def _make(self, wanted: DesiredCopy, cache: LocalCache) -> None:
        """Create a copy; in the place of one that was deleted for that, with this cluster's values of that one (A9)."""
        target, replaced = wanted.target, self._replaced.get(wanted.target)
        over = replaced.manifest if replaced is not None else None
        await self._timed("create", target, self._writer.create(wanted, cache, over=over))
        self._made_once.record_creation(target, wanted.marks)
        self._contention.record_write(target, wanted.digest, is_new=True)
        if replaced is not None:
            self._replaced.forget(target)
            self._recreated(target, _rule_of(wanted), replaced.why)

    async def _delete(self, target: Target, cache: LocalCache, *, uid: str, revision: int) -> None:
        """Delete a copy of that uid and resourceVersion."""
        self._made_once.record_deletion(target, uid)  # its event may come before the answer
        try:
            await self._timed("delete", target, self._writer.delete(target, cache.kind, uid=uid, revision=revision))
        except (Forbidden, Invalid):
            self._made_once.withdraw_deletion(target, uid)
            self._replaced.forget(target)
            raise
        cache.record_write(target.key, Deleted(uid))

    def _keep_pace(self, target: Target) -> None:
        """Count the change of a copied rule; ChangesTooOften where it must wait."""
        if target[:2] == meta.RULE_KIND:
            self._pace.enter(now=asyncio.get_running_loop().time())

    def _check_contention(self, target: Target, *, is_repair: bool) -> float:
        """Return the loop's time of a write; Contested for a repair within its pause (A5)."""
        now = asyncio.get_running_loop().time()
        if is_repair and (pause_s := self._contention.pause_s(target, now=now)):
            raise Contested(self._contention.message(target), retry_after_s=pause_s)
        return now

    def _is_as_written(self, record: CopyRecord, cache: LocalCache, target: Target) -> bool:
        """Report whether a copy has the synced fields, and the status, that the server stored for us."""
        if not record.marks.is_bound_in(self._local):
            return False  # the digests leave out the cluster that the provenance names
        if record.verified == record.revision:
            return True
        obj = self._bodies.peek(copy_slot(cache.kind, target.key))
        if obj is None:
            return False
        current = orjson.loads(obj.raw)
        if not self._writer.still_as_written(record, current):
            return False
        if not self._writer.still_has_status(record, current):
            cache.record_write(target.key, StatusStored(None))
            return False
        cache.record_write(target.key, Unchanged())
        return True

    async def _timed(self, verb: str, target: Target, call: Awaitable[_T]) -> _T:
        loop = asyncio.get_running_loop()
        started, result = loop.time(), "error"
        try:
            answer = await call
            result = "ok"
        finally:
            self._metrics.wrote(verb=verb, kind=target.kind, result=result, seconds=loop.time() - started)
        return answer


def _rule_of(wanted: DesiredCopy) -> str:
    return wanted.marks.provenance.rule if wanted.marks.provenance else ""


def _list_managers(obj: PartialObject | None) -> tuple[str, ...]:
    """List the field managers of an object other than the daemon; none where its body is not kept."""
    if obj is None:
        return ()
    return tuple(sorted(read_owners(orjson.loads(obj.raw), manager=meta.FIELD_MANAGER).other_managers))
