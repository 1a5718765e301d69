"""Limits the deletions of objects whose owners are gone: for one cluster of owners, half of them in five minutes.

The first 50 are always free. It counts as the deletion limit of the daemon does. The counts are in one ConfigMap in
the operator's namespace.

Laws: the counts are stored before the deletions that need them · nothing is deleted before the stored counts were
read · a halt lasts until a person allows it by the annotation, or until what waits fits the limit · the ConfigMap that
a halt names is there: it is made again after a deletion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.jsontext import is_later, read_object
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.decision.deletion_limit import LimitVerdict, Window, stored_form, window_of
from registry_controller.group.local import LocalObjects
from registry_controller.group.local_access import LocalAccess
from registry_controller.group.objects import Object
from registry_controller.group.owned_objects import OwnedObjects
from registry_controller.report.logs import get_logger
from registry_controller.sync.deletion_count import DeletionCount, Judged

log = get_logger(__name__)

PERCENT: Final = 50
_FORMAT: Final = 1
_LENGTH: Final = 4096


class CollectionHalt(NamedTuple):
    """A halt: the ID of the cluster of the owners, its beginning, how many deletions wait, and what allows them."""

    cluster: ClusterUID
    since: str
    waiting: int
    command: str


class CollectionLimits:
    """The counts of the deletions, for each cluster of owners."""

    def __init__(self, access: LocalAccess, owned: OwnedObjects) -> None:
        self.name = f"{access.operator}-collector"
        self._access = access
        self._local = LocalObjects(access)
        self._owned = owned
        self._counts: dict[ClusterUID, DeletionCount] = {}
        self._storing = asyncio.Lock()

    @property
    def halts(self) -> Mapping[ClusterUID, CollectionHalt]:
        """Return the halts, without the number that waits."""
        return {
            cluster: CollectionHalt(cluster, count.halted_at, 0, self._command(cluster, count))
            for cluster, count in sorted(self._counts.items())
            if count.halted_at
        }

    async def load(self) -> None:
        """Read the stored counts; InvalidObject for a text that a later version, or a person, wrote."""
        for cluster, text in _data_of(await self._read()).items():
            content = read_object(text, most=_LENGTH)
            window = window_of(content)
            if window is None or is_later(content, than=_FORMAT):
                place = f"ConfigMap {self._access.namespace}/{self.name}: data[{cluster}]"
                raise InvalidObject(place, "is no count of this version; nothing is deleted until it is removed")
            self._counts[ClusterUID(cluster)] = self._count(window)

    def is_halted(self, cluster: ClusterUID) -> bool:
        """Return whether deletions are halted."""
        return cluster in self._counts and bool(self._counts[cluster].halted_at)

    def would_halt(self, cluster: ClusterUID, wanted: int) -> bool:
        """Return whether so many deletions at once would be halted."""
        return self._judge(cluster, wanted, allowed="").verdict is LimitVerdict.HALT

    async def admit(self, cluster: ClusterUID, wanted: int) -> bool:
        """Count deletions, as one set, and store the counts; return whether they may go, or are halted.

        RegistryError where the counts cannot be stored: then they may not go.
        """
        count = self._of(cluster)
        was_halted = bool(count.halted_at)
        allowed = await self._read_allowed(cluster) if was_halted else ""
        found = self._judge(cluster, wanted, allowed=allowed)
        count.keep(found)
        if count.halted_at and not was_halted:
            log.warning(
                "deletions of owned objects halted", cluster=cluster, waiting=wanted,
                allow=self._command(cluster, count),
            )  # fmt: skip
        await self.store()
        return found.verdict is not LimitVerdict.HALT

    async def end_halt(self, cluster: ClusterUID) -> None:
        """End the halt of a cluster for whose owners nothing waits."""
        if self._of(cluster).end_halt():
            await self.store()

    def note_gone(self, target: Target, cluster: ClusterUID, *, is_collected: bool) -> None:
        """Note that an object has gone: by the collector, or otherwise."""
        present, count = len(self._owned.of_cluster(cluster)) + 1, self._of(cluster)
        if is_collected:
            count.count(target, present=present, now=self._access.now())
        else:
            count.lower(present=present)

    async def store(self) -> None:
        """Store the counts, unless they are stored already: another client may have changed or deleted them."""
        async with self._storing:
            windows = {cluster: count.shown for cluster, count in sorted(self._counts.items())}
            data: dict[str, str] = {
                cluster: _spell(window) for cluster, window in windows.items() if window is not None
            }
            if data == _data_of(await self._read()):
                return
            manifest = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": self.name, "namespace": self._access.namespace},
                "data": data,
            }
            await self._local.apply(manifest, force=True)

    async def _read(self) -> Object | None:
        """Read the ConfigMap; None without one."""
        return await self._local.get("configmaps", self.name, namespace=self._access.namespace)

    def _judge(self, cluster: ClusterUID, wanted: int, *, allowed: str) -> Judged:
        return self._of(cluster).judge(
            stored=None,
            present=len(self._owned.of_cluster(cluster)),
            wanted=wanted,
            now=self._access.now(),
            percent=PERCENT,
            allowed=allowed,
            is_anew=False,
        )

    def _of(self, cluster: ClusterUID) -> DeletionCount:
        if cluster not in self._counts:
            self._counts[cluster] = self._count(None)
        return self._counts[cluster]

    def _count(self, window: Window | None) -> DeletionCount:
        return DeletionCount(window, is_here=self._owned.__contains__)

    async def _read_allowed(self, cluster: ClusterUID) -> str:
        """Return the moment of the halt that a person has allowed; empty for none."""
        found = await self._read()
        return found.annotations.get(_allowance_of(cluster), "") if found is not None else ""

    def _command(self, cluster: ClusterUID, count: DeletionCount) -> str:
        place = f"-n {self._access.namespace} annotate --overwrite configmap {self.name}"
        return f"kubectl {place} {_allowance_of(cluster)}={count.halted_at}"


def _allowance_of(cluster: ClusterUID) -> str:
    """Return the annotation that allows the deletions of one cluster's halt."""
    return f"{meta.ALLOW_DELETIONS}.{cluster}"


def _data_of(found: Object | None) -> Mapping[str, str]:
    return found.manifest.get("data") or {} if found is not None else {}


def _spell(window: Window) -> str:
    content: dict[str, Any] = {"format": _FORMAT, **stored_form(window)}
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode()
