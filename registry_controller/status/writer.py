"""Writes the status of Clusters and ResourceSyncRules; no other component does.

Laws: of several daemons, one writes an object's status · a status is written only when it changes, at most once a
second an object · the last wanted status wins, and none is lost · fields that an older CRD prunes are written once ·
one object's failure delays no other object.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from registry_controller.api.errors import Conflict, NotFound, RegistryError
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.api.meta import revision as read_revision
from registry_controller.core.backoff import backoff_s
from registry_controller.core.status.merge import find_transitions, is_same_status, merge_status
from registry_controller.kube.writer import StatusClient
from registry_controller.report import logs

_log = logs.get_logger(__name__)

_INTERVAL_S: Final = 1.0
_BACKOFF_FIRST_S: Final = 1.0
_BACKOFF_MAX_S: Final = 60.0
_CACHE_LAG_S: Final = 5.0
"""The time by which the caller's cache may lag behind the writer's last write."""

StatusDocument = Mapping[str, Any]
StatusKey = tuple[GVR, str]
OnTransition = Callable[[GVR, str, str, StatusDocument], None]
"""Receives the resource, the object's name and uid, and a condition whose status or reason changed, once stored."""


@dataclass(frozen=True, slots=True)
class _WantedStatus:
    uid: str
    status: StatusDocument
    current: StatusDocument | None


@dataclass(slots=True)
class _ObjectState:
    """One object: the status that is to be written, and the last write: `sent`, `before` it and `stored` by it.

    `revision` is the object's resourceVersion after that write.
    """

    uid: str
    wanted: _WantedStatus | None = None
    due_s: float = 0.0
    is_writing: bool = False
    failures: int = 0
    sent: StatusDocument | None = None
    before: StatusDocument | None = None
    stored: StatusDocument | None = None
    revision: int = 0
    written_s: float = field(default=float("-inf"))


