"""Lists a selection once, beside the watch that covers it, and retries until the list is complete."""

from __future__ import annotations

import contextlib
from typing import Final

from registry_controller.api.errors import NotServed, ProtocolError, RegistryError, Unauthorized
from registry_controller.api.meta import GVK, revision
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.listing import list_objects
from registry_controller.watch.fairness import EvaluationLimiter, KindLimiter
from registry_controller.watch.reflector import ServerObserver, proves_life
from registry_controller.watch.retry import RetryDelay
from registry_controller.watch.stream import SelectionList

_OUTDATED: Final = "list {} ({}): it is older than the objects of the watch"


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
        raise ProtocolError(f"list {gvr} ({listing.selection}): {refused} items are not objects of {kind}")
    if not listing.on_synced(revision(resource_version)):
        raise ProtocolError(_OUTDATED.format(gvr, listing.selection))
