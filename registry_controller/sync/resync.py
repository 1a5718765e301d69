"""Look at everything again, once an hour: what an event should have brought up, and did not, is not left so for ever.

Law: it mends no more than time; whatever is found by it is a bug in what `attention` looks at.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final, NoReturn

from registry_controller.api.meta import Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.source_index import SourceIndex
from registry_controller.sync.enqueue import claims_of, copies_of

PERIOD_S: Final = 3600.0
_A_SECOND: Final = 200
"""Looks: of what is in step one takes some 0.1 ms."""


async def look_at_all(*, sources: SourceIndex, copies: CopyIndex, add: Callable[[Target, str], None]) -> NoReturn:
    """Put every copy, and all that is offered, into the queue, a few a second."""
    while True:
        await asyncio.sleep(PERIOD_S)
        here = itertools.chain.from_iterable(map(copies_of, copies.all_caches()))
        there = itertools.chain.from_iterable(map(claims_of, sources.all_caches()))
        for count, (target, lane) in enumerate(itertools.chain(here, there), start=1):
            add(target, lane)
            if count % _A_SECOND == 0:
                await asyncio.sleep(1.0)
