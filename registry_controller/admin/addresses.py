"""The address that a member publishes of itself, and the one that another member has.

No member takes a new address from another one: one that lost the cluster before its address changed needs a `join`.
"""

from __future__ import annotations

from registry_controller.admin.objects import read_or_none, with_id
from registry_controller.admin.sites import Site
from registry_controller.api import meta
from registry_controller.api.cluster import Cluster
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.kube.kubeconfig import Credentials, read_secret, with_endpoint


def read_credentials(secret: Manifest, cluster: Cluster, *, network_name: str) -> Credentials:
    """Read the credentials in a Secret as a reader in that network uses them. Raises InvalidKubeconfig."""
    published = read_secret(secret_type=str(secret.get("type")), data=secret.get("data") or {})
    return with_endpoint(published, cluster.endpoint_for(network_name))


async def read_stored(site: Site, cluster: Cluster, *, network_name: str) -> Credentials | None:
    """Read the credentials that a Cluster of a site names there; None without a Secret. Raises RegistryError."""
    secret = await site.client.read(meta.SECRETS, cluster.secret) if cluster.secret is not None else None
    return read_credentials(secret, cluster, network_name=network_name) if secret is not None else None


async def read_published_address(site: Site, *, network_name: str) -> str:
    """Read the address that a member publishes for a network; empty for none. Raises RegistryError."""
    return await _read_address(site, site.cluster_id, network_name=network_name)


async def find_new_address(*, of: Site, at: Site) -> str:
    """Return the address of a member where another one has an earlier address; empty where that is not known."""
    network_name = at.daemon.network_name
    try:
        own = await read_published_address(of, network_name=network_name)
        held = await _read_address(at, of.cluster_id, network_name=network_name)
    except RegistryError:
        return ""
    return own if own and held and own != held else ""


async def _read_address(site: Site, cluster_id: ClusterUID, *, network_name: str) -> str:
    for manifest in with_id(await site.list_clusters(), cluster_id):
        cluster = read_or_none(manifest)
        found = await read_stored(site, cluster, network_name=network_name) if cluster is not None else None
        if found is not None:
            return found.server
    return ""
