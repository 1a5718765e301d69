"""A Cluster and a ResourceSyncRule as the local API server has them, parsed and validated."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from registry_controller.api.cluster import Cluster
from registry_controller.api.meta import ClusterUID, GroupKind, Manifest
from registry_controller.api.provenance import RuleGeneration
from registry_controller.api.syncrule import SyncRule
from registry_controller.core.decision.marks import Binding, Marks
from registry_controller.core.decision.rule_halts import RuleHalts, read_halts
from registry_controller.core.decision.rule_state import Maker
from registry_controller.core.rules.active import ActiveRule, activate
from registry_controller.core.rules.policy import BarredRule, RulePolicy, TargetPolicy
from registry_controller.core.rules.validation import RuleVerdict
from registry_controller.core.status.cluster import read_deletions


@dataclass(frozen=True)
class StoredCluster:
    """A Cluster in the local cluster. `cluster` is None while `problem` describes its error."""

    cluster: Cluster | None
    problem: str
    manifest: Manifest

    @functools.cached_property
    def deletions(self) -> Mapping[str, Any] | None:
        """The stored form of the limit on the deletions of its objects' copies; None without one."""
        return read_deletions(self.manifest.get("status"))

    @functools.cached_property
    def halts(self) -> RuleHalts:
        """The halts of rules that it holds."""
        return read_halts(self.deletions)


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A ResourceSyncRule in the local cluster, with its verdict; `rule` is None where it could not be read at all."""

    rule: SyncRule | None
    verdict: RuleVerdict
    marks: Marks
    manifest: Manifest
    generation: RuleGeneration

    @property
    def revision_at_owner(self) -> int:
        """The resourceVersion of the rule at the cluster from which it was copied; 0 for a rule of this cluster."""
        return self.marks.provenance.revision if self.marks.provenance is not None else 0

    def asks_the_same(self, was: StoredRule | None) -> bool:
        """Return whether the rule asks for the same as before; a written status is not a change."""
        return was is not None and (self.rule, self.verdict, self.marks) == (was.rule, was.verdict, was.marks)

    def is_synced(self, local: ClusterUID) -> bool:
        """Return whether the rule came from another cluster, for any name and labels, or may have come from one."""
        return self.marks.may_be_copy and self.marks.owner != local

    @property
    def is_unclear(self) -> bool:
        """Return whether only a later version of the daemon can read the marks of the rule (A11)."""
        return self.marks.binding is Binding.UNREADABLE

    def is_foreign(self, owner: ClusterUID, *, local: ClusterUID) -> bool:
        """Return whether another cluster than `owner` created the rule; an empty owner is unknown."""
        maker = self.maker(local)
        return maker is not None and maker.is_of_another_cluster(owner)

    def bar(self, allowance: RulePolicy, *, local: ClusterUID) -> BarredRule | None:
        """Return why the rule may not act here; None where it may, or where it cannot be read."""
        return allowance.find_bar(self.rule, synced=self.is_synced(local)) if self.rule is not None else None

    def active(self, allowance: RulePolicy, *, local: ClusterUID) -> ActiveRule | None:
        """Prepare the rule for acting; return None when it does not act."""
        if self.rule is None or not self.verdict.accepted or self.rule.suspend or self.bar(allowance, local=local):
            return None
        provenance, maker = self.marks.provenance, self.maker(local)
        assert maker is not None
        born = provenance.created if provenance else self.rule.created
        fence = TargetPolicy(allowance, self.is_synced(local))
        return activate(self.rule, created_at=born, owner=maker.owner, target_policy=fence, uid=maker.uid)

    def maker(self, local: ClusterUID) -> Maker | None:
        """Return what makes the copies of this rule; None where it cannot be read.

        Its owner and UID are unknown where only a later version of the daemon can read its marks.
        """
        if self.rule is None:
            return None
        provenance, reads = self.marks.provenance, GroupKind(self.rule.kind.group, self.rule.kind.kind)
        if self.is_unclear:
            return Maker(self.marks.owner or ClusterUID(""), "", reads)
        return Maker(self.marks.owner or local, provenance.uid if provenance else self.rule.uid, reads)
