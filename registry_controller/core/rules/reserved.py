"""Decides which targets are reserved, and for which clusters (O2, O7, W8).

Laws: only the daemon writes the core objects · an object that this cluster makes for itself is replaced by no object
that is offered, also while it is missing · a Secret that a Cluster here names is created from the credentials of that
Cluster's member only.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from registry_controller.api import meta, names
from registry_controller.api.meta import ClusterUID, Target

CORE_OBJECTS: Final = frozenset(Target(*meta.RULE_KIND, "", name) for name in names.CORE_RULES) | frozenset(
    Target(meta.GROUP, meta.FEATURE.kind, "", name) for name in (names.CORE_FEATURE_OBJECT, names.DELETED_RULES_OBJECT)
)
"""The objects that the daemon itself keeps in every cluster, whether or not they are there now."""


class OwnTargets(NamedTuple):
    """The further objects that the daemon makes for the cluster `local`.

    `provisioned` are the Cluster and the Secret that it makes where the cluster has no Cluster, `tokens` the Secrets of
    the reader's tokens.
    """

    local: ClusterUID
    provisioned: frozenset[Target] = frozenset()
    tokens: frozenset[Target] = frozenset()


def list_reserved_for(
    target: Target, own: OwnTargets, *, has_cluster: bool, named_by: frozenset[ClusterUID]
) -> frozenset[ClusterUID] | None:
    """Return the clusters whose membership alone may be created at a target; None for a target that is not reserved.

    `has_cluster` means that this cluster has a Cluster here. `named_by` are the clusters whose Clusters here name the
    target as their Secret.
    """
    is_made_here = target in CORE_OBJECTS or target in own.tokens or (target in own.provisioned and not has_cluster)
    if is_made_here or own.local in named_by:
        return frozenset((own.local,))
    return named_by or None
