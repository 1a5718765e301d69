"""Whether anything that was made here lives in a copied Namespace or CustomResourceDefinition (O1).

Law: what cannot be looked into counts as not empty.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from registry_controller.api.errors import NotFound, NotServed, RegistryError
from registry_controller.api.meta import GVK, GVR, ObjectKey, Target
from registry_controller.api.selection import Selection
from registry_controller.core.own import read_marks
from registry_controller.kube.connect import Reader
from registry_controller.kube.watch import decode_manifest, list_objects

_NAMESPACE: Final = ("", "Namespace")
_DEFINITION: Final = ("apiextensions.k8s.io", "CustomResourceDefinition")
_EVERY_NAMESPACE_HAS: Final = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_NOBODY_MADE: Final = {"Event", "EndpointSlice", "Endpoints", "Lease"}


def is_container(target: Target) -> bool:
    """Say whether deleting the target deletes other objects with it."""
    return (target.group, target.kind) in (_NAMESPACE, _DEFINITION)


async def holds_natives(reader: Reader, target: Target) -> bool:
    """Say whether native objects live in a container, or may live there unseen."""
    try:
        kinds = _kinds_of_definition if (target.group, target.kind) == _DEFINITION else _kinds_in_namespaces
        async for kind, gvr in kinds(reader, target.name):
            selection = Selection(namespace=target.name) if target.kind == "Namespace" else Selection()
            if await _has_native(reader, kind, gvr, selection):
                return True
    except RegistryError:
        return True
    return False


async def _has_native(reader: Reader, kind: GVK, gvr: GVR, selection: Selection) -> bool:
    try:
        async for page in list_objects(reader, gvr, selection, kind=kind):
            for heard in page.items:
                own = Target(kind.group, kind.kind, heard.key.namespace, heard.key.name)
                known = (kind.kind, heard.key.name) in _EVERY_NAMESPACE_HAS
                if not known and not read_marks(heard.annotations, of=own).is_copy:
                    return True
            if page.refused:
                return True
    except (NotFound, NotServed):
        return False
    return False


async def _kinds_of_definition(reader: Reader, name: str) -> AsyncIterator[tuple[GVK, GVR]]:
    definitions = GVR(_DEFINITION[0], "v1", "customresourcedefinitions", False)
    spec = decode_manifest(await reader.get(definitions, ObjectKey("", name)))["spec"]
    version = next((version["name"] for version in spec["versions"] if version.get("served")), None)
    if version is not None:
        kind = GVK(spec["group"], version, spec["names"]["kind"])
        yield kind, GVR(spec["group"], version, spec["names"]["plural"], spec["scope"] == "Namespaced")


async def _kinds_in_namespaces(reader: Reader, _: str) -> AsyncIterator[tuple[GVK, GVR]]:
    paths = ["/api/v1"]
    for group in (await _read(reader, "/apis")).get("groups", ()):
        paths.append(f"/apis/{group['preferredVersion']['groupVersion']}")
    for path in paths:
        found = await _read(reader, path)
        group, _, version = str(found["groupVersion"]).rpartition("/")
        for resource in found.get("resources", ()):
            is_object = "/" not in resource["name"] and "list" in resource["verbs"]
            if resource["namespaced"] and is_object and resource["kind"] not in _NOBODY_MADE:
                yield GVK(group, version, resource["kind"]), GVR(group, version, resource["name"], True)


async def _read(reader: Reader, path: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(await reader.get_path(path))
    return found
