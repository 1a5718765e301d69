"""Content and label selectors, held against gjson 1.9.3 and the API machinery themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.selectors import read_selector
from registry_controller.api.syncrule import ContentMatch
from registry_controller.core.rules.content import content_matches, find_value
from registry_controller.core.rules.gjson import compile_path
from registry_controller.core.rules.validation import read_and_validate
from tests.oracle.oracle import is_available, the_oracle

pytestmark = pytest.mark.skipif(not is_available(), reason="the oracle needs Go on the PATH, or TEST_ASSET_ORACLE")

_INT32 = range(-(2**31), 2**31)
_KEYS = ("a", "b", "ab", "a.b", "a*b", "a?", "0", "1", "#", "@x", "|", "\\", "é", "<&>", 'q"', "(", "", "!a", "~")
_TEXTS = (
    "",
    "a",
    "b",
    "ab",
    "80",
    "-7",
    "007",
    "7.5",
    "true",
    "é",
    "<&>",
    'q"',
    "a\\b",
    "\u2028",
    "a*b",
    "9" * 18,
    "1e2",
)
_numbers = st.one_of(
    st.integers(-3, 100), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
_scalars = st.one_of(st.sampled_from(_TEXTS), _numbers, st.booleans(), st.none())
_documents = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4)),
    max_leaves=10,
)
_objects = st.dictionaries(st.sampled_from(_KEYS), _documents, min_size=1, max_size=4)
_records = st.builds(
    lambda key, items: {key: items},
    st.sampled_from(("a", "b")),
    st.lists(st.dictionaries(st.sampled_from(("a", "b", "ab", "0")), _scalars, min_size=1, max_size=3), max_size=4),
)


def _escape(key: str) -> str:
    return "".join("\\" + char if char in '.*?|#@!{}[]()=<>%"\\~' else char for char in key)


_parts = st.one_of(
    st.sampled_from(_KEYS).map(_escape),
    st.sampled_from(("a", "b", "ab", "0", "1", "-1", "01", "*", "?", "a*", "*b", "?b", "a?", "#", "#", r"\a", r"a\*")),
    st.sampled_from(("@this", "@reverse", "a|b", "..", "", "{a,b}", "[a]", "!a", "a\\")),
)
_operands = st.one_of(
    st.sampled_from(_TEXTS),
    st.sampled_from(("a", "80", "1", "7.5", "true", "false", "null", "-7", "1e1")),
    st.sampled_from(("*", "a*", "?", "~true", "", " a ", "Infinity", "0x10", "1_0", "+1", ".5", "1e400")),
)
_queries = st.builds(
    lambda left, operator, operand, spaces, quoted, tail: (
        f"#({left}{spaces}{operator}{spaces}{json.dumps(operand, ensure_ascii=False) if quoted else operand}){tail}"
    ),
    st.sampled_from(("", "a", "b", "ab", "a.b", "#", "*", "0", "a.#(b=1)")),
    st.sampled_from(("==", "=", "!=", "<", "<=", ">", ">=", "%", "!%", "!", "=>", "")),
    _operands,
    st.sampled_from(("", "", " ")),
    st.booleans(),
    st.sampled_from(("", "#")),
)
_paths = st.lists(st.one_of(_parts, _parts, _parts, _queries), min_size=1, max_size=4).map(".".join)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """Draw a document and a path, which mostly leads somewhere in it."""
    document = draw(st.one_of(_objects, _records))
    parts, found = [], document
    for _ in range(draw(st.integers(0, 4))):
        if isinstance(found, dict) and found:
            key = draw(st.sampled_from(sorted(found)))
            parts.append(_escape(key))
            found = found[key]
        elif isinstance(found, list) and found:
            if draw(st.booleans()):
                parts.append(draw(_queries))
                break
            number = draw(st.integers(0, len(found) - 1))
            parts.append(str(number))
            found = found[number]
        else:
            break
    if not parts or draw(st.integers(0, 2)) == 0:
        parts.append(draw(_paths))
    return document, ".".join(parts)


@settings(max_examples=max(500, settings().max_examples))
@given(_cases())
def test_a_path_finds_what_gjson_finds(case: tuple[dict[str, Any], str]) -> None:
    document, key = case
    try:
        path = compile_path(key, path="p")
    except InvalidObject as error:
        event("refused: " + error.message.partition(": ")[2][:20])
        return
    answer = the_oracle().ask({"op": "gjson", "document": document, "path": key}).value
    exists, _ = find_value(document, path)
    event("found" if exists else "missing")
    assert exists == answer["exists"]
    if not exists:
        assert not content_matches(ContentMatch(key, "", "p"), document)
        assert not content_matches(ContentMatch(key, 0, "p"), document)
        return
    assert content_matches(ContentMatch(key, answer["string"], "p"), document)
    assert not content_matches(ContentMatch(key, answer["string"] + "x", "p"), document)
    for number in sorted({0, 1, answer["int"]}):
        wanted = ContentMatch(key, number, "p")
        assert number not in _INT32 or content_matches(wanted, document) == (number == answer["int"])


_names = st.sampled_from(("a", "b", "example.com/a"))
_values = st.sampled_from(("", "x", "y"))
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def _selectors(
    names: st.SearchStrategy[str], values: st.SearchStrategy[str], *operators: str
) -> st.SearchStrategy[dict[str, Any]]:
    expression = st.fixed_dictionaries(
        {"key": names, "operator": st.sampled_from((*_OPERATORS, *operators))},
        optional={"values": st.lists(values, max_size=2)},
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "matchLabels": st.dictionaries(names, values, max_size=2),
            "matchExpressions": st.lists(expression, max_size=3),
        },
    )


@settings(max_examples=max(300, settings().max_examples))
@given(_selectors(_names, _values, "Equals", "in"), st.dictionaries(_names, _values, max_size=3))
def test_a_selector_selects_what_kubernetes_selects(selector: dict[str, Any], labels: dict[str, str]) -> None:
    answer = the_oracle().ask({"op": "selector", "selector": selector, "labels": labels})
    try:
        ours: bool | None = read_selector(Field(selector, "p")).matches(labels)
    except InvalidObject:
        ours = None
    assert ours == (answer.value if answer.ok else None), answer.error


_odd_names = _names | st.sampled_from(("", "a b", "A", "A.b/c", "-a", "a/", "/a", "a/b/c", "a" * 63, "a" * 64))
_odd_values = _values | st.sampled_from(("a b", "-", "a/b", "a_b.C", "a" * 63, "a" * 64))


@settings(max_examples=max(300, settings().max_examples))
@given(_selectors(_odd_names, _odd_values))
def test_a_rule_is_accepted_exactly_where_kubernetes_parses_its_selectors(selector: dict[str, Any]) -> None:
    """W1: what it does not parse selects nothing that anybody could say."""
    answer = the_oracle().ask({"op": "selector", "selector": selector, "labels": {}})
    kind = {"version": "v1", "kind": "Secret"}
    for spec in (
        {"rules": [{"match": [{"labels": [selector]}]}]},
        {"rules": [], "clusterFeatureMatch": [selector]},
        {"rules": [], "targetClusters": selector},
    ):
        _, verdict = read_and_validate({"metadata": {"name": "r"}, "spec": {"groupVersionKind": kind, **spec}})
        assert verdict.accepted == answer.ok, answer.error or verdict.message
