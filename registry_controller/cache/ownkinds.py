"""Our own three kinds, read whole: at the start, and whenever the ear may have missed something."""

from __future__ import annotations

import asyncio
import functools
from typing import Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.meta import GVK, GVR, Manifest
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.registry import Registry
from registry_controller.kube.connect import Reader
from registry_controller.kube.watch import decode_manifest, list_objects
from registry_controller.watch.patience import until_answered

OWN_KINDS: Final = ((meta.CLUSTERS, meta.CLUSTER), (meta.RULES, meta.RULE), (meta.FEATURES, meta.FEATURE))


class RegistryReader:
    """The reader of complete lists."""

    def __init__(self, *, reader: Reader, registry: Registry) -> None:
        self._reader = reader
        self._registry = registry
        self._due = asyncio.Event()

    def request_read(self) -> None:
        """Say that events may be missing."""
        self._due.set()

    async def read(self) -> None:
        """Read all three; wait for our own API server, and for the CRDs, as long as it takes."""
        for gvr, kind in OWN_KINDS:
            await until_answered(functools.partial(self._read_kind, gvr, kind), what=f"list {gvr.resource}")

    async def read_once(self) -> None:
        """Read all three; RegistryError when that cannot be done now."""
        for gvr, kind in OWN_KINDS:
            await self._read_kind(gvr, kind)

    async def run(self) -> NoReturn:
        """Read again whenever poked."""
        while True:
            await self._due.wait()
            self._due.clear()
            await self.read()

    async def _read_kind(self, gvr: GVR, kind: GVK) -> None:
        found: list[Manifest] = []
        revision = 0
        async for page in list_objects(self._reader, gvr, EVERYTHING, kind=kind):
            found = [] if page.is_first else found
            found.extend(decode_manifest(obj.raw) for obj in page.items)
            revision = meta.revision(page.resource_version)
        self._registry.replace(gvr.resource, found, revision=revision)
