"""All errors of a rule that cannot be read."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.core.rules.read_errors import find_all_problems
from registry_controller.core.rules.validation import find_problems

RULE: Mapping[str, Any] = {
    "apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1",
    "kind": "ResourceSyncRule",
    "metadata": {"name": "r"},
    "spec": {
        "groupVersionKind": {"version": "v1", "kind": "ConfigMap"},
        "clusterFeatureMatch": [{"featureName": "f"}],
        "rules": [
            {
                "match": [
                    {
                        "objectKey": {"name": "x", "namespace": "y"},
                        "labels": [
                            {
                                "matchLabels": {"a": "b"},
                                "matchExpressions": [
                                    {"key": "k", "operator": "In", "values": ["v"]},
                                    {"key": "l", "operator": "Exists"},
                                ],
                            }
                        ],
                        "content": [{"key": "data.a", "value": "b"}],
                        "namespaces": ["y"],
                    }
                ],
                "mutations": {
                    "labels": {"add": {"a": "b"}},
                    "overrides": [
                        {"type": "replace", "path": "/data/a", "value": "b"},
                        {"type": "remove", "path": "/data/c"},
                    ],
                },
            }
        ],
    },
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MATCH = ("spec", "rules", 0, "match", 0)
MISTAKES: Mapping[tuple[str | int, ...], Any] = {
    ("spec", "clusterFeatureMatch"): 3,
    (*MATCH, "objectKey", "name"): False,
    (*MATCH, "labels", 0, "matchLabels", "a"): 1,
    (*MATCH, "labels", 0, "matchExpressions", 0, "values"): [],
    (*MATCH, "labels", 0, "matchExpressions", 1, "operator"): "Is",
    (*MATCH, "content", 0, "value"): {},
    (*MATCH, "namespaces", 0): "app-*",
    ("spec", "rules", 0, "mutations", "labels", "add", "a"): 5,
    ("spec", "rules", 0, "mutations", "overrides", 0, "type"): "set",
    ("spec", "rules", 0, "mutations", "overrides", 1, "path"): "data",
}


def with_mistakes(*paths: tuple[str | int, ...], value: Any = ...) -> dict[str, Any]:
    rule: dict[str, Any] = copy.deepcopy(dict(RULE))
    for path in paths:
        holder: Any = rule
        for part in path[:-1]:
            holder = holder[part]
        holder[path[-1]] = MISTAKES[path] if value is ... else value
    return rule


@pytest.mark.parametrize("path", MISTAKES, ids=lambda path: ".".join(map(str, path)))
def test_each_mistake_is_found_beside_all_others(path: tuple[str | int, ...]) -> None:
    alone = {str(finding) for finding in find_problems(with_mistakes(path))[1]}
    assert alone <= {str(finding) for finding in find_all_problems(with_mistakes(*MISTAKES))}
    assert alone


def test_a_mistake_causes_no_second_one() -> None:
    for path in MISTAKES:
        alone = find_problems(with_mistakes(path))[1]
        assert [str(finding) for finding in find_all_problems(with_mistakes(path))] == list(map(str, alone)), path


@given(st.sampled_from([path[:end] for path in MISTAKES for end in range(2, len(path) + 1)]), JSON)
def test_the_first_error_is_that_of_the_reader(path: tuple[str | int, ...], value: object) -> None:
    rule = with_mistakes(path, value=value)
    expected, found = find_problems(rule)[1], find_all_problems(rule)
    assert [str(one) for one in found[:1]] == [str(one) for one in expected[:1]]
    assert len(found) == len({str(one) for one in found})
