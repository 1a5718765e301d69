"""Templates as Go renders them: generated ones, and those that people write. W1."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import Phase, event, find, given, settings
from hypothesis import strategies as st

from registry_controller.api.errors import InvalidObject
from registry_controller.gotemplate import FUNCTIONS, Budget, compile_template, with_go_numbers
from tests.oracle.oracle import Answer, OracleDied, is_available, the_oracle
from tests.property import templates
from tests.unit.gotemplate.test_rows import ROWS

pytestmark = pytest.mark.skipif(not is_available(), reason="neither Go nor TEST_ASSET_ORACLE is there")

_LEFT_OUT = ("decryptAES", "derivePassword", "semver", "semverCompare", "toDate", "unixEpoch", "urlJoin", "urlParse")
"""What reads nothing of the outside and is not there all the same; docs/rules.md says so."""
_STRICTER = re.compile(
    r"cannot print nil|inside a character|cannot be decoded|is not UTF-8|not a regular expression|an invalid character"
    r"|template created can be changed|whole object|more than|beyond 64 bits|memory address|invalid number$"
    r"|too many decimal places|complex number|\.\w+ does not exist; available"
)
"""What we refuse on purpose and Go takes; docs/rules.md has the table."""
_LOOSER = re.compile(r"map\[string\]string|types\.UID|can't evaluate field \w+ in type (\*main|interface)")
"""What Go refuses for a type that we do not tell from another, or for a field that Go's struct does not have."""


def ours(source: str, given: dict[str, Any]) -> tuple[str, str]:
    """Render: the error, and the text."""
    try:
        return "", compile_template(source, path="value").render(with_go_numbers(given, budget=Budget()))
    except InvalidObject as error:
        return error.message, ""


def _holds(source: str, given: dict[str, Any]) -> None:
    error, text = ours(source, given)
    if error and _STRICTER.search(error):
        event("stricter")  # nor is Go asked: without limits it may count for hours
        return
    try:
        answer: Answer = the_oracle().ask({"op": "template", "source": source, "data": given})
    except OracleDied:
        # A dict that `merge` made part of itself is printed without an end: Go's stack overflows, and the process ends.
        assert "merge" in source
        event("ends Go")
        return
    if not error and _LOOSER.search(answer.error):
        event("looser")
        return
    event("refused" if error else "written")
    if not answer.ok:
        assert error, f"Go refuses: {answer.error}; ours: {text!r}"
    else:
        assert not error, f"{error}; Go: {answer.value!r}"
        assert text == answer.value


@settings(max_examples=max(300, settings().max_examples))
@given(templates.templates(), templates.JSON)
def test_generated_templates_are_rendered_as_go_renders_them(source: str, anything: Any) -> None:
    _holds(source, templates.data(anything))


@settings(max_examples=max(500, settings().max_examples))
@given(templates.expressions, templates.JSON)
def test_generated_values_are_those_of_go(source: str, anything: Any) -> None:
    _holds(source, templates.data(anything))


@settings(max_examples=max(300, settings().max_examples))
@given(st.one_of(templates.soups, templates.soups, templates.numbers))
def test_what_is_no_template_is_none_for_go(source: str) -> None:
    _holds(source, templates.data(None))


@settings(max_examples=max(200, settings().max_examples))
@given(templates.fields())
def test_a_field_is_found_by_gos_name_and_by_its_own(case: tuple[dict[str, Any], str, str]) -> None:
    """W1: of objects with a Go type, as the original sees those of Kubernetes' own kinds."""
    given_data, by_go, by_json = case
    answer = the_oracle().ask({"op": "template", "source": by_go, "data": {**given_data, "typed": True}})
    assert answer.ok, answer.error
    assert ours(by_go, given_data) == ("", answer.value)
    assert ours(by_json, given_data) == ("", answer.value)


@pytest.mark.parametrize(("source", "text"), ROWS)
def test_go_says_what_the_rows_say(source: str, text: str | None) -> None:
    answer = the_oracle().ask({"op": "template", "source": source, "data": templates.data(None)})
    assert (answer.value if answer.ok else None) == text


def test_a_dict_that_would_be_part_of_itself_ends_go_and_not_us() -> None:
    source = "{{(merge (dict) (set (dict) `a` .Object.Object.spec.nested)) | merge (dict) .Object.Object.spec.nested}}"
    with pytest.raises(OracleDied):
        the_oracle().ask({"op": "template", "source": source, "data": templates.data(None)})
    error, text = ours(source, templates.data(None))
    assert (error, text[:26]) == ("", "map[a:map[a:map[b:deep] b:")
    assert the_oracle().ask({"op": "functions"}).ok


def test_each_of_gos_functions_is_here_or_left_out_on_purpose() -> None:
    gos = set(the_oracle().ask({"op": "functions"}).value)
    assert templates.SIGNATURES.keys() == FUNCTIONS.keys()
    assert gos - FUNCTIONS.keys() == set(_LEFT_OUT)


@pytest.mark.parametrize("name", sorted(templates.SIGNATURES))
def test_each_function_is_called_by_what_is_generated(name: str) -> None:
    quick = settings(database=None, max_examples=1, phases=[Phase.generate])
    found = find(templates.calls(name), lambda _: True, settings=quick)
    assert re.search(rf"\b{name}\b", found)
