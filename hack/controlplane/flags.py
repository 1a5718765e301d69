"""The command lines of etcd, kube-apiserver and kube-controller-manager.

Law: the programs listen on loopback only. No flag changes the behaviour that a client sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .pki import Pki


@dataclass(frozen=True, slots=True)
class Addresses:
    """The loopback ports of one cluster."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int


def etcd_flags(addresses: Addresses, *, data: Path, fsync: bool) -> list[str]:
    """Keep as few data as possible; fsync matters for latency measurements only."""
    client, peer = (f"http://127.0.0.1:{port}" for port in (addresses.etcd, addresses.etcd_peer))
    return [
        "--name=default",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--unsafe-no-fsync={'false' if fsync else 'true'}",
        "--log-level=warn",
        "--max-wals=1",
        "--max-snapshots=1",
    ]


def apiserver_flags(
    addresses: Addresses, *, pki: Pki, policy: Path, audit_log: Path, egress: Path, feature_gates: Sequence[str]
) -> list[str]:
    """Return the flags. The audit log is written before the next request of the connection, and never rotated."""
    flags = [
        f"--etcd-servers=http://127.0.0.1:{addresses.etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={addresses.apiserver}",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--egress-selector-config-file={egress}",  # webhooks have ClusterIPs, which have no route on this machine
        f"--tls-cert-file={pki.server.certificate}",
        f"--tls-private-key-file={pki.server.key}",
        f"--client-ca-file={pki.client_ca}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki.token_public_key}",
        f"--service-account-signing-key-file={pki.token_key}",
        "--authorization-mode=Node,RBAC",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={audit_log}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=1000000",  # MB: a rotation would break every offset in use
        "--shutdown-watch-termination-grace-period=2s",  # without it, one open watch makes a stop last 60 s
        "--profiling=false",
    ]
    return [*flags, f"--feature-gates={','.join(feature_gates)}"] if feature_gates else flags


def controller_manager_flags(
    addresses: Addresses, *, pki: Pki, kubeconfig: Path, controllers: Sequence[str]
) -> list[str]:
    """Return the flags. Credentials per controller stay on: without them, aggregation and CA publishing get 403."""
    return [
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={addresses.controller_manager}",
        f"--tls-cert-file={pki.server.certificate}",
        f"--tls-private-key-file={pki.server.key}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki.token_key}",
        f"--root-ca-file={pki.server_ca}",
        "--authentication-skip-lookup=true",
        "--authorization-always-allow-paths=/healthz",
        "--controller-start-interval=0",
        f"--controllers={','.join(controllers)}",
    ]
