"""An event loop whose time is virtual: when nothing is ready, it jumps to the next timer.

Law: no thread, no socket, no real second. What waits for something that nobody will ever do is an error, not a hang;
so is what goes on and on while no time passes, or while hardly any passes.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

BEGIN_S = 1000.0
_TURNS = 20_000
_BUSY_TURNS, _BUSY_S = 2_000, 10
"""A daemon that makes plan after plan takes so many turns of the loop in each second; a busy group does in some."""


class _Clock:
    """A selector without files: to wait for `timeout` seconds is to move the loop's time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._turns = 0
        self._second = self._turns_of_second = self._busy_s = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits, and nothing is due")
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > _TURNS:
            raise RuntimeError(f"{_TURNS} turns of the loop, and no time has passed")
        self._loop.advance(timeout or self._loop.turn_s)
        self._count_turn(int(self._loop.time()))
        return []

    def _count_turn(self, second: int) -> None:
        if second != self._second:
            is_busy = second == self._second + 1 and self._turns_of_second > _BUSY_TURNS
            self._busy_s = self._busy_s + 1 if is_busy else 0
            self._second, self._turns_of_second = second, 0
        self._turns_of_second += 1
        if self._busy_s >= _BUSY_S:
            raise RuntimeError(f"more than {_BUSY_TURNS} turns of the loop in each of {_BUSY_S} seconds")

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
    """A loop for one thread that simulates. `tasks` counts those that there were.

    A turn in which something is ready takes `turn_s` seconds: no time, or as much as on a slow machine, where a cause
    and what comes of it are apart.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tasks = 0
        self.turn_s = 0.0
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


def _make_task(loop: Any, coroutine: Any, **options: Any) -> Any:
    return _NumberedTask(coroutine, loop=loop, **options)  # from Python 3.13.3 on, a task's name is an option, too


def running_loop() -> VirtualLoop:
    """Return the loop that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function to its end in virtual time."""

    async def call() -> T:
        return await main()

    with asyncio.Runner(loop_factory=VirtualLoop, debug=False) as runner:
        return runner.run(call())


def virtual(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Let a test have a time that passes only when it works or waits, whatever else the machine does."""

    @functools.wraps(test)
    def played(**values: Any) -> None:
        run(functools.partial(test, **values))

    return played
