"""A7: by which state of a rule this daemon works, and whether another one has a later one."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID
from registry_controller.api.provenance import RuleGeneration
from registry_controller.cache.registry import Registry

RULES = meta.RULES.resource


def made(revision: int, *, generation: int) -> dict[str, Any]:
    return {
        "apiVersion": f"{meta.GROUP}/{meta.VERSION}",
        "kind": "ResourceSyncRule",
        "metadata": {"name": "maps", "uid": "u", "resourceVersion": str(revision), "generation": generation},
        "spec": {"groupVersionKind": {"version": "v1", "kind": "ConfigMap"}, "rules": [{"match": [{}]}]},
    }


def registry(window_s: float = 0.0) -> Registry:
    return Registry(local=ClusterUID("local"), on_change=lambda *_: None, window_s=window_s, now_s=lambda: 0.0)


def test_each_event_of_a_rule_shows_its_object_and_its_generation() -> None:
    held = registry()
    for revision, generation in ((3, 1), (5, 1), (6, 2)):
        held.apply(RULES, "MODIFIED", made(revision, generation=generation))
        assert held.rules["maps"].generation == RuleGeneration("u", generation)
    held.apply(RULES, "DELETED", made(7, generation=2))
    assert not held.is_behind("maps", RuleGeneration("u", 3), written_at=9)


def test_a_daemon_is_behind_until_it_hears_of_the_state_that_a_copy_names() -> None:
    held = registry()
    held.apply(RULES, "ADDED", made(3, generation=1))
    assert not held.is_behind("maps", RuleGeneration("u", 1), written_at=9)
    assert held.is_behind("maps", RuleGeneration("u", 2), written_at=9)
    held.apply(RULES, "MODIFIED", made(5, generation=2))
    assert not held.is_behind("maps", RuleGeneration("u", 2), written_at=9)


def test_a_list_since_the_copy_was_written_shows_the_rule_as_it_is() -> None:
    """As after the restore of an etcd: the copy may name a state that this history does not have."""
    held = registry()
    held.replace(RULES, [made(3, generation=1)], revision=8)
    assert held.is_behind("maps", RuleGeneration("u", 2), written_at=9)
    held.replace(RULES, [made(3, generation=1)], revision=9)
    assert not held.is_behind("maps", RuleGeneration("u", 2), written_at=9)


def test_another_object_of_the_name_is_no_earlier_state_and_neither_is_a_missing_one() -> None:
    held = registry()
    assert not held.is_behind("maps", RuleGeneration("u", 2), written_at=9)
    held.apply(RULES, "ADDED", made(3, generation=1))
    assert not held.is_behind("maps", RuleGeneration("another", 2), written_at=9)


@pytest.mark.parametrize("shown", ["by an event", "by a list"])
def test_a_rule_that_went_acts_in_the_earlier_generation_in_which_it_was_known(shown: str) -> None:
    """Its last edit may not have been heard of; no list since then can show the rule as it is."""
    held = registry(window_s=30.0)
    held.replace(RULES, [made(3, generation=1)], revision=8)
    if shown == "by an event":
        held.apply(RULES, "DELETED", made(12, generation=2))
    else:
        held.replace(RULES, [], revision=12)
    assert "maps" in held.acting
    assert held.is_behind("maps", RuleGeneration("u", 2), written_at=9)
    assert not held.is_behind("maps", RuleGeneration("u", 1), written_at=9)
