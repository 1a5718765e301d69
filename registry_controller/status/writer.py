"""The one writer of the status of our own kinds.

Laws: of several daemons only the one that speaks of an object writes its status; only when that says something new,
at most once a second an object, the last wish wins and none is lost; what an older CRD prunes is never written again
and again; one object's failure delays no other.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from registry_controller.api.errors import Conflict, NotFound, RegistryError
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.core.status.merge import find_transitions, is_same_status, merge_status
from registry_controller.report import logs

_log = logs.get_logger(__name__)

_INTERVAL_S: Final = 1.0
_BACKOFF_FIRST_S: Final = 1.0
_BACKOFF_MOST_S: Final = 60.0
_CACHE_LAG_S: Final = 5.0
"""How long the caller's cache may lag behind our own write."""

StatusDocument = Mapping[str, Any]
StatusKey = tuple[GVR, str]
OnTransition = Callable[[GVR, str, str, StatusDocument], None]
"""Told the resource, the object's name and uid, and the condition whose status or reason changed, once it is stored."""


class StatusClient(Protocol):
    """What the status writer needs of the local API server."""

    async def patch_status(self, gvr: GVR, key: ObjectKey, patch: Mapping[str, Any]) -> bytes:
        """Merge `patch` into an object's status; return what is stored."""


@dataclass(frozen=True, slots=True)
class _WantedStatus:
    uid: str
    status: StatusDocument
    current: StatusDocument | None


@dataclass(slots=True)
class _ObjectState:
    """One object: the wish that waits, and what we know of our last write."""

    uid: str
    wanted: _WantedStatus | None = None
    due_s: float = 0.0
    is_writing: bool = False
    failures: int = 0
    sent: StatusDocument | None = None
    before: StatusDocument | None = None
    stored: StatusDocument | None = None
    written_s: float = field(default=float("-inf"))


