"""The annotation in which the Go original keeps the object that it wrote: base64 of a zip with one JSON file.

Versions before that wrote the JSON itself. The annotation comes from any cluster, so that reading it has limits.
"""

from __future__ import annotations

import base64
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Final

import orjson

from registry_controller.api.meta import Target, group_version

_TEXT_LENGTH: Final = 1024 * 1024  # API servers store 256 KiB of annotations
_MOST_BYTES: Final = 1024 * 1024
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    KeyError,
    IndexError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)


def names_object(text: str, *, of: Target) -> bool | None:
    """Return whether the annotation of the object `of` holds that object; None if it cannot be read.

    Kind, apiVersion and namespace may be missing in it. Each that is there must be that of the object.
    """
    try:
        found = orjson.loads(_unpack(text))
        info = found["metadata"]
        name = info["name"]
        kind, api_version, namespace = found.get("kind"), found.get("apiVersion"), info.get("namespace")
    except (*_UNREADABLE, TypeError, AttributeError):
        return None
    if not isinstance(found, Mapping) or not isinstance(name, str):
        return None
    group = group_version(api_version)[0] if isinstance(api_version, str) and api_version else of.group
    named = Target(group, kind or of.kind, namespace or of.namespace, name)
    return named == of


def _unpack(text: str) -> bytes:
    """Return the JSON; raise one of `_UNREADABLE` if there is none within the limits."""
    if len(text) > _TEXT_LENGTH:
        raise ValueError("is too long")
    if text.lstrip()[:1] == "{":
        return text.encode()
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(text))) as archive:
        entry = archive.infolist()[0]
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("is compressed in another way")
        with archive.open(entry) as file:
            content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError("is too large")
    return content
