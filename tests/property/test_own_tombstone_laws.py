"""Laws of the own tombstone of a cluster that left, over all that may be known of it. O6."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone
from registry_controller.core.decision.own_tombstone import FarewellFacts, find_lost_farewell

pytestmark = pytest.mark.clause("O6")

US = ClusterUID("us")
TODAY = date(2026, 5, 1)
MEMBERSHIPS = st.sampled_from(["", "one", "two"])
PEERS = st.sampled_from([ClusterUID("a"), ClusterUID("b"), ClusterUID("c")])
STONES = st.builds(
    lambda membership, days: Tombstone(US, membership, US, TODAY + timedelta(days=days)),
    MEMBERSHIPS,
    st.sampled_from([-31, -30, 0, 90, 98]),
)
SETS = st.frozensets(STONES, max_size=2)
FACTS = st.builds(
    FarewellFacts,
    has_cluster=st.booleans(),
    saw_cluster=st.booleans(),
    stored=SETS,
    seen=SETS,
    withdrawn=st.frozensets(st.builds(lambda stone: stone.name, STONES), max_size=2),
    alive=st.frozensets(PEERS),
    shown=st.dictionaries(PEERS, SETS),
    held_as=st.dictionaries(PEERS, st.frozensets(MEMBERSHIPS, max_size=2)),
    today=st.just(TODAY),
)


@given(FACTS)
def test_what_was_taken_back_never_returns(facts: FarewellFacts) -> None:
    """By its deletion, by another tombstone, or by a Cluster."""
    lost = find_lost_farewell(facts)
    if lost is not None:
        assert not facts.has_cluster
        assert not facts.stored
        assert lost.name not in facts.withdrawn


@given(FACTS)
def test_members_alone_end_no_membership_that_another_member_knows(facts: FarewellFacts) -> None:
    """Nor one that this daemon has seen, nor before all live members are known."""
    lost = find_lost_farewell(facts)
    if lost is None or lost in facts.seen:
        return
    assert not facts.saw_cluster
    assert facts.alive <= facts.shown.keys() & facts.held_as.keys()
    assert any(lost in stones for stones in facts.shown.values())
    for peer, memberships in facts.held_as.items():
        assert memberships <= {lost.membership}
        assert not memberships or lost.name in {stone.name for stone in facts.shown.get(peer, ())}


@given(FACTS)
def test_what_this_daemon_saw_and_was_not_taken_back_stands_whatever_members_show(facts: FarewellFacts) -> None:
    facts = facts._replace(has_cluster=False, stored=frozenset(), withdrawn=frozenset())
    lost = find_lost_farewell(facts)
    if facts.seen:
        assert lost in facts.seen
        assert lost == find_lost_farewell(facts._replace(shown={}, held_as={}))
