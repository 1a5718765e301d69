"""Sends the writes of copies: compares a copy with the wanted state, and creates, replaces or deletes it.

Laws: a copy in step costs no write · the watch event of our own write changes nothing · a write carries the uid and the
resourceVersion that the Decision was taken on.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from registry_controller.api import meta
from registry_controller.api.errors import AlreadyExists, Conflict, Forbidden, Immutable, InvalidObject, NotFound
from registry_controller.api.meta import GVK, GVR, Manifest, ObjectKey, Target
from registry_controller.cache.local_cache import HERE, CopyRecord, LocalCache
from registry_controller.cache.write_results import InSync, StatusStored, Stored
from registry_controller.core.decision.ownership import Marks, read_marks
from registry_controller.core.diff.drift import NOTHING_LEFT, Drift, Left, carry_over, compare, merge
from registry_controller.core.mutation.left_fields import LeftPath
from registry_controller.core.mutation.mutate import SERVER_SET_METADATA
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.kube.writer import WriteClient
from registry_controller.watch.body_cache import BodyCache, BodyKey

_LEFT_OUT_OF_PROVENANCE: Final = re.compile(r'"resourceVersion":"[0-9]*",?|"cluster":"[^"]*","digest":"[0-9a-f]*",')
_LEFT_OUT: Final = frozenset(("status", "kind", "apiVersion", "metadata"))


@dataclass(frozen=True, slots=True)
class DesiredCopy:
    """The wanted state of a copy, with its marks; `digest` excludes the provenance's revision.

    `status` is the wanted status, None where no rule asks for it. `left` are the places that the rule leaves to this
    cluster.
    """

    target: Target
    kind: GVK
    manifest: Manifest
    digest: bytes
    marks: Marks
    status: Manifest | None = None
    left: tuple[LeftPath, ...] = ()


class Update(NamedTuple):
    """The result of an update: whether it took a write, and the managers of the changes that it undid.

    `unpaired` are lists that were written as the rule wants them, although a place in them is left to this cluster.
    """

    has_written: bool
    managers: tuple[str, ...] = ()
    unpaired: tuple[str, ...] = ()


class CopyWriter:
    """Writes copies to the local cluster; no other class writes objects that come from members.

    `digest` returns the digest of an object's synced fields.
    `on_stored` is called with a target, the object that was sent and the one that was stored. `believes_provenance`
    saves a dry run where the provenance shows that a copy's additional fields are the API server's.
    """

    def __init__(
        self,
        *,
        reader: Reader,
        client: WriteClient,
        discovery: Discovery,
        bodies: BodyCache,
        digest_key: bytes,
        on_stored: Callable[[Target, Manifest, Manifest], None],
        believes_provenance: bool = True,
    ) -> None:
        self._reader = reader
        self._client = client
        self._discovery = discovery
        self._bodies = bodies
        self.digest = functools.partial(content_digest, key=digest_key)
        self._on_stored = on_stored
        self._believes_provenance = believes_provenance

    async def create(self, wanted: DesiredCopy, cache: LocalCache, *, over: Manifest | None = None) -> None:
        """Create a copy; in the place of `over`, with that one's values where the rule leaves them to this cluster."""
        manifest = wanted.manifest
        if over is not None:
            left = await self._left(await self._discovery.resolve(wanted.kind), wanted)
            manifest = carry_over(manifest, over, manager=meta.FIELD_MANAGER, left=left)
        body = _encode(manifest)
        gvr = await self._discovery.resolve(wanted.kind)
        with cache.writing(wanted.target.key):
            raw = await self._client.create(gvr, wanted.target.namespace, body)
            self._remember(raw, wanted, cache)

    async def create_namespace(self, name: str) -> None:
        """Create a namespace for a copy, unless it exists by now."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self._client.create(meta.NAMESPACES, "", orjson.dumps(body))
        except AlreadyExists:
            return
        except Forbidden as error:
            grant = "; the chart's controller.createNamespaces=true gives that right" if error.lacks_right else ""
            words = f"cannot create namespace {name}: {error}{grant}"
            raise Forbidden(words, lacks_right=error.lacks_right) from None

    async def write(self, wanted: DesiredCopy, record: CopyRecord, cache: LocalCache, *, adopt: bool) -> Update:
        """Replace a copy that differs from the wanted state.

        `adopt` writes a copy that differs in its provenance alone, too. Raises Immutable, with the managers, where the
        copy must be deleted and created again.
        """
        gvr = await self._discovery.resolve(wanted.kind)
        result = Update(has_written=True)
        if record.is_plain and record.verified == record.revision and not wanted.left:
            body = _identified(wanted.manifest, uid=record.uid, revision=record.revision)
        else:
            current = await self._current(gvr, wanted, record)
            if current is None:
                raise Conflict(f"{wanted.target} was deleted or changed since its state was read; trying again")
            left = await self._left(gvr, wanted)
            verdict = compare(wanted.manifest, current, manager=meta.FIELD_MANAGER, left=left)
            result = Update(True, verdict.managers, verdict.unpaired)
            if verdict.drift is Drift.IN_SYNC:
                self._accept(current, wanted, cache)
                return result._replace(has_written=False)
            body = merge(wanted.manifest, current, manager=meta.FIELD_MANAGER, left=left)
            if verdict.drift is Drift.AMBIGUOUS and not adopt and await self._is_stored_so(gvr, wanted, record, body):
                self._accept(current, wanted, cache)
                return result._replace(has_written=False)
        with cache.writing(wanted.target.key):
            try:
                raw = await self._client.replace(gvr, wanted.target.key, _encode(body))
            except Immutable as error:
                raise Immutable(str(error), managers=result.managers) from None
            self._remember(raw, wanted, cache)
        return result

    async def write_status(self, wanted: DesiredCopy, record: CopyRecord, cache: LocalCache) -> bool:
        """Replace the status of a copy that differs from the wanted status; return whether that took a write.

        A kind without a status subresource has no status to write.
        """
        gvr = await self._discovery.resolve(wanted.kind)
        current = await self._current(gvr, wanted, record) if gvr.has_status else None
        if gvr.has_status and current is None:
            raise Conflict(f"{wanted.target} was deleted or changed since its state was read; trying again")
        if current is None or (current.get("status") or {}) == wanted.status:
            cache.record_write(wanted.target.key, StatusStored(self.status_digest(wanted)))
            return False
        body = {**current, "status": wanted.status}
        with cache.writing(wanted.target.key):
            raw = await self._client.replace(gvr, wanted.target.key, _encode(body), subresource="status")
            if raw is not None:
                cache.record_write(wanted.target.key, StatusStored(self.status_digest(wanted), decode_object(raw)))
        return True

    def status_digest(self, wanted: DesiredCopy) -> bytes | None:
        """Return the digest of a wanted status; None where no rule asks for it."""
        if wanted.status is None:
            return None
        return self.digest({"status_": wanted.status})

    async def delete(self, target: Target, kind: GVK, *, uid: str, revision: int) -> None:
        """Delete the copy of that uid and resourceVersion, and no later one."""
        gvr = await self._discovery.resolve(kind)
        try:
            await self._client.delete(gvr, target.key, uid=uid, resource_version=str(revision))
        except NotFound:
            return

    async def read(self, wanted: DesiredCopy, record: CopyRecord) -> Manifest | None:
        """Return the stored copy, where its rule leaves places to this cluster; None where nothing is to be kept."""
        if not wanted.left:
            return None
        return await self._current(await self._discovery.resolve(wanted.kind), wanted, record)

    async def _left(self, gvr: GVR, wanted: DesiredCopy) -> Left:
        """Return the places that the rule leaves to this cluster, with the field of the scale subresource."""
        return Left(wanted.left, await self._discovery.find_replicas(gvr)) if wanted.left else NOTHING_LEFT

    async def _current(self, gvr: GVR, wanted: DesiredCopy, record: CopyRecord) -> Manifest | None:
        obj = self._bodies.peek(BodyKey(HERE, wanted.kind, wanted.target.key))
        if obj is None or obj.revision != record.revision:
            try:
                obj = decode_object(await self._reader.get(gvr, wanted.target.key))
            except NotFound:
                return None
        is_same = obj.uid == record.uid and obj.revision == record.revision
        return orjson.loads(obj.raw) if is_same else None

    async def _is_stored_so(self, gvr: GVR, wanted: DesiredCopy, record: CopyRecord, body: Manifest) -> bool:
        """Report whether fields that no other manager set are the API server's: then a dry run stores the same."""
        provenance = record.marks.provenance
        is_of_now = provenance is not None and provenance.revision == wanted.marks.revision
        is_same_desired = record.desired in (None, wanted.digest)  # else a rule was edited, and removed a field
        if is_of_now and is_same_desired and self._believes_provenance:
            return True
        raw = await self._client.replace(gvr, wanted.target.key, _encode(body), dry_run=True)
        current = await self._current(gvr, wanted, record)
        if raw is None or current is None:
            return False
        # Earlier versions write less into the provenance, which alone is no reason for a write.
        return self.digest(_without_provenance(orjson.loads(raw))) == self.digest(_without_provenance(current))

    def _accept(self, current: Manifest, wanted: DesiredCopy, cache: LocalCache) -> None:
        baseline = self.digest(current)
        info, is_plain = meta.metadata_of(current), _is_plain(current, baseline, wanted)
        revision = meta.revision(info.get("resourceVersion"))
        found = InSync(str(info.get("uid", "")), revision, wanted.digest, baseline, is_plain=is_plain)
        cache.record_write(wanted.target.key, found)

    def _remember(self, raw: bytes | None, wanted: DesiredCopy, cache: LocalCache) -> None:
        if raw is None:
            return
        obj = decode_object(raw)
        stored: Manifest = orjson.loads(raw)
        baseline = self.digest(stored)
        plain = _is_plain(stored, baseline, wanted)
        same = obj.annotations == meta.annotations_of(wanted.manifest)
        marks = wanted.marks if same else read_marks(obj.annotations, of=wanted.target)
        cache.record_write(obj.key, Stored(obj, marks, wanted.digest, baseline, is_plain=plain))
        self._on_stored(wanted.target, wanted.manifest, stored)

    def still_as_written(self, record: CopyRecord, obj: PartialObject) -> bool:
        """Report whether a copy that changed here still has the synced fields that the server stored for us."""
        return record.baseline is not None and self.digest(orjson.loads(obj.raw)) == record.baseline


