"""Names of what the daemon makes itself, the same in every cluster since the first release of the API."""

from __future__ import annotations

from typing import Final

CORE_FEATURE_OBJECT: Final = "cluster-registry-core-resources"
CORE_FEATURE: Final = "cluster-registry-core-resources-source"

LEFT_FEATURE: Final = "cluster-registry-left-member"
"""Name of the feature that says that a member has left the group."""

CLUSTERS_SINK: Final = "cluster-registry-core-resource-clusters-sink"
RULES_SINK: Final = "cluster-registry-core-resource-syncrules-sink"
SECRETS_SINK: Final = "cluster-registry-core-resource-cluster-secrets-sink"
CORE_RULES: Final = frozenset({CLUSTERS_SINK, RULES_SINK, SECRETS_SINK})
