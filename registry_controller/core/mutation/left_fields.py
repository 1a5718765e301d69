"""The places that a rule takes out of a copy, and leaves to the cluster that holds it: any writer may set them there.

Laws: a later override that sets a place, or a place around it, takes it back · an element that is removed is left only
where it was found by `key=value`, because no other element can be taken for it · the daemon's marks, name, namespace
and kind are never left.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from registry_controller.core.mutation.gopatch_path import AppendToken, IndexToken, KeyToken, MatchToken, PathToken


class Named(NamedTuple):
    """The element of a list whose `key` is the text `value`."""

    key: str
    value: str


_MOST_RECORDED: Final = 64

Step = str | int | Named
"""A key, the index of an element of the wanted list, or an element by a text of its own."""

LeftPath = tuple[Step, ...]
"""The place of something that was taken out, from the object down."""

_TEXTS: Final = ("labels", "annotations")
_NEVER: Final = frozenset(("apiVersion", "kind", "status"))
_MISSING: Final = object()


class LeftTracker:
    """Collects the places that removals take out, while a document is changed.

    `is_secret` is for a Secret: its `stringData` is stored in `data`. `charge` is called with the number of values
    before they are compared one by one.
    """

    def __init__(
        self, paths: Iterable[LeftPath] = (), *, is_secret: bool = False, charge: Callable[[int], None] | None = None
    ) -> None:
        self._paths = list(paths)
        self._is_secret = is_secret
        self._on_charge = charge
        self._set: list[LeftPath] = []

    def __len__(self) -> int:
        return len(self._paths)

    def record_removal(self, tokens: Sequence[PathToken], document: Any) -> None:
        """Record that a place is taken out of a document, whether or not it is there."""
        path = self._resolve(tokens, document)
        self._charge(len(self._paths))
        if path and not isinstance(path[-1], int) and path not in self._paths:
            self._paths.append(path)

    def record_field(self, path: LeftPath) -> bool:
        """Record a place that is left without an override; return False where one sets it or a place around it."""
        if any(one[: len(path)] == path[: len(one)] for one in self._set):
            return False
        self._paths.append(path)
        return True

    def record_replacement(self, tokens: Sequence[PathToken], document: Any) -> None:
        """Record that a place is set: it, and all below it, is wanted again."""
        path = self._resolve(tokens, document)
        if path is not None:
            self._set.append(path)
            self._charge(len(self._paths))
            self._paths = [left for left in self._paths if not self._is_around(path, left, document)]

    def record_shift(self, place: Sequence[str | int], document: Any, *, by: int) -> None:
        """Record that an element was inserted (`by` is 1) or removed (-1) at a place that ends in its index."""
        *parts, index = place
        if not isinstance(index, int):
            return
        self._charge(len(self._paths))
        shifted = (
            _shift(left, at=len(parts), index=index, by=by)
            if len(left) > len(parts) and self._is_around(parts, left, document)
            else left
            for left in self._paths
        )
        self._paths = [left for left in shifted if left]

    def left_in(self, document: Any, *, is_mark: Callable[[str], bool]) -> tuple[LeftPath, ...]:
        """Return the places that are left by the changed document, in a fixed order; `is_mark` knows our own marks."""
        kept = {left for left in self._paths if _may_be_left(left, is_mark) and not _is_element_of(left, document)}
        return tuple(sorted(kept, key=lambda left: (left[0] == "metadata", repr(left))))

    def _resolve(self, tokens: Sequence[PathToken], document: Any) -> LeftPath | None:
        path = _resolve(tokens, document)
        is_alias = self._is_secret and path is not None and path[:1] == ("stringData",)
        return ("data", *path[1:]) if is_alias and path is not None else path

    def _is_around(self, path: Sequence[Step], left: LeftPath, document: Any) -> bool:
        """Return whether a place is another one, or is around it; an index and a text may name the same element."""
        if len(path) > len(left):
            return False
        for at, (step, other) in enumerate(zip(path, left, strict=False)):
            if step != other and not _is_same_element(step, other, functools.partial(self._walk, path[:at], document)):
                return False
        return True

    def _charge(self, count: int) -> None:
        if self._on_charge is not None:
            self._on_charge(count)

    def _walk(self, path: Sequence[Step], document: Any) -> Any:
        found = document
        for step in path:
            if isinstance(step, Named):
                self._charge(len(_items(found)))
            found = _step_into(found, step)
        return found


def _resolve(tokens: Sequence[PathToken], document: Any) -> LeftPath | None:
    """Return the place of a path in a document, also of one that is not there; None where nothing identifies it."""
    steps: list[Step] = []
    found = document
    for token in tokens:
        match token:
            case KeyToken():
                steps.append(token.name)
                found = found.get(token.name, _MISSING) if isinstance(found, Mapping) else _MISSING
            case MatchToken() if not token.modifiers:
                step = Named(token.key, token.value)
                steps.append(step)
                found = next((item for item in _items(found) if _has(item, step)), _MISSING)
            case IndexToken() if not token.modifiers:
                items = _items(found)
                index = token.number + (len(items) if token.number < 0 else 0)
                if index < 0:
                    return None
                steps.append(index)
                found = items[index] if index < len(items) else _MISSING
            case AppendToken() | IndexToken() | MatchToken():
                return None
    return tuple(steps)


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _has(item: Any, step: Named) -> bool:
    return isinstance(item, Mapping) and item.get(step.key) == step.value


def _is_same_element(one: Step, other: Step, read_list: Callable[[], Any]) -> bool:
    index, named = (one, other) if isinstance(one, int) else (other, one)
    if not isinstance(index, int) or not isinstance(named, Named):
        return False
    items = _items(read_list())
    return index < len(items) and _has(items[index], named)


def _step_into(found: Any, step: Step) -> Any:
    match step:
        case Named():
            return next((item for item in _items(found) if _has(item, step)), _MISSING)
        case int():
            return found[step] if step < len(_items(found)) else _MISSING
        case str():
            return found.get(step, _MISSING) if isinstance(found, Mapping) else _MISSING


def _shift(left: LeftPath, *, at: int, index: int, by: int) -> LeftPath:
    """Move an index where an element was inserted or removed in its list; empty for the removed one."""
    step = left[at]
    if not isinstance(step, int) or step < index:
        return left
    return () if by < 0 and step == index else (*left[:at], step + by, *left[at + 1 :])


def _may_be_left(left: LeftPath, is_mark: Callable[[str], bool]) -> bool:
    if left[0] in _NEVER:
        return False
    if left[0] != "metadata":
        return True
    if len(left) < 2 or left[1] not in _TEXTS:
        return False
    return len(left) == 2 or (isinstance(left[2], str) and not is_mark(left[2]))


def _is_element_of(left: LeftPath, document: Any) -> bool:
    """Return whether a place is an element that the document has: it was put back."""
    return isinstance(left[-1], Named) and functools.reduce(_step_into, left, document) is not _MISSING


@functools.lru_cache(maxsize=1024)
def digest_paths(paths: tuple[LeftPath, ...]) -> tuple[str, ...]:
    """Return a short digest of each place; of more than 64, one of all, so that the annotation stays short.

    A path belongs to the rule and has no object data.
    """
    plain = [[list(step) if isinstance(step, Named) else step for step in path] for path in paths]
    digested: list[Any] = plain if len(plain) <= _MOST_RECORDED else [plain]
    return tuple(hashlib.blake2b(orjson.dumps(part), digest_size=4).hexdigest() for part in digested)


def format_path(left: Iterable[Step]) -> str:
    """Format a place as users read it: `spec.ports[name=http].port`."""
    text = ""
    for step in left:
        if isinstance(step, Named):
            text += f"[{step.key}={step.value}]"
        elif isinstance(step, int) or "." in step or "/" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


@dataclass(frozen=True, slots=True)
class LeftFields:
    """The left places below one place, as a tree.

    `is_left` means that all below it is left. `is_settled` means that the stored copy was written with this place left:
    a value that the daemon wrote there was not wanted by the rule.
    """

    is_left: bool = False
    is_settled: bool = False
    below: Mapping[Step, LeftFields] = field(default_factory=dict)

    @property
    def matches(self) -> Sequence[Named]:
        """Return the steps to elements by a text of their own."""
        return [step for step in self.below if isinstance(step, Named)]

    def field(self, name: str) -> LeftFields | None:
        """Return the left places below a key; None for none."""
        return self._inherit(self.below.get(name))

    def element(self, index: int, item: object) -> LeftFields | None:
        """Return the left places below an element of the wanted list."""
        named = next((step for step in self.matches if _has(item, step)), None)
        return self._inherit(self.below.get(index if named is None else named))

    def extra_element(self, item: object) -> LeftFields | None:
        """Return a place where an element is left that is not wanted; None where it is not left."""
        named = next((step for step in self.matches if _has(item, step)), None)
        found = self._inherit(self.below[named] if named is not None else None)
        return found if found is not None and found.is_left else None

    def _inherit(self, found: LeftFields | None) -> LeftFields | None:
        if not self.is_left:
            return found
        if found is None:
            return LeftFields(is_left=True, is_settled=self.is_settled)
        return LeftFields(True, self.is_settled or found.is_settled, found.below)


def build_left_fields(paths: Sequence[LeftPath], *, settled: frozenset[str]) -> LeftFields | None:
    """Build the tree of left places; None without any. `settled` are the digests that the stored copy has."""
    if not paths:
        return None
    digests = digest_paths(tuple(paths))
    each = digests if len(digests) == len(paths) else digests * len(paths)
    return _build([(path, digest in settled) for path, digest in zip(paths, each, strict=True)])


def _build(paths: Iterable[tuple[Sequence[Step], bool]]) -> LeftFields:
    ends, below = list[bool](), dict[Step, list[tuple[Sequence[Step], bool]]]()
    for path, is_settled in paths:
        if path:
            below.setdefault(path[0], []).append((path[1:], is_settled))
        else:
            ends.append(is_settled)
    return LeftFields(bool(ends), any(ends), {step: _build(found) for step, found in below.items()})
