"""docs/install.md: its versions are those of the chart, and each provider has a section that cites the provider."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.docs.documents import ROOT, table

PAGE = ROOT / "docs" / "install.md"
TEXT = PAGE.read_text(encoding="utf-8")
CITED = {
    "EKS": "docs.aws.amazon.com", "GKE": "cloud.google.com", "AKS": "learn.microsoft.com",
    "k3s and RKE2": "docs.k3s.io",
    "Rancher": "ranchermanager.docs.rancher.com", "kubeadm": "kubernetes.io",
}  # fmt: skip
LOCAL = {"kind", "k3d"}


def section(title: str) -> str:
    return re.split(r"^##", TEXT.partition(f"### {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_version_of_kubernetes_is_the_one_of_the_chart() -> None:
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "cluster-registry" / "Chart.yaml").read_text(encoding="utf-8"))
    oldest = re.search(r">=\s*(\d+\.\d+)", chart["kubeVersion"])
    assert oldest is not None
    rows = dict(table(PAGE, header="what"))
    assert rows["Kubernetes"].startswith(f"{oldest[1]} or newer")


def test_each_provider_of_the_table_has_a_section() -> None:
    linked = {anchor for row in table(PAGE, header="provider") for anchor in re.findall(r"\(#([\w-]+)\)", row[0])}
    assert linked == {title.lower().replace(" ", "-") for title in CITED.keys() | LOCAL}


@pytest.mark.parametrize("title", CITED)
def test_a_section_cites_the_provider(title: str) -> None:
    hosts = re.findall(r"\]\(https://([^/)]+)/", section(title))
    assert any(host.endswith(CITED[title]) for host in hosts)


@pytest.mark.parametrize("title", sorted(CITED.keys() | LOCAL))
def test_a_section_names_the_address(title: str) -> None:
    assert re.search(r"https://|cluster\.endpoint|value\(endpoint\)|fqdn|controlPlaneEndpoint", section(title))
