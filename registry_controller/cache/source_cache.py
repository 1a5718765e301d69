"""One kind at one peer: what it has there, and what the rules make of it.

Laws: of an object we remember marks and numbers, never its body · what a stream no longer has claims nothing · an
incomplete feed proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey, Target
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.member_deletions import MemberDeletions
from registry_controller.cache.peer_objects import PeerObjects, spec_cluster_id
from registry_controller.cache.rule_evaluator import EvaluationUsage, RuleEvaluator
from registry_controller.core.decision.ownership import Marks, is_at_home, is_membership, read_marks, remembered
from registry_controller.core.rules.active import ActiveRule, Hit
from registry_controller.kube.watch import PartialObject
from registry_controller.watch.body_cache import BodyCache, BodyKey, decode_body
from registry_controller.watch.limits import MOST_OWN, SizeMeter
from registry_controller.watch.stream import SelectionStream


@dataclass(slots=True)
class SourceRecord:
    """One object at a peer. `hits` are in the order of the rules' rank.

    `streams` are the bits of the streams that have it, `went_back` of those whose last word was an older one.
    `unclear` names the rules that could not be evaluated on it: whether they want it is not known. `shown` is the
    revision that a copy here showed of it last, when that was a later one.
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
    went_back: int = 0
    shown: int = 0

    def hit_on(self, target: Target, key: ObjectKey) -> Hit | None:
        """Find the rule by which this object becomes that target; the highest ranked, if several do, that may."""
        found = [hit for hit in self.hits if hit.target(key) == target]
        return next((hit for hit in found if hit.barrier is None), found[0] if found else None)


class SourceCacheObserver(Protocol):
    """Who is told what a feed claims."""

    bodies: BodyCache
    deletions: MemberDeletions
    on_change: Callable[[Target, ClusterUID], None]
    on_complete: Callable[[SourceCache], None]
    on_standing: Callable[[SourceCache], None]
    on_back: Callable[[ClusterUID, GVK, ObjectKey], None]
    usage: EvaluationUsage

    def claims_elsewhere(self, target: Target) -> int:
        """Count the objects that claim a target which is not where they are."""

    def relink(self, cache: SourceCache, key: ObjectKey, old: tuple[Hit, ...], new: tuple[Hit, ...]) -> None:
        """Hear by which rules an object claims targets now, and did before."""


