"""The checks of a cluster: each fault is one finding, of its cause; the servers are real ones on loopback."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from registry_controller.admin.checks import SiteChecks
from registry_controller.admin.findings import CheckResult, Level, Problem
from registry_controller.admin.group_status import DEFINITIONS
from registry_controller.admin.sites import DEPLOYMENTS, connect_sites
from registry_controller.api import meta
from registry_controller.api.daemon_lease import lease_manifest
from registry_controller.api.daemon_report import DaemonReport
from registry_controller.api.meta import ClusterUID
from registry_controller.cache.crds import read_bundled
from registry_controller.kube.pod_exec import PODS
from tests.unit.admin.api_server import NAMESPACE, ApiServer, running

LABELS = {"app.kubernetes.io/component": "cluster-registry-controller"}
IMAGE = "registry.invalid/cluster-registry:1"
WAITING = {"name": "manager", "state": {"waiting": {"reason": "ImagePullBackOff"}}}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for each step: on a machine that is busy, a sound server needs more than five seconds."""
    for name in ("probe.STEP_S", "checks._STEP_S"):
        monkeypatch.setattr(f"registry_controller.admin.{name}", 60.0)


def cluster(server: ApiServer) -> dict[str, Any]:
    """Return the Cluster of a member that is read."""
    return {
        "metadata": {"name": server.name, "uid": f"uid-{server.name}", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "clusterID": server.cluster_id,
            "authInfo": {"secretRef": {"name": server.name, "namespace": NAMESPACE}},
        },
        "status": {"state": "Ready", "version": "v1.36.1"},
    }


def secret(server: ApiServer) -> dict[str, Any]:
    """Return the Secret with the credentials of a member's reader."""
    data = {"kubeconfig": base64.b64encode(server.kubeconfig.encode()).decode()}
    info = {"name": server.name, "namespace": NAMESPACE}
    return {"metadata": info, "type": meta.REGISTRY_SECRET_TYPE, "data": data}


def lease(server: ApiServer, *, ago: timedelta) -> dict[str, Any]:
    """Return the Lease of a daemon that renewed it so long ago."""
    report = DaemonReport("0.9.1", "2026-01-01T00:00:00Z", server.name, ClusterUID(server.cluster_id))
    found = lease_manifest(report, namespace=NAMESPACE, holder="pod", now=datetime.now(UTC) - ago)
    return dict(found)


def pod(name: str, *, ready: bool, **status: Any) -> dict[str, Any]:
    """Return a Pod of the daemon."""
    conditions = [{"type": "Ready", "status": str(ready)}]
    info = {"name": name, "namespace": NAMESPACE}
    return {"metadata": info, "spec": {"nodeName": "n"}, "status": {"conditions": conditions, **status}}


class World:
    """Two members, a and b, where all is well; the checks run for a."""

    def __init__(self) -> None:
        self.a, self.b = ApiServer("a"), ApiServer("b")

    def fill(self) -> None:
        """Store the objects of the members, which run by now."""
        for one, other in ((self.a, self.b), (self.b, self.a)):
            for found in (one, other):
                one.put(meta.CLUSTERS, cluster(found))
                one.put(meta.SECRETS, secret(found))
        container = {"name": "manager", "image": IMAGE}
        spec = {"selector": {"matchLabels": LABELS}, "template": {"spec": {"containers": [container]}}}
        self.a.put(
            DEPLOYMENTS, {"metadata": {"name": "daemon", "namespace": NAMESPACE, "labels": LABELS}, "spec": spec}
        )
        self.a.put(meta.NODES, {"metadata": {"name": "n"}})
        self.a.put(PODS, pod("daemon-1", ready=True))
        self.a.put(meta.LEASES, lease(self.a, ago=timedelta(seconds=20)))
        for definition in read_bundled().values():
            self.a.put(DEFINITIONS, definition)


async def findings(folder: Path, change: Callable[[World], object], *, pre: bool = False) -> Sequence[CheckResult]:
    """Return the findings of the checks in a world after a change."""
    world = World()
    async with running(world.a, world.b):
        world.fill()
        config = folder / "kubeconfig"
        config.write_text(world.a.kubeconfig, encoding="utf-8")
        change(world)
        async with connect_sites([(config, None)], namespace=None) as sites:
            (site,) = sites.require_all()
            checks = SiteChecks(site, is_inside=False)
            return await (checks.before(address=world.a.server) if pre else checks.after())


