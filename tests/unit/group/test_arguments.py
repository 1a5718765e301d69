"""A wrong argument raises where it is given, and the error names it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from registry_controller.api.errors import InvalidObject, InvalidOption
from registry_controller.api.selection import Selection
from registry_controller.group import Group, Key
from registry_controller.group.arguments import check_async, check_selection, read_delay
from registry_controller.group.sources import ContextSource


async def reconcile(key: Key) -> None: ...


def not_async(key: Key) -> None: ...


class Reconciler:
    async def __call__(self, key: Key) -> None: ...

    async def reconcile(self, key: Key) -> None: ...


def make(**options: Any) -> Group:
    return Group.from_cluster(operator="x", **options)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make().watch("no/word"), "resource: must be a word that kubectl takes"),
        (lambda: make().watch(cast(Any, None)), "resource: must be a word"),
        (lambda: make().watch("pods", namespace="No/Such"), "namespace: must be the name of one namespace"),
        (lambda: make().watch("pods", namespace=cast(Any, ["a"])), "namespace: must be the name of one"),
        (lambda: make().watch("pods", label_selector="a in ("), "label_selector: "),
        (lambda: make().watch("pods", label_selector=cast(Any, {"a": "b"})), "label_selector: must be a text"),
        (lambda: make().watch("pods", field_selector="a b"), "field_selector: must be requirements"),
        (lambda: make().collector.owns("jobs,pods/x", owners=()), "resource: must be a word"),
        (lambda: make().collector.owns("jobs", owners=(), label_selector="a in ("), "label_selector: "),
        (lambda: make().collector.owns("jobs", owners=(), namespace="A"), "namespace: "),
        (lambda: make().controller(cast(Any, not_async)), "reconcile: must be an async function"),
        (lambda: make().controller(cast(Any, None)), "reconcile: must be an async function"),
        (lambda: make().controller(reconcile, workers=0), "workers: must be a whole number"),
        (lambda: make().controller(reconcile, workers=cast(Any, "4")), "workers: must be a whole number"),
        (lambda: make().controller(reconcile).add(cast(Any, ("b", "", "x"))), "key: must be a Key"),
        (lambda: make().controller(reconcile).add(Key("b", "", "x"), after_s=-1), "after_s: must be seconds"),
        (lambda: make(operator_namespace="No/Such"), "operator_namespace: must be the name of one namespace"),
        (lambda: Group.from_contexts("abc"), "contexts: must be a list of one or more names"),
        (lambda: Group.from_contexts([]), "contexts: must be a list of one or more names"),
        (lambda: Group.from_contexts(cast(Any, [None])), "contexts: must be a list of one or more names"),
        (lambda: Group.from_secrets(namespace=""), "namespace: must be the name of one namespace"),
        (lambda: Group.from_secrets(namespace="x", label_selector="a in ("), "label_selector: "),
    ],
)
def test_a_wrong_argument_is_named(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidObject, match=words):
        call()


@pytest.mark.parametrize("name", ["My Operator", "fan_out", "a/b", "operator\n", "x" * 129, "-x"])
def test_an_operator_has_a_name_that_an_object_may_have(name: str) -> None:
    with pytest.raises(InvalidObject, match="operator: must be a name such as fan-out-job"):
        Group.from_cluster(operator=name)


@pytest.mark.parametrize("function", [reconcile, Reconciler(), Reconciler().reconcile, functools.partial(reconcile)])
def test_what_is_called_as_an_async_function_is_one(function: object) -> None:
    check_async(function, path="reconcile")


@pytest.mark.parametrize(
    "text",
    [
        "", "metadata.name=x", "status.phase!=Running,spec.nodeName==a", "a=", r"a=b\,c\=d\\", "spec.color=dark blue",
        "involvedObject.kind=Pod",
    ],
)  # fmt: skip
def test_a_field_selector_of_kubectl_is_taken(text: str) -> None:
    check_selection(Selection(fields=text))


@pytest.mark.parametrize("text", ["a", "a b", "=b", "a=b,", "a=b=c", "a===b", "a=b,c", "a in (b)", "a=\\"])
def test_another_text_is_no_field_selector(text: str) -> None:
    with pytest.raises(InvalidObject, match="field_selector"):
        check_selection(Selection(fields=text))


def test_a_delay_is_a_number_or_a_timedelta() -> None:
    assert [read_delay(value, path="x") for value in (0, 1.5, timedelta(minutes=1))] == [0.0, 1.5, 60.0]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("60", "a str"), ([60], "a list"), ({"requeue": True}, "a dict"), (True, "True"), (-1, "-1"), (math.nan, "nan"),
        (math.inf, "inf"), (timedelta(seconds=-1), "-1 day"),
    ],
)  # fmt: skip
def test_another_value_is_no_delay(value: object, shown: str) -> None:
    with pytest.raises(InvalidObject, match=f"x: must be seconds, .*, and is {shown}"):
        read_delay(value, path="x")


def test_a_member_that_is_none_is_named_with_what_to_do() -> None:
    group = make()
    assert group.get("b") is None
    with pytest.raises(KeyError, match=r"b is no member, or has left: group\.get"):
        group["b"]


async def test_a_group_is_entered_once() -> None:
    group = Group(ContextSource([], local=None))
    async with group:
        with pytest.raises(InvalidOption, match="entered once"):
            await group.__aenter__()
    with pytest.raises(InvalidOption, match="entered once"):
        await group.__aenter__()
