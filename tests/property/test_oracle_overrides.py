"""Overrides, held against go-patch 0.2 itself: the same documents, or both refuse."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from registry_controller.api.errors import InvalidObject
from registry_controller.core.mutation.gopatch_path import KeyToken, MatchToken, parse_pointer
from registry_controller.core.mutation.overrides import Operation, OverrideAction, apply_overrides
from tests.oracle.oracle import is_available, the_oracle

pytestmark = pytest.mark.skipif(not is_available(), reason="the oracle needs Go on the PATH, or TEST_ASSET_ORACLE")

_KEYS = ("a", "b", "name", "x/y", "p:q", "t~u", "0", "-", "q?", "k=v", "")
_TEXTS = ("x", "y", "p:q", "", "0", "q?")
_scalars = st.one_of(st.sampled_from(_TEXTS), st.integers(-3, 3), st.booleans(), st.none())
_named = st.builds(
    lambda name, rest: {**rest, "name": name},
    st.sampled_from(_TEXTS),
    st.dictionaries(st.sampled_from(_KEYS), _scalars, max_size=2),
)
_documents = st.recursive(
    st.one_of(_scalars, st.lists(_named, min_size=1, max_size=4)),
    lambda inner: st.one_of(
        st.lists(st.one_of(inner, _named), max_size=4), st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
_objects = st.dictionaries(st.sampled_from(_KEYS), _documents, min_size=1, max_size=4)
_modifiers = st.lists(st.sampled_from((":prev", ":next", ":before", ":after", ":x", ":")), max_size=2).map("".join)
_tokens = st.one_of(
    st.builds(
        lambda key, optional, modifiers: _escape(key) + optional + modifiers,
        st.sampled_from(_KEYS),
        st.sampled_from(("", "", "", "?", "??")),
        st.one_of(st.just(""), st.just(""), _modifiers),
    ),
    st.builds(lambda number, modifiers: f"{number}{modifiers}", st.integers(-4, 4), _modifiers),
    st.builds(
        lambda value, optional, modifiers: f"name={_escape(value)}{optional}{modifiers}",
        st.sampled_from(_TEXTS),
        st.sampled_from(("", "", "?")),
        _modifiers,
    ),
    st.sampled_from(("-", "-?", "-:prev", "+1", "-0", "007", "1?", "=", "a~2b", "~", "~01", "9" * 19, "1" + "0" * 20)),
)
_paths = st.lists(_tokens, max_size=4).map(lambda tokens: "".join("/" + token for token in tokens))


def _escape(text: str) -> str:
    return text.replace("~", "~0").replace("/", "~1").replace(":", "~7")


@st.composite
def _cases(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Draw a document and overrides, most of whose paths lead somewhere in it."""
    document = draw(_objects)
    ops = []
    for _ in range(draw(st.integers(1, 2))):
        path = draw(_paths) if draw(st.integers(0, 3)) == 0 else draw(_paths_into(document))
        action = draw(st.sampled_from(("replace", "replace", "remove")))
        ops.append({"type": action, "path": path, "value": draw(_documents) if action == "replace" else None})
    return document, ops


@st.composite
def _paths_into(draw: st.DrawFn, document: Any) -> str:
    path, found = "", document
    for _ in range(draw(st.integers(0, 4))):
        modifiers = draw(_modifiers) if draw(st.integers(0, 4)) == 0 else ""
        if isinstance(found, dict) and found:
            key = draw(st.sampled_from(sorted(found)))
            path, found = f"{path}/{_escape(key)}", found[key]
        elif isinstance(found, list) and found:
            number = draw(st.integers(0, len(found) - 1))
            found = found[number]
            if isinstance(found, dict) and isinstance(found.get("name"), str) and draw(st.booleans()):
                path = f"{path}/name={_escape(found['name'])}{modifiers}"
            else:
                path = f"{path}/{number}{modifiers}"
        else:
            break
    if draw(st.integers(0, 2)) == 0:
        path += draw(_paths)
    return path


def _ours(document: Any, ops: list[dict[str, Any]]) -> Any:
    try:
        changes = [
            (Operation(OverrideAction(op["type"]), parse_pointer(op["path"], path="p"), "p"), op["value"]) for op in ops
        ]
        return apply_overrides(document, changes)
    except InvalidObject:
        return InvalidObject


def _spell(value: Any) -> str:
    """Tell true from 1, which Python does not."""
    return "refused" if value is InvalidObject else json.dumps(value, sort_keys=True)


def _hits_a_known_fault(ops: list[dict[str, Any]]) -> bool:
    """Say whether go-patch may write into the wrong array: that of `k=v:next`, instead of the one it leads to."""
    for op in ops:
        with contextlib.suppress(InvalidObject):
            *_, before, last = (None, None, *parse_pointer(op["path"], path="p").tokens)
            if isinstance(before, MatchToken) and before.modifiers and not isinstance(last, KeyToken):
                return True
    return False


@settings(max_examples=max(400, settings().max_examples))
@given(_cases())
def test_an_override_does_what_go_patch_does(case: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    document, ops = case
    assume(not _hits_a_known_fault(ops))
    before = copy.deepcopy((document, ops))
    answer = the_oracle().ask({"op": "override", "document": document, "ops": ops})
    event("changed" if answer.ok else "refused")
    assert _spell(_ours(document, ops)) == _spell(answer.value if answer.ok else InvalidObject), answer.error
    assert (document, ops) == before