class SourceCache:
    """Objects of one kind at one peer, as the rules that read them see them."""

    def __init__(
        self,
        *,
        peer: ClusterUID,
        kind: GVK,
        rules: tuple[ActiveRule, ...],
        sources: SourceCacheObserver,
        tap: PeerObjects | None = None,
    ) -> None:
        self.peer = peer
        self.kind = kind
        self.rules = rules
        self.records: dict[ObjectKey, SourceRecord] = {}
        self._sources = sources
        self._tap = tap
        self._closed = False
        self._asking = RuleEvaluator(
            peer=peer,
            kind=kind,
            rules=rules,
            kept=sources.usage,
            crowd=sources.claims_elsewhere,
            changed=self.on_stream_changed,
        )
        self._scales = SizeMeter(kind) if kind in MOST_OWN else None
        asked = {selection for active in rules for selection in active.selections}
        if tap is not None:
            tap.begin()
            asked.add(EVERYTHING)
        self.streams = {
            selection: SelectionStream(self, selection, 1 << index) for index, selection in enumerate(sorted(asked))
        }

    def is_complete_for(self, rule: str) -> bool:
        """Say whether everything that a rule asks of this peer was heard."""
        return self.has_rule(rule) and all(stream.is_complete for stream in self.streams_of(rule))

    def streams_of(self, rule: str) -> Sequence[SelectionStream]:
        """List what a rule asks of this peer."""
        asking = (active for active in self.rules if active.rule.name == rule)
        return [self.streams[selection] for active in asking for selection in active.selections]

    @property
    def unclear(self) -> Mapping[str, Mapping[ObjectKey, InvalidObject]]:
        """The words on what cannot be evaluated, by rule."""
        return self._asking.unclear

    def has_rule(self, rule: str) -> bool:
        """Say whether a rule reads this feed."""
        return any(active.rule.name == rule for active in self.rules)

    def on_object(self, stream: SelectionStream, obj: PartialObject) -> None:
        """Hear an object's present state on one stream."""
        if self._closed:
            return
        old = self.records.get(obj.key)
        if old is not None and obj.revision < old.revision and self._is_behind(stream, old):
            return
        try:
            self._take(obj, old, stream.bit | (old.streams if old else 0))
        except InvalidObject as error:
            stream.refused(error)

    def reread(self, obj: PartialObject) -> None:
        """Take what was read by name, newer than any stream has it yet; InvalidObject for what cannot be used."""
        old = self.records.get(obj.key)
        if not self._closed and old is not None and obj.revision >= old.revision:
            self._take(obj, old, old.streams)

    def wants(self, target: Target, obj: PartialObject) -> bool:
        """Say whether a rule makes that target of an object; what cannot be evaluated may be wanted."""
        return any(
            isinstance(hit, InvalidObject) or (hit.barrier is None and hit.target(obj.key) == target)
            for _, hit in self._asking.evaluate_all(obj, _lazily(obj))
            if hit is not None
        )

    def _take(self, obj: PartialObject, old: SourceRecord | None, streams: int) -> None:
        body = _lazily(obj)
        if self._tap is not None:
            self._tap.upsert(obj, body)
        marks = remembered(read_marks(obj.annotations, of=Target(self.kind.group, self.kind.kind, *obj.key)))
        membership = is_membership(self.kind, obj.kind_type)
        is_own = is_at_home(marks, peer=self.peer, membership=membership)
        is_cluster = membership and self.kind.group == meta.GROUP
        cluster_id = spec_cluster_id(body()) if is_cluster else None
        if is_own and self._scales is not None:
            self._scales.add(obj)
        hits, unclear = self._asking.evaluate(obj, body, is_own=is_own, before=old.hits if old is not None else ())
        if not hits and not unclear:
            self._leave(obj.key, old)
            return
        record = SourceRecord(
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
            shown=old.shown if old is not None and old.shown > obj.revision else 0,
        )
        self.records[obj.key] = record
        self._sources.bodies.put(BodyKey(self.peer, self.kind, obj.key), obj)
        if old is None or old.hits != hits:
            self._sources.relink(self, obj.key, old.hits if old else (), hits)
        touched = {hit.target(obj.key) for hit in (*hits, *(old.hits if old is not None else ()))}
        for target in sorted(touched) if len(touched) > 1 else touched:
            self._sources.on_change(target, self.peer)
        if old is None or (old.unclear and old.unclear != unclear):
            self._sources.on_back(self.peer, self.kind, obj.key)

    def _is_behind(self, stream: SelectionStream, record: SourceRecord) -> bool:
        """Say whether a stream is merely late; when all of an object's streams went back, so did their server."""
        record.streams |= stream.bit
        record.went_back |= stream.bit
        return bool(record.streams & ~record.went_back)

    def on_delete(self, stream: SelectionStream, key: ObjectKey, obj: PartialObject | None) -> None:
        """Hear that a stream no longer has an object: deleted, or not matching its selection any more."""
        if self._closed:
            return
        if self._tap is not None and stream.selection == EVERYTHING:
            self._tap.remove(key)
        record = self.records.get(key)
        if record is None:
            return
        record.streams &= ~stream.bit
        if not record.streams:
            self._forget(key, record, deleted_at=obj.revision if obj else record.revision)

    def on_stream_synced(self, stream: SelectionStream) -> None:
        """Hear that a stream's list is complete."""
        if self._closed:
            return
        if self._tap is not None and stream.selection == EVERYTHING:
            self._tap.complete()
        self._sources.on_complete(self)
        self.on_stream_changed()

    def on_stream_changed(self) -> None:
        """Say that this feed's standing changed."""
        self._sources.on_standing(self)

    def on_stream_reset(self, stream: SelectionStream) -> None:
        """Hear that a stream is to be listed anew; `_is_behind` tells what an older state means for an object."""
        if self._tap is not None and stream.selection == EVERYTHING and not self._closed:
            self._tap.begin()

    def close(self) -> None:
        """Withdraw all claims of this feed; what a later stream event says is not heard."""
        self._closed = True
        for key, record in list(self.records.items()):
            self._forget(key, record)

    def _forget(self, key: ObjectKey, record: SourceRecord, *, deleted_at: int = 0) -> None:
        self._asking.release(key, record.hits)
        self._leave(key, record, deleted_at=deleted_at)

    def _leave(self, key: ObjectKey, record: SourceRecord | None, *, deleted_at: int = 0) -> None:
        """Remember nothing of an object that no rule asks for any more."""
        if self._scales is not None:
            self._scales.remove(key)
        if record is None:
            return
        del self.records[key]
        self._sources.bodies.drop(BodyKey(self.peer, self.kind, key))
        self._sources.relink(self, key, record.hits, ())
        is_proof = record.membership and not any(stream.selection.labels for stream in self.streams.values())
        for target in dict.fromkeys(hit.target(key) for hit in record.hits):
            if deleted_at and is_proof:
                self._sources.deletions.record(self.peer, target, deleted_at)
            self._sources.on_change(target, self.peer)
        if record.unclear:
            self._sources.on_back(self.peer, self.kind, key)


def _lazily(obj: PartialObject) -> Callable[[], Manifest]:
    held: list[Manifest] = []

    def body() -> Manifest:
        if not held:
            held.append(decode_body(obj.raw, what=str(obj.key)))
        return held[0]

    return body
