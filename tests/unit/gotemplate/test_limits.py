"""W1: no template stalls the daemon or eats its memory. Steps and sizes are counted, not seconds."""

from __future__ import annotations

import contextlib
import resource
from typing import Any

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.gotemplate import DEFAULT, FUNCTIONS, Limits, compile_template
from registry_controller.gotemplate.evaluate import evaluate
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.parse import parse
from registry_controller.gotemplate.values import TemplateObject

BIG = "{{ $x := repeat 1000000 `a` }}"

EXPLODING = [
    '{{ repeat 1000000000 "x" }}',
    '{{ indent 1000000000 "x" }}',
    '{{ nindent 1000000000 "x" }}',
    '{{ printf "%9999999s" "x" }}',
    '{{ printf "%*d" 1000000 1 }}' * 8,
    '{{ printf "%.1000000f" 1.0 }}' * 8,
    "{{ until 1000000000 }}",
    "{{ untilStep 0 1000000000 1 }}",
    "{{ untilStep 0 -9223372036854775807 -1 }}",
    "{{ range 1000000000 }}x{{ end }}",
    "{{ range until 60000 }}{{ range until 60000 }}x{{ end }}{{ end }}",
    "{{ $x := `aaaaaaaaaa` }}{{ range until 100 }}{{ $x = print $x $x }}{{ end }}",
    "{{ $x := `aaaaaaaaaa` }}{{ range until 100 }}{{ $x = cat $x $x }}{{ end }}",
    "{{ $x := `aaaaaaaaaa` }}{{ range until 100 }}{{ $x = quote $x $x }}{{ end }}",
    "{{ $x := list 1 }}{{ range until 100000 }}{{ $x = list $x $x }}{{ end }}{{ $x }}",
    "{{ $x := list 1 }}{{ range until 40 }}{{ $x = list $x $x }}{{ end }}{{ toJson $x }}",
    "{{ $x := list 1 }}{{ range until 40 }}{{ $x = list $x $x }}{{ end }}{{ printf `%v` $x }}",
    "{{ $x := list 1 }}{{ range until 40 }}{{ $x = list $x $x }}{{ end }}{{ deepCopy $x | len }}",
    "{{ $x := list 1 }}{{ $y := list 1 }}{{ range until 40 }}{{ $x = list $x $x }}{{ $y = list $y $y }}{{ end }}"
    "{{ deepEqual $x $y }}",
    "{{ $x := list 1 }}{{ range until 100 }}{{ $x = concat $x $x }}{{ end }}",
    "{{ $d := dict }}{{ $_ := set $d `a` $d }}{{ $d }}",
    "{{ $d := dict }}{{ $_ := set $d `a` $d }}{{ toJson $d }}",
    "{{ $d := dict }}{{ $_ := set $d `a` $d }}{{ deepCopy $d }}",
    "{{ $d := dict }}{{ $_ := set $d `a` $d }}{{ $e := dict }}{{ $_ := set $e `a` $e }}{{ deepEqual $d $e }}",
    "{{ $d := dict }}{{ $_ := set $d `a` $d }}{{ $e := dict }}{{ $_ := set $e `a` $e }}{{ merge $d $e | len }}{{ $d }}",
    BIG + "{{ join $x (until 1000) }}",
    BIG + "{{ replace `a` $x $x }}",
    BIG + "{{ splitList `` $x }}",
    BIG + "{{ $l := list $x $x $x $x $x $x $x $x }}{{ printf `%q` $l }}",
    BIG + "{{ html $x $x }}",
    BIG + "{{ js $x }}",
    BIG + "{{ $l := list $x $x $x $x $x $x $x $x }}{{ $l }}",
    BIG + "{{ sortAlpha (list $x $x $x $x $x $x) }}",
    BIG + "{{ regexReplaceAll `` $x `aaaa` }}",
    BIG + "{{ regexFindAll `` $x -1 }}",
    BIG + "{{ wrapWith 1 `abc` $x }}",
    BIG + "{{ regexReplaceAll `(a)` $x `$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1` }}",
    BIG + "{{ $x }}{{ $x }}",
    "{{ define `t` }}{{ template `t` . }}{{ end }}{{ template `t` . }}",
    "{{ define `t` }}{{ template `u` . }}{{ end }}{{ define `u` }}{{ template `t` . }}{{ end }}{{ template `t` . }}",
    "{{ define `t` }}{{ if . }}{{ template `t` (sub . 1) }}{{ template `t` (sub . 1) }}{{ end }}{{ end }}"
    "{{ template `t` 45 }}",
    "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
    "{{ if true }}" * 500 + "{{ end }}" * 500,
    "{{ 1" + " | print" * 60_000 + " }}",
    "{{ range list 1 }}" * 60 + "{{ end }}" * 60,
    "{{/*" + "x" * 100_000 + "*/}}",
    "{{ $x" + ".a" * 40_000 + " }}",
]
READING = [
    "upper $x", "lower $x", "title $x", "len $x", "contains `b` $x", "eq $x $x", "regexMatch `(a*)*b` $x", "index $x 5",
    "sha256sum $x", "trim $x", "hasPrefix `b` $x", "snakecase $x", "toString $x | len", "regexFind `b` $x", "int64 $x",
    "b64enc $x | len", "substr 0 5 $x", "trunc 5 $x", "float64 $x", "atoi $x", "toDecimal $x",
    "abbrev 10 $x", "clean $x",
]  # fmt: skip

