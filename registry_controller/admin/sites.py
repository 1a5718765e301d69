"""The clusters that a command works on: a connection for each context, and the options of the daemon there.

The options are found in the daemon's Deployment. Without one, as for a daemon outside of the cluster, the local Cluster
names the namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from registry_controller.admin.objects import find_condition, mapping, read_or_none, with_id
from registry_controller.api import meta
from registry_controller.api.errors import BadInput, Forbidden, NotServed, RegistryError
from registry_controller.api.meta import GVR, ClusterUID, Manifest
from registry_controller.kube.discover import Discovery
from registry_controller.kube.pod_exec import PODS
from registry_controller.kube.writer import WRITING, Writer, connect_local
from registry_controller.local.client import ClusterClient, command_client

DEPLOYMENTS: Final = GVR("apps", "v1", "deployments", True, True)
COMPONENT: Final = "app.kubernetes.io/component=cluster-registry-controller"
"""Selects the Deployment and the Pods of the daemon."""
_DEFAULT_NAMESPACE: Final = "cluster-registry"
DEFAULT_READER: Final = "cluster-registry-controller-reader"
"""The ServiceAccount of the reader, as the chart names it."""


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """The options of a cluster's daemon that commands need.

    `deployment`, `container`, `image` and `selector` are empty for a daemon without a Deployment that may be read.
    `replicas` is the number of Pods that it is to have, `refusal` is why none of them can be created, empty for none.
    """

    namespace: str = _DEFAULT_NAMESPACE
    reader_account: str = DEFAULT_READER
    network_name: str = "default"
    address: str = ""
    deployment: str = ""
    container: str = ""
    image: str = ""
    selector: str = ""
    replicas: int = 1
    refusal: str = ""
    manages_secret: bool = True


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster. `context` is as the user gave it, empty for the current one."""

    context: str
    kubeconfig: Path | None
    writer: Writer
    client: ClusterClient
    cluster_id: ClusterUID
    daemon: DaemonOptions

    @property
    def label(self) -> str:
        """The name of the cluster for people, before its Cluster is known."""
        return self.context or self.client.place

    def kubectl(self, words: str) -> str:
        """Return a kubectl command for this cluster."""
        return f"kubectl {f'--context {self.context} ' if self.context else ''}{words}"

    async def read_version(self) -> str:
        """Read the version of the API server."""
        return await self.client.patiently(Discovery(self.writer).server_version)

    async def list_clusters(self) -> Sequence[Manifest]:
        """List all Clusters."""
        return await self.client.list(meta.CLUSTERS)

    async def list_pods(self) -> Sequence[Manifest]:
        """List the Pods of the daemon; none for a daemon without a Deployment. Forbidden where they may not be read."""
        if not self.daemon.selector:
            return ()
        return await self.client.list(PODS, namespace=self.daemon.namespace, labels=self.daemon.selector)


class Sites(NamedTuple):
    """The clusters that answer, and the failures of the rest by their contexts."""

    reached: Sequence[Site]
    failures: Mapping[str, str]

    def require_all(self) -> Sequence[Site]:
        """Return the clusters; RegistryError with every failure where one does not answer."""
        if self.failures:
            raise RegistryError("; ".join(self.failures.values()))
        return self.reached


@contextlib.asynccontextmanager
async def connect_sites(
    connections: Sequence[tuple[Path | None, str | None]], *, namespace: str | None
) -> AsyncIterator[Sites]:
    """Connect to the cluster of each (kubeconfig, context), all at once.

    `namespace` is that of the daemons, None to find it. Raises BadInput for a kubeconfig that cannot be used, and for
    two contexts of one cluster.
    """
    async with contextlib.AsyncExitStack() as stack:
        writers = [await _connect(stack, kubeconfig, context) for kubeconfig, context in connections]
        found = await asyncio.gather(
            *(
                _find_site(writer, kubeconfig, context, namespace=namespace)
                for writer, (kubeconfig, context) in zip(writers, connections, strict=True)
            )
        )
        reached = [site for site in found if isinstance(site, Site)]
        contexts = [context or "" for _, context in connections]
        failures = {context: text for context, text in zip(contexts, found, strict=True) if isinstance(text, str)}
        seen: dict[ClusterUID, Site] = {}
        for site in reached:
            other = seen.setdefault(site.cluster_id, site)
            if other is not site:
                raise BadInput(f"--context {other.label} and --context {site.label} are one cluster; leave one out")
        yield Sites(reached, failures)


