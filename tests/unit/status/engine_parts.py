"""The parts of the engine that the status reporters read, with values that a test sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import InvalidObject, RegistryError
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.api.syncrule import SyncRule
from registry_controller.cache.registry import Registry
from registry_controller.clusters.resolver import ResolvedCluster
from registry_controller.clusters.rule_selection import RuleSelection
from registry_controller.core.rules.active import ActiveRule
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.watch.stream import SelectionStream

LOCAL, PEER, OTHER = ClusterUID("uid-local"), ClusterUID("uid-peer"), ClusterUID("uid-other")
WIDGET = GVK("example.com", "v1", "Widget")
GVK_FIELDS = {"group": WIDGET.group, "version": WIDGET.version, "kind": WIDGET.kind}
CREDENTIALS = cast(Credentials, object())


def stream(*, is_complete: bool = True, error: RegistryError | None = None, events: int = 0) -> SelectionStream:
    made = SelectionStream(cast(Any, None), EVERYTHING, 1)
    made.is_complete, made.error, made.events = is_complete, error, events
    return made


class FakeCache:
    """A cache of one kind, of a peer or of the local cluster."""

    def __init__(
        self,
        kind: GVK = WIDGET,
        *,
        peer: ClusterUID = PEER,
        rules: Collection[str] = ("rule",),
        streams: Iterable[SelectionStream] = (),
        unclear: Mapping[str, Mapping[ObjectKey, InvalidObject]] | None = None,
    ) -> None:
        self.kind, self.peer, self.rules = kind, peer, rules
        self.streams = {EVERYTHING: next(iter(streams), stream())}
        self.unclear = unclear or {}
        self.records: dict[ObjectKey, Any] = {}

    def has_rule(self, rule: str) -> bool:
        return rule in self.rules

    def synced_for(self, rule: str) -> bool:
        return self.has_rule(rule) and all(one.is_complete for one in self.streams.values())

    @property
    def events(self) -> int:
        return sum(one.events for one in self.streams.values())

    @property
    def reads(self) -> Sequence[SelectionStream]:
        return [*self.streams.values()]

    def reads_of(self, rule: str) -> Sequence[SelectionStream]:
        return self.reads if self.has_rule(rule) else []

    def streams_at(self, places: Collection[Selection]) -> Sequence[SelectionStream]:
        return [*self.streams.values()]


class FakeSources:
    def __init__(self, *caches: FakeCache) -> None:
        self.caches = caches

    def cache_of(self, peer: ClusterUID, kind: GVK) -> FakeCache | None:
        return next((cache for cache in self.caches if (cache.peer, cache.kind) == (peer, kind)), None)

    def caches_of(self, peer: ClusterUID) -> list[FakeCache]:
        return [cache for cache in self.caches if cache.peer == peer]

    def all_caches(self) -> tuple[FakeCache, ...]:
        return self.caches


class FakeCopies:
    def __init__(self, *caches: FakeCache) -> None:
        self._caches = caches

    def cache_of(self, group: str, kind: str) -> FakeCache | None:
        return next((cache for cache in self._caches if (cache.kind.group, cache.kind.kind) == (group, kind)), None)

    def all_caches(self) -> tuple[FakeCache, ...]:
        return self._caches


class Held:
    """The Clusters or ClusterFeatures of a peer; None until they were listed."""

    def __init__(self, held: Any, later: Any = ()) -> None:
        self.held, self.later = held, later


class FakePeer:
    """A peer; `clusters` are its Clusters by name."""

    def __init__(
        self,
        cluster_id: ClusterUID = PEER,
        name: str = "b",
        *,
        connected: bool = True,
        alive: bool = True,
        failure: str = "",
        features: Any = (),
        later: Any = (),
        clusters: Any = None,
    ) -> None:
        self.cluster_id, self.name, self.failure = cluster_id, name, failure
        self.is_connected, self.is_alive = connected, alive
        self.features, self.clusters = Held(features, later), Held(clusters)
        self.metadata: Mapping[str, Any] | None = {"provider": "kind"}
        self.metadata_problem = self.problem_of_own = ""
        self.silence_s: float | None = None


class FakeClusters:
    """The cluster provider: the resolved Clusters, the peers and the active rules."""

    def __init__(self, *resolved: ResolvedCluster, peers: Iterable[FakePeer] = (), rules: Iterable[ActiveRule] = ()):
        self.local = LOCAL
        self.resolved = {choice.cluster.name: choice for choice in resolved}
        self.peers = {peer.cluster_id: peer for peer in peers}
        self.active = {active.rule.name: active for active in rules}
        self.is_current = True
        self.selection: RuleSelection | None = None
        self.rebuilt_by: frozenset[ClusterUID] = frozenset()

    @property
    def rebuilt(self) -> FakeClusters:
        return self

    def selects_us(self, rule: SyncRule) -> bool | None:
        return self.selection.reported(rule) if self.selection is not None else True

    def wait_for(self, name: str) -> frozenset[ClusterUID]:
        return self.rebuilt_by

    def name_of(self, cluster_id: ClusterUID) -> str:
        return self.peers[cluster_id].name if cluster_id in self.peers else str(cluster_id)


class RecordedStatuses:
    """A status writer that keeps the wanted statuses by the object's name."""

    def __init__(self) -> None:
        self.wanted: dict[str, Mapping[str, Any]] = {}
        self.generations: dict[str, int] = {}

    def set_wanted(
        self,
        gvr: GVR,
        name: str,
        *,
        status: Mapping[str, Any],
        current: object,
        uid: str,
        generation: int,
        revision: int,
    ) -> None:
        self.wanted[name] = status
        self.generations[name] = generation

    def condition(self, name: str, kind: str) -> Mapping[str, Any]:
        """Find a condition of a wanted status; empty without it."""
        found = self.wanted[name].get("conditions", ())
        return next((condition for condition in found if condition["type"] == kind), {})


class IgnoredSummary:
    """A summary of statuses that nobody reads."""

    def note_cluster(self, name: str, status: Mapping[str, Any], *, current: object) -> None:
        pass

    def note_rule(self, name: str, status: Mapping[str, Any]) -> None:
        pass


def cluster(name: str = "b", cluster_id: ClusterUID = PEER) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}", "generation": 1},
        "spec": {"clusterID": cluster_id, "authInfo": {"secretRef": {"name": name, "namespace": "cluster-registry"}}},
    }


def resolved(name: str = "b", cluster_id: ClusterUID = PEER, **fields: Any) -> ResolvedCluster:
    read: Cluster = read_cluster(cluster(name, cluster_id))
    return ResolvedCluster(read, **{"credentials": CREDENTIALS, **fields})


def rule(name: str = "rule", *, status: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    whole = {"groupVersionKind": GVK_FIELDS, "rules": [{"match": [{"namespaces": ["default"]}]}], **spec}
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}", "generation": 3},
        "spec": whole,
        "status": dict(status or {}),
    }


def registry(*, clusters: Iterable[dict[str, Any]] = (), rules: Iterable[dict[str, Any]] = ()) -> Registry:
    made = Registry(local=LOCAL, on_change=lambda *_: None)
    for manifest in clusters:
        made.apply(meta.CLUSTERS.resource, None, manifest)
    for manifest in rules:
        made.apply(meta.RULES.resource, None, manifest)
    return made