def _encode(manifest: Manifest) -> bytes:
    """Encode an object; InvalidObject where overrides nest it too deeply."""
    try:
        return orjson.dumps(manifest)
    except orjson.JSONEncodeError:
        raise InvalidObject("object", "cannot be written: it is nested too deeply") from None


def _is_plain(stored: Manifest, baseline: bytes, wanted: DesiredCopy) -> bool:
    """Report whether a copy may be replaced without being read: nothing in it is another writer's."""
    info = meta.metadata_of(stored)
    return baseline == wanted.digest and not info.get("finalizers") and not info.get("ownerReferences")


def _identified(manifest: Manifest, *, uid: str, revision: int) -> Mapping[str, Any]:
    info = {**meta.metadata_of(manifest), "uid": uid, "resourceVersion": str(revision)}
    return {**manifest, "metadata": info}


def copy_slot(kind: GVK, key: ObjectKey) -> BodyKey:
    """Return the key of a local object's body in the cache of bodies."""
    return BodyKey(HERE, kind, key)


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


def _without_provenance(manifest: Manifest) -> Manifest:
    info = meta.metadata_of(manifest)
    annotations = {name: text for name, text in meta.annotations_of(manifest).items() if name != meta.PROVENANCE}
    return {**manifest, "metadata": {**info, "annotations": annotations}}


def _encode_content(content: Mapping[str, Any]) -> bytes:
    """Encode JSON with sorted keys where orjson fails: depth, huge numbers, lone surrogates."""
    try:
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    except RecursionError:
        raise InvalidObject("object", "is nested too deeply") from None
