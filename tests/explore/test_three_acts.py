"""Three acts of chosen kinds, in every order. All kinds at once take too long for a test: `hack/explore` searches them.

Every set is searched completely. Together they have each act with the faults of daemons and ways, and the acts that end
memberships with each other.
"""

from __future__ import annotations

import pytest

from tests.explore.search import COMPLETE, Search

_AT_MOST_S = 240.0


@pytest.mark.parametrize(
    "kinds",
    [
        "leave,swap",
        "cut,heal,crash,restart,declare",
        "leave,declare,cut,crash",
        "rotate,cut,crash",
        "rule,unrule,cut,crash",
    ],
)
def test_every_order_of_three_acts_keeps_the_laws(kinds: str) -> None:
    """O5, O6, P3, W3: who is silent, or does not hear, loses nothing, and is not lost."""
    found = Search(acts=3, kinds=kinds.split(",")).run(at_most_s=_AT_MOST_S)
    assert (found.broken, found.ended_by) == (None, COMPLETE), found
