"""Content as Go spells it: what the oracle showed to differ once."""

from typing import Any

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.api.syncrule import ContentMatch
from registry_controller.core.rules.content import content_matches, find_value
from registry_controller.core.rules.gjson import compile_path


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 80.0}, '{"a":80}'),
        ([0.0, -0.0], "[0,-0]"),
        ([6.533482271193123e16], "[65334822711931230]"),
        ([1e20, 1e21], "[100000000000000000000,1e+21]"),
        ([1e-5, 1e-6, 1e-7, 5e-324], "[0.00001,0.000001,1e-7,5e-324]"),
        (1e-7, "0.0000001"),
        ({"b": None, "a": [True, {}]}, '{"a":[true,{}],"b":null}'),
        (["\u2028\u2029<>&é"], '["\\u2028\\u2029\\u003c\\u003e\\u0026é"]'),
        ("\u2028<", "\u2028<"),
    ],
)
def test_a_value_is_spelled_as_go_spells_it(value: Any, text: str) -> None:
    assert content_matches(ContentMatch("a", text, "p"), {"a": value})


@pytest.mark.parametrize(
    ("key", "position"),
    [
        (r"a\.[b]", 4),
        (r"a\.@this", 4),
        (r"a\.{b}", 4),
        (r"a\.!b", 4),
        ('a.#(b=="~true")', 9),
    ],
)
def test_what_gjson_takes_for_something_else_under_an_array_is_refused(key: str, position: int) -> None:
    with pytest.raises(InvalidObject, match=rf"^p: character {position}: "):
        compile_path(key, path="p")


def test_a_key_with_an_escaped_dot_and_an_escaped_sign_is_found() -> None:
    assert content_matches(ContentMatch(r"a\.\@b", "x", "p"), {"a.@b": "x"})


def test_only_what_gjson_trims_is_trimmed_from_an_operand() -> None:
    document = {"a": [{"b": "x"}, {"b": "\u2028"}]}
    assert content_matches(ContentMatch("a.#(b == \u2028).b", "\u2028", "p"), document)


@pytest.mark.parametrize(
    ("key", "held", "is_found"),
    [
        ('a.#(b=="")', "", False),
        ('a.#(b=="")', '""', True),
        ("a.#(b==)", "", True),
        ('a.#(b!="")', "", True),
        ("a.#(b==Infinity)", 0, False),
        ("a.#(b<inf)", 3, True),
        ("a.#(b==0x1p2)", 4, True),
        ("a.#(b==nonsense)", 0, True),
    ],
)
def test_what_a_query_compares_with_is_read_as_gjson_reads_it(key: str, held: Any, is_found: bool) -> None:
    """An empty text in quotes is two quotation marks, and numbers are those of Go's ParseFloat."""
    assert find_value({"a": [{"b": held}]}, compile_path(key, path="p"))[0] is is_found
