"""What an engine has not heard yet, in words: while there is any, what it decides speaks of its start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from registry_controller.api.errors import NotServed, RegistryError
from registry_controller.api.meta import GVK
from registry_controller.api.selection import Selection
from registry_controller.cache.local_cache import LocalCache
from registry_controller.cache.source_cache import SourceCache
from registry_controller.clusters.peer import Peer
from registry_controller.core.rules.active import list_target_kinds
from registry_controller.engine import Engine
from registry_controller.watch.stream import SelectionStream, why_unheard


def list_pending(engine: Engine) -> list[str]:
    """Say what is worth waiting for; empty once everything that can be heard was heard."""
    if not engine.clusters.is_current:
        return ["our own kinds"]
    return [
        *(f"here: {words}" for words in _list_pending_locally(engine)),
        *(
            f"peer {peer.name}: {words}"
            for peer in _list_peers(engine)
            for words in _list_pending_at_peer(engine, peer)
        ),
    ]


def list_problems(engine: Engine, *, rules: Iterable[str]) -> list[str]:
    """Say which peers, and which kinds of these rules, are not heard, and why."""
    wanted = set(rules)
    return [
        *_list_local_problems(engine, wanted),
        *(
            f"peer {peer.name}: {words}"
            for peer in _list_peers(engine)
            for words in _list_peer_problems(engine, peer, wanted)
        ),
        *_list_unread_clusters(engine),
    ]


def find_unserved_kinds(engine: Engine, *, rules: Iterable[str]) -> set[GVK]:
    """Find the kinds of these rules that a cluster does not serve."""
    wanted = set(rules)
    caches: list[SourceCache | LocalCache] = [cache for cache, _ in _list_written(engine, wanted)]
    for peer in _list_peers(engine):
        caches += _list_sources(engine, peer, wanted)
    return {
        cache.kind for cache in caches if any(isinstance(stream.error, NotServed) for stream in cache.streams.values())
    }


def _list_written(engine: Engine, rules: set[str]) -> Iterator[tuple[LocalCache, frozenset[Selection]]]:
    """Find what these rules write, and where; a kind is heard in one version, whatever version they ask for."""
    written = list_target_kinds(active for name, active in engine.clusters.active.items() if name in rules)
    for kind, places in written.items():
        cache = engine.copies.cache_of(kind.group, kind.kind)
        if cache is not None:
            yield cache, places


def _list_sources(engine: Engine, peer: Peer, rules: set[str]) -> Iterator[SourceCache]:
    """Find what these rules read of a peer."""
    caches = engine.sources.caches_of(peer.cluster_id)
    yield from (cache for cache in caches if any(cache.has_rule(rule) for rule in rules))


def _list_peers(engine: Engine) -> list[Peer]:
    return sorted(engine.clusters.peers.values(), key=lambda peer: peer.name)


def _list_pending_locally(engine: Engine) -> Iterator[str]:
    if not engine.namespaces.is_complete:
        yield "namespaces"
    if not engine.orphans.is_complete:
        yield "copies that nobody wants"
    for name, resolved in sorted(engine.clusters.resolved.items()):
        if resolved.waiting:
            yield f"the Secret of Cluster {name}"
    for cache in engine.copies.all_caches():
        if _is_incomplete(cache.streams.values()):
            yield f"{cache.kind}"


def _list_pending_at_peer(engine: Engine, peer: Peer) -> Iterator[str]:
    if not peer.is_connected:
        if peer.is_alive:
            yield peer.failure or "its API server"
        return
    if peer.features.held is None:
        yield "its ClusterFeatures"
    for cache in engine.sources.caches_of(peer.cluster_id):
        if _is_incomplete(cache.streams.values()):
            yield f"{cache.kind}"


def _is_incomplete(streams: Iterable[SelectionStream]) -> bool:
    return any(not stream.is_complete and _is_transient(stream.error) for stream in streams)


def _is_transient(error: RegistryError | None) -> bool:
    """Say whether nothing is wrong, or the server says itself when to ask again: 429, as right after a CRD was made."""
    return error is None or error.retry_after_s > 0


def _list_local_problems(engine: Engine, rules: set[str]) -> Iterator[str]:
    for cache, places in _list_written(engine, rules):
        yield from (
            f"here: {words}" for words in _list_stream_errors(cache.kind, cache.streams_at(places), at_home=True)
        )


def _list_peer_problems(engine: Engine, peer: Peer, rules: set[str]) -> Iterator[str]:
    if not peer.is_connected:
        yield peer.failure or "did not answer in time"
        return
    if peer.features.held is None:
        yield "its ClusterFeatures were not heard in time"
    for cache in _list_sources(engine, peer, rules):
        yield from _list_stream_errors(cache.kind, cache.streams.values(), at_home=False)


def _list_stream_errors(kind: GVK, streams: Iterable[SelectionStream], *, at_home: bool) -> Iterator[str]:
    """Say why a kind is not heard: each sentence begins with the kind."""
    for stream in streams:
        if stream.error is not None:
            yield f"{kind.kind}: {why_unheard(kind, stream.error, at_home=at_home)}"
        elif not stream.is_complete:
            yield f"{kind.kind}: not heard in time"


def _list_unread_clusters(engine: Engine) -> Iterator[str]:
    """Name the Clusters that are not read at all. What somebody disabled is no trouble."""
    for name, resolved in sorted(engine.clusters.resolved.items()):
        missing = "spec.authInfo.secretRef is not complete" if resolved.missing_auth else ""
        waiting = "its Secret was not heard in time" if resolved.waiting else ""
        words = resolved.auth_problem or resolved.conflict or missing or waiting
        if words and resolved.cluster.cluster_id != engine.local and not resolved.alias_of:
            yield f"peer {name}: {words}"
