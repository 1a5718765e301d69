"""The engine's clocks, in virtual time: without them a run would depend on the second in which it is run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from registry_controller import app
from registry_controller.report.events import EventRecorder
from registry_controller.sync import recorder

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualDatetime(datetime):
    """The time that passes in a simulation."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        """Tell the time."""
        return _EPOCH + timedelta(seconds=_now_s())


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
