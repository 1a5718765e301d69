"""Which targets are reserved, and for which clusters. O2, O7, W8."""

from __future__ import annotations

import pytest

from registry_controller.api import meta, names
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.rules.reserved import OwnTargets, list_reserved_for

LOCAL, B, C = ClusterUID("local"), ClusterUID("b"), ClusterUID("c")
CLUSTER, SECRET = Target(*meta.CLUSTER_KIND, "", "own"), Target("", "Secret", "registry", "own")
TOKEN, FREE = SECRET._replace(name="token"), SECRET._replace(name="free")
OWN = OwnTargets(LOCAL, provisioned=frozenset((CLUSTER, SECRET)), tokens=frozenset((TOKEN,)))


@pytest.mark.parametrize(
    ("target", "has_cluster", "named_by", "clusters"),
    [
        (CLUSTER, False, (), {LOCAL}),
        (CLUSTER, True, (), None),
        (SECRET, False, (), {LOCAL}),
        (SECRET, True, (), None),
        (SECRET, True, (LOCAL,), {LOCAL}),
        (SECRET, False, (B,), {LOCAL}),
        (TOKEN, False, (), {LOCAL}),
        (TOKEN, True, (B,), {LOCAL}),
        (FREE, True, (), None),
        (FREE, True, (B,), {B}),
        (FREE, True, (B, C), {B, C}),
        (FREE, True, (B, LOCAL), {LOCAL}),
        (Target(*meta.RULE_KIND, "", names.RULES_SINK), True, (), {LOCAL}),
        (Target(meta.GROUP, meta.FEATURE.kind, "", names.CORE_FEATURE_OBJECT), True, (), {LOCAL}),
        (Target(meta.GROUP, meta.FEATURE.kind, "", names.DELETED_RULES_OBJECT), True, (), {LOCAL}),
    ],
)
def test_a_target_is_reserved_for_the_clusters_whose_object_belongs_there(
    target: Target, has_cluster: bool, named_by: tuple[ClusterUID, ...], clusters: set[ClusterUID] | None
) -> None:
    found = list_reserved_for(target, OWN, has_cluster=has_cluster, named_by=frozenset(named_by))
    assert found == clusters
