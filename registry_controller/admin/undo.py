"""Takes a swap back: the members of a group forget each other, all at once. Copies and rules stay.

Law: a member of which another member is left out does not begin, because that one would bring the Clusters back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from registry_controller.admin.objects import key_of, read_or_none, state_of, with_id
from registry_controller.admin.published import POLL_S, JoinIncomplete, now_s
from registry_controller.admin.sites import Site
from registry_controller.admin.swap import Action, Change
from registry_controller.api import meta
from registry_controller.api.cluster import State
from registry_controller.api.errors import BadInput, Conflict
from registry_controller.api.meta import GVR, Manifest, ObjectKey
from registry_controller.core.decision.lost_cluster import named_secret

_ATTEMPTS = 10


class _Known(NamedTuple):
    """A Cluster of another member at the site of that index."""

    at: int
    cluster: Manifest


class UndoCommand:
    """Deletes the Clusters and Secrets of the other members in each cluster of `sites`."""

    def __init__(
        self,
        sites: Sequence[Site],
        *,
        wait_s: float,
        report: Callable[[str], None],
        on_change: Callable[[Change], None],
    ) -> None:
        self._sites = sites
        self._wait_s = wait_s
        self._report = report
        self._on_change = on_change

    async def plan(self) -> Sequence[Change]:
        """List the objects to delete; BadInput where a member of the group is not among the sites."""
        changes = [change for known in await self._list_known() for change in await self._deletions(known)]
        planned = {(change.at, key_of(change.manifest)) for change in changes if change.gvr == meta.SECRETS}
        own = [await _find_own_secret(site) for site in self._sites]
        for at, site in enumerate(self._sites):
            for key in own if own[at] is not None else ():
                # A join that was interrupted has written Secrets, and no Clusters that name them.
                if key is not None and key != own[at] and (at, key) not in planned:
                    changes += await _list_secret(at, site, key)
        return changes

    async def undo(self) -> Sequence[Change]:
        """Delete the objects, after all daemons have stopped reading; return the deletions."""
        for known in await self._list_known():
            await self._disable(known)
        await self._await_disabled()
        done = await self.plan()
        for change in done:
            await self._delete(change.at, change.gvr, key_of(change.manifest))
            self._on_change(change)
        return done

    async def _list_known(self) -> Sequence[_Known]:
        ids = {site.cluster_id for site in self._sites}
        found: list[_Known] = []
        for at, site in enumerate(self._sites):
            for cluster in await site.list_clusters():
                read = read_or_none(cluster)
                if read is None or read.cluster_id == site.cluster_id:
                    continue
                if read.cluster_id not in ids:
                    raise BadInput(
                        f"{site.label}: the group has another member, {read.name}, which would bring them back; "
                        "give its --context, too, or take one cluster out with `registry-controller leave`"
                    )
                found.append(_Known(at, cluster))
        return found

    async def _deletions(self, known: _Known) -> Sequence[Change]:
        """List the Secret first: it is found by its Cluster, also when the command was interrupted between the two."""
        site = self._sites[known.at]
        key = named_secret(known.cluster)
        secrets = await _list_secret(known.at, site, key) if key is not None else ()
        return [*secrets, Change(known.at, Action.DELETE, meta.CLUSTERS, known.cluster)]

    async def _disable(self, known: _Known) -> None:
        site, key = self._sites[known.at], key_of(known.cluster)
        for _ in range(_ATTEMPTS):
            found = await site.client.read(meta.CLUSTERS, key)
            if found is None or meta.CLUSTER_DISABLED in meta.annotations_of(found):
                return
            info = meta.metadata_of(found)
            annotations = {**meta.annotations_of(found), meta.CLUSTER_DISABLED: "join --undo"}
            try:
                await site.client.replace(meta.CLUSTERS, {**found, "metadata": {**info, "annotations": annotations}})
            except Conflict:
                continue
            return
        raise JoinIncomplete(f"{site.label}: Cluster {key} changes all the time; run the same command again")

    async def _await_disabled(self) -> None:
        deadline, reported = now_s() + self._wait_s, ""
        while True:
            waits = list(self._list_waits(await self._list_known()))
            if not waits:
                return
            if waits[0] != reported:
                self._report(waits[0])
                reported = waits[0]
            if now_s() >= deadline:
                raise JoinIncomplete(f"{'; '.join(waits)}; run the same command again to continue")
            await asyncio.sleep(POLL_S)

    def _list_waits(self, known: Sequence[_Known]) -> Iterator[str]:
        for at, cluster in known:
            if state_of(cluster) != State.DISABLED.value:
                yield f"{self._sites[at].label}: waits until its daemon has stopped reading {key_of(cluster).name}"

    async def _delete(self, at: int, gvr: GVR, key: ObjectKey) -> None:
        site = self._sites[at]
        for _ in range(_ATTEMPTS):
            found = await site.client.read(gvr, key)
            if found is None:
                return
            try:
                await site.client.delete(gvr, found)
            except Conflict:
                continue
            return
        raise JoinIncomplete(f"{site.label}: {gvr} {key} changes all the time; run the same command again")


async def _find_own_secret(site: Site) -> ObjectKey | None:
    own = with_id(await site.list_clusters(), site.cluster_id)
    return named_secret(own[0]) if own else None


async def _list_secret(at: int, site: Site, key: ObjectKey) -> Sequence[Change]:
    """Return the deletion of a Secret that holds credentials of a cluster; nothing for another one, or none."""
    secret = await site.client.read(meta.SECRETS, key)
    is_ours = secret is not None and secret.get("type") == meta.REGISTRY_SECRET_TYPE
    return [Change(at, Action.DELETE, meta.SECRETS, secret)] if secret is not None and is_ours else ()
