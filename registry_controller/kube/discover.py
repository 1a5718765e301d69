"""Finds the resource that serves a kind: by a request to the server, never by pluralising."""

from __future__ import annotations

import difflib
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from registry_controller.api.errors import Forbidden, NotFound, NotServed, NotWatchable, ProtocolError, RegistryError
from registry_controller.api.meta import GVK, GVR, ObjectKey
from registry_controller.kube.connect import DISCOVERY_BYTES, Reader

_GROUP: Final = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?\Z")
_WORD: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}\Z")
_PLAIN: Final = re.compile(r"[\x21-\x7e]{1,64}")
_NEEDED: Final = frozenset({"list", "watch"})
_WRITABLE: Final = _NEEDED | {"create", "delete", "update"}
_DELETABLE: Final = frozenset({"delete"})


_BUILT_IN: Final = frozenset({
    "", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps",
    "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io",
    "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io", "networking.k8s.io",
    "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
})  # fmt: skip


def has_definition(kind: GVK) -> bool:
    """Return whether a CustomResourceDefinition, or an aggregated server, may serve a kind."""
    return kind.group not in _BUILT_IN


class _Resource(msgspec.Struct, kw_only=True):
    name: str
    kind: str
    group: str = ""
    version: str = ""
    namespaced: bool = False
    verbs: list[str]
    singular: str = msgspec.field(name="singularName", default="")
    short: list[str] = msgspec.field(name="shortNames", default_factory=list)

    @property
    def words(self) -> set[str]:
        """Return the names that people use for the kind."""
        return {self.name, self.singular, self.kind.lower(), *self.short}


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] | None = None


class _GroupVersion(msgspec.Struct):
    name: str = msgspec.field(name="groupVersion", default="")


class _Group(msgspec.Struct):
    versions: list[_GroupVersion] = msgspec.field(default_factory=list)
    preferred: _GroupVersion = msgspec.field(name="preferredVersion", default_factory=_GroupVersion)

    @property
    def name(self) -> list[str]:
        """Return all `GROUP/VERSION` of the group, the preferred version first."""
        name = [self.preferred.name, *(version.name for version in self.versions)]
        return [one for one in dict.fromkeys(name) if one]


class _GroupList(msgspec.Struct):
    groups: list[_Group] | None = None


class _Scale(msgspec.Struct):
    replicas: str = msgspec.field(name="specReplicasPath", default="")


class _Subresources(msgspec.Struct):
    scale: _Scale = msgspec.field(default_factory=_Scale)


class _DefinedVersion(msgspec.Struct):
    name: str
    subresources: _Subresources = msgspec.field(default_factory=_Subresources)


class _DefinitionSpec(msgspec.Struct):
    versions: list[_DefinedVersion] = msgspec.field(default_factory=list)


class _Definition(msgspec.Struct):
    spec: _DefinitionSpec = msgspec.field(default_factory=_DefinitionSpec)


class _Version(msgspec.Struct):
    git_version: str = msgspec.field(name="gitVersion", default="")


_RESOURCES: Final = msgspec.json.Decoder(_ResourceList)
_GROUPS: Final = msgspec.json.Decoder(_GroupList)
_VERSION: Final = msgspec.json.Decoder(_Version)
_DEFINITION: Final = msgspec.json.Decoder(_Definition)
_DEFINITIONS: Final = GVR("apiextensions.k8s.io", "v1", "customresourcedefinitions", False)
_REPLICAS: Final = ("spec", "replicas")
"""The field that the scale subresource of every built-in kind sets."""


class Served(NamedTuple):
    """The kinds that a server serves, with their resources; `is_whole` is False when an API version did not answer.

    `kinds` holds each kind once, in the preferred version of its group, or else in the first version that has it.
    `versions` holds the kinds in all versions.
    """

    kinds: list[tuple[GVK, GVR]]
    versions: frozenset[GVK]
    is_whole: bool


class _Part(NamedTuple):
    """The kinds of one API version; `fresh` holds those that no earlier version has. An `error` is why it has none."""

    api_version: str
    every: Sequence[tuple[GVK, GVR, _Resource]] = ()
    fresh: Sequence[tuple[GVK, GVR, _Resource]] = ()
    error: RegistryError | None = None


class KindsOfVersion(NamedTuple):
    """The kinds of one API version that no earlier version has; `error` is why they are not known."""

    api_version: str
    kinds: Sequence[tuple[GVK, GVR]]
    error: RegistryError | None


