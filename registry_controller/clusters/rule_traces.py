"""Reads the facts about rules at their owners: whether they are there, events of deletions, and records (W3).

`core.decision.deleted_rule` decides by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from registry_controller.api import meta
from registry_controller.api.deleted_rules import DeletedRule
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.api.provenance import Provenance
from registry_controller.cache.crds import Definition, DefinitionRead
from registry_controller.cache.registry import Registry
from registry_controller.cache.rule_events import RuleDeletion, RuleEvents
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.peer import Peer
from registry_controller.core.decision.deleted_rule import RuleTraces, SeenDeletion, StoredAs
from registry_controller.core.decision.marks import is_at_home


class RuleID(NamedTuple):
    """A rule at its owner. `uid` is empty where a provenance of an earlier version names it.

    `definition` is the UID of the definition of rules with which it was here, as a copy of its names it.
    """

    owner: ClusterUID
    name: str
    uid: str = ""
    definition: str = ""


class HasDefinition(Protocol):
    """The local definition of rules, as the watch shows it, and as the last quorum read showed it."""

    @property
    def of_rules(self) -> Definition | None: ...

    @property
    def read(self) -> DefinitionRead: ...


class RuleTraceReader:
    """Reads from the caches the facts about rules at their owners.

    `definitions` and `peers` are set before the first question. A deletion or a record of another cluster counts once
    it is `window_s` seconds old, on the clock `now_s`.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        sources: SourceIndex,
        local: ClusterUID,
        window_s: float,
        now_s: Callable[[], float],
    ) -> None:
        self.definitions: HasDefinition | None = None
        self.peers: Mapping[ClusterUID, Peer] = {}
        self._registry = registry
        self._sources = sources
        self._local = local
        self._window_s = window_s
        self._now_s = now_s

    def read(self, rule: RuleID, *, is_allowed: bool) -> RuleTraces:
        """Return the facts about a rule at its owner; `is_allowed` is one of them."""
        now_s, is_local = self._now_s(), rule.owner == self._local
        definition = self._find_definition(since_s=-math.inf) if is_local else None
        lasts = definition is not None and self._find_definition(since_s=self._registry.rules_went_s) is not None
        was_in_it = definition is not None and (not rule.uid or definition.uid == rule.definition)
        return RuleTraces(
            uid=rule.uid,
            is_local=is_local,
            is_heard=self._registry.shows_missing_rules and (is_local or self._is_listed(rule.owner)),
            stored=self._find_local(rule) if is_local else self._find_at_peer(rule),
            seen=[
                SeenDeletion(one.uid, one.revision, now_s - one.at_s if self.is_confirmed(rule.owner, one) else 0.0)
                for one in self._deletions_of(rule)
            ],
            recorded=frozenset(record.uid for record in self.stable_records(rule.owner) if record.name == rule.name),
            is_allowed=is_allowed,
            defined_since=definition.revision if definition is not None else None,
            was_in_definition=lasts and was_in_it,
        )

    def read_event(self, deletion: RuleDeletion) -> RuleTraces:
        """Return the facts about a rule of this cluster that the event of its deletion shows, and nothing else."""
        definition = self._find_definition(since_s=deletion.at_s)
        if definition is None:
            return RuleTraces(uid=deletion.uid, is_local=True, is_heard=False)
        seen = SeenDeletion(deletion.uid, deletion.revision, self._now_s() - deletion.at_s)
        return RuleTraces(
            uid=deletion.uid, is_local=True, is_heard=False, seen=(seen,), defined_since=definition.revision
        )

    def spec_at_owner(self, provenance: Provenance) -> str:
        """Return the digest of the spec that the owner of a rule's copy showed last of the rule; empty if unknown."""
        events = self._events_of(provenance.owner)
        uid, spec = events.specs.get(provenance.key.name, ("", "")) if events is not None else ("", "")
        return spec if uid == provenance.uid else ""

    @property
    def due_s(self) -> float | None:
        """When the next deletion was a stabilization window ago; None without any that is more recent."""
        now_s = self._now_s()
        events_s = [deletion.at_s for _, deletion in self.list_events()]
        records_s = [at_s for peer in self.peers.values() for at_s in peer.features.deleted_rules.values()]
        stable_s = (at_s + self._window_s for at_s in (*events_s, *records_s))
        return min((at_s for at_s in stable_s if at_s > now_s), default=None)

    def list_events(self) -> Iterator[tuple[tuple[ClusterUID, str], RuleDeletion]]:
        """List the deletions that watches showed, each with the owner and the name of its rule."""
        for deletion in self._registry.deletions:
            if self._find_definition(since_s=deletion.at_s) is not None:
                yield (self._local, deletion.name), deletion
        for owner in self.peers:
            for deletion in self._events_of(owner) or ():
                yield (owner, deletion.name), deletion

    def _deletions_of(self, rule: RuleID) -> Iterable[RuleDeletion]:
        """Return the deletions of rules of this name that a watch showed; here, those that no definition caused."""
        found = self.list_deletions(rule.owner, rule.name)
        if rule.owner != self._local:
            return found
        return [one for one in found if self._find_definition(since_s=one.at_s) is not None]

    def list_deletions(self, owner: ClusterUID, name: str) -> Iterable[RuleDeletion]:
        """Return the deletions of an owner's rules of a name that a watch showed."""
        events = self._events_of(owner)
        return events.of(name).values() if events is not None else ()

    def _events_of(self, owner: ClusterUID) -> RuleEvents | None:
        if owner == self._local:
            return self._registry.deletions
        cache = self._rules_of(owner)
        return cache.rule_events if cache is not None else None

    def is_confirmed(self, owner: ClusterUID, deletion: RuleDeletion) -> bool:
        """Return whether the definition of rules was seen at a peer after a deletion; here `definitions` shows it."""
        events = self._events_of(owner)
        return owner == self._local or (events is not None and events.is_confirmed(deletion))

    def _rules_of(self, owner: ClusterUID) -> SourceCache | None:
        return self._sources.cache_of(owner, meta.RULE)

    def _find_definition(self, *, since_s: float) -> Definition | None:
        """Return the definition of rules here; None unless a read that began then or later showed that it is there."""
        found = self.definitions.of_rules if self.definitions is not None else None
        if self.definitions is None or found is None or found.deleting:
            return None
        read = self.definitions.read
        return found if read.uid == found.uid and read.began_s >= since_s else None

    def _find_local(self, rule: RuleID) -> StoredAs:
        """Return which rule acts here under a rule's name."""
        stored = self._registry.acting.get(rule.name)
        if stored is None:
            return StoredAs.NONE
        return StoredAs.ANOTHER if stored.is_foreign(rule.owner, local=self._local) else StoredAs.ITSELF

    def _find_at_peer(self, rule: RuleID) -> StoredAs:
        cache = self._rules_of(rule.owner)
        record = cache.records.get(ObjectKey("", rule.name)) if cache is not None else None
        if record is None:
            return StoredAs.NONE
        if not is_at_home(record.marks, peer=rule.owner, membership=False):
            return StoredAs.ANOTHER
        # A copy that acts here stays in sync under any annotation.
        is_copied = not record.marks.sync_disabled or self._find_local(rule) is StoredAs.ITSELF
        return StoredAs.ITSELF if is_copied else StoredAs.NOT_COPIED

    def _is_listed(self, owner: ClusterUID) -> bool:
        """Return whether an owner answers, and its list of rules is complete."""
        peer, cache = self.peers.get(owner), self._rules_of(owner)
        if peer is None or not peer.is_alive or cache is None or not cache.is_synced:
            return False
        # A watch fails, as while the definition of rules is missing there.
        return all(stream.error is None for stream in cache.streams.values())

    def list_records(self, owner: ClusterUID) -> Iterable[DeletedRule]:
        """Return the rules in an owner's record."""
        if owner == self._local:
            return self._registry.deleted_rules
        peer = self.peers.get(owner)
        return peer.features.deleted_rules if peer is not None else ()

    def stable_records(self, owner: ClusterUID) -> frozenset[DeletedRule]:
        """Return the rules in an owner's record; of another cluster, those that are there for the window."""
        peer, before_s = self.peers.get(owner), self._now_s() - self._window_s
        since_s = peer.features.deleted_rules if peer is not None and owner != self._local else {}
        return frozenset(rule for rule in self.list_records(owner) if since_s.get(rule, before_s) <= before_s)
