"""What one simulated API server keeps: objects, one resourceVersion for all of them, and what changed.

Law: an object is never changed in place; every change has a resourceVersion of its own, and what changes nothing none.
"""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from registry_controller.api.meta import ObjectKey
from tests.sim.cluster.fields import Manifest, copied, managed
from tests.sim.cluster.habits import Habits
from tests.sim.cluster.kinds import BY_KIND, Kind
from tests.sim.cluster.refusal import Refusal

_NAMESPACE = BY_KIND["Namespace"]
_DEFINITION = BY_KIND["CustomResourceDefinition"]
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a definition that is deleted: it stands for the deletion of all objects of its kind."""
_MADE = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "name",
    "namespace",
)


class Change(NamedTuple):
    """One step of history; `old` and `new` are None before and after an object's life.

    `before` is what was stored before; of what is deleted, `old` has the resourceVersion of the deletion.
    """

    revision: int
    kind: Kind
    key: ObjectKey
    old: Manifest | None
    new: Manifest | None
    before: Manifest | None


class Backup(NamedTuple):
    """What was there at some moment."""

    revision: int
    objects: dict[Kind, dict[ObjectKey, Manifest]]


class Store:
    """Objects of one cluster. `now` gives the time as Kubernetes spells it; `listeners` hear each change at once.

    `unknown` are the fields that it drops, as an older definition does: each a kind and the path of a field.
    `restored` hear that everything was put back.
    """

    def __init__(self, *, now: Callable[[], str], chance: random.Random) -> None:
        self.revision = chance.randrange(100, 1000)
        self.compacted = self.revision
        self._begun: dict[Kind, int] = {}
        self.history: list[Change] = []
        self.listeners: list[Callable[[Change], None]] = []
        self.restored: list[Callable[[], None]] = []
        self.now = now
        self.habits = Habits()
        self.unknown: set[tuple[str, ...]] = set()
        self._chance = chance
        self._objects: dict[Kind, dict[ObjectKey, Manifest]] = {}

    def all(self, kind: Kind) -> dict[ObjectKey, Manifest]:
        """List the objects of a kind by key."""
        return self._objects.setdefault(kind, {})

    def get(self, kind: Kind, key: ObjectKey) -> Manifest:
        """Find an object."""
        found = self.all(kind).get(key)
        if found is None:
            raise missing(kind, key)
        return found

    def compact(self) -> None:
        """Forget history: watches from before are Gone."""
        self.compacted = self.revision
        self.history.clear()

    def begin(self, kind: Kind) -> None:
        """Serve a kind from a new cache, as an API server does for a definition that is installed again."""
        self._begun[kind] = self.revision

    def is_gone(self, kind: Kind, since: int) -> bool:
        """Say whether the history of a kind after a revision is not known any more."""
        return since < max(self.compacted, self._begun.get(kind, 0))

    def backup(self) -> Backup:
        """Copy everything, as a snapshot of etcd does; objects are never changed in place."""
        return Backup(self.revision, {kind: dict(held) for kind, held in self._objects.items()})

    def restore(self, backup: Backup, *, bump: int = 0) -> None:
        """Put everything back as it was: the past is the present, and its history is not known.

        The objects keep their revisions; `bump` raises that of the store alone, as etcd's `--bump-revision` does.
        """
        self.revision = backup.revision + bump
        self._begun.clear()
        self._objects = {kind: dict(held) for kind, held in backup.objects.items()}
        self.compact()
        for hear in list(self.restored):
            hear()

    def new_uid(self) -> str:
        """Make a uid."""
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def create(
        self,
        kind: Kind,
        namespace: str,
        body: Manifest,
        *,
        manager: str,
        dry_run: bool = False,
        uid: str = "",
        born: str = "",
    ) -> Manifest:
        """Create an object; `uid` and `born` (creationTimestamp) are what no client can choose, but a test may."""
        info = body.get("metadata") or {}
        drawn = f"{info['generateName']}{self._chance.getrandbits(24):06x}" if info.get("generateName") else ""
        key = ObjectKey(namespace, info.get("name") or drawn)
        self._check_new(kind, key, info)
        made = {"name": key.name, "uid": uid or self.new_uid(), "creationTimestamp": born or self.now()}
        made |= {"namespace": namespace} if kind.namespaced else {}
        made |= {"generation": 1} if kind.tracks_generation else {}
        new = self.habits.stored_form(
            kind.kind, _shaped(kind, {**self._pruned(kind, body), "metadata": {**_settable(info), **made}}), None
        )
        if kind.has_status and kind != _NAMESPACE:
            new.pop("status", None)
        return self._commit(kind, key, None, new, manager=manager, dry_run=dry_run)

    def replace(
        self, kind: Kind, key: ObjectKey, body: Manifest, *, manager: str, subresource: str = "", dry_run: bool = False
    ) -> Manifest:
        """Replace an object, or its status; give back what is stored."""
        old = self.get(kind, key)
        info, was = body.get("metadata") or {}, old["metadata"]
        if info.get("resourceVersion") and info["resourceVersion"] != was["resourceVersion"]:
            raise conflict(kind, key, "the object has been modified; please apply your changes to the latest version")
        if info.get("uid") and info["uid"] != was["uid"]:
            raise conflict(kind, key, "Precondition failed: UID in precondition differs")
        new: dict[str, Any]
        if subresource == "status":
            made = self.habits.stored_form(kind.kind, {**old, "status": body.get("status")}, old)
            new = {**old, "status": made.get("status")}  # what admission changes elsewhere is dropped
        elif subresource == "scale":
            new = {**old, "spec": {**(old.get("spec") or {}), "replicas": body["spec"]["replicas"]}}
        else:
            kept = {name: was[name] for name in _MADE if name in was}
            new = self.habits.stored_form(
                kind.kind, _shaped(kind, {**self._pruned(kind, body), "metadata": {**_settable(info), **kept}}), old
            )
            if kind.has_status:
                new["status"] = old.get("status")
            _check_immutable(kind, key, old, new)
        if new.get("status") is None:
            new.pop("status", None)
        if kind.tracks_generation and _content(new) != _content(old):
            new["metadata"] = {**new["metadata"], "generation": was["generation"] + 1}
        if _bare(new) == _bare(old):
            return old
        if was.get("deletionTimestamp") and not new["metadata"].get("finalizers") and kind != _NAMESPACE:
            self._remove(kind, key, old)
            return new
        return self._commit(kind, key, old, new, manager=manager, subresource=subresource, dry_run=dry_run)

    def delete(self, kind: Kind, key: ObjectKey, *, uid: str = "", resource_version: str = "") -> Manifest:
        """Delete an object, or mark it where finalizers hold it, as one always holds a definition."""
        old = self.get(kind, key)
        info = old["metadata"]
        if kind == _DEFINITION and CLEANUP not in info.get("finalizers", ()):
            info = {**info, "finalizers": [*info.get("finalizers", ()), CLEANUP]}
        if (uid and uid != info["uid"]) or (resource_version and resource_version != info["resourceVersion"]):
            raise conflict(kind, key, "Precondition failed")
        if kind == _NAMESPACE or info.get("finalizers"):
            if not info.get("deletionTimestamp"):
                marked = {**old, "metadata": {**info, "deletionTimestamp": self.now()}}
                if kind == _NAMESPACE:
                    marked["status"] = {"phase": "Terminating"}
                return self._put(kind, key, old, marked)
            return old
        self._remove(kind, key, old)
        return old

    def finish(self, namespace: str) -> bool:
        """Empty a terminating namespace and end it, as the namespace controller does; say whether it is gone."""
        inside = [(kind, key) for kind, held in self._objects.items() for key in held if key.namespace == namespace]
        for kind, key in inside:
            self.delete(kind, key)
        if any(key in self.all(kind) for kind, key in inside):
            return False
        self._remove(_NAMESPACE, ObjectKey("", namespace), self.get(_NAMESPACE, ObjectKey("", namespace)))
        return True

    def finish_definition(self, key: ObjectKey, kind: Kind | None) -> bool:
        """Delete all objects of a terminating definition's kind, and then let it go; say whether all are deleted."""
        for held in list(self.all(kind)) if kind is not None else ():
            self.delete(kind, held)
        if kind is not None and self.all(kind):
            return False
        found = self.get(_DEFINITION, key)
        kept = [name for name in found["metadata"].get("finalizers", ()) if name != CLEANUP]
        freed = {**found, "metadata": {**found["metadata"], "finalizers": kept}}
        self.replace(_DEFINITION, key, freed, manager="kube-apiserver")
        return True

    def _check_new(self, kind: Kind, key: ObjectKey, info: Manifest) -> None:
        if not key.name:
            raise Refusal(422, "Invalid", "name or generateName is required")
        if info.get("resourceVersion"):
            raise Refusal(500, "InternalError", "resourceVersion should not be set on objects to be created")
        if kind.namespaced:
            if info.get("namespace", key.namespace) != key.namespace:
                raise Refusal(400, "BadRequest", "the namespace of the object does not match the request")
            home = self.get(_NAMESPACE, ObjectKey("", key.namespace))
            if home["metadata"].get("deletionTimestamp"):
                causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
                details = {"name": key.name, "kind": kind.plural, "causes": causes}
                raise Refusal(403, "Forbidden", "the namespace is being terminated", details)
        if key in self.all(kind):
            raise Refusal(409, "AlreadyExists", f"{key} already exists", details_of(kind, key))

    def _pruned(self, kind: Kind, body: Manifest) -> Manifest:
        for held, *path in self.unknown:
            body = _without(body, path) if held == kind.kind else body
        return body

    def _commit(
        self,
        kind: Kind,
        key: ObjectKey,
        old: Manifest | None,
        new: Manifest,
        *,
        manager: str,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Manifest:
        entries = managed(
            old, new, manager=manager, subresource=subresource, api_version=kind.api_version, now=self.now()
        )
        new = {**new, "metadata": {**new["metadata"], **({"managedFields": entries} if entries else {})}}
        if dry_run:
            version = {"resourceVersion": old["metadata"]["resourceVersion"]} if old else {}
            return {**new, "metadata": {**new["metadata"], **version}}
        return self._put(kind, key, old, new)

    def _put(self, kind: Kind, key: ObjectKey, old: Manifest | None, new: Manifest) -> Manifest:
        self.revision += 1
        stored = copied({**new, "metadata": {**new["metadata"], "resourceVersion": str(self.revision)}})
        self.all(kind)[key] = stored
        self._tell(Change(self.revision, kind, key, old, stored, old))
        return stored

    def _remove(self, kind: Kind, key: ObjectKey, old: Manifest) -> None:
        self.revision += 1
        del self.all(kind)[key]
        last = copied({**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}})
        self._tell(Change(self.revision, kind, key, last, None, old))

    def _tell(self, change: Change) -> None:
        self.history.append(change)
        for listener in list(self.listeners):
            listener(change)


