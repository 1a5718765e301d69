"""Which Clusters and registry Secrets a relay may bring here. O4, O7."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.cache.members import Members
from registry_controller.core.decision.decision import Reason
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.membership.relay_policy import RelayPolicy
from tests.unit.clusters.builders import NAMESPACE, cluster_manifest, credentials, registry

B, C = ClusterUID("id-b"), ClusterUID("id-c")
READY = {"status": {"version": "1.36"}}
B_READY, B_NEW = cluster_manifest("b", **READY), cluster_manifest("b")
ENDPOINT = {"kubernetesApiEndpoints": [{"serverAddress": "https://elsewhere.test"}]}
OVER: Any = object()


def policy(*here: dict[str, Any], found: Credentials | str | None = None, has_room: bool = True) -> RelayPolicy:
    """Make the policy for Clusters here, with the result for every Secret, and room for new Clusters."""
    held, members = registry(*here), Members(on_change=lambda target: None)
    for name, stored in held.clusters.items():
        members.set_here(name, stored.cluster)
    store: Any = SimpleNamespace(find=lambda key: found)
    quota: Any = SimpleNamespace(
        has_room_for=lambda peer, name: has_room, has_room_for_secret=lambda peer, key: has_room
    )
    return RelayPolicy(credentials=store, registry=held, members=members, quota=quota)


def claim(kind: Any, name: str = "b", *, namespace: str = "", owner: ClusterUID = B) -> Any:
    return SimpleNamespace(kind=kind, key=ObjectKey(namespace, name), owner=owner, peer=C)


def refuse_cluster(
    made: RelayPolicy, offered: dict[str, Any], *, over: Any = OVER, is_relayed: bool = True
) -> Reason | None:
    name = offered["metadata"]["name"]
    return made.refusal_of(claim(meta.CLUSTER, name), offered, over=over, is_relayed=is_relayed)


@pytest.mark.parametrize(
    ("here", "offered", "is_relayed", "reason"),
    [
        (B_READY, B_NEW, True, None),
        (B_READY, cluster_manifest("b", spec=ENDPOINT), True, Reason.ADDRESS_CHANGED),
        (B_READY, cluster_manifest("b", secret="other"), True, Reason.ADDRESS_CHANGED),
        (B_READY, {"metadata": {"name": "b"}, "spec": {}}, True, Reason.ADDRESS_CHANGED),
        (B_READY, cluster_manifest("b", spec=ENDPOINT), False, None),
        (B_NEW, cluster_manifest("b", spec=ENDPOINT), True, None),
        (B_NEW, cluster_manifest("b", secret="other"), True, None),
    ],
    ids=[
        "nothing changes",
        "another address",
        "another Secret",
        "an invalid Cluster",
        "another address, by the owner itself",
        "another address, before it was ever Ready",
        "another Secret, before it was ever Ready",
    ],
)
def test_o4_a_relay_changes_no_address_of_a_member_that_was_ready(
    here: dict[str, Any], offered: dict[str, Any], is_relayed: bool, reason: Reason | None
) -> None:
    assert refuse_cluster(policy(here), offered, is_relayed=is_relayed) is reason


def test_p11_the_cluster_of_a_rebuilt_cluster_may_have_another_address() -> None:
    """Its name belongs to another ID here; whether that is proven was decided before."""
    made = policy(
        cluster_manifest("b", cluster_id="id-old", **READY), cluster_manifest("x", cluster_id="id-b", **READY)
    )
    assert refuse_cluster(made, cluster_manifest("b", spec=ENDPOINT)) is None


@pytest.mark.parametrize(
    ("found", "here", "is_relayed", "reason"),
    [
        (credentials("b"), B_READY, True, Reason.NOT_PROVEN),
        (credentials("b"), B_READY, False, None),
        (credentials("b"), B_NEW, True, None),
        ("Secret registry/b: broken", B_READY, True, None),
        (None, B_READY, True, None),
    ],
    ids=["usable here", "by the owner itself", "never Ready", "broken here", "missing here"],
)
def test_o4_a_relay_replaces_no_usable_credentials_of_a_member_that_was_ready(
    found: Credentials | str | None, here: dict[str, Any], is_relayed: bool, reason: Reason | None
) -> None:
    made = policy(here, found=found)
    wanted = claim(meta.SECRET, namespace=NAMESPACE)
    assert made.refusal_of(wanted, {}, over=OVER, is_relayed=is_relayed) is reason


@pytest.mark.parametrize("is_relayed", [True, False])
@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        (cluster_manifest("c", secret="b"), Reason.DISPUTED),
        (cluster_manifest("c"), None),
        (cluster_manifest("renamed", cluster_id="id-b", secret="b"), None),
        (cluster_manifest("c", secret=None), None),
        ({"metadata": {"name": "c"}, "spec": {}}, None),
    ],
    ids=["another member's", "its own", "the same member's", "none", "an invalid Cluster"],
)
def test_o7_no_cluster_that_comes_names_another_members_secret(
    offered: dict[str, Any], reason: Reason | None, is_relayed: bool
) -> None:
    assert refuse_cluster(policy(B_READY), offered, over=None, is_relayed=is_relayed) is reason


def test_o7_a_cluster_that_names_another_members_secret_already_is_no_new_dispute() -> None:
    made = policy(B_READY, cluster_manifest("c", secret="b"))
    assert refuse_cluster(made, cluster_manifest("c", secret="b")) is None


@pytest.mark.parametrize("kind", [meta.CLUSTER, meta.SECRET])
def test_o4_without_room_nothing_new_comes_and_copies_here_are_kept_fresh(kind: Any) -> None:
    made, wanted = policy(has_room=False), claim(kind, namespace=NAMESPACE if kind is meta.SECRET else "")
    offered = B_NEW if kind is meta.CLUSTER else {}
    assert made.refusal_of(wanted, offered, over=None, is_relayed=False) is Reason.TOO_MANY
    assert made.refusal_of(wanted, offered, over=OVER, is_relayed=False) is None


def test_o4_a_member_is_pinned_once_its_status_has_a_version() -> None:
    made = policy(B_READY, cluster_manifest("c"))
    assert (made.is_pinned(B), made.is_pinned(C)) == (True, False)
