"""What happened in each cluster: every state of every object that the workload is about, and who wrote it.

Read from the API servers' audit logs, which say who, and from a watch of our own, which also hears what no line of
the audit log tells (an API server that was killed). Law: nothing here imports anything of the daemon.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Manifest = Mapping[str, Any]
DAEMON, PEOPLE, KUBERNETES, UNKNOWN = "daemon", "people", "kubernetes", "unknown"
NAMESPACE = "cluster-registry"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"
READER = f"{ACCOUNT}-reader"
RESOURCES = {
    "configmaps": "ConfigMap", "secrets": "Secret", "widgets": "Widget", "resourcesyncrules": "ResourceSyncRule",
    "clusters": "Cluster",
}  # fmt: skip
PATHS = {
    "ConfigMap": "/api/v1/configmaps",
    "Secret": "/api/v1/secrets",
    "Cluster": "/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusters",
    "Widget": "/apis/test.example.com/v1/widgets",
    "ResourceSyncRule": "/apis/clusterregistry.k8s.cisco.com/v1alpha1/resourcesyncrules",
}
BINDING = ("Cluster", "ResourceSyncRule")
"""What makes the group, and is copied by no rule of the workload's."""
_WRITES = frozenset({"create", "update", "patch", "delete"})


class Place(NamedTuple):
    """An object of a cluster."""

    cluster: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name} in {self.cluster}"


@dataclass(frozen=True, slots=True)
class State:
    """What an object was from a moment on (s since 1970). `object` is None when it was deleted.

    began: when the write was asked for. epoch: how often the cluster's etcd had been put back. revision: orders
    states of one epoch; a deletion that nobody heard lies half a step behind what was deleted.
    """

    place: Place
    at: float
    object: Manifest | None
    who: str = UNKNOWN
    began: float = 0.0
    epoch: int = 0
    revision: float = 0.0
    uid: str = ""

    def __str__(self) -> str:
        when = datetime.datetime.fromtimestamp(self.at, datetime.UTC).strftime("%H:%M:%S.%f")[:-3]
        what = "deleted" if self.object is None else _brief(self.object)
        return f"{when} {self.who:10} {self.place} @{self.revision:g}: {what}"


def _brief(manifest: Manifest) -> str:
    info = manifest["metadata"]
    marked = next((v[:8] for k, v in (info.get("annotations") or {}).items() if k.endswith("owner-cluster-id")), "-")
    content = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "metadata")}
    shown = sorted(content) if manifest.get("kind") == "Secret" else json.dumps(content, sort_keys=True)[:160]
    return f"owner {marked} {shown}"


