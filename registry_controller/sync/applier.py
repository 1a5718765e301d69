"""Carries out a Decision: reads the source, renders the copy, and passes it to `copy_updater`.

Laws: a copy in step costs no body and no write · a source, or a copy, that changed since the Decision is decided again.
"""

from __future__ import annotations

from registry_controller.api import meta
from registry_controller.api.meta import Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.write_results import Rendered
from registry_controller.core.decision.decision import Apply, Delete, Hold, NeedsProof, Reason, Skip
from registry_controller.core.decision.ownership import Marks
from registry_controller.core.decision.provenance import provenance_of, with_provenance
from registry_controller.core.decision.state import Claim, TargetState
from registry_controller.core.mutation.mutate import MutatedCopy, build_copy
from registry_controller.core.rules.active import Hit
from registry_controller.kube.object import PartialObject
from registry_controller.membership.relay_policy import RelayPolicy
from registry_controller.sync.copy_updater import CopyUpdater
from registry_controller.sync.copy_writer import DesiredCopy
from registry_controller.sync.reconciler import Judgment, Result
from registry_controller.sync.rule_conflicts import hits_beside, losers_of
from registry_controller.sync.source_reader import LARGE_BYTES, SourceReader
from registry_controller.sync.state_reader import MadeFrom, Offer
from registry_controller.watch.body_cache import decode_body


class Applier:
    """Carries out decisions, several at a time, each target once at a time."""

    def __init__(self, *, copies: CopyIndex, sources: SourceReader, updater: CopyUpdater, relays: RelayPolicy) -> None:
        self._copies = copies
        self._sources = sources
        self._updater = updater
        self._relays = relays

    async def apply(self, judgment: Judgment) -> Result:
        """Carry a decision out; RegistryError where it cannot be done now."""
        state, offers, decision = judgment
        match decision:
            case Apply():
                offer = _offer_of(judgment, decision)
                return await self._apply(state, decision, offer, hits_beside(offer, offers))
            case Delete():
                await self._updater.delete(state, decision)
                return Result(decision)
            case Hold() | Skip() | NeedsProof():
                if state.current is None:
                    self._updater.note_absent(state.target)
                return Result(decision, self._losers_of(state.target))

    async def _apply(self, state: TargetState, decision: Apply, offer: Offer, beside: tuple[Hit, ...]) -> Result:
        owner = decision.claim.owner
        if self._updater.is_in_step(state.target, MadeFrom(decision.claim, offer.record.hits, beside)):
            return Result(Skip(Reason.IN_SYNC, owner), self._losers_of(state.target))
        if offer.cache.is_outdated(offer.record, offer.hit):  # the rule has changed, and is still to be evaluated
            return Result(Hold(Reason.OWNER_NOT_HEARD, owner))
        obj = await self._sources.read(offer)
        if (obj.uid, obj.revision) != (offer.record.uid, offer.record.revision):
            with self._sources.evaluations.measure(offer.cache.kind):
                offer.cache.reread(obj)  # which enqueues the target again, unless this is older
            is_older = obj.revision < offer.record.revision
            return Result(Hold(Reason.STALE_SOURCE if is_older else Reason.OWNER_NOT_HEARD, owner))
        if len(obj.raw) <= LARGE_BYTES:
            return await self._write(state, decision, offer, beside, obj)
        async with self._sources.limit_large(offer):
            await self._sources.evaluations.wait(offer.cache.kind)
            return await self._write(state, decision, offer, beside, obj)

    async def _write(
        self, state: TargetState, decision: Apply, offer: Offer, beside: tuple[Hit, ...], obj: PartialObject
    ) -> Result:
        owner, made_from = decision.claim.owner, MadeFrom(decision.claim, offer.record.hits, beside)
        if not offer.cache.is_current(offer.key, offer.record, offer.hit):  # the target is enqueued again
            return Result(Hold(Reason.OWNER_NOT_HEARD, owner))
        with self._sources.evaluations.measure(offer.cache.kind):
            manifest = decode_body(obj.raw, what=str(offer.key))
            copy = build_copy(manifest, offer.cache.kind, offer.hit.entries, owner=owner, context=offer.hit.context)
            losers = losers_of(offer, copy, manifest, owner=owner)
            wanted = self._mark(state, decision.claim, offer, copy)
        if state.membership:
            is_relayed = decision.reason is Reason.RELAYED
            refusal = self._relays.refusal_of(decision.claim, manifest, over=state.current, is_relayed=is_relayed)
            if refusal is not None:
                return Result(Skip(refusal, owner))
        cache = self._copies.cache_of(state.target.group, state.target.kind)
        if cache is None:
            return Result(Hold(Reason.LOCAL_NOT_HEARD, owner))
        has_written = await self._updater.update(state, wanted, cache, reason=decision.reason)
        losers += tuple(hit.rule for hit in beside if hit.entries != offer.hit.entries)
        cache.record_write(state.target.key, Rendered(made_from, losers))
        self._sources.drop(offer, obj)
        return Result(decision if has_written else Skip(Reason.IN_SYNC, owner), losers)

    def _mark(self, state: TargetState, claim: Claim, offer: Offer, copy: MutatedCopy) -> DesiredCopy:
        """Put the provenance on a copy."""
        target, held = state.target, state.current.marks if state.current is not None else None
        assert copy.target == target, (copy.target, target)
        provenance = provenance_of(
            claim,
            rule_owner=offer.hit.rule_owner,
            policy=offer.hit.policy,
            marks=offer.record.marks,
            target=target,
            inherited=meta.SYNC_DISABLED in meta.annotations_of(copy.manifest),
            adopted=not state.membership and held is not None and held.by_go and held.owner == claim.owner,
            entries=offer.hit.entries,
        )
        marked = with_provenance(copy.manifest, provenance)
        marks = Marks(claim.owner, provenance, meta.SYNC_DISABLED in meta.annotations_of(marked), go_written=False)
        return DesiredCopy(target, copy.gvk, marked, self._updater.digest(marked), marks, copy.status)

    def _losers_of(self, target: Target) -> tuple[str, ...]:
        cache = self._copies.cache_of(target.group, target.kind)
        record = cache.records.get(target.key) if cache is not None else None
        return record.outranked_rules if record is not None else ()


def _offer_of(judgment: Judgment, decision: Apply) -> Offer:
    return judgment.offers[judgment.state.claims.index(decision.claim)]
