"""Paths in go-patch's syntax, read from text alone."""

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.core.mutation.gopatch_path import Append, Index, Key, Matching, Modifier, Token, parse_pointer


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", ()),
        ("/", (Key("", False, 2),)),
        ("//a", (Key("", False, 2), Key("a", False, 3))),
        ("/spec/a", (Key("spec", False, 2), Key("a", False, 7))),
        ("/a?/b", (Key("a", True, 2), Key("b", True, 5))),
        ("/a??", (Key("a?", True, 2),)),
        ("/l/0", (Key("l", False, 2), Index(0, (), 4))),
        ("/l/-1", (Key("l", False, 2), Index(-1, (), 4))),
        ("/l/+1", (Key("l", False, 2), Index(1, (), 4))),
        ("/l/007", (Key("l", False, 2), Index(7, (), 4))),
        ("/l/1?", (Key("l", False, 2), Key("1", True, 4))),
        ("/٣", (Key("٣", False, 2),)),
        (f"/{2**63 - 1}", (Index(2**63 - 1, (), 2),)),
        (f"/{2**63}", (Key(str(2**63), False, 2),)),
        ("/l/-", (Key("l", False, 2), Append(4))),
        ("/l/-/a", (Key("l", False, 2), Key("-", False, 4), Key("a", False, 6))),
        ("/l/-?", (Key("l", False, 2), Key("-", True, 4))),
        ("/l/n=x", (Key("l", False, 2), Matching("n", "x", False, (), 4))),
        ("/l/n=x?/a", (Key("l", False, 2), Matching("n", "x", True, (), 4), Key("a", True, 9))),
        ("/n=a=b", (Matching("n", "a=b", False, (), 2),)),
        ("/=", (Matching("", "", False, (), 2),)),
        ("/0:next:after", (Index(0, (Modifier.NEXT, Modifier.AFTER), 2),)),
        ("/n=x?:prev", (Matching("n", "x", True, (Modifier.PREV,), 2),)),
        ("/a~1b~0c~7d", (Key("a/b~c:d", False, 2),)),
        ("/~01", (Key("~1", False, 2),)),
        ("/~2~", (Key("~2~", False, 2),)),
        ("/n=a~1b", (Matching("n", "a/b", False, (), 2),)),
    ],
)
def test_a_path_is_read(text: str, tokens: tuple[Token, ...]) -> None:
    assert parse_pointer(text, path="p").tokens == tokens


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a", 1),
        (" /a", 1),
        ("/a:next", 3),
        ("/a/k8s.io:x", 11),
        ("/l/0:next:x", 11),
        ("/l/0:", 6),
        ("/l/-:next", 5),
        ("/l/-:prev/a", 5),
    ],
)
def test_a_path_that_cannot_be_read_is_refused_with_its_position(text: str, position: int) -> None:
    with pytest.raises(InvalidObject, match=rf"^spec\.x\.path: character {position}: "):
        parse_pointer(text, path="spec.x.path")


@pytest.mark.parametrize("text", ["/a" * 65, "/" + "a" * 2048])
def test_a_path_without_measure_is_refused(text: str) -> None:
    with pytest.raises(InvalidObject, match=r"^p: (is longer|has more) than "):
        parse_pointer(text, path="p")
