"""Decodes objects from the JSON of a server: the metadata, and the rest as raw bytes.

Laws: bytes that are not an object of Kubernetes raise ProtocolError here, so that they never reach a decision · the
memory of a decoded object is bounded, for any spelling.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import orjson

from registry_controller.api.errors import InvalidObject, ProtocolError
from registry_controller.api.meta import GVK, GVR, UID_LENGTH, Manifest, ObjectKey, revision
from registry_controller.api.selection import Selection

_NAME_BYTES: Final = 253
_NAMESPACE_BYTES: Final = 63
_TIME_LENGTH: Final = 40  # RFC 3339, with a fraction and an offset, has 35
_TYPE_BYTES: Final = 1024  # Kubernetes' own types have 40
_BRACKETS: Final = 250  # an object with fewer brackets has fewer levels
_SHOWN: Final = 300

_PARTIAL: Final = GVK("meta.k8s.io", "v1", "PartialObjectMetadata")

MANIFEST_BYTES: Final = 4 * 1024 * 1024
"""The largest object that is decoded. API servers accept requests of 3 MiB, so that no copy can be larger."""
_SMALL_BYTES: Final = 64 * 1024  # metadata below this size needs little memory, with any content
COMMAS: Final = 150_000  # an entry takes up to 200 bytes; 10,000 keys of a ConfigMap, with their fields, have 20,000
_PART: Final = 64  # bytes that a value, an entry or a mapping takes at least
CONTAINERS: Final = 50_000  # each takes up to 200 bytes; large custom resource definitions have 15,000
_PLAIN_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")  # almost every name
_PLAIN_NAMESPACE: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)?")
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|(,)|([\[{])', re.DOTALL)


class PartialObject(msgspec.Struct, frozen=True, gc=False):
    """An object at one moment. `raw` is a copy of its JSON, always with apiVersion and kind.

    `revision` is the resourceVersion as a number, 0 when it is not a number. `kind_type` is the top-level `type` (a
    Secret's) when it is a short text.
    """

    key: ObjectKey
    uid: str
    revision: int
    created: str
    deleting: bool
    labels: dict[str, str]
    annotations: dict[str, str]
    generation: int
    kind_type: str
    raw: bytes


class _Meta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    created: str | None = msgspec.field(name="creationTimestamp", default=None)
    deleted: str | None = msgspec.field(name="deletionTimestamp", default=None)
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    generation: int | None = None


class _Outside(msgspec.Struct, gc=False):
    metadata: msgspec.Raw


class _SizedMeta(msgspec.Struct, gc=False):
    metadata: msgspec.Raw
    spec: msgspec.Raw = msgspec.Raw(b"")


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta
    api_version: str | None = msgspec.field(name="apiVersion", default=None)
    kind: str | None = None
    type: msgspec.Raw = msgspec.Raw(b"")


class _WrittenMeta(msgspec.Struct, gc=False):
    annotations: dict[str, msgspec.Raw] = msgspec.field(name="f:annotations", default_factory=dict)


class _WrittenFields(msgspec.Struct, gc=False):
    metadata: _WrittenMeta = msgspec.field(name="f:metadata", default_factory=_WrittenMeta)


class _ManagedEntry(msgspec.Struct, gc=False):
    manager: str = ""
    time: str = ""
    subresource: str = ""
    fields: _WrittenFields = msgspec.field(name="fieldsV1", default_factory=_WrittenFields)


class _ManagedMeta(msgspec.Struct, gc=False):
    entries: list[_ManagedEntry] = msgspec.field(name="managedFields", default_factory=list)


class _Managed(msgspec.Struct, gc=False):
    metadata: _ManagedMeta


_ADMISSION: Final = timedelta(seconds=60)
"""An API server sets the time in managedFields before it calls the webhooks, and the creationTimestamp after that."""
_MANAGED: Final = msgspec.json.Decoder(_Managed)
_WEIGHED: Final = msgspec.json.Decoder(_SizedMeta)
_OUTSIDE: Final = msgspec.json.Decoder(_Outside)
_OBJECT: Final = msgspec.json.Decoder(_Object)


def decode_object(raw: bytes | msgspec.Raw, *, kind: GVK | None = None, metadata_only: bool = False) -> PartialObject:
    """Decode an object; ProtocolError for an invalid one, or one of another kind than `kind`.

    Items of a list of a built-in kind lack apiVersion and kind, and get the values of `kind`. With `metadata_only`,
    PartialObjectMetadata stands for any kind.
    """
    try:
        if len(raw) > _SMALL_BYTES and _is_too_much(bytes(_OUTSIDE.decode(raw).metadata)):
            raise ProtocolError("an object with more metadata than is accepted")
        found = _OBJECT.decode(raw)
        kind_type = _read_type(found.type) if found.type else ""
        body = bytes(raw)
        if not body.isascii():
            body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError("an object without readable metadata") from None
    info = found.metadata
    key = ObjectKey(info.namespace, info.name)
    if not (_PLAIN_NAME.fullmatch(info.name) and _PLAIN_NAMESPACE.fullmatch(info.namespace)):
        _check_key(key)
    if len(info.uid) > UID_LENGTH or not (info.uid.isascii() and info.uid.isprintable()):
        raise ProtocolError(f"{key}: has an invalid uid")
    created = info.created or ""
    if len(created) > _TIME_LENGTH or not created.isascii():
        raise ProtocolError(f"{key}: has an invalid creationTimestamp")
    if kind is not None:
        if found.kind is None and found.api_version is None:
            head = json.dumps({"apiVersion": kind.api_version, "kind": kind.kind}).encode()
            body = head[:-1] + b"," + body[1:]
        elif not _is_of_kind(found, kind) and not (metadata_only and _is_of_kind(found, _PARTIAL)):
            raise ProtocolError(f"{key}: is not of the kind {kind}")
    return PartialObject(
        key=key,
        uid=info.uid,
        revision=revision(info.resource_version),
        created=created,
        deleting=info.deleted is not None,
        labels=info.labels or {},
        annotations=info.annotations or {},
        generation=info.generation or 0,
        kind_type=kind_type,
        raw=body,
    )


def _read_type(found: msgspec.Raw) -> str:
    text = bytes(found)
    return msgspec.json.decode(text, type=str) if text[:1] == b'"' and len(text) <= _TYPE_BYTES else ""


def has_written(manager: str, annotation: str, *, of: PartialObject) -> bool:
    """Return whether a manager wrote an annotation of this very object, which may be a restored one.

    The restore of a backup may bring back the managedFields, too: their times are before the new object was created.
    """
    try:
        entries = _MANAGED.decode(of.raw).metadata.entries
        created = datetime.fromisoformat(of.created)
        return any(
            datetime.fromisoformat(entry.time) >= created - _ADMISSION
            for entry in entries
            if entry.manager == manager and not entry.subresource
            if f"f:{annotation}" in entry.fields.metadata.annotations
        )
    except (msgspec.DecodeError, ValueError, TypeError):
        return False


def _is_of_kind(found: _Object, kind: GVK) -> bool:
    return found.kind == kind.kind and found.api_version == kind.api_version


def decode_selected(
    raw: msgspec.Raw, *, kind: GVK, gvr: GVR, selection: Selection, metadata_only: bool = False
) -> PartialObject:
    """Decode an object of a list or watch; ProtocolError also in a namespace that the request excludes."""
    obj = decode_object(raw, kind=kind, metadata_only=metadata_only)
    namespace = obj.key.namespace
    if bool(namespace) != gvr.namespaced or (selection.namespace and namespace != selection.namespace):
        raise ProtocolError(f"{obj.key}: is in a namespace that was not requested")
    return obj


def decode_manifest(raw: bytes) -> dict[str, Any]:
    """Decode a whole object; ProtocolError for an invalid one, also for numbers that Go's JSON lacks (1e999).

    An object with more than 254 levels is refused, because orjson cannot encode it again. An object that is too large,
    or has too many parts, is refused before it is decoded.
    """
    if _is_too_much(raw):
        raise ProtocolError("an object that is too large")
    try:
        found = orjson.loads(raw)
        if raw.count(b"{") + raw.count(b"[") > _BRACKETS:
            orjson.dumps(found)
    except (orjson.JSONDecodeError, RecursionError):
        raise ProtocolError("an object that is not valid JSON") from None
    except orjson.JSONEncodeError:
        raise ProtocolError("an object with too many levels") from None
    if not isinstance(found, dict):
        raise ProtocolError("an answer that is not an object")
    return found


def decode_body(obj: PartialObject) -> Manifest:
    """Decode the whole object; InvalidObject for an unusable one (too many levels, too large)."""
    try:
        return decode_manifest(obj.raw)
    except ProtocolError:
        words = "cannot be decoded: too deeply nested, too large, or no JSON object"
        raise InvalidObject(str(obj.key), words) from None


def has_same_content(one: PartialObject, other: PartialObject) -> bool:
    """Return whether two objects are the same JSON, in any order of the fields; False where it cannot be decoded."""
    if one.raw == other.raw:
        return True
    try:
        return decode_manifest(one.raw) == decode_manifest(other.raw)
    except ProtocolError:
        return False


def estimate_size(raw: bytes) -> int:
    """Estimate the memory of a decoded object without its status, in bytes."""
    found = _WEIGHED.decode(raw)
    kept = [bytes(found.metadata), bytes(found.spec)]
    return sum(len(part) + _PART * sum(part.count(mark) for mark in (b",", b"{", b"[")) for part in kept)


def _is_too_much(raw: bytes) -> bool:
    """Return whether JSON is too large, or has too many parts, to decode; the content of texts does not count."""
    if len(raw) > MANIFEST_BYTES:
        return True
    if len(raw) < 2 * CONTAINERS:  # each has two ends
        return False
    if raw.count(b",") <= COMMAS and raw.count(b"{") + raw.count(b"[") <= CONTAINERS:
        return False
    commas = containers = 0
    for token in _TOKEN.finditer(raw):
        commas += token.lastindex == 1
        containers += token.lastindex == 2
        if commas > COMMAS or containers > CONTAINERS:
            return True
    return False


def _check_key(key: ObjectKey) -> None:
    _check_name(key.name, most_bytes=_NAME_BYTES)
    if key.namespace:
        _check_name(key.namespace, most_bytes=_NAMESPACE_BYTES)


def _check_name(name: str, *, most_bytes: int) -> None:
    """Refuse a name that an API server refuses as a path segment; other rules depend on the kind."""
    plain = name.isprintable() and not set(name) & {"/", "%"} and name not in ("", ".", "..")
    if not plain or len(name) > most_bytes or (not name.isascii() and len(name.encode()) > most_bytes):
        raise ProtocolError("an object with an invalid name")
