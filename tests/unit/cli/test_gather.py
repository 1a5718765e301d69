"""`gather` and `events`: what an archive has, and which Events are shown; no data of a Secret gets into either."""

from __future__ import annotations

import io
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from registry_controller.api import meta
from registry_controller.cli import program
from registry_controller.cli.events import build_row, is_ours, select_events
from registry_controller.cli.gather import (
    GatheredFiles,
    find_metrics_port,
    name_folders,
    remove_managers,
    shorten_definition,
    shorten_deployment,
    shorten_pod,
    shorten_secret,
    write_archive,
)

CANARY = "a-canary-that-must-not-sing"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
INFO = {"name": "x", "annotations": {meta.KUBECTL_LAST_APPLIED: CANARY}, "managedFields": [{"manager": CANARY}]}
CONTAINER = {
    "name": "c", "image": "i", "args": ["run"], "env": [{"name": "TOKEN", "value": CANARY}],
    "ports": [{"name": "metrics", "containerPort": 8080}],
}  # fmt: skip
POD = {"metadata": {**INFO, "annotations": {"note": CANARY}}, "spec": {"containers": [CONTAINER]}, "status": {}}


@pytest.mark.parametrize(
    ("shorten", "manifest"),
    [
        (remove_managers, {"metadata": INFO, "spec": {}}),
        (shorten_secret, {"metadata": {**INFO, "annotations": {"note": CANARY}}, "data": {"k": CANARY}, "type": "t"}),
        (shorten_secret, {"metadata": INFO, "stringData": {"k": CANARY}, "other": CANARY}),
        (shorten_pod, POD),
        (shorten_deployment, {"metadata": INFO, "spec": {"template": POD}}),
        (shorten_definition, {"metadata": INFO, "spec": {"names": {"kind": CANARY}}}),
    ],
)
def test_no_value_that_people_hide_is_kept(shorten: Any, manifest: dict[str, Any]) -> None:
    text = json.dumps(shorten(manifest))
    assert CANARY not in text
    assert '"x"' in text


def test_a_secret_keeps_name_type_and_keys() -> None:
    found = shorten_secret({"metadata": {"name": "s", "namespace": "n"}, "type": "Opaque", "data": {"b": "1", "a": ""}})
    assert found == {"metadata": {"name": "s", "namespace": "n"}, "type": "Opaque", "keys": ["a", "b"]}


def test_the_metrics_of_a_pod_have_a_port() -> None:
    assert find_metrics_port(POD) == 8080
    assert find_metrics_port({"spec": {"containers": [{"name": "c"}]}}) == 0


def test_an_archive_is_for_its_user_alone_and_names_the_missing_parts(tmp_path: Path) -> None:
    found = GatheredFiles(problems=["b: refused"])
    found.add("a/pods.yaml", [{"x": 1}])
    target = tmp_path / "report.tar.gz"
    target.touch(mode=0o644)  # an earlier one
    write_archive(found, target, now=NOW)
    assert target.stat().st_mode & 0o77 == 0
    with tarfile.open(target) as opened:
        assert opened.getnames() == ["cluster-registry/a/pods.yaml", "cluster-registry/problems.txt"]
        read = opened.extractfile("cluster-registry/problems.txt")
        assert read is not None
        assert read.read() == b"b: refused\n"


def test_a_cluster_that_cannot_be_read_is_in_the_archive_and_fails(tmp_path: Path) -> None:
    target = tmp_path / "report.tar.gz"
    env = {"KUBECONFIG": "/nowhere"}
    found = CliRunner().invoke(program, ["gather", "--context", "a", "--file", str(target)], env=env)
    assert (found.exit_code, found.stdout) == (1, f"{target}\n")
    assert "warning: a: kubeconfig /nowhere" in found.stderr
    assert target.exists()


def test_each_context_has_a_folder_of_its_own_in_the_archive() -> None:
    contexts = ["a/b", "a_b", "..", ".", "arn:aws:eks:eu-1:1:cluster/x", "user@b", "user@b"]
    assert name_folders(contexts) == ["a_b", "a_b_", ".._", "._", "arn_aws_eks_eu-1_1_cluster_x", "user@b", "user@b_"]


def test_an_archive_can_go_to_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(program, ["gather", "--context", "a", "--file", "-"], env={"KUBECONFIG": "/nowhere"})
    assert (found.exit_code, list(tmp_path.iterdir())) == (1, [])
    with tarfile.open(fileobj=io.BytesIO(found.stdout_bytes)) as opened:
        assert opened.getnames() == ["cluster-registry/client.yaml", "cluster-registry/problems.txt"]


def event(kind: str, name: str, at: str, **fields: Any) -> dict[str, Any]:
    about = {"apiVersion": meta.API_VERSION, "kind": kind, "name": name}
    return {"involvedObject": about, "lastTimestamp": at, "type": "Normal", "reason": "R", "message": "m", **fields}


def test_events_are_those_of_our_kinds_in_order() -> None:
    late, early = event("Cluster", "a", "2026-01-02"), event("ResourceSyncRule", "r", "2026-01-01")
    other = event("Pod", "a", "2026-01-03")
    other["involvedObject"]["apiVersion"] = "v1"
    alien = event("Cluster", "a", "2026-01-03")
    alien["involvedObject"]["apiVersion"] = "cluster.x-k8s.io/v1beta1"
    assert select_events([late, other, alien, early, {}], "", "") == [early, late]
    assert is_ours(late, "cluster", "a")
    assert not is_ours(late, "cluster", "b")
    assert not is_ours(late, "resourcesyncrule", "a")


def test_a_repeated_event_has_its_count() -> None:
    found = event("Cluster", "a", "2026-01-02", count=3, firstTimestamp="2026-01-01", source={"component": "daemon"})
    row = build_row("kind-a", found)
    assert row[-4:] == ["cluster/a", "2026-01-01", "daemon", "m (x3)"]


def test_the_message_about_a_cluster_that_does_not_answer_names_its_context(tmp_path: Path) -> None:
    names = ("a", "b")
    config = {
        "clusters": [{"name": name, "cluster": {"server": "http://127.0.0.1:1"}} for name in names],
        "users": [{"name": name, "user": {"token": "t"}} for name in names],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in names],
        "current-context": "a",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    args = ["events", "--context", "b", "--kubeconfig", str(tmp_path / "config")]
    found = CliRunner().invoke(program, args)
    assert (found.exit_code, found.stderr[:34]) == (1, "Error: b: get /api/v1/events: http")


@pytest.mark.parametrize(
    ("args", "said"),
    [(("secrets",), "secret: is not one of cluster, "), (("--watch", "-o", "json"), "it has no -o json")],
)
def test_a_wrong_command_line_ends_with_2(args: tuple[str, ...], said: str) -> None:
    found = CliRunner().invoke(program, ["events", *args], env={"KUBECONFIG": "/nowhere"})
    assert found.exit_code == 2
    assert said in found.stderr
