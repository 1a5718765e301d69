"""Paths in go-patch's syntax, read from text alone."""

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.core.mutation.gopatch_path import (
    AppendToken,
    IndexToken,
    KeyToken,
    MatchToken,
    Modifier,
    PathToken,
    parse_pointer,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", ()),
        ("/", (KeyToken("", False, 2),)),
        ("//a", (KeyToken("", False, 2), KeyToken("a", False, 3))),
        ("/spec/a", (KeyToken("spec", False, 2), KeyToken("a", False, 7))),
        ("/a?/b", (KeyToken("a", True, 2), KeyToken("b", True, 5))),
        ("/a??", (KeyToken("a?", True, 2),)),
        ("/l/0", (KeyToken("l", False, 2), IndexToken(0, (), 4))),
        ("/l/-1", (KeyToken("l", False, 2), IndexToken(-1, (), 4))),
        ("/l/+1", (KeyToken("l", False, 2), IndexToken(1, (), 4))),
        ("/l/007", (KeyToken("l", False, 2), IndexToken(7, (), 4))),
        ("/l/1?", (KeyToken("l", False, 2), KeyToken("1", True, 4))),
        ("/٣", (KeyToken("٣", False, 2),)),
        (f"/{2**63 - 1}", (IndexToken(2**63 - 1, (), 2),)),
        (f"/{2**63}", (KeyToken(str(2**63), False, 2),)),
        ("/l/-", (KeyToken("l", False, 2), AppendToken(4))),
        ("/l/-/a", (KeyToken("l", False, 2), KeyToken("-", False, 4), KeyToken("a", False, 6))),
        ("/l/-?", (KeyToken("l", False, 2), KeyToken("-", True, 4))),
        ("/l/n=x", (KeyToken("l", False, 2), MatchToken("n", "x", False, (), 4))),
        ("/l/n=x?/a", (KeyToken("l", False, 2), MatchToken("n", "x", True, (), 4), KeyToken("a", True, 9))),
        ("/n=a=b", (MatchToken("n", "a=b", False, (), 2),)),
        ("/=", (MatchToken("", "", False, (), 2),)),
        ("/0:next:after", (IndexToken(0, (Modifier.NEXT, Modifier.AFTER), 2),)),
        ("/n=x?:prev", (MatchToken("n", "x", True, (Modifier.PREV,), 2),)),
        ("/a~1b~0c~7d", (KeyToken("a/b~c:d", False, 2),)),
        ("/~01", (KeyToken("~1", False, 2),)),
        ("/~2~", (KeyToken("~2~", False, 2),)),
        ("/n=a~1b", (MatchToken("n", "a/b", False, (), 2),)),
    ],
)
def test_a_path_is_read(text: str, tokens: tuple[PathToken, ...]) -> None:
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
