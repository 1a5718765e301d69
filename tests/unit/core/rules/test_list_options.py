"""R1: what is asked of a server."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.api.syncrule import read_rule
from registry_controller.core.rules.list_options import build_selections, join_selections


class Text(str):
    """A text that counts how often it is compared with another one."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Text.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def select(*matches: dict[str, Any], kind: str = "Secret", namespaced: bool = True) -> tuple[Selection, ...]:
    spec = {"groupVersionKind": {"version": "v1", "kind": kind}, "rules": [{"match": list(matches)}]}
    return build_selections(read_rule({"metadata": {"name": "r"}, "spec": spec}), namespaced=namespaced)


def expression(operator: str, *values: str, key: str = "a") -> dict[str, Any]:
    found: dict[str, Any] = {"key": key, "operator": operator}
    return {"labels": [{"matchExpressions": [{**found, "values": list(values)} if values else found]}]}


@pytest.mark.parametrize(
    ("match", "selection"),
    [
        ({"objectKey": {"name": "one"}}, Selection("", "", "metadata.name=one")),
        ({"objectKey": {"name": "one", "namespace": "a"}}, Selection("a", "", "metadata.name=one")),
        ({"objectKey": {"name": "a,b=c"}}, EVERYTHING),
        ({"objectKey": {"namespace": "a/../b"}}, EVERYTHING),
        ({"namespaces": ["a"]}, Selection("a")),
        ({"namespaces": [""]}, EVERYTHING),
        ({"objectKey": {"namespace": "a"}, "namespaces": ["b"]}, Selection("a")),
        ({"labels": [{"matchLabels": {"b": "2", "a": "1"}}]}, Selection("", "a=1,b=2")),
        ({"labels": [{"matchLabels": {"a": "1"}}, {"matchLabels": {"b": "2"}}]}, EVERYTHING),
        ({"labels": [{"matchLabels": {"a": "no label value", "b": "2"}}]}, Selection("", "b=2")),
        (expression("In", "1"), Selection("", "a=1")),
        (expression("In", "2", "1"), Selection("", "a in (1,2)")),
        (expression("In", "", "1"), EVERYTHING),
        (expression("NotIn", "1"), Selection("", "a!=1")),
        (expression("NotIn", "2", "1"), Selection("", "a notin (1,2)")),
        (expression("Exists", key="x.y/a"), Selection("", "x.y/a")),
        (expression("DoesNotExist"), Selection("", "!a")),
        (expression("Exists", key="a,b"), EVERYTHING),
        (expression("In", *(f"value-{number}" for number in range(300))), EVERYTHING),
        ({"annotations": [{"matchAnnotations": {"a": "1"}}]}, EVERYTHING),
        ({"content": [{"key": "type", "value": "kubernetes.io/tls"}]}, Selection("", "", "type=kubernetes.io/tls")),
        ({"content": [{"key": "type", "value": 0}]}, EVERYTHING),
        ({"content": [{"key": "data.a", "value": "1"}]}, EVERYTHING),
        (
            {"objectKey": {"name": "a"}, "content": [{"key": "type", "value": "Opaque"}]},
            Selection("", "", "metadata.name=a,type=Opaque"),
        ),
        ({}, EVERYTHING),
    ],
)
def test_a_match_is_narrowed_only_where_the_query_says_the_same(match: dict[str, Any], selection: Selection) -> None:
    assert select(match) == (selection,)


def test_the_type_is_a_field_of_secrets_alone() -> None:
    assert select({"content": [{"key": "type", "value": "a"}]}, kind="ConfigMap") == (EVERYTHING,)


def test_each_namespace_is_asked_for_by_itself_up_to_a_limit() -> None:
    assert select({"namespaces": ["b", "a", "b"]}) == (Selection("a"), Selection("b"))
    named = {"objectKey": {"name": "x"}, "namespaces": [f"n{number}" for number in range(17)]}
    assert select(named) == (Selection("", "", "metadata.name=x"),)


def test_a_kind_without_namespaces_is_not_asked_for_by_namespace() -> None:
    assert select({"namespaces": ["a", "b"]}, kind="Node", namespaced=False) == (EVERYTHING,)


def test_a_rule_with_no_match_asks_for_everything_and_one_with_no_rules_for_nothing() -> None:
    assert select() == (EVERYTHING,)
    gvk = {"version": "v1", "kind": "Secret"}
    assert build_selections(read_rule({"metadata": {}, "spec": {"groupVersionKind": gvk, "rules": []}})) == ()


def test_what_a_wider_selection_contains_is_left_out() -> None:
    assert join_selections([Selection("a"), EVERYTHING, Selection("", "x=1")]) == (EVERYTHING,)
    assert join_selections([Selection("a", "x=1"), Selection("a"), Selection("b", "x=1")]) == (
        Selection("a"),
        Selection("b", "x=1"),
    )
    assert join_selections([Selection("b"), Selection("a"), Selection("b")]) == (Selection("a"), Selection("b"))


def test_too_many_selections_become_one_over_everything() -> None:
    assert join_selections(Selection("", "", f"metadata.name=n{number}") for number in range(33)) == (EVERYTHING,)


def _compared(count: int) -> int:
    Text.compared = 0
    chosen = [Selection(Text(f"n{number}"), Text("x=1"), Text(f"metadata.name={number}")) for number in range(count)]
    assert join_selections(chosen) == (EVERYTHING,)
    return Text.compared


def test_the_selections_of_a_large_rule_are_not_compared_in_pairs() -> None:
    assert _compared(4000) <= 3 * _compared(2000) + 1000
    assert _compared(4000) <= 20 * 4000


def test_many_narrow_selections_within_a_wide_one_stay_one_within_it() -> None:
    """Giving up early would ask for more than the rule needs, which may not be allowed."""
    assert join_selections(
        [Selection("a"), *(Selection("a", "", f"metadata.name={number}") for number in range(500))]
    ) == (Selection("a"),)
