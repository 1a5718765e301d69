"""Parts of the digests of objects: objects that cannot be encoded in the usual way, or without their provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import Manifest


def without_provenance(manifest: Manifest) -> Manifest:
    """Return an object without the provenance annotation."""
    info = meta.metadata_of(manifest)
    annotations = {name: text for name, text in meta.annotations_of(manifest).items() if name != meta.PROVENANCE}
    return {**manifest, "metadata": {**info, "annotations": annotations}}


def encode_content(content: Mapping[str, Any]) -> bytes:
    """Encode JSON with sorted keys where orjson fails: depth, huge numbers, lone surrogates."""
    try:
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    except RecursionError:
        raise InvalidObject("object", "is nested too deeply") from None