@dataclass(frozen=True)
class Fault:
    """A change of the world, and the one finding that it makes; `words` is a part of its message."""

    change: Callable[[World], object]
    subject: str
    step: str
    problem: Problem
    words: str
    level: Level = Level.FAIL


HERE = "a"


def own_version(text: str) -> Callable[[World], None]:
    return lambda world: setattr(world.a, "version", text)


def pods(*found: dict[str, Any]) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.a.drop(PODS, "daemon-1", NAMESPACE)
        for one in found:
            world.a.put(PODS, one)

    return change


def drop_definitions(world: World) -> None:
    for name in read_bundled():
        world.a.drop(DEFINITIONS, name)


def state(at: str, name: str, **status: str) -> Callable[[World], None]:
    return lambda world: getattr(world, at).find(meta.CLUSTERS, name).update(status=status)


def move(world: World, *, at: str, name: str) -> None:
    """Let a member have an address of another one at which nothing listens."""
    server, found = getattr(world, name), getattr(world, at).find(meta.SECRETS, name, NAMESPACE)
    earlier = server.kubeconfig.replace(server.server, "https://127.0.0.1:1")
    found["data"] = {"kubeconfig": base64.b64encode(earlier.encode()).decode()}


FAULTS = {
    "an-old-server": Fault(
        own_version("v1.29.9"), HERE, "api-server", Problem.OLD_SERVER, "Kubernetes v1.29.9 is older than 1.30"
    ),
    "a-version-that-cannot-be-read": Fault(
        own_version("custom"), HERE, "api-server", Problem.OTHER, "'custom' cannot be read", Level.WARN
    ),
    "a-missing-definition": Fault(
        lambda world: world.a.drop(DEFINITIONS, f"clusters.{meta.GROUP}"),
        HERE, "definitions", Problem.OLD_DEFINITIONS, f"clusters.{meta.GROUP} are not installed",
    ),
    "definitions-that-were-deleted": Fault(
        drop_definitions, HERE, "definitions", Problem.OLD_DEFINITIONS, "are not installed",
    ),
    "no-chart": Fault(
        lambda world: (drop_definitions(world), world.a.drop(DEPLOYMENTS, "daemon", NAMESPACE)),
        HERE, "definitions", Problem.NOT_INSTALLED, "the chart is not installed here",
    ),
    "an-own-right": Fault(
        lambda world: world.a.forbidden.add(("get", "clusterfeatures")),
        HERE, "own-rights", Problem.OWN_RIGHT, f"your user may not get clusterfeatures.{meta.GROUP}",
    ),
    "an-image-that-cannot-be-pulled": Fault(
        pods(pod("daemon-2", ready=False, containerStatuses=[WAITING])),
        HERE, "image", Problem.IMAGE, f"{IMAGE} cannot be pulled: ImagePullBackOff",
    ),
    "no-pod-that-is-ready": Fault(
        pods(pod("daemon-2", ready=False)), HERE, "pods", Problem.NO_POD, "no Pod is ready: see its log"
    ),
    "pods-that-may-not-be-read": Fault(
        lambda world: world.a.forbidden.add(("list", "pods")), HERE, "pods", Problem.OWN_RIGHT,
        "your user may not list pods", Level.WARN,
    ),
    "a-lease-that-is-renewed-late": Fault(
        lambda world: world.a.put(meta.LEASES, lease(world.a, ago=timedelta(seconds=130))),
        HERE, "daemon", Problem.NO_POD, "s ago, and a daemon that runs renews it", Level.WARN,
    ),
    "a-lease-that-is-not-renewed": Fault(
        lambda world: world.a.put(meta.LEASES, lease(world.a, ago=timedelta(minutes=4))),
        HERE, "daemon", Problem.NO_POD, "no daemon renewed its Lease within three minutes",
    ),
    "a-cluster-that-is-not-published": Fault(
        lambda world: world.a.drop(meta.CLUSTERS, "a"), "the current context", "published", Problem.NOT_PUBLISHED,
        "waits until its daemon has created its Cluster",
    ),
    "a-secret-that-is-not-published": Fault(
        lambda world: world.a.drop(meta.SECRETS, "a", NAMESPACE), HERE, "published", Problem.NOT_PUBLISHED,
        f"waits until its daemon has published the Secret {NAMESPACE}/a",
    ),
    "two-clusters-with-the-own-id": Fault(
        lambda world: world.a.put(meta.CLUSTERS, {**cluster(world.a), "metadata": {"name": "c"}}),
        HERE, "published", Problem.NOT_PUBLISHED, "the Clusters a, c all have its own ID",
    ),
    "a-peer-whose-secret-is-missing": Fault(
        lambda world: world.a.drop(meta.SECRETS, "b", NAMESPACE),
        "b", "kubeconfig", Problem.NOT_SWAPPED, f"its Secret {NAMESPACE}/b is missing here",
    ),
    "a-peer-that-does-not-know-the-cluster": Fault(
        lambda world: world.b.drop(meta.CLUSTERS, "a"),
        "b", "as-seen", Problem.NOT_SWAPPED, "does not know this cluster",
    ),
    "a-peer-that-is-not-read": Fault(
        state("a", "b", state="Failed", message="no answer in time"),
        "b", "state", Problem.NOT_READ, "the daemon here does not read it: no answer in time",
    ),
    "a-peer-that-does-not-read-the-cluster": Fault(
        state("b", "a", state="Failed", message="refused"),
        "b", "as-seen", Problem.NOT_READ, "does not read this cluster: refused",
    ),
    "a-peer-that-has-an-earlier-address": Fault(
        lambda world: (state("b", "a", state="Failed", message="refused")(world), move(world, at="b", name="a")),
        "b", "as-seen", Problem.MOVED, "does not read this cluster: refused; it has an earlier address of this cluster",
    ),
    "a-peer-whose-secret-is-no-kubeconfig": Fault(
        lambda world: world.a.find(meta.SECRETS, "b", NAMESPACE).update(data={}),
        "b", "kubeconfig", Problem.KUBECONFIG, f"Secret {NAMESPACE}/b: data.kubeconfig: is missing",
    ),
    "a-peer-whose-cluster-names-no-secret": Fault(
        lambda world: world.a.find(meta.CLUSTERS, "b")["spec"].pop("authInfo"),
        "b", "kubeconfig", Problem.KUBECONFIG, "its Cluster names no Secret",
    ),
    "a-peer-that-is-another-cluster": Fault(
        lambda world: world.b.find(meta.NAMESPACES, "kube-system")["metadata"].update(uid="id-of-c"),
        "b", "identity", Problem.OTHER_CLUSTER, "is another cluster: its ID is id-of-c, not id-of-b",
    ),
    "a-peer-that-refuses-the-token": Fault(
        lambda world: setattr(world.b, "token", "another"),
        "b", "token", Problem.UNAUTHORIZED, "does not accept the token (401)",
    ),
    "a-peer-whose-reader-lacks-a-right": Fault(
        lambda world: world.b.forbidden.add(("list", "resourcesyncrules")),
        "b", "rights", Problem.MISSING_RIGHT, "the reader may not list resourcesyncrules (403)",
    ),
    "a-peer-whose-certificate-ends-soon": Fault(
        lambda world: world.b.show_certificate(days=20),
        "b", "certificate", Problem.EXPIRES_SOON, "for 19 more days", Level.WARN,
    ),
    "a-peer-whose-clock-differs": Fault(
        lambda world: setattr(world.b, "clock_ahead", timedelta(minutes=5)),
        "b", "clock", Problem.CLOCK, "the clock of the API server differs by", Level.WARN,
    ),
}  # fmt: skip


