"""Tests of the reads of our own kinds that are requested."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import GVK, GVR, ClusterUID
from registry_controller.cache.registry import Registry
from registry_controller.cache.registry_reader import RegistryReader


class Reader(RegistryReader):
    """A reader of which each read waits until it may end."""

    def __init__(self) -> None:
        reader: Any = None
        super().__init__(reader=reader, registry=Registry(local=ClusterUID("local"), on_change=lambda *_: None))
        self.has_begun, self.may_end = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def read(self) -> None:
        self.has_begun.release()
        await self.may_end.acquire()


async def test_a_request_is_answered_by_a_read_that_began_after_it() -> None:
    reader = Reader()
    answered: list[str] = []
    async with asyncio.TaskGroup() as scope:
        task = scope.create_task(reader.run())
        reader.request_read(lambda: answered.append("first"))
        await reader.has_begun.acquire()
        reader.request_read(lambda: answered.append("second"))
        reader.may_end.release()
        await reader.has_begun.acquire()
        assert answered == ["first"]
        is_answered = asyncio.Event()
        reader.request_read(is_answered.set)
        for _ in range(2):
            reader.may_end.release()
        await is_answered.wait()
        assert answered == ["first", "second"]
        task.cancel()


class RuleReader(RegistryReader):
    """A reader that notes which kinds it reads."""

    def __init__(self) -> None:
        reader: Any = None
        super().__init__(reader=reader, registry=Registry(local=ClusterUID("local"), on_change=lambda *_: None))
        self.has_read = asyncio.Semaphore(0)
        self.kinds: list[GVK] = []

    async def _read_kind(self, gvr: GVR, kind: GVK) -> None:
        self.kinds.append(kind)
        self.has_read.release()


async def test_rules_are_read_alone_where_only_they_are_requested() -> None:
    """Another kind, whose definition may be missing, does not delay them."""
    reader = RuleReader()
    async with asyncio.TaskGroup() as scope:
        task = scope.create_task(reader.run_rules())
        reader.request_rules()
        reader.request_rules()
        await reader.has_read.acquire()
        reader.request_rules()
        await reader.has_read.acquire()
        task.cancel()
    assert reader.kinds == [meta.RULE, meta.RULE]


def _rule(*, revision: int = 5, **spec: str) -> dict[str, Any]:
    return {"metadata": {"name": "r", "uid": "u", "resourceVersion": str(revision)}, "spec": spec}


@pytest.mark.parametrize(
    ("plural", "kind", "event", "must_read"),
    [
        ("resourcesyncrules", "MODIFIED", _rule(revision=6, a="1"), False),
        ("resourcesyncrules", "MODIFIED", _rule(revision=6, a="2"), True),
        ("resourcesyncrules", "ADDED", _rule(revision=6, a="2"), True),
        ("resourcesyncrules", "ADDED", _rule(revision=5, a="2"), True),
        ("resourcesyncrules", "ADDED", _rule(revision=4, a="2"), False),
        ("resourcesyncrules", "DELETED", _rule(revision=6, a="2"), False),
        ("clusters", "MODIFIED", _rule(revision=6, a="2"), False),
        ("resourcesyncrules", "ADDED", {**_rule(a="1"), "metadata": {"name": "new", "resourceVersion": "6"}}, True),
    ],
    ids=["only its status", "its spec", "its spec, as new", "in the same state", "late", "gone", "a Cluster", "new"],
)
def test_a8_a_rule_is_read_when_a_watch_shows_another_spec(
    plural: str, kind: str, event: dict[str, Any], must_read: bool
) -> None:
    """The watch may be served by a former definition, without the new fields of the rule."""
    registry = Registry(local=ClusterUID("local"), on_change=lambda *_: None)
    registry.replace("resourcesyncrules", [_rule(a="1")], revision=5)
    assert registry.must_read(plural, kind, event) is must_read
