"""Workers: take a key, read the caches, decide, act, say what became of it.

Laws: level-based, a worker decides afresh each time · no await between reading the caches and having the Decision ·
one failing object never blocks another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn, TypeVar

import orjson

from registry_controller.api import meta
from registry_controller.api.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Contested,
    Forbidden,
    Invalid,
    NotFound,
    RegistryError,
    TooManyRequests,
)
from registry_controller.api.meta import GVK, ClusterUID, Manifest, Target
from registry_controller.core.decide import decide
from registry_controller.core.decision import Apply, Decision, Delete, Hold, Reason, Skip
from registry_controller.core.mark import provenance_of, with_provenance
from registry_controller.core.mutate import desired
from registry_controller.core.own import Marks, is_at_home, is_membership, read_marks
from registry_controller.core.view import Answer, Claim, Inquiry, NamespaceState, SourceRef, View
from registry_controller.engine.bodies import Bodies, Slot, decode_body
from registry_controller.engine.brake import Brake
from registry_controller.engine.containers import holds_natives
from registry_controller.engine.copies import Copies, CopyRecord, LocalFeed
from registry_controller.engine.departures import Departures
from registry_controller.engine.fights import Fights
from registry_controller.engine.ledger import Class, Ledger, Outcome, Said
from registry_controller.engine.outcomes import RECHECKED, outcomes_of, owner_of, rule_of
from registry_controller.engine.views import Offer, Views
from registry_controller.engine.workqueue import WorkQueue
from registry_controller.engine.writing import Hand, Wanted, copy_slot
from registry_controller.kube.connect import Reader, Writer
from registry_controller.kube.discover import Discovery
from registry_controller.kube.watch import Heard, decode_heard
from registry_controller.report.logs import get_logger
from registry_controller.report.metrics import Metrics

log = get_logger(__name__)

_T = TypeVar("_T")

ASK_TIMEOUT_S = 10.0
_IRREPLACEABLE = frozenset(
    (
        ("", "Namespace"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
    )
)
"""What takes other objects along when it is deleted."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A live, proven connection to a peer."""

    reader: Reader
    discovery: Discovery


