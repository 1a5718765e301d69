"""The laws of the ways to a peer: no way is lost, none is asked twice, and none is used that is not here. P7."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.core.decision.ways import is_withdrawn, other_ways, ways_after


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
