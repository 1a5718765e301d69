"""The observer: hears every cluster over connections of its own, reads every audit log, and says what was broken.

It stands beside the edges, not behind them, and speaks as the administrator. Law: nothing here imports anything of
the daemon.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tests.chaos.history import (
    ACCOUNT,
    BINDING,
    PATHS,
    READER,
    History,
    Manifest,
    merge,
    moment,
    read_writes,
    stamp,
)  # fmt: skip
from tests.chaos.laws import Verdict, judge
from tests.chaos.making import Copy, is_core, is_never_copied, make, owner_of
from tests.chaos.membership import judge_membership
from tests.chaos.recorder import Recorder, Watched

_TICK_S = 0.001  # the log cuts microseconds off
_READS = frozenset({"get", "list", "watch"})
_KUBERNETES = ("system:kube-", "system:apiserver", "system:serviceaccount:kube-", "system:anonymous")
_MAY_WRITE = frozenset(
    {"clusters", "clusterfeatures", "resourcesyncrules", "secrets", "events", "serviceaccounts", "configmaps",
     "widgets", "namespaces", "leases", "subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"}
)  # fmt: skip


class Api(Protocol):
    """How an administrator reads; ApiError of the test bed is an Exception."""

    def get(self, path: str) -> Manifest: ...


@dataclass(frozen=True, slots=True)
class Lie:
    """By how much an API server lies about the time, since a moment (s since 1970), and a position in its audit log."""

    position: int
    since: float
    offset_s: float


@dataclass
class Observer:
    """The recorders of a group, and the laws on what they heard."""

    canaries: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("ConfigMap", "Secret", *BINDING)
    watched: list[Watched] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    recorders: dict[tuple[str, str], Recorder] = field(default_factory=dict)
    restored: dict[str, list[float]] = field(default_factory=dict)
    absent: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    lies: dict[str, list[Lie]] = field(default_factory=dict)
    lines: int = 0
    _searched: dict[tuple[str, str], int] = field(default_factory=dict)

    def watch(self, watched: Watched, *, cluster_id: str) -> None:
        """Hear one more cluster from now on."""
        self.watched.append(watched)
        self.ids[watched.name] = cluster_id
        for kind in self.kinds:
            self._record(watched, kind).start()
        for kind in self.kinds:
            assert self.recorders[watched.name, kind].current.wait(30), f"{kind} of {watched.name} cannot be watched"

    def watch_kind(self, kind: str, *, of: Container[str]) -> None:
        """Hear one more kind, in the clusters that have it."""
        self.kinds = (*self.kinds, kind)
        for one in self.watched:
            if one.name not in of:
                continue
            recorder = self._record(one, kind)
            recorder.start()
            assert recorder.current.wait(30), f"{kind} of {one.name} cannot be watched"

    def _record(self, watched: Watched, kind: str) -> Recorder:
        """Make a recorder that counts the times of its cluster as the audit log's reader does."""
        recorder = Recorder(watched, kind, epoch=len(self.restored.get(watched.name, ())))
        self.recorders[watched.name, kind] = recorder
        return recorder

    def forget_kind(self, kind: str) -> None:
        """Ask for a kind no more, because it is gone; what was heard of it stays."""
        self.kinds = tuple(one for one in self.kinds if one != kind)
        for (_, states), recorder in self.recorders.items():
            if states == kind:
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

    def lied(self, name: str, offset_s: float) -> None:
        """Take note that a cluster's API server lies about the time by so much, from now on."""
        log = next(one.audit_log for one in self.watched if one.name == name)
        self.lies.setdefault(name, [Lie(0, 0.0, 0.0)]).append(Lie(log.stat().st_size, time.time(), offset_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for recorder in self.recorders.values():
            recorder.ended.set()
        for recorder in self.recorders.values():
            recorder.join(5)

    def history(self) -> History:
        """Put together what was heard and what the audit logs say."""
        writes = [
            write
            for one in self.watched
            for write in read_writes(one.name, _audit(one.audit_log, self.lies.get(one.name, ())))
        ]
        states = [event for recorder in self.recorders.values() for event in list(recorder.states)]
        history = merge(writes, states, ids=self.ids, restored=self.restored)
        history.absent = {name: list(times) for name, times in self.absent.items()}
        return history

    def judge(self, texts: Mapping[str, str]) -> Verdict:
        """Hold everything that must have held all the time. `texts`: where canaries are looked for, beside the logs."""
        history = self.history()
        verdict = judge(history)
        judge_membership(history, verdict)
        for one in self.watched:
            audit = _audit(one.audit_log)
            self.lines += len(audit)
            check_callers(verdict, one.name, audit)
            for log in one.daemon_logs.glob("*.log"):
                where = f"the log {log.name} of {one.name}"
                check_secrecy(verdict, self.canaries, where, log.read_text(errors="replace"))
        for where, text in texts.items():
            check_secrecy(verdict, self.canaries, where, text)
        self._search(verdict)
        return verdict

    def _search(self, verdict: Verdict) -> None:
        """Look for canaries in each state of each object that was heard since the last time, its conditions too."""
        for key, recorder in self.recorders.items():
            states = recorder.states[self._searched.get(key, 0) :]
            self._searched[key] = self._searched.get(key, 0) + len(states)
            for event in states:
                hidden = ("data",) if event.place.kind == "Secret" else ()
                shown = {name: value for name, value in event.object.items() if name not in hidden}
                check_secrecy(verdict, self.canaries, f"{event.place} @{event.revision}", json.dumps(shown))


def righted(at: float, lies: Sequence[Lie], *, number: int) -> float:
    """Say when it was, by a clock that told the lie of that number, or one of its neighbours (s since 1970)."""

    def wrong_s(number: int) -> float:
        """By how much that lie was over, or not told yet, when it would have been."""
        until = lies[number + 1].since if number + 1 < len(lies) else float("inf")
        when = at - lies[number].offset_s
        return max(lies[number].since - when, when - until, _TICK_S)

    near = (number, number - 1, number + 1)
    told = min((one for one in near if 0 <= one < len(lies)), key=wrong_s)
    return at - lies[told].offset_s


def _audit(log: Path, lies: Sequence[Lie] = ()) -> list[Manifest]:
    if not log.exists():
        return []
    found, end = [], 0
    for line in log.read_bytes().splitlines(keepends=True):
        position, end = end, end + len(line)
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # half a line, of an API server that was killed or that writes it now
        # Written down late it is of the lie before; and a lie is told before its position is read.
        number = sum(lie.position <= position for lie in lies) - 1
        for when in ("requestReceivedTimestamp", "stageTimestamp") if lies else ():
            found[-1][when] = stamp(righted(moment(found[-1][when]), lies, number=number))
    return found


def check_callers(verdict: Verdict, cluster: str, lines: Iterable[Manifest]) -> None:
    """peers: a reader gets, lists and watches only; nobody writes but the cluster's own daemon, to what it may."""
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
    """end: say in what the clusters are not what they must come to; `objects` are all of the workload's kinds, by
    cluster.

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
            if owner_of(manifest) and key[0] not in BINDING and key not in wanted
        ]
    return wrong


def _key(manifest: Manifest) -> tuple[str, str, str]:
    info = manifest["metadata"]
    return manifest["kind"], info.get("namespace", ""), info["name"]


def read_all(api: Any, kinds: Iterable[str]) -> list[Manifest]:
    """Read all objects of the workload's kinds, with their kind in them."""
    return [{**item, "kind": kind} for kind in kinds for item in api.get(PATHS[kind])["items"]]
