"""Finds out which rules their owners deleted, and which are missing there without a trace (W3).

`rule_traces` has the facts; `core.decision.deleted_rule` decides.

Law: the deletion of a copy of a rule does not delete the rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime

from registry_controller.api import meta, names
from registry_controller.api.deleted_rules import DeletedRule
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.api.provenance import Provenance
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.copy_record import CopyGroup
from registry_controller.cache.registry import Registry
from registry_controller.cache.source_index import SourceIndex
from registry_controller.cache.stored_objects import StoredRule
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.rule_traces import RuleID, RuleTraceReader
from registry_controller.core.decision.days import is_day_agreed
from registry_controller.core.decision.deleted_rule import (
    RuleTraces,
    deletes_copies,
    evaluate_traces,
    is_to_record,
)
from registry_controller.core.decision.deletion_record import KnownDeletions, choose_record, note_deletions
from registry_controller.core.decision.marks import is_at_home
from registry_controller.core.decision.missing_rules import MissingRules
from registry_controller.core.decision.rule_state import RulePresence
from registry_controller.core.status.cluster import read_rules_missing
from registry_controller.core.status.missing_rules import RulesMissing


class RuleDeletions:
    """Evaluates rules that are not here.

    `missing` has, by owner, the rules that are missing there without a trace.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        sources: SourceIndex,
        copies: CopyIndex,
        local: ClusterUID,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        window_s: float = 0.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.missing: Mapping[ClusterUID, MissingRules] = {}
        self.traces = RuleTraceReader(registry=registry, sources=sources, local=local, window_s=window_s, now_s=now_s)
        self._registry = registry
        self._sources = sources
        self._copies = copies
        self._local = local
        self._peers: Mapping[ClusterUID, Peer] = {}
        self._shown_by_copies: set[RuleID] = set()
        self._deletions = KnownDeletions()
        self._now = now
        self._recovered: set[ClusterUID] = set()
        """The owners whose missing rules are known since the start: the report of an earlier process is older."""
        self._window_s = window_s
        self._now_s = now_s

    def update(self, peers: Mapping[ClusterUID, Peer]) -> None:
        """Evaluate the rules of all copies here again, with these peers."""
        self.traces.peers = self._peers = peers
        found: dict[ClusterUID, set[str]] = {}
        self._shown_by_copies = set()
        for rule, is_missed in self._list_absent():
            traces = self._read(rule)
            presence, was_deleted = evaluate_traces(traces, window_s=self._window_s)
            if is_to_record(traces):
                self._shown_by_copies.add(rule)
            elif is_missed and self._is_missing(rule, presence) and (not was_deleted or traces.is_allowed):
                found.setdefault(rule.owner, set()).add(rule.name)
        now = self._now()
        self.missing = {owner: self._known(owner).with_rules(rules, now=now) for owner, rules in found.items()}
        self._recovered |= found.keys()

    def _is_missing(self, rule: RuleID, presence: RulePresence) -> bool:
        """Return whether a rule is missing; one that was stays so while its owner is silent."""
        was_missing = presence is RulePresence.UNKNOWN and rule.name in self._known(rule.owner).since
        return presence is RulePresence.MISSING or was_missing

    def keeps_name(self, name: str) -> bool:
        """Return whether a rule of this cluster is here, or may be created again: it went a moment ago, or is missing.

        After a start it may be any rule, where the own Cluster reports that some are missing.
        """
        stored = self._registry.acting.get(name)
        if stored is not None:
            return not stored.is_synced(self._local) and name not in self._registry.left_to_heirs
        if self._registry.shows_missing_rules:
            return name in self.missing_here
        own = self._registry.clusters_of(self._local)
        return any(read_rules_missing(stored.manifest.get("status")).since for stored in own)

    def has_heir(self, name: str) -> bool:
        """Return whether a member offers a rule of its own under the name of one that was deleted here."""
        stored = self._registry.acting.get(name)
        if stored is None or not any(_is_of(stored, record) for record in self._registry.deleted_rules):
            return False
        offers = self._sources.claiming(Target(*meta.RULE_KIND, "", name))
        return any(
            is_at_home(offer.record.marks, peer=offer.cache.peer, membership=False)
            and not offer.record.marks.sync_disabled
            for offer in offers
        )

    @property
    def kept(self) -> Mapping[str, str]:
        """The rules of this cluster that went: whether they keep their names, by name."""
        return {**dict.fromkeys(self.missing_here, "missing"), **dict.fromkeys(self._registry.left_to_heirs, "left")}

    @property
    def missing_here(self) -> frozenset[str]:
        """The names of rules of this cluster that are missing here without a trace."""
        own = self.missing.get(self._local)
        return frozenset(own.waiting) if own is not None else frozenset()

    def is_shown_by(self, provenance: Provenance) -> bool:
        """Return whether a copy may show that its rule, which is not here, was deleted here, and is not recorded."""
        definitions, uid = self.traces.definitions, provenance.rule_uid
        definition = definitions.of_rules if definitions is not None else None
        if provenance.rule_owner != self._local or provenance.rule in names.CORE_RULES:
            return False
        if not uid or not provenance.rule_definition:
            return False
        if definition is not None and definition.uid != provenance.rule_definition:
            return False
        return uid not in self._deletions.uids and all(uid != rule.uid for rule in self._registry.deleted_rules)

    def _list_absent(self) -> Iterator[tuple[RuleID, bool]]:
        """List the rules that do not act here, by which copies here were made, and those that are copies here.

        With each comes whether it may be missing. A copy that stays without its rule shows at most that the rule was
        deleted here.
        """
        acting = self._registry.acting
        for cache in self._copies.all_caches():
            for key in cache.list_samples(self._lacks_rule):
                record = cache.records[key]
                provenance = record.marks.provenance
                if provenance is None:
                    continue
                shows_rule = record.shows_rule and self.is_shown_by(provenance)
                if (is_missed := provenance.policy == "Delete") or shows_rule:
                    rule = _made_by(provenance)
                    yield (rule if record.shows_rule else rule._replace(definition="")), is_missed
        for stored in acting.values():
            provenance = stored.marks.provenance
            if provenance is not None:
                yield RuleID(provenance.owner, provenance.key.name, provenance.uid), True

    def _lacks_rule(self, group: CopyGroup) -> bool:
        """Return whether the rule that made the copies of a group does not act here, or one of another cluster does."""
        if group.rule is None:
            return False
        stored = self._registry.acting.get(group.rule)
        return stored is None or stored.is_foreign(group.rule_owner or ClusterUID(""), local=self._local)

    def _known(self, owner: ClusterUID) -> MissingRules:
        """Return the rules of an owner that were missing before, with the allowance of now.

        They are those that its Cluster here reports, where nothing else is known yet.
        """
        clusters = self._registry.clusters_of(owner)
        found = self.missing.get(owner, MissingRules({}))
        if owner not in self._recovered:
            reported = (read_rules_missing(stored.manifest.get("status")) for stored in clusters)
            shown = next((one for one in reported if one.since), RulesMissing())
            found = MissingRules(shown.since, shown.allowed)
        named = (meta.annotations_of(stored.manifest).get(meta.ALLOW_DELETIONS, "") for stored in clusters)
        return found.with_allowance(frozenset(named))

    def _read(self, rule: RuleID) -> RuleTraces:
        return self.traces.read(rule, is_allowed=self._known(rule.owner).allows(rule.name))

    def evaluate(self, rule: RuleID) -> tuple[RulePresence, bool]:
        """Return whether a rule is at its owner, and whether anything shows that it was deleted there."""
        return evaluate_traces(self._read(rule), window_s=self._window_s)

    def evaluate_rule_of(self, provenance: Provenance) -> tuple[RulePresence, bool]:
        """Evaluate the rule that made a copy."""
        return self.evaluate(_made_by(provenance))

    def deletes_copies(self, provenance: Provenance) -> bool:
        """Return whether a copy goes with the rule that made it: by its own policy, and by the rule's last one."""
        owner, name, uid = provenance.rule_owner, provenance.rule, provenance.rule_uid
        recorded = (one.policy for one in self.traces.list_records(owner) if one.name == name and uid in ("", one.uid))
        shown = (one.policy for one in self.traces.list_deletions(owner, name) if uid in ("", one.uid))
        return deletes_copies(provenance.policy, last=(*recorded, *shown))

    def has_earlier(self, provenance: Provenance) -> bool:
        """Return whether the record of its owner names another rule of the name of the one that made a copy."""
        rules = self.traces.list_records(provenance.rule_owner)
        return any(rule.name == provenance.rule and rule.uid != provenance.rule_uid for rule in rules)

    def shown(self) -> Mapping[tuple[ClusterUID, str], object]:
        """Map the rules of which something shows that they were deleted to all that shows it.

        An event and a record of one rule are two things, because a decision may have waited for the later one.
        """
        before_s, found = self._now_s() - self._window_s, dict[tuple[ClusterUID, str], set[object]]()
        for rule, deletion in self.traces.list_events():
            if deletion.at_s <= before_s and self.traces.is_confirmed(rule[0], deletion):
                found.setdefault(rule, set()).add(deletion.uid)
        for owner in (self._local, *self._peers):
            for record in self.traces.stable_records(owner):
                found.setdefault((owner, record.name), set()).add(record)
        for owner, missing in self.missing.items():
            for name in missing.going:
                found.setdefault((owner, name), set()).add(missing.since[name])
        return found

    @property
    def has_new_records(self) -> bool:
        """True if the record here is to be replaced, because it lacks a rule that is known to be deleted."""
        stored = self._registry.deleted_rules
        return self.update_record(stored) != stored

    def update_record(self, stored: frozenset[DeletedRule]) -> frozenset[DeletedRule]:
        """Return the record of the rules that were deleted here, which replaces the stored one."""
        today, there = self._now().date(), (peer.day_there for peer in self._peers.values() if peer.is_alive)
        self._deletions = note_deletions(
            self._deletions,
            stored=stored,
            found=[*self._list_deleted(today)],
            today=today,
            is_day_agreed=is_day_agreed(today, there=filter(None, there)),
        )
        here = frozenset(rule.generation.uid for rule in self._registry.rules.values())
        return choose_record(self._deletions, stored=stored, here=here)

    def _list_deleted(self, today: date) -> Iterator[DeletedRule]:
        """List the rules that events or copies here show to be deleted."""
        for rule in sorted(self._shown_by_copies):
            yield DeletedRule(rule.name, rule.uid, today)
        for deletion in self._registry.deletions:
            if is_to_record(self.traces.read_event(deletion)):
                yield DeletedRule(deletion.name, deletion.uid, today, deletion.policy)


def _is_of(stored: StoredRule, record: DeletedRule) -> bool:
    return stored.rule is not None and (stored.rule.name, stored.rule.uid) == (record.name, record.uid)


def _made_by(provenance: Provenance) -> RuleID:
    return RuleID(provenance.rule_owner, provenance.rule, provenance.rule_uid, provenance.rule_definition)
