"""O4, O7: what a relay may bring of another member."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.meta import ClusterUID
from registry_controller.core.decision.decision import Reason
from registry_controller.core.decision.relay import (
    names_secret_of_another,
    refuse_relayed_cluster,
    refuse_relayed_secret,
)

OWNER, OTHER = ClusterUID("owner"), ClusterUID("other")


def cluster(secret: str = "s", address: str = "https://a", owner: ClusterUID = OWNER) -> Cluster:
    spec: dict[str, Any] = {
        "clusterID": owner,
        "authInfo": {"secretRef": {"name": secret, "namespace": "n"}},
        "kubernetesApiEndpoints": [{"serverAddress": address}],
    }
    return read_cluster({"metadata": {"name": "m"}, "spec": spec})


@pytest.mark.clause("O4")
@pytest.mark.parametrize(
    ("offered", "over", "was_ready", "expected"),
    [
        (cluster(), cluster(), True, None),
        (cluster(secret="t"), cluster(), True, Reason.ADDRESS_CHANGED),
        (cluster(address="https://b"), cluster(), True, Reason.ADDRESS_CHANGED),
        (cluster(address="https://b"), cluster(), False, None),
        (cluster(address="https://b"), cluster(owner=OTHER), True, None),
        (cluster(address="https://b"), None, True, None),
        (None, cluster(), True, Reason.ADDRESS_CHANGED),
        (None, cluster(), False, None),
    ],
)
def test_the_address_of_a_member_that_was_ready_is_its_own(
    offered: Cluster | None, over: Cluster | None, was_ready: bool, expected: Reason | None
) -> None:
    assert refuse_relayed_cluster(offered, over=over, owner=OWNER, was_ready=was_ready) is expected


@pytest.mark.clause("O4")
@pytest.mark.parametrize("is_usable", [True, False])
@pytest.mark.parametrize("was_ready", [True, False])
def test_usable_credentials_of_a_member_that_was_ready_are_its_own(is_usable: bool, was_ready: bool) -> None:
    expected = Reason.NOT_PROVEN if is_usable and was_ready else None
    assert refuse_relayed_secret(is_usable=is_usable, was_ready=was_ready) is expected


@pytest.mark.clause("O7")
@pytest.mark.parametrize(
    ("offered", "over", "named_by", "expected"),
    [
        (cluster(), None, set(), False),
        (cluster(), None, {OWNER}, False),
        (cluster(), None, {OTHER}, True),
        (cluster(), None, {OWNER, OTHER}, True),
        (cluster(), cluster(secret="t"), {OTHER}, True),
        (cluster(), cluster(), {OTHER}, False),
        (None, None, {OTHER}, False),
    ],
)
def test_no_cluster_may_name_the_secret_of_another_member(
    offered: Cluster | None, over: Cluster | None, named_by: set[ClusterUID], expected: bool
) -> None:
    assert names_secret_of_another(offered, over=over, named_by=named_by) is expected
