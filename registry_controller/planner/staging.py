"""Put a rule from a file into the registry as if it had just been applied.

Law: what the API server and the rule's owner would keep, is kept: identity, age, and who owns it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from registry_controller.api import meta
from registry_controller.api.meta import Manifest
from registry_controller.cache.registry import Registry


def stage_rule(registry: Registry, manifest: Manifest, *, now: datetime) -> str:
    """Put a rule in the place of the one of its name, or beside the others as born `now`; return its name."""
    name = str(meta.metadata_of(manifest)["name"])
    held = registry.rules.get(name)
    registry.apply(
        meta.RULES.resource, None, merge_stored(manifest, held.manifest if held is not None else None, now=now)
    )
    return name


def merge_stored(manifest: Manifest, held: Manifest | None, *, now: datetime) -> Manifest:
    """Say what the server would store of a rule that is applied over the one that it holds."""
    info, before = meta.metadata_of(manifest), meta.metadata_of(held or {})
    kept: dict[str, Any] = {key: before[key] for key in _IDENTITY if key in before}
    if held is None:
        kept = {"creationTimestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}", "generation": 1}
    elif held.get("spec") != manifest.get("spec"):
        kept["generation"] = (before.get("generation") or 0) + 1
    maps = {
        field: merged
        for field in ("labels", "annotations")
        if (merged := {**(before.get(field) or {}), **(info.get(field) or {})})
    }
    return {
        "apiVersion": meta.API_VERSION,
        "kind": meta.RULE.kind,
        "metadata": {"name": info["name"], **kept, **maps},
        "spec": manifest.get("spec") or {},
        "status": (held or {}).get("status") or {},
    }


_IDENTITY = ("uid", "resourceVersion", "creationTimestamp", "generation", "ownerReferences", "finalizers")
