"""Which selections of a kind are watched at a peer, which share a watch, and which are listed beside one.

Laws: a selection within another one needs no watch of its own, once the wider watch has shown everything · while the
wider watch cannot show everything, the narrow selection has its own · nothing is watched that no rule selects · an
object is always evaluated by all rules at once, as they are at that moment · before everything that a rule selects was
evaluated by it, the absence of a hit proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from registry_controller.api.errors import Forbidden, InvalidObject, ProtocolError
from registry_controller.api.meta import ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.core.rules.list_options import list_wider
from registry_controller.watch.lister import ListHandler, SelectionList
from registry_controller.watch.stream import SelectionStream, StreamHandler


@dataclass(slots=True)
class _PendingRule:
    """A rule since it came or changed: the generation, and the selections that were not listed since."""

    since: int
    unlisted: set[Selection]


class PendingRules:
    """The rules of one kind at one peer whose selections must still be listed: the rules are new or were edited.

    `generation` counts the changes of the kind's rules; `rules` is empty most of the time.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.rules: dict[str, _PendingRule] = {}

    def __contains__(self, rule: object) -> bool:
        return rule in self.rules

    def __bool__(self) -> bool:
        return bool(self.rules)

    def change(self, *, gone: Iterable[str], fresh: Mapping[str, Iterable[Selection]]) -> None:
        """Start a generation: some rules are gone, and those in `fresh` ask for selections that must be listed."""
        self.generation += 1
        for rule in gone:
            self.rules.pop(rule, None)
        for rule, selections in fresh.items():
            self.rules[rule] = _PendingRule(self.generation, set(selections))

    def unlisted(self) -> Iterator[tuple[Selection, int]]:
        """Yield each selection that must be listed, with the generation from which on its list counts."""
        for pending in self.rules.values():
            for selection in pending.unlisted:
                yield selection, pending.since

    def settle(self, is_listed: Callable[[Selection, int], bool]) -> Mapping[str, int]:
        """Return the rules that wait no longer, and since when they waited.

        `is_listed` returns true if a selection was listed whole since a generation.
        """
        ended: dict[str, int] = {}
        for rule, pending in list(self.rules.items()):
            pending.unlisted = {one for one in pending.unlisted if not is_listed(one, pending.since)}
            if not pending.unlisted:
                del self.rules[rule]
                ended[rule] = pending.since
        return ended

    def has_evaluated(self, rule: str, *, evaluated: int) -> bool:
        """Return true if a rule, as it is now, has seen an object that was last evaluated in a generation.

        True also for objects that the rule does not select.
        """
        pending = self.rules.get(rule)
        return pending is None or evaluated >= pending.since


class WatchChange(NamedTuple):
    """The selections whose watches begin, and the streams that end."""

    opened: tuple[Selection, ...]
    closed: tuple[SelectionStream, ...]


class WatchHandler(StreamHandler, ListHandler, Protocol):
    """A cache that takes the events of streams and lists."""


