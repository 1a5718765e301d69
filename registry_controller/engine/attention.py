"""What needs a fresh look when something changed that is not an object: who is alive, what is complete, a namespace.

Law: too many looks are harmless, one too few is a bug; a look is a key in the queue.
"""

from __future__ import annotations

from collections.abc import Callable

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, Target
from registry_controller.engine.copies import Copies, LocalFeed
from registry_controller.engine.feed import Feed
from registry_controller.engine.sources import Sources


class Attention:
    """Finds the targets that a change bears on, and puts them into the queue."""

    def __init__(self, *, sources: Sources, copies: Copies, add: Callable[[Target], None]) -> None:
        self._sources = sources
        self._copies = copies
        self._add = add

    def members_changed(self) -> None:
        """Look at every copy, and at what is offered of membership: somebody became alive, or no longer is."""
        for local_feed in self._copies.all_feeds():
            self._look_at_copies(local_feed)
        for feed in self._sources.all_feeds():
            if feed.kind in (meta.CLUSTER, meta.SECRET):
                self._look_at_offers(feed)

    def member_changed(self, member: ClusterUID) -> None:
        """Look at all that came from a member, and at all that it offers: it left, or is back."""
        for local_feed in self._copies.all_feeds():
            for key, record in local_feed.records.items():
                if member in (record.marks.owner, record.natural):
                    self._add(local_feed.target(key))
        for feed in self._sources.feeds_of(member):
            self._look_at_offers(feed)

    def feed_complete(self, feed: Feed) -> None:
        """Look at the copies of a peer whose list is now complete: what it lacks may be gone."""
        for local_feed in self._copies.all_feeds():
            for key, record in local_feed.records.items():
                if feed.peer in (record.marks.owner, record.natural):
                    self._add(local_feed.target(key))

    def local_feed_complete(self, local_feed: LocalFeed) -> None:
        """Look at everything that is, or is to be, an object of a kind that is now heard here."""
        self._look_at_copies(local_feed)
        for feed in self._sources.all_feeds():
            self._look_at_offers(feed, kind=local_feed.kind)

    def namespace_changed(self, name: str) -> None:
        """Look at what is offered for a namespace that came, goes or is gone."""
        for feed in self._sources.all_feeds():
            self._look_at_offers(feed, namespace=name)

    def _look_at_copies(self, local_feed: LocalFeed) -> None:
        for key in local_feed.records:
            self._add(local_feed.target(key))

    def _look_at_offers(self, feed: Feed, *, kind: GVK | None = None, namespace: str | None = None) -> None:
        for key, record in feed.records.items():
            for hit in record.hits:
                target = hit.target(key)
                if namespace is not None and target.namespace != namespace:
                    continue
                if kind is None or (target.group, target.kind) == (kind.group, kind.kind):
                    self._add(target)
