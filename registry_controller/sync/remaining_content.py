"""Finds objects in a copied Namespace or CustomResourceDefinition, which would go with it (O1, O5).

Laws: a copy counts like a native object, of any owner · what cannot be listed counts as content.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, NotFound, NotServed, RegistryError
from registry_controller.api.meta import GVK, GVR, ClusterUID, GroupKind, ObjectKey, Target
from registry_controller.api.selection import Selection
from registry_controller.core.decision.marks import is_at_home, is_made_by_controller, read_marks
from registry_controller.core.decision.state import CUSTOM_RESOURCE_DEFINITION
from registry_controller.core.rules.matching import is_made_by_kubernetes
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.listing import list_objects
from registry_controller.kube.object import PartialObject, decode_manifest
from registry_controller.report.reasons import explain_unread

_NOBODY_MADE: Final = frozenset(
    {
        GroupKind("", "Event"),
        GroupKind("events.k8s.io", "Event"),
        GroupKind("coordination.k8s.io", "Lease"),
        GroupKind("coordination.k8s.io", "LeaseCandidate"),
    }
)
"""Kinds that programs write about themselves, and write again after a deletion."""
_MADE_FOR_SERVICES: Final = {
    GroupKind("", "Endpoints"): frozenset({("endpoints.kubernetes.io/managed-by", "endpoint-controller")}),
    GroupKind("discovery.k8s.io", "EndpointSlice"): frozenset(
        {
            ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
            ("endpointslice.kubernetes.io/managed-by", "endpointslicemirroring-controller.k8s.io"),
        }
    ),
}
"""Kinds that Kubernetes makes from a Service, or from Endpoints, with the labels of its own objects
(https://kubernetes.io/docs/reference/labels-annotations-taints/). People make objects of these kinds, too."""


async def find_content(reader: Reader, target: Target, *, cluster: ClusterUID) -> str:
    """Return an object that lives in a container of `cluster`, or why one may live there unlisted; empty for none."""
    is_definition = GroupKind(target.group, target.kind) == CUSTOM_RESOURCE_DEFINITION
    kinds = _kinds_of_definition(reader, target.name) if is_definition else _kinds_in_namespaces(reader)
    selection = Selection() if is_definition else Selection(namespace=target.name)
    try:
        async for kind, gvr in kinds:
            if found := await _find_object(reader, kind, gvr, selection, cluster):
                return found
    except RegistryError as error:
        return str(error)
    return ""


async def _find_object(reader: Reader, kind: GVK, gvr: GVR, selection: Selection, cluster: ClusterUID) -> str:
    try:
        async for page in list_objects(reader, gvr, selection, kind=kind):
            found = next((obj.key for obj in page.items if _is_content(kind, obj, cluster)), None)
            if found is not None:
                return f"{kind.kind} {found}"
            if page.refused:
                return f"list {gvr} ({selection}): {page.refused} items are not objects of {kind}"
    except (NotFound, NotServed):
        return ""
    except Forbidden as error:
        return explain_unread(kind, error, is_local=True)
    except RegistryError as error:
        return f"{kind.kind}: {error}"
    return ""


def _is_content(kind: GVK, obj: PartialObject, cluster: ClusterUID) -> bool:
    """Report whether an object is a copy, or made by more than Kubernetes for every namespace, or a controller.

    A copy is deleted by a decision of its own, or stays: never with its container.
    """
    what = GroupKind(kind.group, kind.kind)
    marks = read_marks(obj.annotations, of=Target(*what, *obj.key))
    if not is_at_home(marks, peer=cluster, membership=False):
        return True
    if what in _NOBODY_MADE or is_made_by_kubernetes(kind, obj.key):
        return False
    if what in _MADE_FOR_SERVICES and _is_made_for_service(what, obj):
        return False
    return not is_made_by_controller(marks, lambda: decode_manifest(obj.raw), peer=cluster)


def _is_made_for_service(what: GroupKind, obj: PartialObject) -> bool:
    """Report whether Kubernetes made an object for a Service: it has its label, or the label of a copied Service.

    Older servers label EndpointSlices only.
    """
    return meta.OWNER in obj.labels or not _MADE_FOR_SERVICES[what].isdisjoint(obj.labels.items())


async def _kinds_of_definition(reader: Reader, name: str) -> AsyncIterator[tuple[GVK, GVR]]:
    """Yield the kind of a definition; NotServed where no version is served, because its objects cannot be listed."""
    definitions = GVR(CUSTOM_RESOURCE_DEFINITION.group, "v1", "customresourcedefinitions", False)
    spec = decode_manifest(await reader.get(definitions, ObjectKey("", name)))["spec"]
    version = next((version["name"] for version in spec["versions"] if version.get("served")), None)
    if version is None:
        raise NotServed(f"{name}: no version is served here")
    kind = GVK(spec["group"], version, spec["names"]["kind"])
    yield kind, GVR(spec["group"], version, spec["names"]["plural"], spec["scope"] == "Namespaced")


async def _kinds_in_namespaces(reader: Reader) -> AsyncIterator[tuple[GVK, GVR]]:
    """Yield every kind that is deleted with its namespace, in one version; NotServed where some cannot be discovered.

    A kind without the verbs is not deleted with a namespace: its objects are computed from other objects. Last are the
    kinds that only matter as copies, because there may be many Events.
    """
    last = []
    async for kinds in Discovery(reader).list_deletable():
        if kinds is None:
            raise NotServed(f"{reader.server}: an API group does not answer with its kinds")
        for kind, gvr in kinds:
            if not gvr.namespaced:
                continue
            if GroupKind(kind.group, kind.kind) in _NOBODY_MADE:
                last.append((kind, gvr))
            else:
                yield kind, gvr
    for kind, gvr in last:
        yield kind, gvr
