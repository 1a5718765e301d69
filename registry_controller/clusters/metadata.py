"""Reads a cluster's metadata from its nodes and its version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject, RegistryError, TooMuch
from registry_controller.api.selection import EVERYTHING
from registry_controller.core.status.cluster_info import NodeFacts, combine_nodes, read_node
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.listing import list_objects
from registry_controller.kube.object import decode_manifest

_MOST_NODES: Final = 10_000  # Kubernetes itself is made for 5,000
_PERIOD_S: Final = 300.0
_AFTER_PROBLEM_S: Final = 15.0


async def read_metadata(reader: Reader) -> Mapping[str, object]:
    """Read the status fields. Raises RegistryError; InvalidObject names a node that cannot be read."""
    version = await Discovery(reader).server_version()
    facts: list[NodeFacts] = []
    async for page in list_objects(reader, meta.NODES, EVERYTHING, kind=meta.NODE):
        facts = [] if page.is_first else facts
        facts.extend(read_node(decode_manifest(obj.raw)) for obj in page.items)
        if len(facts) > _MOST_NODES:
            raise TooMuch(f"list {meta.NODES}: more than {_MOST_NODES} nodes")
    return combine_nodes(facts, server_version=version)


class LocalMetadata:
    """The local cluster's metadata: None before the first successful read; `problem` describes a failed one.

    Calls `changed` after each read.
    """

    def __init__(self, *, reader: Reader, changed: Callable[[], None]) -> None:
        self.metadata: Mapping[str, object] | None = None
        self.problem = ""
        self._reader = reader
        self._changed = changed

    async def run(self) -> NoReturn:
        """Read again every 5 minutes, and 15 s after a failure."""
        while True:
            try:
                self.metadata, self.problem = await read_metadata(self._reader), ""
            except (RegistryError, InvalidObject) as error:
                self.problem = str(error)
            self._changed()
            await asyncio.sleep(_AFTER_PROBLEM_S if self.problem else _PERIOD_S)
