"""The test bed: two clusters that know each other, with a daemon in each. Changes run from source to sink."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

from hack.controlplane import Cluster, CommandError, Group, Kubelet
from hack.controlplane.api import MERGE_PATCH
from hack.controlplane.ports import Port

from .usage import Meter

_BIN = Path(sys.executable).parent
_ROOT = Path(__file__).parents[3]
_CHART = str(_ROOT / "deploy" / "helm" / "cluster-registry")
_RELEASE = _NAMESPACE = "cluster-registry"
_DEPLOYMENT = f"{_RELEASE}-controller"
_TIMEOUT_S = 120.0
_STAYS = "cluster-registry.k8s.cisco.com/resource-sync-disabled"
_READER = f"system:serviceaccount:{_NAMESPACE}:{_RELEASE}-controller-reader"
_API = "clusterregistry.k8s.cisco.com/v1alpha1"

WIDGETS = "/apis/bench.example.com/v1/namespaces/{namespace}/widgets"
_NUMBERS = itertools.count(1)
YES = {"bench": "yes"}
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
    """Two clusters with a daemon in each; the daemon in `sink` reads `source`. `meter` measures it."""

    source: Cluster
    sink: Cluster
    log: Path
    meter: Meter

    def log_tail(self) -> str:
        """Return the last lines that the sink's daemon logged."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line[:4000] for line in lines[-5:])

    def apply_rule(
        self, name: str, *, kind: Mapping[str, str], namespace: str, labels: Mapping[str, str] = YES
    ) -> None:
        """Create a rule in the sink alone, for the objects of a GroupVersionKind in a namespace with these labels."""
        rule = {
            "apiVersion": _API,
            "kind": "ResourceSyncRule",
            "metadata": {"name": name, "annotations": {_STAYS: "true"}},
            "spec": {
                "groupVersionKind": dict(kind),
                "rules": [_entry(namespace, labels)],
            },
        }
        self.sink.api.request("POST", f"/apis/{_API}/resourcesyncrules", body=rule)

    def label_copies(self, name: str, *, namespace: str, labels: Mapping[str, str], add: Mapping[str, str]) -> None:
        """Edit a rule so that it adds these labels to its copies."""
        entry = {**_entry(namespace, labels), "mutations": {"labels": {"add": dict(add)}}}
        path = f"/apis/{_API}/resourcesyncrules/{name}"
        self.sink.api.request("PATCH", path, body={"spec": {"rules": [entry]}}, content_type=MERGE_PATCH)

    def delete_rule(self, name: str) -> None:
        """Delete a rule."""
        self.sink.api.request("DELETE", f"/apis/{_API}/resourcesyncrules/{name}")

    def create_namespace(self, prefix: str) -> str:
        """Create a new namespace in both clusters, and return its name."""
        name = f"{prefix}-{next(_NUMBERS)}"
        for cluster in (self.source, self.sink):
            cluster.api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        return name

    def requests_of_reader(self, since: int) -> Counter[str]:
        """Count the requests of the sink's daemon at the source, by verb, since an offset of the audit log.

        A list is a list's first page, or a watch that begins with the list.
        """
        counted: Counter[str] = Counter()
        for event in self.source.audit(since):
            if event["user"]["username"] != _READER:
                continue
            query = dict(parse_qsl(urlsplit(event["requestURI"]).query))
            begins = event["verb"] != "watch" or event["stage"] == "ResponseStarted"
            if begins and "continue" not in query:
                counted["list" if "sendInitialEvents" in query else event["verb"]] += 1
        return counted


@contextmanager
def make_bed(*, fsync: bool, is_sampled: bool) -> Iterator[Bed]:
    """Start the clusters and daemons, and end them. A sampled daemon runs outside of a container, as the admin."""
    with ExitStack() as stack:
        group = stack.enter_context(Group(2, prefix="bench", fsync=fsync))
        source, sink = group
        kubelets: list[Kubelet] = []
        for cluster in group:
            cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([_CRD, *_roles()]))
            is_sampled_here = is_sampled and cluster is sink
            flags = [f"--set=localCluster.name={cluster.name}", f"--namespace={_NAMESPACE}", "--create-namespace"]
            flags += [f"--set=replicas={0 if is_sampled_here else 1}", "--set=controller.deletionLimitPercent=100"]
            cluster.helm("install", _RELEASE, _CHART, *flags)
            if is_sampled_here:
                log, meter = stack.enter_context(_sampled(cluster))
            else:
                kubelet = Kubelet(cluster, path_prepend=[_BIN])
                kubelet.start()
                stack.callback(kubelet.stop)
                kubelet.wait_ready(60)
                log, meter = kubelet.log, Meter(kubelet.pid)
                kubelets.append(kubelet)
        _carry(source, sink)
        _carry(sink, source)
        for cluster, peer in ((sink, source), (source, sink)):
            _wait(functools.partial(_is_synced, cluster, peer.name), f"{cluster.name} reads {peer.name}")
        bed = Bed(source, sink, log, meter)
        try:
            yield bed
            for kubelet in kubelets:
                if kubelet.restarts:
                    raise RuntimeError(f"a daemon ended {kubelet.restarts} times ({kubelet.log}): no figure is valid")
        except (RuntimeError, TimeoutError):
            print(f"the last lines of the sink's daemon:\n{bed.log_tail()}", file=sys.stderr)
            raise


def _entry(namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"match": [{"namespaces": [namespace], "labels": [{"matchLabels": dict(labels)}]}]}


def _carry(giver: Cluster, taker: Cluster) -> None:
    """Carry a cluster's Cluster and Secret to another one."""
    for resource in (["cluster", giver.name], ["secret", giver.name, f"--namespace={_NAMESPACE}"]):
        _wait(functools.partial(_read, giver, resource), f"{giver.name} has its {resource[0]}")
        taker.kubectl("create", "-f", "-", stdin=_read(giver, resource))


def _read(cluster: Cluster, resource: list[str]) -> str:
    with contextlib.suppress(CommandError):
        return cluster.kubectl("get", *resource, "-o", "yaml")
    return ""


def _is_synced(cluster: Cluster, peer: str) -> bool:
    found = cluster.api.get(f"/apis/{_API}/clusters/{peer}")
    conditions = found.get("status", {}).get("conditions", [])
    return any(c["type"] == "ClustersSynced" and c["status"] == "True" for c in conditions)


def _wait(holds: Callable[[], object], condition: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not after {_TIMEOUT_S:g} s: {condition}")
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
def _sampled(cluster: Cluster) -> Iterator[tuple[Path, Meter]]:
    """Run the daemon outside of a container, as the admin, under the sampler."""
    path = f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments/{_DEPLOYMENT}"
    declared = cluster.api.get(path)["spec"]["template"]["spec"]["containers"][0]["env"]
    env = {item["name"]: item.get("value", _NAMESPACE) for item in declared}
    ports = {name: Port() for name in ("METRICS_ADDR", "HEALTH_ADDR")}
    env |= {name: f"127.0.0.1:{port.number}" for name, port in ports.items()}
    samples, log = cluster.directory / "samples.json", cluster.directory / "sampled.log"
    arguments = [str(samples), "run", f"--kubeconfig={cluster.kubeconfig}"]
    command = [sys.executable, "-m", "hack.programs.bench.sampled", *arguments]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=_ROOT, env={**os.environ, **env}, stdout=output, stderr=output, stdin=subprocess.DEVNULL
        )
        try:
            yield log, Meter(process.pid, samples=samples)
        finally:
            process.terminate()
            process.wait(60)
            for port in ports.values():
                port.release()
