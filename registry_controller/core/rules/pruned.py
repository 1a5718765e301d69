"""Fields that a CustomResourceDefinition does not know: an API server drops them (A8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from registry_controller.api.meta import Manifest


def pruned_fields(sent: Manifest, *, stored: Manifest) -> tuple[str, ...]:
    """List the paths under `spec` that were sent and are not stored."""
    return tuple(_missing(sent.get("spec"), stored.get("spec"), "spec"))


def _missing(sent: object, stored: object, path: str) -> Iterator[str]:
    if isinstance(sent, Mapping):
        held = stored if isinstance(stored, Mapping) else {}
        for key, value in sent.items():
            if value is None:
                continue
            if key in held:
                yield from _missing(value, held[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(sent, list) and isinstance(stored, list):
        for index, (value, held_value) in enumerate(zip(sent, stored, strict=False)):
            yield from _missing(value, held_value, f"{path}[{index}]")


def unknown_properties(ours: Manifest, *, installed: Manifest, version: str) -> tuple[str, ...]:
    """List the fields that our CustomResourceDefinition describes and an installed one does not: it prunes them.

    A field that keeps unknown fields loses nothing. What lies below a listed field is not listed.
    """
    found = _unknown(schema_of(ours, version), schema_of(installed, version), "")
    return tuple(path for path in found if path not in ("apiVersion", "kind", "metadata"))


def schema_of(definition: Manifest, version: str) -> object:
    """Find the schema of a version in a definition; None where there is none."""
    spec = definition.get("spec")
    versions = spec.get("versions") if isinstance(spec, Mapping) else None
    for served in versions if isinstance(versions, list) else ():
        if isinstance(served, Mapping) and served.get("name") == version:
            schema = served.get("schema")
            return schema.get("openAPIV3Schema") if isinstance(schema, Mapping) else None
    return None


def _unknown(ours: object, installed: object, path: str) -> Iterator[str]:
    if not isinstance(ours, Mapping):
        return
    held = installed if isinstance(installed, Mapping) else {}
    if held.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = held.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        below = f"{path}.{name}" if path else name
        if name in known:
            yield from _unknown(schema, known[name], below)
        else:
            yield below
    yield from _unknown(ours.get("items"), held.get("items"), f"{path}[]")
