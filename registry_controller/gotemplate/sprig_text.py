"""Sprig's functions on texts, regular expressions, encodings and digests."""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import re2

from registry_controller.gotemplate.arguments import count, shown, text, texts, whole
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.printf import quote
from registry_controller.gotemplate.values import Texts, is_missing, text_of

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""What Go's unicode.IsSpace holds for space."""
_WORD_START: Final = re.compile(r"(^|[\s_])(\w)")
_REPLACEMENT: Final = re.compile(r"\$(?:\{(\w*)\}|(\w+)|(\$))")
_PATTERN: Final = 1000


def _cut(value: str, start: int, end: int) -> str:
    """Cut as Go cuts a string, by bytes."""
    return value.encode()[start:end].decode(errors="replace")


def _trunc(_: Budget, length: Any, value: Any) -> str:
    size, found = whole(length), text(value)
    if size < 0:
        raise TemplateError("a negative length")
    return _cut(found, 0, size) if size < len(found.encode()) else found


def _substr(_: Budget, start: Any, end: Any, value: Any) -> str:
    first, last, found = whole(start), whole(end), text(value)
    size = len(found.encode())
    if first < 0:
        if not 0 <= last <= size:
            raise TemplateError("substr: out of range")
        return _cut(found, 0, last)
    if last < 0 or last > size:
        if first > size:
            raise TemplateError("substr: out of range")
        return _cut(found, first, size)
    if first > last:
        raise TemplateError("substr: out of range")
    return _cut(found, first, last)


def _repeat(budget: Budget, times: Any, value: Any) -> str:
    number, found = whole(times), text(value)
    if number < 0:
        raise TemplateError("repeat: a negative count")
    budget.make(number * len(found))
    return found * number


def _replace(budget: Budget, old: Any, new: Any, value: Any) -> str:
    before, after, found = text(old), text(new), text(value)
    places = found.count(before) if before else len(found) + 1
    budget.make(len(found) + places * len(after))
    return found.replace(before, after)


def _indent(budget: Budget, spaces: Any, value: Any) -> str:
    pad, found = whole(spaces), text(value)
    if pad < 0:
        raise TemplateError("indent: a negative count")
    budget.make(len(found) + pad * (found.count("\n") + 1))
    return " " * pad + found.replace("\n", "\n" + " " * pad)


def _nindent(budget: Budget, spaces: Any, value: Any) -> str:
    return "\n" + _indent(budget, spaces, value)


def _title(_: Budget, value: Any) -> str:
    written, starts = [], True
    for char in text(value):
        written.append(char.title() if starts and char.isalpha() else char)
        starts = char.isspace() or (char.isascii() and not (char.isalnum() or char == "_"))
    return "".join(written)


def _untitle(_: Budget, value: Any) -> str:
    return re.sub(r"(^|\s)(\S)", lambda m: m[1] + m[2].lower(), text(value))


def _swapcase(_: Budget, value: Any) -> str:
    written, starts = [], True
    for char in text(value):
        if char.isupper() or char.istitle():
            written.append(char.lower())
        elif char.islower():
            written.append(char.title() if starts else char.upper())
        else:
            written.append(char)
        starts = char.isspace()
    return "".join(written)


def _initials(_: Budget, value: Any) -> str:
    return "".join(word[0] for word in text(value).split())


def _nospace(_: Budget, value: Any) -> str:
    return "".join(char for char in text(value) if char not in _SPACE)


def _abbrev(_: Budget, width: Any, value: Any) -> str:
    size, found = whole(width), text(value)
    if size < 4:
        return found
    return found if len(found.encode()) <= size else f"{_cut(found, 0, size - 3)}..."


def _cat(budget: Budget, *given: Any) -> str:
    parts = [text_of(value, budget) for value in given if not is_missing(value)]
    return " ".join(parts)


def _quoted(budget: Budget, *given: Any) -> str:
    return " ".join(quote(shown(budget, value)) for value in given if not is_missing(value))


def _squoted(budget: Budget, *given: Any) -> str:
    return " ".join(f"'{text_of(value, budget)}'" for value in given if not is_missing(value))


def _plural(_: Budget, one: Any, many: Any, number: Any) -> str:
    return text(one) if whole(number) == 1 else text(many)


