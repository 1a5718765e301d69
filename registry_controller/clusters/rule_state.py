"""What is known of the rules that copies here were made by: whether they still act, and on whom (W3).

Law: nothing is concluded from silence. A rule that came from a member is gone only when that member, alive, has shown
a complete list without it.
"""

from __future__ import annotations

from collections.abc import Callable

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
    """The reader of the registry and of the links."""

    def __init__(
        self, *, registry: Registry, sources: SourceIndex, local: ClusterUID, link: Callable[[ClusterUID], Peer | None]
    ) -> None:
        self._registry = registry
        self._sources = sources
        self._local = local
        self._link = link

    def state(self, provenance: Provenance | None) -> RuleState:
        """Say what is known of the rule that a copy's provenance names."""
        if provenance is None or not provenance.rule:
            return RuleState.SILENT
        held = self._registry.rules.get(provenance.rule)
        if held is None:
            return RuleState.GONE if self._is_gone(provenance) else RuleState.SILENT
        rule = held.rule
        if rule is None or not self._acts(held):
            return RuleState.SILENT
        if held.bar(self._registry.allowance, local=self._local) is not None:
            return RuleState.SILENT
        selected = self._registry.selects_us(rule, local=self._local)
        if selected is not True:
            return RuleState.NOT_HERE if selected is False else RuleState.SILENT
        link = self._link(provenance.owner)
        if link is None or not link.is_alive or link.features.held is None:
            return RuleState.SILENT
        if reads_from(rule, link.features.held):
            return RuleState.READS
        return RuleState.UNSELECTED if link.features.is_current else RuleState.SILENT

    def barrier(self, target: Target, provenance: Provenance | None, *, secret_type: str) -> Barrier | None:
        """Say what keeps the rule that made a copy from touching it: the rule as it is now, else where it came from."""
        if provenance is None:
            return None
        held = self._registry.rules.get(provenance.rule)
        synced = held.is_synced(self._local) if held is not None else provenance.rule_owner not in ("", self._local)
        return self._registry.allowance.find_barrier(
            target, source=provenance.source, secret_type=secret_type, synced=synced
        )

    def deletes_unwanted(self, provenance: Provenance | None) -> bool:
        """Say whether copies go that the rule no longer wants: the rule as it is now, else as it was last known.

        One that does nothing now, because it is suspended or cannot be followed, deletes nothing either.
        """
        if provenance is None:
            return False
        held = self._registry.rules.get(provenance.rule)
        if held is None:
            return provenance.policy == "Delete"
        return held.rule is not None and self._acts(held) and held.rule.deletion_policy == "Delete"

    def _acts(self, held: StoredRule) -> bool:
        rule = held.rule
        is_whole = rule is not None and held.verdict.accepted and rule.name not in self._registry.pruned
        return rule is not None and is_whole and not rule.suspend

    def _is_gone(self, provenance: Provenance) -> bool:
        if provenance.rule_owner == self._local:
            return True
        link = self._link(provenance.rule_owner)
        cache = self._sources.cache_of(provenance.rule_owner, meta.RULE)
        if link is None or not link.is_alive or cache is None or not cache.is_synced:
            return False
        held = cache.records.get(ObjectKey("", provenance.rule))  # which may be somebody else's of that name by now
        # One that lets nobody make new copies of it does not come here again: it may be another rule of that name.
        stays = (
            held is not None
            and not held.marks.sync_disabled
            and is_at_home(held.marks, peer=provenance.rule_owner, membership=False)
        )
        return not stays
