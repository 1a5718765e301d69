"""When the definition of rules is read, and what a read shows. W3."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from registry_controller.api.errors import Forbidden, RegistryError
from registry_controller.api.meta import ObjectKey
from registry_controller.cache.crds import DEFINITION, OF_RULES, DefinitionRead
from registry_controller.clusters import definition_reader
from registry_controller.clusters.definition_reader import DefinitionReader
from registry_controller.kube.object import PartialObject

THERE = PartialObject(ObjectKey("", OF_RULES), "crd", 10, "", False, {}, {}, 1, "", b"{}")
Answer = PartialObject | RegistryError | None


class Server:
    """An API server whose answers the test gives, one for each read."""

    def __init__(self) -> None:
        self.read_count = 0
        self.answers = asyncio.Queue[Answer]()
        self.shown: list[DefinitionRead] = []

    async def resolve(self, kind: object) -> str:
        assert kind == DEFINITION
        return "definitions"

    async def read_present(self, *args: object, kind: object, key: ObjectKey) -> tuple[int, PartialObject | None]:
        assert (kind, key) == (DEFINITION, ObjectKey("", OF_RULES))
        self.read_count += 1
        answer = await self.answers.get()
        if isinstance(answer, RegistryError):
            raise answer
        return 10, answer

    async def has_read(self, count: int) -> None:
        """Wait until so many reads began, and all answers were taken."""
        async with asyncio.timeout(60):
            while self.read_count < count or not self.answers.empty():  # noqa: ASYNC110  two conditions
                await asyncio.sleep(0.001)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(definition_reader, "read_present", made.read_present)
    return made


@pytest.fixture
async def reader(server: Server) -> AsyncIterator[DefinitionReader]:
    here: Any = server
    made = DefinitionReader(OF_RULES, reader=here, discovery=here, on_read=server.shown.append)
    async with asyncio.TaskGroup() as scope:
        task = scope.create_task(made.run())
        yield made
        task.cancel()


def now_s() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    ("answer", "uid"),
    [(THERE, "crd"), (PartialObject(THERE.key, "crd", 10, "", True, {}, {}, 1, "", b"{}"), ""), (None, "")],
    ids=["it is there", "it is being deleted", "it is missing"],
)
async def test_a_read_shows_whether_the_definition_is_there(
    server: Server, reader: DefinitionReader, answer: Answer, uid: str
) -> None:
    reader.request(-math.inf)
    reader.request(at_s := now_s())
    await server.has_read(1)
    server.answers.put_nowait(answer)
    await server.has_read(1)
    assert [read.uid for read in server.shown] == [uid]
    assert at_s <= server.shown[0].began_s <= now_s()
    reader.request(at_s)
    await asyncio.sleep(0.01)
    assert server.read_count == 1, "nothing went since"


async def test_a_rule_that_goes_during_a_read_causes_another_one(server: Server, reader: DefinitionReader) -> None:
    reader.request(now_s())
    await server.has_read(1)
    await asyncio.sleep(0.001)
    reader.request(second_s := now_s())
    server.answers.put_nowait(THERE)
    await server.has_read(2)
    assert server.shown[0].began_s < second_s
    server.answers.put_nowait(None)
    await server.has_read(2)
    assert server.shown[1].uid == ""
    assert server.shown[1].began_s >= second_s


async def test_an_error_shows_nothing_and_the_read_is_repeated(server: Server, reader: DefinitionReader) -> None:
    reader.request(now_s())
    await server.has_read(1)
    server.answers.put_nowait(Forbidden("no", status=403, reason="Forbidden"))
    await server.has_read(2)
    assert not server.shown
    server.answers.put_nowait(THERE)
    await server.has_read(2)
    assert [read.uid for read in server.shown] == ["crd"]
