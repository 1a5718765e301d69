"""Lists the caches that are not complete: those that will be soon, and those that need an administrator."""

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
from registry_controller.report.reasons import explain_unread
from registry_controller.watch.lister import SelectionList
from registry_controller.watch.stream import SelectionStream


def list_pending(engine: Engine) -> list[str]:
    """List the pending lists and connections; empty when every cache that can be complete is complete."""
    if not engine.clusters.is_current:
        return ["the registry's kinds"]
    return [
        *(f"here: {pending}" for pending in _list_pending_locally(engine)),
        *(
            f"peer {peer.name}: {pending}"
            for peer in _list_peers(engine)
            for pending in _list_pending_at_peer(engine, peer)
        ),
    ]


def list_problems(engine: Engine, *, rules: Iterable[str]) -> list[str]:
    """List the peers, and the kinds of these rules, that are not read, each with the cause."""
    names = set(rules)
    return [
        *_list_local_problems(engine, names),
        *(
            f"peer {peer.name}: {problem}"
            for peer in _list_peers(engine)
            for problem in _list_peer_problems(engine, peer, names)
        ),
        *_list_unread_clusters(engine),
    ]


def find_unserved_kinds(engine: Engine, *, rules: Iterable[str]) -> set[GVK]:
    """Find the kinds of these rules that a cluster does not serve."""
    names = set(rules)
    caches: list[SourceCache | LocalCache] = [cache for cache, _ in _list_written(engine, names)]
    for peer in _list_peers(engine):
        caches += _list_sources(engine, peer, names)
    return {
        cache.kind for cache in caches if any(isinstance(stream.error, NotServed) for stream in cache.streams.values())
    }


def _list_written(engine: Engine, rules: set[str]) -> Iterator[tuple[LocalCache, frozenset[Selection]]]:
    """List the local caches and selections that these rules need; a kind is watched in one of its versions."""
    written = list_target_kinds(active for name, active in engine.clusters.active.items() if name in rules)
    for kind, selections in written.items():
        cache = engine.copies.cache_of(kind.group, kind.kind)
        if cache is not None:
            yield cache, selections


def _list_sources(engine: Engine, peer: Peer, rules: set[str]) -> Iterator[SourceCache]:
    """List the caches of a peer's objects that these rules need."""
    caches = engine.sources.caches_of(peer.cluster_id)
    yield from (cache for cache in caches if any(cache.has_rule(rule) for rule in rules))


def _list_peers(engine: Engine) -> list[Peer]:
    return sorted(engine.clusters.peers.values(), key=lambda peer: peer.name)


def _list_pending_locally(engine: Engine) -> Iterator[str]:
    if not engine.namespaces.is_complete:
        yield "namespaces"
    if not engine.orphans.is_complete:
        yield "orphaned copies"
    for name, choice in sorted(engine.clusters.resolved.items()):
        if choice.waiting:
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
        if _is_incomplete(cache.reads):
            yield f"{cache.kind}"


def _is_incomplete(streams: Iterable[SelectionStream | SelectionList]) -> bool:
    return any(not stream.is_complete and _is_transient(stream.error) for stream in streams)


def _is_transient(error: RegistryError | None) -> bool:
    """Return whether a list is under way, or the server asked for a retry: 429, as right after a CRD was created."""
    return error is None or error.retry_after_s > 0


def _list_local_problems(engine: Engine, rules: set[str]) -> Iterator[str]:
    for cache, selections in _list_written(engine, rules):
        errors = _list_stream_errors(cache.kind, cache.streams_at(selections), is_local=True)
        yield from (f"here: {error}" for error in errors)


def _list_peer_problems(engine: Engine, peer: Peer, rules: set[str]) -> Iterator[str]:
    if not peer.is_connected:
        yield peer.failure or "did not answer in time"
        return
    if peer.features.held is None:
        yield "its ClusterFeatures were not listed in time"
    for cache in _list_sources(engine, peer, rules):
        yield from _list_stream_errors(cache.kind, cache.reads, is_local=False)


def _list_stream_errors(
    kind: GVK, streams: Iterable[SelectionStream | SelectionList], *, is_local: bool
) -> Iterator[str]:
    """List why a kind's streams are not complete; each message begins with the kind."""
    for stream in streams:
        if stream.error is not None:
            yield f"{kind.kind}: {explain_unread(kind, stream.error, is_local=is_local)}"
        elif not stream.is_complete:
            yield f"{kind.kind}: not listed in time"


def _list_unread_clusters(engine: Engine) -> Iterator[str]:
    """List the Clusters that are not read at all, without those that an administrator disabled."""
    for name, choice in sorted(engine.clusters.resolved.items()):
        missing = "spec.authInfo.secretRef is not complete" if choice.missing_auth else ""
        waiting = "its Secret was not listed in time" if choice.waiting else ""
        problem = choice.auth_problem or choice.conflict or missing or waiting
        if problem and choice.cluster.cluster_id != engine.local and not choice.alias_of:
            yield f"peer {name}: {problem}"