def is_bad(finding: CheckResult) -> bool:
    return finding.level is not Level.OK


async def test_a_group_that_is_well_passes_every_check(tmp_path: Path) -> None:
    found = await findings(tmp_path, lambda _: None)
    assert list(filter(is_bad, found)) == []
    assert {(one.subject, one.step) for one in found} >= {
        (HERE, "image"), (HERE, "daemon"), ("a", "identity"), ("b", "rights"), ("b", "state"), ("b", "as-seen"),
    }  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_each_fault_is_one_finding_of_its_cause(tmp_path: Path, fault: Fault) -> None:
    (found,) = filter(is_bad, await findings(tmp_path, fault.change))
    assert (found.subject, found.step, found.level, found.problem) == (
        fault.subject, fault.step, fault.level, fault.problem,
    )  # fmt: skip
    assert fault.words in found.message


UNSCHEDULED = {**pod("daemon-2", ready=False), "spec": {}}
QUOTA = 'pods "daemon-2" is forbidden: exceeded quota'


def without_node(world: World) -> None:
    pods(UNSCHEDULED)(world)
    world.a.drop(meta.NODES, "n")


def refused_by_quota(world: World) -> None:
    pods()(world)
    refused = {"type": "ReplicaFailure", "status": "True", "message": QUOTA}
    world.a.find(DEPLOYMENTS, "daemon", NAMESPACE)["status"] = {"conditions": [refused]}


