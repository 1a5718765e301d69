"""Hears one kind in one cluster over a connection of its own: a list, a watch, and both again when it breaks off.

Law: nothing here imports anything of the daemon, and what was heard once is not forgotten.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.history import PATHS, Heard, Manifest, Place

_RETRY_S = 0.2
_SILENT_S = 20.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A cluster as the observer knows it. daemon_logs: a folder, with a log for each of its daemons."""

    name: str
    port: int
    server_ca: Path
    certificate: Path
    key: Path
    audit_log: Path
    daemon_logs: Path


class Recorder(threading.Thread):
    """Hears one kind in one cluster for as long as the observer lives: a list, a watch, and both again when it breaks
    off. epoch: how often the cluster's etcd had been put back before.
    """

    def __init__(self, watched: Watched, kind: str, *, epoch: int = 0) -> None:
        super().__init__(name=f"observer-{watched.name}-{kind}", daemon=True)
        self.states: list[Heard] = []
        self.epoch = epoch
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

    @contextlib.contextmanager
    def _ask(self, query: str) -> Iterator[http.client.HTTPResponse | None]:
        """Ask; None stands for an answer that is of no use."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._watched.port, timeout=_SILENT_S, context=self._tls)
        try:
            connection.request("GET", f"{PATHS[self._kind]}?{query}", headers={"Accept": "application/json"})
            with connection.getresponse() as response:
                if response.status == 410:
                    self._revision = 0
                if response.status != 200:
                    self.ended.wait(_RETRY_S)
                yield response if response.status == 200 else None
        finally:
            connection.close()

    def _list(self) -> None:
        epoch = self.epoch
        with self._ask("") as response:
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
        query = f"watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={self._revision}"
        with self._ask(query) as response:
            while response is not None and (line := response.readline()):
                if self.ended.is_set() or epoch != self.epoch or not self._take(json.loads(line), epoch=epoch):
                    return

    def _take(self, event: dict[str, Any], *, epoch: int) -> bool:
        """Take an event in; False when its server wants a new list."""
        manifest = event["object"]
        if event["type"] == "ERROR":
            self._revision = 0
            return False
        revision = int(manifest["metadata"]["resourceVersion"])
        if event["type"] == "DELETED":
            self._hear(manifest, epoch=epoch, gone_at=revision)
        elif event["type"] != "BOOKMARK":
            self._hear(manifest, epoch=epoch)
        if epoch == self.epoch:
            self._revision = revision
        return True

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
        self.states.append(Heard(place, time.time(), manifest, bool(gone_at), revision, epoch))
