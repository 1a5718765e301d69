"""The observer: hears every cluster over connections of its own, reads every audit log, and says what was broken.

It stands beside the edges, not behind them, and speaks as the administrator. Law: nothing here imports anything of the daemon.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tests.faults.history import (
    ACCOUNT,
    PATHS,
    READER,
    Heard,
    History,
    Manifest,
    Place,
    merge,
    read_writes,
)  # fmt: skip
from tests.faults.laws import Verdict, judge
from tests.faults.making import Copy, is_core, is_never_copied, make, owner_of

_RETRY_S = 0.2
_SILENT_S = 20.0
_READS = frozenset({"get", "list", "watch"})
_KUBERNETES = ("system:kube-", "system:apiserver", "system:serviceaccount:kube-", "system:anonymous")
_MAY_WRITE = frozenset(
    {"clusters", "clusterfeatures", "resourcesyncrules", "secrets", "events", "serviceaccounts", "configmaps", "widgets",
     "namespaces", "subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"}
)  # fmt: skip


class Api(Protocol):
    """How an administrator reads; ApiError of the test bed is an Exception."""

    def get(self, path: str) -> Manifest: ...


@dataclass(frozen=True, slots=True)
class Watched:
    """A cluster as the observer knows it."""

    name: str
    port: int
    server_ca: Path
    certificate: Path
    key: Path
    audit_log: Path
    daemon_log: Path


class Recorder(threading.Thread):
    """Hears one kind in one cluster for as long as the observer lives: a list, a watch, and both again when it breaks off."""

    def __init__(self, watched: Watched, kind: str) -> None:
        super().__init__(name=f"observer-{watched.name}-{kind}", daemon=True)
        self.heard: list[Heard] = []
        self.epoch = 0
        self.ended = threading.Event()
        self.current = threading.Event()
        self._watched, self._kind = watched, kind
        self._known: dict[Place, Manifest] = {}
        self._revision = 0
        self._tls = ssl.create_default_context(cafile=str(watched.server_ca))
        self._tls.load_cert_chain(watched.certificate, watched.key)

    def put_back(self) -> None:
        """Take note that the cluster's past was put in the place of its present; it is down while this is called."""
        self.epoch += 1
        self._revision = 0

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                if not self._revision:
                    self._list()
                self.current.set()
                self._watch()
            except (OSError, ValueError, KeyError, http.client.HTTPException):
                self.ended.wait(_RETRY_S)

    def _ask(self, query: str) -> http.client.HTTPResponse | None:
        connection = http.client.HTTPSConnection("127.0.0.1", self._watched.port, timeout=_SILENT_S, context=self._tls)
        connection.request("GET", f"{PATHS[self._kind]}?{query}", headers={"Accept": "application/json"})
        response = connection.getresponse()
        if response.status == 200:
            return response
        response.read()
        connection.close()
        if response.status == 410:
            self._revision = 0
        self.ended.wait(_RETRY_S)
        return None

    def _list(self) -> None:
        epoch = self.epoch
        response = self._ask("")
        if response is None:
            raise OSError("refused")
        found = json.loads(response.read())
        revision = int(found["metadata"]["resourceVersion"])
        gone = dict(self._known)
        for item in found["items"]:
            gone.pop(self._place(item), None)
            self._hear({**item, "kind": self._kind}, epoch=epoch)
        for manifest in gone.values():
            self._hear(manifest, epoch=epoch, gone_at=revision)
        self._revision = revision

    def _watch(self) -> None:
        epoch = self.epoch
        response = self._ask(f"watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={self._revision}")
        if response is None:
            return
        while (line := response.readline()) and not self.ended.is_set() and epoch == self.epoch:
            event = json.loads(line)
            manifest = event["object"]
            if event["type"] == "ERROR":
                self._revision = 0
                return
            revision = int(manifest["metadata"]["resourceVersion"])
            if event["type"] == "DELETED":
                self._hear(manifest, epoch=epoch, gone_at=revision)
            elif event["type"] != "BOOKMARK":
                self._hear(manifest, epoch=epoch)
            if epoch == self.epoch:
                self._revision = revision

    def _place(self, manifest: Manifest) -> Place:
        info = manifest["metadata"]
        return Place(self._watched.name, self._kind, info.get("namespace", ""), info["name"])

    def _hear(self, manifest: Manifest, *, epoch: int, gone_at: int = 0) -> None:
        place = self._place(manifest)
        revision = gone_at or int(manifest["metadata"]["resourceVersion"])
        if gone_at:
            self._known.pop(place, None)
        else:
            self._known[place] = manifest
        self.heard.append(Heard(place, time.time(), manifest, bool(gone_at), revision, epoch))


