"""The state of the rules that copies here were made by: whether a rule still acts, and on which member (W3).

Law: silence proves nothing. A rule that came from a member is gone only when that member, alive, has shown a complete
list without it.
"""

from __future__ import annotations

from collections.abc import Mapping

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance
from registry_controller.cache.registry import Registry, StoredRule
from registry_controller.cache.source_index import SourceIndex
from registry_controller.clusters.peer import Peer
from registry_controller.core.decision.ownership import is_at_home
from registry_controller.core.decision.state import RuleState
from registry_controller.core.rules.active import reads_from
from registry_controller.core.rules.policy import Barrier


class RuleStates:
    """Reads the rules here, and those that peers hold."""

    def __init__(
        self, *, registry: Registry, sources: SourceIndex, local: ClusterUID, peers: Mapping[ClusterUID, Peer]
    ) -> None:
        self._registry = registry
        self._sources = sources
        self._local = local
        self._peers = peers

    def state(self, provenance: Provenance | None) -> RuleState:
        """Return the state of the rule that a copy's provenance names."""
        if provenance is None or not provenance.rule:
            return RuleState.SILENT
        stored = self._registry.rules.get(provenance.rule)
        if stored is None:
            return RuleState.GONE if self._is_gone(provenance) else RuleState.SILENT
        rule = stored.rule
        if rule is None or not self._acts(stored):
            return RuleState.SILENT
        if stored.bar(self._registry.allowance, local=self._local) is not None:
            return RuleState.SILENT
        selected = self._registry.selects_us(rule, local=self._local)
        if selected is not True:
            return RuleState.NOT_HERE if selected is False else RuleState.SILENT
        peer = self._peers.get(provenance.owner)
        if peer is None or not peer.is_alive or peer.features.held is None:
            return RuleState.SILENT
        if reads_from(rule, peer.features.held):
            return RuleState.READS
        return RuleState.UNSELECTED if peer.features.is_current else RuleState.SILENT

    def barrier(self, target: Target, provenance: Provenance | None, *, secret_type: str) -> Barrier | None:
        """Return the barrier between a copy and its rule: the rule's policy now, or else that of the rule's origin."""
        if provenance is None:
            return None
        stored = self._registry.rules.get(provenance.rule)
        synced = stored.is_synced(self._local) if stored is not None else provenance.rule_owner not in ("", self._local)
        return self._registry.allowance.find_barrier(
            target, source=provenance.source, secret_type=secret_type, synced=synced
        )

    def deletes_unwanted(self, provenance: Provenance | None) -> bool:
        """Return whether a copy that its rule no longer wants is deleted: by the rule now, or else as last known.

        A suspended or invalid rule deletes nothing.
        """
        if provenance is None or not provenance.is_held_in(self._local):
            return False
        stored = self._registry.rules.get(provenance.rule)
        if stored is None:
            return provenance.policy == "Delete"
        return stored.rule is not None and self._acts(stored) and stored.rule.deletion_policy == "Delete"

    def _acts(self, stored: StoredRule) -> bool:
        rule = stored.rule
        is_whole = rule is not None and stored.verdict.accepted and rule.name not in self._registry.pruned
        return rule is not None and is_whole and not rule.suspend

    def _is_gone(self, provenance: Provenance) -> bool:
        if provenance.rule_owner == self._local:
            return True
        peer = self._peers.get(provenance.rule_owner)
        cache = self._sources.cache_of(provenance.rule_owner, meta.RULE)
        if peer is None or not peer.is_alive or cache is None or not cache.is_synced:
            return False
        record = cache.records.get(ObjectKey("", provenance.rule))  # may be another cluster's rule of that name by now
        # A rule that is never copied again does not come back here: it may be another rule of that name.
        stays = (
            record is not None
            and not record.marks.sync_disabled
            and is_at_home(record.marks, peer=provenance.rule_owner, membership=False)
        )
        return not stays
