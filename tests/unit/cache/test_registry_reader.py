"""Tests of the reads of our own kinds that are requested."""

from __future__ import annotations

import asyncio
from typing import Any

from registry_controller.cache.registry import Registry
from registry_controller.cache.registry_reader import RegistryReader


class Reader(RegistryReader):
    """A reader of which each read waits until it may end."""

    def __init__(self) -> None:
        reader: Any = None
        super().__init__(reader=reader, registry=Registry(on_change=lambda *_: None))
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
