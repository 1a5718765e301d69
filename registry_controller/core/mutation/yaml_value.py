"""YAML in an override's value (`parseValue: true`), as yaml.v2 2.4 reads it, into what JSON can say.

Law: bounded in size, depth and, aliases counted, in values; what could say two things at once is refused; no message
holds any of the text.

Where that is not YAML 1.1 by the book: `y` and `n` are flags, `1:30` and dates are texts, `1e3` is a number, and a
merge key acts where it stands: it overrides the keys before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import yaml

from registry_controller.api.errors import InvalidObject
from registry_controller.core.mutation.yaml_scalar import InvalidScalar, Scalar, is_merge_key, read_scalar
from registry_controller.gotemplate.limits import Budget

_MAX_LENGTH: Final = 256 * 1024  # a quarter of what a Secret or ConfigMap can hold
_MAX_DEPTH: Final = 64
_MAX_VALUES: Final = 50_000
_STEPS_A_VALUE: Final = 2  # so that no more than _MOST_VALUES are in all values of a rule together
_MAX_ALIAS_CHARACTERS: Final = 4 * _MAX_LENGTH  # what all aliases together may stand for

_EventLoader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT64: Final = range(-(2**63), 2**63)
_BARE_TAG: Final = re.compile(r"(?:&[\w-]+\s+)?!(?:\s|\Z)")
_BYTE_ORDER_MARK: Final = re.compile(r"(?:\A|[\n\r\x85\u2028\u2029])\ufeff")
_COLON: Final = re.compile(r":[,\[\]{}]")
_OPEN: Final = object()
"""What an anchor stands for inside its own value."""


class _YamlError(Exception):
    """A text is no YAML, or none that we take; `line` is counted from 1, 0 is unknown."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


