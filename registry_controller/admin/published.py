"""Waits until the daemon of a cluster has published its Cluster and its Secret."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from registry_controller.admin.objects import key_of, state_of, with_id
from registry_controller.admin.sites import Site
from registry_controller.api import meta
from registry_controller.api.cluster import State
from registry_controller.api.errors import BadInput, InvalidKubeconfig, RegistryError
from registry_controller.api.meta import Manifest
from registry_controller.api.tombstone import is_own_tombstone
from registry_controller.core.decision.lost_cluster import named_secret
from registry_controller.kube.kubeconfig import Credentials, read_secret

POLL_S: Final = 0.5


class JoinIncomplete(RegistryError):
    """The time is over, and a daemon or a person still has something to do."""


class Published(NamedTuple):
    """The Cluster and the Secret that a daemon has published, and the credentials in the Secret."""

    site: Site
    cluster: Manifest
    secret: Manifest
    credentials: Credentials

    @property
    def name(self) -> str:
        """The name of the Cluster."""
        return key_of(self.cluster).name


async def await_published(site: Site, *, deadline: float, report: Callable[[str], None]) -> Published:
    """Wait for both objects. JoinIncomplete at the deadline (the loop's time), BadInput for what no wait helps."""
    reported = ""
    while True:
        found = await find_published(site)
        if isinstance(found, Published):
            return found
        if found != reported:
            report(f"{site.label}: {found}")
            reported = found
        if now_s() >= deadline:
            pods = site.kubectl(f"-n {site.daemon.namespace} get pods")
            raise JoinIncomplete(f"{site.label}: {found}; `{pods}` shows whether its daemon runs")
        await asyncio.sleep(POLL_S)


async def find_published(site: Site) -> Published | str:
    """Return the objects, or which of them is missing."""
    own = with_id(await site.list_clusters(), site.cluster_id)
    if len(own) > 1:
        names = ", ".join(sorted(key_of(found).name for found in own))
        raise BadInput(f"{site.label}: the Clusters {names} all have its own ID; delete all but one of them")
    if not own:
        await _check_left(site)
        return "waits until its daemon has created its Cluster"
    cluster = own[0]
    key = named_secret(cluster)
    if key is None or not key.namespace:
        raise BadInput(
            f"{site.label}: its Cluster {key_of(cluster).name} names no Secret; set spec.authInfo.secretRef there"
        )
    secret = await site.client.read(meta.SECRETS, key)
    if secret is None or meta.is_marked_as_copy(secret, at=site.cluster_id):
        problem = f", which reports: {_message(cluster)}" if _message(cluster) else ""
        return f"waits until its daemon has published the Secret {key}{problem}"
    try:
        credentials = read_secret(secret_type=str(secret.get("type")), data=secret.get("data") or {})
    except InvalidKubeconfig as error:
        raise BadInput(f"{site.label}: Secret {key}: {error}") from None
    return Published(site, cluster, secret, credentials)


async def _check_left(site: Site) -> None:
    """Raise BadInput for a cluster that has left its group: its daemon creates no Cluster."""
    features = await site.client.list(meta.FEATURES)
    if any(is_own_tombstone(found, of=site.cluster_id) for found in features):
        command = site.kubectl(f"delete clusterfeatures -l {meta.LEFT_MEMBER}={site.cluster_id}")
        raise BadInput(f"{site.label}: has left its group; to let it join again, run `{command}`, and then this again")


def _message(cluster: Manifest) -> str:
    status = cluster.get("status") or {}
    return str(status.get("message") or "") if state_of(cluster) == State.FAILED.value else ""


def now_s() -> float:
    """Return the time of the event loop."""
    return asyncio.get_running_loop().time()
