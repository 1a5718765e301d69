"""The records of the objects of one kind at one peer, and the claims that their hits make.

Laws: a record keeps marks and numbers, never the body · every change of a record reports the targets whose claims
change · a record that is named again in the same state, with the same hits, stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey, Target
from registry_controller.cache.expectations import ExpectedObjects
from registry_controller.cache.key_groups import KeyGroups
from registry_controller.cache.peer_objects import spec_cluster_id
from registry_controller.cache.rule_evaluator import EvaluationUsage, RuleEvaluator
from registry_controller.cache.shared_watches import SharedWatches
from registry_controller.core.decision.marks import (
    NATIVE,
    Marks,
    is_at_home,
    is_made_by_controller,
    is_membership,
    read_marks,
    remembered,
)
from registry_controller.core.diff.managed_fields import is_written_by
from registry_controller.core.rules.active import Hit
from registry_controller.kube.object import PartialObject, decode_body
from registry_controller.watch.body_cache import BodyCache, BodyKey
from registry_controller.watch.limits import MOST_OWN, SizeMeter
from registry_controller.watch.stream import SelectionStream

_NO_HITS: Final[tuple[tuple[Hit, ...], frozenset[str]]] = ((), frozenset())
_OUR_MANAGER: Final = f'"{meta.FIELD_MANAGER}"'.encode()

SourceKey = tuple[ClusterUID, GVK, ObjectKey]
"""An object at a peer, in the version in which it is read."""


class SourceGroup(NamedTuple):
    """The streams that have an object, as bits, and the rules that match it or could not be evaluated on it."""

    streams: int
    rules: tuple[str, ...]


@dataclass(slots=True)
class SourceRecord:
    """One object at a peer. `hits` are in the order of the rules' rank.

    `streams` are the bits of the streams that have it. `unclear` names the rules that could not be evaluated on it:
    whether they want it is not known. `evaluated` is the generation of the rules that evaluated it last. `shown` is the
    revision that a copy here showed last, if that was a later one. `made_by_daemon` means that a daemon wrote an object
    that is no copy: it was one. `rereads` counts how often this state was read again because fields may have lacked, or
    another history may have had its revision.
    """

    uid: str
    revision: int
    created: str
    deleting: bool
    marks: Marks
    membership: bool
    cluster_id: ClusterUID | None
    hits: tuple[Hit, ...]
    streams: int
    unclear: frozenset[str] = frozenset()
    evaluated: int = 0
    shown: int = 0
    made_by_daemon: bool = False
    rereads: int = 0

    @property
    def group(self) -> SourceGroup:
        """The record's group."""
        return SourceGroup(self.streams, (*(hit.rule for hit in self.hits), *sorted(self.unclear)))

    def hit_on(self, target: Target, key: ObjectKey) -> Hit | None:
        """Return the hit by which this object becomes that target; of several the highest ranked that may write it."""
        barred: Hit | None = None
        for hit in self.hits:
            if hit.target(key) == target:
                if hit.barrier is None:
                    return hit
                barred = barred or hit
        return barred

    def hits_on(self, target: Target, key: ObjectKey) -> list[Hit]:
        """Return all hits by which this object becomes a target."""
        return [hit for hit in self.hits if hit.target(key) == target]

    def shows(self, obj: PartialObject) -> bool:
        """Return true if the record was made from this very state of the object."""
        return obj.revision > 0 and (self.uid, self.revision) == (obj.uid, obj.revision)


class ClaimObserver(Protocol):
    """Receives the changes of claims. A call is cheap and never fails."""

    def on_claims_changed(
        self, targets: Collection[Target], peer: ClusterUID, known: tuple[GVK, ObjectKey] | None
    ) -> None:
        """Objects at the peer claim these targets, claim them with another state, or claim them no longer.

        `known` is an object that appeared or is gone, to which rules give other places now, or on which they can be
        evaluated again.
        """