def parse_value(text: str, *, path: str, budget: Budget | None = None) -> Any:
    """Read one YAML document into JSON values; no document is null. Raise InvalidObject at the field `path`.

    Each value takes steps from the budget, as if it were written out where an alias stands; TemplateError for too many.
    """
    if len(text) > _MAX_LENGTH:
        raise InvalidObject(path, f"is longer than {_MAX_LENGTH} characters")
    try:
        return _DocumentReader(text, budget or Budget()).read_document()
    except _YamlError as refused:
        raise InvalidObject(path, f"line {refused.line} of the rendered YAML: {refused}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        # yaml.v2 reads such a colon as part of the text, later YAML as a mapping: people may mean either.
        advice = "; inside [] or {} a text that ends in a colon needs quotes" if _COLON.search(text) else ""
        raise InvalidObject(path, f"the rendered text is no valid YAML{where}{advice}") from None
    except ValueError:  # a lone surrogate
        raise InvalidObject(path, "the rendered text is no valid Unicode") from None


class _DocumentReader:
    """The events of one text, and the anchors so far."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._budget = budget
        self._text = text.removeprefix("\ufeff")  # libyaml does not count it
        if mark := _BYTE_ORDER_MARK.search(self._text):  # part of a text for yaml.v2, nothing at all for libyaml
            line = 1 + len(re.findall(r"\r\n|[\n\r\x85\u2028\u2029]", self._text[: mark.end()]))
            raise _YamlError(line, "a line begins with a byte order mark")
        self._events: Iterator[Any] = yaml.parse(self._text, Loader=_EventLoader)
        self._anchors: dict[str, Any] = {}
        self._values = self._characters = 0

    def read_document(self) -> Any:
        """Read the only document."""
        next(self._events)  # the stream's start
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            return None
        if start.version not in (None, (1, 1)):
            raise _error_at(start, "only version 1.1 of YAML is read")
        value = self._read_value(next(self._events), depth=0)
        next(self._events)  # the document's end
        behind = next(self._events)
        if not isinstance(behind, yaml.StreamEndEvent):
            raise _error_at(behind, "there is a second document")  # which yaml.v2 would not look at
        return value

    def _read_value(self, event: Any, *, depth: int) -> Any:
        self._count_one(event, depth)
        if isinstance(event, yaml.AliasEvent):
            return self._copy_alias(self._get_anchored(event), event, depth)
        if event.anchor:
            self._anchors[event.anchor] = _OPEN
        if isinstance(event, yaml.ScalarEvent):
            if _BARE_TAG.match(self._text, _get_mark(event).index):
                raise _error_at(event, "the tag `!` is not implemented")  # libyaml does not report it
            value: Any = _read_json_scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = [self._read_value(item, depth=depth + 1) for item in self._iterate_until(yaml.SequenceEndEvent)]
        else:
            value = self._read_mapping(depth)
        # An anchor that was given again inside keeps its newer meaning.
        if event.anchor and self._anchors[event.anchor] is _OPEN:
            self._anchors[event.anchor] = value
        return value

    def _read_mapping(self, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        written: set[str] = set()
        for event in self._iterate_until(yaml.MappingEndEvent):
            if _is_merge(event):
                self._merge(mapping, depth)
                continue
            key = self._read_key(event, depth)
            if key in written:
                raise _error_at(event, "the same key again")
            written.add(key)
            mapping[key] = self._read_value(next(self._events), depth=depth + 1)
        return mapping

    def _read_key(self, event: Any, depth: int) -> str:
        """Read a key: a text, or an integer or flag, which are texts in JSON."""
        key = self._read_value(event, depth=depth + 1)
        if isinstance(key, float) or (isinstance(event, yaml.ScalarEvent) and isinstance(_read_scalar(event), float)):
            raise _error_at(event, "a key that is no whole number loses digits: write it in quotes")
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int):
            return str(key)
        if not isinstance(key, str):
            raise _error_at(event, "a key must be a text, an integer or a flag")
        if key == "<<":  # as the original writes it again before it is stored, it merges after all
            raise _error_at(event, "`<<` in quotes or with a tag could be a key or a merge")
        return key

    def _merge(self, mapping: dict[str, Any], depth: int) -> None:
        """Take over the keys of a mapping, or of a list of mappings, the first of which wins."""
        event = next(self._events)
        merged = self._read_value(event, depth=depth + 1)
        sources = merged[::-1] if isinstance(event, yaml.SequenceStartEvent) else [merged]
        for source in sources:
            if not isinstance(source, dict):
                raise _error_at(event, "only a mapping, or a list of them, can be merged")
            mapping.update(source)

    def _get_anchored(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _error_at(event, "this alias has no anchor before it")
        if self._anchors[event.anchor] is _OPEN:
            raise _error_at(event, "this alias is part of what it stands for")
        return self._anchors[event.anchor]

    def _copy_alias(self, value: Any, event: Any, depth: int) -> Any:
        """Copy what an alias stands for, counting it as if it were written out."""
        self._count_one(event, depth)
        if isinstance(value, dict):
            self._count_text("".join(value), event)
            return {key: self._copy_alias(item, event, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self._copy_alias(item, event, depth + 1) for item in value]
        self._count_text(value, event)
        return value

    def _count_one(self, event: Any, depth: int) -> None:
        self._values += 1
        if self._values > _MAX_VALUES:
            raise _error_at(event, f"there are more than {_MAX_VALUES} values")
        self._budget.step(_STEPS_A_VALUE)
        if depth >= _MAX_DEPTH:
            raise _error_at(event, f"there are more than {_MAX_DEPTH} levels")

    def _count_text(self, value: Any, event: Any) -> None:
        """Count a text that an alias stands for; what is written out has the length of the whole for its limit."""
        self._characters += len(value) if isinstance(value, str) else 0
        if self._characters > _MAX_ALIAS_CHARACTERS:
            raise _error_at(event, f"aliases stand for more than {_MAX_ALIAS_CHARACTERS} characters")

    def _iterate_until(self, end: type[Any]) -> Iterator[Any]:
        while not isinstance(event := next(self._events), end):
            yield event


def _is_merge(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and is_merge_key(
        event.value, tag=event.tag or "", is_plain=event.implicit[0]
    )


def _read_scalar(event: Any) -> Scalar:
    try:
        return read_scalar(event.value, tag=event.tag or "", is_plain=event.implicit[0])
    except InvalidScalar as unreadable:
        raise _error_at(event, str(unreadable)) from None


def _read_json_scalar(event: Any) -> Scalar:
    """Read a scalar as the JSON that is stored of it: a whole number is one however it was spelled.

    Go spells a large float with its significant digits and zeros, not with what its bits are: 6.5e16 is 65 and zeros.
    """
    event.value.encode()  # a lone surrogate raises
    value = _read_scalar(event)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _error_at(event, "JSON has no such number")
        whole = int(Decimal(repr(value)))
        return whole if value.is_integer() and whole in _INT64 else value
    if isinstance(value, int) and value not in _INT64:
        return float(value)
    return value


def _error_at(event: Any, why: str) -> _YamlError:
    return _YamlError(_get_mark(event).line + 1, why)


def _get_mark(event: Any) -> Any:
    return event.start_mark
