"""The question whether a definition is still there after deletions, with a discovery that answers as it is told. W3."""

from __future__ import annotations

import asyncio
from typing import Any

from registry_controller.api import meta
from registry_controller.api.errors import Unreachable
from registry_controller.cache.definition_state import DefinitionState
from registry_controller.clusters.definition_check import DefinitionCheck
from tests.sim.cluster.loop import BEGIN_S, run

HALF_S = 15.0


class Stage:
    """A check whose discovery gives these answers, one after the other, the last one again and again.

    Times count from the beginning.
    """

    def __init__(self, *answers: bool | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[float] = []
        self.told: list[tuple[DefinitionState, float]] = []
        self.check = DefinitionCheck(meta.RULE, window_s=2 * HALF_S, on_answer=self.note)
        self.task: asyncio.Task[Any] | None = None

    def note(self, state: DefinitionState, until_s: float) -> None:
        self.told.append((state, until_s - BEGIN_S))

    def connect(self) -> None:
        discovery: Any = self
        self.task = asyncio.get_running_loop().create_task(self.check.run(discovery))

    async def disconnect(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.sleep(0)

    async def may_create(self, kind: object) -> bool:
        assert kind == meta.RULE
        self.asked.append(asyncio.get_running_loop().time() - BEGIN_S)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_w3_nothing_is_asked_before_something_was_deleted_and_each_deletion_is_asked_about() -> None:
    async def main() -> None:
        stage = Stage(True)
        stage.connect()
        await asyncio.sleep(100.0)
        assert not stage.asked
        stage.check.on_deleted()
        await asyncio.sleep(1.0)
        stage.check.on_deleted()
        await asyncio.sleep(100.0)
        looks = [100.0 + early_s for early_s in (0.25, 1.0, 4.0, HALF_S)]
        assert stage.asked == [*looks, *(HALF_S + look for look in looks)]
        assert stage.told == [(DefinitionState.THERE, 100.0), (DefinitionState.THERE, 100.0 + HALF_S)]
        await stage.disconnect()

    run(main)


def test_w3_the_question_is_repeated_while_the_definition_goes_or_nothing_answers() -> None:
    async def main() -> None:
        stage = Stage(*[Unreachable("no")] * 4, False, *[Unreachable("no")] * 4, True)
        stage.connect()
        stage.check.on_deleted()
        await asyncio.sleep(100.0)
        unknown, going, next_one = DefinitionState.UNKNOWN, DefinitionState.GOING, DefinitionState.NEXT
        assert [state for state, _ in stage.told] == [unknown, going, unknown, next_one]
        assert stage.told[-1][1] > 0.0
        stage.check.on_deleted()
        await asyncio.sleep(100.0)
        assert stage.told[-1][0] is DefinitionState.THERE, "the next one is the one that is there now"
        await stage.disconnect()

    run(main)


def test_w3_a_definition_that_is_away_for_a_moment_is_noticed_early() -> None:
    """The early reads confirm nothing: discovery may lag behind."""

    async def main() -> None:
        stage = Stage(True, False, True)
        stage.connect()
        stage.check.on_deleted()
        await asyncio.sleep(HALF_S - 1.0)
        assert [state for state, _ in stage.told] == [DefinitionState.GOING, DefinitionState.NEXT]
        await stage.disconnect()

    run(main)


def test_w3_a_question_that_a_lost_connection_ended_is_asked_over_the_next_one() -> None:
    async def main() -> None:
        stage = Stage(True)
        stage.connect()
        stage.check.on_deleted()
        await asyncio.sleep(1.0)
        await stage.disconnect()
        await asyncio.sleep(100.0)
        assert not stage.told
        stage.connect()
        await asyncio.sleep(100.0)
        assert stage.told == [(DefinitionState.THERE, 101.0)]
        await stage.disconnect()

    run(main)
