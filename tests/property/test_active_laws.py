"""Laws of what must be watched here for the rules that write here."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.meta import GVK, ClusterUID
from registry_controller.api.selection import EVERYTHING
from registry_controller.api.syncrule import read_rule
from registry_controller.core.mutation.mutate import get_copy_kind
from registry_controller.core.rules.active import ActiveRule, activate, list_target_kinds

VERSIONS = [GVK(group, version, kind) for group in ("", "g") for version in ("v1", "v2", "v3") for kind in ("A", "B")]
KINDS = st.sampled_from(VERSIONS)
MATCHES = st.sampled_from([{}, {"namespaces": ["a"]}, {"namespaces": ["a", "b"]}, {"namespaces": ["c"]}])


def _spelled(kind: GVK) -> dict[str, str]:
    return {name: value for name, value in kind._asdict().items() if value}


@st.composite
def _rules(draw: st.DrawFn) -> list[ActiveRule]:
    rules = []
    for number in range(draw(st.integers(0, 4))):
        entry: dict[str, Any] = {"match": [draw(MATCHES)]}
        if draw(st.booleans()):
            entry["mutations"] = {"groupVersionKind": {"version": draw(KINDS).version}}
        spec = {"groupVersionKind": _spelled(draw(KINDS)), "rules": [entry]}
        rule = read_rule({"metadata": {"name": f"r{number}"}, "spec": spec})
        rules.append(activate(rule, created_at=draw(st.sampled_from("123")), owner=ClusterUID("")))
    return rules


def _what(kind: GVK) -> tuple[str, str]:
    return kind.group, kind.kind


@given(_rules(), st.sets(KINDS), st.none() | st.sets(KINDS))
def test_every_part_that_a_rule_writes_is_watched_in_one_version(
    rules: Sequence[ActiveRule], obj: set[GVK], served: set[GVK] | None
) -> None:
    """R1: whatever versions the others write."""
    found = list_target_kinds(rules, watched=obj, served=served)
    alone = [list_target_kinds([rule]) for rule in rules]
    parts: dict[tuple[str, str], set[object]] = {}
    for kinds in alone:
        for kind, places in kinds.items():
            parts.setdefault(_what(kind), set()).update(places)
    assert {_what(kind): set(places) for kind, places in found.items()} == parts
    assert len(found) == len(parts)
    assert set(found) <= {kind for kinds in alone for kind in kinds}


@given(_rules(), st.randoms(use_true_random=False))
def test_the_order_of_rules_is_no_matter(rules: list[ActiveRule], chance: Any) -> None:
    shuffled = chance.sample(rules, len(rules))
    assert list_target_kinds(shuffled) == list_target_kinds(rules)


@given(_rules(), _rules(), st.sets(KINDS))
def test_a_version_stays_while_a_rule_writes_it_and_it_is_served(
    before: list[ActiveRule], after: list[ActiveRule], served: set[GVK]
) -> None:
    """R1: rules that come and go do not have everything heard anew."""
    obj = list_target_kinds(before, served=served)
    found = list_target_kinds(after, watched=obj, served=served)
    written = {kind for rule in after for kind in list_target_kinds([rule])}
    for kind in found:
        mates = {one for one in written if _what(one) == _what(kind)}
        if stays := mates & set(obj) & served:
            assert {kind} == stays
        assert kind in served or not mates & served


@given(st.lists(st.tuples(st.sampled_from(["", "g", "h"]), st.sampled_from(["", "A", "B"]), st.booleans()), max_size=4))
def test_what_several_entries_make_of_one_source_is_watched(entries: list[tuple[str, str, bool]]) -> None:
    """W1: each may change another part of its kind, or move it."""
    spelled = [
        {
            "match": [{"namespaces": ["a"]}],
            "mutations": {
                "groupVersionKind": {"group": group, "kind": kind},
                "overrides": [{"type": "replace", "path": "/metadata/namespace", "value": "b"}] if moves else [],
            },
        }
        for group, kind, moves in entries
    ]
    spec = {"groupVersionKind": {"group": "s", "version": "v1", "kind": "S"}, "rules": spelled}
    active = activate(read_rule({"metadata": {"name": "r"}, "spec": spec}), created_at="1", owner=ClusterUID(""))
    found = list_target_kinds([active])
    for size in range(1, len(entries) + 1):
        for chosen in itertools.combinations(active.rule.entries, size):
            kind = get_copy_kind(active.rule.kind, chosen)
            assert kind in found
            assert EVERYTHING in found[kind] or not any(entry.mutations.overrides for entry in chosen)
