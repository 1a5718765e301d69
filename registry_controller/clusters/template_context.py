"""What templates see beside an object: the owner's Cluster and our own.

Law: the same contents give the same Context, so that a change of a status' times makes nobody look again.
"""

from __future__ import annotations

from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.cache.registry import Registry
from registry_controller.core.mutation.mutate import NOWHERE, Context

_INFO: Final = ("name", "uid", "labels", "annotations", "creationTimestamp")
_PRIVATE: Final = frozenset((meta.PROVENANCE, meta.GO_LAST_APPLIED, meta.KUBECTL_LAST_APPLIED))
_PASSING: Final = frozenset(("conditions", "message"))


class TemplateContexts:
    """The Contexts of all members, as the Clusters here are now."""

    def __init__(self, *, registry: Registry, local: ClusterUID) -> None:
        self._registry = registry
        self._local = local
        self._made: dict[ClusterUID, Context] = {}

    def of(self, owner: ClusterUID, *, name: str) -> Context:
        """Find the Context of a member that is read through the Cluster of that name; as it was while that is gone."""
        made = self._made.get(owner, NOWHERE)
        held = self._registry.clusters.get(name)
        if held is None:
            return made  # it is about to be put back
        here = self._registry.own_cluster(self._local)
        context = Context(_shown(held.manifest), _shown(here))
        if (made.cluster, made.local_cluster) != (context.cluster, context.local_cluster):
            made = self._made[owner] = context
        return made


def _shown(manifest: Manifest | None) -> Manifest | None:
    """Leave out what changes by itself: a copy would follow it."""
    if manifest is None:
        return None
    info: dict[str, Any] = {key: value for key, value in meta.metadata_of(manifest).items() if key in _INFO}
    if annotations := info.get("annotations"):
        info["annotations"] = {key: text for key, text in annotations.items() if key not in _PRIVATE}
    status = {key: value for key, value in (manifest.get("status") or {}).items() if key not in _PASSING}
    identity = {"apiVersion": meta.API_VERSION, "kind": meta.CLUSTER.kind}
    return {**identity, "metadata": info, "spec": manifest.get("spec") or {}, "status": status}