class Worker:
    """What all worker tasks share."""

    def __init__(
        self,
        *,
        queue: WorkQueue,
        views: Views,
        copies: Copies,
        bodies: Bodies,
        ledger: Ledger,
        hand: Hand,
        brake: Brake,
        departures: Departures,
        writer: Writer,
        metrics: Metrics,
        connection: Callable[[ClusterUID], Connection | None],
        may_relay: Callable[[Claim, Manifest], bool],
        recreated: Callable[[Target, str, str], None],
    ) -> None:
        self._queue = queue
        self._views = views
        self._copies = copies
        self._bodies = bodies
        self._ledger = ledger
        self._hand = hand
        self._brake = brake
        self._departures = departures
        self._writer = writer
        self._metrics = metrics
        self._connection = connection
        self._may_relay = may_relay
        self._recreated = recreated
        self._fights = Fights()

    async def run(self) -> NoReturn:
        """Work forever."""
        while True:
            target, wanted_at = await self._queue.get()
            now = asyncio.get_running_loop().time()
            self._metrics.workqueue_latency_seconds.observe(now - wanted_at)
            try:
                await self._process(target, wanted_at)
            finally:
                self._queue.done(target)

    async def _process(self, target: Target, wanted_at: float) -> None:
        view, offers = self._views.read(target, None)
        decision = decide(view)
        inquiry = None
        try:
            if isinstance(decision, Hold) and decision.ask is not None:
                inquiry = await self._ask(decision.ask)
                view, offers = self._views.read(target, inquiry)
                decision = decide(view)
            if decision.reason is Reason.MAY_HOLD_NATIVE_OBJECTS:
                found_empty = not await holds_natives(self._writer, target)
                view, offers = self._views.read(target, inquiry, found_empty=found_empty)
                decision = decide(view)
            if (target.group, target.kind) == (meta.GROUP, meta.CLUSTER.kind):
                self._departures.hear(decision, view)
            decision = self._brake.weigh(target, decision, rule=view.rule)
            decision = await self._act(view, decision, offers, wanted_at)
        except RegistryError as error:
            self._failed(target, decision, view, error)
        else:
            self._settled(target, decision, view)

    async def _act(self, view: View, decision: Decision, offers: tuple[Offer, ...], wanted_at: float) -> Decision:
        match decision:
            case Apply():
                offer = offers[view.claims.index(decision.claim)]
                return await self._apply(view, decision, offer, wanted_at)
            case Delete():
                await self._delete(view, decision)
                return decision
            case Hold() | Skip():
                return decision

    async def _apply(self, view: View, decision: Apply, offer: Offer, wanted_at: float) -> Decision:
        made_from = (decision.claim, offer.hit)
        if self._is_made_from(view.target, made_from):
            return Skip(Reason.IN_SYNC, decision.claim.owner)
        heard = await self._source(offer)
        if (heard.uid, heard.revision) != (offer.record.uid, offer.record.revision):
            offer.feed.reread(heard)  # which puts the target into the queue again, unless this is older than it knows
            is_older = heard.revision < offer.record.revision
            return Hold(Reason.STALE_SOURCE if is_older else Reason.OWNER_NOT_HEARD, decision.claim.owner)
        manifest = decode_body(heard.raw, what=str(offer.key))
        wanted = self._render(view, decision.claim, offer, manifest)
        relays = decision.reason is Reason.RELAYED and view.current is not None
        if relays and not self._may_relay(decision.claim, manifest):
            return Skip(Reason.ADDRESS_CHANGED, decision.claim.owner)
        feed = self._copies.feed(view.target.group, view.target.kind)
        if feed is None:
            return Hold(Reason.LOCAL_NOT_HEARD, decision.claim.owner)
        has_written = await self._bring(view, wanted, feed, reason=decision.reason)
        record = feed.records.get(view.target.key)
        if record is not None and record.status_digest != self._hand.status_digest(wanted):
            bringing = self._hand.bring_status(wanted, record, feed)
            has_written = await self._timed("update status", view.target, bringing) or has_written
        if record is not None:
            record.made_from = made_from
            record.losers = _losers(offer, wanted, manifest, owner=decision.claim.owner)
        self._consumed(offer, heard)
        if not has_written:
            return Skip(Reason.IN_SYNC, decision.claim.owner)
        self._metrics.relay_seconds.observe(asyncio.get_running_loop().time() - wanted_at)
        self._ledger.wrote((decision.claim.rule, decision.claim.owner), datetime.now(UTC))
        return decision

    async def _bring(self, view: View, wanted: Wanted, feed: LocalFeed, *, reason: Reason) -> bool:
        """Create or replace the copy that was judged; say whether that took a write."""
        record = feed.records.get(view.target.key)
        judged = view.current.revision if view.current is not None else None
        if (record.revision if record is not None else None) != judged:
            raise Conflict(f"{view.target} changed while its source was read; looking again")
        if record is None:
            if view.namespace is NamespaceState.MISSING:
                await self._create_namespace(view.target.namespace)
            await self._timed("create", view.target, self._hand.create(wanted, feed))
            return True
        if reason is Reason.REBUILT:
            return await self._recreate(wanted, record, feed, why="the cluster was rebuilt and has another ID now")
        if record.desired == wanted.digest and self._is_as_written(record, feed.kind, view.target):
            return False
        is_repair = record.desired == wanted.digest
        now = asyncio.get_running_loop().time()
        if is_repair and (pause_s := self._fights.pause_s(view.target, now=now)):
            raise Contested(self._fights.words(view.target), retry_after_s=pause_s)
        try:
            bringing = self._hand.bring(wanted, record, feed, adopt=reason is Reason.ADOPT)
            has_written, managers = await self._timed("update", view.target, bringing)
        except Invalid as error:
            if not error.immutable or (view.target.group, view.target.kind) in _IRREPLACEABLE:
                raise
            return await self._recreate(wanted, record, feed, why="a field of it cannot be changed")
        if has_written and is_repair:
            self._fights.repaired(view.target, managers, now=now)
        return has_written

    async def _recreate(self, wanted: Wanted, record: CopyRecord, feed: LocalFeed, *, why: str) -> bool:
        """Make a copy anew (A2, P11)."""
        target = wanted.target
        deletion = self._hand.delete(target, feed.kind, uid=record.uid, revision=record.revision)
        await self._timed("delete", target, deletion)
        await self._timed("create", target, self._hand.create(wanted, feed))
        self._recreated(target, wanted.marks.provenance.rule if wanted.marks.provenance else "", why)
        return True

    def _is_made_from(self, target: Target, made_from: object) -> bool:
        """Say, without any body, whether the copy here was made from this very state by this very rule."""
        feed = self._copies.feed(target.group, target.kind)
        record = feed.records.get(target.key) if feed is not None else None
        if feed is None or record is None or record.made_from != made_from:
            return False
        return self._is_as_written(record, feed.kind, target)

    def _is_as_written(self, record: CopyRecord, kind: GVK, target: Target) -> bool:
        """Say whether a copy is, in all that counts, what the server stored for us."""
        if record.verified == record.revision:
            return True
        heard = self._bodies.peek(copy_slot(kind, target.key))
        if heard is None or not self._hand.still_as_written(record, heard):
            return False
        record.verified = record.revision
        self._bodies.drop(copy_slot(kind, target.key))
        return True

    def _render(self, view: View, claim: Claim, offer: Offer, manifest: Manifest) -> Wanted:
        target, held = view.target, view.current.marks if view.current is not None else None
        copy = desired(manifest, offer.feed.kind, offer.hit.entries, owner=claim.owner, context=offer.hit.context)
        assert copy.target == target, (copy.target, target)
        provenance = provenance_of(
            claim,
            rule_owner=offer.hit.rule_owner,
            policy=offer.hit.policy,
            marks=offer.record.marks,
            target=target,
            inherited=meta.SYNC_DISABLED in meta.annotations_of(copy.manifest),
            adopted=not view.membership and held is not None and held.by_go and held.owner == claim.owner,
        )
        marked = with_provenance(copy.manifest, provenance)
        marks = Marks(claim.owner, provenance, meta.SYNC_DISABLED in meta.annotations_of(marked), go_written=False)
        return Wanted(target, copy.gvk, marked, self._hand.digest(marked), marks, copy.status)

    async def _source(self, offer: Offer) -> Heard:
        """Take the source's body from its slot, or read it again at the peer."""
        slot = Slot(offer.feed.peer, offer.feed.kind, offer.key)
        heard = self._bodies.peek(slot)
        if heard is not None:
            return heard
        connection = self._connection(offer.feed.peer)
        if connection is None:
            raise ApiError("the peer is not connected; waiting for it")
        gvr = await connection.discovery.resolve(offer.feed.kind)
        return decode_heard(await connection.reader.get(gvr, offer.key, timeout_s=ASK_TIMEOUT_S))

    def _consumed(self, offer: Offer, heard: Heard) -> None:
        slot = Slot(offer.feed.peer, offer.feed.kind, offer.key)
        record = offer.feed.records.get(offer.key)
        if record is not None and record.revision <= heard.revision:
            self._bodies.drop(slot)

    async def _ask(self, source: SourceRef) -> Inquiry:
        """Ask an owner for one object by name: only its own NotFound is proof (O5)."""
        connection = self._connection(source.owner)
        if connection is None:
            return Inquiry(source, Answer.NOT_ASKED)
        gvr = await connection.discovery.resolve(source.kind)
        try:
            heard = decode_heard(await connection.reader.get(gvr, source.key, timeout_s=ASK_TIMEOUT_S))
        except NotFound as error:
            return Inquiry(source, Answer.NOT_FOUND if error.names_object else Answer.NOT_ASKED)
        marks = read_marks(heard.annotations, of=Target(source.kind.group, source.kind.kind, *source.key))
        is_there = not heard.deleting and is_at_home(
            marks, peer=source.owner, membership=is_membership(source.kind, heard.kind_type)
        )
        return Inquiry(source, Answer.FOUND if is_there else Answer.NOT_FOUND, heard.revision)

    async def _delete(self, view: View, decision: Delete) -> None:
        feed = self._copies.feed(view.target.group, view.target.kind)
        if feed is None:
            return
        deletion = self._hand.delete(view.target, feed.kind, uid=decision.uid, revision=decision.revision)
        await self._timed("delete", view.target, deletion)

    async def _create_namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self._writer.create(meta.NAMESPACES, "", orjson.dumps(body))
        except AlreadyExists:
            return
        except Forbidden as error:
            raise Forbidden(f"cannot create namespace {name}: {error}", status=403) from None

    async def _timed(self, verb: str, target: Target, call: Awaitable[_T]) -> _T:
        loop = asyncio.get_running_loop()
        started, result = loop.time(), "error"
        try:
            answer = await call
            result = "ok"
        finally:
            self._metrics.wrote(verb=verb, kind=target.kind, result=result, seconds=loop.time() - started)
        return answer

    def _settled(self, target: Target, decision: Decision, view: View) -> None:
        if isinstance(decision, Hold) and decision.reason in RECHECKED:
            self._queue.retry(target, at_least_s=1.0)
        else:
            self._queue.forget(target)
        self._metrics.decided(decision=type(decision).__name__, reason=decision.reason.value)
        if decision.reason is Reason.DELETION_JUDGED:  # over in a moment: nothing to say yet
            return
        changed = self._ledger.note(target, outcomes_of(decision, view, losers=self._losers_of(target)))
        match decision:
            case Apply():
                if decision.reason is Reason.HISTORY_RESTORED:
                    self._ledger.went_back((decision.claim.rule, decision.claim.owner), datetime.now(UTC))
                log.info("wrote copy", target=str(target), reason=decision.reason.value, owner=decision.claim.owner)
            case Delete():
                log.info("deleted copy", target=str(target), reason=decision.reason.value, owner=decision.owner)
            case Hold() | Skip():
                if changed:
                    log.debug("left as it is", target=str(target), reason=decision.reason.value)

    def _losers_of(self, target: Target) -> tuple[str, ...]:
        feed = self._copies.feed(target.group, target.kind)
        record = feed.records.get(target.key) if feed is not None else None
        return record.losers if record is not None else ()

    def _failed(self, target: Target, decision: Decision, view: View, error: RegistryError) -> None:
        if isinstance(error, Conflict):
            self._queue.retry(target)
            return
        if isinstance(error, NotFound) and error.details_kind == "namespaces":
            missing = Hold(Reason.NAMESPACE_MISSING, owner_of(decision))
            self._ledger.note(target, outcomes_of(missing, view))
            self._queue.retry(target, at_least_s=1.0)
            return
        wait_s = error.retry_after_s if isinstance(error, TooManyRequests | Contested) else 0.0
        delay_s = self._queue.retry(target, at_least_s=wait_s, embargo=wait_s > 0)
        owner, rule = owner_of(decision), rule_of(view, decision)
        reason = error.reason if isinstance(error, ApiError) and error.reason else type(error).__name__
        if rule:
            outcome = Outcome(rule, owner or ClusterUID(""), Class.FAILING, reason)
            if self._ledger.note(target, [Said(outcome, str(error))]):
                log.warning(
                    "cannot bring copy into step", target=str(target), error=str(error), retry_s=round(delay_s, 2)
                )
        self._metrics.decided(decision=type(decision).__name__, reason=reason)


def _losers(offer: Offer, wanted: Wanted, manifest: Manifest, *, owner: ClusterUID) -> tuple[str, ...]:
    """Name the other rules that make something else of the same source at the same place (W2)."""
    found = []
    for hit in offer.record.hits:
        if hit.rule == offer.hit.rule or hit.entries == offer.hit.entries or hit.target(offer.key) != wanted.target:
            continue
        other = desired(manifest, offer.feed.kind, hit.entries, owner=owner, context=hit.context)
        ours = desired(manifest, offer.feed.kind, offer.hit.entries, owner=owner, context=offer.hit.context)
        if (other.manifest, other.status) != (ours.manifest, ours.status):
            found.append(hit.rule)
    return tuple(found)
