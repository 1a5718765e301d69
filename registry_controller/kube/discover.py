"""Which resource serves a kind: asked of the server, never made up by pluralising."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

import msgspec

from registry_controller.api.errors import NotFound, NotServed, ProtocolError, RegistryError
from registry_controller.api.meta import GVK, GVR
from registry_controller.kube.connect import DISCOVERY_BYTES, Reader

_GROUP: Final = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?\Z")
_WORD: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
_PLAIN: Final = re.compile(r"[\x21-\x7e]{1,64}")
_NEEDED: Final = frozenset({"list", "watch"})
_WRITABLE: Final = _NEEDED | {"create", "delete", "update"}
_DELETABLE: Final = frozenset({"delete"})


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
        """What people call it."""
        return {self.name, self.singular, self.kind.lower(), *self.short}


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] | None = None


class _GroupVersion(msgspec.Struct):
    spelled: str = msgspec.field(name="groupVersion", default="")


class _Group(msgspec.Struct):
    versions: list[_GroupVersion] = msgspec.field(default_factory=list)
    preferred: _GroupVersion = msgspec.field(name="preferredVersion", default_factory=_GroupVersion)

    @property
    def spelled(self) -> list[str]:
        """Spell the group in all of its versions, the preferred one first."""
        spelled = [self.preferred.spelled, *(version.spelled for version in self.versions)]
        return [one for one in dict.fromkeys(spelled) if one]


class _GroupList(msgspec.Struct):
    groups: list[_Group] | None = None


class _Version(msgspec.Struct):
    git_version: str = msgspec.field(name="gitVersion", default="")


_RESOURCES: Final = msgspec.json.Decoder(_ResourceList)
_GROUPS: Final = msgspec.json.Decoder(_GroupList)
_VERSION: Final = msgspec.json.Decoder(_Version)


class Served(NamedTuple):
    """Kinds that a server serves, each with its resource; `is_whole` is False where a part of it could not say.

    Every kind is there once, in its group's preferred version, or else in the first one that has it. `versions` are
    all the versions in which they are served.
    """

    kinds: list[tuple[GVK, GVR]]
    versions: frozenset[GVK]
    is_whole: bool


class _Part(NamedTuple):
    """The kinds of one API version, with what is known of each; `fresh` are those that no version before it has."""

    every: list[tuple[GVK, GVR, _Resource]]
    fresh: list[tuple[GVK, GVR, _Resource]]


class Discovery:
    """What one API server serves. Only what was found is remembered; what was not is asked again."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._found: dict[GVK, GVR] = {}

    async def resolve(self, gvk: GVK) -> GVR:
        """Find the resource of a kind; NotServed when it is absent, or cannot be listed and watched."""
        found = self._found.get(gvk)
        if found is None:
            self._found |= await self._discover(gvk)
            found = self._found.get(gvk)
        if found is None:
            raise NotServed(f"{self._reader.server}: does not serve {gvk} for list and watch")
        return found

    def invalidate(self, gvk: GVK | None = None) -> None:
        """Forget the API version of a kind, or everything: the next question goes to the server."""
        if gvk is None:
            self._found.clear()
            return
        same = [known for known in self._found if (known.group, known.version) == (gvk.group, gvk.version)]
        for known in same:
            del self._found[known]

    async def list_writable(self) -> Served:
        """List the kinds that can be written; what is down is left out."""
        kinds: list[tuple[GVK, GVR]] = []
        versions: set[GVK] = set()
        is_whole = True
        async for part in self._read_all(_WRITABLE):
            if part is None:
                is_whole = False
                continue
            kinds += sorted((kind, gvr) for kind, gvr, _ in part.fresh)
            versions.update(kind for kind, _, _ in part.every)
        return Served(kinds, frozenset(versions), is_whole)

    async def list_deletable(self) -> AsyncIterator[list[tuple[GVK, GVR]] | None]:
        """Give the kinds that can be deleted, each once, as they are read; None for what is down."""
        async for part in self._read_all(_DELETABLE):
            yield None if part is None else [(kind, gvr) for kind, gvr, _ in part.fresh]

    async def find(self, word: str) -> tuple[GVK, GVR]:
        """Find a kind as people call it, as kubectl does: kind, plural, singular or short name, then `.group`.

        NotServed when there is none. The first group in the server's order wins, the core group before all.
        """
        name, _, within = word.lower().partition(".")
        async for part in self._read_all(_NEEDED, within=within):
            for kind, gvr, resource in part.fresh if part is not None else ():
                if name in resource.words:
                    return kind, gvr
        raise NotServed(f"{self._reader.server}: serves no kind {word} for list and watch")

    async def _read_all(self, verbs: frozenset[str], *, within: str = "") -> AsyncIterator[_Part | None]:
        """Read every API version, each group's preferred one first; None for what is down.

        `within` is a group or `VERSION.GROUP`, and nothing else is read then. Given are the kinds that have `verbs`.
        """
        seen: set[tuple[str, str]] = set()
        for spelled in await self._read_versions():
            group, _, version = spelled.rpartition("/")
            if within not in ("", group, f"{version}.{group}"):
                continue
            try:
                resources = await self._read_version(GVK(group, version, ""))
            except RegistryError:
                yield None
                continue
            every = list(_usable(resources, group=group, version=version, verbs=verbs))
            fresh = [found for found in every if (group, found[1].resource) not in seen]
            seen.update((group, gvr.resource) for _, gvr, _ in every)
            yield _Part(every, fresh)

    async def _read_versions(self) -> list[str]:
        """Read which API versions there are, as `apiVersion` spells them."""
        answer = await self._reader.get_path("/apis", limit_bytes=DISCOVERY_BYTES)
        try:
            groups = _GROUPS.decode(answer).groups or []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(f"{self._reader.server}: /apis is not what an API server says") from None
        return ["v1", *(spelled for group in groups for spelled in group.spelled)]

    async def server_version(self) -> str:
        """Ask for the server's version, as `v1.36.1`."""
        answer = await self._reader.get_path("/version", limit_bytes=DISCOVERY_BYTES)
        try:
            return _shorten_version(_VERSION.decode(answer).git_version)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(f"{self._reader.server}: /version is not what an API server says") from None

    async def _discover(self, gvk: GVK) -> dict[GVK, GVR]:
        """Read the API version of a kind, all of its kinds at once."""
        return _index(await self._read_version(gvk), group=gvk.group, version=gvk.version)

    async def _read_version(self, gvk: GVK) -> list[_Resource]:
        if not _GROUP.match(gvk.group) or not _WORD.match(gvk.version):
            raise NotServed(f"{gvk}: no API group or version is named so")
        path = f"/apis/{gvk.group}/{gvk.version}" if gvk.group else f"/api/{gvk.version}"
        try:
            answer = await self._reader.get_path(path, limit_bytes=DISCOVERY_BYTES)
        except NotFound as error:
            raise NotServed(f"{self._reader.server}: does not serve {path}") from error
        try:
            return _RESOURCES.decode(answer).resources or []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(f"{self._reader.server}: {path} is not what an API server says") from None


def _index(resources: list[_Resource], *, group: str, version: str) -> dict[GVK, GVR]:
    """Find the resource of each kind that can be listed and watched; of two for one kind the first."""
    index: dict[GVK, GVR] = {}
    for kind, gvr, _ in _usable(resources, group=group, version=version, verbs=_NEEDED):
        index.setdefault(kind, gvr)
    return index


def _usable(
    resources: list[_Resource], *, group: str, version: str, verbs: frozenset[str]
) -> Iterator[tuple[GVK, GVR, _Resource]]:
    """List the resources of an API version's own kinds that have all of these verbs."""
    with_status = {found.name.removesuffix("/status") for found in resources if found.name.endswith("/status")}
    for found in resources:
        own = found.group in ("", group) and found.version in ("", version)
        if own and _WORD.match(found.name) and set(found.verbs) >= verbs:
            gvr = GVR(group, version, found.name, found.namespaced, found.name in with_status)
            yield GVK(group, version, found.kind), gvr, found


def _shorten_version(version: str) -> str:
    """Cut a version down to what may stand in a status."""
    found = _PLAIN.match(version)
    return found[0] if found else ""
