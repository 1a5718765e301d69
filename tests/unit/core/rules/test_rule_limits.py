"""W1: no rule stalls the daemon, whatever it asks for. Steps, comparisons and readings are counted, not seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from registry_controller import gotemplate
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey
from registry_controller.api.syncrule import ContentMatch, SyncRule
from registry_controller.core.mutation import templates
from registry_controller.core.mutation.mutate import MutatedCopy, build_copy
from registry_controller.core.mutation.yaml_value import parse_value
from registry_controller.core.rules.content import ObjectContent
from registry_controller.core.rules.gjson import compile_glob
from registry_controller.core.rules.matching import find_matching_entries
from registry_controller.core.rules.validation import read_and_validate
from registry_controller.gotemplate import Template

STEPS = "takes more than 100000 steps"
HALF = "{{ range until 40000 }}{{ end }}"
"""It takes 40 % of what a template may take."""


def rule_of(*entries: Mapping[str, Any], kind: str = "ConfigMap") -> tuple[SyncRule | None, str]:
    """Read a rule, and what is wrong with it."""
    spec = {"groupVersionKind": {"version": "v1", "kind": kind}, "rules": list(entries)}
    rule, verdict = read_and_validate({"metadata": {"name": "r"}, "spec": spec})
    assert verdict.accepted == (not verdict.message)
    return rule, verdict.message


def override(value: str, *, path: str = "/data/k?", parse: bool = False) -> dict[str, Any]:
    return {"type": "replace", "path": path, "value": value, "parseValue": parse}


def entry(*overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {"match": [{"objectKey": {"name": "a"}}], "mutations": {"overrides": list(overrides)}}


def config_map(**more: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": {}, **more}


def copy_of(*entries: Mapping[str, Any], source: Manifest | None = None) -> MutatedCopy:
    rule, message = rule_of(*entries)
    assert rule is not None, message
    return build_copy(source or config_map(), rule.kind, rule.entries, owner=ClusterUID("o"))


def test_all_overrides_of_all_entries_share_one_budget() -> None:
    assert copy_of(entry(override(HALF))).manifest["data"] == {"k": ""}
    with pytest.raises(InvalidObject, match=STEPS) as within:
        copy_of(entry(*[override(HALF)] * 3))
    assert within.value.path == "spec.rules[0].mutations.overrides[2].value"
    with pytest.raises(InvalidObject, match=STEPS) as across:
        copy_of(*[entry(override(HALF))] * 3)
    assert across.value.path == "spec.rules[2].mutations.overrides[0].value"


def test_what_all_overrides_write_is_limited_together() -> None:
    text = "{{ repeat 600000 `a` }}"
    copy_of(entry(override(text)))
    with pytest.raises(InvalidObject, match="writes more than 1048576 characters"):
        copy_of(entry(*[override(text)] * 2))


def test_each_object_has_a_budget_of_its_own() -> None:
    for _ in range(5):
        copy_of(entry(override(HALF)))


@pytest.mark.parametrize(
    "value", ["[" + "1," * 30_000 + "]", "{{ `[` }}" + "1," * 30_000 + "]"], ids=["as it is", "rendered"]
)
def test_yaml_of_all_overrides_is_limited_together(value: str) -> None:
    copy_of(entry(override(value, parse=True)))
    with pytest.raises(InvalidObject, match=STEPS):
        copy_of(entry(*[override(value, parse=True)] * 2))


def test_what_overrides_look_through_and_copy_costs_steps() -> None:
    listed = config_map(list=[{"name": f"i{number}"} for number in range(30_000)])
    copy_of(entry(override("x", path="/list/name=i5/name")), source=listed)
    with pytest.raises(InvalidObject, match=STEPS):
        copy_of(entry(*[override("i5", path="/list/name=i5/name")] * 4), source=listed)
    keyed = config_map(data={f"k{number}": "" for number in range(30_000)})
    with pytest.raises(InvalidObject, match=STEPS):
        copy_of(entry(*[override("x", path="/data/k1")] * 100), source=keyed)


def test_a_template_is_read_once_for_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = gotemplate.compile_template

    def compile_template(source: str, *, path: str) -> Template:
        read.append(source)
        return original(source, path=path)

    monkeypatch.setattr(templates, "compile_template", compile_template)
    rule, _ = rule_of(entry(*[override(f"{{{{ .Object.GetName }}}}-{number}") for number in range(50)]))
    assert rule is not None
    for _ in range(3):
        build_copy(config_map(), rule.kind, rule.entries, owner=ClusterUID("o"))
    assert len(read) == 50


def test_a_mistake_of_ours_in_a_template_is_an_error_on_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the place in the program alone: the text of the exception may contain data."""

    def broken(*_: Any) -> str:
        raise RuntimeError("s3cret")

    monkeypatch.setattr(gotemplate, "FUNCTIONS", {**gotemplate.FUNCTIONS, "upper": broken})
    with pytest.raises(InvalidObject, match=r"a bug in this program at gotemplate[a-z_.]*:\d+;") as found:
        gotemplate.compile_template("{{ upper `a` }}", path="p").render({})
    assert "s3cret" not in str(found.value)