class StatusWriter:
    """Writes wanted statuses. All methods must be called in the event loop in which `run` runs."""

    def __init__(
        self,
        client: StatusClient,
        now: Callable[[], datetime],
        *,
        on_transition: OnTransition | None = None,
        writes_status_of: Callable[[GVR, str], bool] = lambda *_: True,
    ) -> None:
        self._client, self._now, self._on_transition = client, now, on_transition
        self._writes_status_of = writes_status_of
        self._objects: dict[StatusKey, _ObjectState] = {}
        self._wake = asyncio.Event()

    def set_wanted(
        self,
        gvr: GVR,
        name: str,
        *,
        status: StatusDocument,
        current: StatusDocument | None,
        uid: str,
        generation: int,
        revision: int = 0,
    ) -> None:
        """Set the wanted status of an object. `current` is the stored status in the caller's cache, at `revision`.

        `status` is as for `merge_status`; its conditions get `generation` (0: none) as observedGeneration.
        """
        conditions = [_set_generation(condition, generation=generation) for condition in status.get("conditions") or ()]
        wanted = {**status, "conditions": conditions} if "conditions" in status else status
        key = (gvr, name)
        state = self._objects.get(key)
        if state is None or state.uid != uid:
            state = self._objects[key] = _ObjectState(uid, due_s=state.due_s if state is not None else 0.0)
        state.wanted = _WantedStatus(uid, wanted, current)
        if not self._writes_status_of(gvr, name):
            state.wanted = None
        elif not state.is_writing and self._build_patch(state, state.wanted) is None:
            state.failures = 0
            is_overwritten = revision > state.revision  # by another daemon here: neither writes again
            if is_overwritten or self._get_base(state, state.wanted) is state.wanted.current:
                state.wanted = None
            else:  # the cache may be late, or the last write was lost with the history of the server
                state.due_s = max(state.due_s, state.written_s + _CACHE_LAG_S)
                self._wake.set()
        else:
            self._wake.set()

    def drop(self, gvr: GVR, name: str) -> None:
        """Forget an object that was deleted."""
        self._objects.pop((gvr, name), None)

    async def run(self) -> None:
        """Write wanted statuses until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                now_s = asyncio.get_running_loop().time()
                next_s = None
                for key, state in list(self._objects.items()):
                    if state.wanted is None or state.is_writing:
                        continue
                    if state.due_s <= now_s:
                        state.is_writing = True
                        group.create_task(self._write(key, state, state.wanted), name=f"status {key[0]} {key[1]}")
                    else:
                        next_s = state.due_s if next_s is None else min(next_s, state.due_s)
                try:
                    async with asyncio.timeout_at(next_s):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    def _build_patch(self, state: _ObjectState, wanted: _WantedStatus) -> StatusDocument | None:
        """Return the patch to write; None when the stored status is the wanted one."""
        base = self._get_base(state, wanted)
        if (
            state.sent is not None
            and is_same_status(state.sent, wanted.status)
            and _is_same_but_times(state.stored, base)
        ):
            return None  # the server stored this when it was sent before: the CRD prunes the other fields
        now = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return merge_status(base, wanted.status, now=now)

    def _get_base(self, state: _ObjectState, wanted: _WantedStatus) -> StatusDocument | None:
        """Return the stored status: that of the last write, while the caller's cache still has the one before it."""
        lagging = asyncio.get_running_loop().time() - state.written_s < _CACHE_LAG_S
        if state.stored is not None and lagging and _is_same_but_times(state.before, wanted.current):
            return state.stored
        return wanted.current

    async def _write(self, key: StatusKey, state: _ObjectState, wanted: _WantedStatus) -> None:
        """Write one object's status once; it is due again when the write failed or the wanted status has changed."""
        loop = asyncio.get_running_loop()
        delay_s = _INTERVAL_S
        try:
            base, patch = self._get_base(state, wanted), self._build_patch(state, wanted)
            if patch is not None:
                delay_s = await self._send(key, state, wanted, base=base, patch=patch)
            if state.wanted is wanted and state.failures == 0:
                state.wanted = None
        finally:
            state.is_writing = False
            state.due_s = loop.time() + delay_s
            self._wake.set()

    async def _send(
        self,
        key: StatusKey,
        state: _ObjectState,
        wanted: _WantedStatus,
        *,
        base: StatusDocument | None,
        patch: StatusDocument,
    ) -> float:
        """Send a patch; return the delay in seconds until the object may be written again."""
        gvr, name = key
        try:
            answer = _read_answer(await self._client.patch_status(gvr, ObjectKey("", name), {"status": patch}))
            # A uid in the patch is no precondition, because a status subresource ignores metadata. Check it afterwards.
        except (NotFound, Conflict):  # the reporter sets the status of a new object again
            if self._objects.get(key) is state:
                del self._objects[key]
            state.wanted = None
            return 0.0
        except RegistryError as error:
            state.failures += 1
            if state.failures == 1:
                _log.warning("cannot write status", resource=gvr.resource, name=name, error=str(error))
            else:
                _log.debug("cannot write status again", resource=gvr.resource, name=name, error=str(error))
            chance = random.uniform(0.5, 1.0)  # noqa: S311  jitter
            delay_s = backoff_s(state.failures - 1, base=_BACKOFF_FIRST_S, cap=_BACKOFF_MAX_S, chance=chance)
            return max(error.retry_after_s, delay_s)
        if _read_uid(answer) not in ("", wanted.uid):  # the cache is late: this wrote to the object that replaced it
            state.wanted = state.sent = state.stored = None
            return _INTERVAL_S
        sent_before = state.sent
        state.failures = 0
        state.sent, state.before, state.stored = wanted.status, base, answer.get("status") or {}
        state.revision = _read_revision(answer)
        state.written_s = asyncio.get_running_loop().time()
        if wanted.status.get("conditions") and not state.stored.get("conditions"):
            # The CRD prunes conditions: the last ones that this process sent are the only record of them.
            base = sent_before if sent_before is not None else wanted.status
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


def _read_revision(answer: StatusDocument) -> int:
    return read_revision((answer.get("metadata") or {}).get("resourceVersion"))


def _is_same_but_times(one: StatusDocument | None, other: StatusDocument | None) -> bool:
    return is_same_status(_strip_times(one or {}), _strip_times(other or {}))


def _strip_times(status: StatusDocument) -> StatusDocument:
    conditions = status.get("conditions")
    if not isinstance(conditions, list | tuple):
        return status
    times = ("lastTransitionTime", "lastHeartbeatTime")
    bare = [{k: v for k, v in item.items() if k not in times} for item in conditions if isinstance(item, Mapping)]
    return {**status, "conditions": bare}
