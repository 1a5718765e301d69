"""Finds objects in a copied Namespace or CustomResourceDefinition, which would go with it (O1, O5).

Laws: a copy counts like a native object, of any owner · what cannot be listed counts as content, but an object that can
be listed is named first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence, Set
from typing import Final, NamedTuple

from registry_controller.api.errors import NotFound, NotServed, ProtocolError, RegistryError
from registry_controller.api.meta import GVK, GVR, ClusterUID, GroupKind, ObjectKey, Target
from registry_controller.api.optiontext import ObjectPattern
from registry_controller.api.selection import Selection
from registry_controller.core.decision.marks import read_marks
from registry_controller.core.decision.state import CUSTOM_RESOURCE_DEFINITION, Content
from registry_controller.core.rules.matching import is_made_by_kubernetes
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.listing import describe_refused, list_objects
from registry_controller.kube.object import PartialObject, decode_manifest
from registry_controller.kube.watch import read_object
from registry_controller.report.reasons import Unlisted, describe_content, describe_unlisted

_READ_S: Final = 10.0
_DEFINITION: Final = GVK(CUSTOM_RESOURCE_DEFINITION.group, "v1", CUSTOM_RESOURCE_DEFINITION.kind)
_DEFINITIONS: Final = GVR(_DEFINITION.group, _DEFINITION.version, "customresourcedefinitions", False)
_NO_VERSION: Final = "no version is served here"
_NOBODY_MADE: Final = frozenset(
    {
        GroupKind("", "Event"),
        GroupKind("events.k8s.io", "Event"),
        GroupKind("coordination.k8s.io", "Lease"),
        GroupKind("coordination.k8s.io", "LeaseCandidate"),
    }
)
"""Kinds that programs write about themselves, and write again after a deletion."""
_LAST: Final = _NOBODY_MADE | {GroupKind("", "Endpoints"), GroupKind("discovery.k8s.io", "EndpointSlice")}
"""Kinds that are listed last: there may be many Events, and a message had better name the Service of an Endpoints."""


class _Finding(NamedTuple):
    """An object in a container."""

    kind: GVK
    gvr: GVR
    key: ObjectKey


class ContentFinder:
    """Finds an object that lives in a container of `cluster`. While that object is there, a look is one request.

    `ignored` are objects that programs make in each namespace. `note_kind` is called with a definition and its kind.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        cluster: ClusterUID,
        ignored: Sequence[ObjectPattern],
        note_kind: Callable[[Target, GroupKind], None],
    ) -> None:
        self._reader = reader
        self._cluster = cluster
        self._ignored = ignored
        self._note_kind = note_kind
        self._findings: dict[Target, _Finding] = {}

    def forget(self, container: Target) -> None:
        """Forget the object that was found in a container."""
        self._findings.pop(container, None)

    async def find(self, container: Target) -> Content | None:
        """Read a container, and return the first object found, or why there may be one; None for none."""
        finding = self._findings.pop(container, None)
        if finding is not None and not await self._is_there(finding, container):
            finding = None
        unlisted = list[Unlisted]()
        if finding is None:
            try:
                finding = await self._search(container, unlisted)
            except RegistryError as error:
                return Content(str(error))
        if finding is None:
            return Content(describe_unlisted(unlisted)) if unlisted else None
        self._findings[container] = finding
        target = Target(finding.kind.group, finding.kind.kind, *finding.key)
        return Content(describe_content(target), target)

    async def _is_there(self, finding: _Finding, container: Target) -> bool:
        try:
            obj = await read_object(self._reader, finding.gvr, finding.key, kind=finding.kind, timeout_s=_READ_S)
        except RegistryError:
            return False
        return self._counts(finding.kind, obj, container)

    async def _search(self, container: Target, unlisted: list[Unlisted]) -> _Finding | None:
        """Find the first object; add to `unlisted` what cannot be listed."""
        kinds = self._read_definition(container) if _is_definition(container) else _list_kinds(self._reader, unlisted)
        async for kind, gvr in kinds:
            try:
                key = await self._find_object(kind, gvr, container)
            except RegistryError as error:
                unlisted.append(Unlisted(f"{gvr.resource}.{gvr.group}" if gvr.group else gvr.resource, error))
                continue
            if key is not None:
                return _Finding(kind, gvr, key)
        return None

    async def _read_definition(self, container: Target) -> AsyncIterator[tuple[GVK, GVR]]:
        """Yield the kind of a definition; NotServed where no version is served: its objects cannot be listed."""
        spec = decode_manifest(await self._reader.get(_DEFINITIONS, ObjectKey("", container.name)))["spec"]
        self._note_kind(container, GroupKind(spec["group"], spec["names"]["kind"]))
        version = next((version["name"] for version in spec["versions"] if version.get("served")), None)
        if version is None:
            raise NotServed(f"{container.name}: {_NO_VERSION}")
        kind = GVK(spec["group"], version, spec["names"]["kind"])
        yield kind, GVR(spec["group"], version, spec["names"]["plural"], spec["scope"] == "Namespaced")

    async def _find_object(self, kind: GVK, gvr: GVR, container: Target) -> ObjectKey | None:
        selection = Selection() if _is_definition(container) else Selection(namespace=container.name)
        refused = 0
        async for page in list_objects(self._reader, gvr, selection, kind=kind, metadata_only=True):
            for obj in page.items:
                if self._counts(kind, obj, container):
                    return obj.key
            refused += page.refused
        if refused:
            raise ProtocolError(describe_refused(gvr, selection, kind, count=refused))
        return None

    def _counts(self, kind: GVK, obj: PartialObject, container: Target) -> bool:
        """Report whether an object lives in a container; not one that programs make in every namespace.

        A copy always does, of any owner and form: it is deleted by a decision of its own, or stays.
        """
        what = GroupKind(kind.group, kind.kind)
        marks = read_marks(obj.annotations, of=Target(*what, *obj.key))
        if marks.may_be_copy and marks.owner != self._cluster:
            return True
        if what in _NOBODY_MADE or is_made_by_kubernetes(kind, obj.key):
            return False
        return _is_definition(container) or not any(one.matches(*what, obj.key.name) for one in self._ignored)


