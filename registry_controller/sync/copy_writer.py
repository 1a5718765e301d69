"""Sends the writes of copies: compares a copy with the wanted state, and creates, replaces or deletes it.

Laws: the daemon writes objects that come from members nowhere else · a copy in step costs no write, however the API
server spells it · after a restart a difference is put to a dry run · the watch event of our own write changes nothing ·
a write carries the uid and the resourceVersion that the Decision was taken on.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from registry_controller.api import meta
from registry_controller.api.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Immutable,
    Invalid,
    InvalidObject,
    NotFound,
    ServerError,
    Unreachable,
)
from registry_controller.api.meta import GVK, GVR, Manifest, ObjectKey, Target
from registry_controller.api.names import RIGHTS_COMMAND
from registry_controller.api.provenance import without_state
from registry_controller.cache.copy_record import HERE, CopyRecord
from registry_controller.cache.interner import Interner
from registry_controller.cache.local_cache import LocalCache
from registry_controller.cache.write_results import Doubted, InSync, StatusStored, Stored
from registry_controller.core.decision.marks import read_marks
from registry_controller.core.decision.state import is_container
from registry_controller.core.diff.drift import NOTHING_LEFT, Left, carry_over, compare, compare_and_merge
from registry_controller.core.diff.managed_fields import read_owners
from registry_controller.core.diff.question import NextStep, judge_difference
from registry_controller.core.diff.remainder import NOTHING_REMAINS, Remainder, with_unknown
from registry_controller.core.diff.walk import list_lost
from registry_controller.core.mutation.mutate import SERVER_SET_METADATA
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.object import PartialObject, decode_object
from registry_controller.kube.writer import WriteClient
from registry_controller.sync.container_copies import ContainerCopies
from registry_controller.sync.desired_copy import DesiredCopy, Update
from registry_controller.sync.digest import encode_content
from registry_controller.sync.stored_form import StoredForm, get_known
from registry_controller.watch.body_cache import BodyCache, BodyKey

_LEFT_OUT: Final = frozenset(("status", "kind", "apiVersion", "metadata"))


class CopyWriter:
    """Writes copies to the local cluster; no other class writes objects that come from members.

    `digest` returns the digest of an object's synced fields.
    `on_stored` is called with a target, the wanted object and the stored one. `believes_provenance`
    saves a dry run where the provenance shows that a copy's additional fields are the API server's. `containers`
    keeps the creation of copies apart from the deletion of their containers.
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
        containers: ContainerCopies,
        believes_provenance: bool = True,
    ) -> None:
        self._reader = reader
        self._client = client
        self._discovery = discovery
        self._bodies = bodies
        self.digest = functools.partial(content_digest, key=digest_key)
        self._on_stored = on_stored
        self._containers = containers
        self._believes_provenance = believes_provenance
        self._stored_form = StoredForm(client, digest=self.digest, encode=encode)
        self._extras: Interner[tuple[tuple[str, ...], ...]] = Interner()

    async def create(self, wanted: DesiredCopy, cache: LocalCache, *, over: Manifest | None = None) -> None:
        """Create a copy; in the place of `over`, with that one's values where the rule leaves them to this cluster."""
        gvr = await self._discovery.resolve(wanted.kind)
        left = await self._left(gvr, wanted)
        unknown: list[str] = []
        body = _encode_new(wanted, over, left)
        with self._containers.creating(wanted.target, gvr), cache.writing(wanted.target.key):
            raw = await self._client.create(gvr, wanted.target.namespace, body, unknown=unknown)
            self._remember(raw, wanted, cache, left, unknown=unknown)

    async def check_replaceable(self, wanted: DesiredCopy, *, over: Manifest | None) -> None:
        """Raise the error with which the API server would refuse `create` once the present copy is deleted (A2).

        A dry run is refused before the server finds that the name is taken. A refusal that may pass shows nothing.
        """
        gvr = await self._discovery.resolve(wanted.kind)
        body = _encode_new(wanted, over, await self._left(gvr, wanted))
        try:
            await self._client.create(gvr, wanted.target.namespace, body, dry_run=True)
        except Conflict:
            return
        except (Forbidden, Invalid) as error:
            if not error.may_pass:
                raise

    async def create_namespace(self, name: str) -> None:
        """Create a namespace for a copy, unless it exists by now."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self._client.create(meta.NAMESPACES, "", orjson.dumps(body))
        except AlreadyExists:
            return
        except Forbidden as error:
            grant = f"; `{RIGHTS_COMMAND}`, or the chart's controller.createNamespaces=true, gives that right"
            grant = grant if error.lacks_right else ""
            words = f"cannot create namespace {name}: {error}{grant}"
            raise Forbidden(words, lacks_right=error.lacks_right) from None

    async def write(self, wanted: DesiredCopy, record: CopyRecord, cache: LocalCache, *, adopt: bool) -> Update:
        """Replace a copy that differs from the wanted state.

        `adopt` writes a copy that differs in its provenance alone, too. Raises Immutable, with the managers, where the
        copy must be deleted and created again.
        """
        gvr = await self._discovery.resolve(wanted.kind)
        result, left, unknown, is_repair = Update(has_written=True), NOTHING_LEFT, list[str](), False
        if record.is_plain and record.verified == record.revision and not wanted.left:
            body = _identified(wanted.manifest, uid=record.uid, revision=record.revision)
        else:
            current = await self._present(gvr, wanted, record)
            left = await self._left(gvr, wanted)
            verdict, body = compare_and_merge(wanted.manifest, current, manager=meta.FIELD_MANAGER, left=left)
            result = Update(True, verdict.managers, verdict.unpaired)
            if not adopt or verdict.is_in_sync:
                known = get_known(record, wanted.marks, wanted.digest)
                step = judge_difference(verdict, known, believes_provenance=self._believes_provenance)
                is_repair = known.is_same_wish
                remainder = known.remainder if is_repair else verdict.remainder
                if step is NextStep.ASK:
                    asked = (gvr, wanted.target, wanted.manifest, current)
                    step = await self._stored_form.ask(
                        *asked, verdict=verdict, body=body, left=left, known=known, unknown=unknown
                    )
                    remainder = with_unknown(verdict.remainder, unknown)
                if step is NextStep.IN_STEP:
                    self._accept(current, wanted, record, cache, remainder)
                    return result._replace(has_written=False)
                unknown.clear()
        with cache.writing(wanted.target.key):
            try:
                raw = await self._client.replace(gvr, wanted.target.key, encode(body), unknown=unknown)
            except Immutable as error:
                raise Immutable(str(error), managers=result.managers) from None
            except (Unreachable, ServerError):
                if is_repair:  # the provenance is the same before and after it, so nothing else shows whether it came
                    cache.record_write(wanted.target.key, Doubted())
                raise
            stored = self._remember(raw, wanted, cache, left, unknown=unknown, over=record)
        result = result._replace(has_written=stored != record.revision)
        fresh = cache.records.get(wanted.target.key) if stored is not None else None
        if fresh is not None and fresh.remainder.suspects:
            await self.write(wanted, fresh, cache, adopt=False)
        return result

    async def write_status(self, wanted: DesiredCopy, record: CopyRecord, cache: LocalCache) -> Update:
        """Replace the status of a copy that differs from the wanted status.

        A kind without a status subresource has no status to write.
        """
        gvr, digest = await self._discovery.resolve(wanted.kind), self.status_digest(wanted)
        if not gvr.has_status:
            cache.record_write(wanted.target.key, StatusStored(digest))
            return Update(False)
        current = await self._present(gvr, wanted, record)
        body = {**current, "status": wanted.status}
        managers = read_owners(current, manager=meta.FIELD_MANAGER).of_field("status").other_managers
        is_there, unknown, target = (current.get("status") or {}) == wanted.status, list[str](), wanted.target
        if not is_there and not await self._stored_form.is_status_stored_so(
            gvr, target, current, body=body, unknown=unknown
        ):
            unknown.clear()
            with cache.writing(wanted.target.key):
                raw = await self._client.replace(
                    gvr, wanted.target.key, encode(body), subresource="status", unknown=unknown
                )
                if raw is None:
                    return Update(True)
                obj, before = decode_object(raw), record.revision
                self._record_status(wanted, orjson.loads(raw), obj, cache, unknown)
            return Update(obj.revision != before, tuple(sorted(managers)))
        self._record_status(wanted, current, None, cache, unknown)
        return Update(False)

    def _record_status(
        self,
        wanted: DesiredCopy,
        stored: Manifest,
        obj: PartialObject | None,
        cache: LocalCache,
        unknown: Sequence[str],
    ) -> None:
        there = stored.get("status") or {}
        missing = list_lost(wanted.status or {}, there, at=("status",))
        lost = tuple(sorted({*missing, *(place for place in unknown if place.startswith("status."))}))
        baseline = self._digest_status(there) if wanted.status is not None else None
        cache.record_write(wanted.target.key, StatusStored(self.status_digest(wanted), obj, baseline, lost))

    def status_digest(self, wanted: DesiredCopy) -> bytes | None:
        """Return the digest of a wanted status; None where no rule asks for it."""
        return None if wanted.status is None else self._digest_status(wanted.status)

    def _digest_status(self, status: Manifest) -> bytes:
        return self.digest({"status_": status})

    async def delete(self, target: Target, kind: GVK, *, uid: str, revision: int) -> None:
        """Delete the copy of that uid and resourceVersion, and no later one.

        Raises Conflict for a container in which a copy is known, or may come by this daemon.
        """
        gvr = await self._discovery.resolve(kind)
        guard = self._containers.deleting(target) if is_container(target) else contextlib.nullcontext()
        with guard, contextlib.suppress(NotFound):
            await self._client.delete(gvr, target.key, uid=uid, resource_version=str(revision))

    async def read(self, wanted: DesiredCopy, record: CopyRecord) -> Manifest | None:
        """Return the stored copy, where its rule leaves places to this cluster; None where nothing is to be kept."""
        return await self._present(await self._discovery.resolve(wanted.kind), wanted, record) if wanted.left else None

    async def _left(self, gvr: GVR, wanted: DesiredCopy) -> Left:
        """Return the places that the rule leaves to this cluster, with the field of the scale subresource."""
        return Left(wanted.left, await self._discovery.find_replicas(gvr)) if wanted.left else NOTHING_LEFT

    async def _present(self, gvr: GVR, wanted: DesiredCopy, record: CopyRecord) -> Manifest:
        """Return the stored copy of that record; Conflict where it is another one by now."""
        obj = self._bodies.peek(BodyKey(HERE, wanted.kind, wanted.target.key))
        with contextlib.suppress(NotFound):
            if obj is None or obj.revision != record.revision:
                obj = decode_object(await self._reader.get(gvr, wanted.target.key))
            if obj.uid == record.uid and obj.revision == record.revision:
                found: Manifest = orjson.loads(obj.raw)
                return found
        raise Conflict(f"{wanted.target} was deleted or changed since its state was read; trying again")

    def _accept(
        self, current: Manifest, wanted: DesiredCopy, record: CopyRecord, cache: LocalCache, remainder: Remainder
    ) -> None:
        """Record that a copy is in step as it is; its status is compared again where it was edited, too."""
        baseline = self.digest(current)
        info, is_plain = meta.metadata_of(current), _is_plain(current, baseline, wanted)
        revision, remainder = meta.revision(info.get("resourceVersion")), self._share(remainder)
        found = InSync(
            str(info.get("uid", "")), revision, wanted.digest, baseline, is_plain=is_plain, remainder=remainder
        )
        cache.record_write(wanted.target.key, found)
        if not self.still_has_status(record, current):
            cache.record_write(wanted.target.key, StatusStored(None))
        self._on_stored(wanted.target, wanted.manifest, current)

    def _remember(
        self,
        raw: bytes | None,
        wanted: DesiredCopy,
        cache: LocalCache,
        left: Left,
        *,
        unknown: Sequence[str],
        over: CopyRecord | None = None,
    ) -> int | None:
        """Record the stored object, and the remainder between it and the wanted one; return its resourceVersion.

        The copy `over` was replaced unread if it was exactly the sent one: all fields beside the wanted ones may be of
        that state then.
        """
        if raw is None:
            return None
        obj = decode_object(raw)
        stored: Manifest = orjson.loads(raw)
        baseline = self.digest(stored)
        plain = _is_plain(stored, baseline, wanted)
        remainder = NOTHING_REMAINS
        if not plain:
            verdict = compare(wanted.manifest, stored, manager=meta.FIELD_MANAGER, left=left)
            remainder = self._share(with_unknown(verdict.remainder, unknown))
            if over is not None and over.is_plain:
                remainder = remainder._replace(suspects=remainder.extras)
        same = obj.annotations == meta.annotations_of(wanted.manifest)
        marks = wanted.marks if same else read_marks(obj.annotations, of=wanted.target)
        found = Stored(obj, marks, wanted.digest, baseline, is_plain=plain, remainder=remainder)
        cache.record_write(obj.key, found)
        self._on_stored(wanted.target, wanted.manifest, stored)
        return obj.revision

    def _share(self, found: Remainder) -> Remainder:
        """Return a remainder, with extras that copies of one kind share."""
        return found._replace(extras=self._extras.one(found.extras)) if found.extras else found

    def still_as_written(self, record: CopyRecord, current: Manifest) -> bool:
        """Report whether a copy that changed here still has the synced fields that the server stored for us."""
        return record.baseline is not None and self.digest(current) == record.baseline

    def still_has_status(self, record: CopyRecord, current: Manifest) -> bool:
        """Report whether a copy that changed here still has the status that the server stored for us."""
        if record.status_baseline is None:
            return True
        return self._digest_status(current.get("status") or {}) == record.status_baseline


def _is_plain(stored: Manifest, baseline: bytes, wanted: DesiredCopy) -> bool:
    """Report whether a copy may be replaced without being read: nothing in it is another writer's."""
    info = meta.metadata_of(stored)
    return baseline == wanted.digest and not info.get("finalizers") and not info.get("ownerReferences")


