"""Which Cluster objects of one ID lead to clones. P1."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from registry_controller.clusters.resolver import find_clones

A, B, BOTH, OTHER = frozenset("a"), frozenset("b"), frozenset("ab"), frozenset("x")


@pytest.mark.parametrize(
    ("told", "were", "clones"),
    [
        ({"a": A}, "", ""),
        ({"a": A}, "ab", ""),
        ({"a": A, "b": B}, "", "ab"),
        ({"a": A, "b": A}, "", ""),
        ({"a": A, "b": A}, "ab", ""),
        ({"a": BOTH, "b": BOTH}, "ab", ""),
        ({"a": A, "b": BOTH}, "", "ab"),
        ({"a": A, "b": frozenset()}, "ab", ""),
        ({"a": A, "b": None}, "", ""),
        ({"a": A, "b": None}, "ab", "ab"),
        ({"a": None, "b": None}, "", ""),
        ({"a": None, "b": None}, "ab", "ab"),
        ({"a": None, "b": None, "c": None}, "ab", "ab"),
        ({"a": A, "b": OTHER, "c": None}, "abc", "abc"),
        ({"a": A, "b": OTHER}, "ab", "ab"),
        ({"a": A, "b": OTHER}, "", ""),
        ({"a": A, "b": B, "c": A}, "ab", "ab"),
        ({"a": A, "b": B, "c": A}, "abc", "abc"),
        ({"a": None, "c": None}, "a", ""),
    ],
    ids=[
        "alone",
        "the other one went",
        "clones",
        "an alias",
        "an alias after all",
        "one server of two names",
        "a clone that kept the Cluster of the other",
        "b leads to another cluster now",
        "not asked yet",
        "a clone that is silent",
        "nobody was asked yet",
        "both are silent",
        "both are silent, and a third is new",
        "b was renamed, c is silent",
        "b was renamed",
        "b calls itself by another name from the beginning",
        "clones and an alias",
        "clones, and another way to one of them, after a restart",
        "an alias beside what was a clone",
    ],
)
def test_p1_clones_are_those_that_differ_and_the_silent_are_what_they_were(
    told: Mapping[str, frozenset[str] | None], were: str, clones: str
) -> None:
    assert find_clones(told, were=frozenset(were)) == frozenset(clones)
