"""Reads the stored counts and halts of deletions from the statuses here (W4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry_controller.api.meta import ClusterUID
from registry_controller.cache.registry import Registry
from registry_controller.cache.stored_objects import StoredRule
from registry_controller.core.decision.rule_halts import RuleHalts, form_for
from registry_controller.core.status import rule


def find_rule(registry: Registry, name: str) -> StoredRule | None:
    """Return a rule as it is stored; as it was last, while it is missing and acts."""
    return registry.rules.get(name) or registry.acting.get(name)


def stored_deletions(registry: Registry, name: str, owner: ClusterUID) -> Mapping[str, Any] | None:
    """Return the entry of a rule's status about the deletions of an owner's copies; None without one.

    A rule that was created again has no status: then the owner's Cluster may hold that the rule is halted.
    """
    stored = find_rule(registry, name)
    if stored is None:
        return None
    found = rule.read_deletions(stored.manifest.get("status"), owner)
    return found or form_for(stored_halts(registry, owner), name)


def stored_owners(registry: Registry, name: str) -> frozenset[ClusterUID]:
    """Return the owners in a rule's status, and those whose Cluster holds a halt of the rule."""
    stored = find_rule(registry, name)
    if stored is None:
        return frozenset()
    clusters = registry.clusters.values()
    halted = (held.cluster.cluster_id for held in clusters if held.cluster and form_for(held.halts, name))
    return frozenset((*rule.list_owners(stored.manifest.get("status")), *halted))


def stored_halts(registry: Registry, owner: ClusterUID) -> RuleHalts:
    """Return the halts of rules that the owner's Cluster here holds."""
    found: dict[str, str] = {}
    for held in registry.clusters_of(owner):
        found |= held.halts
    return found
