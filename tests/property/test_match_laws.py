"""Laws of matching: selections are supersets, content errors are errors, the input stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.api.syncrule import ContentMatch, SyncRule, read_rule
from registry_controller.core.rules.content import content_matches, find_value
from registry_controller.core.rules.gjson import compile_glob, compile_path
from registry_controller.core.rules.list_options import build_selections, join_selections
from registry_controller.core.rules.matching import find_matching_entries
from registry_controller.core.rules.mismatch import find_mismatch


@dataclass(frozen=True)
class Object:
    key: ObjectKey
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    kind_type: str


NAMES = st.sampled_from(["one", "two", "kube-root-ca.crt", "not/a name"])
SPACES = st.sampled_from(["apps", "web", "kube-system", "not/a name"])
KEYS = st.sampled_from(["a", "x.io/b", "no key!"])
VALUES = st.sampled_from(["", "1", "2", "no value!"])
TYPES = st.sampled_from(["Opaque", "helm.sh/release.v1"])


@st.composite
def expressions(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    values = draw(st.lists(VALUES, min_size=1, max_size=3)) if operator in ("In", "NotIn") else []
    return {"key": draw(KEYS), "operator": operator, "values": values}


SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(KEYS, VALUES, max_size=2),
        "matchExpressions": st.lists(expressions(), max_size=2),
    },
)
ANNOTATIONS = st.fixed_dictionaries({}, optional={"matchAnnotations": st.dictionaries(KEYS, VALUES, max_size=2)})
CONTENTS = st.sampled_from(["type", "data.a"])
MATCHES = st.fixed_dictionaries(
    {},
    optional={
        "objectKey": st.fixed_dictionaries({}, optional={"name": NAMES, "namespace": SPACES}),
        "namespaces": st.lists(SPACES, max_size=3),
        "labels": st.lists(SELECTORS, max_size=2),
        "annotations": st.lists(ANNOTATIONS, max_size=2),
        "content": st.lists(st.fixed_dictionaries({"key": CONTENTS, "value": TYPES}), max_size=2),
    },
)
OBJECTS = st.builds(
    Object,
    st.builds(ObjectKey, st.one_of(st.just(""), SPACES), NAMES),
    st.dictionaries(KEYS, VALUES, max_size=3),
    st.dictionaries(KEYS, VALUES, max_size=2),
    TYPES,
)
BODIES = st.fixed_dictionaries({}, optional={"data": st.dictionaries(st.just("a"), TYPES)})


def rule_of(entries: list[list[dict[str, Any]]], kind: str = "Secret") -> SyncRule:
    rules = [{"match": matches} for matches in entries]
    gvk = {"version": "v1", "kind": kind}
    return read_rule({"metadata": {"name": "r"}, "spec": {"groupVersionKind": gvk, "rules": rules}})


ENTRIES = st.lists(st.lists(MATCHES, max_size=3), max_size=3)
RULES = st.builds(rule_of, ENTRIES)
RULES_FOR_MAPS = st.builds(rule_of, ENTRIES, st.just("ConfigMap"))


def selects(selection: Selection, found: Object, *, namespaced: bool) -> bool:
    """Answer as an API server would."""
    fields = {"metadata.name": found.key.name, "type": found.kind_type}
    return (
        (not namespaced or selection.namespace in ("", found.key.namespace))
        and all(fields[part.split("=")[0]] == part.split("=", 1)[1] for part in selection.fields.split(",") if part)
        and all(holds(part, found.labels) for part in split(selection.labels))
    )


def split(labels: str) -> list[str]:
    parts, depth = [""], 0
    for char in labels:
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part]


def holds(part: str, labels: Mapping[str, str]) -> bool:
    if " in (" in part:
        key, values = part[:-1].split(" in (")
        return labels.get(key) in values.split(",")
    if " notin (" in part:
        key, values = part[:-1].split(" notin (")
        return labels.get(key) not in values.split(",")
    if "!=" in part:
        key, value = part.split("!=")
        return labels.get(key) != value
    if "=" in part:
        key, value = part.split("=")
        return labels.get(key) == value
    return part[1:] not in labels if part.startswith("!") else part in labels


@given(RULES, OBJECTS)
def test_selections_are_supersets_of_what_matches(rule: SyncRule, found: Object) -> None:
    namespaced = bool(found.key.namespace)
    if find_matching_entries(rule, found, lambda: {"type": found.kind_type, "data": {"a": found.kind_type}}):
        chosen = build_selections(rule, namespaced=namespaced)
        assert any(selects(selection, found, namespaced=namespaced) for selection in chosen)


@given(RULES | RULES_FOR_MAPS, OBJECTS, BODIES)
def test_there_is_a_miss_exactly_when_nothing_matches(rule: SyncRule, found: Object, body: dict[str, Any]) -> None:
    miss = find_mismatch(rule, found, lambda: body)
    assert (miss is None) == bool(find_matching_entries(rule, found, lambda: body))
    assert miss is None or miss.path.startswith("spec.rules")


@given(RULES_FOR_MAPS, st.builds(replace, OBJECTS, key=st.builds(ObjectKey, SPACES, st.just("kube-root-ca.crt"))))
def test_what_kubernetes_makes_is_matched_by_its_name_only(rule: SyncRule, found: Object) -> None:
    """W7: neither its namespace, its labels, its annotations nor its content name it."""
    named = [match for entry in rule.entries for match in entry.matches if match.name == found.key.name]
    assert named or not find_matching_entries(rule, found, lambda: {"type": found.kind_type})


@given(st.lists(RULES, max_size=3), OBJECTS)
def test_a_union_selects_what_its_parts_select(rules: list[SyncRule], found: Object) -> None:
    parts = [selection for rule in rules for selection in build_selections(rule)]
    joined = join_selections(parts)
    assert any(selects(part, found, namespaced=True) for part in parts) == any(
        selects(part, found, namespaced=True) for part in joined
    )
    assert join_selections(joined) == joined == join_selections(reversed(parts))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=3),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.sampled_from(["a", "b", "ab"]), JSON, max_size=3)
PATHS = st.text(alphabet='ab.#()*?=<>!%"1|@\\~ []', max_size=12) | st.lists(
    st.sampled_from(["a", "b", "a*", "?", "#", "0", "#(a)", '#(b=="1")#', "#(>0)"]), min_size=1, max_size=4
).map(".".join)


@given(DOCUMENTS, PATHS, st.text(max_size=3) | st.integers(-3, 3))
def test_a_path_is_refused_always_or_never(document: dict[str, Any], path: str, value: str | int) -> None:
    before = copy.deepcopy(document)
    refused = []
    for found in (document, {}, {"a": [{"b": 1}], "b": "x"}):
        try:
            content_matches(ContentMatch(path, value, "p"), found)
            refused.append(False)
        except InvalidObject as error:
            assert error.path == "p.key"  # noqa: PT017
            refused.append(True)
    assert len(set(refused)) == 1
    assert document == before


@given(DOCUMENTS)
def test_each_key_of_a_document_is_found_by_its_name(document: dict[str, Any]) -> None:
    for key, value in document.items():
        assert find_value(document, compile_path(key, path="p")) == (True, value)


@given(st.text(alphabet="ab*?\\", max_size=8), st.text(alphabet="ab", max_size=8))
def test_a_pattern_matches_as_its_definition_says(pattern: str, text: str) -> None:
    tokens = compile_glob(pattern).tokens

    def fits(token: int, at: int) -> bool:
        if token == len(tokens):
            return at == len(text)
        if tokens[token] is None:
            return any(fits(token + 1, later) for later in range(at, len(text) + 1))
        return at < len(text) and tokens[token] in ("", text[at]) and fits(token + 1, at + 1)

    assert compile_glob(pattern).matches(text) == fits(0, 0)
