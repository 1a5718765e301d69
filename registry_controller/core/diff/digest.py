"""Digests the content of an object that its author writes; caches keep the digest instead of the body (R6)."""

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

_REVISION: Final = re.compile(r'"resourceVersion":"[0-9]*",?')
_LEFT_OUT: Final = frozenset(("status", "kind", "apiVersion", "metadata"))


def content_digest(manifest: Manifest, *, key: bytes) -> bytes:
    """Return an object's digest: 16 bytes, keyed, so that it reveals nothing about a Secret.

    The digest leaves out kind and apiVersion (items of a list have none), status, the metadata that the server sets,
    and the revision in the provenance. `key` has at most 64 bytes and must not outlive the process.
    """
    info = {name: value for name, value in meta.metadata_of(manifest).items() if name not in SERVER_SET_METADATA}
    annotations = dict(info.get("annotations") or {})
    if text := annotations.get(meta.PROVENANCE):
        annotations[meta.PROVENANCE] = _strip_revision(text)
    info |= {"annotations": annotations, "labels": info.get("labels") or {}}
    content = {name: value for name, value in manifest.items() if name not in _LEFT_OUT} | {"metadata": info}
    return hashlib.blake2b(_encode_json(content), digest_size=16, key=key).digest()


def _strip_revision(text: str) -> str:
    """Remove the source's resourceVersion from provenance; by pattern, because this runs for every event."""
    return _REVISION.sub("", text)


def _encode_json(content: Mapping[str, Any]) -> bytes:
    """Encode JSON with sorted keys; use the slow encoder where orjson fails (depth, huge numbers, lone surrogates)."""
    try:
        return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        pass
    try:
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    except RecursionError:
        raise InvalidObject("object", "is nested too deeply") from None
