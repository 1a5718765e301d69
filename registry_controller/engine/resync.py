"""Look at everything again, once an hour: what an event should have brought up, and did not, is not left so for ever.

Law: it mends no more than time; whatever is found by it is a bug in what `attention` looks at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from registry_controller.api.meta import Target
from registry_controller.engine.copies import Copies
from registry_controller.engine.localfeed import HERE
from registry_controller.engine.sources import Sources

PERIOD_S: Final = 3600.0
_A_SECOND: Final = 200
"""Looks: of what is in step one takes some 0.1 ms."""


async def look_at_all(*, sources: Sources, copies: Copies, add: Callable[[Target, str], None]) -> NoReturn:
    """Put every copy, and all that is offered, into the queue, a few a second."""
    while True:
        await asyncio.sleep(PERIOD_S)
        for count, (target, lane) in enumerate(_everything(sources, copies), start=1):
            add(target, lane)
            if count % _A_SECOND == 0:
                await asyncio.sleep(1.0)


def _everything(sources: Sources, copies: Copies) -> Iterator[tuple[Target, str]]:
    """List what is known, while it may change."""
    for local_feed in copies.all_feeds():
        for key in list(local_feed.records):
            if (copy := local_feed.records.get(key)) is not None:
                yield local_feed.target(key), copy.marks.owner or HERE
    for feed in sources.all_feeds():
        for key in list(feed.records):
            if (record := feed.records.get(key)) is not None:
                yield from ((hit.target(key), feed.peer) for hit in record.hits)
