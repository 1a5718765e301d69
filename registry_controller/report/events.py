"""Kubernetes Events about our own objects, on transitions.

Laws: emitting an Event never waits and never fails · the same Event within ten minutes raises a count and is not
created again · an object gets 25 Events at once, and then one every five minutes, as with client-go.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from registry_controller.api.errors import (
    NotFound,
    RegistryError,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from registry_controller.api.meta import FIELD_MANAGER, GVK, GVR, ObjectKey
from registry_controller.kube.writer import EventWriter
from registry_controller.report import logs

_log = logs.get_logger(__name__)

EVENTS: Final = GVR("", "v1", "events", True)
_QUEUE: Final = 1000
_REMEMBERED: Final = 2000
_AGGREGATE_S: Final = 10 * 60.0
_PATCH_EVERY_S: Final = 60.0
_BURST: Final = 25.0
_REFILL_S: Final = 5 * 60.0
_TRIES_AFTER_S: Final = (1.0, 3.0, 10.0)
_MESSAGE_BYTES: Final = 1024

EventSeverity = Literal["Normal", "Warning"]


class Reference(NamedTuple):
    """The object that an Event is about. `namespace` is empty for cluster-scoped kinds."""

    gvk: GVK
    namespace: str
    name: str
    uid: str


class _Occurrence(NamedTuple):
    regarding: Reference
    type: EventSeverity
    reason: str
    message: str


@dataclass(slots=True)
class _Series:
    """An Event that was written, and how often it was emitted since."""

    key: ObjectKey
    count: int
    last: datetime
    emitted_s: float
    written_s: float
    unwritten: bool = False


class EventRecorder:
    """Records Events. `instance` is the name of this daemon's Pod, `namespace` the Pod's namespace.

    `component` is the reporting controller.
    `on_result` receives the result of each Event: written, aggregated, limited, dropped or failed.
    """

    def __init__(
        self,
        writer: EventWriter,
        *,
        namespace: str,
        instance: str,
        component: str = FIELD_MANAGER,
        on_result: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer, self._on_result, self._now, self._monotonic_s = writer, on_result, now, monotonic_s
        self._instance, self._component = f"{namespace}/{instance}"[:128], component
        self._queue: deque[_Occurrence] = deque()
        self._wake = asyncio.Event()
        self._series: OrderedDict[_Occurrence, _Series] = OrderedDict()
        self._buckets: OrderedDict[Reference, tuple[float, float]] = OrderedDict()
        self._numbers = itertools.count()

    def emit(self, *, regarding: Reference, type: EventSeverity, reason: str, message: str) -> None:  # noqa: A002
        """Queue an Event and return at once. Call it in the event loop of `run`."""
        text = message.encode()[:_MESSAGE_BYTES].decode(errors="ignore")
        if len(self._queue) >= _QUEUE:
            self._queue.popleft()
            self._on_result("dropped")
        self._queue.append(_Occurrence(regarding, type, reason, text))
        self._wake.set()

    async def run(self) -> None:
        """Write queued Events, forever. An Event that the API server refuses is counted and dropped."""
        while True:
            self._wake.clear()
            await self.flush()
            await self._write_due()
            pending = any(series.unwritten for series in self._series.values())
            try:
                async with asyncio.timeout(_PATCH_EVERY_S / 12 if pending else None):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def flush(self) -> None:
        """Write the queued Events once; for the end, when `run` does not run any more."""
        while self._queue:
            await self._record(self._queue.popleft())

    async def _record(self, occurrence: _Occurrence) -> None:
        now_s = self._monotonic_s()
        series = self._series.get(occurrence)
        if series is not None and now_s - series.emitted_s < _AGGREGATE_S:
            series.count += 1
            series.last, series.emitted_s, series.unwritten = self._now(), now_s, True
            self._series.move_to_end(occurrence)
            self._on_result("aggregated")
        elif self._take_token(occurrence.regarding, now_s=now_s):
            await self._create(occurrence)
        else:
            self._on_result("limited")

    async def _write_due(self) -> None:
        """Write the counts of repeated Events, each at most once a minute."""
        for occurrence, series in list(self._series.items()):
            now_s = self._monotonic_s()
            if not series.unwritten:
                if now_s - series.emitted_s >= _AGGREGATE_S:
                    del self._series[occurrence]
            elif now_s - series.written_s >= _PATCH_EVERY_S:
                series.written_s = now_s
                if self._take_token(occurrence.regarding, now_s=now_s):
                    await self._patch(occurrence, series)

    async def _create(self, occurrence: _Occurrence) -> None:
        moment, now_s = self._now(), self._monotonic_s()
        regarding = occurrence.regarding
        # For an object without a namespace, the API server accepts Events in this namespace only.
        stem = re.sub(r"[^a-z0-9.-]", "-", regarding.name.lower())[:200].strip(".-") or "event"
        key = ObjectKey(
            regarding.namespace or "default", f"{stem}.{int(moment.timestamp() * 1e6):x}{next(self._numbers):x}"
        )
        body = json.dumps(self._manifest(occurrence, key=key, moment=moment)).encode()
        if await self._try(lambda: self._writer.create(EVENTS, key.namespace, body)):
            self._series[occurrence] = _Series(key, 1, moment, now_s, now_s)
            while len(self._series) > _REMEMBERED:
                self._series.popitem(last=False)
            self._on_result("written")

    async def _patch(self, occurrence: _Occurrence, series: _Series) -> None:
        patch = {"count": series.count, "lastTimestamp": _rfc3339(series.last)}
        series.unwritten = False
        try:
            await self._try(lambda: self._writer.merge_patch(EVENTS, series.key, patch))
        except NotFound:  # Events live for an hour
            del self._series[occurrence]
            await self._create(occurrence)

    async def _try(self, write: Callable[[], Any]) -> bool:
        """Write, and retry while the server is in trouble; raise NotFound, and count other errors as failed."""
        for delay_s in (*_TRIES_AFTER_S, None):
            try:
                await write()
            except (ServerError, TooManyRequests, Unreachable) as error:
                if delay_s is not None:
                    await asyncio.sleep(max(delay_s, error.retry_after_s))
                    continue
                _log.debug("cannot write an Event", error=str(error))
            except NotFound as error:
                if error.names_object:
                    raise
                _log.debug("cannot write an Event", error=str(error))
            except RegistryError as error:
                _log.warning("cannot write an Event", error=str(error))
            else:
                return True
            self._on_result("failed")
            return False
        raise AssertionError("the last try returns")

    def _manifest(self, occurrence: _Occurrence, *, key: ObjectKey, moment: datetime) -> dict[str, Any]:
        regarding = occurrence.regarding
        involved = {
            "apiVersion": regarding.gvk.api_version,
            "kind": regarding.gvk.kind,
            "name": regarding.name,
            "uid": regarding.uid,
        }
        if regarding.namespace:
            involved["namespace"] = regarding.namespace
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "involvedObject": involved,
            "type": occurrence.type,
            "reason": occurrence.reason,
            "message": occurrence.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": _rfc3339(moment),
            "lastTimestamp": _rfc3339(moment),
            "count": 1,
        }

    def _take_token(self, regarding: Reference, *, now_s: float) -> bool:
        """Take a token from the object's bucket; return False when the bucket is empty."""
        tokens, at_s = self._buckets.pop(regarding, (_BURST, now_s))
        tokens = min(_BURST, tokens + (now_s - at_s) / _REFILL_S)
        self._buckets[regarding] = (tokens - 1.0 if tokens >= 1.0 else tokens, now_s)
        while len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return tokens >= 1.0


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
