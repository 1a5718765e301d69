"""Carry out a Decision: fetch the source, render the copy, and let the hand bring it.

Laws: what is in step costs no body and no write · what was judged is what is written, and nothing that changed since.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from registry_controller.api import meta
from registry_controller.api.errors import ApiError, Conflict, Contested, Immutable
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.local_cache import CopyRecord, LocalCache
from registry_controller.cache.write_results import Rendered, Unchanged
from registry_controller.clusters.peer import Connection
from registry_controller.core.decision.decision import Apply, Decision, Delete, Hold, Reason, Skip
from registry_controller.core.decision.ownership import Marks
from registry_controller.core.decision.provenance import provenance_of, with_provenance
from registry_controller.core.decision.state import Claim, NamespaceState, TargetState
from registry_controller.core.mutation.mutate import MutatedCopy, build_copy
from registry_controller.core.rules.active import Hit
from registry_controller.kube.watch import PartialObject, read_object
from registry_controller.membership.relay_policy import RelayPolicy
from registry_controller.report.metrics import Metrics
from registry_controller.sync.contention import Contention, Repair
from registry_controller.sync.copy_writer import CopyWriter, DesiredCopy, copy_slot
from registry_controller.sync.pace import Pace
from registry_controller.sync.reconciler import ASK_TIMEOUT_S, Judgment
from registry_controller.sync.rule_conflicts import hits_beside, losers_of
from registry_controller.sync.state_reader import Offer
from registry_controller.watch.body_cache import BodyCache, BodyKey, decode_body
from registry_controller.watch.fairness import EvaluationLimiter

_T = TypeVar("_T")

LARGE_BYTES: Final = 256 * 1024
_LARGE_AT_ONCE: Final = 2
"""Of one member: decoded, an object may take ten times its length, and it is held until it is written."""

_IRREPLACEABLE: Final = frozenset(
    (
        ("", "Namespace"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
    )
)
"""What takes other objects along when it is deleted."""
_STAYS: Final = "a {} is not deleted to be made again, others would go with it: undo the change, or delete it here"
"""What is said of it when a field of it may not change (A2)."""


class Result(NamedTuple):
    """What became of a decision: an Apply that needed no write is a Skip.

    `losers` are the younger rules that want the same source otherwise (W2).
    """

    decision: Decision
    losers: tuple[str, ...] = ()


class Applier:
    """Carries out decisions, several at a time, each target once at a time."""

    def __init__(
        self,
        *,
        copies: CopyIndex,
        bodies: BodyCache,
        turns: EvaluationLimiter,
        hand: CopyWriter,
        metrics: Metrics,
        connection: Callable[[ClusterUID], Connection | None],
        relays: RelayPolicy,
        recreated: Callable[[Target, str, str], None],
    ) -> None:
        self._copies = copies
        self._bodies = bodies
        self._turns = turns
        self._hand = hand
        self._metrics = metrics
        self._connection = connection
        self._relays = relays
        self._recreated = recreated
        self._fights = Contention()
        self._pace = Pace()
        self._large = collections.defaultdict[ClusterUID, asyncio.Semaphore](lambda: asyncio.Semaphore(_LARGE_AT_ONCE))

    async def take_turn(self, judgement: Judgment) -> bool:
        """Wait while others do what takes long; say whether that took time, and the judgement may be out of date."""
        if not isinstance(judgement.decision, Apply):
            return False
        return await self._turns.wait(_offer_of(judgement, judgement.decision).cache.kind)

    async def apply(self, judgement: Judgment) -> Result:
        """Do what was decided; RegistryError when it cannot be done now."""
        view, offers, decision = judgement
        match decision:
            case Apply():
                offer = _offer_of(judgement, decision)
                return await self._apply(view, decision, offer, hits_beside(offer, offers))
            case Delete():
                await self._delete(view, decision)
                return Result(decision)
            case Hold() | Skip():
                if view.current is None:
                    self._fights.let_go(view.target)
                return Result(decision, self._losers_of(view.target))

    async def _apply(self, view: TargetState, decision: Apply, offer: Offer, beside: tuple[Hit, ...]) -> Result:
        owner = decision.claim.owner
        if self._is_made_from(view.target, _made_from(decision, offer, beside)):
            return Result(Skip(Reason.IN_SYNC, owner), self._losers_of(view.target))
        if offer.cache.is_outdated(offer.record, offer.hit):
            return Result(Hold(Reason.OWNER_NOT_HEARD, owner))  # its rule has changed, and not seen the source yet
        obj = self._bodies.peek(_slot_of(offer))
        if obj is None:
            obj = await self._read(offer)
            await self._turns.wait(offer.cache.kind)
        if (obj.uid, obj.revision) != (offer.record.uid, offer.record.revision):
            with self._turns.spent(offer.cache.kind):
                offer.cache.reread(obj)  # which puts the target into the queue again, unless this is older
            is_older = obj.revision < offer.record.revision
            return Result(Hold(Reason.STALE_SOURCE if is_older else Reason.OWNER_NOT_HEARD, owner))
        if len(obj.raw) <= LARGE_BYTES:
            return await self._write(view, decision, offer, beside, obj)
        async with self._large[offer.cache.peer]:
            await self._turns.wait(offer.cache.kind)
            return await self._write(view, decision, offer, beside, obj)

    async def _write(
        self, view: TargetState, decision: Apply, offer: Offer, beside: tuple[Hit, ...], obj: PartialObject
    ) -> Result:
        owner, made_from = decision.claim.owner, _made_from(decision, offer, beside)
        is_same = offer.cache.records.get(offer.key) is offer.record
        if not is_same or offer.cache.is_outdated(offer.record, offer.hit):  # it is, or will be, in the queue again
            return Result(Hold(Reason.OWNER_NOT_HEARD, owner))
        with self._turns.spent(offer.cache.kind):
            manifest = decode_body(obj.raw, what=str(offer.key))
            copy = build_copy(manifest, offer.cache.kind, offer.hit.entries, owner=owner, context=offer.hit.context)
            losers = losers_of(offer, copy, manifest, owner=owner)
            wanted = self._mark(view, decision.claim, offer, copy)
        if view.membership:
            is_relayed = decision.reason is Reason.RELAYED
            refusal = self._relays.refusal_of(decision.claim, manifest, over=view.current, is_relayed=is_relayed)
            if refusal is not None:
                return Result(Skip(refusal, owner))
        cache = self._copies.cache_of(view.target.group, view.target.kind)
        if cache is None:
            return Result(Hold(Reason.LOCAL_NOT_HEARD, owner))
        has_written = await self._bring(view, wanted, cache, reason=decision.reason)
        record = cache.records.get(view.target.key)
        if record is not None and record.status_digest != self._hand.status_digest(wanted):
            bringing = self._hand.write_status(wanted, record, cache)
            has_written = await self._timed("update status", view.target, bringing) or has_written
        losers += tuple(hit.rule for hit in beside if hit.entries != offer.hit.entries)
        if record is not None:
            cache.record_write(view.target.key, Rendered(made_from, losers))
        self._consumed(offer, obj)
        return Result(decision if has_written else Skip(Reason.IN_SYNC, owner), losers)

    async def _bring(self, view: TargetState, wanted: DesiredCopy, cache: LocalCache, *, reason: Reason) -> bool:
        """Create or replace the copy that was judged; say whether that took a write."""
        record = cache.records.get(view.target.key)
        judged = view.current.revision if view.current is not None else None
        if (record.revision if record is not None else None) != judged:
            raise Conflict(f"{view.target} changed while its source was read; looking again")
        if record is None:
            await self._create(view, wanted, cache)
            return True
        if reason is Reason.REBUILT:
            await self._recreate(wanted, record, cache, why="the cluster was rebuilt and has another ID now")
            return True
        if record.desired == wanted.digest and self._is_as_written(record, cache, view.target):
            return False
        is_repair = record.desired == wanted.digest or self._fights.has_brought(view.target, wanted.digest)
        now = self._at_peace(view.target, is_repair=is_repair)
        self._keep_pace(view.target)
        try:
            bringing = self._hand.write(wanted, record, cache, adopt=reason is Reason.ADOPT)
            has_written, managers = await self._timed("update", view.target, bringing)
        except Immutable as error:
            if (view.target.group, view.target.kind) in _IRREPLACEABLE:
                raise Immutable(f"{error}; {_STAYS.format(view.target.kind)}") from None
            await self._recreate(wanted, record, cache, why="a field of it cannot be changed")
            has_written, managers = True, error.managers
        self._fights.brought(view.target, wanted.digest)
        if has_written and is_repair:
            self._fights.repaired(view.target, Repair.CHANGES, managers, now=now)
        return has_written

    async def _create(self, view: TargetState, wanted: DesiredCopy, cache: LocalCache) -> None:
        """Make a copy; again, if somebody here deleted it, and not its namespace."""
        is_there = view.namespace is NamespaceState.ACTIVE
        is_repair = is_there and self._fights.has_brought(view.target, wanted.digest)
        now = self._at_peace(view.target, is_repair=is_repair)
        self._keep_pace(view.target)
        if view.namespace is NamespaceState.MISSING:
            await self._hand.create_namespace(view.target.namespace)
        await self._timed("create", view.target, self._hand.create(wanted, cache))
        self._fights.brought(view.target, wanted.digest)
        if is_repair:
            self._fights.repaired(view.target, Repair.DELETES, now=now)

    async def _recreate(self, wanted: DesiredCopy, record: CopyRecord, cache: LocalCache, *, why: str) -> None:
        """Make a copy anew (A2, P11)."""
        target = wanted.target
        self._fights.let_go(target)
        deletion = self._hand.delete(target, cache.kind, uid=record.uid, revision=record.revision)
        await self._timed("delete", target, deletion)
        await self._timed("create", target, self._hand.create(wanted, cache))
        self._recreated(target, wanted.marks.provenance.rule if wanted.marks.provenance else "", why)

    def _keep_pace(self, target: Target) -> None:
        """Let a copied rule change; ChangesTooOften where that is to wait."""
        if (target.group, target.kind) == (meta.RULE.group, meta.RULE.kind):
            self._pace.enter(now=asyncio.get_running_loop().time())

    def _at_peace(self, target: Target, *, is_repair: bool) -> float:
        """Tell the time of a write; Contested for a repair while the other side is to be left alone (A5)."""
        now = asyncio.get_running_loop().time()
        if is_repair and (pause_s := self._fights.pause_s(target, now=now)):
            raise Contested(self._fights.words(target), retry_after_s=pause_s)
        return now

    def _is_made_from(self, target: Target, made_from: object) -> bool:
        """Say, without any body, whether the copy here was made from this very state by this very rule."""
        cache = self._copies.cache_of(target.group, target.kind)
        record = cache.records.get(target.key) if cache is not None else None
        if cache is None or record is None or record.made_from != made_from:
            return False
        return self._is_as_written(record, cache, target)

    def _is_as_written(self, record: CopyRecord, cache: LocalCache, target: Target) -> bool:
        """Say whether a copy is, in all that counts, what the server stored for us."""
        if record.verified == record.revision:
            return True
        obj = self._bodies.peek(copy_slot(cache.kind, target.key))
        if obj is None or not self._hand.still_as_written(record, obj):
            return False
        cache.record_write(target.key, Unchanged())
        return True

    def _mark(self, view: TargetState, claim: Claim, offer: Offer, copy: MutatedCopy) -> DesiredCopy:
        """Say on a copy where it is from."""
        target, held = view.target, view.current.marks if view.current is not None else None
        assert copy.target == target, (copy.target, target)
        provenance = provenance_of(
            claim,
            rule_owner=offer.hit.rule_owner,
            policy=offer.hit.policy,
            marks=offer.record.marks,
            target=target,
            inherited=meta.SYNC_DISABLED in meta.annotations_of(copy.manifest),
            adopted=not view.membership and held is not None and held.by_go and held.owner == claim.owner,
            entries=offer.hit.entries,
        )
        marked = with_provenance(copy.manifest, provenance)
        marks = Marks(claim.owner, provenance, meta.SYNC_DISABLED in meta.annotations_of(marked), go_written=False)
        return DesiredCopy(target, copy.gvk, marked, self._hand.digest(marked), marks, copy.status)

    async def _read(self, offer: Offer) -> PartialObject:
        """Read the source again at the peer."""
        connection = self._connection(offer.cache.peer)
        if connection is None:
            raise ApiError("the peer is not connected; waiting for it")
        gvr = await connection.discovery.resolve(offer.cache.kind)
        return await read_object(connection.reader, gvr, offer.key, kind=offer.cache.kind, timeout_s=ASK_TIMEOUT_S)

    def _consumed(self, offer: Offer, obj: PartialObject) -> None:
        record = offer.cache.records.get(offer.key)
        if record is not None and record.revision <= obj.revision:
            self._bodies.drop(_slot_of(offer))

    async def _delete(self, view: TargetState, decision: Delete) -> None:
        cache = self._copies.cache_of(view.target.group, view.target.kind)
        if cache is None:
            return
        self._keep_pace(view.target)
        self._fights.let_go(view.target)
        deletion = self._hand.delete(view.target, cache.kind, uid=decision.uid, revision=decision.revision)
        await self._timed("delete", view.target, deletion)

    async def _timed(self, verb: str, target: Target, call: Awaitable[_T]) -> _T:
        loop = asyncio.get_running_loop()
        started, result = loop.time(), "error"
        try:
            answer = await call
            result = "ok"
        finally:
            self._metrics.wrote(verb=verb, kind=target.kind, result=result, seconds=loop.time() - started)
        return answer

    def _losers_of(self, target: Target) -> tuple[str, ...]:
        cache = self._copies.cache_of(target.group, target.kind)
        record = cache.records.get(target.key) if cache is not None else None
        return record.outranked_rules if record is not None else ()


def _offer_of(judgement: Judgment, decision: Apply) -> Offer:
    return judgement.offers[judgement.view.claims.index(decision.claim)]


def _slot_of(offer: Offer) -> BodyKey:
    return BodyKey(offer.cache.peer, offer.cache.kind, offer.key)


def _made_from(decision: Apply, offer: Offer, beside: tuple[Hit, ...]) -> object:
    """Gather all that decides what a copy is, for comparing: every hit, because a younger rule may lose it now (W2)."""
    return decision.claim, offer.record.hits, beside
