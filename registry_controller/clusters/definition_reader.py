"""Reads a local definition from the quorum after objects of its kind went.

The watch of definitions may be behind the watch of the kind, by any time, so it does not show whether an object went
with the definition. The deletion of a definition is stored before the deletions of its objects, so a read that begins
after an object went shows it.

Law: an error shows nothing, and the definition is read again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import NoReturn

from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ObjectKey
from registry_controller.api.selection import EVERYTHING
from registry_controller.cache.crds import DEFINITION, DefinitionRead
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.listing import read_present
from registry_controller.report.logs import get_logger
from registry_controller.watch.retry import RetryDelay

log = get_logger(__name__)


class DefinitionReader:
    """Reads the definition of this name at each request, and gives the result to `on_read`."""

    def __init__(
        self, name: str, *, reader: Reader, discovery: Discovery, on_read: Callable[[DefinitionRead], None]
    ) -> None:
        self._key = ObjectKey("", name)
        self._reader = reader
        self._discovery = discovery
        self._on_read = on_read
        self._wanted_s = self._began_s = -math.inf
        self._is_due = asyncio.Event()

    def request(self, since_s: float) -> None:
        """Request a read that begins at this time of the loop or later, unless there was one."""
        self._wanted_s = since_s
        if self._began_s < since_s:
            self._is_due.set()

    async def run(self) -> NoReturn:
        """Read at each request, and again after an error. Never returns."""
        retry = RetryDelay()
        while True:
            await self._is_due.wait()
            began_s = asyncio.get_running_loop().time()
            try:
                gvr = await self._discovery.resolve(DEFINITION)
                _, found = await read_present(self._reader, gvr, EVERYTHING, kind=DEFINITION, key=self._key)
            except RegistryError as error:
                log.debug("cannot read a definition", crd=self._key.name, error=str(error))
                await retry.wait_after(error)
                continue
            retry.reset()
            self._began_s = began_s
            if self._wanted_s <= began_s:
                self._is_due.clear()
            self._on_read(DefinitionRead(found.uid if found is not None and not found.deleting else "", began_s))