@dataclass
class Observer:
    """The recorders of a group, and the laws on what they heard."""

    canaries: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("ConfigMap", "Secret", "ResourceSyncRule")
    watched: list[Watched] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    recorders: dict[tuple[str, str], Recorder] = field(default_factory=dict)
    restored: dict[str, list[float]] = field(default_factory=dict)
    absent: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    lines: int = 0

    def watch(self, watched: Watched, *, cluster_id: str) -> None:
        """Hear one more cluster from now on."""
        self.watched.append(watched)
        self.ids[watched.name] = cluster_id
        for kind in self.kinds:
            recorder = self.recorders[watched.name, kind] = Recorder(watched, kind)
            recorder.start()
        for kind in self.kinds:
            assert self.recorders[watched.name, kind].current.wait(30), f"{kind} of {watched.name} cannot be watched"

    def watch_kind(self, kind: str) -> None:
        """Hear one more kind, in all clusters."""
        self.kinds = (*self.kinds, kind)
        for one in self.watched:
            recorder = self.recorders[one.name, kind] = Recorder(one, kind)
            recorder.start()
            assert recorder.current.wait(30), f"{kind} of {one.name} cannot be watched"

    def forget_kind(self, kind: str) -> None:
        """Ask for a kind no more, because it is gone; what was heard of it stays."""
        self.kinds = tuple(one for one in self.kinds if one != kind)
        for (_, heard), recorder in self.recorders.items():
            if heard == kind:
                recorder.ended.set()

    def put_back(self, name: str) -> None:
        """Take note that a cluster's etcd is put back to an older copy, while it is down."""
        self.restored.setdefault(name, []).append(time.time())
        for (cluster, _), recorder in self.recorders.items():
            if cluster == name:
                recorder.put_back()

    def leaves(self, name: str) -> None:
        """Take note that a cluster leaves the group from now on."""
        self.absent.setdefault(name, []).append((time.time(), float("inf")))

    def joins(self, name: str) -> None:
        """Take note that it has joined again."""
        begins, _ = self.absent[name].pop()
        self.absent[name].append((begins, time.time()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for recorder in self.recorders.values():
            recorder.ended.set()

    def history(self) -> History:
        """Put together what was heard and what the audit logs say."""
        writes = [write for one in self.watched for write in read_writes(one.name, _audit(one.audit_log))]
        heard = [event for recorder in self.recorders.values() for event in list(recorder.heard)]
        history = merge(writes, heard, ids=self.ids, restored=self.restored)
        history.absent = {name: list(times) for name, times in self.absent.items()}
        return history

    def judge(self, texts: Mapping[str, str]) -> Verdict:
        """Hold everything that must have held all the time. `texts`: where canaries are looked for, beside the logs."""
        verdict = judge(self.history())
        for one in self.watched:
            audit = _audit(one.audit_log)
            self.lines += len(audit)
            check_callers(verdict, one.name, audit)
            if one.daemon_log.exists():
                check_secrecy(
                    verdict, self.canaries, f"the log of {one.name}", one.daemon_log.read_text(errors="replace")
                )
        for where, text in texts.items():
            check_secrecy(verdict, self.canaries, where, text)
        return verdict


def _audit(log: Path) -> list[Manifest]:
    if not log.exists():
        return []
    found = []
    for line in log.read_bytes().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # half a line, of an API server that was killed or that writes it now
    return found


def check_callers(verdict: Verdict, cluster: str, lines: Iterable[Manifest]) -> None:
    """peers: a reader gets, lists and watches, and nothing else; nobody writes but the cluster's own, to what it may."""
    for line in lines:
        user, verb = line["user"].get("username", ""), line["verb"]
        verdict.count("peers")
        words = f"{verb} {line['requestURI']} by {user}"
        if user == READER and verb not in _READS:
            verdict.broken("peers", cluster, words, [])
        elif verb in _READS or not user or user == "kubernetes-admin" or user.startswith(_KUBERNETES):
            continue
        elif user != ACCOUNT or (line.get("objectRef") or {}).get("resource") not in _MAY_WRITE:
            verdict.broken("peers", cluster, words, [])


def check_secrecy(verdict: Verdict, canaries: Iterable[str], where: str, text: str) -> None:
    """secrecy: no planted secret is in a text, plain or in base64."""
    verdict.count("secrecy")
    for canary in canaries:
        for spelled in (canary, base64.b64encode(canary.encode()).decode().rstrip("=")):
            if spelled in text:
                at = text.index(spelled)
                verdict.broken(
                    "secrecy", where, "shows a planted secret", [text[max(0, at - 120) : at].splitlines()[-1]]
                )


def differences(objects: Mapping[str, list[Manifest]], ids: Mapping[str, str]) -> list[str]:
    """end: say in what the clusters are not what they must come to; `objects` are all of the workload's kinds, by cluster.

    Of several owners the older object wins, then the lower cluster ID; a native object keeps its place.
    """
    wrong = []
    for local, held in objects.items():
        found = {_key(manifest): manifest for manifest in held if not is_never_copied(manifest)}
        wanted: dict[tuple[str, str, str], tuple[str, str, Copy]] = {}
        for rule in held:
            if rule["kind"] != "ResourceSyncRule" or is_core(rule):
                continue
            for owner, offered in objects.items():
                for source in offered if owner != local else ():
                    copy = None if owner_of(source) else make(source, rule, owner=ids[owner])
                    if copy is not None:
                        claim = (source["metadata"]["creationTimestamp"], ids[owner], copy)
                        key = (copy.kind, copy.namespace, copy.name)
                        wanted[key] = min(wanted.get(key, claim), claim, key=lambda one: one[:2])
        for key, (_, _, copy) in wanted.items():
            there = found.get(key)
            if there is None:
                wrong.append(f"{local} has no {' '.join(key)}")
            elif owner_of(there) and (said := copy.differs(there)):
                wrong.append(f"{local}: {' '.join(key)}: {said}")
        wrong += [
            f"{local}: {' '.join(key)} is left over"
            for key, manifest in found.items()
            if owner_of(manifest) and key[0] != "ResourceSyncRule" and key not in wanted
        ]
    return wrong


def _key(manifest: Manifest) -> tuple[str, str, str]:
    info = manifest["metadata"]
    return manifest["kind"], info.get("namespace", ""), info["name"]


def read_all(api: Any, kinds: Iterable[str]) -> list[Manifest]:
    """Read all objects of the workload's kinds, with their kind in them."""
    return [{**item, "kind": kind} for kind in kinds for item in api.get(PATHS[kind])["items"]]
