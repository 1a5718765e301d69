"""The laws of the ways to a peer: no way is lost, none is asked twice, and none is used that is not here. P7."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.api.meta import ObjectKey
from registry_controller.clusters.clones import CloneState
from registry_controller.clusters.resolver import ResolverInputs, resolve_clusters, sort_by_id
from registry_controller.core.decision.ways import is_withdrawn, other_ways, ways_after
from registry_controller.kube.kubeconfig import Credentials
from tests.unit.clusters.builders import LOCAL, NAMESPACE, cluster, credentials


class FakeWay(NamedTuple):
    """Credentials for a server."""

    verified_address: int
    token: int


WAYS = st.builds(FakeWay, st.integers(0, 2), st.integers(0, 2))


@given(st.none() | WAYS, st.lists(WAYS), st.lists(WAYS), st.lists(WAYS))
def test_every_way_is_listed_once(
    own: FakeWay | None, aliases: list[FakeWay], unnamed: list[FakeWay], stored: list[FakeWay]
) -> None:
    others = other_ways(own, aliases=aliases, unnamed=unnamed, as_stored=stored)
    assert len(set(others)) == len(others)
    assert set(others) == {*aliases, *unnamed, *stored} - {own}


@given(WAYS, st.lists(WAYS, unique=True), st.sets(WAYS), st.booleans())
def test_a_peer_that_some_way_leads_to_is_reached(
    own: FakeWay, others: list[FakeWay], working: set[FakeWay], is_refused: bool
) -> None:
    """A server that did not answer at all accepts no credentials."""
    if not is_refused:
        working = {way for way in working if way.verified_address != own.verified_address}
    found = other_ways(own, aliases=others, unnamed=())
    tried = ways_after(own, found, is_refused=is_refused)
    assert working & set(found) <= set(tried) <= set(found)


@given(WAYS, WAYS, st.lists(WAYS))
def test_a_way_that_is_listed_is_not_withdrawn(used: FakeWay, own: FakeWay, listed: list[FakeWay]) -> None:
    others = other_ways(own, aliases=listed, unnamed=())
    assert is_withdrawn(used, first=own, others=others) == (used not in {own, *listed})


SECRETS = st.sampled_from(["own", "alias", "third"])
STORED = st.sampled_from(["works", "is broken", "is missing"])


@given(
    named=st.none() | SECRETS,
    aliased=SECRETS,
    is_proved=st.booleans(),
    is_disabled=st.booleans(),
    stored=st.fixed_dictionaries({"own": STORED, "alias": STORED, "third": STORED}),
    unnamed=st.sets(st.sampled_from(["u-1", "u-2"])),
)
def test_a_cluster_has_each_way_that_is_here_whatever_has_become_of_its_own(
    *, named: str | None, aliased: str, is_proved: bool, is_disabled: bool, stored: dict[str, str], unnamed: set[str]
) -> None:
    """A Secret that is listed and missing, or broken, or not named, closes no other way."""
    annotations = {meta.CLUSTER_DISABLED: "true"} if is_disabled else {}
    read = cluster("b", secret=named, metadata={"annotations": annotations})
    alias = cluster("b-2", cluster_id=read.cluster_id, secret=aliased)
    kept: dict[str, Credentials | str] = {"works": "", "is broken": "broken", "is missing": "missing"}
    found = {name: credentials(name) if what == "works" else kept[what] for name, what in stored.items()}
    result = resolve_clusters(
        ResolverInputs(
            local=LOCAL,
            network_name="",
            clusters=sort_by_id([read, alias]),
            credentials={ObjectKey(NAMESPACE, name): value for name, value in found.items()},
            clones=CloneState(
                aliases=frozenset({alias.uid} if is_proved else ()),
                own_names={read.cluster_id: frozenset({read.name})},
            ),
            unnamed={read.cluster_id: [credentials(name) for name in sorted(unnamed)]},
        )
    )
    names = {*unnamed, *({aliased} if is_proved else ()), *({named} if named is not None else ())}
    usable = {credentials(name) for name in names if stored.get(name, "works") == "works"}
    assert set(result.clusters["b"].ways) == (set() if is_disabled else usable)
