"""An open watch: what is there, or what changed since, and then every change."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import orjson

from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.request import Request, matcher, select
from tests.sim.cluster.store import Change, Store


class Watch:
    """An open watch. `lines` are what was not read yet; `wake` is called when there are some.

    A cache that is behind begins `lag` changes ago, where history reaches back that far, and catches up later.
    """

    def __init__(self, store: Store, request: Request, *, lag: int = 0, behind_s: float = 0.0) -> None:
        self.lines: deque[bytes] = deque()
        self.wake: Callable[[], None] = lambda: None
        self._store = store
        self._request = request
        self._kind = request.kind
        self._matches = matcher(request)
        self._bookmarks = request.query.get("allowWatchBookmarks") == "true"
        initial = request.query.get("sendInitialEvents") == "true"
        self.timeout_s = float(request.query.get("timeoutSeconds") or 1800)
        since = request.query.get("resourceVersion", "")
        self._late: list[Change] | None = None
        self._since = int(since) if since and not initial else 0
        if initial or since in ("", "0"):
            missed = store.history[-lag:] if lag else []
            for found in select(store, request, without=missed):
                self._say("ADDED", request.shown(found))
            if initial:
                self.bookmark(ends=True, revision=missed[0].revision - 1 if missed else None)
            if missed:
                self._late = missed
                asyncio.get_running_loop().call_later(behind_s, self._catch_up)
        elif store.is_gone(self._kind, int(since)):
            said = {"code": 410, "reason": "Expired", "message": "too old resource version"}
            self._say("ERROR", {"kind": "Status", "status": "Failure", **said})
        else:
            for change in store.history:
                if change.revision > int(since):
                    self.hear(change)
        store.listeners.append(self.hear)

    def hear(self, change: Change) -> None:
        """Hear of a change anywhere in the cluster."""
        if self._late is not None:
            self._late.append(change)
            return
        if change.kind != self._kind or change.revision <= self._since:
            return
        was = change.old is not None and self._matches(change.old)
        if change.new is not None and self._matches(change.new):
            self._say("MODIFIED" if was else "ADDED", self._request.shown(change.new))
        elif was and change.old is not None:
            info = {**change.old["metadata"], "resourceVersion": str(change.revision)}
            self._say("DELETED", self._request.shown({**change.old, "metadata": info}))

    def _catch_up(self) -> None:
        late, self._late = self._late or [], None
        for change in late:
            self.hear(change)

    def bookmark(self, *, ends: bool = False, revision: int | None = None) -> None:
        """Say where history stands."""
        if not self._bookmarks or self._late is not None or self._store.revision < self._since:
            return
        info: dict[str, Any] = {"resourceVersion": str(self._store.revision if revision is None else revision)}
        if ends:
            info["annotations"] = {"k8s.io/initial-events-end": "true"}
        named = {"kind": self._kind.kind, "apiVersion": self._request.api_version}
        self._say("BOOKMARK", self._request.shown({**named, "metadata": info}))

    def close(self) -> None:
        """Forget this watch."""
        self._store.listeners.remove(self.hear)

    def _say(self, event_type: str, manifest: Manifest) -> None:
        self.lines.append(orjson.dumps({"type": event_type, "object": manifest}) + b"\n")
        self.wake()
