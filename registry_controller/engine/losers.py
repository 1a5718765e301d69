"""Losers: the other rules that want a source at the same place, and otherwise (W2)."""

from __future__ import annotations

from collections.abc import Iterable

from registry_controller.api.meta import ClusterUID, Manifest, Target
from registry_controller.core.mutate import desired
from registry_controller.core.wanted import Hit
from registry_controller.engine.views import Offer


def hits_beside(offer: Offer, offers: Iterable[Offer]) -> tuple[Hit, ...]:
    """List by which other rules the same source claims the same place, in another version of its kind."""
    peer, kind = offer.feed.peer, offer.feed.kind
    return tuple(
        other.hit
        for other in offers
        if other.feed is not offer.feed
        and (other.feed.peer, other.key) == (peer, offer.key)
        and (other.feed.kind.group, other.feed.kind.kind) == (kind.group, kind.kind)
        and other.hit.barrier is None
    )


def losers_of(offer: Offer, target: Target, manifest: Manifest, *, owner: ClusterUID) -> tuple[str, ...]:
    """Name the other rules that make something else of the same source at the same place (W2)."""
    found = []
    for hit in offer.record.hits:
        if hit.rule == offer.hit.rule or hit.entries == offer.hit.entries or hit.target(offer.key) != target:
            continue
        if hit.barrier is not None:
            continue
        other = desired(manifest, offer.feed.kind, hit.entries, owner=owner, context=hit.context)
        ours = desired(manifest, offer.feed.kind, offer.hit.entries, owner=owner, context=offer.hit.context)
        if (other.manifest, other.status) != (ours.manifest, ours.status):
            found.append(hit.rule)
    return tuple(found)