def _is_definition(container: Target) -> bool:
    return GroupKind(container.group, container.kind) == CUSTOM_RESOURCE_DEFINITION


async def _list_kinds(reader: Reader, unlisted: list[Unlisted]) -> AsyncIterator[tuple[GVK, GVR]]:
    """Yield every kind that is deleted with its namespace, in one version; add to `unlisted` those not served now.

    A kind without the verbs is not deleted with a namespace: its objects are computed from other objects.
    """
    last, served, silent_groups = list[tuple[GVK, GVR]](), set[str](), set[str]()
    async for part in Discovery(reader).list_deletable():
        if part.error is not None:
            unlisted.append(Unlisted(part.api_version, part.error))
            silent_groups.add(part.api_version.rpartition("/")[0])
        for kind, gvr in part.kinds:
            served.add(f"{gvr.resource}.{gvr.group}")
            if not gvr.namespaced:
                continue
            if GroupKind(kind.group, kind.kind) in _LAST:
                last.append((kind, gvr))
            else:
                yield kind, gvr
    for kind, gvr in last:
        yield kind, gvr
    unlisted += [found async for found in _list_unserved(reader, served, silent_groups)]


async def _list_unserved(reader: Reader, served: Set[str], silent_groups: Set[str]) -> AsyncIterator[Unlisted]:
    """Yield the definitions of namespaced kinds that are not served: their objects are there, and cannot be listed.

    `served` are the names of definitions whose kinds are. A definition that cannot be read counts as one of these.
    """
    try:
        pages = list_objects(reader, _DEFINITIONS, Selection(), kind=_DEFINITION, metadata_only=True)
        found = [obj.key.name async for page in pages for obj in page.items]
    except NotFound:  # the server has no definitions
        return
    except RegistryError as error:
        yield Unlisted("customresourcedefinitions.apiextensions.k8s.io", error)
        return
    for name in found:
        if name in served or name.partition(".")[2] in silent_groups:
            continue
        try:
            spec = decode_manifest(await reader.get(_DEFINITIONS, ObjectKey("", name)))["spec"]
        except NotFound:
            continue
        except RegistryError as error:
            yield Unlisted(name, error)
            continue
        if spec["scope"] == "Namespaced":
            yield Unlisted(name, NotServed(_NO_VERSION))