class SharedWatches:
    """The streams and lists of one cache. `pending` are the rules whose selections must still be listed.

    `streams` are the selections that are watched, `lists` those that are listed beside a watch.
    """

    def __init__(self, handler: WatchHandler) -> None:
        self.streams: dict[Selection, SelectionStream] = {}
        self.lists: dict[Selection, SelectionList] = {}
        self.pending = PendingRules()
        self._handler = handler
        self._wider: Mapping[Selection, Sequence[Selection]] = {}
        self._covers: Mapping[Selection, Selection] = {}

    @property
    def is_complete(self) -> bool:
        """True if every stream is complete."""
        return all(stream.is_complete for stream in self.streams.values())

    @property
    def has_labels(self) -> bool:
        """True if a stream selects by labels: it shows an object as deleted that only lost one."""
        return any(selection.labels for selection in self.streams)

    def cover_of(self, selection: Selection) -> SelectionStream:
        """Return the stream that shows a selection's objects."""
        return self.streams[self._covers[selection]]

    def show(self, selections: Iterable[Selection]) -> bool:
        """Return true if complete streams show the objects of these selections."""
        return all(self.streams[self._covers[selection]].is_complete for selection in selections)

    def select(self, selections: Collection[Selection]) -> None:
        """Read these selections from the next plan on."""
        self._wider = find_wider(selections)

    def plan(self) -> WatchChange:
        """Open the streams that are needed, and end those that are not. A new stream has a bit that no record has."""
        self._covers = plan_covers(self._wider, before=self._covers, is_usable=self._is_usable)
        own = set(self._covers.values())
        opened = sorted(own - self.streams.keys())
        for selection in opened:
            used = {stream.bit for stream in self.streams.values()}
            bit = next(1 << shift for shift in range(len(used) + 1) if 1 << shift not in used)
            self.streams[selection] = SelectionStream(self._handler, selection, bit, generation=self.pending.generation)
        closed = [self.streams.pop(selection) for selection in sorted(self.streams.keys() - own)]
        return WatchChange(tuple(opened), tuple(closed))

    def settle(self) -> Mapping[str, int]:
        """Return the rules whose selections complete streams have listed by now, and since when they waited."""
        return self.pending.settle(lambda one, since: self.cover_of(one).listed >= since)

    def plan_lists(self) -> tuple[Selection, ...]:
        """Add lists of the objects that a complete watch does not name again by itself; return the new lists.

        A list of all that a watch selects replaces the lists of the selections within it.
        """
        needed: dict[Selection, int] = {}
        for selection, since in self.pending.unlisted():
            cover = self.cover_of(selection)
            if cover.is_complete and cover.generation < since:
                needed[selection] = max(since, needed.get(selection, 0))
        for selection in [one for one in needed if self._covers[one] != one and self._covers[one] in needed]:
            whole = self._covers[selection]
            needed[whole] = max(needed.pop(selection), needed[whole])
        before, self.lists = self.lists, {}
        fresh = []
        for selection, since in needed.items():
            cover, held = self.cover_of(selection), before.get(selection)
            if held is None or held.cover is not cover or held.generation < since:
                held = SelectionList(self._handler, selection, cover, generation=self.pending.generation)
                fresh.append(selection)
            self.lists[selection] = held
        return tuple(fresh)

    def has_list(self, listing: SelectionList) -> bool:
        """Return true if a list is still needed."""
        return self.lists.get(listing.selection) is listing

    def end_list(self, listing: SelectionList) -> Mapping[str, int]:
        """End a complete list; return the rules that wait no longer, and since when they waited."""
        del self.lists[listing.selection]
        whole, shown = listing.selection == listing.cover.selection, listing.selection

        def is_listed(one: Selection, since: int) -> bool:
            return since <= listing.generation and (one == shown or (whole and self._covers[one] == shown))

        return self.pending.settle(is_listed)

    def note_named(self, stream: SelectionStream, key: ObjectKey) -> None:
        """Note that a stream has named an object: lists beside it leave the object out."""
        for listing in self.lists.values():
            if listing.cover is stream:
                listing.note_named(key)

    def reads_of(self, selections: Iterable[Selection]) -> Sequence[SelectionStream | SelectionList]:
        """List the streams that show some selections, and the lists of them that are under way."""
        chosen = list(selections)
        covers = dict.fromkeys(self._covers[selection] for selection in chosen)
        listed = [selection for selection in dict.fromkeys((*chosen, *covers)) if selection in self.lists]
        return [*(self.streams[selection] for selection in covers), *(self.lists[selection] for selection in listed)]

    def _is_usable(self, selection: Selection, is_used: bool) -> bool:
        """Return true if the watch of a selection shows everything in it; once it did, until an error that lasts."""
        stream = self.streams.get(selection)
        if stream is None or isinstance(stream.error, Forbidden | InvalidObject | ProtocolError):
            return False
        return stream.is_complete or is_used


def find_wider(asked: Collection[Selection]) -> Mapping[Selection, Sequence[Selection]]:
    """Map each selection to the wider selections that contain it; the widest come first."""
    within = {one: sorted(wider for wider in list_wider(one) if wider in asked) for one in asked}
    return {one: within[one] for one in sorted(asked, key=lambda one: (len(within[one]), one))}


def plan_covers(
    wider: Mapping[Selection, Sequence[Selection]],
    *,
    before: Mapping[Selection, Selection],
    is_usable: Callable[[Selection, bool], bool],
) -> Mapping[Selection, Selection]:
    """Map each selection to the one whose watch shows its objects, which may be itself.

    `wider` is what `find_wider` returns, `before` the last plan. `is_usable` returns true if the watch of a selection
    shows everything that it should; its second argument is true if that watch already stands for the narrower one.
    """
    covers: dict[Selection, Selection] = {}
    for one, others in wider.items():
        held = before.get(one)
        usable = (
            other
            for other in sorted(others, key=lambda other: (held != other, other))
            if covers.get(other) == other and is_usable(other, held == other)
        )
        covers[one] = next(usable, one)
    return covers
