"""Lists a selection once, beside the watch that covers it, and retries until the list is complete."""

from __future__ import annotations

import contextlib
from typing import Final, Protocol

from registry_controller.api.errors import NotServed, ProtocolError, RegistryError, Unauthorized
from registry_controller.api.meta import GVK, ObjectKey, revision
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.listing import describe_refused, list_objects
from registry_controller.kube.object import PartialObject
from registry_controller.watch.fairness import EvaluationLimiter, KindLimiter
from registry_controller.watch.reflector import ServerObserver, proves_life
from registry_controller.watch.retry import RetryDelay
from registry_controller.watch.stream import SelectionStream

_OUTDATED: Final = "list {} ({}): it is older than the objects of the watch"


class ListHandler(Protocol):
    """A cache with a list of a part of a stream's selection, beside the watch."""

    def on_listed(self, listing: SelectionList, obj: PartialObject) -> None:
        """Take an object of the list."""

    def on_list_complete(self, listing: SelectionList) -> None:
        """Note that the list is complete."""

    def on_list_failed(self, listing: SelectionList) -> None:
        """Note that the list's error changed."""


class SelectionList:
    """One list of a selection, while its watch, `cover`, continues. It delivers known objects to new rules.

    `generation` is that of the cache's rules at the request of the list. Objects that the watch has named since then
    are left out: the watch is at least as recent, and the new rules have evaluated its events.
    """

    def __init__(self, cache: ListHandler, selection: Selection, cover: SelectionStream, *, generation: int) -> None:
        self.selection = selection
        self.cover = cover
        self.generation = generation
        self.is_complete = False
        self.error: RegistryError | None = None
        self._cache = cache
        self._began_at = cover.revision
        self._is_outdated = False
        self._named: set[ObjectKey] = set()

    def note_named(self, key: ObjectKey) -> None:
        """Note that the watch has named an object."""
        self._named.add(key)

    def on_object(self, obj: PartialObject) -> None:
        """Take an object of the list."""
        if obj.key not in self._named:
            self._cache.on_listed(self, obj)

    def refuse_outdated(self) -> None:
        """Mark the list as outdated: it holds an older state than the watch."""
        self._is_outdated = True

    def on_synced(self, revision: int) -> bool:
        """End the list; return False when it must be repeated, because it is older than the watch."""
        if self._is_outdated or revision < self._began_at:
            self._is_outdated = False
            return False
        self.is_complete = True
        self.error = None
        self._cache.on_list_complete(self)
        return True

    def on_error(self, error: RegistryError) -> None:
        """Keep the error of the list."""
        self.error = error.without_traceback()
        self._cache.on_list_failed(self)


async def list_until_complete(
    listing: SelectionList,
    kind: GVK,
    *,
    reader: Reader,
    discovery: Discovery,
    observer: ServerObserver,
    turns: EvaluationLimiter,
) -> None:
    """List a selection by quorum reads; after an error, wait as long as its class requires, and list again."""
    delay, limiter = RetryDelay(), KindLimiter(turns, kind)
    while not listing.is_complete:
        try:
            await _list(listing, kind, reader=reader, discovery=discovery, observer=observer, limiter=limiter)
        except RegistryError as error:
            if proves_life(error):
                observer.on_answer()
            elif isinstance(error, Unauthorized):
                observer.on_unauthorized()
            if isinstance(error, NotServed):
                discovery.invalidate(kind)
            listing.on_error(error)
            await delay.wait_after(error)


async def _list(
    listing: SelectionList,
    kind: GVK,
    *,
    reader: Reader,
    discovery: Discovery,
    observer: ServerObserver,
    limiter: KindLimiter,
) -> None:
    gvr = await discovery.resolve(kind)
    pages = list_objects(reader, gvr, listing.selection, kind=kind)
    refused, resource_version = 0, ""
    async with contextlib.aclosing(pages):
        async for page in pages:
            observer.on_answer()
            refused = 0 if page.is_first else refused
            for obj in page.items:
                await limiter.wait()
                with limiter.measure():
                    listing.on_object(obj)
            refused += page.refused
            resource_version = page.resource_version
    if refused:
        raise ProtocolError(describe_refused(gvr, listing.selection, kind, count=refused))
    if not listing.on_synced(revision(resource_version)):
        raise ProtocolError(_OUTDATED.format(gvr, listing.selection))
