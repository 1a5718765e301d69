"""One kind at one peer: its objects, and which of them match which rules.

It lives as long as rules read the kind from the peer; rules come and go in it.

Laws: a record keeps marks and numbers, never the body · an object that no stream has claims nothing · while
a rule's selections are not listed completely, the absence of an object proves nothing · a rule that changes touches no
record of another rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from registry_controller.api.errors import InvalidObject, NotServed
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.expectations import ExpectedObjects
from registry_controller.cache.lost_objects import LostObjects
from registry_controller.cache.peer_objects import PeerObjects
from registry_controller.cache.rule_evaluator import RuleEvaluator
from registry_controller.cache.rule_events import RuleEvents, last_policy
from registry_controller.cache.shared_watches import SharedWatches
from registry_controller.cache.source_records import (
    ClaimIndex,
    ClaimObserver,
    SourceRecord,
    SourceRecords,
    decode_lazily,
)
from registry_controller.core.decision.stored_spec import digest_spec
from registry_controller.core.rules.active import ActiveRule, Hit
from registry_controller.kube.object import PartialObject
from registry_controller.watch.lister import SelectionList
from registry_controller.watch.stream import SelectionStream

_ALWAYS: Final = 1 << 62
"""A generation after every other one."""


class RuleChange(NamedTuple):
    """The selections whose watches begin and end with a change of rules, and those that are listed beside a watch."""

    opened: tuple[Selection, ...] = ()
    closed: tuple[Selection, ...] = ()
    listed: tuple[Selection, ...] = ()


class SourceObserver(ClaimObserver, Protocol):
    """Receives the changes of the objects at peers. A call is cheap and never fails."""

    def on_source_synced(self, cache: SourceCache, dropped: Collection[Target]) -> None:
        """A list at a peer is complete; it lacks the objects that claimed the `dropped` targets."""


class CacheIndex(ClaimIndex, Protocol):
    """The index that a cache belongs to. `status_changed` is called when errors or completeness of a cache changed."""

    observer: SourceObserver
    status_changed: Callable[[], None]

    def lost_of(self, peer: ClusterUID, kind: GVK) -> LostObjects:
        """Return the losses of a peer's kind, which outlast its caches."""


