"""Converts names to snake_case, kebab-case and CamelCase, word by word as huandu/xstrings 1.3 does."""

from __future__ import annotations

import enum
import unicodedata
from collections.abc import Iterator
from typing import Final

_SPACE: Final = frozenset(" \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    chr(code) for code in range(0x2000, 0x200B)
}
_CJK: Final = range(0x3400, 0xA000)


class _CharClass(enum.Enum):
    NUMBER = enum.auto()
    CAPITALS = enum.auto()
    LETTERS = enum.auto()
    CONNECTOR = enum.auto()
    PUNCTUATION = enum.auto()
    OTHER = enum.auto()


def camel(value: str) -> str:
    """Join words, each with a capital letter; connectors at the beginning stay."""
    start = next((index for index, char in enumerate(value) if not _is_connector(char)), len(value))
    if start >= len(value):
        return value + value[-1:]  # a bug of xstrings, on which existing names may depend
    written = [value[:start]]
    held = _upper(value[start])
    for char in value[start + 1 :]:
        if _is_connector(char) and _is_connector(held):
            written.append(held)
            continue
        if _is_connector(held):
            held = _upper(char)
        else:
            written.append(held)
            held = char.lower()[:1]
    return "".join([*written, held])


def separated(value: str, mark: str) -> str:
    """Write words in lower case with a mark between them. A number belongs to the word before it, or begins a word."""
    return _WordSeparator(list(_words(value)), mark).text()


class _WordSeparator:
    """Writes the words of one name with marks between them."""

    def __init__(self, words: list[tuple[_CharClass, str]], mark: str) -> None:
        self._words = words
        self._mark = mark
        self._at = 0
        self._written: list[str] = []

    def text(self) -> str:
        while self._at < len(self._words) - 1:
            kind = self._write_word()
            match kind:
                case _CharClass.NUMBER:
                    self._write_letters_and_numbers()
                    self._write_mark(_CharClass.PUNCTUATION)
                case _CharClass.CONNECTOR | _CharClass.PUNCTUATION:
                    pass
                case _ if self._next() is not _CharClass.NUMBER:
                    self._write_mark(_CharClass.CONNECTOR, _CharClass.PUNCTUATION)
                case _ if self._at < len(self._words) - 1:
                    self._write_number()
        if self._at < len(self._words):
            self._write_word()
        return "".join(self._written)

    def _write_number(self) -> None:
        """Write the number after a word; before lower-case letters, the number begins a new word."""
        if self._next(1) is not _CharClass.LETTERS:
            self._write_word()
        else:
            self._written.append(self._mark)
            self._write_letters_and_numbers()
        self._write_mark(_CharClass.CONNECTOR, _CharClass.PUNCTUATION)

    def _write_letters_and_numbers(self) -> None:
        while self._next() in (_CharClass.LETTERS, _CharClass.NUMBER):
            self._write_word()

    def _write_mark(self, *unless: _CharClass) -> None:
        """Write a mark, unless the name ends here or the next word is of a kind in `unless`."""
        if self._next() not in (None, *unless):
            self._written.append(self._mark)

    def _next(self, ahead: int = 0) -> _CharClass | None:
        return self._words[self._at + ahead][0] if self._at + ahead < len(self._words) else None

    def _write_word(self) -> _CharClass:
        kind, word = self._words[self._at]
        self._at += 1
        self._written.append(_small(kind, word, self._mark))
        return kind


def _words(value: str) -> Iterator[tuple[_CharClass, str]]:
    """Yield runs of one kind; the last of several capital letters belongs to the lower-case letters after it."""
    start = 0
    while start < len(value):
        kind, end = _kind_of(value[start]), start + 1
        if kind is _CharClass.CAPITALS:
            if value[end : end + 1].isupper():
                while end < len(value) and value[end].isupper():
                    end += 1
                if end < len(value) and _is_letter(value[end]):
                    end -= 1
            else:
                while end < len(value) and _is_letter(value[end]):
                    end += 1
        else:
            while end < len(value) and _kind_of(value[end]) is kind:
                end += 1
        yield kind, value[start:end]
        start = end


def _kind_of(char: str) -> _CharClass:
    if _is_connector(char):
        return _CharClass.CONNECTOR
    category = unicodedata.category(char)
    if category.startswith("P"):
        return _CharClass.PUNCTUATION
    if category == "Lu":
        return _CharClass.CAPITALS
    if _is_letter(char):
        return _CharClass.LETTERS
    return _CharClass.NUMBER if category.startswith("N") else _CharClass.OTHER


def _is_connector(char: str) -> bool:
    return char in "-_" or char in _SPACE


def _is_letter(char: str) -> bool:
    """Return whether a character is a letter, except capital letters and CJK ideographs."""
    category = unicodedata.category(char)
    return category.startswith("L") and category != "Lu" and ord(char) not in _CJK


def _upper(char: str) -> str:
    return found if len(found := char.upper()) == 1 else char


def _small(kind: _CharClass, word: str, mark: str) -> str:
    if kind is _CharClass.CONNECTOR:
        return mark * len(word)
    return "".join(char.lower()[:1] for char in word) if kind is _CharClass.CAPITALS else word
