"""The chart with Helm 3 and Helm 4: the same bytes, and releases that one made and the other upgrades."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.controlplane import Cluster, Group

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "cluster-registry"
NAMESPACE = "cluster-registry"
VALUES: dict[str, dict[str, Any]] = {
    "none": {},
    "null": {"podSecurityContext": None, "resources": {}, "rbac": None, "serviceAccount": None, "podAnnotations": []},
    "values-hardened": yaml.safe_load((CHART / "values-hardened.yaml").read_text(encoding="utf-8")),
    **{
        file.stem: yaml.safe_load(file.read_text(encoding="utf-8"))
        for file in sorted((CHART / "ci").glob("*-values.yaml"))
    },
}

# Helm 4 prints an empty line after each document; the documents have the same bytes.
_DOCUMENT_END = re.compile(r"\n+(?=---\n|\Z)")


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    with Group(1, prefix="helms") as group:
        group[0].kubectl("create", "namespace", NAMESPACE)
        yield group[0]


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_helm_3_and_helm_4_render_the_same_bytes(plane: Cluster, values: dict[str, Any]) -> None:
    argv = ("template", "cluster-registry", str(CHART), "-n", NAMESPACE, "--include-crds", "-f", "-")
    # Helm 3 has no version of Kubernetes of its own in a build without stamps.
    served = ("--kube-version", "1.36.3", "--api-versions", "monitoring.coreos.com/v1")
    third, fourth = (
        plane.helm(*argv, *served, stdin=yaml.safe_dump(values), program=name) for name in ("helm3", "helm")
    )
    assert _DOCUMENT_END.sub("\n", third) == _DOCUMENT_END.sub("\n", fourth)
    assert "kind: Deployment" in third


@pytest.mark.parametrize("programs", [("helm3", "helm"), ("helm", "helm3")], ids=["3 to 4", "4 to 3"])
def test_a_release_of_one_helm_is_upgraded_by_the_other(plane: Cluster, programs: tuple[str, str]) -> None:
    first, second = programs
    argv = ("cluster-registry", str(CHART), "-n", NAMESPACE, "-f", "-")
    full, default = (yaml.safe_dump(VALUES[name]) for name in ("full-values", "default-values"))
    plane.helm("install", *argv, stdin=full, program=first)
    for text in (default, full):
        plane.helm("upgrade", *argv, stdin=text, program=second)
    assert "revision: 3" in plane.helm(
        "get", "metadata", "cluster-registry", "-n", NAMESPACE, "-o", "yaml", program=first
    )
    plane.helm("uninstall", "cluster-registry", "-n", NAMESPACE, program=first)
