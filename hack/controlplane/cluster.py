"""One cluster: etcd, kube-apiserver and kube-controller-manager on loopback ports of their own.

Law: a cluster keeps its ports, keys and data over `stop()` and `start()`; it ends controller manager first,
etcd last (an API server whose etcd is gone does not end on SIGTERM).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import controllers, flags
from .api import Api, Manifest
from .audit import POLICY, audit_offset, read_audit
from .build import ensure_binaries
from .errors import CommandError, PortTakenError
from .guardian import Guardian
from .kubeconfig import Entry, write_kubeconfig
from .ports import Port
from .process import Process, Ready
from .readiness import controller_manager_missing, etcd_missing
from .services import Services, write_egress_configuration

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
_ATTEMPTS = 5
_READY_TIMEOUT_S = 90.0
_GO_MEMORY = {"GOGC": "800", "GOMEMLIMIT": "600MiB"}
"""For the programs of a control plane: a fifth less CPU in their first seconds than with Go's defaults, for memory."""
SETTLED = (  # objects that controllers create in a namespace; nothing can run in it before
    "/api/v1/namespaces/default/serviceaccounts/default",
    "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
)


class Cluster:
    """A control plane without nodes; a Group creates it."""

    def __init__(
        self,
        name: str,
        *,
        directory: Path,
        binaries: Mapping[str, Path],
        guardian: Guardian,
        feature_gates: Sequence[str] = (),
        fsync: bool = False,
        audit_policy: str = POLICY,
        has_workloads: bool = False,
    ) -> None:
        self.name = name
        self.directory = directory
        self.guardian = guardian
        self.kubeconfig = directory / "admin.kubeconfig"
        self.audit_log = directory / "audit.log"
        self._binaries = dict(binaries)
        self._feature_gates = tuple(feature_gates)
        self._fsync = fsync
        self._has_workloads = has_workloads
        self.guests: list[Callable[[], None]] = []  # called before the cluster ends
        directory.mkdir(parents=True)
        from .certificates import create_pki  # noqa: PLC0415 - the only third-party import; --help needs none

        self.pki = create_pki(directory / "pki", cluster=name, addresses=self.certified_addresses)
        (directory / "audit-policy.yaml").write_text(audit_policy, encoding="utf-8")
        self._ports: list[Port] = []
        self._take_ports()

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def certified_addresses(self) -> tuple[str, ...]:
        """The addresses in the API server's certificate; the second is the first one of the service range."""
        return ("127.0.0.1", "10.0.0.1")

    @property
    def entry(self) -> Entry:
        """The cluster and its admin, for a kubeconfig."""
        return Entry(self.name, server=self.server, server_ca=self.pki.server_ca, user=self.pki.admin)

    @property
    def processes(self) -> tuple[Process, ...]:
        """The processes in the order in which they may end."""
        return self.controller_manager, self.apiserver, self.etcd

    def create(self) -> None:
        """Start the cluster for the first time; choose other ports when another program took one."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self.start()
                return
            except PortTakenError:
                if attempt == _ATTEMPTS:
                    raise
                self.kill()
                self._take_ports()

    def start(self) -> None:
        """Start the processes that do not run, and wait until the cluster is usable."""
        self.etcd.start()
        self.apiserver.start()  # it starts more slowly than etcd, and waits for it
        self.etcd.wait_ready(_READY_TIMEOUT_S)
        self.apiserver.wait_ready(_READY_TIMEOUT_S)
        self.controller_manager.start()
        self.controller_manager.wait_ready(_READY_TIMEOUT_S)
        if self._has_workloads:
            controllers.confine(self.api)

    def stop(self) -> None:
        """Stop all processes; data and ports are kept."""
        for process in self.processes:
            process.stop()

    def kill(self) -> None:
        """Kill all processes, as a power cut does."""
        for process in self.processes:
            process.kill()

    def release(self) -> None:
        """Release the ports, after the last stop."""
        for port in self._ports:
            port.release()

    def kubectl(self, *argv: str, stdin: str | None = None, check: bool = True, timeout_s: float = 120) -> str:
        """Run kubectl as the admin and return its output; CommandError with its stderr when it fails."""
        return self._run("kubectl", argv, stdin=stdin, check=check, timeout_s=timeout_s)

    def helm(
        self, *argv: str, stdin: str | None = None, check: bool = True, timeout_s: float = 600, program: str = "helm"
    ) -> str:
        """Run helm, or "helm3", as the admin, with its files inside the cluster's directory."""
        if program not in self._binaries:
            self._binaries |= ensure_binaries([program])
        return self._run(program, argv, stdin=stdin, check=check, timeout_s=timeout_s)

    def audit(self, since: int = 0) -> list[Manifest]:
        """Read the audit events from an offset (bytes, of `audit_offset`) on."""
        return read_audit(self.audit_log, since=since)

    def audit_offset(self) -> int:
        """Return the offset (bytes) of the end of the audit log."""
        return audit_offset(self.audit_log)

    def _run(self, tool: str, argv: Sequence[str], *, stdin: str | None, check: bool, timeout_s: float) -> str:
        command = [str(self._binaries[tool]), *argv]
        kinds = ("cache", "config", "data")
        folders = {f"HELM_{kind.upper()}_HOME": f"{self.directory}/{tool}/{kind}" for kind in kinds}
        env = {
            "PATH": os.defpath,
            "HOME": str(self.directory),
            "KUBECONFIG": str(self.kubeconfig),
            "GOGC": "400",
            **folders,
        }
        done = subprocess.run(
            command,
            input=stdin or "",
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        if check and done.returncode != 0:
            shown = [tool, *argv]
            raise CommandError(shown, returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)
        return done.stdout

    def _take_ports(self) -> None:
        """Choose ports, and create everything that contains one: clients, kubeconfigs, flags and processes."""
        taken, self._ports = self._ports, [Port() for _ in range(4)]
        for port in taken:
            port.release()
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)
        addresses = flags.Addresses(*(port.number for port in self._ports))
        self.port, self.etcd_port = addresses.apiserver, addresses.etcd
        self.api = Api(self.port, pki=self.pki)
        self.services = Services(self.api, name=f"registry-controller-services-{self.port}")
        egress = self.directory / "egress.json"
        write_egress_configuration(egress, name=self.services.name)
        manager_kubeconfig = self.directory / "controller-manager.kubeconfig"
        manager = Entry(self.name, self.server, self.pki.server_ca, user=self.pki.controller_manager)
        write_kubeconfig(self.kubeconfig, [self.entry])
        write_kubeconfig(manager_kubeconfig, [manager])
        etcd = flags.etcd_flags(addresses, data=self.directory / "etcd", fsync=self._fsync)
        apiserver = flags.apiserver_flags(
            addresses,
            pki=self.pki,
            policy=self.directory / "audit-policy.yaml",
            audit_log=self.audit_log,
            egress=egress,
            feature_gates=self._feature_gates,
        )
        names = (*controllers.ALWAYS, *(controllers.WORKLOADS if self._has_workloads else ()))
        manager_flags = flags.controller_manager_flags(
            addresses, pki=self.pki, kubeconfig=manager_kubeconfig, controllers=names
        )
        self.etcd = self._process("etcd", etcd, ready=lambda: etcd_missing(addresses.etcd))
        self.apiserver = self._process("kube-apiserver", apiserver, ready=lambda: self.api.missing("/readyz"))
        self.controller_manager = self._process(
            "kube-controller-manager",
            manager_flags,
            ready=lambda: self._unsettled(addresses.controller_manager),
        )

    def _unsettled(self, port: int) -> str | None:
        return controller_manager_missing(port, server_ca=self.pki.server_ca, api=self.api, settled=SETTLED)

    def _process(self, name: str, argv: Sequence[str], *, ready: Ready) -> Process:
        return Process(
            name,
            argv=[str(self._binaries[name]), *argv],
            env={"PATH": os.defpath, **_GO_MEMORY},
            log=self.directory / f"{name}.log",
            guardian=self.guardian,
            ready=ready,
        )
