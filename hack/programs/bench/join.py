"""Fresh members join one group, until every member reads every other one: seconds.

The waiting is the rest of these seconds after the CPU time of the command: it waits for API servers, daemons and polls.
The floor writes the same Clusters and Secrets by bare requests, without checks, and waits for the same state. Between
the blocks `join --undo` takes the join back; the daemons run on.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hack.controlplane import Cluster, Group, Kubelet
from hack.controlplane.errors import ApiError

from .report import Line

_BIN = Path(sys.executable).parent
_CHART = str(Path(__file__).parents[3] / "deploy" / "helm" / "cluster-registry")
_NAMESPACE = "cluster-registry"
_CLUSTERS = "/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusters"
_SECRETS = f"/api/v1/namespaces/{_NAMESPACE}/secrets"
_TIMEOUT_S = 300.0
_TARGET_S = 60.0


def measure(*, count: int, rounds: int) -> tuple[list[Line], str]:
    """Measure with `count` members; return the figures and the version of Kubernetes."""
    bare: list[float] = []
    ours: list[float] = []
    working: list[float] = []
    with _fresh_members(count) as group:
        for _ in range(rounds):
            for join, found in ((_join_bare, bare), (_join, ours), (_join, ours), (_join_bare, bare)):
                began, used_s = time.monotonic(), _children_cpu_s()
                join(group)
                if join is _join:
                    working.append(_children_cpu_s() - used_s)
                _wait(functools.partial(_are_in_step, group), "all members are in step")
                found.append(time.monotonic() - began)
                _run(group, "join", "--undo")
        version = str(group[0].api.get("/version")["gitVersion"])
    print(
        f"{count} members joined in {min(ours):.1f} to {max(ours):.1f} s; the aim on an idle machine is {_TARGET_S:g} s"
    )
    print(_describe_waiting(ours, working))
    return [Line(f"join {count}", bare, ours, at_most=3.0)], version


def _describe_waiting(ours: Sequence[float], working: Sequence[float]) -> str:
    """Return how much of the median join is waiting; `working` is the CPU time of the command in each join."""
    whole_s, work_s = statistics.median(ours), statistics.median(working)
    wait_s = max(whole_s - work_s, 0.0)
    return f"of the median of {whole_s:.1f} s, {wait_s:.1f} s are waiting ({wait_s / whole_s:.0%})"


def _children_cpu_s() -> float:
    """Return the CPU time of the child processes that have ended, in seconds: of the commands, while the rest run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def _fresh_members(count: int) -> Iterator[Group]:
    """Run clusters whose daemons have published themselves, and know no peer."""
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(Group(count, prefix="joining"))
        for cluster in group:
            flags = [f"--set=localCluster.name={cluster.name}", f"--namespace={_NAMESPACE}", "--create-namespace"]
            cluster.helm("install", "cluster-registry", _CHART, *flags)
            kubelet = Kubelet(cluster, path_prepend=[_BIN])
            kubelet.start()
            stack.callback(kubelet.stop)
        for cluster in group:
            for path in (f"{_CLUSTERS}/{cluster.name}", f"{_SECRETS}/{cluster.name}"):
                _wait(functools.partial(_find, cluster, path), f"{cluster.name} has published itself")
        yield group


def _join(group: Group) -> None:
    _run(group, "join", "--wait", f"{_TIMEOUT_S:g}s")


def _run(group: Group, command: str, *flags: str) -> None:
    contexts = [word for cluster in group for word in ("--context", cluster.name)]
    done = subprocess.run(
        [str(_BIN / "registry-controller"), command, *contexts, *flags],
        env={**os.environ, "KUBECONFIG": str(group.kubeconfig)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * _TIMEOUT_S,
    )
    if done.returncode:
        raise RuntimeError(f"registry-controller {command}: {done.stderr}")


def _join_bare(group: Group) -> None:
    """Swap the first member with each other one."""
    first, *others = list(group)
    for other in others:
        for giver, taker in ((first, other), (other, first)):
            _carry(giver, taker)


def _carry(giver: Cluster, taker: Cluster) -> None:
    for collection in (_SECRETS, _CLUSTERS):
        found: dict[str, Any] = dict(giver.api.get(f"{collection}/{giver.name}"))
        info = {name: found["metadata"][name] for name in ("name", "namespace") if name in found["metadata"]}
        kept: dict[str, Any] = {
            name: found[name] for name in ("apiVersion", "kind", "spec", "type", "data") if name in found
        }
        taker.api.request("POST", collection, body={**kept, "metadata": info})


def _are_in_step(group: Group) -> bool:
    names = {cluster.name for cluster in group}
    return all(_list_in_step(cluster.api.get(_CLUSTERS)["items"]) >= names - {cluster.name} for cluster in group)


def _list_in_step(clusters: Sequence[dict[str, Any]]) -> set[str]:
    return {
        found["metadata"]["name"]
        for found in clusters
        for condition in found.get("status", {}).get("conditions", ())
        if (condition["type"], condition["status"]) == ("ClustersSynced", "True")
    }


def _find(cluster: Cluster, path: str) -> bool:
    try:
        return bool(cluster.api.get(path))
    except ApiError as error:
        if error.status == 404:
            return False
        raise


def _wait(holds: Callable[[], bool], condition: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not after {_TIMEOUT_S:g} s: {condition}")
        time.sleep(0.1)
