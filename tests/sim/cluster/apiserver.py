"""A simulated API server, at the level of HTTP: method, path, query and bytes in; status and bytes out.

Law: it answers as a real one does wherever the daemon can see a difference, and nothing in it waits or sleeps.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from registry_controller.api.meta import ObjectKey
from tests.sim.cluster import discovery
from tests.sim.cluster.fields import Manifest, merged
from tests.sim.cluster.habits import Habits
from tests.sim.cluster.kinds import BY_DEFINITION, BY_KIND, KINDS, Kind
from tests.sim.cluster.loop import BEGIN_S
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.request import PARTIAL, Answer, Request, parse, select
from tests.sim.cluster.store import Backup, Change, Store
from tests.sim.cluster.watch import Watch

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_NAMESPACE = BY_KIND["Namespace"]
_DEFINITION = BY_KIND["CustomResourceDefinition"]
_HELD = "sim.example/held"
"""The finalizer of a definition that somebody keeps from going."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Write(NamedTuple):
    """A request that meant to change something. `changed` says whether it did.

    `is_blind` says that it deletes whatever has the name: it lacks the uid or the resourceVersion.
    """

    at: float
    who: str
    verb: str
    kind: str
    key: ObjectKey
    status: int
    changed: bool
    is_blind: bool


class Snapshot(NamedTuple):
    """All that an API server keeps, at one moment."""

    backup: Backup
    tokens: frozenset[str]