def without_replicas(world: World) -> None:
    pods()(world)
    world.a.find(DEPLOYMENTS, "daemon", NAMESPACE)["spec"]["replicas"] = 0


def unschedulable(world: World) -> None:
    conditions = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]
    pods({**UNSCHEDULED, "status": {"conditions": conditions}})(world)


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    ("change", "problem", "words"),
    [
        (pods(), Problem.NOT_CREATED, "the Deployment daemon has no Pod yet"),
        (refused_by_quota, Problem.NOT_CREATED, f"the Deployment daemon creates no Pod: {QUOTA}"),
        (without_replicas, Problem.NO_REPLICA, "the Deployment daemon has 0 replicas"),
        (without_node, Problem.NO_NODE, "the cluster has no node, so no Pod of the Deployment daemon runs"),
        (unschedulable, Problem.NO_NODE, "Pod daemon-2 is on no node: 0/1 nodes are available"),
        (pods(UNSCHEDULED), Problem.NO_NODE, "Pod daemon-2 is on no node: no scheduler has answered"),
    ],
)
async def test_pods_that_do_not_run_are_no_fault_of_the_image_nor_of_a_daemon_that_runs_elsewhere(
    tmp_path: Path, change: Callable[[World], object], problem: Problem, words: str, runs: bool
) -> None:
    def spoil(world: World) -> None:
        change(world)
        if not runs:
            name = lease(world.a, ago=timedelta())["metadata"]["name"]
            world.a.drop(meta.LEASES, name, NAMESPACE)

    (found,) = filter(is_bad, await findings(tmp_path, spoil))
    more = "; its Lease is renewed, so a daemon runs elsewhere, or has just ended" if runs else ""
    assert (found.step, found.problem, found.message) == ("pods", problem, words + more)
    assert found.level is (Level.WARN if runs else Level.FAIL)


async def test_an_own_clock_that_differs_is_a_warning_of_both_checks(tmp_path: Path) -> None:
    """The published address leads to the same API server: its clock is one line."""

    def change(world: World) -> None:
        world.a.clock_ahead = timedelta(minutes=-5)

    for spoil in (change, lambda world: (change(world), world.a.drop(meta.CLUSTERS, "a"))):
        (found,) = (one for one in await findings(tmp_path, spoil) if one.step == "clock" and is_bad(one))
        assert found.problem is Problem.CLOCK
    (before,) = filter(is_bad, await findings(tmp_path, change, pre=True))
    assert (before.step, before.level, before.problem) == ("clock", Level.WARN, Problem.CLOCK)


async def test_a_daemon_that_runs_is_shown_with_the_age_of_its_lease(tmp_path: Path) -> None:
    (found,) = (one for one in await findings(tmp_path, lambda _: None) if one.step == "daemon")
    assert re.fullmatch(r"runs, version 0\.9\.1; it renewed its Lease \d+ s ago", found.message)


async def test_a_peer_that_is_disabled_is_not_asked(tmp_path: Path) -> None:
    def change(world: World) -> None:
        world.a.find(meta.CLUSTERS, "b")["metadata"]["annotations"] = {meta.CLUSTER_DISABLED: "true"}
        world.b.token = "another"

    found = await findings(tmp_path, change)
    assert list(filter(is_bad, found)) == []
    assert ("b", "state") in {(one.subject, one.step) for one in found}
