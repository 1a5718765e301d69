"""A cluster with one real node: the control plane, containerd, kubelet and scheduler run in the node's namespaces."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from hack.controlplane import ApiError, Cluster, ControlPlaneError, Process, controllers, flags
from hack.controlplane.api import Api
from hack.controlplane.build import NODE_PROGRAMS, ensure_binaries
from hack.controlplane.cluster import PROGRAMS, SETTLED
from hack.controlplane.guardian import Guardian
from hack.controlplane.kubeconfig import Entry, write_kubeconfig
from hack.controlplane.parallel import run_all
from hack.controlplane.process import Ready

from .archive import write_pause_image
from .cleanup import make_group
from .configs import SOCKET, write_containerd, write_kubelet
from .needs import PATH
from .node import Node

NODE: Final = "node-0"
_CONTROLLERS: Final = (
    *controllers.ALWAYS,
    *controllers.WORKLOADS,
    "node-lifecycle-controller",
    "endpointslice-controller",
)
_GRACE: Final = "10s"  # 50 s by default: after that time without a report the node counts as lost
_READY_TIMEOUT_S: Final = 300.0
_PORTS: Final = flags.Addresses(etcd=2379, etcd_peer=2380, apiserver=443, controller_manager=10257)


class NodeCluster(Cluster):
    """A control plane with one node; `node_clusters` creates it.

    cgroup: the name of its control group. number: 1 to 99; the addresses contain it.
    """

    def __init__(
        self, name: str, *, number: int, directory: Path, binaries: Mapping[str, Path], guardian: Guardian, cgroup: str
    ) -> None:
        directory.mkdir(parents=True)
        self.cgroup = cgroup
        self.node = Node(number, folder=directory, guardian=guardian)
        super().__init__(
            name, directory=directory / "controlplane", binaries=binaries, guardian=guardian, has_workloads=True
        )

    @property
    def server(self) -> str:
        """The URL of the API server, from the other node and from the run."""
        return f"https://{self.node.address}"

    @property
    def certified_addresses(self) -> tuple[str, ...]:
        """The addresses in the API server's certificate."""
        return ("127.0.0.1", self.node.service_address, self.node.address)

    def create(self) -> None:
        """Start the cluster, and wait until its node is Ready."""
        make_group(self.cgroup)
        self.containerd.start()
        self.etcd.start()
        self.apiserver.start()
        self.apiserver.wait_ready(_READY_TIMEOUT_S)
        for process in (self.controller_manager, self.scheduler, self.kubelet):
            process.start()
        self.containerd.wait_ready(_READY_TIMEOUT_S)
        self.load(write_pause_image(self.directory / "pause.tar"))
        self.controller_manager.wait_ready(_READY_TIMEOUT_S)
        self.kubelet.wait_ready(_READY_TIMEOUT_S)

    @property
    def processes(self) -> tuple[Process, ...]:
        """The processes in the order in which they may end."""
        return self.kubelet, self.scheduler, self.controller_manager, self.apiserver, self.etcd, self.containerd

    def load(self, archive: Path) -> None:
        """Load an image into the node, under the name in the archive."""
        self.node.run("ctr", "--address", str(SOCKET), "--namespace", "k8s.io", "images", "import", str(archive))

    def node_status(self) -> str:
        """Return the status of the node's condition Ready: True, False or Unknown."""
        listed = self.api.get(f"/api/v1/nodes/{NODE}")["status"].get("conditions", [])
        return next((str(item["status"]) for item in listed if item["type"] == "Ready"), "Unknown")

    def _take_ports(self) -> None:
        """Use the well-known ports: the network namespace is the cluster's own."""
        self.port = _PORTS.apiserver
        self.api = Api(self.port, pki=self.pki, host=self.node.address)
        write_kubeconfig(self.kubeconfig, [self.entry])
        local = f"https://127.0.0.1:{self.port}"
        kubeconfigs = {}
        for user in ("controller-manager", "scheduler", "node"):
            pair = getattr(self.pki, user.replace("-", "_"))
            entry = Entry(self.name, local, self.pki.server_ca, user=pair)
            kubeconfigs[user] = write_kubeconfig(self.directory / f"{user}.kubeconfig", [entry])
        etcd = flags.etcd_flags(_PORTS, data=self.directory / "etcd", fsync=False)
        policy = self.directory / "audit-policy.yaml"
        apiserver = flags.apiserver_flags(
            _PORTS, pki=self.pki, policy=policy, audit_log=self.audit_log, egress=Path(), feature_gates=()
        )
        # A later flag takes the place of an earlier one.
        apiserver += [
            "--bind-address=0.0.0.0",
            f"--advertise-address={self.node.address}",
            f"--service-cluster-ip-range={self.node.services}",
            "--egress-selector-config-file=",
            f"--kubelet-client-certificate={self.pki.admin.certificate}",
            f"--kubelet-client-key={self.pki.admin.key}",
            "--kubelet-preferred-address-types=InternalIP",
        ]
        manager = flags.controller_manager_flags(
            _PORTS, pki=self.pki, kubeconfig=kubeconfigs["controller-manager"], controllers=_CONTROLLERS
        )
        manager += [f"--node-monitor-grace-period={_GRACE}", "--node-monitor-period=1s"]
        self.etcd = self._process("etcd", etcd, ready=lambda: None)
        self.apiserver = self._process("kube-apiserver", apiserver, ready=lambda: self.api.missing("/readyz"))
        self.controller_manager = self._process("kube-controller-manager", manager, ready=self._unsettled_objects)
        scheduler = [f"--kubeconfig={kubeconfigs['scheduler']}", "--leader-elect=false"]
        scheduler += ["--authentication-skip-lookup=true", "--bind-address=127.0.0.1"]
        self.scheduler = self._process("kube-scheduler", scheduler, ready=lambda: None)
        config = write_containerd(self.directory, pods=self.node.pods)
        self.containerd = self._process("containerd", ["--config", str(config)], ready=self._containerd_missing)
        settings = write_kubelet(self.directory, client_ca=self.pki.client_ca, cgroup=self.cgroup)
        kubelet = [f"--config={settings}", f"--kubeconfig={kubeconfigs['node']}", f"--hostname-override={NODE}"]
        kubelet += [f"--root-dir={self.directory}/kubelet", f"--cert-dir={self.directory}/kubelet/pki"]
        kubelet += [f"--node-ip={self.node.address}"]
        self.kubelet = self._process("kubelet", kubelet, ready=self._node_missing)

    def _process(self, name: str, argv: Sequence[str], *, ready: Ready) -> Process:
        program = str(self._binaries.get(name, name))
        return Process(
            name,
            argv=[*self.node.entry, program, *argv],
            env={"PATH": PATH, "GOGC": "200"},
            log=self.directory / f"{name}.log",
            guardian=self.guardian,
            ready=ready,
        )

    def _unsettled_objects(self) -> str | None:
        return next((reason for path in SETTLED if (reason := self.api.missing(path))), None)

    def _containerd_missing(self) -> str | None:
        try:
            self.node.run("ctr", "--address", str(SOCKET), "version")
        except ControlPlaneError as error:
            return str(error)
        return None

    def _node_missing(self) -> str | None:
        try:
            status = self.node_status()
        except ApiError as error:
            return str(error)
        return None if status == "True" else f"the node's condition Ready is {status}"


@contextlib.contextmanager
def node_clusters(count: int, *, run: str, scratch: Path, image: Path) -> Iterator[list[NodeCluster]]:
    """Run clusters side by side that have the image; end all their processes afterwards.

    run: the name of the run (`cleanup.run_name`). scratch: the folder of its files. image: an OCI archive.
    """
    binaries = ensure_binaries((*PROGRAMS, *NODE_PROGRAMS, "helm"))
    guardian = Guardian()
    clusters: list[NodeCluster] = []
    try:
        clusters += (
            NodeCluster(
                f"pods-{number}", number=number, directory=scratch / f"pods-{number}", binaries=binaries,
                guardian=guardian, cgroup=f"{run}-{number}",
            )
            for number in range(1, count + 1)
        )  # fmt: skip
        run_all([cluster.create for cluster in clusters])
        run_all([functools.partial(cluster.load, image) for cluster in clusters])
        yield clusters
    finally:
        for cluster in clusters:
            cluster.kill()
            cluster.node.end()
        guardian.close()
