"""Reading objects as `kubectl get -o json` does, without a process for each look: tests look often while they wait."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from hack.controlplane import ApiError, Cluster, CommandError


class _Resource(NamedTuple):
    path: str
    namespaced: bool
    kind: str
    api_version: str


class _Asked(NamedTuple):
    resource: str
    name: str = ""
    namespace: str = "default"
    labels: str = ""


class Reading:
    """The objects of one cluster. What kubectl would take and this does not understand is None."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._resources: dict[str, _Resource] = {}

    def get(self, *arguments: str) -> dict[str, Any] | None:
        """Read an object or a list; CommandError when it is not there or cannot be read."""
        asked = _parse(arguments)
        resource = asked and self._find(asked.resource)
        if not asked or not resource:
            return None
        where = f"/namespaces/{asked.namespace}" if resource.namespaced and asked.namespace else ""
        group, plural = resource.path.rsplit("/", 1)
        path = f"{group}{where}/{plural}" + (f"/{quote(asked.name)}" if asked.name else "")
        query = f"?labelSelector={quote(asked.labels)}" if asked.labels else ""
        try:
            found = self._cluster.api.get(path + query)
        except ApiError as error:
            raise CommandError(["get", *arguments], returncode=1, stdout="", stderr=str(error)) from error
        for item in found.get("items", ()):
            item |= {"kind": resource.kind, "apiVersion": resource.api_version}
        return found

    def _find(self, name: str) -> _Resource | None:
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
                found = _Resource(f"{path}/{one['name']}", one["namespaced"], one["kind"], version)
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
