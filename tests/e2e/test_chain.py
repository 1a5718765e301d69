"""A chain of six clusters."""

from __future__ import annotations

import itertools

import pytest

from hack.controlplane import Group
from tests.e2e.group import holding_invariants, in_sync, start_members, swap

pytestmark = pytest.mark.nightly


def test_six_clusters_form_a_group_by_a_chain_of_swaps() -> None:
    """O4, O7, P9: each swaps with the next one only."""
    with Group(6, prefix="six") as group, holding_invariants() as members:
        members += start_members(group)
        for one, other in itertools.pairwise(members):
            swap(one, other)
        in_sync(members)
