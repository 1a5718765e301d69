"""A digest of what an author writes of an object: what we remember instead of its body (R6)."""

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
    """Digest an object: 16 bytes, keyed, so that it tells nothing of a Secret.

    Left out are kind and apiVersion (items of a list have none), status, what the server sets, and the revision in
    the provenance. `key` has at most 64 bytes and must not outlive the process.
    """
    info = {name: value for name, value in meta.metadata_of(manifest).items() if name not in SERVER_SET_METADATA}
    annotations = dict(info.get("annotations") or {})
    if text := annotations.get(meta.PROVENANCE):
        annotations[meta.PROVENANCE] = _strip_revision(text)
    info |= {"annotations": annotations, "labels": info.get("labels") or {}}
    content = {name: value for name, value in manifest.items() if name not in _LEFT_OUT} | {"metadata": info}
    return hashlib.blake2b(_encode_json(content), digest_size=16, key=key).digest()


def _strip_revision(text: str) -> str:
    """Leave the source's resourceVersion out; by its spelling, because this is done for every event."""
    return _REVISION.sub("", text)


def _encode_json(content: Mapping[str, Any]) -> bytes:
    """Spell JSON with sorted keys; what orjson refuses (depth, huge numbers, lone surrogates) the slow way."""
    try:
        return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        pass
    try:
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    except RecursionError:
        raise InvalidObject("object", "is nested too deeply") from None