@dataclass
class History:
    """All states, by place, in order; and every successful write of a daemon, also those that changed nothing."""

    states: dict[Place, list[State]] = field(default_factory=dict)
    written: dict[Place, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    absent: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """When a cluster had left the group, from and to."""

    def of(self, cluster: str, kind: str, key: tuple[str, str]) -> list[State]:
        return self.states.get(Place(cluster, kind, *key), [])

    def rules(self, cluster: str) -> dict[str, list[State]]:
        """The histories of the rules that one cluster has or had."""
        return {
            place.name: states
            for place, states in self.states.items()
            if place.cluster == cluster and place.kind == "ResourceSyncRule"
        }

    def lines(self, *places: Place, around: float = 0.0, most: int = 12) -> list[str]:
        """Spell what happened at some places, nearest to a moment."""
        found = sorted((state for place in places for state in self.states.get(place, ())), key=lambda state: state.at)
        if around and len(found) > most:
            found = sorted(sorted(found, key=lambda state: abs(state.at - around))[:most], key=lambda state: state.at)
        return [str(state) for state in found[-most:]]


def state_at(states: Sequence[State], at: float) -> State | None:
    """What an object was at a moment; a write counts from when it was asked for, because others may hear of it before
    its answer.
    """
    return next((state for state in reversed(states) if state.began <= at), None)


def moment(text: str) -> float:
    """Read a timestamp of the audit log."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def stamp(at: float) -> str:
    """Spell a moment as the audit log does."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat().replace("+00:00", "Z")


def who_is(user: str) -> str:
    """Say for whom a user stands."""
    if user == ACCOUNT:
        return DAEMON
    if user == "kubernetes-admin":
        return PEOPLE
    return KUBERNETES if user.startswith("system:") else UNKNOWN


@dataclass(frozen=True, slots=True)
class Written:
    """One successful write of the audit log. `object` is what the server answered with; None for a deletion."""

    place: Place
    at: float
    began: float
    who: str
    object: Manifest | None
    uid: str


def read_writes(cluster: str, lines: Iterable[Manifest]) -> list[Written]:
    """Take the writes to the workload's kinds out of an audit log."""
    found = []
    for line in lines:
        named = line.get("objectRef") or {}
        kind = RESOURCES.get(named.get("resource", ""))
        code = (line.get("responseStatus") or {}).get("code", 0)
        if kind is None or line["verb"] not in _WRITES or not 200 <= code < 300 or "dryRun=" in line["requestURI"]:
            continue
        answered = line.get("responseObject") or {}
        info = answered.get("metadata") or {}
        name = named.get("name") or info.get("name", "")
        place = Place(cluster, kind, named.get("namespace", ""), name)
        is_gone = line["verb"] == "delete" and (answered.get("kind") == "Status" or not info.get("deletionTimestamp"))
        uid = info.get("uid") or (answered.get("details") or {}).get("uid", "")
        who = who_is(line["user"].get("username", ""))
        at, began = moment(line["stageTimestamp"]), moment(line["requestReceivedTimestamp"])
        if is_gone or "resourceVersion" in info:
            found.append(Written(place, at, began, who, None if is_gone else answered, uid))
    return found


@dataclass(frozen=True, slots=True)
class Heard:
    """One event of the observer's own watch. `object` is the last state, also of what was deleted."""

    place: Place
    at: float
    object: Manifest
    is_gone: bool
    revision: int
    epoch: int


def merge(
    writes: Iterable[Written], obj: Iterable[Heard], *, ids: Mapping[str, str], restored: Mapping[str, list[float]]
) -> History:
    """Make one history of both. `restored`: when a cluster's etcd was put back."""
    history = History(ids=dict(ids))
    found: dict[tuple[Place, int, float, str], State] = {}
    last: dict[tuple[Place, int, str], float] = {}
    went: dict[tuple[Place, int, str], tuple[Place, int, float, str]] = {}
    gone: list[Written] = []
    for write in sorted(writes, key=lambda write: write.at):
        epoch = sum(at < write.began for at in restored.get(write.place.cluster, ()))
        if write.who == DAEMON:
            history.written[write.place] = history.written.get(write.place, 0) + 1
        if write.object is None:
            gone.append(write)
            continue
        revision = float(write.object["metadata"]["resourceVersion"])
        key = (write.place, epoch, revision, "is")
        last[write.place, epoch, write.uid] = max(revision, last.get((write.place, epoch, write.uid), 0.0))
        if key not in found:  # a write that changed nothing is answered with the revision that is there
            found[key] = State(write.place, write.at, write.object, write.who, write.began, epoch, revision, write.uid)
    for event in obj:
        revision = float(event.revision)
        uid = event.object["metadata"].get("uid", "")
        key = (event.place, event.epoch, revision, "gone" if event.is_gone else "is")
        if event.is_gone:
            found[key] = State(event.place, event.at, None, UNKNOWN, event.at, event.epoch, revision, uid)
            went.setdefault((event.place, event.epoch, uid), key)
            continue
        last[event.place, event.epoch, uid] = max(revision, last.get((event.place, event.epoch, uid), 0.0))
        if key not in found:
            was_there = any((event.place, epoch, revision, "is") in found for epoch in range(event.epoch))
            who = KUBERNETES if was_there else manager_of(event.object)  # put back with its etcd: nobody wrote it
            found[key] = State(event.place, event.at, event.object, who, event.at, event.epoch, revision, uid)
    for write in gone:
        epoch = sum(at < write.began for at in restored.get(write.place.cluster, ()))
        object_ = (write.place, epoch, write.uid)
        # What the watch did not hear go is put behind what was deleted.
        key = went.setdefault(object_, (write.place, epoch, last.get(object_, 0.0) + 0.5, "gone"))
        found[key] = State(write.place, write.at, None, write.who, write.began, epoch, key[2], write.uid)
    for state in sorted(found.values(), key=lambda state: (state.epoch, state.revision)):
        history.states.setdefault(state.place, []).append(state)
    return history


def manager_of(manifest: Manifest) -> str:
    """Say who wrote last, where only the object itself can tell."""
    fields = [one for one in manifest["metadata"].get("managedFields") or [] if one.get("time")]
    if not fields:
        return UNKNOWN
    newest = max(one["time"] for one in fields)
    managers = {one["manager"] for one in fields if one["time"] == newest}
    if len(managers) > 1:
        return UNKNOWN
    return DAEMON if managers == {"registry-controller"} else PEOPLE
