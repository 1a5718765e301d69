"""One kind in the local cluster: a record of every copy, and the names of native objects.

The cache outlives the rules that write the kind: the places that are watched come and go in it.

Laws: of a copy in sync, the record keeps marks, numbers and digests, never the body · a record is changed by events
and by `record_write`, and by nothing else · a complete list replaces all older knowledge, object by object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from registry_controller.api import meta
from registry_controller.api.errors import NotServed
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.selection import Selection
from registry_controller.cache.copy_record import HERE, CopyGroup, CopyRecord
from registry_controller.cache.expectations import Expectations, PendingEvent
from registry_controller.cache.key_groups import KeyGroups
from registry_controller.cache.write_results import (
    Deleted,
    Doubted,
    InSync,
    Rendered,
    StatusStored,
    Stored,
    Unchanged,
    WriteResult,
)
from registry_controller.core.decision.marks import is_membership, read_birth, read_marks
from registry_controller.kube.object import PartialObject, decode_manifest, has_written
from registry_controller.watch.body_cache import BodyCache, BodyKey
from registry_controller.watch.stream import SelectionStream


class PlaceChange(NamedTuple):
    """The places whose watches begin and end."""

    opened: tuple[Selection, ...] = ()
    closed: tuple[Selection, ...] = ()


class CopyObserver(Protocol):
    """Receives the changes of the objects in the local cluster. A call is cheap and never fails."""

    def on_copy_changed(self, target: Target, owner: ClusterUID) -> None:
        """An object that rules may write changed; `owner` is that of the copy, empty for a native object."""

    def on_copy_made(self, target: Target) -> None:
        """Another client made a copy here; it is known by now."""

    def on_copy_gone(self, target: Target) -> None:
        """A copy is deleted here; it is forgotten after this call."""

    def on_local_synced(self, cache: LocalCache, place: Selection) -> None:
        """All objects in a place are known now, for the first time."""

    def on_local_uncertain(self, cache: LocalCache) -> None:
        """A list of a kind begins, or is due: objects that it lacks, and rules, may be lost with a restored etcd."""

    def on_local_status_changed(self, cache: LocalCache) -> None:
        """An error, a list or a write changed the state of a kind as a whole."""


class LocalCacheIndex(Protocol):
    """The index of all local caches: how many copies each rule and owner has."""

    bodies: BodyCache
    observer: CopyObserver

    def add(self, target: Target, record: CopyRecord, *, is_new: bool) -> None:
        """Count a copy; report the other copies of its source if it is new: they may wait for it."""

    def discard(self, target: Target, record: CopyRecord) -> None:
        """Count a copy no more: it is gone, or is another one."""


class LocalCache:
    """Objects of one kind in the local cluster. `natives` maps native objects to the bits of their streams.

    `namespaces` counts the records of each namespace. `shown` are the namespaces of which a complete stream shows all
    objects; the empty one stands for all. `writing` buffers the events of an object while we write it.
    `has_unseen_writes` is true after a write in a place that is not watched any more: no watch shows its event.
    `doubts` counts the lists since which the rules are still to be read again.
    """

    def __init__(self, *, kind: GVK, selections: Iterable[Selection], index: LocalCacheIndex) -> None:
        self.kind = kind
        self.records: dict[ObjectKey, CopyRecord] = {}
        self.natives: dict[ObjectKey, int] = {}
        self.namespaces: Counter[str] = Counter()
        self.streams: dict[Selection, SelectionStream] = {}
        self.has_unseen_writes = False
        self.doubts = 0
        self._deleted: set[ObjectKey] = set()
        """The copies whose deletion was answered, and which no event has shown to be gone yet."""
        self._has_unwatched = False
        self.shown: frozenset[str] = frozenset()
        self._expectations = Expectations(self, on_written=self._on_written)
        self.writing = self._expectations.writing
        self._groups = KeyGroups(self.records, group_of=self._group_of)
        self._index = index
        self.set_places(selections)

    def set_places(self, places: Iterable[Selection], *, kind: GVK | None = None) -> PlaceChange:
        """Watch these places from now on, and the kind in this version; return what that changes.

        Records stay while a remaining place covers them, and go with the last one.
        """
        wanted, before, is_same_version = set(places), self.streams, kind in (None, self.kind)
        self.streams = {place: one for place, one in before.items() if place in wanted and is_same_version}
        going = [stream for place, stream in before.items() if place not in self.streams]
        opened = sorted(wanted - self.streams.keys())
        used = sum(stream.bit for stream in before.values())
        for place in opened:
            bit = next(1 << shift for shift in range(used.bit_length() + 1) if not used & 1 << shift)
            self.streams[place] = SelectionStream(self, place, bit)
            used |= bit
        if kind is not None and not is_same_version:
            self._change_version(kind)
        if going or self._has_unwatched:
            self._hand_over(going)
        self._update_shown()
        return PlaceChange(tuple(opened), tuple(sorted(stream.selection for stream in going)))

    @property
    def misses_deletion(self) -> bool:
        """True while no event has shown a deletion that was answered."""
        return bool(self._deleted)

    @property
    def is_served(self) -> bool:
        """False while the API server does not serve the kind: its records may be of objects that are gone."""
        return not any(isinstance(stream.error, NotServed) for stream in self.streams.values())

    @property
    def newest(self) -> int:
        """Return the highest revision of the known copies; 0 without any."""
        return max((record.revision for record in self.records.values()), default=0)

    def target(self, key: ObjectKey) -> Target:
        """Return an object of this kind as a target."""
        return Target(self.kind.group, self.kind.kind, key.namespace, key.name)

    def list_samples(self, is_wanted: Callable[[CopyGroup], bool]) -> Iterator[ObjectKey]:
        """List one key of each group of objects that is wanted."""
        return self._groups.list_samples(is_wanted)

    def find(self, is_wanted: Callable[[CopyGroup], bool]) -> Iterator[ObjectKey]:
        """Find the keys of the records whose group is wanted; the records must not change meanwhile."""
        return self._groups.find(is_wanted)

    def streams_at(self, places: Collection[Selection]) -> Sequence[SelectionStream]:
        """List the streams of some places."""
        return [stream for place, stream in self.streams.items() if place in places]

    def may_show(self, key: ObjectKey, *, as_copy: bool) -> bool:
        """Return true if an object is known, or will be once every stream is complete; `as_copy`, if it is a copy."""
        return key in self.records or any(
            place.namespace in ("", key.namespace) and (not place.labels or (as_copy and not stream.is_complete))
            for place, stream in self.streams.items()
        )

    def on_object(self, stream: SelectionStream, obj: PartialObject) -> None:
        """Take an object's present state."""
        key = obj.key
        if not self._has(stream):
            return
        if stream.outdated is not None and (known := self.records.get(key)) and obj.revision < known.revision:
            stream.outdated[key] = obj
        if not self._expectations.buffers(PendingEvent(stream, key, obj, is_there=True)):
            self._take(stream, obj)

    def _take(self, stream: SelectionStream, obj: PartialObject) -> None:
        key = obj.key
        record = self.records.get(key)
        is_known = record is not None and record.uid == obj.uid and obj.revision <= record.revision
        is_news = record is None or not is_known or key in self._deleted
        if record is not None and not is_news and not stream.doubted_after < obj.revision == record.revision:
            record.streams |= stream.bit
            return
        target = self.target(key)
        marks = read_marks(obj.annotations, of=target)
        if not marks.is_copy and not is_membership(self.kind, obj.kind_type):
            self._keep_native(stream, key, record, target)
            return
        self.natives.pop(key, None)
        bits = stream.bit | (record.streams if record else 0)
        is_by_go = marks.is_copy and marks.provenance is None
        birth = read_birth(obj.annotations, obj.labels, gvk=self.kind, key=key) if is_by_go else None
        fresh = CopyRecord(obj.uid, obj.revision, obj.deleting, marks, birth, self._natural(obj), bits, obj.kind_type)
        if marks.provenance is not None and marks.provenance.rule_definition:
            fresh.shows_rule = has_written(meta.FIELD_MANAGER, meta.PROVENANCE, of=obj)
        if record is not None and record.uid == obj.uid:
            fresh.desired, fresh.baseline = record.desired, record.baseline
            fresh.verified = 0 if is_known else record.verified
            fresh.made_from, fresh.outranked_rules = record.made_from, record.outranked_rules
            fresh.status_digest, fresh.owner_had_it = record.status_digest, record.owner_had_it
            fresh.status_baseline, fresh.status_lost = record.status_baseline, record.status_lost
            fresh.remainder = record.remainder
        self._keep(key, fresh)
        if record is None and stream.listed >= 0:
            self._index.observer.on_copy_made(target)
        self._index.bodies.put(BodyKey(HERE, self.kind, key), obj)
        self._index.observer.on_copy_changed(target, marks.owner or HERE)

    def on_delete(self, stream: SelectionStream, key: ObjectKey, obj: PartialObject | None) -> None:
        """Take an object that a stream no longer has."""
        if not self._has(stream) or self._expectations.buffers(PendingEvent(stream, key, obj, is_there=False)):
            return
        record = self.records.get(key)
        if record is not None:
            if obj is not None and obj.revision < record.revision:
                return
            if record.streams == stream.bit:
                self._index.observer.on_copy_gone(self.target(key))
            record.streams &= ~stream.bit
            if not record.streams:
                self._forget(key)
        elif key in self.natives:
            self.natives[key] &= ~stream.bit
            if not self.natives[key]:
                del self.natives[key]
                self._index.observer.on_copy_changed(self.target(key), HERE)

    def record_write(self, key: ObjectKey, result: WriteResult) -> None:
        """Record the result of a write or a comparison; a later event wins."""
        record = self.records.get(key)
        match result:
            case Stored():
                self._record_stored(key, result)
            case InSync() if record is not None and record.uid == result.uid:
                record.desired, record.baseline = result.desired, result.baseline
                record.verified, record.is_plain = result.revision, result.is_plain
                record.remainder = result.remainder
            case Unchanged() if record is not None:
                record.verified = record.revision
            case StatusStored() if record is not None:
                record.record_status(result)
                if result.obj is not None:
                    self._note_write(result.obj)
            case Deleted() if record is not None and record.streams and record.uid == result.uid:
                self._deleted.add(key)
            case Doubted() if record is not None:
                record.desired = record.made_from = record.status_digest = None
                record.verified = 0
            case Rendered() if record is not None:
                record.made_from, record.outranked_rules = result.made_from, result.outranked_rules
            case _:
                return
        record = self.records.get(key)
        if record is not None and record.verified == record.revision:
            self._index.bodies.drop(BodyKey(HERE, self.kind, key))

    def on_stream_listing(self, stream: SelectionStream) -> None:
        """Note that a list begins: this cluster may be in an older state, without rules that are known.

        The first list of a place beside a complete one does not count: the other place is listed again then.
        """
        if stream.listed >= 0 or not any(other.is_complete for other in self.streams.values()):
            self._index.observer.on_local_uncertain(self)

    def on_stream_listed(self, stream: SelectionStream) -> None:
        """Do nothing: the limit on deletions does not concern the local history."""

    def on_stream_synced(self, stream: SelectionStream) -> None:
        """Note that a stream's list is complete."""
        for key in self._expectations.missed(stream):
            self.on_delete(stream, key, None)
        if not self._has(stream):
            return
        for key, obj in (stream.outdated or {}).items():
            self._take_back(stream, key, obj)
        place, is_first, stream.listed = stream.selection, stream.listed < 0, 0
        was_shown = not self.shown.isdisjoint(("", place.namespace))
        self._update_shown()
        if is_first and not place.labels and not was_shown:
            self._index.observer.on_local_synced(self, place)
        self._index.observer.on_local_status_changed(self)

    def on_stream_changed(self, stream: SelectionStream) -> None:
        """Note that a stream's error changed."""
        self._index.observer.on_local_status_changed(self)

    def on_stream_interrupted(self, stream: SelectionStream) -> None:
        """Note that this cluster may be in an older state when it answers again, without rules that are known."""
        if self._has(stream) and stream.is_complete:
            self._index.observer.on_local_uncertain(self)

    def on_stream_reset(self, stream: SelectionStream) -> None:
        """Note that this cluster may be in an older state: its known objects may be from another history then."""
        if not self._has(stream):
            return
        self._index.observer.on_local_uncertain(self)
        stream.listed = -1
        self._update_shown()
        self._expectations.drop_stream(stream)
        for key, record in [(key, record) for key, record in self.records.items() if record.streams & stream.bit]:
            record.streams &= ~stream.bit
            if not record.streams:
                self._forget(key)

    def _take_back(self, stream: SelectionStream, key: ObjectKey, obj: PartialObject) -> None:
        """Take the older state of a complete list, where the list is late enough to have the state that is known.

        The history with that state is gone, as after the restore of an etcd. A state since the list was requested has
        a later revision than the list, and than all that was known before.
        """
        record = self.records.get(key)
        if record is not None and record.revision > max(stream.listed_at, stream.known_before):
            return
        if record is not None:
            self.records[key] = replace(
                record, revision=0, desired=None, baseline=None, verified=0, made_from=None, status_digest=None
            )
        self._take(stream, obj)

    def _record_stored(self, key: ObjectKey, stored: Stored) -> None:
        """Record our own write, so that its event is no news. The answer may be late: events since then are newer."""
        obj = stored.obj
        self._note_write(obj)
        told = self._expectations.pop_expected(obj)
        self._expectations.release(key)
        held = self.records.get(key)
        is_known = bool(told) or (held is not None and held.uid == obj.uid)
        if held is not None and is_known and held.revision > obj.revision:
            held.desired, held.baseline, held.verified = stored.desired, stored.baseline, obj.revision
            held.remainder = stored.remainder
            return
        streams = self._streams_for(key)
        if not is_known and any(stream.revision >= obj.revision for stream in streams):
            return
        bits = held.streams if held else 0
        self._expectations.expect(obj, (one for one in streams if one not in told), had=bits)
        for stream in streams:
            bits |= stream.bit
        self._has_unwatched = self._has_unwatched or not bits
        self.natives.pop(key, None)
        fresh = CopyRecord(
            obj.uid,
            obj.revision,
            obj.deleting,
            stored.marks,
            None,
            self._natural(obj),
            bits,
            obj.kind_type,
            stored.desired,
            stored.baseline,
            obj.revision,
            stored.is_plain,
            remainder=stored.remainder,
        )
        self._keep(key, fresh)
        if held is not None and held.marks.owner != stored.marks.owner:  # what waits for this one to go need not wait
            self._index.observer.on_copy_changed(self.target(key), held.marks.owner or HERE)

    def _note_write(self, obj: PartialObject) -> None:
        for stream in self._streams_for(obj.key):
            stream.note_write(obj)

    def _on_written(self, key: ObjectKey) -> None:
        """Note that a write is over; no watch may show it."""
        if not self._streams_for(key):
            self.has_unseen_writes = True
            self._index.observer.on_local_status_changed(self)

    def _update_shown(self) -> None:
        whole = (stream.selection for stream in self.streams.values() if stream.is_complete)
        self.shown = frozenset(place.namespace for place in whole if not place.labels)

    def _has(self, stream: SelectionStream) -> bool:
        return self.streams.get(stream.selection) is stream

    def _streams_for(self, key: ObjectKey) -> Sequence[SelectionStream]:
        """List the streams that show a copy of ours: it has the owner's label, too."""
        return [one for one in self.streams.values() if one.selection.namespace in ("", key.namespace)]

    def _change_version(self, kind: GVK) -> None:
        """Read the kind in another version from now on: digests of the other one compare with nothing."""
        for key, record in self.records.items():
            self._index.bodies.drop(BodyKey(HERE, self.kind, key))
            self.records[key] = replace(
                record, desired=None, baseline=None, verified=0, is_plain=False, made_from=None, status_digest=None
            )
        self.kind = kind

    def _hand_over(self, going: Collection[SelectionStream]) -> None:
        """Move the objects of these streams to the remaining ones; drop those that none covers, without a report.

        One that a remaining stream would have named is gone, as after the restore of a backup.
        """
        self._has_unwatched = False
        bits = sum(stream.bit for stream in going)
        for stream in going:
            self._expectations.drop_stream(stream)
        for key, record in list(self.records.items()):
            record.streams &= ~bits
            if record.streams:
                continue
            heirs = [heir for heir in self._streams_for(key) if record.marks.is_copy or not heir.selection.labels]
            for heir in heirs:
                if not (heir.is_complete and heir.covers(record.revision)):
                    record.streams |= heir.bit
                    self._expectations.objects.expect(heir, key, record.revision)
            if not record.streams and heirs:
                self._forget(key)
            elif not record.streams:
                self._drop(key)
        self.natives = {key: held & ~bits for key, held in self.natives.items() if held & ~bits}

    def _keep_native(self, stream: SelectionStream, key: ObjectKey, record: CopyRecord | None, target: Target) -> None:
        if record is not None:
            self._forget(key)
        known = self.natives.get(key)
        self.natives[key] = stream.bit | (known or 0)
        if known is None:
            self._index.observer.on_copy_changed(target, HERE)

    def _keep(self, key: ObjectKey, record: CopyRecord) -> None:
        old = self.records.get(key)
        if old is not None:
            self._index.discard(self.target(key), old)
        else:
            self.namespaces[key.namespace] += 1
        self._deleted.discard(key)
        is_new = old is None or record.stands_for != old.stands_for
        self._index.add(self.target(key), record, is_new=is_new)
        self.records[key] = record
        before = self._group_of(old) if old is not None else None
        self._groups.move(key, before=before, after=self._group_of(record))

    def _group_of(self, record: CopyRecord) -> CopyGroup:
        return record.group(self.kind)

    def _forget(self, key: ObjectKey) -> None:
        record = self._drop(key)
        self._index.observer.on_copy_changed(self.target(key), record.marks.owner or HERE)

    def _drop(self, key: ObjectKey) -> CopyRecord:
        record = self.records.pop(key)
        self._deleted.discard(key)
        self.namespaces[key.namespace] -= 1
        if not self.namespaces[key.namespace]:
            del self.namespaces[key.namespace]
        self._groups.move(key, before=self._group_of(record), after=None)
        self._index.discard(self.target(key), record)
        self._index.bodies.drop(BodyKey(HERE, self.kind, key))
        return record

    def _natural(self, obj: PartialObject) -> ClusterUID | None:
        if not (self.kind.group == meta.GROUP and self.kind.kind == meta.CLUSTER.kind):
            return None
        found = (decode_manifest(obj.raw).get("spec") or {}).get("clusterID")
        return ClusterUID(found) if isinstance(found, str) and found else None
