"""Parses YAML in an override's value (`parseValue: true`) into JSON values, as yaml.v2 2.4 does.

Laws: size, depth and number of values, aliases included, are bounded · ambiguous text is refused · no message contains
any part of the text.

The differences from YAML 1.1: `y` and `n` are booleans, `1:30` and dates are strings, `1e3` is a number, and a merge
key overrides the keys before it.
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

_MAX_LENGTH: Final = 256 * 1024  # a quarter of the limit of a Secret or ConfigMap
_MAX_DEPTH: Final = 64
_MAX_VALUES: Final = 50_000
_STEPS_A_VALUE: Final = 2  # so that all values of a rule together have at most _MAX_VALUES
_MAX_ALIAS_CHARACTERS: Final = 4 * _MAX_LENGTH  # that all aliases together may stand for

_EventLoader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT64: Final = range(-(2**63), 2**63)
_BARE_TAG: Final = re.compile(r"(?:&[\w-]+\s+)?!(?:\s|\Z)")
_BYTE_ORDER_MARK: Final = re.compile(r"(?:\A|[\n\r\x85\u2028\u2029])\ufeff")
_COLON: Final = re.compile(r":[,\[\]{}]")
_OPEN: Final = object()
"""The value of an anchor while its own value is being read."""


class _YamlError(Exception):
    """A text is not accepted as YAML; `line` is counted from 1, 0 is unknown."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


def parse_value(text: str, *, path: str, budget: Budget | None = None) -> Any:
    """Parse one YAML document into JSON values; an empty text is null. Raise InvalidObject for the field `path`.

    Each value takes steps from the budget, also each value that an alias stands for; TemplateError for too many steps.
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
        # yaml.v2 reads such a colon as part of the string, later YAML as a mapping, so the text is ambiguous.
        advice = "; inside [] or {} a string that ends in a colon needs quotes" if _COLON.search(text) else ""
        raise InvalidObject(path, f"the rendered text is not valid YAML{where}{advice}") from None
    except ValueError:  # a lone surrogate
        raise InvalidObject(path, "the rendered text is not valid Unicode") from None


class _DocumentReader:
    """Reads the document of one text from its YAML events; keeps the anchors read so far."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._budget = budget
        self._text = text.removeprefix("\ufeff")  # libyaml does not count it
        if mark := _BYTE_ORDER_MARK.search(self._text):  # yaml.v2 reads it as text, libyaml ignores it
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
            raise _error_at(start, "only version 1.1 of YAML is supported")
        value = self._read_value(next(self._events), depth=0)
        next(self._events)  # the document's end
        behind = next(self._events)
        if not isinstance(behind, yaml.StreamEndEvent):
            raise _error_at(behind, "there is a second document")  # which yaml.v2 would ignore
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
        # An anchor that was defined again inside the value keeps its newer value.
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
        """Read a key: a string, or an integer or boolean, which become strings in JSON."""
        key = self._read_value(event, depth=depth + 1)
        if isinstance(key, float) or (isinstance(event, yaml.ScalarEvent) and isinstance(_read_scalar(event), float)):
            raise _error_at(event, "a key with a fraction loses digits: write it in quotes")
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int):
            return str(key)
        if not isinstance(key, str):
            raise _error_at(event, "a key must be a string, an integer or a boolean")
        if key == "<<":  # the original writes the value as YAML again, where this key merges
            raise _error_at(event, "`<<` in quotes or with a tag is ambiguous: it may be a key or a merge key")
        return key

    def _merge(self, mapping: dict[str, Any], depth: int) -> None:
        """Merge the keys of a mapping, or of a list of mappings; the first mapping wins."""
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
            raise _error_at(event, "this alias is part of its own value")
        return self._anchors[event.anchor]

    def _copy_alias(self, value: Any, event: Any, depth: int) -> Any:
        """Copy the value of an alias; count its values as if they were written out."""
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
        """Count a string that an alias stands for; the length of the text limits all other strings."""
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
    """Read a scalar as the JSON value that is stored: a float without a fraction is an integer.

    Go formats a large float with its significant digits and zeros, not with its exact value: 6.5e16 is 65 and zeros.
    """
    event.value.encode()  # a lone surrogate raises
    value = _read_scalar(event)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _error_at(event, "JSON has no number for this value")
        whole = int(Decimal(repr(value)))
        return whole if value.is_integer() and whole in _INT64 else value
    if isinstance(value, int) and value not in _INT64:
        return float(value)
    return value


def _error_at(event: Any, why: str) -> _YamlError:
    return _YamlError(_get_mark(event).line + 1, why)


def _get_mark(event: Any) -> Any:
    return event.start_mark
