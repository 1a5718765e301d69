"""Finds objects in a copied Namespace or CustomResourceDefinition, which would go with it (O1, O5).

Laws: a copy counts like a native object, of any owner · what cannot be listed counts as content.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, NotFound, NotServed, RegistryError
from registry_controller.api.meta import GVK, GVR, ClusterUID, GroupKind, ObjectKey, Target
from registry_controller.api.selection import Selection
from registry_controller.core.decision.marks import is_at_home, is_made_by_controller, read_marks
from registry_controller.core.decision.state import CUSTOM_RESOURCE_DEFINITION, Content
from registry_controller.core.rules.matching import is_made_by_kubernetes
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.listing import describe_refused, list_objects
from registry_controller.kube.object import PartialObject, decode_manifest
from registry_controller.kube.watch import read_object
from registry_controller.report.reasons import explain_unread

_READ_S: Final = 10.0
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


class _Finding(NamedTuple):
    """The place of a content: an object, or a kind that cannot be listed (no key)."""

    kind: GVK
    gvr: GVR
    key: ObjectKey | None
    content: Content


class ContentFinder:
    """Finds an object that lives in a container of `cluster`. While that object is there, a look is one request."""

    def __init__(self, reader: Reader, *, cluster: ClusterUID) -> None:
        self._reader = reader
        self._cluster = cluster
        self._findings: dict[Target, _Finding] = {}
        self._known: dict[Target, Content] = {}

    def known(self, container: Target) -> Content | None:
        """Return the content of a container, as last seen; None for none, and before the first look."""
        return self._known.get(container)

    def forget(self, container: Target) -> None:
        """Forget the content of a container, as last seen."""
        self._findings.pop(container, None)
        self._known.pop(container, None)

    async def find(self, container: Target) -> Content | None:
        """Read a container, and return the first object found, or why there may be one; None for none."""
        finding, content = self._findings.pop(container, None), None
        try:
            finding = finding and await self._find_again(finding, container)
            finding = finding or await self._search(container)
        except RegistryError as error:
            content = Content(str(error))
        if finding is not None:
            self._findings[container], content = finding, finding.content
        if content is not None:
            self._known[container] = content
        else:
            self._known.pop(container, None)
        return content

    async def _find_again(self, before: _Finding, container: Target) -> _Finding | None:
        if before.key is None:
            return await self._find_object(before.kind, before.gvr, _content_of(container))
        try:
            obj = await read_object(self._reader, before.gvr, before.key, kind=before.kind, timeout_s=_READ_S)
        except RegistryError:
            return None
        return self._examine(before.kind, before.gvr, obj)

    async def _search(self, container: Target) -> _Finding | None:
        is_definition = _is_definition(container)
        kinds = _kinds_of_definition(self._reader, container.name) if is_definition else _kinds_deleted(self._reader)
        async for kind, gvr in kinds:
            if finding := await self._find_object(kind, gvr, _content_of(container)):
                return finding
        return None

    async def _find_object(self, kind: GVK, gvr: GVR, selection: Selection) -> _Finding | None:
        try:
            async for page in list_objects(self._reader, gvr, selection, kind=kind):
                for obj in page.items:
                    if finding := self._examine(kind, gvr, obj):
                        return finding
                if page.refused:
                    words = describe_refused(gvr, selection, kind, count=page.refused)
                    return _Finding(kind, gvr, None, Content(words))
        except (NotFound, NotServed):
            return None
        except Forbidden as error:
            return _Finding(kind, gvr, None, Content(explain_unread(kind, error, is_local=True)))
        except RegistryError as error:
            return _Finding(kind, gvr, None, Content(f"{kind.kind}: {error}"))
        return None

    def _examine(self, kind: GVK, gvr: GVR, obj: PartialObject) -> _Finding | None:
        """Return an object as a finding; None where Kubernetes makes it for every namespace, or a controller of a copy.

        A copy always counts: it is deleted by a decision of its own, or stays, but never with its container.
        """
        what = GroupKind(kind.group, kind.kind)
        target = Target(*what, *obj.key)
        marks = read_marks(obj.annotations, of=target)
        if not is_at_home(marks, peer=self._cluster, membership=False):
            return _Finding(kind, gvr, obj.key, Content(f"{kind.kind} {obj.key}", target, marks.owner))
        if what in _NOBODY_MADE or is_made_by_kubernetes(kind, obj.key):
            return None
        if what in _MADE_FOR_SERVICES and _is_made_for_service(what, obj):
            return None
        if is_made_by_controller(marks, lambda: decode_manifest(obj.raw), peer=self._cluster):
            return None
        return _Finding(kind, gvr, obj.key, Content(f"{kind.kind} {obj.key}", target))


def _is_definition(container: Target) -> bool:
    return GroupKind(container.group, container.kind) == CUSTOM_RESOURCE_DEFINITION


def _content_of(container: Target) -> Selection:
    return Selection() if _is_definition(container) else Selection(namespace=container.name)


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


async def _kinds_deleted(reader: Reader) -> AsyncIterator[tuple[GVK, GVR]]:
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
