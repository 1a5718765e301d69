"""The demo, on its own control planes and on contexts of a kubeconfig, without a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from hack.controlplane import Group, ensure_binaries
from tests.docs.documents import ROOT

STOPPED = "The API server of demo-2 stops; the copies of its objects stay"
STEPS = [
    "Install the chart in each cluster",
    "swap: each copies its Cluster and its Secret to the other",
    "joins by one swap",
    "A rule in",
    "A copy is edited; it is put back",
    "It is deleted at its owner",
]


def _demo(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hack.demo", *arguments], cwd=ROOT, env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip


def _assert_told(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    places = [done.stdout.find(step) for step in STEPS]
    assert -1 not in places
    assert places == sorted(places)
    assert "$ registry-controller join " in done.stdout
    assert "$ registry-controller status " in done.stdout


def test_the_demo_tells_its_story_on_control_planes_of_its_own() -> None:
    done = _demo()
    _assert_told(done)
    assert "$ kubectl --context demo-1 get clusters" in done.stdout
    assert done.stdout.find(STEPS[-2]) < done.stdout.find(STOPPED) < done.stdout.find(STEPS[-1])


@pytest.mark.nightly
def test_the_demo_tells_its_story_on_contexts_and_takes_everything_away_again() -> None:
    with Group(3, prefix="theirs") as group:
        before = [_everything(cluster) for cluster in group]
        done = _demo(*(cluster.name for cluster in group), env={"KUBECONFIG": str(group.kubeconfig)})
        _assert_told(done)
        assert "; the copies of its objects stay" not in done.stdout
        assert [_everything(cluster) for cluster in group] == before


def test_the_demo_does_not_begin_where_it_would_be_in_the_way() -> None:
    """It says at once what is in its way, in all three, and the command that removes it."""
    with Group(1, prefix="taken") as group:
        taken, env = group[0], {"KUBECONFIG": str(group.kubeconfig)}
        before = _everything(taken)
        taken.kubectl("create", "namespace", "cluster-registry")
        taken.kubectl("create", "secret", "generic", "hello")
        taken.kubectl("create", "clusterrole", "cluster-registry-controller", "--verb=get", "--resource=secrets")
        held = _everything(taken)
        done = _demo(taken.name, "another", "a-third", env=env)
        assert done.returncode == 1
        assert "context another cannot be used" in done.stderr
        assert "context a-third cannot be used" in done.stderr
        for name in ("namespace/cluster-registry", "secret/hello", "cluster-registry-controller"):
            assert name in done.stderr
        assert _everything(taken) == held
        (command,) = (line for line in done.stderr.splitlines() if line.startswith("  kubectl"))
        assert "--context taken-1 " in command
        path = os.pathsep.join([str(ensure_binaries(["kubectl"])["kubectl"].parent), os.environ["PATH"]])
        subprocess.run(["bash", "-c", command], env={**os.environ, **env, "PATH": path}, check=True, timeout=60)
        assert _everything(taken) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["one", "two"], "three clusters"),
        (["one", "two", "one"], "named twice"),
        (["--image", "registry-controller:0.1.0"], "CONTEXTS"),
    ],
    ids=["two clusters", "one cluster twice", "an image without clusters"],
)
def test_the_demo_says_what_is_wrong_with_its_arguments(arguments: list[str], says: str) -> None:
    done = _demo(*arguments)
    assert done.returncode == 2
    assert says in done.stderr


def _everything(cluster: object) -> set[str]:
    """Name what could have been left behind: namespaces, definitions, cluster roles, Secrets."""
    kubectl = cluster.kubectl  # type: ignore[attr-defined]
    kinds = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,secrets"
    return set(kubectl("get", kinds, "--all-namespaces", "-o", "name").split())


@pytest.fixture(scope="module", autouse=True)
def _binaries() -> None:
    ensure_binaries()
