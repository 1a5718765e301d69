"""The copies that this daemon knows, or creates, in a container, which would be deleted with it (O1).

Laws: a container is not deleted while a copy is known in it · no copy is created in a container while its deletion may
be carried out, and no deletion is sent while the creation of a copy may be carried out in it, or waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

from registry_controller.api.errors import Conflict, DeletionPending, ServerError, Unreachable
from registry_controller.api.meta import GVR, GroupKind, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.local_cache import LocalCache
from registry_controller.core.decision.state import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Content
from registry_controller.report.reasons import describe_coming, describe_content
from registry_controller.sync.replaced_copies import ReplacedCopies

_UNANSWERED_S: Final = 60.0
"""For how long an API server may still carry out a request without an answer: its own limit is a minute."""
_GIVES_WAY_S: Final = 60.0
"""For how long a deletion is not sent again because a creation has waited for its end."""
_START_S: Final = 1.0
"""After how long a creation that waits because of the start is tried again: it may have a source by then."""

_K = TypeVar("_K", bound=Hashable)


class _Requests(Generic[_K]):
    """Requests by key: those that are sent now, and those without an answer, until when they may be carried out."""

    def __init__(self) -> None:
        self.sent: set[_K] = set()
        self._until_s: dict[_K, float] = {}

    @contextlib.contextmanager
    def sending(self, key: _K) -> Iterator[None]:
        """Send one. A refusal shows nothing about an earlier one without an answer; a success ends that, too."""
        self.sent.add(key)
        try:
            yield
        except (Unreachable, ServerError):
            self.expect(key, until_s=_now_s() + _UNANSWERED_S)
            raise
        else:
            self._until_s.pop(key, None)
        finally:
            self.sent.discard(key)

    def expect(self, key: _K, *, until_s: float) -> None:
        """Note until when one may come."""
        self._until_s[key] = max(until_s, self._until_s.get(key, 0.0))

    def until_s(self, key: _K) -> float | None:
        """Return until when one without an answer may be carried out; None for none."""
        return self._without_past().get(key)

    def may_come(self) -> Iterator[_K]:
        """List the keys whose request is sent now, or may still be carried out."""
        yield from self.sent
        yield from self._without_past()

    def _without_past(self) -> dict[_K, float]:
        if self._until_s:
            now_s = _now_s()
            self._until_s = {key: until_s for key, until_s in self._until_s.items() if until_s > now_s}
        return self._until_s


class ContainerCopies:
    """The copies in containers. `replaced` are those that were deleted to be made again.

    `is_claimed` returns whether an owner offers the source of a container. Of another one, a daemon that was killed may
    have sent the deletion.
    """

    def __init__(self, *, copies: CopyIndex, replaced: ReplacedCopies, is_claimed: Callable[[Target], bool]) -> None:
        self._copies = copies
        self._replaced = replaced
        self._is_claimed = is_claimed
        self._kinds: dict[Target, GroupKind] = {}
        self._found: dict[Target, Target] = {}
        self._creations = _Requests[tuple[Target, Target]]()
        """By container and copy."""
        self._deletions = _Requests[Target]()
        self._settled_s = _now_s() + _UNANSWERED_S
        """From then on no request of an earlier daemon is carried out."""

    def note_kind(self, definition: Target, kind: GroupKind) -> None:
        """Note the kind of a definition: its name has the plural only."""
        self._kinds[definition] = kind

    def find(self, container: Target) -> Content | None:
        """Return a copy that is known in a container, or may come into it; None for none.

        None also for a definition whose kind is not noted.
        """
        found = self._found.pop(container, None)
        if found is None or not self._is_known(found):
            found = self._search(container)
        if found is not None:
            self._found[container] = found
            return Content(describe_content(found), found)
        copy = next((copy for where, copy in self._creations.may_come() if where == container), None)
        return Content(describe_coming(copy), copy) if copy is not None else None

    def forget(self, container: Target) -> None:
        """Forget the copy and the kind of a container that is not to go."""
        self._found.pop(container, None)
        self._kinds.pop(container, None)

    def containers_that_wait_for(self, copy: Target) -> list[Target]:
        """List the containers in which this copy was found last."""
        return [container for container, found in self._found.items() if found == copy]

    @contextlib.contextmanager
    def creating(self, copy: Target, gvr: GVR) -> Iterator[None]:
        """Create a copy, unless its namespace, or its definition, is being deleted by a daemon here.

        Raises Conflict while the deletion is sent, and DeletionPending while one without an answer may be carried out.
        """
        containers = _containers_of(copy, gvr)
        for container in containers:
            self._check_deletion(container, copy)
        with contextlib.ExitStack() as stack:
            for container in containers:
                stack.enter_context(self._creations.sending((container, copy)))
            yield

    @contextlib.contextmanager
    def deleting(self, container: Target) -> Iterator[None]:
        """Delete a container; Conflict while a copy is known in it, or one may come into it by this daemon."""
        if (found := self.find(container)) is not None:
            raise Conflict(f"{container} is not deleted: {found.text}; trying again")
        with self._deletions.sending(container):
            yield

    def _check_deletion(self, container: Target, copy: Target) -> None:
        if container in self._deletions.sent:
            raise Conflict(f"{container} is being deleted; trying again")
        until_s = self._deletions.until_s(container)
        wait_s = until_s - _now_s() if until_s is not None else 0.0
        if until_s is None and self._may_be_deleted_by_another(container):
            until_s, wait_s = self._settled_s, _START_S
        if until_s is None:
            return
        self._creations.expect((container, copy), until_s=until_s + _GIVES_WAY_S)
        raise DeletionPending(
            f"the deletion of {container.kind} {container.name} was sent without an answer, and may still be carried "
            "out; the copy is created after it",
            retry_after_s=wait_s,
        )

    def _may_be_deleted_by_another(self, container: Target) -> bool:
        """Return whether the daemon that ran before may have sent the deletion of a container: a copy to be deleted."""
        if _now_s() >= self._settled_s:
            return False
        cache = self._copies.held(container.group, container.kind)
        record = cache.records.get(container.key) if cache is not None else None
        return record is not None and record.marks.is_copy and not self._is_claimed(container)

    def _is_known(self, copy: Target) -> bool:
        cache = self._served(GroupKind(copy.group, copy.kind))
        return (cache is not None and copy.key in cache.records) or copy in self._replaced

    def _served(self, kind: GroupKind) -> LocalCache | None:
        """Return the cache of a kind that is served. Of another one a search asks the API server: it may be gone."""
        cache = self._copies.held(*kind)
        return cache if cache is not None and cache.is_served else None

    def _search(self, container: Target) -> Target | None:
        if GroupKind(container.group, container.kind) == NAMESPACE:
            return self._search_namespace(container.name)
        kind = self._kinds.get(container)
        cache = self._served(kind) if kind is not None else None
        if cache is not None and cache.records:
            return cache.target(next(iter(cache.records)))
        return next((copy for copy in self._replaced if (copy.group, copy.kind) == kind), None)

    def _search_namespace(self, name: str) -> Target | None:
        for cache in self._copies.all_held():
            if cache.is_served and cache.namespaces[name]:
                return next(cache.target(key) for key in cache.records if key.namespace == name)
        return next((copy for copy in self._replaced if copy.namespace == name), None)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _containers_of(copy: Target, gvr: GVR) -> tuple[Target, ...]:
    definition = Target(*CUSTOM_RESOURCE_DEFINITION, "", f"{gvr.resource}.{gvr.group}")
    return (definition, Target(*NAMESPACE, "", copy.namespace)) if copy.namespace else (definition,)
