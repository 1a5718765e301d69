"""A cluster's metadata, read from its nodes and its version."""

from __future__ import annotations

from collections.abc import Mapping

from registry_controller.api import meta
from registry_controller.api.selection import EVERYTHING
from registry_controller.core.metadata import NodeFacts, combine, node_facts
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.watch import decode_manifest, list_objects


async def read_metadata(reader: Reader) -> Mapping[str, object]:
    """Read the status fields; InvalidObject names a node that makes no sense. Of a node only a few facts are kept."""
    version = await Discovery(reader).server_version()
    facts: list[NodeFacts] = []
    async for page in list_objects(reader, meta.NODES, EVERYTHING, kind=meta.NODE):
        facts = [] if page.is_first else facts
        facts.extend(node_facts(decode_manifest(heard.raw)) for heard in page.items)
    return combine(facts, server_version=version)
