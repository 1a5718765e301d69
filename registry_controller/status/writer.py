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
from registry_controller.core.status.merge import merge_status, says_the_same, transitions
from registry_controller.report import logs

_log = logs.get_logger(__name__)

_EVERY_S: Final = 1.0
_BACKOFF_FIRST_S: Final = 1.0
_BACKOFF_MOST_S: Final = 60.0
_ECHO_S: Final = 5.0
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
class _Memory:
    """One object: the wish that waits, and what we know of our last write."""

    uid: str
    wish: _WantedStatus | None = None
    due_s: float = 0.0
    busy: bool = False
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
        speaks_of: Callable[[GVR, str], bool] = lambda *_: True,
    ) -> None:
        self._writer, self._now, self._on_transition = writer, now, on_transition
        self._speaks_of = speaks_of
        self._memories: dict[StatusKey, _Memory] = {}
        self._wake = asyncio.Event()

    def want(  # noqa: PLR0917  six that are always given
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
        conditions = [_observed(condition, generation=generation) for condition in status.get("conditions") or ()]
        wanted = {**status, "conditions": conditions} if "conditions" in status else status
        key = (gvr, name)
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = _Memory(uid)
        memory.wish = _WantedStatus(uid, wanted, current)
        if not self._speaks_of(gvr, name):
            memory.wish = None
        elif not memory.busy and self._patch_for(memory, memory.wish) is None:
            memory.wish = None
            memory.failures = 0
        else:
            self._wake.set()

    def drop(self, gvr: GVR, name: str) -> None:
        """Drop what is known of an object that is gone."""
        self._memories.pop((gvr, name), None)

    async def run(self) -> None:
        """Write what is wanted, forever."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                now_s = asyncio.get_running_loop().time()
                next_s = None
                for key, memory in list(self._memories.items()):
                    if memory.wish is None or memory.busy:
                        continue
                    if memory.due_s <= now_s:
                        memory.busy = True
                        group.create_task(self._write(key, memory, memory.wish), name=f"status {key[0]} {key[1]}")
                    else:
                        next_s = memory.due_s if next_s is None else min(next_s, memory.due_s)
                try:
                    async with asyncio.timeout_at(next_s):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    def _patch_for(self, memory: _Memory, wish: _WantedStatus) -> StatusDocument | None:
        """Compute what to write; None for nothing."""
        base = self._base(memory, wish)
        if memory.sent is not None and says_the_same(memory.sent, wish.status) and _same_but_times(memory.stored, base):
            return None  # sent before and answered with exactly this: the CRD prunes the rest
        now = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return merge_status(base, wish.status, now=now)

    def _base(self, memory: _Memory, wish: _WantedStatus) -> StatusDocument | None:
        """Choose what is stored: our own last answer, while the caller still shows what stood before it."""
        lagging = asyncio.get_running_loop().time() - memory.written_s < _ECHO_S
        if memory.stored is not None and lagging and _same_but_times(memory.before, wish.current):
            return memory.stored
        return wish.current

    async def _write(self, key: StatusKey, memory: _Memory, wish: _WantedStatus) -> None:
        """Write one object's status once; it is due again later when that failed or the wish has changed."""
        loop = asyncio.get_running_loop()
        delay_s = _EVERY_S
        try:
            base, patch = self._base(memory, wish), self._patch_for(memory, wish)
            if patch is not None:
                delay_s = await self._send(key, memory, wish, base=base, patch=patch)
            if memory.wish is wish and memory.failures == 0:
                memory.wish = None
        finally:
            memory.busy = False
            memory.due_s = loop.time() + delay_s
            self._wake.set()

    async def _send(
        self,
        key: StatusKey,
        memory: _Memory,
        wish: _WantedStatus,
        *,
        base: StatusDocument | None,
        patch: StatusDocument,
    ) -> float:
        """Send a patch; return the delay in seconds until the object may be written again."""
        gvr, name = key
        try:
            answer = _read(await self._writer.patch_status(gvr, ObjectKey("", name), {"status": patch}))
            # A uid in the patch is no precondition: a status subresource ignores metadata. So look afterwards.
            if _uid_of(answer) not in ("", wish.uid):
                raise Conflict(f"{gvr.resource} {name} is another object by now", status=409)
        except (NotFound, Conflict):  # gone, or another one: whoever sees it will want again
            if self._memories.get(key) is memory:
                del self._memories[key]
            memory.wish = None
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
        memory.sent, memory.before, memory.stored = wish.status, base, answer.get("status") or {}
        memory.written_s = asyncio.get_running_loop().time()
        if wish.status.get("conditions") and not memory.stored.get("conditions"):
            base = said if said is not None else wish.status  # pruned: only we know what was said, in this life
        if self._on_transition is not None:
            for condition in transitions(base, wish.status):
                self._on_transition(gvr, name, wish.uid, condition)
        return _EVERY_S


def _observed(condition: StatusDocument, *, generation: int) -> StatusDocument:
    return {"observedGeneration": generation, **condition} if generation else condition


def _read(answer: bytes) -> StatusDocument:
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _uid_of(answer: StatusDocument) -> str:
    return str((answer.get("metadata") or {}).get("uid") or "")


def _same_but_times(one: StatusDocument | None, other: StatusDocument | None) -> bool:
    return says_the_same(_without_times(one or {}), _without_times(other or {}))


def _without_times(status: StatusDocument) -> StatusDocument:
    conditions = status.get("conditions")
    if not isinstance(conditions, list | tuple):
        return status
    times = ("lastTransitionTime", "lastHeartbeatTime")
    bare = [{k: v for k, v in item.items() if k not in times} for item in conditions if isinstance(item, Mapping)]
    return {**status, "conditions": bare}
