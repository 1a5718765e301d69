"""Names of the objects that the daemon creates. They are the same in every cluster, in every release."""

from __future__ import annotations

from typing import Final

CORE_FEATURE_OBJECT: Final = "cluster-registry-core-resources"
CORE_FEATURE: Final = "cluster-registry-core-resources-source"

DELETED_RULES_OBJECT: Final = "cluster-registry-deleted-rules"
DELETED_RULES_FEATURE: Final = "cluster-registry-deleted-rules"
"""`spec.featureName` of the record of deleted rules."""

LEFT_FEATURE: Final = "cluster-registry-left-member"
"""`spec.featureName` of a tombstone, which reports that a member has left the group."""
WITHDRAWN_FEATURE: Final = "cluster-registry-left-member-withdrawn"
"""`spec.featureName` of the record that its author has withdrawn a tombstone."""

CLUSTERS_SINK: Final = "cluster-registry-core-resource-clusters-sink"
RULES_SINK: Final = "cluster-registry-core-resource-syncrules-sink"
SECRETS_SINK: Final = "cluster-registry-core-resource-cluster-secrets-sink"
CORE_RULES: Final = frozenset({CLUSTERS_SINK, RULES_SINK, SECRETS_SINK})

RIGHTS_COMMAND: Final = "registry-controller rbac"
"""The command that prints the ClusterRoles which rules need; messages about a missing right name it."""
