"""Content: the part of gjson 1.9 that rules may use, and how values compare."""

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.api.syncrule import ContentMatch
from registry_controller.core.rules.content import content_matches, find_value
from registry_controller.core.rules.gjson import compile_path

DOCUMENT = {
    "type": "Opaque",
    "name": {"first": "Tom", "last": "Anderson"},
    "age": 37,
    "children": ["Sara", "Alex", "Jack"],
    "fav.movie": "Deer Hunter",
    "a*b": "star",
    "@at": 1,
    "friends": [
        {"first": "Dale", "last": "Murphy", "age": 44, "nets": ["ig", "fb", "tw"]},
        {"first": "Roger", "last": "Craig", "age": 68, "nets": ["fb", "tw"]},
        {"first": "Jane", "last": "Murphy", "age": 47, "nets": ["ig", "tw"], "ok": True},
    ],
    "wild": {"a": "scalar", "b": {"x": 1}, "bb": {"x": 2}},
    "nothing": None,
    "yes": True,
    "no": False,
    "half": 80.5,
    "whole": 80.0,
    "large": 1e21,
    "text": "80",
    "empty": [],
    "markup": {"a": "<&>"},
    "digits": {"0": "zero"},
    "#": "hash",
    "unnamed": [{"": "x"}, {"": "y", "n": 1}, ["y"]],
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name.last", "Anderson"),
        ("age", 37),
        ("children.1", "Alex"),
        ("children.01", "Alex"),
        ("digits.0", "zero"),
        ("children.#", 3),
        ("empty.#", 0),
        ("#", "hash"),
        ("child*.2", "Jack"),
        ("c?ildren.0", "Sara"),
        (r"fav\.movie", "Deer Hunter"),
        (r"a\*b", "star"),
        (r"\@at", 1),
        ("wild.b*.x", 1),
        ("wild.*.x", 1),
        ("friends.#.first", ["Dale", "Roger", "Jane"]),
        ("friends.#.ok", [True]),
        ("friends.1.last", "Craig"),
        ('friends.#(last=="Murphy").first', "Dale"),
        ('friends.#(last=="Murphy")#.first', ["Dale", "Jane"]),
        ("friends.#(last=Craig).first", "Roger"),
        ("friends.#(age>45)#.last", ["Craig", "Murphy"]),
        ("friends.#(age>=68).first", "Roger"),
        ("friends.#(age<45).first", "Dale"),
        ("friends.#(age<=44)#.first", ["Dale"]),
        ("friends.#(age!=44)#.first", ["Roger", "Jane"]),
        ('friends.#(first%"D*").last', "Murphy"),
        ('friends.#(first!%"D*").last', "Craig"),
        ('friends.#(nets.#(=="fb"))#.first', ["Dale", "Roger"]),
        ("friends.#(ok).first", "Jane"),
        ("friends.#(ok==true).first", "Jane"),
        ("friends.#(age>100)#", []),
        ("friends.#(age>100)#.#", []),
        ('children.#(!%"*a*")', "Alex"),
        ('children.#(="Sara")', "Sara"),
        ("unnamed.#(=y).n", 1),
        ("unnamed.#(=y)#.#", []),
        ("friends.#(age==4_7).first", "Jane"),
        ("friends.#(age>4__6)#.first", ["Dale", "Roger", "Jane"]),
        ("friends.#(age<0x_4p4)#.first", ["Dale", "Jane"]),
        ("nothing", None),
    ],
)
def test_a_path_finds_a_value(path: str, value: object) -> None:
    assert find_value(DOCUMENT, compile_path(path, path="p")) == (True, value)


@pytest.mark.parametrize(
    "path",
    [
        "nowhere",
        "name.last.deeper",
        "children.3",
        "children.x",
        "children.*",
        r"children.\1",
        "friends.#(age>100).first",
        "friends.#(first<A).first",
        "name.#",
        "name.#.first",
        "name.#(first)",
        "yes.#(a)",
        "children.99999999999999999999",
    ],
)
def test_a_path_that_finds_nothing_says_so(path: str) -> None:
    assert find_value(DOCUMENT, compile_path(path, path="p")) == (False, None)


@pytest.mark.parametrize(
    ("path", "position"),
    [
        ("@this", 1),
        ("name.@reverse", 6),
        ("children|0", 9),
        ("a|@pretty", 2),
        ("{a,b}", 1),
        ("a.[b,c]", 3),
        ("!true", 1),
        ("..1", 1),
        ("a..b", 3),
        (".a", 1),
        ("a.", 3),
        ("", 1),
        ("a\\", 2),
        ("a.#(b", 3),
        ("a.#[b==1]", 4),
        ("a.#(b==1)x", 10),
        ("a.#(b==1)|0", 10),
        ("a.#(b==~true)", 8),
        ("a.#(b!c)", 6),
        ('a.#(b=="c)', 3),
        ("a.#()", 5),
        ("a.#(@this==1)", 5),
        ("#.a|0", 4),
        ("a.#.", 5),
        ("#(" * 20 + "a" + ")" * 20, 35),
        ("a" * 1025, 1025),
    ],
)
def test_what_is_not_implemented_is_refused_with_its_position(path: str, position: int) -> None:
    with pytest.raises(InvalidObject, match=rf"^spec\.x\.key: character {position}: "):
        compile_path(path, path="spec.x.key")


@pytest.mark.parametrize(
    ("key", "value", "matches"),
    [
        ("yes", "true", True),
        ("yes", "True", False),
        ("yes", 1, True),
        ("no", "false", True),
        ("no", 0, True),
        ("age", "37", True),
        ("age", 37, True),
        ("text", 80, True),
        ("text", "80", True),
        ("half", "80.5", True),
        ("half", 80, True),
        ("whole", "80", True),
        ("large", "1000000000000000000000", True),
        ("nothing", "", True),
        ("nothing", 0, True),
        ("name", 0, True),
        ("name", '{"first":"Tom","last":"Anderson"}', True),
        ("children", '["Sara","Alex","Jack"]', True),
        ("markup", '{"a":"\\u003c\\u0026\\u003e"}', True),
        ("type", 0, True),
        ("nowhere", "", False),
        ("nowhere", 0, False),
    ],
)
def test_values_compare_as_text_or_as_integers(key: str, value: str | int, matches: bool) -> None:
    assert content_matches(ContentMatch(key, value, "p"), DOCUMENT) is matches


@pytest.mark.parametrize(
    ("text", "number"), [("-7", -7), ("007", 7), ("7.5", 0), ("7x", 0), ("", 0), ("-", 0), ("9" * 5000, 0), ("٣", 0)]
)
def test_a_text_is_a_number_only_when_it_is_one(text: str, number: int) -> None:
    assert content_matches(ContentMatch("a", number, "p"), {"a": text})


def test_a_content_key_that_cannot_be_evaluated_names_its_field() -> None:
    with pytest.raises(InvalidObject, match=r"^spec\.rules\[0\]\.match\[0\]\.content\[1\]\.key: "):
        content_matches(ContentMatch("a|b", "x", "spec.rules[0].match[0].content[1]"), {})
