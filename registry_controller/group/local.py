"""Reads and writes objects of the local cluster for an operator.

Laws: nothing is written to another cluster · a field of another manager changes by the operator's choice alone · an
object that was made again under its name is another object, which `delete` and the finalizers leave alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from registry_controller.api import meta
from registry_controller.api.errors import Conflict, InvalidObject, NotFound, RegistryError, ServerError
from registry_controller.api.meta import GVK, GVR, Manifest, ObjectKey, Target
from registry_controller.core.backoff import backoff_s
from registry_controller.group.arguments import check_scope
from registry_controller.group.local_access import LocalAccess
from registry_controller.group.objects import Object
from registry_controller.group.ownership import (
    Owner,
    OwnerMark,
    Propagation,
    check_propagation,
    encode_mark,
    read_owner,
)
from registry_controller.report.events import EventSeverity, Reference

_TRIES: Final = 5
_PAUSE_S, _PAUSE_CAP_S = 0.05, 1.0

T = TypeVar("T")


class LocalObjects:
    """The objects of the local cluster, for an operator.

    A request is sent again where the API server asks to come later (429). RegistryError for other failures: Forbidden
    names the missing right.
    """

    def __init__(self, access: LocalAccess) -> None:
        self._access = access

    async def get(self, resource: str, name: str, *, namespace: str = "") -> Object | None:
        """Read an object; None where it does not exist. `resource` is a word that kubectl takes, as `jobs.batch`."""
        async with self._access.use() as connected:
            kind, gvr = await self._access.find(resource)
            body = await connected.client.read_bytes(gvr, _key_of(gvr, namespace, name))
        return self._access.decode(body, kind) if body is not None else None

    async def apply(
        self,
        manifest: Manifest,
        *,
        owner: Owner | None = None,
        propagation: Propagation = "Background",
        force: bool = False,
    ) -> Object:
        """Apply an object with all the fields that the operator sets (server-side apply); return it as stored.

        `owner` marks it as owned by an object of a member; `propagation` is for the time when that is gone. Conflict
        where another manager has set a field to another value, unless `force` takes the field over. InvalidObject for
        a wrong argument.
        """
        target = _target_of(manifest)
        check_propagation(propagation)
        if owner is not None:
            mark = OwnerMark(owner, propagation, self._access.operator)
            text = encode_mark(mark, of=target, cluster=await self._access.cluster_id())
            manifest = _annotated(manifest, {meta.GROUP_OWNER: text})
        return await self._apply(manifest, target, force=force)

    async def apply_status(self, manifest: Manifest, *, force: bool = False) -> Object:
        """Apply the status of an object that exists; the manifest has apiVersion, kind, metadata and status alone."""
        return await self._apply(manifest, _target_of(manifest), force=force, subresource="status")

    async def delete(self, obj: Object, *, propagation: Propagation = "Background") -> None:
        """Delete an object; nothing happens where it is gone, or was made again.

        `propagation` is for the objects that it owns in this cluster. InvalidObject for another value.
        """
        check_propagation(propagation)

        async def attempt() -> None:
            found = await self._access.read_again(obj.kind, obj.key, uid=obj.uid)
            if found is not None:
                await self._access.delete(found, propagation=propagation)

        await _until_agreed(attempt)

    async def add_finalizer(self, obj: Object, finalizer: str) -> Object | None:
        """Add a finalizer, and return the object; None where it is gone, or was made again."""
        return await self._edit_finalizers(
            obj, lambda present: present if finalizer in present else [*present, finalizer]
        )

    async def remove_finalizer(self, obj: Object, finalizer: str) -> Object | None:
        """Remove a finalizer, and return the object; None where it is gone, or was made again."""
        return await self._edit_finalizers(obj, lambda present: [name for name in present if name != finalizer])

    def event(self, obj: Object, *, reason: str, message: str, type: EventSeverity = "Normal") -> None:  # noqa: A002
        """Write an Event about an object soon. It never fails; the same one within ten minutes raises a count.

        `reason` is one word in CamelCase. An object gets 25 Events at once, and then one every five minutes.
        """
        regarding = Reference(obj.kind, obj.namespace, obj.name, obj.uid)
        self._access.events.emit(regarding=regarding, type=type, reason=reason, message=message)

    async def owner_of(self, obj: Object) -> Owner | None:
        """Return the owner that `apply` gave to an object of this cluster; None without one."""
        return read_owner(obj, cluster=await self._access.cluster_id())

    async def _apply(self, manifest: Manifest, target: Target, *, force: bool, subresource: str = "") -> Object:
        group, _, version = manifest["apiVersion"].rpartition("/")
        kind = GVK(group, version, target.kind)
        async with self._access.use() as connected:
            gvr = await connected.discovery.resolve(kind)
            _key_of(gvr, *target.key)
            try:
                body = await connected.client.apply(
                    gvr, manifest, manager=self._access.operator, force=force, subresource=subresource
                )
            except (Conflict, NotFound, ServerError) as error:
                explained = _explain(error, target)
                if explained is error:
                    raise
                raise explained from error
        return self._access.decode(body, kind)

    async def _edit_finalizers(self, obj: Object, edit: Callable[[list[str]], list[str]]) -> Object | None:
        async def attempt() -> Object | None:
            found = await self._access.read_again(obj.kind, obj.key, uid=obj.uid)
            if found is None:
                return None
            present = list(meta.metadata_of(found.manifest).get("finalizers") or ())
            wanted = edit(present)
            return found if wanted == present else await self._access.patch(found, {"finalizers": wanted})

        return await _until_agreed(attempt)


def _explain(error: Conflict | NotFound | ServerError, target: Target) -> RegistryError:
    """Return the error of an apply, with what to do about it."""
    if isinstance(error, Conflict):
        advice = "leave out the fields that another manager has set, or take them over with force=True"
        return Conflict(f"{error}; {advice}", status=error.status, reason=error.reason)
    if isinstance(error, NotFound) and error.details_kind == "namespaces":
        return NotFound(f"{error}; create the namespace {target.namespace}", details_kind=error.details_kind)
    if isinstance(error, ServerError) and error.status == 500 and not error.reason:
        advice = "the kind may not have a field of the manifest: kubectl apply --server-side --dry-run=server names it"
        return ServerError(f"{error}; {advice}", status=error.status)
    return error


async def _until_agreed(attempt: Callable[[], Awaitable[T]]) -> T:
    """Read and write again where another client was faster; Conflict after the last try."""
    for number in range(_TRIES - 1):
        try:
            return await attempt()
        except Conflict:
            pause_s = backoff_s(number, base=_PAUSE_S, cap=_PAUSE_CAP_S, chance=random.random())  # noqa: S311
            await asyncio.sleep(pause_s)
    return await attempt()


def _key_of(gvr: GVR, namespace: str, name: str) -> ObjectKey:
    check_scope(namespace, is_namespaced=gvr.namespaced, kind=gvr)
    return ObjectKey(namespace, name)


def _target_of(manifest: Manifest) -> Target:
    """Return kind, namespace and name of a manifest; InvalidObject for one that has none, or wrong metadata."""
    if not isinstance(manifest, Mapping):
        raise InvalidObject(
            "manifest", f"must be a mapping with apiVersion, kind and metadata: {type(manifest).__name__}"
        )
    info = _mapping_at("metadata", manifest.get("metadata"))
    _mapping_at("metadata.annotations", info.get("annotations"))
    parts = {"apiVersion": manifest.get("apiVersion"), "kind": manifest.get("kind"), "metadata.name": info.get("name")}
    for path, value in parts.items():
        if not isinstance(value, str) or not value:
            raise InvalidObject(path, "is missing, or no text: the operator must name the object that it applies")
    namespace = info.get("namespace") or ""
    if not isinstance(namespace, str):
        raise InvalidObject("metadata.namespace", "must be a text")
    group = str(parts["apiVersion"]).rpartition("/")[0]
    return Target(group, str(parts["kind"]), namespace, str(parts["metadata.name"]))


def _mapping_at(path: str, value: object) -> Mapping[str, object]:
    """Return a mapping, an empty one for None; InvalidObject for another value."""
    if not isinstance(value, Mapping | None):
        raise InvalidObject(path, "must be a mapping")
    return value or {}


def _annotated(manifest: Manifest, annotations: Mapping[str, str]) -> Manifest:
    info = manifest["metadata"]
    return {**manifest, "metadata": {**info, "annotations": {**(info.get("annotations") or {}), **annotations}}}