class ClaimIndex(Protocol):
    """The index of all caches: which objects claim which target."""

    bodies: BodyCache
    usage: EvaluationUsage

    def claims_elsewhere(self, target: Target) -> int:
        """Count the objects that claim a target of another kind, or in another place, than they are."""

    def record_deletion(self, peer: ClusterUID, target: Target, revision: int) -> None:
        """Record the revision at which a member deleted a membership object of its own."""

    def relink(self, source: SourceKey, old: tuple[Hit, ...], new: tuple[Hit, ...]) -> None:
        """Note by which rules an object claims targets now, and did before."""


class SourceRecords:
    """Records by key. `watches` are those that fill them; `expected` are objects that a stream has yet to name."""

    def __init__(
        self,
        *,
        peer: ClusterUID,
        kind: GVK,
        sources: ClaimIndex,
        observer: ClaimObserver,
        evaluator: RuleEvaluator,
        watches: SharedWatches,
        expected: ExpectedObjects,
    ) -> None:
        self.by_key: dict[ObjectKey, SourceRecord] = {}
        self._peer = peer
        self._kind = kind
        self._sources = sources
        self._observer = observer
        self._evaluator = evaluator
        self._watches = watches
        self._expected = expected
        self._may_be_membership = is_membership(kind, meta.REGISTRY_SECRET_TYPE)
        self._groups = KeyGroups(self.by_key, group_of=lambda record: record.group)
        self._size = SizeMeter(kind) if kind in MOST_OWN else None
        self._went_back: dict[ObjectKey, int] = {}

    def take(self, obj: PartialObject, *, streams: int, is_doubted: bool = False) -> None:
        """Evaluate an object's present state, which the streams of these bits have; report the targets that change.

        A state `is_doubted` if the known one of its revision may lack fields, or be of a lost history: it counts as
        another one.
        """
        old = self.by_key.get(obj.key)
        is_known = old is not None and old.shows(obj)
        body = decode_lazily(obj)
        marks = self.read_marks(obj)
        membership = self._may_be_membership and is_membership(self._kind, obj.kind_type)
        is_own = marks is NATIVE or is_at_home(marks, peer=self._peer, membership=membership)
        is_cluster = membership and self._kind.group == meta.GROUP
        cluster_id = spec_cluster_id(body()) if is_cluster else None
        if is_own and self._size is not None:
            self._size.add(obj)
        before = old.hits if old is not None else ()
        if marks is not NATIVE and self.is_made_by_controller(obj, body, marks):
            self._evaluator.release(obj.key, before)
            hits, unclear = _NO_HITS
        else:
            hits, unclear = self._evaluator.evaluate(obj, body, is_own=is_own, before=before)
        self._went_back.pop(obj.key, None)
        if not hits and not unclear:
            self._leave(obj.key, old)
            return
        touched: set[Target] = set()
        for hit in hits if old is None else self._touched(old, hits, is_same=is_known and not is_doubted):
            touched.add(hit.target(obj.key))
        if old is not None and is_known and not is_doubted and (old.hits, old.unclear) == (hits, unclear):
            self.set_streams(obj.key, old, streams)
            old.evaluated = self._watches.pending.generation
            if not touched:
                return
        else:
            fresh = SourceRecord(
                uid=obj.uid,
                revision=obj.revision,
                created=obj.created,
                deleting=obj.deleting,
                marks=marks,
                membership=membership,
                cluster_id=cluster_id,
                hits=hits,
                streams=streams,
                unclear=unclear,
                evaluated=self._watches.pending.generation,
                shown=old.shown if old is not None and old.shown > obj.revision else 0,
                made_by_daemon=is_own and not membership and _is_made_by_daemon(obj, body),
                rereads=old.rereads + is_doubted if old is not None and is_known else 0,
            )
            if before != hits:
                self._relink(obj.key, before, hits)
            self._keep(obj.key, fresh, old=old)
        self._sources.bodies.put(BodyKey(self._peer, self._kind, obj.key), obj)
        is_news = old is None or before != hits or bool(old.unclear and old.unclear != unclear)
        targets = sorted(touched) if len(touched) > 1 else touched
        self._observer.on_claims_changed(targets, self._peer, (self._kind, obj.key) if is_news else None)

    def is_made_by_controller(self, obj: PartialObject, body: Callable[[], Manifest], marks: Marks) -> bool:
        """Return true if a controller at the peer made an object from a copy: then no rule copies it."""
        if marks is NATIVE or (self._may_be_membership and is_membership(self._kind, obj.kind_type)):
            return False
        return is_made_by_controller(marks, body, peer=self._peer)

    def _touched(self, old: SourceRecord, hits: tuple[Hit, ...], *, is_same: bool) -> Iterable[Hit]:
        """Choose the hits whose targets want a look: all of a new state, and of the same one those that changed."""
        if not is_same:
            return hits if hits is old.hits else (*hits, *old.hits)
        has_evaluated = self._watches.pending.has_evaluated
        gone = [hit for hit in old.hits if hit not in hits or not has_evaluated(hit.rule, evaluated=old.evaluated)]
        return [*(hit for hit in hits if hit not in old.hits), *gone]

    def is_behind(self, stream: SelectionStream, key: ObjectKey, record: SourceRecord) -> bool:
        """Return true if a stream is merely late; if all of an object's streams went back, so did their server."""
        self.set_streams(key, record, record.streams | stream.bit)
        self._went_back[key] = self._went_back.get(key, 0) | stream.bit
        return bool(record.streams & ~self._went_back[key])

    def drop_streams(self, key: ObjectKey, record: SourceRecord, bits: int) -> None:
        """Note that the streams of these bits have an object no longer; their bits may mean other streams later."""
        self.set_streams(key, record, record.streams & ~bits)
        if went_back := self._went_back.pop(key, 0) & ~bits:
            self._went_back[key] = went_back

    def lose_missed(self, stream: SelectionStream, missed: Iterable[ObjectKey]) -> dict[Target, None]:
        """Drop the objects that a stream was expected to name, and that its list lacks; return the targets."""
        dropped: dict[Target, None] = {}
        for key in missed:
            record = self.by_key.get(key)
            if record is None:
                continue
            self.drop_streams(key, record, stream.bit)
            if not record.streams:
                dropped.update((hit.target(key), None) for hit in record.hits)
                self._lose_rules(key, record, {*record.unclear, *(hit.rule for hit in record.hits)})
        return dropped

    def lose(self, stream: SelectionStream, key: ObjectKey, obj: PartialObject | None) -> None:
        """Take an object from a stream that no longer has it; drop it if no other stream does."""
        record = self.by_key.get(key)
        if record is None:
            return
        deleted_at = obj.revision if obj is not None else record.revision
        self.drop_streams(key, record, stream.bit)
        if not record.streams:
            self.forget(key, record, deleted_at=deleted_at)

    def drop_hits(self, before: Mapping[str, int]) -> dict[Target, None]:
        """Drop the hits of rules on records that were evaluated before a generation; return their targets."""
        dropped: dict[Target, None] = {}
        for key in list(self._groups.find(lambda group: not before.keys().isdisjoint(group.rules))) if before else ():
            record = self.by_key[key]
            lost = {rule for rule in record.unclear if record.evaluated < before.get(rule, 0)}
            lost.update(hit.rule for hit in record.hits if record.evaluated < before.get(hit.rule, 0))
            if lost:
                dropped.update((hit.target(key), None) for hit in record.hits if hit.rule in lost)
                self._lose_rules(key, record, lost)
        return dropped

    def _lose_rules(self, key: ObjectKey, record: SourceRecord, rules: Collection[str]) -> None:
        gone = tuple(hit for hit in record.hits if hit.rule in rules)
        hits, unclear = self._evaluator.shared(
            tuple(hit for hit in record.hits if hit.rule not in rules), record.unclear.difference(rules)
        )
        self._evaluator.release(key, gone, rules=rules)
        if hits or unclear:
            self._keep(key, replace(record, hits=hits, unclear=unclear), old=record)
            self._relink(key, record.hits, hits)
        else:
            self._remove(key, record)
        if unclear != record.unclear:
            self._observer.on_claims_changed((), self._peer, (self._kind, key))

    def keep_rules(self, key: ObjectKey, record: SourceRecord, rules: Collection[str]) -> None:
        """Keep the hits of these rules alone on an object that no stream has, and report the other targets."""
        if not rules:
            self.forget(key, record)
            return
        gone = [hit for hit in record.hits if hit.rule not in rules]
        self._lose_rules(key, record, {*record.unclear.difference(rules), *(hit.rule for hit in gone)})
        targets = dict.fromkeys(hit.target(key) for hit in gone)
        self._observer.on_claims_changed(targets, self._peer, (self._kind, key))

    def forget(self, key: ObjectKey, record: SourceRecord, *, deleted_at: int = 0) -> None:
        """Drop a record, and report its targets; with the revision of a deletion, that is on record."""
        self._evaluator.release(key, record.hits)
        self._leave(key, record, deleted_at=deleted_at)

    def _leave(self, key: ObjectKey, record: SourceRecord | None, *, deleted_at: int = 0) -> None:
        """Drop the record of an object that no rule matches any more."""
        if record is None:
            if self._size is not None:
                self._size.remove(key)
            return
        self._remove(key, record)
        is_proof = record.membership and not self._watches.has_labels
        targets = dict.fromkeys(hit.target(key) for hit in record.hits)
        for target in targets if deleted_at and is_proof else ():
            self._sources.record_deletion(self._peer, target, deleted_at)
        self._observer.on_claims_changed(targets, self._peer, (self._kind, key))

    def of_streams(self, bits: int) -> list[tuple[ObjectKey, SourceRecord]]:
        """List the records of the objects that one of these streams has."""
        return [(key, self.by_key[key]) for key in self._groups.find(lambda group: bool(group.streams & bits))]

    def set_streams(self, key: ObjectKey, record: SourceRecord, streams: int) -> None:
        """Note which streams have an object."""
        if streams != record.streams:
            before, record.streams = record.group, streams
            self._groups.move(key, before=before, after=record.group)

    def _keep(self, key: ObjectKey, record: SourceRecord, *, old: SourceRecord | None) -> None:
        self.by_key[key] = record
        self._groups.move(key, before=old.group if old is not None else None, after=record.group)

    def _remove(self, key: ObjectKey, record: SourceRecord) -> None:
        del self.by_key[key]
        self._groups.move(key, before=record.group, after=None)
        if self._size is not None:
            self._size.remove(key)
        self._went_back.pop(key, None)
        if self._expected.revisions:
            self._expected.drop_object(key)
        self._sources.bodies.drop(BodyKey(self._peer, self._kind, key))
        self._relink(key, record.hits, ())

    def _relink(self, key: ObjectKey, old: tuple[Hit, ...], new: tuple[Hit, ...]) -> None:
        for hit in (*old, *new):
            if hit.is_moved:
                self._sources.relink((self._peer, self._kind, key), old, new)
                return

    def read_marks(self, obj: PartialObject) -> Marks:
        """Return the marks of an object at the peer."""
        if not obj.annotations:
            return NATIVE
        return remembered(
            read_marks(obj.annotations, of=Target(self._kind.group, self._kind.kind, *obj.key)), peer=self._peer
        )


def _is_made_by_daemon(obj: PartialObject, body: Callable[[], Manifest]) -> bool:
    return _OUR_MANAGER in obj.raw and is_written_by(body(), manager=meta.FIELD_MANAGER)


def decode_lazily(obj: PartialObject) -> Callable[[], Manifest]:
    """Return a function that decodes an object once; it raises InvalidObject for one that cannot be used."""
    held: list[Manifest] = []

    def body() -> Manifest:
        if not held:
            held.append(decode_body(obj))
        return held[0]

    return body