def _trim_all(_: Budget, chars: Any, value: Any) -> str:
    return text(value).strip(text(chars)) if text(chars) else text(value)


def _join(budget: Budget, separator: Any, value: Any) -> str:
    parts = texts(budget, value)
    budget.make(sum(map(len, parts)) + len(text(separator)) * len(parts))
    return text(separator).join(parts)


def _split(_: Budget, separator: Any, value: Any) -> dict[str, str]:
    return {f"_{index}": part for index, part in enumerate(_parts(text(value), text(separator)))}


def _splitn(_: Budget, separator: Any, most: Any, value: Any) -> dict[str, str]:
    number = whole(most)
    parts = _parts(text(value), text(separator), number)
    return {f"_{index}": part for index, part in enumerate(parts)}


def _split_list(_: Budget, separator: Any, value: Any) -> list[Any]:
    return Texts(_parts(text(value), text(separator)))


def _parts(value: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not separator:
        chars = list(value)
        return chars if most < 0 or most >= len(chars) else [*chars[: most - 1], "".join(chars[most - 1 :])]
    return value.split(separator, most - 1 if most > 0 else -1)


def _pattern(pattern: Any) -> Any:
    source = text(pattern)
    if len(source) > _PATTERN:
        raise TemplateError(f"a regular expression of more than {_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(source, options)
    except re2.error:
        raise TemplateError("no regular expression that Go knows") from None


def _regex_match(_: Budget, pattern: Any, value: Any) -> bool:
    return _pattern(pattern).search(text(value)) is not None


def _regex_find(_: Budget, pattern: Any, value: Any) -> str:
    found = _pattern(pattern).search(text(value))
    return str(found.group(0)) if found else ""


def _regex_find_all(budget: Budget, pattern: Any, value: Any, most: Any) -> list[Any]:
    limit = whole(most)
    found: list[Any] = Texts()
    for match in _pattern(pattern).finditer(text(value)):
        budget.step()
        if 0 <= limit <= len(found):
            break
        found.append(match.group(0))
    return found


def _regex_replace(budget: Budget, pattern: Any, value: Any, replacement: Any, *, literal: bool) -> str:
    compiled, found, new = _pattern(pattern), text(value), text(replacement)
    written, at, size = [], 0, 0
    for match in compiled.finditer(found):
        budget.step()
        piece = new if literal else _expand(match, new)
        size += len(piece)
        budget.make(len(found) + size)
        written += [found[at : match.start()], piece]
        at = match.end()
    return "".join([*written, found[at:]])


def _expand(match: Any, replacement: str) -> str:
    names = match.re.groupindex

    def group(found: re.Match[str]) -> str:
        if found[3]:
            return "$"
        name = found[1] if found[1] is not None else found[2]
        if name.isdigit():
            return (match.group(int(name)) or "") if int(name) <= match.re.groups else ""
        return (match.group(names[name]) or "") if name in names else ""

    return _REPLACEMENT.sub(group, replacement)


def _regex_split(budget: Budget, pattern: Any, value: Any, most: Any) -> list[Any]:
    limit, found = whole(most), text(value)
    if limit == 0:
        return []
    if text(pattern) and not found:
        return Texts([""])
    parts: list[Any] = Texts()
    at = begin = 0
    for match in _pattern(pattern).finditer(found):
        budget.step()
        if 0 < limit == len(parts) + 1:
            break
        if match.end() == 0:
            continue
        parts.append(found[begin : match.start()])
        begin = match.end()
        at = match.start()
    if at != len(found):
        parts.append(found[begin:])
    return parts


def _b64dec(_: Budget, value: Any) -> str:
    return _decoded(base64.b64decode, text(value), binascii.Error)


def _b32dec(_: Budget, value: Any) -> str:
    return _decoded(base64.b32decode, text(value), binascii.Error)


def _decoded(decode: Callable[..., bytes], value: str, error: type[Exception]) -> str:
    try:
        plain = value.replace("\r", "").replace("\n", "")
        data = decode(plain, validate=True) if decode is base64.b64decode else decode(plain)
    except (error, ValueError):
        raise TemplateError("cannot be decoded") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise TemplateError("is no text when it is decoded") from None


def _snake(_: Budget, value: Any) -> str:
    return _separated(text(value), "_")


def _kebab(_: Budget, value: Any) -> str:
    return _separated(text(value), "-")


def _separated(value: str, mark: str) -> str:
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", value)
    parts = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", parts)
    return mark.join(re.split(r"[\s_\-]+", parts.strip())).lower()


def _camel(_: Budget, value: Any) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[\s_\-]+", text(value)))


def _wrap(budget: Budget, width: Any, value: Any) -> str:
    return _wrapped(budget, whole(width), "\n", text(value))


def _wrapped(budget: Budget, width: int, new_line: str, value: str) -> str:
    width = max(width, 1)
    lines: list[str] = []
    rest = value
    while len(rest) > width:
        budget.step()
        if rest[0] == " ":
            rest = rest[1:]
            continue
        space = rest.rfind(" ", 0, width + 1)
        if space < 0:
            space = rest.find(" ", width)
        if space < 0:
            break
        lines.append(rest[:space])
        rest = rest[space + 1 :]
    return new_line.join([*lines, rest])


def _simple(function: Callable[[str], Any]) -> Callable[..., Any]:
    def call(_: Budget, *given: Any) -> Any:
        count(given, 1, 1)
        return function(text(given[0]))

    return call


def _pair(function: Callable[[str, str], Any]) -> Callable[..., Any]:
    def call(_: Budget, *given: Any) -> Any:
        count(given, 2, 2)
        return function(text(given[0]), text(given[1]))

    return call


def _digest(name: str) -> Callable[..., Any]:
    return _simple(lambda value: hashlib.new(name, value.encode(), usedforsecurity=False).hexdigest())


def _clean(path: str) -> str:
    found = posixpath.normpath(path) if path else "."
    return found[1:] if found.startswith("//") else found


def _extension(path: str) -> str:
    name = path.rpartition("/")[2]
    return "." + name.rpartition(".")[2] if "." in name else ""


TEXT: Final[Mapping[str, Callable[..., Any]]] = {
    "trim": _simple(lambda value: value.strip(_SPACE)), "upper": _simple(str.upper), "lower": _simple(str.lower),
    "title": _title, "untitle": _untitle, "swapcase": _swapcase, "initials": _initials, "nospace": _nospace,
    "trimAll": _trim_all, "trimall": _trim_all, "trimSuffix": _pair(lambda end, value: value.removesuffix(end)),
    "trimPrefix": _pair(lambda start, value: value.removeprefix(start)),
    "contains": _pair(lambda part, value: part in value),
    "hasPrefix": _pair(lambda start, value: value.startswith(start)),
    "hasSuffix": _pair(lambda end, value: value.endswith(end)), "trunc": _trunc, "substr": _substr, "repeat": _repeat,
    "replace": _replace, "indent": _indent, "nindent": _nindent, "abbrev": _abbrev, "cat": _cat, "quote": _quoted,
    "squote": _squoted, "plural": _plural, "join": _join, "split": _split, "splitn": _splitn, "splitList": _split_list,
    "regexMatch": _regex_match, "regexFind": _regex_find, "regexFindAll": _regex_find_all,
    "regexReplaceAll": lambda budget, *given: _regex_replace(budget, *given, literal=False),
    "regexReplaceAllLiteral": lambda budget, *given: _regex_replace(budget, *given, literal=True),
    "regexSplit": _regex_split, "snakecase": _snake, "kebabcase": _kebab, "camelcase": _camel, "wrap": _wrap,
    "b64enc": _simple(lambda value: base64.b64encode(value.encode()).decode()), "b64dec": _b64dec,
    "b32enc": _simple(lambda value: base64.b32encode(value.encode()).decode()), "b32dec": _b32dec,
    "sha1sum": _digest("sha1"), "sha256sum": _digest("sha256"),
    "adler32sum": _simple(lambda value: str(zlib.adler32(value.encode()))),
    "base": _simple(lambda value: posixpath.basename(value.rstrip("/")) or ("/" if value else ".")),
    "dir": _simple(lambda value: _clean(posixpath.dirname(value) or ".")),
    "clean": _simple(_clean),
    "ext": _simple(_extension), "isAbs": _simple(lambda value: value.startswith("/")),
}  # fmt: skip
