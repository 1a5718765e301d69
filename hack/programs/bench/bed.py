"""The bed: two clusters with the daemons in them, who know each other. What is measured runs from source to sink."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hack.controlplane import Cluster, CommandError, Group, Kubelet
from hack.controlplane.ports import Port

_BIN = Path(sys.executable).parent
_CHART = str(Path(__file__).parents[3] / "deploy" / "helm" / "cluster-registry")
_RELEASE = _NAMESPACE = "cluster-registry"
_DEPLOYMENT = f"{_RELEASE}-controller"
_PATIENCE_S = 120.0
_STAYS = "cluster-registry.k8s.cisco.com/resource-sync-disabled"
_API = "clusterregistry.k8s.cisco.com/v1alpha1"

WIDGETS = "/apis/bench.example.com/v1/namespaces/{namespace}/widgets"
CONFIGMAPS = "/api/v1/namespaces/{namespace}/configmaps"
_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.bench.example.com"},
    "spec": {
        "group": "bench.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}},
            }},
        }],
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bed:
    """Two clusters; the daemon in `sink` reads `source`."""

    source: Cluster
    sink: Cluster
    log: Path

    def last_words(self) -> str:
        """Cite the end of what the sink's daemon has logged."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line[:4000] for line in lines[-5:])

    def apply_rule(self, name: str, *, group: str, version: str, kind: str, namespace: str) -> None:
        """Make a rule in the sink, and only there, for everything of a kind in a namespace."""
        rule = {
            "apiVersion": _API,
            "kind": "ResourceSyncRule",
            "metadata": {
                "name": name,
                "annotations": {"cluster-registry.k8s.cisco.com/resource-sync-disabled": "true"},
            },
            "spec": {
                "groupVersionKind": {"group": group, "version": version, "kind": kind},
                "rules": [{"match": [{"namespaces": [namespace], "labels": [{"matchLabels": {"bench": "yes"}}]}]}],
            },
        }
        self.sink.api.request("POST", f"/apis/{_API}/resourcesyncrules", body=rule)

    def delete_rule(self, name: str) -> None:
        """Take a rule away."""
        self.sink.api.request("DELETE", f"/apis/{_API}/resourcesyncrules/{name}")

    def make_namespace(self, name: str) -> None:
        """Make a namespace in both clusters."""
        for cluster in (self.source, self.sink):
            cluster.api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})


@contextmanager
def make_bed(*, fsync: bool, profile: Path | None) -> Iterator[Bed]:
    """Start it, and end it; `profile` is where the sink's daemon leaves a cProfile."""
    with ExitStack() as stack:
        group = stack.enter_context(Group(2, prefix="bench", fsync=fsync))
        source, sink = group
        kubelets: list[Kubelet] = []
        for cluster in group:
            cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([_CRD, *_roles()]))
            flags = [f"--set=localCluster.name={cluster.name}", f"--namespace={_NAMESPACE}", "--create-namespace"]
            is_profiled = profile is not None and cluster is sink
            cluster.helm("install", _RELEASE, _CHART, *flags, f"--set=replicas={0 if is_profiled else 1}")
            if is_profiled and profile is not None:
                log = stack.enter_context(_profiled(cluster, output=profile))
            else:
                kubelet = Kubelet(cluster, path_prepend=[_BIN])
                kubelet.start()
                stack.callback(kubelet.stop)
                kubelet.wait_ready(60)
                log = kubelet.log
                kubelets.append(kubelet)
        _swap(source, sink)
        _swap(sink, source)
        for cluster, peer in ((sink, source), (source, sink)):
            _until(functools.partial(_is_synced, cluster, peer.name), f"{cluster.name} reads {peer.name}")
        bed = Bed(source, sink, log)
        try:
            yield bed
            if restarts := sum(kubelet.restarts for kubelet in kubelets):
                raise RuntimeError(f"daemons ended {restarts} times: the figures are worth nothing")
        except (RuntimeError, TimeoutError):
            print(f"the sink's daemon said last:\n{bed.last_words()}", file=sys.stderr)
            raise


def _swap(giver: Cluster, taker: Cluster) -> None:
    for what in (["cluster", giver.name], ["secret", giver.name, f"--namespace={_NAMESPACE}"]):
        _until(functools.partial(_found, giver, what), f"{giver.name} has made its {what[0]}")
        taker.kubectl("create", "-f", "-", stdin=_found(giver, what))


def _found(cluster: Cluster, what: list[str]) -> str:
    with contextlib.suppress(CommandError):
        return cluster.kubectl("get", *what, "-o", "yaml")
    return ""


def _is_synced(cluster: Cluster, peer: str) -> bool:
    found = cluster.api.get(f"/apis/{_API}/clusters/{peer}")
    conditions = found.get("status", {}).get("conditions", [])
    return any(c["type"] == "ClustersSynced" and c["status"] == "True" for c in conditions)


def _until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not after {_PATIENCE_S:g} s: {what}")
        time.sleep(0.1)


def _roles() -> list[dict[str, Any]]:
    read = ["get", "list", "watch"]
    verbs = {"reader": read, "controller": [*read, "create", "update", "patch", "delete"]}
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": f"bench-{side}", "labels": {f"cluster-registry.k8s.cisco.com/{side}-aggregated": "true"},
            },
            "rules": [
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": allowed},
                {"apiGroups": ["bench.example.com"], "resources": ["widgets"], "verbs": allowed},
            ],
        }
        for side, allowed in verbs.items()
    ]  # fmt: skip


@contextmanager
def _profiled(cluster: Cluster, *, output: Path) -> Iterator[Path]:
    """Run the daemon outside of a container, as the admin, under cProfile."""
    path = f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments/{_DEPLOYMENT}"
    declared = cluster.api.get(path)["spec"]["template"]["spec"]["containers"][0]["env"]
    env = {item["name"]: item.get("value", _NAMESPACE) for item in declared}
    ports = {name: Port() for name in ("METRICS_ADDR", "HEALTH_ADDR")}
    env |= {name: f"127.0.0.1:{port.number}" for name, port in ports.items()}
    program = [str(_BIN / "registry-controller"), "run", f"--kubeconfig={cluster.kubeconfig}"]
    with (cluster.directory / "profiled.log").open("ab") as log:
        command = [sys.executable, "-m", "cProfile", "-o", str(output.absolute()), *program]
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield cluster.directory / "profiled.log"
        finally:
            process.terminate()
            process.wait(60)
            for port in ports.values():
                port.release()


def spell(spec: dict[str, Any]) -> str:
    """Spell the argument of the bare relay."""
    return json.dumps(spec)