def _settable(info: Manifest) -> dict[str, Any]:
    """Take from metadata what a client may say; the server drops empties."""
    names = ("labels", "annotations", "finalizers", "ownerReferences", "generateName")
    return {name: info[name] for name in names if info.get(name)}


def _shaped(kind: Kind, body: Manifest) -> dict[str, Any]:
    """Give an object its defaults, and drop the empties that built-in kinds do not store."""
    new = {**body, "apiVersion": kind.api_version, "kind": kind.kind}
    if kind.kind == "Namespace":
        name = new["metadata"]["name"]
        labels = {**(new["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
        new["metadata"] = {**new["metadata"], "labels": labels}
        new |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    if kind.kind == "Secret":
        new["data"] = {**(new.get("data") or {}), **_encoded(new.pop("stringData", None) or {})}
        new["type"] = new.get("type") or "Opaque"
    if kind.kind == "Deployment":
        new["spec"] = {"replicas": 1, **(new.get("spec") or {})}
    for name in ("data", "binaryData"):
        if not kind.custom and not new.get(name):
            new.pop(name, None)
    return new


def _encoded(texts: Manifest) -> dict[str, str]:

    return {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}


def _without(value: Any, path: Sequence[str]) -> Any:
    """Drop a field; `*` stands for every element of a list."""
    if not path or not isinstance(value, dict | list):
        return value
    first, *rest = path
    if isinstance(value, list):
        return [_without(item, rest) for item in value] if first == "*" else value
    below = {} if not rest or first not in value else {first: _without(value[first], rest)}
    return {name: item for name, item in value.items() if name != first} | below


def _content(manifest: Manifest) -> dict[str, Any]:
    return {name: value for name, value in manifest.items() if name not in ("metadata", "status")}


def _bare(manifest: Manifest) -> dict[str, Any]:
    """Take what makes an update one: all but what every update changes."""
    left_out = ("managedFields", "resourceVersion")
    return {**manifest, "metadata": {k: v for k, v in manifest["metadata"].items() if k not in left_out}}


_FIXED = {
    "Secret": ["type"],
    "Pod": ["spec.hostname"],
    "Deployment": ["spec.selector"],
    "CustomResourceDefinition": ["spec.scope"],
}
"""What no update may change, by kind."""


def _at(manifest: Manifest, path: str) -> Any:
    found: Any = manifest
    for name in path.split("."):
        found = (found or {}).get(name)
    return found


def _check_immutable(kind: Kind, key: ObjectKey, old: Manifest, new: Manifest) -> None:
    fixed = _FIXED.get(kind.kind, [])
    if old.get("immutable") and kind.kind in ("Secret", "ConfigMap"):
        fixed = [*fixed, "data", "immutable"]
    for path in fixed:
        if _at(old, path) != _at(new, path):
            causes = [{"reason": "FieldValueInvalid", "message": "field is immutable", "field": path}]
            raise Refusal(422, "Invalid", "field is immutable", {**details_of(kind, key), "causes": causes})


def details_of(kind: Kind, key: ObjectKey) -> dict[str, Any]:
    """Name an object in a Status."""
    return {"name": key.name, "kind": kind.plural, **({"group": kind.group} if kind.group else {})}


def missing(kind: Kind, key: ObjectKey) -> Refusal:
    """Say that an object is not there."""
    return Refusal(404, "NotFound", f'{kind.plural} "{key.name}" not found', details_of(kind, key))


def conflict(kind: Kind, key: ObjectKey, why: str) -> Refusal:
    """Say that somebody was faster."""
    return Refusal(
        409, "Conflict", f"Operation cannot be fulfilled on {kind.plural} {key.name}: {why}", details_of(kind, key)
    )
