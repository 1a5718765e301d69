"""Carries out a Decision: reads the source, renders the copy, and passes it to `copy_updater`.

Laws: a copy in step costs no body and no write · a source, or a copy, that changed since the Decision is decided again.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from registry_controller.api import meta
from registry_controller.api.errors import ApiError, NotFound
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.api.provenance import UNKNOWN_GENERATION, Provenance, with_provenance
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.source_index import Offer
from registry_controller.cache.stored_objects import StoredRule
from registry_controller.cache.write_results import Rendered
from registry_controller.clusters.peer import Connection
from registry_controller.core.decision.decision import Apply, Delete, Hold, NeedsProof, Reason, Skip
from registry_controller.core.decision.marks import Marks, Voice
from registry_controller.core.decision.state import Claim, TargetState
from registry_controller.core.decision.stored_spec import digest_spec
from registry_controller.core.mutation.left_fields import digest_paths
from registry_controller.core.mutation.mutate import MutatedCopy, build_copy
from registry_controller.core.rules.active import Hit
from registry_controller.kube.object import PartialObject, decode_body
from registry_controller.kube.watch import read_object
from registry_controller.membership.relay_policy import RelayPolicy
from registry_controller.sync.copy_updater import CopyUpdater
from registry_controller.sync.desired_copy import DesiredCopy
from registry_controller.sync.gone_copies import GoneCopies
from registry_controller.sync.origin_reader import MadeFrom
from registry_controller.sync.reconciler import ASK_TIMEOUT_S, Judgment, Result
from registry_controller.sync.rule_conflicts import hits_beside, losers_of
from registry_controller.watch.body_cache import BodyCache, BodyKey
from registry_controller.watch.fairness import EvaluationLimiter

LARGE_BYTES: Final = 256 * 1024
_LARGE_AT_ONCE: Final = 2
"""The most large objects of one member: decoded, an object may take ten times its length until it is written."""


class Applier:
    """Carries out decisions, several at a time, each target once at a time.

    `rules` are those here, by name. `definitions` has the UID of a definition of rules that
    was here together with a rule that is here, by the rule's name and UID.
    """

    def __init__(
        self,
        *,
        copies: CopyIndex,
        sources: SourceReader,
        updater: CopyUpdater,
        gone_copies: GoneCopies,
        relays: RelayPolicy,
        rules: Mapping[str, StoredRule],
        acting: Mapping[str, StoredRule],
        definitions: Mapping[tuple[str, str], str],
    ) -> None:
        self._rules = rules
        self._acting = acting
        self._definitions = definitions
        self._copies = copies
        self._sources = sources
        self._updater = updater
        self._gone_copies = gone_copies
        self._relays = relays

    async def apply(self, judgment: Judgment) -> Result:
        """Carry a decision out; RegistryError where it cannot be done now."""
        state, offers, decision = judgment
        match decision:
            case Apply():
                offer = _offer_of(judgment, decision)
                return await self._apply(state, decision, offer, hits_beside(offer, offers) if len(offers) > 1 else ())
            case Delete():
                await self._updater.delete(state, decision)
                return Result(decision)
            case Hold() | Skip() | NeedsProof():
                self._updater.note_idle(state, is_held=isinstance(decision, Hold) and bool(state.claims))
                return Result(decision, self._losers_of(state.target))

    async def _apply(self, state: TargetState, decision: Apply, offer: Offer, beside: tuple[Hit, ...]) -> Result:
        owner, record = decision.claim.owner, offer.record
        made_from = MadeFrom(decision.claim, record.hits, beside, record.rereads)
        if state.current is not None and self._updater.is_in_step(state.target, made_from):
            _, copy = self._copies.find(state.target)
            lost = copy.lost if copy is not None else ()
            return Result(Skip(Reason.IN_SYNC, owner), self._losers_of(state.target), lost=lost)
        if offer.cache.is_outdated(offer.record, offer.hit):  # the rule has changed, and is still to be evaluated
            return Result(Hold(Reason.OWNER_NOT_HEARD, owner))
        obj = self._sources.peek(offer) if not self._has_gone(state) else None
        has_waited = obj is None
        if obj is None:
            try:
                obj = await self._sources.read(offer)
            except NotFound as error:
                if not error.names_object:
                    raise
                return Result(Hold(Reason.STALE_SOURCE, owner))
            if obj.revision >= record.revision:
                self._gone_copies.forget(state.target)
        if (obj.uid, obj.revision) != (record.uid, record.revision):
            with self._sources.evaluations.measure(offer.cache.kind):
                offer.cache.reread(obj)  # which enqueues the target again, unless this is older
            is_older = obj.revision < record.revision
            return Result(Hold(Reason.STALE_SOURCE if is_older else Reason.OWNER_NOT_HEARD, owner))
        if len(obj.raw) <= LARGE_BYTES:
            return await self._write(state, decision, offer, made_from, obj, has_waited=has_waited)
        async with self._sources.limit_large(offer):
            await self._sources.evaluations.wait(offer.cache.kind)
            return await self._write(state, decision, offer, made_from, obj, has_waited=True)

    async def _write(
        self,
        state: TargetState,
        decision: Apply,
        offer: Offer,
        made_from: MadeFrom,
        obj: PartialObject,
        *,
        has_waited: bool,
    ) -> Result:
        owner = decision.claim.owner
        cache, record = self._copies.find(state.target)
        if cache is None or (cache.doubts and state.membership is None):
            return Result(Hold(Reason.LOCAL_NOT_HEARD, owner))  # it may name a rule that a restored etcd does not have
        if has_waited and not offer.cache.is_current(offer.key, offer.record, offer.hit):
            return Result(Hold(Reason.OWNER_NOT_HEARD, owner))  # the target is enqueued again
        with self._sources.evaluations.measure(offer.cache.kind):
            manifest = decode_body(obj)
            copy = build_copy(manifest, offer.cache.kind, offer.hit.entries, owner=owner, context=offer.hit.context)
            losers = losers_of(offer, copy, manifest, owner=owner) if len(offer.record.hits) > 1 else ()
            wanted = self._mark(state, decision.claim, offer, copy)
        if state.membership is not None:
            is_relayed = decision.reason is Reason.RELAYED
            refusal = self._relays.refusal_of(decision.claim, manifest, over=state.current, is_relayed=is_relayed)
            if refusal is not None:
                return Result(Skip(refusal, owner))
        has_written = await self._updater.update(state, wanted, cache, record, reason=decision.reason)
        if made_from.beside:
            losers += tuple(hit.rule for hit in made_from.beside if hit.entries != offer.hit.entries)
        cache.record_write(state.target.key, Rendered(made_from, losers))
        self._sources.drop(offer, obj)
        stored = cache.records.get(state.target.key)
        lost = stored.remainder.lost + stored.status_lost if stored is not None else ()
        return Result(decision if has_written else Skip(Reason.IN_SYNC, owner), losers, wanted.left, lost)

    def _has_gone(self, state: TargetState) -> bool:
        """Report whether a copy went from here, and its source may have gone before; membership is put back at once."""
        return state.current is None and state.membership is None and state.target in self._gone_copies

    def _mark(self, state: TargetState, claim: Claim, offer: Offer, copy: MutatedCopy) -> DesiredCopy:
        """Put the provenance on a copy. A relay's object passes on the owner's, or an empty one where it is unknown."""
        target, hit, held = state.target, offer.hit, state.current.marks if state.current is not None else None
        assert copy.target == target, (copy.target, target)
        inherited = meta.SYNC_DISABLED in copy.manifest["metadata"]["annotations"]
        uid, created, revision = claim.uid, claim.created, claim.revision
        if claim.voice is Voice.INTERMEDIARY:
            theirs = offer.record.marks.provenance_of(claim.owner)
            uid, created, revision = (theirs.uid, theirs.created, theirs.revision) if theirs else ("", "", 0)
        before = held.provenance if held is not None else None
        acting = self._acting.get(hit.rule)
        provenance = Provenance(
            owner=claim.owner,
            rule=claim.rule,
            rule_owner=hit.rule_owner,
            policy=hit.policy,
            source=claim.kind,
            key=claim.key,
            uid=uid,
            created=created,
            revision=revision,
            copy=target,
            cluster=state.local,
            inherited=inherited,
            adopted=state.membership is None and held is not None and held.by_go and held.owner == claim.owner,
            overrides=hit.overrides,
            rule_uid=hit.rule_uid,
            rule_created=self._rule_created(hit, before),
            rule_definition=self._rule_definition(hit, target, before) if hit.rule_owner == state.local else "",
            left=digest_paths(copy.left) if copy.left else (),
            spec=digest_spec(copy.manifest) if target[:2] == meta.RULE_KIND and not copy.left else "",
            rule_generation=acting.generation if acting is not None else UNKNOWN_GENERATION,
            rule_revision=acting.revision_at_owner if acting is not None else 0,
            unknown=before.unknown if before is not None else (),
        )
        marked = with_provenance(copy.manifest, provenance)
        # Fields that a later version added come from the copy itself: they change no wish.
        own = marked
        if provenance.unknown:
            own = with_provenance(copy.manifest, msgspec.structs.replace(provenance, unknown=()))
        digest = self._updater.digest(own)
        marks = Marks(claim.owner, provenance, sync_disabled=inherited, go_written=False)
        return DesiredCopy(target, copy.gvk, marked, digest, marks, copy.status, copy.left)

    def _rule_created(self, hit: Hit, held: Provenance | None) -> str:
        """Return since when this store has the rule; while the rule is missing, the moment that the copy here names.

        A copy that is made after the restore of an etcd names no rule that the restored store never had.
        """
        if hit.rule in self._rules:
            return hit.rank[0].removeprefix("~") if hit.rule_uid else ""
        return held.rule_created if held is not None and held.rule_uid == hit.rule_uid else ""

    def _rule_definition(self, hit: Hit, target: Target, held: Provenance | None) -> str:
        """Return the UID of a definition that was here together with the rule; else the one that the copy shows."""
        kept = ""
        if held is not None and held.rule_uid == hit.rule_uid:
            _, record = self._copies.find(target)
            kept = held.rule_definition if record is not None and record.shows_rule else ""
        return self._definitions.get((hit.rule, hit.rule_uid), kept)

    def _losers_of(self, target: Target) -> tuple[str, ...]:
        _, record = self._copies.find(target)
        return record.outranked_rules if record is not None else ()


def _offer_of(judgment: Judgment, decision: Apply) -> Offer:
    return judgment.offers[judgment.state.claims.index(decision.claim)]


class SourceReader:
    """Reads sources. `connection` returns the connection to a peer, None while it is not connected."""

    def __init__(
        self,
        *,
        bodies: BodyCache,
        connection: Callable[[ClusterUID], Connection | None],
        evaluations: EvaluationLimiter,
    ) -> None:
        self._bodies = bodies
        self._connection = connection
        self.evaluations = evaluations
        self._large = collections.defaultdict[ClusterUID, asyncio.Semaphore](lambda: asyncio.Semaphore(_LARGE_AT_ONCE))

    def peek(self, offer: Offer) -> PartialObject | None:
        """Return the body of a source, if the cache has it."""
        return self._bodies.peek(_slot_of(offer))

    async def read(self, offer: Offer) -> PartialObject:
        """Read a source by name at its peer; ApiError while the peer is not connected."""
        connection = self._connection(offer.cache.peer)
        if connection is None:
            raise ApiError("the peer is not connected; waiting for it")
        gvr = await connection.discovery.resolve(offer.cache.kind)
        obj = await read_object(connection.reader, gvr, offer.key, kind=offer.cache.kind, timeout_s=ASK_TIMEOUT_S)
        await self.evaluations.wait(offer.cache.kind)
        return obj

    def limit_large(self, offer: Offer) -> asyncio.Semaphore:
        """Return the semaphore that limits how many large objects of one peer are decoded at a time."""
        return self._large[offer.cache.peer]

    def drop(self, offer: Offer, obj: PartialObject) -> None:
        """Drop a body that was written, unless a stream has brought a newer one."""
        record = offer.cache.records.get(offer.key)
        if record is not None and record.revision <= obj.revision:
            self._bodies.drop(_slot_of(offer))


def _slot_of(offer: Offer) -> BodyKey:
    return BodyKey(offer.cache.peer, offer.cache.kind, offer.key)
