"""What an honest API server holds, and how it answers: get, list in pages, watch with bookmarks, discovery."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.hostile.server.asking import Ask, Wire, status

Manifest = dict[str, Any]
REGISTRY = "clusterregistry.k8s.cisco.com"
_FEATURE = "cluster-registry-core-resources"
_VERBS = ["get", "list", "watch"]
_BOOKMARK_S = 5.0


class Kind(NamedTuple):
    """A kind that is served."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


KINDS = (
    Kind("", "v1", "namespaces", "Namespace", False),
    Kind("", "v1", "nodes", "Node", False),
    Kind("", "v1", "secrets", "Secret", True),
    Kind("", "v1", "configmaps", "ConfigMap", True),
    Kind(REGISTRY, "v1alpha1", "clusters", "Cluster", False),
    Kind(REGISTRY, "v1alpha1", "resourcesyncrules", "ResourceSyncRule", False),
    Kind(REGISTRY, "v1alpha1", "clusterfeatures", "ClusterFeature", False),
)
BY_KIND = {kind.kind: kind for kind in KINDS}


class Place(NamedTuple):
    """What a path is about: a kind, in one namespace or all, and one object or all."""

    kind: Kind
    namespace: str
    name: str


class World:
    """Objects and their history. Everything belongs to the servers' loop."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.revision = 100
        self._objects: dict[tuple[str, str, str], Manifest] = {}
        self._watches: dict[asyncio.Queue[tuple[str, Manifest]], Place] = {}
        self.put({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid}})
        self.put({"kind": "Namespace", "metadata": {"name": "default"}})
        self.put(
            {"kind": "ClusterFeature", "metadata": {"name": _FEATURE}, "spec": {"featureName": f"{_FEATURE}-source"}}
        )

    def put(self, manifest: Manifest) -> Manifest:
        """Create or replace an object; return what is stored."""
        kind = BY_KIND[manifest["kind"]]
        info = manifest["metadata"]
        key = (kind.plural, info.get("namespace", ""), info["name"])
        held = self._objects.get(key)
        self.revision += 1
        told = {
            "uid": held["metadata"]["uid"] if held else f"00000000-0000-4000-8000-{self.revision:012d}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **info,
            "resourceVersion": str(self.revision),
        }
        stored = {**copy.deepcopy(manifest), "apiVersion": kind.api_version, "metadata": told}
        self._objects[key] = stored
        self._tell("MODIFIED" if held else "ADDED", stored)
        return stored

    def drop(self, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object."""
        held = self._objects.pop((BY_KIND[kind].plural, namespace, name))
        self.revision += 1
        held["metadata"]["resourceVersion"] = str(self.revision)
        self._tell("DELETED", held)

    def find(self, place: Place) -> list[Manifest]:
        """List what is at a place, in the order of names."""
        return [copy.deepcopy(found) for key, found in sorted(self._objects.items()) if _is_at(place, found)]

    async def answer(self, ask: Ask, wire: Wire) -> None:
        """Answer as an API server does."""
        if ask.path == "/version":
            await wire.answer({"major": "1", "minor": "36", "gitVersion": "v1.36.1"})
        elif ask.path == "/apis":
            await wire.answer({"kind": "APIGroupList", "groups": []})
        elif (place := parse(ask.path)) is not None:
            await self._answer_objects(ask, place, wire)
        elif resources := [_resource(kind) for kind in KINDS if kind.prefix == ask.path]:
            await wire.answer({"kind": "APIResourceList", "resources": resources})
        else:
            await wire.answer(status(404, "NotFound"), status=404)

    async def _answer_objects(self, ask: Ask, place: Place, wire: Wire) -> None:
        if place.name:
            details = {"name": place.name, "kind": place.kind.plural, "group": place.kind.group}
            found = self.find(place)
            missing = status(404, "NotFound", details=details)
            await wire.answer(found[0] if found else missing, status=200 if found else 404)
        elif ask.is_watch:
            await self.watch(ask, place, wire)
        else:
            items = [] if "fieldSelector" in ask.query else self.find(place)
            await wire.answer(self.spell_list(place, items))

    def spell_list(self, place: Place, items: list[Any], **info: Any) -> Manifest:
        """Write a list as API servers do; `info` goes into its metadata."""
        told = {"resourceVersion": str(self.revision), **info}
        return {
            "kind": f"{place.kind.kind}List",
            "apiVersion": place.kind.api_version,
            "metadata": told,
            "items": items,
        }

    async def watch(self, ask: Ask, place: Place, wire: Wire) -> None:
        """Stream what happens, and what is there before, where that is asked for."""
        obj: asyncio.Queue[tuple[str, Manifest]] = asyncio.Queue()
        self._watches[obj] = place
        try:
            await wire.begin()
            if ask.wants_initial:
                for found in self.find(place):
                    await wire.line("ADDED", found)
                await wire.line("BOOKMARK", self.bookmark(place, initial=True))
            while True:
                try:
                    async with asyncio.timeout(_BOOKMARK_S):
                        type_, manifest = await obj.get()
                except TimeoutError:
                    type_, manifest = "BOOKMARK", self.bookmark(place)
                await wire.line(type_, manifest)
        finally:
            del self._watches[obj]

    def bookmark(self, place: Place, *, initial: bool = False, revision: str = "") -> Manifest:
        """Write the object of a bookmark."""
        info: dict[str, Any] = {"resourceVersion": revision or str(self.revision)}
        if initial:
            info["annotations"] = {"k8s.io/initial-events-end": "true"}
        return {"kind": place.kind.kind, "apiVersion": place.kind.api_version, "metadata": info}

    def _tell(self, type_: str, manifest: Mapping[str, Any]) -> None:
        spelled: Manifest = json.loads(json.dumps(manifest))
        for obj, place in self._watches.items():
            if _is_at(place, spelled):
                obj.put_nowait((type_, spelled))


def parse(path: str) -> Place | None:
    """Read what a path of objects is about; None for any other path."""
    for kind in KINDS:
        if not path.startswith(f"{kind.prefix}/"):
            continue
        parts = path.removeprefix(f"{kind.prefix}/").split("/")
        namespace = ""
        if kind.namespaced and parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        if parts[0] == kind.plural and len(parts) <= 2:
            return Place(kind, namespace, parts[1] if len(parts) > 1 else "")
    return None


def objects(kind: str, names: Iterator[str] | list[str], **more: Any) -> Iterator[Manifest]:
    """Write objects of a kind that nobody stored, for lists that are made up."""
    served = BY_KIND[kind]
    for number, name in enumerate(names):
        info = {"name": name, "uid": f"11111111-0000-4000-8000-{number:012d}", "resourceVersion": str(1000 + number)}
        if served.namespaced:
            info["namespace"] = "default"
        yield {"apiVersion": served.api_version, "kind": kind, "metadata": info, **more}


def _is_at(place: Place, manifest: Mapping[str, Any]) -> bool:
    info = manifest["metadata"]
    return (
        manifest["kind"] == place.kind.kind
        and place.namespace in ("", info.get("namespace", ""))
        and place.name in ("", info["name"])
    )


def _resource(kind: Kind) -> Manifest:
    return {"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced, "verbs": _VERBS}
