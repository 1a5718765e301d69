"""The credentials that relays have for a member whose own ones are refused. O4."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from registry_controller.api import meta
from registry_controller.api.meta import GVR, ClusterUID, ObjectKey
from registry_controller.cache.members import Members
from registry_controller.core.decision.marks import Marks
from registry_controller.core.decision.state import CurrentCopy
from registry_controller.kube.kubeconfig import Credentials, read_secret, render
from registry_controller.membership.quota import MOST_OF_ONE
from registry_controller.sync.relayed_credentials import RelayedCredentials
from registry_controller.sync.state_reader import StateReader
from tests.sim.cluster.controllers import ca_pem
from tests.unit.clusters.builders import LOCAL, NAMESPACE, cluster, cluster_manifest, record, registry

B, C, D = ClusterUID("id-b"), ClusterUID("id-c"), ClusterUID("id-d")
READY = cluster_manifest("b", status={"version": "1.36"})


def secret(token: str, *, server: str = "https://b.test") -> dict[str, Any]:
    text = render(cluster_name="b", server=server, ca_pem=ca_pem(), user="reader", token=token)
    data = {meta.KUBECONFIG_KEY: base64.b64encode(text.encode()).decode()}
    return {"metadata": {}, "type": meta.REGISTRY_SECRET_TYPE, "data": data}


def usable(token: str) -> Credentials:
    return read_secret(secret_type=meta.REGISTRY_SECRET_TYPE, data=secret(token)["data"])


def offer(name: str, *, peer: ClusterUID = C, membership: bool = True, deleting: bool = False) -> Any:
    found = SimpleNamespace(uid=f"uid-{name}", revision=1, membership=membership, deleting=deleting)
    return SimpleNamespace(cache=SimpleNamespace(peer=peer), key=ObjectKey(NAMESPACE, name), record=found)


# Credentials.


async def tried(
    renamed: dict[str, dict[str, Any]], *, here: dict[str, Any] = READY, frozen: bool = False, refused: bool = True
) -> Sequence[str]:
    """List the tokens that are tried where relays have no Secret of the name here, but these under other names."""

    async def get(gvr: GVR, key: ObjectKey, *, timeout_s: float) -> bytes:
        return orjson.dumps(renamed[key.name])

    marks = Marks(B, None, sync_disabled=frozen, go_written=False)
    state = SimpleNamespace(current=CurrentCopy(marks, "uid", 1, natural=B), claims=())
    held = registry(here)
    states: Any = SimpleNamespace(
        read=lambda target: (state, ()), renamed_secrets=lambda cluster: [offer(name) for name in renamed]
    )
    relays: Any = SimpleNamespace(is_pinned=lambda member: here is READY)
    connection: Any = SimpleNamespace(reader=SimpleNamespace(get=get))
    relayed = RelayedCredentials(
        registry=held, relays=relays, states=states, connection=lambda peer: connection, network_name=""
    )
    found = await relayed.credentials_for("b", usable("old"), refused=refused)
    return [one.token for one in found]


async def test_a_secret_under_another_name_is_tried_at_the_server_that_is_known() -> None:
    assert await tried({"b-two": secret("new"), "b-three": secret("elsewhere", server="https://evil.test")}) == ["new"]


@pytest.mark.parametrize("how", [{"frozen": True}, {"refused": False}, {"here": cluster_manifest("b")}])
async def test_no_other_name_counts_for_one_that_is_frozen_unreachable_or_was_never_ready(how: dict[str, Any]) -> None:
    """The Cluster of a member that was never Ready here follows the newest relay."""
    assert await tried({"b-two": secret("new")}, **how) == []


# Secrets of other names.


def list_renamed(
    at_c: Sequence[Any], *, offers: Sequence[Any], here: Sequence[str] = ("b",), is_barred: bool = False
) -> list[str]:
    """List the Secrets of other names that are read for b, while the relay c holds these Clusters."""
    members = Members(on_change=lambda target: None)
    for name in here:
        members.set_here(name, cluster(name))
    for held in at_c:
        members.set_there(C, held.name, held)
    members.set_there(B, "b", record("b", secret="b-own"))
    sources: Any = SimpleNamespace(claiming=lambda target: [one for one in offers if one.key.name == target.name])
    caches: Any = SimpleNamespace(sources=sources, copies=None, members=members, namespaces=None)
    made: dict[str, Any] = dict.fromkeys(("clusters", "rule_states", "departures", "absences", "made_once"))
    tombstones: Any = SimpleNamespace(bars=lambda peer, member, membership, revision: is_barred)
    states = StateReader(local=LOCAL, caches=caches, tombstones=tombstones, lost_matches=None, **made)  # type: ignore[arg-type]
    return [found.key.name for found in states.renamed_secrets(cluster("b"))]


def test_a_secret_under_another_name_counts_with_a_cluster_that_names_it_there() -> None:
    offers = [offer("b-two"), offer("b-two", peer=D), offer("b-own", peer=B), offer("b"), offer("c-two")]
    assert list_renamed([record("b", secret="b-two"), record("c", secret="c-two")], offers=offers) == ["b-two"]
    assert list_renamed([record("b")], offers=offers) == []
    assert list_renamed([record("b", secret="b-two")], offers=offers, is_barred=True) == []


@pytest.mark.parametrize("how", [{"membership": False}, {"deleting": True}])
def test_what_is_no_registry_secret_or_goes_does_not_count(how: dict[str, bool]) -> None:
    assert list_renamed([record("b", secret="b-two")], offers=[offer("b-two", **how)]) == []


def test_the_secret_of_another_member_here_does_not_count() -> None:
    assert list_renamed([record("b", secret="d")], offers=[offer("d")], here=("b", "d")) == []


def test_of_each_relay_a_few_secrets_count_and_that_of_the_cluster_named_as_here_is_one() -> None:
    names = [f"a{number}" for number in range(2 * MOST_OF_ONE)]
    held = [*(record(name, cluster_id=B) for name in names), record("b", secret="b-two")]
    found = list_renamed(held, offers=[offer(name) for name in (*names, "b-two")])
    assert found == ["b-two", *names[: MOST_OF_ONE - 1]]
