"""Whether anything that was made here lives in a copied Namespace or CustomResourceDefinition (O1).

Law: what cannot be looked into counts as not empty.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import NotFound, NotServed, RegistryError
from registry_controller.api.meta import GVK, GVR, GroupKind, ObjectKey, Target
from registry_controller.api.selection import Selection
from registry_controller.core.decision.ownership import read_marks
from registry_controller.core.rules.matching import CUSTOM_RESOURCE_DEFINITION, is_made_by_kubernetes
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.watch import PartialObject, decode_manifest, list_objects

_NOBODY_MADE: Final = frozenset(
    {
        GroupKind("", "Event"),
        GroupKind("events.k8s.io", "Event"),
        GroupKind("coordination.k8s.io", "Lease"),
        GroupKind("coordination.k8s.io", "LeaseCandidate"),
    }
)
"""What programs say about themselves, and say again where it is gone."""
_MADE_FOR_SERVICES: Final = {
    GroupKind("", "Endpoints"): frozenset({("endpoints.kubernetes.io/managed-by", "endpoint-controller")}),
    GroupKind("discovery.k8s.io", "EndpointSlice"): frozenset(
        {
            ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
            ("endpointslice.kubernetes.io/managed-by", "endpointslicemirroring-controller.k8s.io"),
        }
    ),
}
"""What Kubernetes makes of a Service, or of Endpoints, which count themselves, and the labels by which it knows it
(https://kubernetes.io/docs/reference/labels-annotations-taints/). People make such objects, too."""


async def holds_natives(reader: Reader, target: Target) -> bool:
    """Say whether native objects live in a container, or may live there unseen."""
    is_definition = GroupKind(target.group, target.kind) == CUSTOM_RESOURCE_DEFINITION
    kinds = _kinds_of_definition(reader, target.name) if is_definition else _kinds_in_namespaces(reader)
    selection = Selection() if is_definition else Selection(namespace=target.name)
    try:
        async for kind, gvr in kinds:
            if await _has_native(reader, kind, gvr, selection):
                return True
    except RegistryError:
        return True
    return False


async def _has_native(reader: Reader, kind: GVK, gvr: GVR, selection: Selection) -> bool:
    try:
        async for page in list_objects(reader, gvr, selection, kind=kind):
            if page.refused or any(_is_native(kind, obj) for obj in page.items):
                return True
    except (NotFound, NotServed):
        return False
    return False


def _is_native(kind: GVK, obj: PartialObject) -> bool:
    """Say whether an object was made here, and by more than a controller that finds a copy, or a new namespace."""
    what = GroupKind(kind.group, kind.kind)
    if is_made_by_kubernetes(kind, obj.key):
        return False
    if what in _MADE_FOR_SERVICES and _is_made_for_service(what, obj):
        return False
    return not read_marks(obj.annotations, of=Target(*what, *obj.key)).is_copy


def _is_made_for_service(what: GroupKind, obj: PartialObject) -> bool:
    """Say whether Kubernetes made it: it says so, or it has passed on the label of a copied Service.

    Older servers say so on EndpointSlices only.
    """
    return meta.OWNER in obj.labels or not _MADE_FOR_SERVICES[what].isdisjoint(obj.labels.items())


async def _kinds_of_definition(reader: Reader, name: str) -> AsyncIterator[tuple[GVK, GVR]]:
    """Give the kind of a definition; NotServed when no version of it is served, for what is stored is not seen then."""
    definitions = GVR(CUSTOM_RESOURCE_DEFINITION.group, "v1", "customresourcedefinitions", False)
    spec = decode_manifest(await reader.get(definitions, ObjectKey("", name)))["spec"]
    version = next((version["name"] for version in spec["versions"] if version.get("served")), None)
    if version is None:
        raise NotServed(f"{name}: no version of it is served here")
    kind = GVK(spec["group"], version, spec["names"]["kind"])
    yield kind, GVR(spec["group"], version, spec["names"]["plural"], spec["scope"] == "Namespaced")


async def _kinds_in_namespaces(reader: Reader) -> AsyncIterator[tuple[GVK, GVR]]:
    """Give every kind that goes with its namespace, in one version; NotServed when a part of them cannot be known.

    What has no verb for it is not deleted with a namespace: it is made up from other objects.
    """
    async for kinds in Discovery(reader).list_deletable():
        if kinds is None:
            raise NotServed(f"{reader.server}: a part of it does not say which kinds it has")
        for kind, gvr in kinds:
            if gvr.namespaced and GroupKind(kind.group, kind.kind) not in _NOBODY_MADE:
                yield kind, gvr
