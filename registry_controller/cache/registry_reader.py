"""Reads complete lists of our own kinds into the registry: at the start, and whenever watch events may be missing."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.meta import GVK, GVR, Manifest
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.registry import Registry
from registry_controller.kube.connect import Reader
from registry_controller.kube.listing import list_objects
from registry_controller.kube.object import decode_manifest
from registry_controller.watch.retry import until_answered

OWN_KINDS: Final = ((meta.CLUSTERS, meta.CLUSTER), (meta.RULES, meta.RULE), (meta.FEATURES, meta.FEATURE))


class RegistryReader:
    """Reads complete lists of our own kinds: at the start, and whenever watch events may be missing."""

    def __init__(self, *, reader: Reader, registry: Registry) -> None:
        self._reader = reader
        self._registry = registry
        self._due, self._rules_due = asyncio.Event(), asyncio.Event()
        self._waiting: list[Callable[[], None]] = []
        self._is_running = False

    def request_read(self, then: Callable[[], None] | None = None) -> None:
        """Request a read, because events may be missing; `then` is called after a read that began later.

        A dry run reads once: there `then` is called at once.
        """
        if self._is_running:
            self._waiting += [then] if then is not None else []
        elif then is not None:
            then()
        self._due.set()

    async def read(self) -> None:
        """Read all three kinds; wait for the local API server and for the CRDs as long as it takes."""
        for gvr, kind in OWN_KINDS:
            await self._read_until_answered(gvr, kind)

    async def read_once(self) -> None:
        """Read all three kinds; raise RegistryError when that fails now."""
        for gvr, kind in OWN_KINDS:
            await self._read_kind(gvr, kind)

    async def run(self) -> NoReturn:
        """Read again after each request."""
        self._is_running = True
        while True:
            await self._due.wait()
            self._due.clear()
            waiting, self._waiting = self._waiting, []
            await self.read()
            for then in waiting:
                then()

    def request_rules(self) -> None:
        """Request a read of the rules, because a watch, or a copy, has shown that one has another spec."""
        self._rules_due.set()

    async def run_rules(self) -> NoReturn:
        """Read the rules again after each request, whether or not the other kinds can be read."""
        while True:
            await self._rules_due.wait()
            self._rules_due.clear()
            await self._read_until_answered(meta.RULES, meta.RULE)

    async def _read_until_answered(self, gvr: GVR, kind: GVK) -> None:
        await until_answered(functools.partial(self._read_kind, gvr, kind), what=f"list {gvr.resource}")

    async def _read_kind(self, gvr: GVR, kind: GVK) -> None:
        found: list[Manifest] = []
        revision, known = 0, self._registry.begin_list(gvr.resource)
        async for page in list_objects(self._reader, gvr, EVERYTHING, kind=kind):
            found = [] if page.is_first else found
            found.extend(decode_manifest(obj.raw) for obj in page.items)
            revision = meta.revision(page.resource_version)
        self._registry.replace(gvr.resource, found, revision=revision, known=known)
