"""Two clusters with real nodes, in the namespaces that `python -m hack.pods` made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.pods.cluster import NodeCluster, node_clusters
from hack.pods.node import prepare_run
from hack.programs.image.build import DEFAULT_TAG, BuiltImage
from tests.e2e.group import NAMESPACE
from tests.pods.member import PodMember


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