def test_the_templates_that_are_kept_are_limited_in_characters() -> None:
    kept = templates._TemplateCache(max_characters=10_000)
    for number in range(100):
        kept.get("{{ 1 }}" + f"{number:0500}", path="p")
    assert 5 < len(kept._templates) < 20
    newest = kept.get("{{ 1 }}" + f"{99:0500}", path="p")
    assert kept.get("{{ 1 }}" + f"{99:0500}", path="p") is newest


def _facts(**labels: str) -> Any:
    class Facts:
        key = ObjectKey("n", "a")
        annotations: Mapping[str, str] = {}
        kind_type = ""

    facts = Facts()
    facts.labels = labels  # type: ignore[attr-defined]
    return facts


def test_all_content_that_a_rule_asks_for_shares_one_budget() -> None:
    body = config_map(data={f"k{number}": "v" for number in range(20_000)})
    asked = {"content": [{"key": "data.*no", "value": "v"}]}
    few, _ = rule_of({"match": [asked]})
    many, _ = rule_of(*[{"match": [asked] * 10}] * 2)
    assert few is not None
    assert many is not None
    assert find_matching_entries(few, _facts(), lambda: body) == ()
    with pytest.raises(InvalidObject, match=f"key: {STEPS}, together with the clauses before it"):
        find_matching_entries(many, _facts(), lambda: body)


LONG = "a" * 1_000_000
DEAR: list[tuple[str, str | int, Any]] = [
    ("data", "v", {f"k{number}": "v" for number in range(60_000)}),
    ("data", "v", [0] * 110_000),
    ("data.k", 1, "0" * 6_500_000 + "x"),
    ("data.#(a=1)", "v", [{"b": 1}] * 60_000),
    ("data.#.a", "v", [{"b": 1}] * 60_000),
    ('data.#(b%"' + "*a?a" * 40 + '")', "v", [{"b": LONG}]),
    ("data.?" + "?" * 900 + "*b", "v", {LONG: 1}),
    ("a." * 500 + "a", "v", {}),
]


@pytest.mark.parametrize(("key", "value", "data"), DEAR, ids=[key[:20] for key, _, _ in DEAR])
def test_what_content_looks_at_costs_steps(key: str, value: str | int, data: Any) -> None:
    body = config_map(data=data if key != "data.k" else {"k": data})
    contents = ObjectContent(lambda: body)
    wanted = ContentMatch(key, value, "p")
    with pytest.raises(InvalidObject, match=STEPS):
        all(contents.matches(wanted) in (True, False) for _ in range(900))


def test_a_pattern_with_many_stars_is_no_matter_of_guessing() -> None:
    assert not compile_glob("*a" * 500 + "b").matches(LONG)
    assert compile_glob("*a" * 500 + "?").matches(LONG)
    assert compile_glob("*a?c*").cost(LONG) < 10_000


TOO_MUCH: list[tuple[str, list[dict[str, Any]], str]] = [
    ("matches", [{"match": [{"objectKey": {"name": "a"}}] * 1000}] * 10, "spec: holds more than 20000 values"),
    ("namespaces", [{"match": [{"namespaces": ["n"] * 20_000}]}], "spec: holds more than 20000 values"),
    ("overrides", [entry(*[override("x")] * 129)] * 2, "spec.rules: have more than 256 overrides together"),
    (
        "templates",
        [entry(*[override("{{ 1 }}" + "x" * 40_000)])] * 2,
        "spec.rules: have templates of more than 65536 characters together",
    ),
]


@pytest.mark.parametrize(("entries", "said"), [row[1:] for row in TOO_MUCH], ids=[row[0] for row in TOO_MUCH])
def test_a_rule_that_is_too_large_is_refused_and_says_so(entries: list[dict[str, Any]], said: str) -> None:
    assert rule_of(*entries)[1].startswith(said)


JUST_RIGHT = [
    [{"match": [{"objectKey": {"name": f"a{number}", "namespace": "n"}} for number in range(1000)]}] * 4,
    [entry(*[override("x")] * 128)] * 2,
    [entry(override("{{ 1 }}" + "x" * 60_000), override("y" * 200_000))],
]


@pytest.mark.parametrize("entries", JUST_RIGHT, ids=["matches", "overrides", "templates"])
def test_a_rule_that_is_only_large_is_accepted(entries: list[dict[str, Any]]) -> None:
    assert rule_of(*entries)[1] == ""


def test_the_templates_of_a_rule_that_is_refused_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_template(source: str, *, path: str) -> Template:
        raise AssertionError(source)

    monkeypatch.setattr(templates, "compile_template", compile_template)
    assert rule_of(entry(*[override("{{ 1 }}")] * 300))[1]


def test_the_hash_of_an_entry_does_not_depend_on_its_size() -> None:
    """It is taken for each object that matches."""
    small, _ = rule_of({"match": [{}]})
    large, _ = rule_of({"match": [{"namespaces": ["a"] * 1000}]})
    assert small is not None
    assert large is not None
    assert hash(small.entries) == hash(large.entries)
    assert small.entries != large.entries


def _anchors_s(count: int) -> float:
    """Tell how long it takes to read so many anchors, at best."""

    def once_s() -> float:
        began = time.process_time()
        assert parse_value("[" + "&a," * count + "]", path="p") == [None] * count
        return time.process_time() - began

    return min(once_s() for _ in range(3))


def test_four_times_as_many_anchors_take_four_times_as_long() -> None:
    """Not sixteen times, as if each one were looked for up to the end of the text."""
    assert _anchors_s(8000) < 9 * _anchors_s(2000)
