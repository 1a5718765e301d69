"""The engine's clocks, in virtual time: without them a run would depend on the second in which it is run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from registry_controller import app
from registry_controller.report.events import EventRecorder
from registry_controller.sync import recorder
from tests.sim.cluster.loop import BEGIN_S

Ahead = Callable[[], timedelta]
ahead: ContextVar[Ahead] = ContextVar("ahead", default=timedelta)
"""By how much the clock of the daemon that runs is ahead."""
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualDatetime(datetime):
    """The time that passes in a simulation."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        """Tell the time, as the API servers do whose clocks are right."""
        return _EPOCH + timedelta(seconds=_now_s() - BEGIN_S) + ahead.get()()


def time_of_day(clock_ahead: timedelta) -> datetime:
    """Tell the time by a clock that is so much ahead, whoever asks."""
    token = ahead.set(lambda: clock_ahead)
    try:
        return app.datetime.now(UTC)
    finally:
        ahead.reset(token)


def today() -> date:
    """Tell the day that it is for everybody whose clock is right."""
    return time_of_day(timedelta()).date()


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@contextlib.contextmanager
def virtual_clocks() -> Iterator[None]:
    """Let the engine read its clocks from the loop."""
    defaults: dict[str, Any] = EventRecorder.__init__.__kwdefaults__
    kept = dict(defaults)
    modules: tuple[Any, ...] = (app, recorder)
    defaults |= {"now": VirtualDatetime.now, "monotonic_s": _now_s}
    for module in modules:
        module.datetime = VirtualDatetime
    try:
        yield
    finally:
        defaults |= kept
        for module in modules:
            module.datetime = datetime
