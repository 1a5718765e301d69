"""Reading objects as `kubectl get -o json` does, without a process for each look: tests look often while they wait."""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from hack.controlplane import ApiError, Cluster, CommandError

_TRIES: Final = 10


class Resource(NamedTuple):
    """A resource that is served, at a path without the namespace."""

    path: str
    namespaced: bool
    kind: str
    api_version: str
    verbs: tuple[str, ...]


class _Asked(NamedTuple):
    resource: str
    name: str = ""
    namespace: str = "default"
    labels: str = ""


class Reading:
    """The objects of one cluster. What kubectl would take and this does not understand is None."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._resources: dict[str, Resource] = {}

    def get(self, *arguments: str) -> dict[str, Any] | None:
        """Read an object or a list; CommandError when it is not there or cannot be read."""
        asked = _parse(arguments)
        resource = asked and self._find(asked.resource)
        if not asked or not resource:
            return None
        path = self.path_of(resource, asked.name, asked.namespace)
        query = f"?labelSelector={quote(asked.labels)}" if asked.labels else ""
        try:
            found = self._get(path + query)
        except ApiError as error:
            raise CommandError(["get", *arguments], returncode=1, stdout="", stderr=str(error)) from error
        for item in found.get("items", ()):
            item |= {"kind": resource.kind, "apiVersion": resource.api_version}
        return found

    def path_to(self, *arguments: str) -> str | None:
        """Return the path of one object; None where that is not understood."""
        asked = _parse(arguments)
        resource = asked and self._find(asked.resource)
        if not asked or not resource or not asked.name or asked.labels or not asked.namespace:
            return None
        return self.path_of(resource, asked.name, asked.namespace)

    def path_of(self, resource: Resource, name: str, namespace: str) -> str:
        """Return the path of an object, or of a list without a name; `namespace` is empty for all of them."""
        where = f"/namespaces/{namespace}" if resource.namespaced and namespace else ""
        group, plural = resource.path.rsplit("/", 1)
        return f"{group}{where}/{plural}" + (f"/{quote(name)}" if name else "")

    def resource_of(self, manifest: dict[str, Any]) -> Resource | None:
        """Find the resource of a manifest in its version."""
        group, _, _ = manifest["apiVersion"].rpartition("/")
        kind = manifest["kind"].lower()
        found = self._find(f"{kind}.{group}" if group else kind)
        return found if found is not None and found.api_version == manifest["apiVersion"] else None

    def list_all(self) -> list[dict[str, Any]]:
        """List every object of every kind, each once."""
        self._discover()
        places = {found.path: found for found in self._resources.values() if "list" in found.verbs}
        items = list[dict[str, Any]]()
        for path, found in places.items():
            items += ({**item, "kind": found.kind} for item in self._get(path)["items"])
        return items

    def _get(self, path: str) -> dict[str, Any]:
        """Read as kubectl does: a server that asks to come later, as right after a definition, is asked again."""
        for _ in range(_TRIES):
            try:
                return self._cluster.api.get(path)
            except ApiError as error:
                if error.status != 429:
                    raise
            time.sleep(1.0)
        return self._cluster.api.get(path)

    def _find(self, name: str) -> Resource | None:
        if name not in self._resources:
            self._discover()
        return self._resources.get(name)

    def _discover(self) -> None:
        """Ask what is served; of two kinds of one name the first group's wins, as kubectl has it."""
        try:
            groups = self._cluster.api.get("/apis")["groups"]
            places = [
                ("v1", "/api/v1"),
                *((v := group["preferredVersion"]["groupVersion"], f"/apis/{v}") for group in groups),
            ]
            served = [(version, path, self._cluster.api.get(path)["resources"]) for version, path in places]
        except ApiError:
            return  # kubectl will say it
        self._resources = {}
        for version, path, resources in served:
            group = version.rpartition("/")[0]
            for one in resources:
                if "/" in one["name"]:
                    continue
                found = Resource(f"{path}/{one['name']}", one["namespaced"], one["kind"], version, tuple(one["verbs"]))
                names = (one["name"], one["singularName"], one["kind"].lower(), *one.get("shortNames", ()))
                for name in (*names, *(f"{name}.{group}" for name in names if group)):
                    self._resources.setdefault(name, found)


def _parse(arguments: tuple[str, ...]) -> _Asked | None:
    asked, rest = _Asked(""), list(arguments)
    words = []
    while rest:
        word = rest.pop(0)
        if word in ("-n", "--namespace") and rest:
            asked = asked._replace(namespace=rest.pop(0))
        elif word in ("-l", "--selector") and rest:
            asked = asked._replace(labels=rest.pop(0))
        elif word in ("-A", "--all-namespaces"):
            asked = asked._replace(namespace="")
        elif word.startswith("-"):
            return None
        else:
            words.append(word)
    if len(words) == 1:
        resource, _, name = words[0].partition("/")
        words = [resource, name]
    if len(words) != 2 or "," in words[0] or not words[0].islower():
        return None
    return asked._replace(resource=words[0], name=words[1])
