"""Reads the Leases of the daemons of other members, with the readers' credentials that are stored in one cluster.

Law: what cannot be read is left out: whether members reach each other is shown by the view of the daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from registry_controller.admin.addresses import read_stored
from registry_controller.admin.objects import mapping, read_or_none, state_of
from registry_controller.admin.sites import Site
from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, State
from registry_controller.api.daemon_lease import SELECTOR, DaemonLease, read_lease
from registry_controller.api.errors import InvalidObject, RegistryError
from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.api.selection import Selection
from registry_controller.kube.connect import connect_peer
from registry_controller.kube.object import decode_manifest

_MOST: Final = 100
_STEP_S: Final = 5.0


def read_leases(manifests: Iterable[Manifest]) -> Sequence[DaemonLease]:
    """Parse the Leases of daemons; other objects are left out."""
    found = []
    for manifest in manifests:
        with contextlib.suppress(InvalidObject):
            found.append(read_lease(manifest))
    return found


async def read_peer_leases(site: Site, clusters: Sequence[Manifest]) -> Mapping[ClusterUID, Sequence[DaemonLease]]:
    """Read the Leases of the members that the daemon of this cluster reads; each has five seconds to answer."""
    peers = [
        cluster
        for manifest in clusters
        if (cluster := read_or_none(manifest)) is not None
        and cluster.cluster_id != site.cluster_id
        and state_of(manifest) == State.READY.value
    ]
    found = await asyncio.gather(*(_read_peer(site, peer) for peer in peers))
    return {peer.cluster_id: leases for peer, leases in zip(peers, found, strict=True)}


async def _read_peer(site: Site, cluster: Cluster) -> Sequence[DaemonLease]:
    if cluster.secret is None:
        return ()
    try:
        credentials = await read_stored(site, cluster, network_name=site.daemon.network_name)
        if credentials is None:
            return ()
        reader = connect_peer(credentials)
        try:
            selection = Selection(namespace=cluster.secret.namespace, labels=SELECTOR)
            raw = await reader.list_page(meta.LEASES, selection, query={"limit": str(_MOST)}, timeout_s=_STEP_S)
        finally:
            await reader.close()
        return read_leases(map(mapping, decode_manifest(raw).get("items") or ()))
    except RegistryError:  # a right that is missing here or there, or no route from this machine
        return ()
