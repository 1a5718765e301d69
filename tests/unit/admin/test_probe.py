"""The program `probe`, as `join` calls it in a daemon's Pod: one line in, one line out."""

from __future__ import annotations

import base64

import msgspec
import pytest
import trustme
from click.testing import CliRunner

from registry_controller import __version__
from registry_controller.admin.findings import Level, Problem
from registry_controller.admin.probe import OtherCA, ProbeAnswer, ProbeRequest, ProbeTarget, build_target
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import InvalidKubeconfig
from registry_controller.cli import program
from registry_controller.kube.kubeconfig import Credentials

TOKEN = "a-token-that-is-secret"


def target(server: str) -> ProbeTarget:
    credentials = Credentials(server, "", TOKEN, "", "", "")
    return ProbeTarget("b", "id-b", credentials, "cluster-registry", (OtherCA("the system's store"),))


def test_a_request_is_answered_in_one_line_and_no_token_is_shown() -> None:
    line = msgspec.json.encode(ProbeRequest((target("https://127.0.0.1:1"),))) + b"\n"
    result = CliRunner().invoke(program, ["probe"], input=line)
    assert result.exit_code == 0, result.output
    answer = msgspec.json.decode(result.stdout_bytes, type=ProbeAnswer)
    assert answer.version == __version__
    assert [(one.step, one.level) for one in answer.findings] == [("address", Level.OK), ("connection", Level.FAIL)]
    assert answer.findings[-1].problem is Problem.REFUSED
    assert TOKEN not in result.output
    assert TOKEN not in repr(target("https://127.0.0.1:1"))


def test_another_input_is_refused_without_its_content() -> None:
    result = CliRunner().invoke(program, ["probe"], input=b'{"targets": "a-token-that-is-secret"}\n')
    assert result.exit_code == 2
    assert TOKEN not in result.output


def cluster(*endpoints: dict[str, str]) -> Cluster:
    spec = {"clusterID": "id-b", "kubernetesApiEndpoints": list(endpoints)}
    return read_cluster({"metadata": {"name": "b", "uid": "uid-b"}, "spec": spec})


def test_a_member_is_checked_at_the_endpoint_of_the_viewers_network() -> None:
    """The checks of `join` took the Secret's address and CA, also where the members use an endpoint of the Cluster."""
    ca = trustme.CA().cert_pem.bytes()
    published = Credentials("https://127.0.0.1:1", "the Secret's", TOKEN, "", "", "")
    both = cluster(
        {"serverAddress": "https://127.0.0.1:2", "caBundle": base64.b64encode(ca).decode()},
        {"clientNetwork": "lan", "serverAddress": "https://127.0.0.1:3"},
    )

    def build(found: Cluster, network_name: str) -> ProbeTarget:
        return build_target(found, published, namespace="cluster-registry", network_name=network_name)

    bundle, lan, plain = build(both, "default"), build(both, "lan"), build(cluster(), "lan")
    assert [one.credentials.server[-1] for one in (bundle, lan, plain)] == ["2", "3", "1"]
    assert [one.ca_place for one in (bundle, lan, plain)] == ["the caBundle of its Cluster", "its Secret", "its Secret"]
    assert bundle.credentials.ca_pem.strip() == ca.decode().strip()
    assert lan.credentials.ca_pem == plain.credentials.ca_pem == "the Secret's"
    with pytest.raises(InvalidKubeconfig, match=r"kubernetesApiEndpoints\.caBundle"):
        build(cluster({"caBundle": "bm8="}), "lan")


def test_no_help_lists_the_program() -> None:
    assert "probe" not in CliRunner().invoke(program, ["--help"]).output