SPELLING = [
    "upper $x", "lower $x", "title $x", "untitle $x", "swapcase $x", "initials $x", "nospace $x", "quote $x",
    "b32enc $x",
]  # fmt: skip
MANY = {
    "metadata": {"labels": {f"k{number}": "" for number in range(8000)}},
    "dict": {f"k{number}": "v" for number in range(8000)},
    "list": [f"v{number}" for number in range(8000)],
}
BESIDE = [
    "if $.Object.GetLabels", "if $.Object.dict.Missing", "range $k, $v := $.Object.dict }}{{ break", "if compact $l",
    "if without $l 1", "if join `` $l", "if toStrings $l", "if $.Object.dict" + ".a" * 8000,
]  # fmt: skip


def _peak_kib() -> int:
    """Tell the most memory that this process has ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _steps(source: str, **data: Any) -> int:
    """Render with the default limits, and give the steps that it took, as far as it came."""
    shown = {name: TemplateObject(found) for name, found in data.items()}
    budget = Budget(DEFAULT)
    with contextlib.suppress(TemplateError):
        evaluate(parse(source, functions=FUNCTIONS.keys(), limits=DEFAULT), shown, library=FUNCTIONS, budget=budget)
    return DEFAULT.steps - budget.steps_left


@pytest.mark.parametrize("source", EXPLODING, ids=lambda source: source[:60])
@pytest.mark.timeout(30)
def test_what_would_grow_without_end_is_refused_before_it_is_made(source: str) -> None:
    before = _peak_kib()
    with pytest.raises(InvalidObject):
        compile_template(source, path="value").render({})
    assert _peak_kib() - before < 128 * 1024


@pytest.mark.parametrize("call", READING)
def test_what_a_function_reads_costs_steps(call: str) -> None:
    """A loop over calls that make nothing big still ends: after a few of them on a text of a mebibyte."""
    base = _steps(BIG)
    assert _steps(BIG + "{{ $y := " + call + " }}") - base > 1_000_000 // 100
    assert _steps(BIG + "{{ range until 50000 }}{{ $y := " + call + " }}{{ end }}") >= DEFAULT.steps


@pytest.mark.parametrize("call", SPELLING)
def test_what_a_function_looks_at_character_by_character_costs_more(call: str) -> None:
    text = "{{ $x := repeat 500000 `\u00e9` }}"
    assert _steps(text + "{{ $y := " + call + " }}") - _steps(text) > 500_000 // 16


@pytest.mark.parametrize("action", BESIDE, ids=lambda action: action[:40])
def test_what_stands_beside_what_is_looked_for_costs_steps(action: str) -> None:
    """A loop over it ends, as one over calls does."""
    base = "{{ $l := $.Object.list }}"
    assert _steps(base + "{{ " + action + " }}{{ end }}", Object=MANY) - _steps(base, Object=MANY) > 900


def test_a_large_regular_expression_costs_more_than_a_small_one() -> None:
    large, small = (_steps("{{ if regexMatch `" + one + "` `b` }}{{ end }}") for one in ("(a{30}){30}", "a{30}"))
    assert large - small > 50


def test_a_variable_costs_steps_for_those_that_were_declared_since() -> None:
    declared = "{{ $old := 1 }}" + "{{ $a := 1 }}" * 4000
    for action in ("{{ $y := $NAME }}", "{{ $NAME = 2 }}"):
        old, new = (_steps(declared + action.replace("NAME", name)) for name in ("old", "a"))
        assert old - new == 4000 // 8


def test_a_catastrophic_regular_expression_takes_no_more_steps_than_a_plain_one() -> None:
    text = "{{ $x := repeat 30000 `a` }}"
    assert _steps(text + "{{ regexMatch `(a*)*b` $x }}") == _steps(text + "{{ regexMatch `b` $x }}")


@pytest.mark.parametrize(
    "source", ["{{ regexMatch (repeat 1001 `a`) `a` }}", "{{ regexMatch `((a{100}){100}){100}` `a` }}"]
)
def test_a_regular_expression_that_would_be_too_large_is_refused(source: str) -> None:
    with pytest.raises(InvalidObject):
        compile_template(source, path="value").render({})


@pytest.mark.parametrize(
    ("source", "limits", "said"),
    [
        ("{{ range until 20 }}{{ end }}", {"steps": 10}, "takes more than 10 steps"),
        ("abcdefghijk", {"output": 10}, "writes more than 10 characters"),
        ("{{ repeat 11 `a` | len }}", {"output": 10}, "creates a value of more than 10"),
        ("{{ if true }}{{ if true }}{{ end }}{{ end }}", {"depth": 2}, "nested more than 2 levels deep"),
        ("abcdefghijk", {"source": 10}, "longer than 10 characters"),
    ],
)
def test_each_limit_says_what_it_is(source: str, limits: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidObject, match=said):
        compile_template(source, path="value", limits=Limits(**limits)).render({})


def test_what_people_need_is_far_from_the_limits() -> None:
    lines = "\n".join(f"key-{number}: value" for number in range(2000))
    data = {"Object": {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"text": lines}}}
    source = "{{ range splitList `\\n` .Object.data.text }}{{ . | trim | upper | replace `KEY` `k` }}\n{{ end }}"
    assert compile_template(source, path="value").render(data).startswith("k-0: VALUE\n")