class Discovery:
    """Caches the kinds that one API server serves. A missing kind is requested again."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._found: dict[GVK, GVR] = {}
        self._replicas: dict[GVR, tuple[str, ...]] = {}

    async def resolve(self, gvk: GVK) -> GVR:
        """Return the resource of a kind; NotServed when it is missing, NotWatchable when it cannot be watched."""
        if (found := self._found.get(gvk)) is not None:
            return found
        resources = await self._read_version(gvk)
        self._found |= _index(resources, group=gvk.group, version=gvk.version)
        if (found := self._found.get(gvk)) is not None:
            return found
        if _is_served(resources, gvk):
            raise NotWatchable(f"{self._reader.server}: serves {gvk}, and not for list and watch")
        message = f"{self._reader.server}: does not serve {gvk} for list and watch"
        raise NotServed(message, similar=_find_similar(resources, gvk))

    def invalidate(self, gvk: GVK | None = None) -> None:
        """Drop the API version of a kind, or everything, from the cache."""
        self._replicas.clear()
        if gvk is None:
            self._found.clear()
            return
        same = [known for known in self._found if (known.group, known.version) == (gvk.group, gvk.version)]
        for known in same:
            del self._found[known]

    async def find_replicas(self, gvr: GVR) -> tuple[str, ...]:
        """Return the field that a resource's scale subresource sets; empty where there is none.

        For a custom resource its definition names the field; where that cannot be read, it is `spec.replicas`.
        """
        if not gvr.has_scale:
            return ()
        if gvr not in self._replicas:
            key = ObjectKey("", f"{gvr.resource}.{gvr.group}")
            try:
                definition = await self._reader.get(_DEFINITIONS, key) if "." in gvr.group else b"{}"
            except (NotFound, Forbidden):
                definition = b"{}"
            self._replicas[gvr] = _read_replicas(definition, gvr.version)
        return self._replicas[gvr]

    async def may_create(self, gvk: GVK) -> bool:
        """Return whether objects of a kind can be created: not while its definition is missing, or is being deleted."""
        try:
            resources = await self._read_version(gvk)
        except NotServed:
            return False
        found = _usable(resources, group=gvk.group, version=gvk.version, verbs=frozenset({"create"}))
        return any(kind == gvk for kind, _, _ in found)

    async def list_writable(self) -> Served:
        """List the kinds that can be written, without API versions that do not answer."""
        kinds: list[tuple[GVK, GVR]] = []
        versions: set[GVK] = set()
        is_whole = True
        async for part in self._read_all(_WRITABLE):
            if part.error is not None:
                is_whole = False
                continue
            kinds += sorted((kind, gvr) for kind, gvr, _ in part.fresh)
            versions.update(kind for kind, _, _ in part.every)
        return Served(kinds, frozenset(versions), is_whole)

    async def list_deletable(self) -> AsyncIterator[KindsOfVersion]:
        """Yield the kinds that can be deleted, each once, by API version."""
        async for part in self._read_all(_DELETABLE):
            yield KindsOfVersion(part.api_version, [(kind, gvr) for kind, gvr, _ in part.fresh], part.error)

    async def find(self, word: str) -> tuple[GVK, GVR]:
        """Find a kind by kind, plural, singular or short name, with or without `.group`, as kubectl does.

        NotServed when no kind matches. The core group has precedence, then the order of the server decides. The error
        of a built-in group that does not answer now is raised: another group may have a kind of the same name.
        """
        name, _, within = word.lower().partition(".")
        known = set[str]()
        async for part in self._read_all(_NEEDED, within=within, needed=_BUILT_IN):
            for kind, gvr, resource in part.fresh:
                if name in resource.words:
                    return kind, gvr
                known |= resource.words
        similar = _find_closest(name, filter(_WORD.match, sorted(known)))
        hint = f"; did you mean {similar}?" if similar else ""
        raise NotServed(f"{self._reader.server}: serves no kind {word} for list and watch{hint}")

    async def _read_all(
        self, verbs: frozenset[str], *, within: str = "", needed: frozenset[str] = frozenset()
    ) -> AsyncIterator[_Part]:
        """Read the kinds with `verbs` of every API version; one that does not answer has its error instead.

        The preferred version of a group is first. `within` restricts the result to a group or `VERSION.GROUP`. The
        errors of the `needed` groups are raised, except for a right that is missing.
        """
        seen: set[tuple[str, str]] = set()
        for name in await self._read_versions():
            group, _, version = name.rpartition("/")
            if within not in ("", group, f"{version}.{group}"):
                continue
            try:
                resources = await self._read_version(GVK(group, version, ""))
            except RegistryError as error:
                if group in needed and not isinstance(error, Forbidden | NotServed):
                    raise
                yield _Part(name, error=error)
                continue
            every = list(_usable(resources, group=group, version=version, verbs=verbs))
            fresh = [found for found in every if (group, found[1].resource) not in seen]
            seen.update((group, gvr.resource) for _, gvr, _ in every)
            yield _Part(name, every, fresh)

    async def _read_versions(self) -> list[str]:
        """Return all API versions in the form of `apiVersion`."""
        answer = await self._reader.get_path("/apis", limit_bytes=DISCOVERY_BYTES)
        try:
            groups = _GROUPS.decode(answer).groups or []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(f"{self._reader.server}: /apis is no answer of an API server") from None
        return ["v1", *(name for group in groups for name in group.name)]

    async def server_version(self) -> str:
        """Return the version of the server, as `v1.36.1`."""
        answer = await self._reader.get_path("/version", limit_bytes=DISCOVERY_BYTES)
        try:
            return _shorten_version(_VERSION.decode(answer).git_version)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(f"{self._reader.server}: /version is no answer of an API server") from None

    async def _read_version(self, gvk: GVK) -> list[_Resource]:
        if not _GROUP.match(gvk.group) or not _WORD.match(gvk.version):
            raise NotServed(f"{gvk}: no API group or version has such a name")
        path = f"/apis/{gvk.group}/{gvk.version}" if gvk.group else f"/api/{gvk.version}"
        try:
            answer = await self._reader.get_path(path, limit_bytes=DISCOVERY_BYTES)
        except NotFound as error:
            raise NotServed(f"{self._reader.server}: does not serve {path}") from error
        try:
            return _RESOURCES.decode(answer).resources or []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(f"{self._reader.server}: {path} is no answer of an API server") from None


def _index(resources: list[_Resource], *, group: str, version: str) -> dict[GVK, GVR]:
    """Return the first resource of each kind that can be listed and watched."""
    index: dict[GVK, GVR] = {}
    for kind, gvr, _ in _usable(resources, group=group, version=version, verbs=_NEEDED):
        index.setdefault(kind, gvr)
    return index


def _is_served(resources: list[_Resource], gvk: GVK) -> bool:
    """Report whether an API version has a kind, with any verbs."""
    found = _usable(resources, group=gvk.group, version=gvk.version, verbs=frozenset())
    return any(kind == gvk for kind, _, _ in found)


def _find_similar(resources: list[_Resource], gvk: GVK) -> str:
    """Return the kind that is meant by a plural, a short name or a misspelling; empty without one."""
    word, kinds = gvk.kind.lower(), dict[str, str]()
    for kind, _, resource in _usable(resources, group=gvk.group, version=gvk.version, verbs=_NEEDED):
        if not _KIND.match(kind.kind):
            continue
        if word in resource.words:
            return kind.kind
        kinds[kind.kind.lower()] = kind.kind
    return kinds.get(_find_closest(word, kinds), "")


def _find_closest(word: str, known: Iterable[str]) -> str:
    """Return the known word that another one is a misspelling of; empty without one."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.8)), "")


def _usable(
    resources: list[_Resource], *, group: str, version: str, verbs: frozenset[str]
) -> Iterator[tuple[GVK, GVR, _Resource]]:
    """List the resources of an API version's own kinds that have all `verbs`."""
    names = {found.name for found in resources}
    for found in resources:
        own = found.group in ("", group) and found.version in ("", version)
        if own and _WORD.match(found.name) and set(found.verbs) >= verbs:
            has_status, has_scale = f"{found.name}/status" in names, f"{found.name}/scale" in names
            gvr = GVR(group, version, found.name, found.namespaced, has_status, has_scale)
            yield GVK(group, version, found.kind), gvr, found


def _read_replicas(definition: bytes, version: str) -> tuple[str, ...]:
    """Read from a definition the field of the scale subresource; `spec.replicas` where it has none."""
    try:
        versions = _DEFINITION.decode(definition).spec.versions
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _REPLICAS
    paths = (found.subresources.scale.replicas for found in versions if found.name == version)
    return tuple(filter(None, next(paths, "").split("."))) or _REPLICAS


def _shorten_version(version: str) -> str:
    """Cut a version to the text that a status may hold."""
    found = _PLAIN.match(version)
    return found[0] if found else ""