async def _connect(stack: contextlib.AsyncExitStack, kubeconfig: Path | None, context: str | None) -> Writer:
    writer = await connect_local(kubeconfig=kubeconfig, context=context, methods=WRITING)
    stack.push_async_callback(writer.close)
    return writer


async def _find_site(
    writer: Writer, kubeconfig: Path | None, context: str | None, *, namespace: str | None
) -> Site | str:
    """Return a cluster, or why it does not answer."""
    client = command_client(writer, context=context)
    try:
        cluster_id = await client.read_id()
        daemon = await _find_daemon(client, cluster_id, namespace)
    except BadInput:
        raise
    except RegistryError as error:
        return client.explain(error)
    return Site(context or "", kubeconfig, writer, client, cluster_id, daemon)


async def _find_daemon(client: ClusterClient, cluster_id: ClusterUID, namespace: str | None) -> DaemonOptions:
    found = await _list_deployments(client, namespace)
    if len(found) > 1:
        places = ", ".join(str(meta.metadata_of(one).get("namespace")) for one in found)
        raise BadInput(
            f"{client.place}: has {len(found)} daemons, in the namespaces {places}; name one with --namespace"
        )
    if found:
        return read_deployment(found[0])
    if namespace:
        return DaemonOptions(namespace=namespace)
    with contextlib.suppress(NotServed, Forbidden):
        for manifest in with_id(await client.list(meta.CLUSTERS), cluster_id):
            own = read_or_none(manifest)
            if own is not None and own.secret is not None:
                return DaemonOptions(namespace=own.secret.namespace)
    return DaemonOptions()


async def _list_deployments(client: ClusterClient, namespace: str | None) -> Sequence[Manifest]:
    for place in [namespace] if namespace else ["", _DEFAULT_NAMESPACE]:
        with contextlib.suppress(Forbidden, NotServed):
            return await client.list(DEPLOYMENTS, namespace=place, labels=COMPONENT)
    return ()


def read_deployment(manifest: Manifest) -> DaemonOptions:
    """Read the options of the daemon from its Deployment; options that are not literal keep their defaults."""
    spec = mapping(manifest.get("spec"))
    template = mapping(mapping(spec.get("template")).get("spec"))
    containers = [mapping(one) for one in template.get("containers") or ()]
    container = next((one for one in containers if one.get("name") == "manager"), containers[0] if containers else {})
    env = {str(one.get("name")): str(one.get("value") or "") for one in container.get("env") or () if "value" in one}
    labels = mapping(mapping(spec.get("selector")).get("matchLabels"))
    info, replicas = meta.metadata_of(manifest), spec.get("replicas")
    refused = find_condition(manifest, "ReplicaFailure")
    return DaemonOptions(
        namespace=str(info.get("namespace", "")),
        reader_account=env.get("READER_SERVICE_ACCOUNT_NAME") or DEFAULT_READER,
        network_name=env.get("NETWORK_NAME") or "default",
        address=env.get("APISERVER_ENDPOINT_ADDRESS", ""),
        deployment=str(info.get("name", "")),
        container=str(container.get("name", "")),
        image=str(container.get("image", "")),
        selector=",".join(f"{name}={value}" for name, value in sorted(labels.items())),
        replicas=replicas if isinstance(replicas, int) else 1,
        refusal=str(refused.get("message") or "") if refused.get("status") == "True" else "",
        manages_secret=env.get("MANAGE_LOCAL_CLUSTER_SECRET", "true") != "false",
    )
