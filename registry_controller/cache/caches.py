"""The caches that a decision reads."""

from __future__ import annotations

from dataclasses import dataclass

from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.members import Members
from registry_controller.cache.namespaces import NamespaceCache
from registry_controller.cache.source_index import SourceIndex


@dataclass(frozen=True, slots=True)
class Caches:
    """The objects of peers and of the local cluster, the Clusters of all members, and the local namespaces."""

    sources: SourceIndex
    copies: CopyIndex
    members: Members
    namespaces: NamespaceCache
