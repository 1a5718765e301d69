"""Two clusters with real nodes, in the namespaces that `python -m hack.pods` made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.controlplane.kubeconfig import write_kubeconfig
from hack.pods.cluster import NodeCluster, node_clusters
from hack.pods.node import prepare_run
from hack.programs.image.build import DEFAULT_TAG, BuiltImage
from tests.e2e.commands import Ended, contexts, run
from tests.e2e.group import NAMESPACE, SECRET, eventually, in_sync, rule
from tests.pods.member import SYNCED, PodMember


@pytest.fixture(scope="session")
def image() -> BuiltImage:
    """Return the image that was built before the namespaces were made."""
    folder = Path(os.environ["PODS_IMAGE"])
    return BuiltImage(DEFAULT_TAG, archive=folder / "image.tar", root=folder / "root")


@pytest.fixture(scope="session")
def scratch(image: BuiltImage) -> Path:
    """Prepare the files and the network of the run, and return the folder of the files."""
    folder = Path(os.environ["PODS_SCRATCH"])
    prepare_run(folder)
    return folder


@pytest.fixture(scope="session")
def clusters(image: BuiltImage, scratch: Path) -> Iterator[list[NodeCluster]]:
    with node_clusters(2, run=os.environ["PODS_RUN"], scratch=scratch, image=image.archive) as found:
        yield found


@pytest.fixture(scope="session")
def members(clusters: list[NodeCluster]) -> list[PodMember]:
    """Install the chart with the image in both clusters, in a namespace that admits restricted Pods only."""
    found = [PodMember(cluster) for cluster in clusters]
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    for member in found:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
        member.kubectl("create", "-f", "-", stdin=json.dumps(namespace))
        member.install()
    for member in found:
        member.wait_available()
    return found


@pytest.fixture(scope="session")
def kubeconfig(members: list[PodMember], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a kubeconfig with a context for each member."""
    file = tmp_path_factory.mktemp("contexts") / "kubeconfig"
    write_kubeconfig(file, [member.nodes.entry for member in members])
    return file


@pytest.fixture(scope="session")
def join_ended(members: list[PodMember], kubeconfig: Path) -> Ended:
    """Join the members by the command, which runs its checks in their Pods."""
    return run(kubeconfig, "join", *contexts(member.name for member in members), "--wait", "4m")


@pytest.fixture(scope="session")
def joined(members: list[PodMember], join_ended: Ended) -> list[PodMember]:
    first, second = members
    assert join_ended.code == 0, join_ended.stderr
    in_sync(members)
    first.apply(rule("secrets", SECRET, {"match": [{"labels": [{"matchLabels": SYNCED}]}]}))
    eventually(lambda: second.find("resourcesyncrule", "secrets"))
    return members
