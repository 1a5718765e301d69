"""One kind here: a record of every copy, and the names of native objects.

Law: of a copy that is in sync we remember marks, numbers and digests, never its body.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.selection import Selection
from registry_controller.cache.expectations import Expectations, PendingEvent
from registry_controller.core.decision.ownership import Marks, is_membership, read_birth, read_marks
from registry_controller.kube.watch import PartialObject, decode_manifest
from registry_controller.watch.body_cache import BodyCache, BodyKey
from registry_controller.watch.stream import SelectionStream

HERE = ClusterUID("")
"""The cluster of slots that hold bodies of our own objects."""

RuleAndOwner = tuple[str, ClusterUID]
"""The name of a rule and an owner."""


@dataclass(slots=True)
class CopyRecord:
    """One copy here (or a membership object, marked or not).

    `desired` is the digest of what we last found wanted, `baseline` that of what the server stored for it, and
    `verified` the resourceVersion at which the stored object was that; None and 0 until we have compared. `is_plain`
    says that the stored object is exactly what we sent, so that the next replacement needs nothing carried over.
    `made_from` is what it was made from, for comparing: while that is the same, no body needs to be looked at.
    `losers` are the rules that want it otherwise and are younger. `status_digest` is that of the status that we last
    brought, where a rule asks for it. `birth` is what it was made from, as the Go original wrote it down.
    """

    uid: str
    revision: int
    deleting: bool
    marks: Marks
    birth: tuple[GVK, ObjectKey] | None
    natural: ClusterUID | None
    streams: int
    kind_type: str = ""
    desired: bytes | None = None
    baseline: bytes | None = None
    verified: int = 0
    is_plain: bool = False
    made_from: object = None
    outranked_rules: tuple[str, ...] = ()
    status_digest: bytes | None = None

    @property
    def source(self) -> tuple[GVK, ObjectKey] | None:
        """Tell the kind and key of what it was made from; None for what is no copy."""
        provenance = self.marks.provenance
        return (provenance.source, provenance.key) if provenance is not None else self.birth

    @property
    def origin(self) -> RuleAndOwner:
        """Tell by which rule and from which owner it was made; empty where that is not known."""
        provenance = self.marks.provenance
        return (provenance.rule if provenance is not None else "", self.marks.owner or HERE)


class LocalCacheObserver(Protocol):
    """Who is told what a feed holds."""

    bodies: BodyCache
    on_change: Callable[[Target, ClusterUID], None]
    on_complete: Callable[[LocalCache], None]
    on_standing: Callable[[LocalCache], None]
    on_late: Callable[[GVK], None]

    def note(self, kind: GVK, revision: int | None) -> None:
        """Note the resourceVersion of a copy; None when the server's history went back."""

    def add(self, target: Target, record: CopyRecord) -> None:
        """Hear of a copy."""

    def discard(self, target: Target, record: CopyRecord) -> None:
        """Hear that a copy is none any more, or is another one."""


