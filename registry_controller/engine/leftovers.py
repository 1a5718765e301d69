"""Copies that may have to go although no rule asks for their kind any more (W3).

They are found in the cluster, by the label of their owner, and not in our memory: what happened while no daemon ran
is caught up. Law: a kind is watched for as long as it has such copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    """

    def __init__(self, *, reader: Reader, discovery: Discovery, copies: Copies, changed: Callable[[], None]) -> None:
        self._reader = reader
        self._discovery = discovery
        self._copies = copies
        self._changed = changed
        self._found: set[GVK] = set()
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
        for kind in self._kinds_with_leftovers():
            same = next((held for held in kinds if (held.group, held.kind) == (kind.group, kind.kind)), kind)
            places = kinds.get(same, frozenset())
            if EVERYTHING not in places:
                kinds[same] = places | {COPIES}
        return kinds

    def _kinds_with_leftovers(self) -> Iterable[GVK]:
        heard = {(feed.kind.group, feed.kind.kind): feed for feed in self._copies.all_feeds()}
        for kind in list(self._found):
            feed = heard.get((kind.group, kind.kind))
            if feed is not None and _is_heard(feed) and not _has_leftovers(feed):
                self._found.discard(kind)
        return {*self._found, *(feed.kind for feed in heard.values() if _has_leftovers(feed))}

    async def _has_some(self, kind: GVK) -> bool:
        gvr = await self._discovery.resolve(kind)
        async for page in list_objects(self._reader, gvr, COPIES, kind=kind):
            for heard in page.items:
                target = meta.Target(kind.group, kind.kind, heard.key.namespace, heard.key.name)
                if _may_go(read_marks(heard.annotations, of=target)):
                    return True
        return False


def _is_heard(feed: LocalFeed) -> bool:
    return any(stream.is_complete for place, stream in feed.streams.items() if place in (EVERYTHING, COPIES))


def _has_leftovers(feed: LocalFeed) -> bool:
    return any(_may_go(record.marks) for record in feed.records.values())


def _may_go(marks: Marks) -> bool:
    return marks.provenance is not None and marks.provenance.policy == "Delete"
