"""Which own tombstones were lost, and are created again. O6."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone
from registry_controller.core.decision.own_tombstone import FarewellFacts, find_lost_farewell

pytestmark = pytest.mark.clause("O6")

US, A, C = ClusterUID("us"), ClusterUID("a"), ClusterUID("c")
TODAY = date(2026, 5, 1)
NOBODY: frozenset[str] = frozenset()


def stone(membership: str = "m", *, days: int = 80) -> Tombstone:
    return Tombstone(US, membership, US, TODAY + timedelta(days=days))


FAREWELL = stone()


def facts(**more: Any) -> FarewellFacts:
    """A daemon that starts without a Cluster of its own, and two members, one of which shows the farewell."""
    found = FarewellFacts(
        has_cluster=False,
        saw_cluster=False,
        stored=frozenset(),
        seen=frozenset(),
        withdrawn=NOBODY,
        alive=frozenset({A, C}),
        shown={A: frozenset({FAREWELL}), C: frozenset()},
        held_as={A: NOBODY, C: NOBODY},
        today=TODAY,
    )
    return found._replace(**more)


BELIEVED = {
    "one member shows it": facts(),
    "the member that shows it has not removed this cluster yet": facts(held_as={A: frozenset({"m"}), C: NOBODY}),
    "its last day was a month ago": facts(shown={A: frozenset({stone(days=-30)}), C: frozenset()}),
    "this daemon saw it here": facts(shown={}, held_as={}, seen=frozenset({FAREWELL})),
    "and saw the Cluster that it ended": facts(seen=frozenset({FAREWELL}), saw_cluster=True),
}


@pytest.mark.parametrize("found", BELIEVED.values(), ids=BELIEVED.keys())
def test_a_farewell_that_was_lost_is_created_again(found: FarewellFacts) -> None:
    lost = find_lost_farewell(found)
    assert lost is not None
    assert lost.name == FAREWELL.name


DOUBTED = {
    "no member shows it": facts(shown={A: frozenset(), C: frozenset()}),
    "it is here": facts(stored=frozenset({FAREWELL})),
    "another one is here": facts(stored=frozenset({stone("other")})),
    "this cluster is a member again": facts(has_cluster=True),
    "it was, and its Cluster was lost": facts(saw_cluster=True),
    "it was withdrawn": facts(withdrawn=frozenset({FAREWELL.name})),
    "it was seen here and withdrawn": facts(seen=frozenset({FAREWELL}), withdrawn=frozenset({FAREWELL.name})),
    "a member has this cluster with another membership": facts(held_as={A: NOBODY, C: frozenset({"n"})}),
    "the member that shows it has another membership": facts(held_as={A: frozenset({"n"}), C: NOBODY}),
    "a member has an unknown membership": facts(held_as={A: NOBODY, C: frozenset({""})}),
    "a member has this cluster, and does not show it": facts(held_as={A: NOBODY, C: frozenset({"m"})}),
    "the Clusters of a live member are unknown": facts(held_as={A: NOBODY}),
    "the features of a live member are unknown": facts(shown={A: frozenset({FAREWELL})}),
    "it names no membership": facts(shown={A: frozenset({stone("")}), C: frozenset()}),
    "its time is over": facts(shown={A: frozenset({stone(days=-31)}), C: frozenset()}),
    "no clock made it": facts(shown={A: frozenset({stone(days=98)}), C: frozenset()}),
}


@pytest.mark.parametrize("found", DOUBTED.values(), ids=DOUBTED.keys())
def test_a_farewell_that_is_doubtful_is_not(found: FarewellFacts) -> None:
    assert find_lost_farewell(found) is None
