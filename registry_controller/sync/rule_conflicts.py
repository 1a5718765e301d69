"""Finds the younger rules that make another copy of a source at the same target (W2)."""

from __future__ import annotations

from collections.abc import Iterable

from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.cache.rule_evaluator import shares
from registry_controller.cache.source_index import Offer
from registry_controller.core.mutation.mutate import MutatedCopy, build_copy
from registry_controller.core.rules.active import Hit
from registry_controller.gotemplate import Pool


def hits_beside(offer: Offer, offers: Iterable[Offer]) -> tuple[Hit, ...]:
    """List the hits by which the same source claims the same target in another version of its kind."""
    peer, kind = offer.cache.peer, offer.cache.kind
    return tuple(
        other.hit
        for other in offers
        if other.cache is not offer.cache
        and (other.cache.peer, other.key) == (peer, offer.key)
        and (other.cache.kind.group, other.cache.kind.kind) == (kind.group, kind.kind)
        and other.hit.barrier is None
    )


def losers_of(offer: Offer, ours: MutatedCopy, manifest: Manifest, *, owner: ClusterUID) -> tuple[str, ...]:
    """List the other rules that make another copy than `ours` of the same source at the same target (W2).

    A rule that fails on the source counts, and so does a rule whose copy exceeds the share of its cluster's rules.
    """
    rivals = [
        hit
        for hit in offer.record.hits
        if hit.rule != offer.hit.rule
        and hit.entries != offer.hit.entries
        and hit.target(offer.key) == ours.target
        and hit.barrier is None
    ]
    pools = shares({hit.rule_owner for hit in rivals})
    return tuple(
        hit.rule for hit in rivals if not _makes(ours, hit, offer, manifest, owner=owner, pool=pools[hit.rule_owner])
    )


def _makes(ours: MutatedCopy, hit: Hit, offer: Offer, manifest: Manifest, *, owner: ClusterUID, pool: Pool) -> bool:
    """Report whether a rule makes the same copy."""
    try:
        theirs = build_copy(manifest, offer.cache.kind, hit.entries, owner=owner, context=hit.context, pool=pool)
    except Exception:  # the rule, or the source, may be of another cluster; a rule that wins reports its error
        return False
    return _content(theirs) == _content(ours)


def _content(copy: MutatedCopy) -> tuple[object, ...]:
    """Return what makes a copy another one. Labels and annotations of other writers stay under every rule."""
    return copy.manifest, copy.status, [path for path in copy.left if path[0] != "metadata"]
