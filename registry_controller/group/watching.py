"""One consumer's events: bounded, level-based, in the order in which objects changed first.

Laws: an object that changes again before the consumer has taken its event keeps one place, with its latest state. So
there are never more events than objects and members, however slow the consumer is · a member that has left and is back
has new places after LEFT, so that this is at most doubled.
"""

from __future__ import annotations

import asyncio
import collections
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Final, Self

from registry_controller.api.errors import InvalidOption
from registry_controller.api.meta import ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.api.selectors import Selector
from registry_controller.group.objects import Event, EventType, Object, type_of_change

NOT_ENGAGED: Final = "the members of the group are not engaged: do this inside of `async with group`"

_Slot = tuple[str, int, ObjectKey | None]
"""A member, how often it has left before, and an object there; None for the state of the member."""


class Watch(AsyncIterator[Event]):
    """The events of one kind in all members, as an async iterator.

    It begins with an ADDED for each known object. `async with` ends it, as `close` does; an ended watch ends the
    iteration. InvalidOption while the members are not engaged. `labels` is the parsed label selector of `selection`.
    `reads_caches` is as in `Consumer`.
    """

    def __init__(
        self,
        *,
        selection: Selection,
        labels: Selector,
        reads_caches: bool,
        is_engaged: Callable[[], bool],
        ended: Callable[[Watch], None],
    ) -> None:
        self.reads_caches = reads_caches
        self._selection = selection
        self._labels = labels
        self._is_selective = bool(selection.namespace or labels.requirements)
        self._is_engaged = is_engaged
        self._ended = ended
        self._events: OrderedDict[_Slot, Event] = OrderedDict()
        self._departures = collections.Counter[str]()
        self._has_news = asyncio.Event()
        self._is_closed = False

    @property
    def pending(self) -> int:
        """Return the number of events that were not taken yet."""
        return len(self._events)

    def close(self) -> None:
        """End the watch; events that were not taken are dropped."""
        if not self._is_closed:
            self._is_closed = True
            self._events.clear()
            self._has_news.set()
            self._ended(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._is_closed:
                raise StopAsyncIteration
            if not self._is_engaged():
                raise InvalidOption(NOT_ENGAGED)
            self._has_news.clear()
            await self._has_news.wait()
        return self._events.popitem(last=False)[1]

    # What streams report.

    def on_change(self, member: str, old: Object | None, new: Object | None, *, is_relisted: bool) -> None:
        """Queue the change of an object that this watch selects, or selected before."""
        if self._is_selective:
            old, new = self._select(old), self._select(new)
        last = new or old
        if last is None or self._is_closed:
            return
        place = (member, self._departures[member], last.key)
        waiting = self._events.get(place)
        was_known = old is not None if waiting is None else waiting.type is not EventType.ADDED
        kind = type_of_change(was_known=was_known, exists=new is not None)
        if kind is None:
            self._events.pop(place, None)
        else:
            skipped = waiting.skipped + 1 if waiting is not None else 0
            self._put(place, Event(member, kind, last, is_relisted=is_relisted, skipped=skipped))

    def on_state(self, member: str, state: EventType, *, reason: str = "", is_relisted: bool = False) -> None:
        """Queue the state of a member's objects, in the place of an earlier one."""
        if self._is_closed:
            return
        departures = self._departures[member]
        place = (member, departures, None)
        self._events.pop(place, None)
        if state is EventType.LEFT:
            if (member, departures - 1, None) in self._events:
                return  # the consumer does not know yet that it has left before
            self._departures[member] += 1
        self._put(place, Event(member, state, reason=reason, is_relisted=is_relisted))

    def _put(self, place: _Slot, event: Event) -> None:
        self._events[place] = event
        self._has_news.set()

    def _select(self, obj: Object | None) -> Object | None:
        is_selected = obj is not None and self._selection.includes(obj.namespace) and self._labels.matches(obj.labels)
        return obj if is_selected else None
