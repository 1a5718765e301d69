"""Splits a template into tokens, as Go's text/template does.

Law: every character of the source is read a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from registry_controller.gotemplate.limits import TemplateError
from registry_controller.gotemplate.quoting import quote

_KEYWORDS: Final = frozenset(
    "block break continue define else end if range nil template with".split()  # noqa: SIM905
)
_TRIMMED: Final = " \t\r\n"
_COMMENT_END: Final = re.compile(r"\*/(?P<trim>[ \t\r\n]-)?\}\}")
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<declare>:=)|(?P<assign>=)|(?P<pipe>\|)|(?P<comma>,)|(?P<open>\()|(?P<close>\))
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<raw>`[^`]*`)
    |(?P<char>'(?:[^'\\\n]|\\.)+')
    |(?P<number>[+-]?(?:\.[0-9]|[0-9])[0-9A-Za-z_.]*(?:(?<=[eEpP])[+-][0-9_]*)?i?(?:[+-][0-9.][0-9A-Za-z_.]*(?:(?<=[eEpP])[+-][0-9_]*)?i)?)
    |(?P<field>\.\w+)|(?P<dot>\.)
    |(?P<variable>\$\w*)
    |(?P<word>\w+)""",
    re.VERBOSE,
)
_GLUED: Final = frozenset(("field", "variable", "word", "number", "char"))
_AFTER: Final = re.compile(r"[ \t\r\n.,|:()]|\}\}|\Z")


class LexToken(NamedTuple):
    """A token: its kind, its text, and its offset. The kind `text` is the text between actions."""

    kind: str
    text: str
    at: int


def tokens(source: str) -> Iterator[LexToken]:
    """Yield the tokens of a source. Raises TemplateError with a position if the source is not a template."""
    at, trim_next = 0, False
    while True:
        start = source.find("{{", at)
        text = source[at:] if start < 0 else source[at:start]
        if trim_next:
            text = text.lstrip(_TRIMMED)
        inner = start + 2
        trims = start >= 0 and source[inner : inner + 1] == "-" and source[inner + 1 : inner + 2] in tuple(_TRIMMED)
        if trims:
            text = text.rstrip(_TRIMMED)
            inner += 1
        if text:
            yield LexToken("text", text, at)
        if start < 0:
            return
        comment = inner + (1 if trims else 0)
        if source.startswith("/*", comment):
            end = _COMMENT_END.search(source, comment + 2)
            if end is None or source.find("*/", comment + 2) != end.start():
                raise _error(source, start, "unclosed comment, or text after a comment in its action")
            at, trim_next = end.end(), end["trim"] is not None
            continue
        yield LexToken("begin", "{{", start)
        at, trim_next = yield from _action(source, inner)


def _action(source: str, at: int) -> Generator[LexToken, None, tuple[int, bool]]:  # noqa: C901 -- one loop
    """Yield the tokens of one action; return its end, and whether it trims the text after it."""
    depth = 0
    while True:
        if at >= len(source):
            raise _error(source, at, "unclosed action")
        trims = source[at : at + 1] in tuple(_TRIMMED) and source.startswith("-}}", at + 1)
        if trims or source.startswith("}}", at):
            if depth:
                raise _error(source, at, "unclosed parenthesis")
            yield LexToken("end", "}}", at)
            return at + (4 if trims else 2), trims
        found = _TOKEN.match(source, at)
        kind = found.lastgroup if found is not None else None
        if found is None or kind is None:
            raise _error(source, at, f"unexpected {quote(source[at])}")
        text, end = found.group(), found.end()
        if kind == "space" and source.startswith("-}}", end):
            text, end = text[:-1], end - 1
        if kind in _GLUED and not _AFTER.match(source, end):
            raise _error(source, end, f"unexpected {quote(source[end])}")
        depth += (kind == "open") - (kind == "close")
        if depth < 0:
            raise _error(source, at, 'unexpected ")" without an opening parenthesis')
        if kind == "word" and text in _KEYWORDS:
            kind = text
        if text:
            yield LexToken(kind, text, at)
        at = end


def position(source: str, at: int) -> str:
    """Return an offset as LINE:COLUMN, both counted from 1."""
    line = source.count("\n", 0, at) + 1
    return f"{line}:{at - (source.rfind(chr(10), 0, at) + 1) + 1}"


def _error(source: str, at: int, words: str) -> TemplateError:
    return TemplateError(f"template {position(source, at)}: {words}")
