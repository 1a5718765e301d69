"""An event loop whose time is virtual: when nothing is ready, it jumps to the next timer.

Law: no thread, no socket, no real second. What waits for something that nobody will ever do is an error, not a hang;
so is what goes on and on while no time passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

BEGIN_S = 1000.0
_TURNS = 20_000


class _Clock:
    """A selector without files: to wait for `timeout` seconds is to move the loop's time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits, and nothing is due")
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > _TURNS:
            raise RuntimeError(f"{_TURNS} turns of the loop, and no time has passed")
        self._loop.advance(timeout)
        return []

    def close(self) -> None:
        pass


class _NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set is not its place in memory: what is cancelled together is so in one order."""

    _number = 0

    def __init__(self, *arguments: Any, loop: VirtualLoop, **options: Any) -> None:
        loop.tasks += 1
        self._number = loop.tasks
        super().__init__(*arguments, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop for one thread that simulates. `tasks` counts those that there were."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks = 0
        self.set_task_factory(_make_task)
        self._now = BEGIN_S
        self._selector = _Clock(self)
        self._clock_resolution = 1e-7

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._now += max(0.0, seconds)

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        """Wake nobody: whoever calls `call_soon_threadsafe` is in this thread."""

    def run_in_executor(self, executor: object, func: Callable[..., object], *args: object) -> NoReturn:  # type: ignore[override]
        raise AssertionError(f"{func} would run in another thread, where time is real")


def _make_task(loop: Any, coroutine: Any, *, context: Any = None) -> Any:
    return _NumberedTask(coroutine, loop=loop, context=context)


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function to its end in virtual time."""

    async def call() -> T:
        return await main()

    with asyncio.Runner(loop_factory=VirtualLoop, debug=False) as runner:
        return runner.run(call())