class SourceCache:
    """Objects of one kind at one peer, evaluated by the rules that read them. `tap` gets all objects of the kind.

    `rule_events` receives the deletions of rules, where the kind is that of rules.

    `records` are the records of the objects that a rule matches, or cannot be evaluated on.
    `watches_changed` is called when other selections are to be watched or listed without a call of `set_rules`.
    """

    def __init__(
        self,
        *,
        peer: ClusterUID,
        kind: GVK,
        rules: tuple[ActiveRule, ...],
        sources: CacheIndex,
        tap: PeerObjects | None = None,
        rule_events: RuleEvents | None = None,
        watches_changed: Callable[[SourceCache], None] = lambda _: None,
    ) -> None:
        self.peer = peer
        self.kind = kind
        self.rules: tuple[ActiveRule, ...] = ()
        self._by_name: Mapping[str, ActiveRule] = {}
        self.events = 0
        self._observer = sources.observer
        self._report_status = sources.status_changed
        self._tap = tap
        self.rule_events = rule_events
        self._watches_changed = watches_changed
        self._closed = False
        self._evaluator = RuleEvaluator(
            peer=peer,
            kept=sources.usage,
            crowd=sources.claims_elsewhere,
            changed=sources.status_changed,
        )
        self._watches = SharedWatches(self)
        self._pending = self._watches.pending
        self.lost = sources.lost_of(peer, kind)
        self._expected = ExpectedObjects()
        self._objects = SourceRecords(
            peer=peer,
            kind=kind,
            sources=sources,
            observer=sources.observer,
            evaluator=self._evaluator,
            watches=self._watches,
            expected=self._expected,
        )
        self.records: Mapping[ObjectKey, SourceRecord] = self._objects.by_key
        self.set_rules(rules)

    @property
    def newest(self) -> int:
        """Return 0: `SourceRecords.is_behind` handles older states, object by object."""
        return 0

    # Rules.

    def set_rules(self, rules: tuple[ActiveRule, ...]) -> RuleChange:
        """Evaluate by these rules, in order of rank, from now on; return what must be watched and listed for that.

        The hits of a removed rule go at once. The hits of a changed rule stay until its selections are listed.
        """
        was, now = self._by_name, {active.rule.name: active for active in rules}
        gone = {name for name, active in was.items() if name not in now or _is_another(active, now[name])}
        fresh = {name for name in now if name in gone or name not in was or was[name].identity != now[name].identity}
        dropped = self._objects.drop_hits(dict.fromkeys(gone, _ALWAYS)) if gone else {}
        self.rules, self._by_name = rules, now
        fresh |= self._evaluator.set_rules(rules, changed=gone | fresh)
        if gone or fresh:
            self._pending.change(gone=gone - fresh, fresh={name: now[name].selections for name in sorted(fresh)})
        elif self.streams:
            return RuleChange()
        taps = () if self._tap is None else (EVERYTHING,)
        self._watches.select({*taps, *(one for active in rules for one in active.selections)})
        change, ended = self._plan()
        self._observer.on_claims_changed({**dropped, **ended}, self.peer, None)
        return change

    @property
    def streams(self) -> Mapping[Selection, SelectionStream]:
        """The selections that are watched."""
        return self._watches.streams

    @property
    def lists(self) -> Mapping[Selection, SelectionList]:
        """The selections that are listed beside a watch."""
        return self._watches.lists

    def has_rule(self, rule: str) -> bool:
        """Return true if a rule reads this cache."""
        return rule in self._by_name

    def synced_for(self, rule: str) -> bool:
        """Return true if everything that a rule selects at this peer has come, and was evaluated by it."""
        active = self._by_name.get(rule)
        return active is not None and rule not in self._pending.rules and self._watches.show(active.selections)

    def are_rules_synced(self) -> bool:
        """Return true if the cache is synced for each of its rules."""
        return not self._pending.rules and all(self._watches.show(active.selections) for active in self.rules)

    @property
    def is_synced(self) -> bool:
        """True if the cache is synced for all of its rules, and has one."""
        return bool(self.rules and not self._pending) and self._watches.is_complete

    def reads_of(self, rule: str) -> Sequence[SelectionStream | SelectionList]:
        """List the streams that show a rule's selections, and the lists that are under way for it."""
        active = self._by_name.get(rule)
        return self._watches.reads_of(active.selections if active is not None else ())

    @property
    def reads(self) -> Sequence[SelectionStream | SelectionList]:
        """All streams, and all lists that are under way."""
        return [*self.streams.values(), *self.lists.values()]

    @property
    def unclear(self) -> Mapping[str, Mapping[ObjectKey, InvalidObject]]:
        """The errors of objects that a rule cannot be evaluated on, by rule."""
        return self._evaluator.unclear

    def is_outdated(self, record: SourceRecord, hit: Hit) -> bool:
        """Return true if a hit is that of a rule which has changed since, and has not seen the object again."""
        return bool(self._pending.rules) and not self._pending.has_evaluated(hit.rule, evaluated=record.evaluated)

    def is_current(self, key: ObjectKey, record: SourceRecord, hit: Hit) -> bool:
        """Return true if an object is as in a record that was read before, for all rules that make the hit's target.

        When it is not, the target was reported as changed, or will be when its rule is listed.
        """
        held, target = self.records.get(key), hit.target(key)
        if held is None or (held.uid, held.revision) != (record.uid, record.revision) or self.is_outdated(held, hit):
            return False
        return held is record or held.hits_on(target, key) == record.hits_on(target, key)

    def was_evaluated(self, record: SourceRecord, rule: str) -> bool:
        """Return true if a rule, as it is now, has seen the object, or does not select it."""
        return self._pending.has_evaluated(rule, evaluated=record.evaluated)

    def wants(self, target: Target, obj: PartialObject, *, moved_by: str = "") -> bool:
        """Return true if a rule makes that target of an object, or if the rule `moved_by` makes any copy.

        A rule that cannot be evaluated may want it.
        """
        body = decode_lazily(obj)
        return not self._objects.is_made_by_controller(obj, body, self._objects.read_marks(obj)) and any(
            isinstance(hit, InvalidObject)
            or hit.rule == moved_by
            or (hit.barrier is None and hit.target(obj.key) == target)
            for _, hit in self._evaluator.evaluate_all(obj, body)
            if hit is not None
        )

    # Events.

    def on_object(self, stream: SelectionStream, obj: PartialObject) -> None:
        """Take an object's present state from one stream."""
        if self._closed:
            return
        self.events += 1
        if self.lost.deleted:
            self.lost.note_there(obj.key)
        if self._watches.lists:
            self._watches.note_named(stream, obj.key)
        if self._expected.revisions and not self._expected.reached(stream, obj.key, obj.revision):
            if stream.outdated is not None:
                stream.outdated[obj.key] = obj  # the end of the list shows whether it is of another history
            return
        old = self.records.get(obj.key)
        if old is not None and obj.revision < old.revision and self._objects.is_behind(stream, obj.key, old):
            return
        try:
            if self._tap is not None and stream.selection == EVERYTHING:
                self._tap.upsert(obj, decode_lazily(obj))
            if self.rule_events is not None:
                self.rule_events.on_rule(obj.key.name, obj.uid, digest_spec(decode_lazily(obj)()))
            streams = stream.bit | (old.streams if old else 0)
            self._objects.take(obj, streams=streams, is_doubted=obj.revision > stream.doubted_after)
        except InvalidObject as error:
            stream.refused(error)

    def on_listed(self, listing: SelectionList, obj: PartialObject) -> None:
        """Take an object of a list beside a watch, which has not named it since the list was asked for."""
        if self._closed or not self._watches.has_list(listing):
            return
        old, cover = self.records.get(obj.key), listing.cover
        if old is not None and obj.revision < old.revision:
            if old.evaluated < listing.generation:
                listing.refuse_outdated()
            return
        try:
            self._objects.take(obj, streams=cover.bit | (old.streams if old else 0))
        except InvalidObject as error:
            cover.refused(error)
        if obj.revision > cover.revision and obj.key in self.records:
            self._expected.expect(cover, obj.key, obj.revision)

    def reread(self, obj: PartialObject) -> None:
        """Take a state that was read by name, newer than that of any stream; InvalidObject if it cannot be used."""
        old = self.records.get(obj.key)
        if not self._closed and old is not None and obj.revision >= old.revision:
            self._objects.take(obj, streams=old.streams)

    def on_delete(self, stream: SelectionStream, key: ObjectKey, obj: PartialObject | None) -> None:
        """Take an object that a stream no longer has: deleted, or out of its selection."""
        if self._closed:
            return
        if self._watches.lists:
            self._watches.note_named(stream, key)
        if self._tap is not None and stream.selection == EVERYTHING:
            self._tap.remove(key)
        if self._expected.revisions:
            if obj is None and self._expected.expects(stream, key):
                return  # the end of the list shows whether it is late enough to prove this
            if obj is not None and not self._expected.reached(stream, key, obj.revision):
                return
        if obj is not None and (key in self.records or self._tap is not None):
            self.lost.note_deleted(key)
        if self.rule_events is not None and obj is not None and stream.selection == EVERYTHING:
            self.rule_events.on_delete(key.name, obj.uid, obj.revision, policy=last_policy(decode_lazily(obj)))
        self._objects.lose(stream, key, obj)

    def on_stream_listing(self, stream: SelectionStream) -> None:
        """Note that a stream's list begins: the current rules evaluate all its objects."""
        stream.generation = self._pending.generation
        if self.rule_events is not None:
            self.rule_events.interrupt()
        if not self._closed and self.lists:
            self._replan_aside()

    def on_stream_listed(self, stream: SelectionStream) -> None:
        """Note whether a list follows a new definition, or another history, before the deletions that it shows."""
        self.lost.note_listed(stream.listed_at, reached=stream.reached)

    def on_stream_synced(self, stream: SelectionStream) -> None:
        """Note that a stream's list is complete."""
        if self._closed:
            return
        missed, outdated = self._expected.missed(stream), stream.outdated or {}
        dropped = self._objects.lose_missed(stream, [key for key in missed if key not in outdated])
        for key in [key for key in missed if key in outdated]:
            self.on_object(stream, outdated[key])
        if self._tap is not None and stream.selection == EVERYTHING:
            self._tap.complete()
        stream.listed = stream.generation
        if self.rule_events is not None:
            self.rule_events.on_synced()
        self._observer.on_source_synced(self, {**dropped, **self._replan()})
        self._report_status()

    def on_stream_changed(self, stream: SelectionStream) -> None:
        """Note that a stream's error changed: narrower selections may need their own watches, or no longer."""
        if not self._closed:
            if isinstance(stream.error, NotServed):
                self.lost.note_unserved()
            self._replan_aside()
            self._report_status()
            if stream.error is None and self.rule_events is not None and self.is_synced:
                self._observer.on_source_synced(self, ())  # a missing rule proves nothing while there is an error

    @property
    def misses_deletion(self) -> bool:
        """False: nothing is deleted at a peer."""
        return False

    def on_stream_interrupted(self, stream: SelectionStream) -> None:
        """Do nothing: the objects of the peer are compared with the known ones when it answers again."""

    def on_stream_reset(self, stream: SelectionStream) -> None:
        """Note that a stream is listed again, perhaps from another history.

        `SourceRecords.is_behind` handles older states of its objects.
        """
        if self._closed:
            return
        self._expected.reset(stream)
        if self.rule_events is not None:
            self.rule_events.interrupt()
        if self._tap is not None and stream.selection == EVERYTHING:
            self._tap.reset()
        if self.lists:
            self._replan_aside()

    def on_list_complete(self, listing: SelectionList) -> None:
        """Note that a list beside a watch is complete."""
        if self._closed or not self._watches.has_list(listing):
            return
        dropped = self._objects.drop_hits(self._watches.end_list(listing))
        self._observer.on_source_synced(self, {**dropped, **self._replan()})
        self._report_status()

    def on_list_failed(self, listing: SelectionList) -> None:
        """Note that a list beside a watch cannot be had now."""
        self._report_status()

    def close(self) -> None:
        """Withdraw all claims of this cache; later events do nothing."""
        self._closed = True
        for key, record in list(self.records.items()):
            self._objects.forget(key, record)

    # Watches.

    def _replan_aside(self) -> None:
        self._observer.on_claims_changed(self._replan(), self.peer, None)

    def _replan(self) -> Mapping[Target, None]:
        _, dropped = self._plan()
        self._watches_changed(self)
        return dropped

    def _plan(self) -> tuple[RuleChange, Mapping[Target, None]]:
        """Choose the watches and lists; return them, and the targets that lost a claim of a rule that waited."""
        opened, closed = self._watches.plan()
        if closed:
            self._hand_over(closed)
        dropped = self._objects.drop_hits(self._watches.settle())
        return RuleChange(opened, tuple(stream.selection for stream in closed), self._watches.plan_lists()), dropped

    def _hand_over(self, streams: Collection[SelectionStream]) -> None:
        """Move the objects of these streams to the remaining ones; without one, only outdated hits stay."""
        bits = sum(stream.bit for stream in streams)
        for stream in streams:
            self._expected.drop_stream(stream)
        for key, record in self._objects.of_streams(bits):
            self._objects.drop_streams(key, record, bits)
            if record.streams:
                continue
            for heir in self._heirs(key, record):
                self._objects.set_streams(key, record, record.streams | heir.bit)
                self._expected.expect(heir, key, record.revision)
            if not record.streams:
                outdated = {hit.rule for hit in record.hits if self.is_outdated(record, hit)}
                self._objects.keep_rules(key, record, outdated)

    def _heirs(self, key: ObjectKey, record: SourceRecord) -> Iterator[SelectionStream]:
        """Find the streams that will name an object, because a rule that hits it asks for them."""
        rules = {hit.rule for hit in record.hits} | record.unclear
        for active in self.rules:
            for selection in active.selections if active.rule.name in rules else ():
                stream = self._watches.cover_of(selection)
                has_named_all = stream.is_complete and stream.revision >= record.revision
                if not has_named_all and selection.includes(key.namespace):
                    yield stream


def _is_another(old: ActiveRule, new: ActiveRule) -> bool:
    """Return true if a rule only has the name of one that was there: it came from another cluster."""
    return (old.owner, old.target_policy.is_synced) != (new.owner, new.target_policy.is_synced)