class StatusWriter:
    """Write what is wanted. All methods belong to the event loop in which `run` runs."""

    def __init__(
        self,
        writer: StatusClient,
        now: Callable[[], datetime],
        *,
        on_transition: OnTransition | None = None,
        writes_status_of: Callable[[GVR, str], bool] = lambda *_: True,
    ) -> None:
        self._writer, self._now, self._on_transition = writer, now, on_transition
        self._writes_status_of = writes_status_of
        self._objects: dict[StatusKey, _ObjectState] = {}
        self._wake = asyncio.Event()

    def set_wanted(  # noqa: PLR0917  six that are always given
        self,
        gvr: GVR,
        name: str,
        status: StatusDocument,
        current: StatusDocument | None,
        uid: str,
        generation: int,
    ) -> None:
        """Remember what an object's status shall be. `current` is the stored one as the caller knows it.

        `status` as in `core.statusmerge.merge_status`; its conditions get `generation` (0: none) as observedGeneration.
        """
        conditions = [_set_generation(condition, generation=generation) for condition in status.get("conditions") or ()]
        wanted = {**status, "conditions": conditions} if "conditions" in status else status
        key = (gvr, name)
        memory = self._objects.get(key)
        if memory is None or memory.uid != uid:
            memory = self._objects[key] = _ObjectState(uid)
        memory.wanted = _WantedStatus(uid, wanted, current)
        if not self._writes_status_of(gvr, name):
            memory.wanted = None
        elif not memory.is_writing and self._build_patch(memory, memory.wanted) is None:
            memory.wanted = None
            memory.failures = 0
        else:
            self._wake.set()

    def drop(self, gvr: GVR, name: str) -> None:
        """Drop what is known of an object that is gone."""
        self._objects.pop((gvr, name), None)

    async def run(self) -> None:
        """Write what is wanted, forever."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                now_s = asyncio.get_running_loop().time()
                next_s = None
                for key, memory in list(self._objects.items()):
                    if memory.wanted is None or memory.is_writing:
                        continue
                    if memory.due_s <= now_s:
                        memory.is_writing = True
                        group.create_task(self._write(key, memory, memory.wanted), name=f"status {key[0]} {key[1]}")
                    else:
                        next_s = memory.due_s if next_s is None else min(next_s, memory.due_s)
                try:
                    async with asyncio.timeout_at(next_s):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    def _build_patch(self, memory: _ObjectState, wanted: _WantedStatus) -> StatusDocument | None:
        """Compute what to write; None for nothing."""
        base = self._get_base(memory, wanted)
        if (
            memory.sent is not None
            and is_same_status(memory.sent, wanted.status)
            and _is_same_but_times(memory.stored, base)
        ):
            return None  # sent before and answered with exactly this: the CRD prunes the rest
        now = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return merge_status(base, wanted.status, now=now)

    def _get_base(self, memory: _ObjectState, wanted: _WantedStatus) -> StatusDocument | None:
        """Choose what is stored: our own last answer, while the caller still shows what stood before it."""
        lagging = asyncio.get_running_loop().time() - memory.written_s < _CACHE_LAG_S
        if memory.stored is not None and lagging and _is_same_but_times(memory.before, wanted.current):
            return memory.stored
        return wanted.current

    async def _write(self, key: StatusKey, memory: _ObjectState, wanted: _WantedStatus) -> None:
        """Write one object's status once; it is due again later when that failed or the wish has changed."""
        loop = asyncio.get_running_loop()
        delay_s = _INTERVAL_S
        try:
            base, patch = self._get_base(memory, wanted), self._build_patch(memory, wanted)
            if patch is not None:
                delay_s = await self._send(key, memory, wanted, base=base, patch=patch)
            if memory.wanted is wanted and memory.failures == 0:
                memory.wanted = None
        finally:
            memory.is_writing = False
            memory.due_s = loop.time() + delay_s
            self._wake.set()

    async def _send(
        self,
        key: StatusKey,
        memory: _ObjectState,
        wanted: _WantedStatus,
        *,
        base: StatusDocument | None,
        patch: StatusDocument,
    ) -> float:
        """Send a patch; return the delay in seconds until the object may be written again."""
        gvr, name = key
        try:
            answer = _read_answer(await self._writer.patch_status(gvr, ObjectKey("", name), {"status": patch}))
            # A uid in the patch is no precondition: a status subresource ignores metadata. So look afterwards.
            if _read_uid(answer) not in ("", wanted.uid):
                raise Conflict(f"{gvr.resource} {name} is another object by now", status=409)
        except (NotFound, Conflict):  # gone, or another one: whoever sees it will want again
            if self._objects.get(key) is memory:
                del self._objects[key]
            memory.wanted = None
            return 0.0
        except RegistryError as error:
            memory.failures += 1
            say = _log.warning if memory.failures == 1 else _log.debug
            say("cannot write a status", resource=gvr.resource, name=name, problem=str(error))
            limit_s = min(_BACKOFF_FIRST_S * 2.0 ** min(memory.failures - 1, 10), _BACKOFF_MOST_S)
            asked_s = error.retry_after_s
            return max(asked_s, limit_s * random.uniform(0.5, 1.0))  # noqa: S311  jitter
        said = memory.sent
        memory.failures = 0
        memory.sent, memory.before, memory.stored = wanted.status, base, answer.get("status") or {}
        memory.written_s = asyncio.get_running_loop().time()
        if wanted.status.get("conditions") and not memory.stored.get("conditions"):
            base = said if said is not None else wanted.status  # pruned: only we know what was said, in this life
        if self._on_transition is not None:
            for condition in find_transitions(base, wanted.status):
                self._on_transition(gvr, name, wanted.uid, condition)
        return _INTERVAL_S


def _set_generation(condition: StatusDocument, *, generation: int) -> StatusDocument:
    return {"observedGeneration": generation, **condition} if generation else condition


def _read_answer(answer: bytes) -> StatusDocument:
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _read_uid(answer: StatusDocument) -> str:
    return str((answer.get("metadata") or {}).get("uid") or "")


def _is_same_but_times(one: StatusDocument | None, other: StatusDocument | None) -> bool:
    return is_same_status(_strip_times(one or {}), _strip_times(other or {}))


def _strip_times(status: StatusDocument) -> StatusDocument:
    conditions = status.get("conditions")
    if not isinstance(conditions, list | tuple):
        return status
    times = ("lastTransitionTime", "lastHeartbeatTime")
    bare = [{k: v for k, v in item.items() if k not in times} for item in conditions if isinstance(item, Mapping)]
    return {**status, "conditions": bare}
