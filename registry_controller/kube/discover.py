"""Which resource serves a kind: asked of the server, never made up by pluralising."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import msgspec

from registry_controller.api.errors import NotFound, NotServed, ProtocolError, RegistryError
from registry_controller.api.meta import GVK, GVR
from registry_controller.kube.connect import ABOUT_BYTES, Reader

_GROUP: Final = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?\Z")
_WORD: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
_PLAIN: Final = re.compile(r"[\x21-\x7e]{1,64}")
_NEEDED: Final = frozenset({"list", "watch"})
_WRITABLE: Final = _NEEDED | {"create", "delete", "update"}


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


class _Preferred(msgspec.Struct):
    group_version: str = msgspec.field(name="groupVersion", default="")


class _Group(msgspec.Struct):
    preferred: _Preferred = msgspec.field(name="preferredVersion", default_factory=_Preferred)


class _GroupList(msgspec.Struct):
    groups: list[_Group] | None = None


class _Version(msgspec.Struct):
    git_version: str = msgspec.field(name="gitVersion", default="")


_RESOURCES: Final = msgspec.json.Decoder(_ResourceList)
_GROUPS: Final = msgspec.json.Decoder(_GroupList)
_VERSION: Final = msgspec.json.Decoder(_Version)


class Served(NamedTuple):
    """Kinds that a server serves; `is_whole` is False where a part of it could not say."""

    kinds: list[GVK]
    is_whole: bool


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

    def forget(self, gvk: GVK | None = None) -> None:
        """Forget the API version of a kind, or everything: the next question goes to the server."""
        if gvk is None:
            self._found.clear()
            return
        same = [known for known in self._found if (known.group, known.version) == (gvk.group, gvk.version)]
        for known in same:
            del self._found[known]

    async def writable(self) -> Served:
        """List the kinds that can be written, in their groups' preferred versions; what is down is left out."""
        kinds, is_whole = [], True
        async for group, version, found in self._preferred_versions():
            is_whole = is_whole and found is not None
            kinds += sorted(
                GVK(group, version, resource.kind)
                for resource in found or ()
                if "/" not in resource.name and set(resource.verbs) >= _WRITABLE
            )
        return Served(kinds, is_whole)

    async def find(self, word: str) -> tuple[GVK, GVR]:
        """Find a kind as people call it, as kubectl does: kind, plural, singular or short name, then `.group`.

        NotServed when there is none. The first group in the server's order wins, the core group before all.
        """
        name, _, wanted_group = word.lower().partition(".")
        async for group, version, found in self._preferred_versions():
            if wanted_group in ("", group, f"{version}.{group}"):
                for kind, gvr in _index(found or [], group=group, version=version).items():
                    if any(name in resource.words and resource.name == gvr.resource for resource in found or ()):
                        return kind, gvr
        raise NotServed(f"{self._reader.server}: serves no kind {word} for list and watch")

    async def _preferred_versions(self) -> AsyncIterator[tuple[str, str, list[_Resource] | None]]:
        """Read every group in its preferred version; None for what is down."""
        answer = await self._reader.get_path("/apis", limit_bytes=ABOUT_BYTES)
        try:
            groups = _GROUPS.decode(answer).groups or []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(f"{self._reader.server}: /apis is not what an API server says") from None
        for spelled in ("v1", *(group.preferred.group_version for group in groups)):
            group, _, version = spelled.rpartition("/")
            try:
                found = await self._read_version(GVK(group, version, ""))
            except RegistryError:
                found = None
            yield group, version, found

    async def server_version(self) -> str:
        """Ask for the server's version, as `v1.36.1`."""
        answer = await self._reader.get_path("/version", limit_bytes=ABOUT_BYTES)
        try:
            return _plain(_VERSION.decode(answer).git_version)
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
            answer = await self._reader.get_path(path, limit_bytes=ABOUT_BYTES)
        except NotFound as error:
            raise NotServed(f"{self._reader.server}: does not serve {path}") from error
        try:
            return _RESOURCES.decode(answer).resources or []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolError(f"{self._reader.server}: {path} is not what an API server says") from None


def _index(resources: list[_Resource], *, group: str, version: str) -> dict[GVK, GVR]:
    with_status = {found.name.removesuffix("/status") for found in resources if found.name.endswith("/status")}
    index: dict[GVK, GVR] = {}
    for found in resources:
        own = found.group in ("", group) and found.version in ("", version)
        if own and _WORD.match(found.name) and set(found.verbs) >= _NEEDED:
            gvr = GVR(group, version, found.name, found.namespaced, found.name in with_status)
            index.setdefault(GVK(group, version, found.kind), gvr)
    return index


def _plain(version: str) -> str:
    """Cut a version down to what may stand in a status."""
    found = _PLAIN.match(version)
    return found[0] if found else ""