def _encode_new(wanted: DesiredCopy, over: Manifest | None, left: Left) -> bytes:
    """Encode a new copy; in the place of `over`, with that one's values in the places that are left."""
    manifest = wanted.manifest
    if over is not None:
        manifest = carry_over(manifest, over, manager=meta.FIELD_MANAGER, left=left)
    return encode(manifest)


def _identified(manifest: Manifest, *, uid: str, revision: int) -> Mapping[str, Any]:
    info = {**meta.metadata_of(manifest), "uid": uid, "resourceVersion": str(revision)}
    return {**manifest, "metadata": info}


def copy_slot(kind: GVK, key: ObjectKey) -> BodyKey:
    """Return the key of a local object's body in the cache of bodies."""
    return BodyKey(HERE, kind, key)


def encode(manifest: Manifest) -> bytes:
    """Encode an object; InvalidObject where overrides nest it too deeply."""
    try:
        return orjson.dumps(manifest)
    except orjson.JSONEncodeError:
        raise InvalidObject("object", "cannot be written: it is nested too deeply") from None


def content_digest(manifest: Manifest, *, key: bytes) -> bytes:
    """Return the digest of the part that an object's author writes: 16 bytes.

    It is keyed, so that it reveals nothing about a Secret.
    Caches keep the digest instead of the body (R6).
    The digest leaves out kind and apiVersion (items of a list have none), status, the metadata that the server sets,
    and what alone is not written of the provenance: the revision of the source, the state of the rule, and the cluster,
    which earlier versions do not write. `key` has at most 64 bytes and must not outlive the process.
    """
    metadata = manifest.get("metadata") or {}
    info = {name: metadata[name] for name in metadata.keys() - SERVER_SET_METADATA}
    annotations = info.get("annotations") or {}
    if text := annotations.get(meta.PROVENANCE):
        annotations = {**annotations, meta.PROVENANCE: without_state(text)}
    info["annotations"], info["labels"] = annotations, info.get("labels") or {}
    content = {name: manifest[name] for name in manifest.keys() - _LEFT_OUT}
    content["metadata"] = info
    try:
        encoded = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        encoded = encode_content(content)
    return hashlib.blake2b(encoded, digest_size=16, key=key).digest()
