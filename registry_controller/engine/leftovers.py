"""Copies that may have to go although no rule asks for their kind any more (W3).

They are found in the cluster, by the label of their owner, and not in our memory: what happened while no daemon ran
is caught up. Law: a kind is watched for as long as it has such copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import GVK
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.core.own import Marks, read_marks
from registry_controller.engine.copies import Copies, LocalFeed
from registry_controller.engine.patience import until_answered
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.watch import list_objects
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

COPIES: Final = Selection(labels=meta.OWNER)
"""Everything that has the owner's label."""


class Leftovers:
    """The kinds that have such copies. `changed` is called when there are more.

    `is_complete` says that every kind was looked through.

    `may_undo` says whether what the rule of a name made may have to go under any policy: because it is here, and makes
    something else of its source now, or is told to delete from now on, or its source goes.
    """

    def __init__(
        self,
        *,
        reader: Reader,
        discovery: Discovery,
        copies: Copies,
        may_undo: Callable[[str], bool],
        changed: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._discovery = discovery
        self._copies = copies
        self._may_undo = may_undo
        self._changed = changed
        self._found: set[GVK] = set()
        self._wanted: Mapping[GVK, frozenset[Selection]] = {}
        self.is_complete = False

    async def find(self) -> None:
        """Look through every kind that we may list here, once."""
        kinds = await until_answered(self._discovery.writable, what="list the kinds that are served here")
        for kind in kinds:
            try:
                if await self._has_some(kind):
                    self._found.add(kind)
                    self._changed()
            except RegistryError as error:
                log.debug("cannot look for copies that nobody wants", kind=str(kind), error=str(error))
        self.is_complete = True

    def with_kinds(self, wanted: Mapping[GVK, frozenset[Selection]]) -> Mapping[GVK, frozenset[Selection]]:
        """Add to what rules write here what must be watched for the copies that are left."""
        kinds = dict(wanted)
        self._note_dropped(wanted)
        feeds = {(feed.kind.group, feed.kind.kind): feed for feed in self._copies.all_feeds()}
        for kind in [*self._found, *(feed.kind for feed in feeds.values() if feed.kind not in self._found)]:
            same = next((held for held in kinds if (held.group, held.kind) == (kind.group, kind.kind)), kind)
            places = kinds.get(same, frozenset())
            feed = feeds.get((kind.group, kind.kind))
            is_left = feed is not None and self._has_leftovers(feed, places)
            if feed is not None and not is_left and _is_heard(feed, EVERYTHING if EVERYTHING in places else COPIES):
                self._found.discard(kind)
            if (is_left or kind in self._found) and EVERYTHING not in places:
                kinds[same] = places | {COPIES}
        return kinds

    def _note_dropped(self, wanted: Mapping[GVK, frozenset[Selection]]) -> None:
        """Look once more at what rules write no longer: a copy may be on its way of which nobody knows yet."""
        for kind, places in self._wanted.items():
            if not places <= wanted.get(kind, frozenset()):
                self._found.add(kind)
        self._wanted = wanted

    def _has_leftovers(self, feed: LocalFeed, places: frozenset[Selection]) -> bool:
        """Say whether anything may have to go that is in none of the places that rules have watched."""
        namespaces = {place.namespace for place in places}
        return any(
            key.namespace not in namespaces and self._may_go(record.marks) for key, record in feed.records.items()
        )

    async def _has_some(self, kind: GVK) -> bool:
        gvr = await self._discovery.resolve(kind)
        async for page in list_objects(self._reader, gvr, COPIES, kind=kind):
            for heard in page.items:
                target = meta.Target(kind.group, kind.kind, heard.key.namespace, heard.key.name)
                if self._may_go(read_marks(heard.annotations, of=target)):
                    return True
        return False

    def _may_go(self, marks: Marks) -> bool:
        provenance = marks.provenance
        return provenance is not None and (provenance.policy == "Delete" or self._may_undo(provenance.rule))


def _is_heard(feed: LocalFeed, selection: Selection) -> bool:
    stream = feed.streams.get(selection)
    return stream is not None and stream.is_complete
