"""Parsed values: which YAML gives which JSON, and what is refused."""

import json
from typing import Any

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.core.mutation.yaml_value import parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, True) for word in ("y", "Y", "yes", "Yes", "on", "ON", "true", "True", "!!bool 'yes'")),
        *((word, False) for word in ("n", "N", "no", "off", "OFF", "false", "!!bool n")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL", "# only a comment", "---", "!!null ~")),
        *((word, word) for word in ("yEs", "tRue", "nULL", "1:30", "190:20:30", "2001-01-01", "2001-12-14t21:59:43Z")),
        *((word, word) for word in ("<<", "=", "_1", "1e400", "0x", "0b2", "._5", "0o8", "1e", "+", "a:b", "a#b")),
        *((json.dumps(word), word) for word in ("yes", "1", "~", "", "1e3", "2001-01-01", "a\nb")),
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("017", 15),
        ("0o17", 15),
        ("08", 8),
        ("0x1F", 31),
        ("0b101", 5),
        ("-0b11", -3),
        ("0b-11", -3),
        ("1_000", 1000),
        ("-_1", -1),
        ("1e3", 1000),
        ("1.0", 1),
        ("-0.0", 0),
        (".5", 0.5),
        ("+.5e1", 5),
        ("0.1", 0.1),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", float(2**63)),
        ("18446744073709551616", float(2**64)),
        ("6.533482271193123e+16", 65334822711931230),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("!!float 1", 1),
        ("!!binary aGk=", "hi"),
        ("!!timestamp 2001-1-1", "2001-1-1"),
        ("!mine 12", "12"),
        ("!!set {a, b}", {"a": None, "b": None}),
        ("{1: a, yes: b, 0x10: c}", {"1": "a", "true": "b", "16": "c"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        ("a: &a {x: 1, z: 1}\nb: {<<: *a, x: 2}", {"a": {"x": 1, "z": 1}, "b": {"x": 2, "z": 1}}),
        ("a: &a {x: 1}\nb: {x: 2, <<: *a}", {"a": {"x": 1}, "b": {"x": 1}}),
        ("<<: [{x: 1}, {x: 2, z: 2}]", {"x": 1, "z": 2}),
        ('"\\/"', "/"),
        ("\ufeffé: 日本", {"é": "日本"}),
        ("a: |\n  b\n  c\n", {"a": "b\nc\n"}),
    ],
)
def test_yaml_is_read_as_the_original_reads_it(text: str, value: Any) -> None:
    assert json.dumps(parse_value(text, path="p")) == json.dumps(value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\na: 2", 2),
        ("{1: a, '1': b}", 1),
        ("a\n---\nb", 2),
        ("1.5: a", 1),
        ("1e3: a", 1),
        ("? .nan\n: a", 1),
        ("~: a", 1),
        ("? [a]\n: b", 1),
        ("a: .nan", 1),
        ("a:\n  b: -.inf", 2),
        ("! 12", 1),
        ("a: &x ! 12", 1),
        ("!!int abc", 1),
        ("!!bool 1", 1),
        ("!!timestamp 2001-02-30", 1),
        ("!!float 18446744073709551615", 1),
        ("!!binary '/w=='", 1),
        ("!!binary AAAA=", 1),
        ("a: *x", 1),
        ("&a [*a]", 1),
        ("&a {<<: *a}", 1),
        ("<<: 1", 1),
        ("a: &a [{x: 1}]\n<<: *a", 2),
        ("%YAML 1.2\n---\na", 1),
        ("---\n\ufeff", 2),
        ("a: 1\n'<<': {b: 1}", 2),
        ("!x <<: {b: 1}", 1),
        ("\ufeff\ufeffa", 1),
        ("a: 1\r\n\u2028\ufeffb: 1", 3),
    ],
)
def test_what_is_not_taken_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(InvalidObject, match=rf"^spec\.x\.value: line {line} of the rendered YAML: "):
        parse_value(text, path="spec.x.value")


@pytest.mark.parametrize(
    "text", ["{", "a: b: c", "'secret", "\t- secret: [", "secret: %", "@secret", "secret: \x01", "\ud800"]
)
def test_what_is_no_yaml_is_refused_without_the_text(text: str) -> None:
    with pytest.raises(InvalidObject, match=r"^p: the rendered text is not valid ") as refused:
        parse_value(text, path="p")
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def _bomb(levels: int) -> str:
    """Write few lines that stand for 10 to the power of `levels` values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (_bomb(9), "more than 50000 values"),
        ("[" * 65 + "]" * 65, "more than 64 levels"),
        ("a0: &a0 []\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 70)), "more than 64 levels"),
        (f"- &a {'a' * 100_000}\n" + "- *a\n" * 11, "more than 1048576 characters"),
        (f"- &a {{? {'a' * 100_000}}}\n" + "- *a\n" * 11, "more than 1048576 characters"),
        ("[" + "a," * 50_000 + "]", "more than 50000 values"),
        ("a" * (256 * 1024 + 1), "longer than 262144 characters"),
    ],
    ids=["bomb", "depth", "depth by aliases", "texts", "keys", "width", "length"],
)
def test_yaml_without_measure_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidObject, match=why):
        parse_value(text, path="p")


def test_two_aliases_share_nothing() -> None:
    value = parse_value("a: &x [1]\nb: *x", path="p")
    value["a"].append(2)
    assert value["b"] == [1]
