"""The state of the rules that copies here were made by: whether a rule still acts, and on which member (W3).

Laws: silence proves nothing; `core.decision.rule_state` decides · a rule of the same name that did not make a copy
decides about it, and the copy's own policy counts · a native rule that is not known to be deleted keeps its name.
"""

from __future__ import annotations

from collections.abc import Mapping

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, GroupKind, Target
from registry_controller.api.provenance import Provenance
from registry_controller.cache.registry import Registry
from registry_controller.cache.stored_deletions import stored_deletions
from registry_controller.cache.stored_objects import StoredRule
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.rule_deletions import RuleDeletions
from registry_controller.clusters.rule_selection import RuleSelection
from registry_controller.clusters.rule_traces import RuleID
from registry_controller.core.decision.deletion_limit import has_no_minimum
from registry_controller.core.decision.rule_state import Maker, RuleFacts, evaluate_missing, evaluate_rule, is_unchosen
from registry_controller.core.decision.state import RuleState
from registry_controller.core.decision.stored_spec import is_earlier
from registry_controller.core.rules.active import have_features
from registry_controller.core.rules.policy import Barrier


class RuleStates:
    """Reads the rules here, and those that peers hold."""

    def __init__(
        self,
        *,
        registry: Registry,
        selection: RuleSelection,
        deletions: RuleDeletions,
        local: ClusterUID,
        peers: Mapping[ClusterUID, Peer],
    ) -> None:
        self._registry = registry
        self._selection = selection
        self._deletions = deletions
        self._local = local
        self._peers = peers

    def state(self, provenance: Provenance | None) -> RuleState:
        """Return the state of the rule that a copy's provenance names."""
        if provenance is None or not provenance.rule:
            return RuleState.SILENT
        return evaluate_rule(self._facts(provenance))

    def is_unchosen(self, provenance: Provenance | None) -> bool:
        """Return whether the rule that a copy's provenance names is here, and may or may not make the copy now."""
        return provenance is not None and bool(provenance.rule) and is_unchosen(self._facts(provenance))

    def is_behind(self, provenance: Provenance, *, written_at: int) -> bool:
        """Return whether a daemon here has written a copy by a later state of its rule than is known here."""
        if not provenance.is_held_in(self._local):
            return False
        if self._registry.is_behind(provenance.rule, provenance.rule_generation, written_at=written_at):
            return True
        stored = self._registry.acting.get(provenance.rule)
        rule = stored.marks.provenance if stored is not None and not stored.marks.frozen else None
        if rule is None or rule.owner != provenance.rule_owner:
            return False
        return is_earlier(rule, than=provenance.rule_revision, at_owner=self._deletions.traces.spec_at_owner(rule))

    def has_lost_feature(self, rule: str, owner: ClusterUID) -> bool:
        """Return whether an owner may have lost a feature without which a rule does not read from it (W4).

        Features that were lost before this daemon started are in the rule's status.
        """
        stored, peer = self._registry.acting.get(rule), self._peers.get(owner)
        if stored is None or stored.rule is None or not stored.rule.features:
            return False
        held = (peer.features.held or ()) if peer is not None else ()
        if have_features(stored.rule.features, held):
            return peer is not None and peer.features.is_unserved
        lost = peer.features.list_lost() if peer is not None else ()
        was_lost = has_no_minimum(stored_deletions(self._registry, rule, owner))
        return was_lost or have_features(stored.rule.features, [*held, *lost])

    def _facts(self, provenance: Provenance) -> RuleFacts:
        """Gather the facts about the rule that a copy's provenance names, towards the copy's owner."""
        stored = self._registry.acting.get(provenance.rule)
        facts = self._facts_of(stored, provenance) if stored is not None else RuleFacts(is_here=False)
        is_foreign = stored is not None and stored.is_foreign(provenance.rule_owner, local=self._local)
        if stored is not None and not is_foreign:
            return facts
        presence, was_deleted = self._deletions.evaluate_rule_of(provenance)
        return facts._replace(is_foreign=is_foreign, presence=presence, was_deleted=was_deleted)

    def _facts_of(self, stored: StoredRule, provenance: Provenance) -> RuleFacts:
        """Gather the facts about a rule that acts here, towards the owner of a copy."""
        rule = stored.rule
        bar = self._registry.bar(provenance.rule, local=self._local)
        if rule is None or not self._acts(stored) or bar is not None:
            return RuleFacts(is_here=True, is_unclear=stored.is_unclear)
        peer = self._peers.get(provenance.owner)
        is_heard = peer is not None and peer.is_alive and peer.features.held is not None
        return RuleFacts(
            is_here=True,
            acts=True,
            reads_kind=_made_by(provenance).reads == GroupKind(rule.kind.group, rule.kind.kind),
            selects_us=self._selection.selects_us(rule),
            selects_owner=self._selection.selects(rule, peer) if peer is not None and is_heard else None,
        )

    def keeps_name(self, rule: str) -> bool:
        """Return whether a native rule of this name may be created again: no copy takes its name."""
        return self._deletions.keeps_name(rule)

    def state_of_rule(self, target: Target, provenance: Provenance | None) -> RuleState | None:
        """Return the state of the rule that a copy of a rule was made from, at its owner; None for another copy."""
        if provenance is None or target[:2] != meta.RULE_KIND:
            return None
        rule = RuleID(provenance.owner, provenance.key.name, provenance.uid)
        presence, was_deleted = self._deletions.evaluate(rule)
        return evaluate_missing(presence, was_deleted=was_deleted)

    def barrier(self, target: Target, provenance: Provenance | None, *, secret_type: str) -> Barrier | None:
        """Return the barrier between a copy and its rule: the rule's policy now, or else that of the rule's origin."""
        if provenance is None:
            return None
        stored = self._registry.acting.get(provenance.rule)
        synced = stored.is_synced(self._local) if stored is not None else provenance.rule_owner not in ("", self._local)
        return self._registry.allowance.find_barrier(
            target, source=provenance.source, secret_type=secret_type, synced=synced
        )

    def deletes_unwanted(self, provenance: Provenance | None) -> bool:
        """Return whether a copy that its rule no longer wants is deleted: by the rule now, or else as last known.

        Of a deleted rule, neither the policy in the copy nor its last one may keep the copy. A suspended rule, or
        an invalid one, deletes nothing.
        """
        if provenance is None or not provenance.is_held_in(self._local):
            return False
        stored = self._registry.acting.get(provenance.rule)
        if stored is None or not self.is_maker(provenance, stored):
            return self._deletions.deletes_copies(provenance)
        return stored.rule is not None and self._acts(stored) and stored.rule.deletion_policy == "Delete"

    def is_maker(self, provenance: Provenance, stored: StoredRule) -> bool:
        """Return whether a rule here made a copy, and reads the kind of its source still."""
        maker = stored.maker(self._local)
        return maker is not None and maker.is_same(_made_by(provenance))

    def _acts(self, stored: StoredRule) -> bool:
        rule = stored.rule
        is_whole = rule is not None and stored.verdict.accepted and rule.name not in self._registry.pruned
        return rule is not None and is_whole and not rule.suspend


def _made_by(provenance: Provenance) -> Maker:
    source = provenance.source
    return Maker(provenance.rule_owner, provenance.rule_uid, GroupKind(source.group, source.kind))
