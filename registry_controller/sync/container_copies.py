"""The copies that this daemon knows, or creates, in a container, which would be deleted with it (O1).

Laws: a container is not deleted while a copy is known in it, also where the kind of that copy is not served now · no
copy is created in a container while its deletion is sent, and no deletion is sent while a copy is created in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Final

from registry_controller.api.errors import Conflict, ServerError, Unreachable
from registry_controller.api.meta import GVR, GroupKind, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.core.decision.state import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Content
from registry_controller.report.reasons import describe_coming, describe_content
from registry_controller.sync.replaced_copies import ReplacedCopies

_UNANSWERED_S: Final = 60.0
"""For how long an API server may still carry out a request without an answer: its own limit is a minute."""


class ContainerCopies:
    """The copies in containers. `replaced` are those that were deleted to be made again."""

    def __init__(self, *, copies: CopyIndex, replaced: ReplacedCopies) -> None:
        self._copies = copies
        self._replaced = replaced
        self._kinds: dict[Target, GroupKind] = {}
        self._found: dict[Target, Target] = {}
        self._coming_until_s: dict[Target, dict[Target, float]] = {}
        """By container the copies that are being created there, or were created without an answer."""
        self._deleting_until_s: dict[Target, float] = {}

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
        coming = self._coming_until_s.get(container)
        if coming is None:
            return None
        self._coming_until_s[container] = coming = _without_past(coming)
        copy = next(iter(coming), None)
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
        """Create a copy; Conflict while its namespace, or its definition, is being deleted by this daemon."""
        containers = _containers_of(copy, gvr)
        for container in containers:
            if self._deleting_until_s and self._deleting_until_s.get(container, 0.0) > _now_s():
                raise Conflict(f"{container} is being deleted; trying again")
        for container in containers:
            self._coming_until_s.setdefault(container, {})[copy] = math.inf
        until_s = 0.0
        try:
            yield
        except (Unreachable, ServerError):
            until_s = _now_s() + _UNANSWERED_S
            raise
        finally:
            for container in containers:
                self._end_creation(container, copy, until_s=until_s)

    @contextlib.contextmanager
    def deleting(self, container: Target) -> Iterator[None]:
        """Delete a container; Conflict while a copy is known in it, or one may come into it by this daemon."""
        if (found := self.find(container)) is not None:
            raise Conflict(f"{container} is not deleted: {found.text}; trying again")
        self._deleting_until_s = _without_past(self._deleting_until_s) | {container: math.inf}
        until_s = 0.0
        try:
            yield
        except (Unreachable, ServerError):
            until_s = _now_s() + _UNANSWERED_S
            raise
        finally:
            self._deleting_until_s[container] = until_s

    def _end_creation(self, container: Target, copy: Target, *, until_s: float) -> None:
        """Note that a creation is over; it may still be carried out until `until_s`, 0 for one with an answer."""
        coming = self._coming_until_s.setdefault(container, {})
        coming[copy] = until_s
        if not until_s:
            del coming[copy]
        if not coming:
            del self._coming_until_s[container]

    def _is_known(self, copy: Target) -> bool:
        cache = self._copies.held(copy.group, copy.kind)
        return (cache is not None and copy.key in cache.records) or copy in self._replaced

    def _search(self, container: Target) -> Target | None:
        if GroupKind(container.group, container.kind) == NAMESPACE:
            return self._search_namespace(container.name)
        kind = self._kinds.get(container)
        cache = self._copies.held(*kind) if kind is not None else None
        if cache is not None and cache.records:
            return cache.target(next(iter(cache.records)))
        return next((copy for copy in self._replaced if (copy.group, copy.kind) == kind), None)

    def _search_namespace(self, name: str) -> Target | None:
        for cache in self._copies.all_held():
            if cache.namespaces[name]:
                return next(cache.target(key) for key in cache.records if key.namespace == name)
        return next((copy for copy in self._replaced if copy.namespace == name), None)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _without_past(moments: Mapping[Target, float]) -> dict[Target, float]:
    return {container: until_s for container, until_s in moments.items() if until_s > _now_s()}


def _containers_of(copy: Target, gvr: GVR) -> tuple[Target, ...]:
    definition = Target(*CUSTOM_RESOURCE_DEFINITION, "", f"{gvr.resource}.{gvr.group}")
    return (definition, Target(*NAMESPACE, "", copy.namespace)) if copy.namespace else (definition,)
