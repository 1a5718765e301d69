"""The local cluster: a cache for each kind that rules write, and where the copies of a source are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.cache.copy_record import CopyRecord, RuleAndOwner
from registry_controller.cache.local_cache import CopyObserver, LocalCache
from registry_controller.core.decision.marks import Binding
from registry_controller.watch.body_cache import BodyCache

_Source = tuple[ClusterUID, str, str, ObjectKey]


class Offers(Protocol):
    """The objects that peers offer."""

    def is_offered(self, target: Target, *, owner: ClusterUID, kind: GVK, key: ObjectKey, rule: str) -> bool:
        """Return whether the owner has its own object, from which a rule that may write the target makes it.

        That is a rule of the name `rule`, or any rule where this is empty.
        """

    def first_rule(self, owner: ClusterUID, kind: GVK) -> str:
        """Return the first rule that reads a kind from an owner; empty without one."""


class CopyIndex:
    """The local caches of all kinds. `counts` is the number of copies by rule and owner, `by_owner` that by owner.

    Laws: `awaiting_proof` is current after each change of a copy, and after each change of a claim that is reported ·
    an object whose marks nothing binds counts for no owner, because it is never deleted.
    """

    def __init__(self, *, bodies: BodyCache, observer: CopyObserver, offers: Offers, local: ClusterUID) -> None:
        self._local = local
        self.bodies = bodies
        self.observer = observer
        self._offers = offers
        self._awaiting: dict[Target, None] = {}
        self.counts: Counter[RuleAndOwner] = Counter()
        self.by_owner: Counter[ClusterUID] = Counter()
        self._unnamed: Counter[tuple[ClusterUID, GVK]] = Counter()
        self._moved: dict[_Source, set[Target]] = {}
        self._caches: dict[tuple[str, str], LocalCache] = {}

    def open(self, kind: GVK) -> LocalCache:
        """Return the cache of a kind, in any version; a new one watches nothing yet."""
        cache = self._caches.get((kind.group, kind.kind))
        if cache is None:
            cache = self._caches[kind.group, kind.kind] = LocalCache(kind=kind, selections=(), index=self)
        return cache

    def cache_of(self, group: str, kind: str) -> LocalCache | None:
        """Return the cache of a kind that is watched; None for another."""
        cache = self._caches.get((group, kind))
        return cache if cache is not None and cache.streams else None

    def held(self, group: str, kind: str) -> LocalCache | None:
        """Return the cache of a kind, also of one that is not watched now; None without one."""
        return self._caches.get((group, kind))

    def all_held(self) -> Iterable[LocalCache]:
        """List the caches of all kinds, also of those that are not watched now."""
        return self._caches.values()

    def all_caches(self) -> Iterable[LocalCache]:
        """List the caches of all kinds that are watched."""
        return [cache for cache in self._caches.values() if cache.streams]

    def find(self, target: Target) -> tuple[LocalCache | None, CopyRecord | None]:
        """Find the cache of a target's kind, and the record of the copy or membership object at the target.

        The cache is None while the kind is not watched, and the record is None where no object is known.
        """
        cache = self._caches.get((target.group, target.kind))
        if cache is None or not cache.streams:
            return None, None
        return cache, cache.records.get(ObjectKey(target.namespace, target.name))

    def has(self, target: Target) -> bool:
        """Return true if a copy, or a membership object, is known to be at a target."""
        return self.find(target)[1] is not None

    def count(self, origin: RuleAndOwner) -> int:
        """Return how many copies of a rule and owner are here.

        A copy without provenance counts for the one rule for which its deletion would count.
        """
        rule, owner = origin
        unnamed = self._unnamed.items() if rule else ()
        return self.counts[origin] + sum(
            number for (of, kind), number in unnamed if of == owner and self._offers.first_rule(of, kind) == rule
        )

    def note_source(self, record: CopyRecord) -> None:
        """Note that the owner in the marks of a record was seen to have the source: that binds them."""
        if not record.owner_had_it:
            self._count(record, -1)
            record.owner_had_it = True
            self._count(record, 1)

    def copies_of(self, owner: ClusterUID, kind: GVK, key: ObjectKey) -> Iterable[Target]:
        """List the targets where copies of an owner's object may be: its own place, and those that rules gave it."""
        moved = self._moved.get((owner, kind.group, kind.kind, key), ())
        return [Target(kind.group, kind.kind, *key), *sorted(moved)]

    def has_other(self, target: Target) -> bool:
        """Return true if another copy of the source of the copy at a target is here."""
        _, record = self.find(target)
        if record is None or record.source is None or record.marks.owner is None:
            return False
        return any(other != target and self.has(other) for other in self.copies_of(record.marks.owner, *record.source))

    def source_kind(self, target: Target) -> GVK | None:
        """Return the kind of the source of the copy at a target; None where it is not known."""
        _, record = self.find(target)
        return record.source[0] if record is not None and record.source is not None else None

    def awaiting_proof(self) -> Iterator[tuple[LocalCache, ObjectKey, CopyRecord]]:
        """List the copies that complete lists affect: their owner does not offer their source to their rule."""
        for target in list(self._awaiting):
            cache, record = self.find(target)
            if cache is not None and record is not None:
                yield cache, target.key, record

    def on_claim_changed(self, target: Target) -> None:
        """Note that peers may offer other objects for a target, or none."""
        cache = self._caches.get((target.group, target.kind))
        record = cache.records.get(ObjectKey(target.namespace, target.name)) if cache is not None else None
        if record is not None:
            self._note_proof(target, record)

    def add(self, target: Target, record: CopyRecord, *, is_new: bool) -> None:
        """Count a copy, and index its source if that has another place or kind. Other copies may wait for a new one."""
        self._note_proof(target, record)
        self._count(record, 1)
        if (source := _moved_from(target, record)) is not None:
            self._moved.setdefault(source, set()).add(target)
        if is_new and self._moved:
            self._report_siblings(target, record)

    def discard(self, target: Target, record: CopyRecord) -> None:
        """Count a copy no more."""
        self._awaiting.pop(target, None)
        self._count(record, -1)
        if (source := _moved_from(target, record)) is not None and (found := self._moved.get(source)):
            found.discard(target)
            if not found:
                del self._moved[source]

    def _count(self, record: CopyRecord, number: int) -> None:
        rule, owner = record.origin(self._local)
        self.counts[rule, owner] += number
        self.by_owner[owner] += number
        if not rule and owner and record.source is not None and record.marks.binding is not Binding.UNREADABLE:
            unnamed = owner, record.source[0]
            self._unnamed[unnamed] += number
            if not self._unnamed[unnamed]:
                del self._unnamed[unnamed]

    def _report_siblings(self, target: Target, record: CopyRecord) -> None:
        """Report the other copies of a source of which a copy is here now."""
        owner, source = record.marks.owner, record.source
        if owner is None or source is None or (owner, source[0].group, source[0].kind, source[1]) not in self._moved:
            return
        for other in self.copies_of(owner, *source):
            if other != target and self.has(other):
                self.observer.on_copy_changed(other, owner)

    def _note_proof(self, target: Target, record: CopyRecord) -> None:
        if self._awaits_proof(target, record):
            self._awaiting[target] = None
        else:
            self._awaiting.pop(target, None)

    def _awaits_proof(self, target: Target, record: CopyRecord) -> bool:
        owner, (kind, key) = record.marks.owner, record.source or (GVK(target.group, "", target.kind), target.key)
        if owner is None:
            return False  # it is no copy
        if record.natural not in (None, owner):
            return True
        rule = record.marks.provenance.rule if record.marks.provenance is not None else ""
        return not self._offers.is_offered(target, owner=owner, kind=kind, key=key, rule=rule)


def _moved_from(target: Target, record: CopyRecord) -> _Source | None:
    """Return the source of a copy in another place or of another kind; otherwise None."""
    if record.source is None or record.marks.owner is None:
        return None
    kind, key = record.source
    if (kind.group, kind.kind, *key) == target:
        return None
    return (record.marks.owner, kind.group, kind.kind, key)
