"""Laws of the clusters that an object names: who is named, who is not, and what cannot be read. W9."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.api.cluster import ClusterIdentity
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.api.syncrule import read_rule
from registry_controller.core.rules.active import ActiveRule, activate
from registry_controller.core.rules.destinations import MOST_CHARACTERS, is_unreadable, read_destinations
from registry_controller.core.rules.mismatch import find_destination_mismatch

OWNER, KEY = ClusterUID("owner"), ObjectKey("default", "x")
LABELS = st.dictionaries(st.sampled_from(("env", "zone", "x.io/tier")), st.sampled_from(("", "prod", "test")))
NAMES = st.lists(st.sampled_from(("a", "b", "c.d", "nowhere")), max_size=4)
SPACES = st.sampled_from(("", " ", "  "))


@dataclass(frozen=True)
class Wanted:
    """A requirement: its text, and what it means."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "missing":
                return f"!{self.key}"
            case "=" | "==" | "!=":
                return f"{self.key}{self.operator}{self.values[0]}"
            case _:
                return f"{self.key} {self.operator} ({','.join(self.values)})"

    def holds(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        match self.operator:
            case "exists":
                return found is not None
            case "missing":
                return found is None
            case "!=" | "notin":
                return found not in self.values
            case _:
                return found in self.values


@st.composite
def requirements(draw: st.DrawFn) -> Wanted:
    operator = draw(st.sampled_from(("exists", "missing", "=", "==", "!=", "in", "notin")))
    values = draw(st.lists(st.sampled_from(("prod", "test", "old")), min_size=1, max_size=3))
    return Wanted(draw(st.sampled_from(("env", "zone", "x.io/tier"))), operator, tuple(values))


SELECTORS = st.lists(requirements(), max_size=3)


@dataclass(frozen=True)
class Object:
    """An object whose body nobody may need."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    key: ObjectKey = KEY
    kind_type: str = ""


def annotate(names: list[str] | None, selector: list[Wanted] | None, *, space: str = "") -> dict[str, str]:
    found = {}
    if names is not None:
        found[meta.TARGET_CLUSTERS] = f"{space},{space}".join(names)
    if selector is not None:
        found[meta.TARGET_CLUSTER_SELECTOR] = f"{space},{space}".join(one.text for one in selector)
    return found


def asking(own: ClusterIdentity | None, *, requires: bool = True, match: list[Any] | None = None) -> ActiveRule:
    entries = [{"match": [{}] if match is None else match}]
    spec: dict[str, Any] = {"groupVersionKind": {"version": "v1", "kind": "ConfigMap"}, "rules": entries}
    spec |= {"objectTargets": "Required"} if requires else {}
    return activate(read_rule({"metadata": {"name": "r"}, "spec": spec}), created_at="", owner=OWNER).with_own(own)


def no_body() -> Any:
    raise AssertionError("no body is decoded for annotations")


@given(st.none() | NAMES, st.none() | SELECTORS, st.sampled_from(("a", "b", "c.d")), LABELS, SPACES)
def test_a_cluster_is_named_if_both_annotations_that_are_there_hold(
    names: list[str] | None, selector: list[Wanted] | None, name: str, labels: dict[str, str], space: str
) -> None:
    own, annotations = ClusterIdentity(name, labels), annotate(names, selector, space=space)
    is_any = (names is not None or selector is not None) and names != [] and selector != []
    is_named = is_any and (names is None or name in names)
    is_named = is_named and (selector is None or all(one.holds(labels) for one in selector))
    assert read_destinations(annotations).include(own) is is_named
    hit = asking(own).evaluate(Object(annotations), no_body, owner=OWNER)
    assert (hit is not None) is is_named
    assert hit is None or hit.named == own
    assert (find_destination_mismatch(asking(own).rule, Object(annotations), own) is None) is is_named


@given(st.none() | NAMES, st.none() | SELECTORS, LABELS)
def test_the_order_and_doubles_of_names_and_requirements_mean_nothing(
    names: list[str] | None, selector: list[Wanted] | None, labels: dict[str, str]
) -> None:
    own = ClusterIdentity("a", labels)
    turned = annotate(names and [*reversed(names), *names], selector and [*reversed(selector), *selector])
    assert read_destinations(turned).include(own) is read_destinations(annotate(names, selector)).include(own)


@given(NAMES, LABELS, LABELS)
def test_names_alone_do_not_depend_on_labels(names: list[str], one: dict[str, str], other: dict[str, str]) -> None:
    found = read_destinations(annotate(names, None))
    assert found.include(ClusterIdentity("a", one)) is found.include(ClusterIdentity("a", other))


TEXTS = st.text(st.sampled_from("ab=!,() in\t-./\u00e9\x00"), max_size=30) | st.text(max_size=30)


@given(st.none() | TEXTS, st.none() | TEXTS, LABELS)
def test_any_text_is_read_or_is_an_error_with_its_annotation_and_never_means_no(
    names: str | None, selector: str | None, labels: dict[str, str]
) -> None:
    """W1: a rule that matches the object otherwise has an error, and so has the explanation."""
    said = {meta.TARGET_CLUSTERS: names, meta.TARGET_CLUSTER_SELECTOR: selector}
    annotations = {key: text for key, text in said.items() if text is not None}
    own = ClusterIdentity("a", labels)
    error: InvalidObject | None = None
    try:
        found = read_destinations(annotations)
    except InvalidObject as raised:
        error = raised
    if error is not None:
        assert is_unreadable(error)
        with pytest.raises(InvalidObject):
            asking(own).evaluate(Object(annotations), no_body, owner=OWNER)
        with pytest.raises(InvalidObject):
            find_destination_mismatch(asking(own).rule, Object(annotations), own)
        other = asking(own, match=[{"objectKey": {"name": "another"}}])
        assert other.evaluate(Object(annotations), no_body, owner=OWNER) is None
    else:
        hit = asking(own).evaluate(Object(annotations), no_body, owner=OWNER)
        assert (hit is not None) is found.include(own)


@given(TEXTS, st.sampled_from((meta.TARGET_CLUSTERS, meta.TARGET_CLUSTER_SELECTOR)))
def test_a_rule_that_does_not_ask_matches_with_any_annotation(text: str, key: str) -> None:
    own = ClusterIdentity("b", {})
    hit = asking(own, requires=False).evaluate(Object({key: text}), no_body, owner=OWNER)
    assert hit is not None
    assert hit.named is None


@given(LABELS, LABELS)
def test_a_rule_is_listed_again_when_the_own_cluster_changed_and_it_asks(
    one: dict[str, str], other: dict[str, str]
) -> None:
    before, after = ClusterIdentity("a", one), ClusterIdentity("a", other)
    assert (asking(before).identity == asking(after).identity) is (one == other)
    assert asking(before, requires=False).identity == asking(after, requires=False).identity


@pytest.mark.parametrize("text", ["a" * MOST_CHARACTERS, "a," * MOST_CHARACTERS, "(" * MOST_CHARACTERS])
@pytest.mark.parametrize("key", [meta.TARGET_CLUSTERS, meta.TARGET_CLUSTER_SELECTOR])
def test_a_text_that_is_too_long_or_no_name_is_an_error(key: str, text: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        read_destinations({key: text})
    assert len(str(caught.value)) < 300


def test_the_body_of_an_object_that_names_other_clusters_is_not_decoded() -> None:
    """Also where the rule asks for content, which may be one that cannot be evaluated."""
    asked = asking(ClusterIdentity("a", {}), match=[{"content": [{"key": "data.n", "value": "1"}]}])
    for said in ({meta.TARGET_CLUSTERS: "b"}, {}, {meta.TARGET_CLUSTER_SELECTOR: "env=prod"}):
        assert asked.evaluate(Object(said), no_body, owner=OWNER) is None
    named = asked.evaluate(Object({meta.TARGET_CLUSTERS: "a"}), lambda: {"data": {"n": "1"}}, owner=OWNER)
    assert named is not None


def test_while_the_own_cluster_is_unknown_nothing_matches() -> None:
    assert asking(None).evaluate(Object({meta.TARGET_CLUSTERS: "a"}), no_body, owner=OWNER) is None


def test_a_registry_secret_is_never_matched() -> None:
    secret = Object({meta.TARGET_CLUSTERS: "a"}, kind_type=meta.REGISTRY_SECRET_TYPE)
    own = ClusterIdentity("a", {})
    assert asking(own).evaluate(secret, no_body, owner=OWNER) is None
    assert find_destination_mismatch(asking(own).rule, secret, own) is not None
