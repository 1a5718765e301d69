"""Fields that an API server dropped because its CRD does not know them (A8)."""

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
