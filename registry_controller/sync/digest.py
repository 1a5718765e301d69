"""The digests of objects, which the caches keep in the place of bodies (R6)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import Manifest
from registry_controller.core.mutation.mutate import SERVER_SET_METADATA

_LEFT_OUT_OF_PROVENANCE: Final = re.compile(r'"resourceVersion":"[0-9]*",?|"cluster":"[^"]*","digest":"[0-9a-f]*",')
_LEFT_OUT: Final = frozenset(("status", "kind", "apiVersion", "metadata"))


def content_digest(manifest: Manifest, *, key: bytes) -> bytes:
    """Return the digest of the part that an object's author writes: 16 bytes.

    It is keyed, so that it reveals nothing about a Secret.
    Caches keep the digest instead of the body (R6).
    The digest leaves out kind and apiVersion (items of a list have none), status, the metadata that the server sets,
    and, in the provenance, the revision and the cluster: earlier versions do not write the cluster. `key` has at most
    64 bytes and must not outlive the process.
    """
    metadata = manifest.get("metadata") or {}
    info = {name: value for name, value in metadata.items() if name not in SERVER_SET_METADATA}
    annotations = info.get("annotations") or {}
    if text := annotations.get(meta.PROVENANCE):  # by pattern, because this runs for every event
        annotations = {**annotations, meta.PROVENANCE: _LEFT_OUT_OF_PROVENANCE.sub("", text)}
    info["annotations"], info["labels"] = annotations, info.get("labels") or {}
    content = {name: value for name, value in manifest.items() if name not in _LEFT_OUT}
    content["metadata"] = info
    try:
        encoded = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        encoded = _encode_content(content)
    return hashlib.blake2b(encoded, digest_size=16, key=key).digest()


def encode(manifest: Manifest) -> bytes:
    """Encode an object; InvalidObject where overrides nest it too deeply."""
    try:
        return orjson.dumps(manifest)
    except orjson.JSONEncodeError:
        raise InvalidObject("object", "cannot be written: it is nested too deeply") from None


def without_provenance(manifest: Manifest) -> Manifest:
    """Return an object without the provenance annotation."""
    info = meta.metadata_of(manifest)
    annotations = {name: text for name, text in meta.annotations_of(manifest).items() if name != meta.PROVENANCE}
    return {**manifest, "metadata": {**info, "annotations": annotations}}


def _encode_content(content: Mapping[str, Any]) -> bytes:
    """Encode JSON with sorted keys where orjson fails: depth, huge numbers, lone surrogates."""
    try:
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    except RecursionError:
        raise InvalidObject("object", "is nested too deeply") from None