class ApiServer:
    """One cluster's API server. `tokens` are those that it accepts; the admin's needs none.

    It serves custom kinds in the versions that their definitions say, where there are any. What may be wrong with it:
    `skew_s` seconds lie between its clock and the others', and `clock_ahead` whole days, for its daemon, too; the kinds
    in `unserved` are not there, those in `unreadable` (a kind, or with it a label selector or an object's key) may not
    be read, those in `denied` (a kind, or with it a name) may not be written, those in `refused` (a kind and a name)
    are refused as that says, those in `unmakeable` only when they are created, in dry runs, too; `trouble` are the
    answers that come next, whatever is asked.
    `generation` says how often the cluster was built before: each time it has another CA.
    `acting` is who is writing at this moment, empty for people and controllers.
    """

    def __init__(self, name: str, *, chance: random.Random, uid: str = "", begins: Snapshot | None = None) -> None:
        self.name = name
        self.url = f"https://{name}.sim:6443"
        self.generation = 0
        self.journal: list[Write] = []
        self.renewals: list[Write] = []
        """The writes of Leases, which never rest."""
        self.store = Store(now=self.now, chance=chance)
        self.tokens: set[str] = set()
        self.skew_s = 0.0
        self.clock_ahead = timedelta()
        self.unreadable: set[str] = set()
        self.denied: set[str] = set()
        self.has_denied = False
        self.refused: dict[str, Refusal] = {}
        self.unmakeable: dict[str, Refusal] = {}
        self.trouble: deque[Answer] = deque()
        self.acting = ""
        self._versions = {kind: (kind.version,) if kind.installed else () for kind in KINDS}
        self._documents: dict[str, bytes] = {}
        self._terminating: set[Kind] = set()
        self.store.listeners.append(self._hear)
        self._pages: dict[str, tuple[int, list[Manifest]]] = {}
        if begins is not None:
            self.store.restore(begins.backup)
            self.tokens.update(begins.tokens)
            return
        for namespace in ("kube-system", "default"):
            body = {"metadata": {"name": namespace}}
            self.store.create(
                _NAMESPACE, "", body, manager="kube-apiserver", uid=uid if namespace == "kube-system" else ""
            )
        for kind in ("ResourceSyncRule", "ClusterFeature"):
            self.change_served(kind, served=True)

    @property
    def uid(self) -> str:
        """The ID of the cluster."""
        return str(self.store.get(_NAMESPACE, ObjectKey("", "kube-system"))["metadata"]["uid"])

    @property
    def habits(self) -> Habits:
        """What it makes of the objects that it is sent."""
        return self.store.habits

    @property
    def unserved(self) -> set[str]:
        """List the kinds whose definitions serve no version."""
        return {kind.kind for kind, versions in self._versions.items() if kind.installed and not versions}

    def now(self) -> str:
        """Tell the time as Kubernetes spells it."""
        return (_EPOCH + timedelta(seconds=_now() - BEGIN_S + self.skew_s)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def snapshot(self) -> Snapshot:
        """Take all that is kept."""
        return Snapshot(self.store.backup(), frozenset(self.tokens))

    def answer(self, method: str, path: str, body: bytes | None, *, who: str, accept: str = "") -> Answer:
        """Answer anything but a watch; `accept` is the header."""
        if self.trouble:
            return self.trouble.popleft()
        if method == "GET" and (document := self._document(urlsplit(path).path)):
            return Answer(200, document)
        try:
            answer = _json(200, self._serve(method, path, body, who=who, accept=accept))
        except Refusal as refused:
            return _refuse(refused)
        return answer if method == "GET" else answer._replace(warnings=self._warn(path, body))

    def _warn(self, path: str, body: bytes | None) -> tuple[str, ...]:
        """Name the fields that a definition lacks, where the client wants to know them."""
        request = parse(path)
        if request.query.get("fieldValidation") != "Warn":
            return ()
        unknown = self.habits.unknown(request.kind.kind, orjson.loads(body or b"{}"))
        return tuple(f'299 - "unknown field \\"{place}\\""' for place in unknown)

    def watch(self, path: str, *, accept: str = "", lag: int = 0, behind_s: float = 0.0) -> Watch | Answer:
        """Open a watch, on a cache that is `lag` changes behind what is stored, and for so long."""
        if self.trouble:
            return self.trouble.popleft()
        try:
            request = self._readable(self._served(path)).accepting(accept)
            return Watch(self.store, request, lag=lag, behind_s=behind_s)
        except Refusal as refused:
            return _refuse(refused)

    def compact(self) -> None:
        """Forget history, and every continuation."""
        self.store.compact()
        self._pages.clear()

    def change_served(self, kind: str, *, served: bool) -> None:
        """Serve a kind, or no longer; what is stored of it stays. Its definition says so."""
        self.change_versions(kind, BY_KIND[kind].versions[:1] if served else ())

    def terminate(self, kind: str) -> None:
        """Delete a definition, which a finalizer holds until the next change of what is served.

        Nothing of the kind can be created from now on.
        """
        found = BY_KIND[kind]
        if self.store.all(_DEFINITION).get(found.definition) is None:
            self.change_served(kind, served=True)
        held = self.store.get(_DEFINITION, found.definition)
        kept = {**held, "metadata": {**held["metadata"], "finalizers": [_HELD]}}
        self.store.replace(_DEFINITION, found.definition, kept, manager="kubectl")
        self.store.delete(_DEFINITION, found.definition)

    def is_terminating(self, kind: str) -> bool:
        """Say whether a definition is about to go."""
        return BY_KIND[kind] in self._terminating

    def check_created(self, kind: Kind) -> None:
        """Refuse to create an object whose definition is about to go."""
        if kind in self._terminating:
            raise Refusal(405, "MethodNotAllowed", "create not allowed while custom resource definition is terminating")

    def serves(self, kind: str) -> bool:
        """Say whether a kind is served in any version."""
        return bool(self._versions[BY_KIND[kind]])

    def change_versions(self, kind: str, served: Iterable[str]) -> None:
        """Serve a kind in these versions, and no others."""
        found, wanted = BY_KIND[kind], set(served)
        if found in self._terminating:
            held = self.store.get(_DEFINITION, found.definition)
            kept = {**held, "metadata": {**held["metadata"], "finalizers": []}}
            self.store.replace(_DEFINITION, found.definition, kept, manager="kube-apiserver")
            if not wanted:
                return
        info = {"name": found.definition.name}
        versions = [{"name": version, "served": version in wanted} for version in found.versions]
        names = {"kind": found.kind, "plural": found.plural}
        scope = "Namespaced" if found.namespaced else "Cluster"
        spec = {"group": found.group, "versions": versions, "names": names, "scope": scope}
        definition = {"kind": _DEFINITION.kind, "metadata": info, "spec": spec}
        if self.store.all(_DEFINITION).get(found.definition) is None:
            self.store.create(_DEFINITION, "", definition, manager="kubectl")
        else:
            self.store.replace(_DEFINITION, found.definition, definition, manager="kubectl")

    def _hear(self, change: Change) -> None:
        if change.kind is _DEFINITION and (kind := BY_DEFINITION.get(change.key.name)) is not None:
            said = change.new["spec"]["versions"] if change.new is not None else ()
            served = tuple(version["name"] for version in said if version["served"])
            if served and not self._versions[kind]:
                self.store.begin(kind)
            self._versions[kind] = served
            is_going = change.new is not None and "deletionTimestamp" in change.new["metadata"]
            (self._terminating.add if is_going else self._terminating.discard)(kind)
            self._documents.clear()

    def _document(self, path: str) -> bytes | None:
        """Answer questions about the server itself."""
        if path == "/openapi/v3":
            return orjson.dumps(discovery.schemas(self._versions, changes=self.habits.changes))
        if not self._documents:
            documents = discovery.documents(self.url, self._versions, terminating=self._terminating)
            self._documents = {place: orjson.dumps(found) for place, found in documents.items()}
        return self._documents.get(path)

    def _served(self, path: str) -> Request:
        request = parse(path)
        if request.version not in self._versions[request.kind]:
            raise Refusal(404, "", "404 page not found")
        return request

    def _readable(self, request: Request) -> Request:
        kind = request.kind
        part = str(request.key) if request.key.name else request.query.get("labelSelector", "")
        if not self.unreadable.isdisjoint((kind.kind, f"{kind.kind} {part}")):
            words = f'{kind.plural} is forbidden: User "someone" cannot read resource "{kind.plural}"'
            raise Refusal(403, "Forbidden", words, {"kind": kind.plural, "group": kind.group})
        return request

    def _serve(self, method: str, path: str, body: bytes | None, *, who: str, accept: str) -> Manifest:
        request = self._served(path).accepting(accept)
        if method == "GET":
            return self._read(self._readable(request))
        before, status = self.store.revision, 500
        manifest = orjson.loads(body or b"{}")
        self.acting = who
        try:
            name = request.key.name or _name(manifest)
            if not self.denied.isdisjoint((request.kind.kind, f"{request.kind.kind} {name}")):
                self.has_denied = True
                raise Refusal(403, "Forbidden", "a policy of this cluster does not allow it")
            if method != "DELETE" and (refusal := self.refused.get(f"{request.kind.kind} {name}")) is not None:
                raise refusal
            stored = self._write(method, request, manifest)
            status = 200
        except Refusal as refused:
            status = refused.code
            raise
        finally:
            self.acting = ""
            key = request.key if request.key.name else request.key._replace(name=_name(manifest))
            if not request.query.get("dryRun"):
                changed = self.store.revision != before
                verb = _VERBS[method] + (f" {request.subresource}" if request.subresource else "")
                journal = self.renewals if request.kind.kind == "Lease" else self.journal
                judged = manifest.get("preconditions") or {}
                is_blind = method == "DELETE" and not (judged.get("uid") and judged.get("resourceVersion"))
                journal.append(Write(_now(), who, verb, request.kind.kind, key, status, changed, is_blind))
        return stored

    def _write(self, method: str, request: Request, body: dict[str, Any]) -> Manifest:
        kind, key, dry = request.kind, request.key, bool(request.query.get("dryRun"))
        if dry and (refusal := self.habits.refusal_of_dry_runs(kind.kind)) is not None:
            raise refusal
        manager = request.query.get("fieldManager", "unknown")
        if method in ("POST", "PUT") and body.get("apiVersion", request.api_version) != request.api_version:
            raise Refusal(400, "BadRequest", "the API version in the data does not match the expected API version")
        if (method == "POST" and not key.name) or self._applies_new(method, request):
            self.check_created(kind)
            if (refusal := self.unmakeable.get(f"{kind.kind} {_name(body)}")) is not None:
                raise refusal  # before it finds that the name is taken
            return request.shown(self.store.create(kind, key.namespace, body, manager=manager, dry_run=dry))
        if method == "DELETE":
            judged = body.get("preconditions") or {}
            self.store.delete(kind, key, uid=judged.get("uid", ""), resource_version=judged.get("resourceVersion", ""))
            return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        if method == "PATCH":
            body = merged(self.store.get(kind, key), body)
        elif method != "PUT":
            raise Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        elif kind.custom and not (body.get("metadata") or {}).get("resourceVersion"):
            raise Refusal(422, "Invalid", "metadata.resourceVersion: Invalid value: must be specified for an update")
        if _name(body) != key.name:
            raise Refusal(400, "BadRequest", "the name of the object does not match the name on the URL")
        subresource = request.subresource
        stored = self.store.replace(kind, key, body, manager=manager, subresource=subresource, dry_run=dry)
        return request.shown(stored)

    def _applies_new(self, method: str, request: Request) -> bool:
        """Say whether a server-side apply creates what is missing."""
        is_applied = method == "PATCH" and "force" in request.query and not request.subresource
        return is_applied and request.key not in self.store.all(request.kind)

    def _read(self, request: Request) -> Manifest:
        if request.key.name:
            return request.shown(self.store.get(request.kind, request.key))
        return self._list(request)

    def _list(self, request: Request) -> Manifest:
        kind, token = request.kind, request.query.get("continue", "")
        if token:
            if token not in self._pages:
                raise Refusal(410, "Expired", "The provided continue parameter is too old")
            revision, items = self._pages[token]
        else:
            revision, items = self.store.revision, select(self.store, request)
        limit = int(request.query.get("limit") or 0) or len(items)
        info: Manifest = {"resourceVersion": str(revision)}
        if len(items) > limit:
            if not {"labelSelector", "fieldSelector"} & request.query.keys():
                info["remainingItemCount"] = len(items) - limit
            info["continue"] = base64.b64encode(f"{revision}:{len(self._pages)}".encode()).decode()
            self._pages[info["continue"]] = (revision, items[limit:])
        is_typed = kind.custom or request.metadata_only
        shown = [request.shown(item) if is_typed else _untyped(item) for item in items[:limit]]
        listed = {"kind": f"{kind.kind}List", "apiVersion": request.api_version}
        if request.metadata_only:
            listed = {"kind": f"{PARTIAL['kind']}List", "apiVersion": PARTIAL["apiVersion"]}
        return {**listed, "metadata": info, "items": shown}


def _now() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return BEGIN_S


def _name(manifest: Manifest) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "")


def _untyped(item: Manifest) -> Manifest:
    return {name: value for name, value in item.items() if name not in ("apiVersion", "kind")}


def _json(status: int, document: Manifest) -> Answer:
    return Answer(status, orjson.dumps(document))


def _refuse(refused: Refusal) -> Answer:
    if not refused.reason:
        return Answer(refused.code, f"{refused.message}\n".encode())
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    said = {"message": refused.message, "reason": refused.reason, "code": refused.code}
    return _json(refused.code, status | said | ({"details": refused.details} if refused.details else {}))
