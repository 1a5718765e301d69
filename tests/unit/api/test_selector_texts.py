"""Label selectors as texts, as kubectl takes them."""

from __future__ import annotations

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.api.selectors import parse_selector


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("  ", {"a": "1"}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("! a", {"a": "1"}, False),
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a=", {"a": ""}, True),
        ("a!=1", {}, True),
        ("a != 1", {"a": "1"}, False),
        ("a in (1,2)", {"a": "2"}, True),
        ("a in ( 1 , 2 )", {"a": "3"}, False),
        ("a notin (1,2)", {"a": "3"}, True),
        ("a notin (1,2)", {}, True),
        ("a in (1,2),b=3", {"a": "1", "b": "3"}, True),
        ("a in (1,2),b=3", {"a": "1"}, False),
        ("app.kubernetes.io/name=web,!canary", {"app.kubernetes.io/name": "web"}, True),
        ("in=1", {"in": "1"}, True),
    ],
)
def test_a_text_selects_as_in_kubernetes(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_selector(text).matches(labels) is matches


@pytest.mark.parametrize("text", ["a in", "a=1,,b=2", "a in 1", "=1", "a>1", "a in (1", "a b", ",", "-a=1", "a=b c"])
def test_another_text_is_refused_with_the_requirement(text: str) -> None:
    with pytest.raises(InvalidObject, match="is no requirement"):
        parse_selector(text)
