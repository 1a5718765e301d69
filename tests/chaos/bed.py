"""A group of real clusters whose every way is an edge that can be broken, with the daemon run as its Deployment says.

The daemon of A reaches B at the edge A->B, because B's Cluster holds an endpoint for the network that only A says it
is in, and its own API server at the edge A->A. People and the observer speak to the API servers directly.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from hack.controlplane import ApiError, Cluster, ControlPlaneError, Group, Kubelet
from hack.controlplane.pki import Pair
from tests.chaos.calls import Calls, Script
from tests.chaos.etcd import set_cluster_id
from tests.chaos.wire import Edge, Wires
from tests.e2e.group import API, BIN, CHART, NAMESPACE, Member, eventually, grant, in_sync, swap

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: false
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete]
  resources:
  - {group: "", resources: [configmaps, secrets]}
  - {group: clusterregistry.k8s.cisco.com, resources: [clusters, resourcesyncrules]}
  - {group: test.example.com}
- level: Metadata
"""
_NOWHERE = "https://127.0.0.1:1"
"""The address in each Secret: nothing listens there. A peer tries it when an edge is cut (P7), and must not get in."""
_MOST = 5  # clusters that a group may have: so many networks are named in each Cluster


class Site(Member):
    """A cluster of the bed: its name, its edges, its daemon."""

    def __init__(self, bed: Bed, cluster: Cluster, *values: str) -> None:
        super().__init__(cluster, *values)
        cluster.api.timeout_s = 10.0  # under faults it may not answer at all
        self.bed = bed
        self.home = bed.wires.edge(f"{self.name}->{self.name}", target=cluster.port)
        self.ways = {
            taker: bed.wires.edge(f"{taker}->{self.name}", target=cluster.port)
            for taker in bed.names
            if taker != self.name
        }

    def install(self, *flags: str, called: str = "") -> Site:
        """Install the chart, make the Cluster with its endpoints, and start the daemon; it may bear another's name."""
        called = called or self.name
        self.cluster.helm(
            "install", "cluster-registry", str(CHART), "--namespace", NAMESPACE, "--create-namespace",
            "--set", f"localCluster.name={called}",
            "--set", f"controller.network.name=net-{self.name}",
            "--set", f"controller.apiServerEndpointAddress={_NOWHERE}",
            "--set", "controller.createNamespaces=true",
            "--set", "controller.deletionLimitPercent=0",  # the brake would hold what the laws want gone; it has tests
            "--set", "controller.log.verbosity=3", *flags,
            *(argument for value in self.values for argument in ("--set", value)),
        )  # fmt: skip
        self.apply(
            {
                "apiVersion": API,
                "kind": "Cluster",
                "metadata": {"name": called},
                "spec": {
                    "clusterID": self.id,
                    "authInfo": {"secretRef": {"name": called, "namespace": NAMESPACE}},
                    "kubernetesApiEndpoints": [
                        {"clientNetwork": f"net-{taker}", "serverAddress": f"https://127.0.0.1:{edge.port}"}
                        for taker, edge in self.ways.items()
                    ],
                },
            }
        )
        self.run()
        return self

    def run(self, *, env: dict[str, str] | None = None) -> None:
        """Start the daemon, at its own edge, with more in its environment."""
        port = str(self.home.port)
        self.kubelet = Kubelet(
            self.cluster, namespace=NAMESPACE, path_prepend=[BIN], backoff_s=0.2, max_backoff_s=1.0,
            env={"KUBERNETES_SERVICE_PORT": port, "KUBERNETES_SERVICE_PORT_HTTPS": port, **(env or {})},
        )  # fmt: skip
        self.kubelet.start()

    def write(self, method: str, path: str, body: dict[str, Any] | None = None, **more: Any) -> dict[str, Any] | None:
        """Write as the administrator; None when the API server refuses or does not answer."""
        try:
            return self.cluster.api.request(method, path, body=body, **more)
        except ApiError:
            return None


class Bed:
    """The group. `sites` are its clusters in their order; `values` go to the chart of each."""

    def __init__(self, size: int = 3, *, prefix: str = "f", values: Sequence[str] = ()) -> None:
        self._group = Group(size, prefix=prefix, audit_policy=AUDIT_POLICY)
        self.names = [f"{prefix}-{number}" for number in range(1, _MOST + 1)]
        self.wires = Wires()
        self.sites: list[Site] = []
        self._values = tuple(values)

    def __enter__(self) -> Self:
        self.wires.__enter__()
        try:
            self._group.start()
            self.sites = [Site(self, cluster, *self._values) for cluster in self._group]
        except BaseException:
            self.wires.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.stop()
        self.wires.__exit__(None, None, None)

    def form(self) -> None:
        """Install the daemons, open ConfigMaps, and join all in a chain of swaps."""
        for site in self.sites:
            site.install()
            grant(site, "configmaps", [""], ["configmaps"])
            grant(site, "tests", ["test.example.com"], ["*"])
        for site in self.sites:
            site.daemon.wait_ready(timeout_s=60)
        for one, other in itertools.pairwise(self.sites):
            swap(one, other)
        in_sync(self.sites, within_s=90)

    def add(self) -> Site:
        """Start one more cluster with its daemon; nobody knows it yet."""
        site = self.stranger()
        self.sites.append(site)
        return site

    def stranger(self, *, called: str = "", cluster_id: str = "") -> Site:
        """Start one more cluster that is not to be of the group; it may have the name or the ID of a member."""
        site = Site(self, self._group.add(), *self._values)
        if cluster_id:
            set_cluster_id(site.cluster, site.id, cluster_id)
            wait(lambda: site.id == cluster_id, what=f"{site.name} has another ID")
        site.install(called=called)
        grant(site, "configmaps", [""], ["configmaps"])
        grant(site, "tests", ["test.example.com"], ["*"])
        site.daemon.wait_ready(timeout_s=60)
        return site

    def way(self, taker: Site, giver: Site) -> Edge:
        """The edge by which one daemon reaches the API server of another cluster, or its own."""
        return giver.home if taker is giver else giver.ways[taker.name]

    def scripted(self, edge: Edge, giver: Site, script: Script, *, shown: Pair | None = None) -> Calls:
        """Put a script before an API server, on one edge, for as long as it is entered; it may show a certificate."""
        return Calls(self.wires, edge, giver.cluster, script, shown=shown)

    def mend(self) -> None:
        """Mend all edges."""
        for edge in self.wires.edges.values():
            edge.mend()

    def settle(self, *, within_s: float = 90.0) -> None:
        """Wait until the group is whole."""
        in_sync(self.sites, within_s=within_s)

    def unused(self) -> list[str]:
        """Name the edges between clusters that nobody took: then a fault on them would be none."""
        here = {site.name for site in self.sites}
        return [
            edge.name
            for edge in self.wires.edges.values()
            if set(edge.name.split("->")) <= here and not edge.counts["accepted"]
        ]


def wait(look: Any, *, within_s: float = 90.0, what: str = "") -> Any:
    """Wait for something under faults: an API server that does not answer is none."""

    def try_it() -> Any:
        try:
            return look()
        except ApiError:
            return None

    return eventually(try_it, within_s=within_s, what=what)


def begins(site: Site, *, env: dict[str, str] | None = None) -> bool:
    """Start a site's daemon; an API server that has just come may still refuse its kubelet a token."""
    with contextlib.suppress(ControlPlaneError):
        site.run(env=env)
        return True
    return False


def spelled(manifest: dict[str, Any]) -> str:
    """Spell an object."""
    return json.dumps(manifest)
