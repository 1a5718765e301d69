"""The ClusterFeatures and Clusters of a peer, whatever the rules select. O6, P9."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api import names as own_names
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.cache.definition_state import DefinitionState
from registry_controller.cache.members import Members
from registry_controller.cache.peer_objects import PeerClusters, PeerFeatures, PeerObjects

PEER = ClusterUID("peer")


def hear(tap: PeerObjects, name: str) -> None:
    obj: Any = SimpleNamespace(key=ObjectKey("", name), annotations={}, labels={})
    spec = {"clusterID": f"id of {name}", "featureName": name}
    tap.upsert(obj, lambda: {"metadata": {"name": name}, "spec": spec})


def names(tap: PeerClusters | PeerFeatures) -> list[str]:
    held = tap.held
    assert held is not None
    return sorted(held) if isinstance(tap, PeerClusters) else sorted(feature.name for feature in tap.held or ())


def test_objects_stay_over_a_break_until_the_next_list_lacks_them() -> None:
    told: list[str] = []
    taps = (
        PeerClusters(PEER, members=Members(on_change=lambda _: None), changed=lambda: told.append("clusters")),
        PeerFeatures(changed=lambda: told.append("features")),
    )
    for tap in taps:
        assert (tap.held, tap.is_current) == (None, False)
        hear(tap, "a")
        hear(tap, "b")
        tap.complete()
        assert tap.is_current
        told.clear()
        tap.reset()
        assert (names(tap), tap.is_current) == (["a", "b"], False)
        hear(tap, "b")
        tap.remove(ObjectKey("", "a"))
        assert (names(tap), tap.is_current) == (["b"], False)
        tap.complete()
        assert (names(tap), tap.is_current) == (["b"], True)
        for state in (DefinitionState.UNKNOWN, DefinitionState.GOING):
            tap.on_definition(state)
            assert not tap.is_current
            tap.on_definition(DefinitionState.THERE)
            assert tap.is_current
        tap.on_definition(DefinitionState.NEXT)
        assert not tap.is_current, "the watch may be of the former definition"
        tap.complete()
        assert tap.is_current
        assert told
        tap.remove(ObjectKey("", "b"))
        assert names(tap) == []


@pytest.mark.parametrize(
    "told",
    [
        {"metadata": {"name": "a", "labels": {f"l{number}": "x" for number in range(65)}}},
        {"metadata": {"name": "a", "labels": {"l": "x" * 5000}}},
        {"metadata": {"name": "a"}, "spec": {"featureName": "x" * 5000}},
    ],
    ids=["labels", "a label", "a name"],
)
def test_a_feature_with_more_in_it_than_any_has_is_none(told: dict[str, Any]) -> None:
    tap = PeerFeatures(changed=lambda: None)
    obj: Any = SimpleNamespace(key=ObjectKey("", "a"), annotations={}, labels={})
    tap.upsert(obj, lambda: {"spec": {"featureName": "a"}, **told})
    tap.complete()
    assert tap.held == ()


@pytest.mark.clause("A11")
def test_features_that_a_later_version_wrote_are_named() -> None:
    told: list[str] = []
    tap = PeerFeatures(changed=lambda: told.append("changed"))

    def show(name: str, number: int, labels: dict[str, str]) -> None:
        text = f'{{"format":{number},"rules":[]}}'
        obj: Any = SimpleNamespace(key=ObjectKey("", name), annotations={meta.DELETED_RULES: text}, labels=labels)
        feature = own_names.LEFT_FEATURE if labels else name
        tap.upsert(obj, lambda: {"metadata": {"name": name, "labels": labels}, "spec": {"featureName": feature}})

    show("left-x", 1, {meta.LEFT_FORMAT: "2"})
    assert tap.later is None
    tap.complete()
    assert tap.later == ["left-x"]
    show(own_names.DELETED_RULES_OBJECT, 1, {})
    assert tap.later == ["left-x"]
    told.clear()
    show(own_names.DELETED_RULES_OBJECT, 2, {})
    assert (tap.later, told) == ([own_names.DELETED_RULES_OBJECT, "left-x"], ["changed"])
    tap.remove(ObjectKey("", "left-x"))
    show(own_names.DELETED_RULES_OBJECT, 1, {})
    assert tap.later == []