class LocalCache:
    """Objects of one kind here."""

    def __init__(self, *, kind: GVK, selections: Iterable[Selection], index: LocalCacheObserver) -> None:
        self.kind = kind
        self.records: dict[ObjectKey, CopyRecord] = {}
        self.natives: dict[ObjectKey, int] = {}
        self._echoes = Expectations(self)
        self._index = index
        self._closed = False
        self.streams = {
            selection: SelectionStream(self, selection, 1 << index)
            for index, selection in enumerate(sorted(selections))
        }

    def target(self, key: ObjectKey) -> Target:
        """Name an object of this kind as a target."""
        return Target(self.kind.group, self.kind.kind, key.namespace, key.name)

    def covers(self, namespace: str) -> bool:
        """Say whether a complete stream would show objects of that namespace."""
        return any(
            stream.is_complete and not place.labels and place.namespace in ("", namespace)
            for place, stream in self.streams.items()
        )

    def streams_at(self, places: Collection[Selection]) -> Sequence[SelectionStream]:
        """Choose the streams of some parts of the kind."""
        return [stream for place, stream in self.streams.items() if place in places]

    def may_show(self, key: ObjectKey, *, as_copy: bool) -> bool:
        """Say whether an object is here, or would be once every stream is complete; `as_copy`, if it were a copy."""
        return key in self.records or any(
            place.namespace in ("", key.namespace) and (not place.labels or (as_copy and not stream.is_complete))
            for place, stream in self.streams.items()
        )

    @contextlib.contextmanager
    def writing(self, key: ObjectKey) -> Iterator[None]:
        """Let what streams say of an object wait while we write it.

        Mostly that is our own echo, which is ahead of the answer: with the answer known it says nothing new. A feed
        that was closed meanwhile hears no echo: somebody has to look for what was written.
        """
        try:
            with self._echoes.writing(key):
                yield
        finally:
            if self._closed:
                self._index.on_late(self.kind)

    def on_object(self, stream: SelectionStream, obj: PartialObject) -> None:
        """Hear an object's present state."""
        key = obj.key
        if self._closed or self._echoes.buffers(PendingEvent(stream, key, obj, is_there=True)):
            return
        record = self.records.get(key)
        if record is not None and record.uid == obj.uid and obj.revision <= record.revision:
            record.streams |= stream.bit
            return
        target = self.target(key)
        marks = read_marks(obj.annotations, of=target)
        if not marks.is_copy and not is_membership(self.kind, obj.kind_type):
            self._heard_native(stream, key, record, target)
            return
        self.natives.pop(key, None)
        bits = stream.bit | (record.streams if record else 0)
        is_told = marks.is_copy and marks.provenance is None
        birth = read_birth(obj.annotations, obj.labels, gvk=self.kind, key=key) if is_told else None
        fresh = CopyRecord(obj.uid, obj.revision, obj.deleting, marks, birth, self._natural(obj), bits, obj.kind_type)
        if record is not None and record.uid == obj.uid:
            fresh.desired, fresh.baseline, fresh.verified = record.desired, record.baseline, record.verified
            fresh.made_from, fresh.outranked_rules = record.made_from, record.outranked_rules
            fresh.status_digest = record.status_digest
        self._keep(key, fresh)
        self._index.bodies.put(BodyKey(HERE, self.kind, key), obj)
        self._index.on_change(target, marks.owner or HERE)

    def on_delete(self, stream: SelectionStream, key: ObjectKey, obj: PartialObject | None) -> None:
        """Hear that an object is gone from a stream."""
        if self._closed or self._echoes.buffers(PendingEvent(stream, key, obj, is_there=False)):
            return
        record = self.records.get(key)
        if record is not None:
            if obj is not None and obj.revision < record.revision:
                return
            record.streams &= ~stream.bit
            if not record.streams:
                self._forget(key)
        elif key in self.natives:
            self.natives[key] &= ~stream.bit
            if not self.natives[key]:
                del self.natives[key]
                self._index.on_change(self.target(key), HERE)

    def record_write(
        self, obj: PartialObject, *, marks: Marks, desired: bytes, baseline: bytes, is_plain: bool
    ) -> None:
        """Remember what the server stored for our own write, so that its echo says nothing new.

        Its answer may be late: what a stream has heard since is the truth.
        """
        self._index.note(self.kind, obj.revision)
        if self._closed:
            return
        key = obj.key
        told = self._echoes.pop_expected(obj)
        self._echoes.release(key)
        held = self.records.get(key)
        is_known = bool(told) or (held is not None and held.uid == obj.uid)
        if held is not None and is_known and held.revision > obj.revision:
            held.desired, held.baseline, held.verified = desired, baseline, obj.revision
            return
        # What we write has the owner's label, too.
        streams = [one for one in self.streams.values() if one.selection.namespace in ("", key.namespace)]
        if not is_known and any(stream.revision >= obj.revision for stream in streams):
            return
        bits = held.streams if held else 0
        self._echoes.expect(obj, (one for one in streams if one not in told), had=bits)
        for stream in streams:
            bits |= stream.bit
        self.natives.pop(key, None)
        self._index.bodies.drop(BodyKey(HERE, self.kind, key))
        fresh = CopyRecord(
            obj.uid,
            obj.revision,
            obj.deleting,
            marks,
            None,
            self._natural(obj),
            bits,
            obj.kind_type,
            desired,
            baseline,
            obj.revision,
            is_plain,
        )
        self._keep(key, fresh)
        if held is not None and held.marks.owner != marks.owner:  # who waits for this one to go need not any more
            self._index.on_change(self.target(key), held.marks.owner or HERE)

    def record_status_write(self, obj: PartialObject, *, status_digest: bytes | None) -> None:
        """Remember what the server stored for our own write of a status: nothing else has changed."""
        record = self.records.get(obj.key)
        if record is None or record.uid != obj.uid:
            return
        record.status_digest = status_digest
        if obj.revision > record.revision:
            record.verified = obj.revision if record.verified == record.revision else 0
            record.revision = obj.revision

    def on_stream_synced(self, stream: SelectionStream) -> None:
        """Hear that a stream's list is complete."""
        for key in self._echoes.missed(stream):
            self.on_delete(stream, key, None)
        if not self._closed:
            self._index.on_complete(self)

    def on_stream_changed(self, stream: SelectionStream) -> None:
        """Note that a stream's error changed."""
        self._index.on_standing(self)

    def on_stream_reset(self, stream: SelectionStream) -> None:
        """Hear that this cluster may be in an older state: what was known of it is from another history then."""
        self._echoes.drop_stream(stream)
        self._index.note(self.kind, None)
        for key in [key for key, record in self.records.items() if record.streams & stream.bit]:
            self._forget(key)

    def close(self) -> None:
        """Stop hearing."""
        self._closed = True
        for key, record in self.records.items():
            self._index.bodies.drop(BodyKey(HERE, self.kind, key))
            self._index.discard(self.target(key), record)

    def _heard_native(self, stream: SelectionStream, key: ObjectKey, record: CopyRecord | None, target: Target) -> None:
        if record is not None:
            self._forget(key)
        known = self.natives.get(key)
        self.natives[key] = stream.bit | (known or 0)
        if known is None:
            self._index.on_change(target, HERE)

    def _keep(self, key: ObjectKey, record: CopyRecord) -> None:
        old = self.records.get(key)
        if old is not None:
            self._index.discard(self.target(key), old)
        self._index.add(self.target(key), record)
        self._index.note(self.kind, record.revision)
        self.records[key] = record

    def _forget(self, key: ObjectKey) -> None:
        record = self.records.pop(key)
        self._index.discard(self.target(key), record)
        self._index.bodies.drop(BodyKey(HERE, self.kind, key))
        self._index.on_change(self.target(key), record.marks.owner or HERE)

    def _natural(self, obj: PartialObject) -> ClusterUID | None:
        if not (self.kind.group == meta.GROUP and self.kind.kind == meta.CLUSTER.kind):
            return None
        found = (decode_manifest(obj.raw).get("spec") or {}).get("clusterID")
        return ClusterUID(found) if isinstance(found, str) and found else None
