"""Parsed values, held against yaml.v2 2.4 itself, and what the API machinery then stores of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import event, given, settings
from hypothesis import strategies as st

from registry_controller.api.errors import InvalidObject
from registry_controller.core.mutation.yaml_value import parse_value
from tests.oracle.oracle import is_available, the_oracle

pytestmark = pytest.mark.skipif(not is_available(), reason="the oracle needs Go on the PATH, or TEST_ASSET_ORACLE")

_STRICTER = re.compile(
    r"the same key again|loses digits|JSON has no num|the tag `!`|not text in base64|needs quotes|byte order|or a merge"
)
"""Where we refuse on purpose what yaml.v2 takes."""

_WORDS = (
    *(
        "y",
        "Y",
        "n",
        "yes",
        "Yes",
        "yEs",
        "no",
        "on",
        "ON",
        "off",
        "true",
        "True",
        "tRue",
        "false",
        "null",
        "Null",
        "~",
    ),
    *("", ".nan", ".inf", "-.inf", "+.Inf", ".Infinity", "<<", "=", "1:30", "190:20:30", "1:30.5", "2001-01-01"),
    *("2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43.10 -5", "2001-1-1", "0", "-0", "+0", "00", "017", "0o17"),
    *("08", "0x1F", "0X1f", "0b101", "-0b11", "0b+1", "0b-11", "0b2", "0x", "1_000", "_1", "1__0", "-_1", "1_", "+5"),
    *(
        "1e3",
        "1E3",
        "1e+3",
        "1.e3",
        ".5",
        "5.",
        "+.5",
        "-.5e1",
        "._5",
        "1_0.5",
        "1e400",
        "1e-400",
        "0.1",
        "1.0",
        "-0.0",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
    *("18446744073709551615", "18446744073709551616", "+18446744073709551615", "1e18", "1e19", "123456789.125"),
    *(
        "a",
        "b c",
        "a: b",
        "a:b",
        "- a",
        "-",
        "--",
        "---",
        "...",
        "#",
        "a #b",
        "a#b",
        "?",
        "? a",
        ":",
        "a:",
        "!",
        "@",
        "`",
    ),
    *(
        "%",
        "&",
        "*",
        "'",
        '"',
        "a'b",
        "a\\nb",
        "é",
        "日本",
        "\u00a0",
        "\u2028",
        "\ufeff",
        "😀",
        "{",
        "}",
        "[",
        "]",
        ",",
        "|",
        ">",
    ),
)
_TAGS = ("", "", "", "", "!!str ", "!!int ", "!!float ", "!!bool ", "!!null ", "!!binary ", "!!timestamp ", "!!merge ")
_MORE_TAGS = ("! ", "!x ", "!!map ", "!!seq ", "!!set ", "!<tag:yaml.org,2002:int> ", "!!js/x ")
_ANCHORS = ("", "", "", "", "", "&a ", "&b ")

_numbers = st.from_regex(r"[-+]?(0[xob]?)?[0-9_]{0,4}\.?[0-9_]{0,3}([eE][-+]?[0-9]{1,3})?", fullmatch=True)
_plain = st.one_of(st.sampled_from(_WORDS), _numbers, st.text("abc yYnN01.:-#'\"", max_size=6))
_texts = _plain.filter(lambda text: text != "<<")  # a text `<<` is a merge key once yaml.v2 has written it again
_base64 = st.sampled_from(("aGk=", "aGk", "aG k=", "=", "AAA=", "AAAA=", "AA==BB==", "/w==", "", "YQ=="))
_quoted = st.one_of(
    _texts.map(json.dumps),
    _texts.map(lambda text: "'" + text.replace("'", "''") + "'"),
    st.sampled_from((r'"\x41\u263a\U0001f600\n\t\0\e\_\N\L\P"', r'"\ud800"', r'"\q"', '"a\n  b\n\n  c"', "'a\n  b'")),
)
_properties = st.one_of(
    *[st.just("")] * 5, st.tuples(st.sampled_from(_ANCHORS), st.sampled_from((*_TAGS, *_MORE_TAGS))).map("".join)
)
_scalars = st.builds(str.__add__, _properties, st.one_of(_plain, _plain, _quoted, _base64))
_flow = st.recursive(
    st.one_of(_scalars, st.sampled_from(("*a", "*b", "*a "))),
    lambda inner: st.one_of(
        st.builds(lambda head, items: head + "[" + ", ".join(items) + "]", _properties, st.lists(inner, max_size=3)),
        st.builds(
            lambda head, pairs: head + "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}",
            _properties,
            st.lists(
                st.tuples(st.one_of(st.sampled_from(("a", "b", "c", "<<", "1", "*a ")), inner), inner), max_size=3
            ),
        ),
    ),
    max_leaves=6,
)
_keys = st.one_of(st.sampled_from(("a", "b", "c", "d", "<<", "<<", "*a ", "? [x]\n")), _scalars)
_blocks = st.one_of(
    st.lists(st.tuples(_keys, _flow), min_size=1, max_size=4).map(
        lambda pairs: "\n".join(f"{key}: {value}" for key, value in pairs)
    ),
    st.lists(_flow, min_size=1, max_size=4).map(lambda items: "\n".join(f"- {item}" for item in items)),
    st.builds(
        lambda style, lines: f"a: {style}\n" + "\n".join(f"  {line}" for line in lines),
        st.sampled_from(("|", ">", "|-", ">-", "|+", ">+", "|2", "|1-", ">9", "|a")),
        st.lists(st.sampled_from(("a", " a", "", "  ", "#a", "a: b", "\ta", "---")), max_size=4),
    ),
)
_json = st.recursive(
    st.one_of(_texts, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)),
    max_leaves=6,
)
_soup = st.text(" \n\t:-?,[]{}#&*|>'\"%@`ab<1.~\r\x85", max_size=16)
_headed = st.builds(
    lambda head, body, foot: head + body + foot,
    st.sampled_from(
        ("", "", "", "", "---\n", "--- ", "%YAML 1.1\n---\n", "%YAML 1.2\n---\n", "# c\n", "\ufeff", "\n\n")
    ),
    st.one_of(_scalars, _flow, _blocks, _blocks, _soup, _json.map(json.dumps), _json.map(yaml.safe_dump)),
    st.sampled_from(("", "", "\n", "\n...\n", " # c", "\n---\na", "\n---\n", "\n...\n---\n", "\n...\nx")),
)


def _ours(text: str) -> tuple[str, Any]:
    try:
        return "", parse_value(text, path="p")
    except InvalidObject as error:
        return error.message, None


def _rounded(value: Any) -> Any:
    """Tell true from 1, and 1.5 from "1.5"; a number beyond 64 bits is a float on both sides."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        value = float(value)
    return (type(value).__name__, value)


@settings(max_examples=max(500, settings().max_examples))
@given(_headed)
def test_yaml_is_read_as_the_original_does(text: str) -> None:
    answer = the_oracle().ask({"op": "yaml", "text": text})
    error, value = _ours(text)
    if answer.ok and (answer.value["more"] or _STRICTER.search(error)):
        event("stricter")
        assert error
        return
    event("read" if answer.ok else "refused")
    assert bool(error) == (not answer.ok), (error, answer)
    if answer.ok:
        assert _rounded(value) == _rounded(answer.value.get("stored"))
