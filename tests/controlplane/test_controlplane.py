"""Groups of clusters: started, frozen, stopped, and cleaned up whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hack.controlplane import CommandError, Group, ProcessError, ensure_binaries
from hack.controlplane.api import Api, Manifest
from hack.controlplane.cli import main
from hack.controlplane.errors import ApiError
from hack.controlplane.guardian import start_time
from hack.controlplane.ports import Port

_CHECKOUT = Path(__file__).resolve().parents[2]
_HOLDER = """
import json, signal
from hack.controlplane import Group, Kubelet
with Group(1, prefix="doomed") as group:
    deployment = ["create", "deployment", "sleeper", "--image=none", "-n", "default"]
    group[0].kubectl(*deployment, "--", "sleep", "1000")
    kubelet = Kubelet(group[0], namespace="default")
    kubelet.start()
    group[0].etcd.freeze()
    pids = [kubelet.pid, *(process.pid for process in group[0].processes)]
    print(json.dumps({"pids": pids, "directory": str(group.directory)}), flush=True)
    signal.pause()
"""


def test_the_merged_kubeconfig_reaches_every_cluster(group: Group) -> None:
    assert [cluster.name for cluster in group] == ["demo-1", "demo-2"]
    assert group["demo-2"] is group[1]
    assert len(group) == 2
    uids = {
        _kubectl(group, cluster.name, "get", "ns", "kube-system", "-o", "jsonpath={.metadata.uid}") for cluster in group
    }
    assert len(uids) == 2


def test_a_started_cluster_has_its_default_service_account(group: Group) -> None:
    for cluster in group:
        assert "default" in cluster.kubectl("get", "serviceaccounts", "-n", "default", "-o", "name")


def test_kubectl_errors_carry_what_it_said(group: Group) -> None:
    with pytest.raises(CommandError, match="notThere"):
        group[0].kubectl("get", "ns", "notThere")
    assert group[0].kubectl("get", "ns", "notThere", check=False) == ""


def test_helm_keeps_its_homes_inside_the_clusters_directory(group: Group) -> None:
    homes = dict(line.split("=", 1) for line in group[0].helm("env").splitlines())
    for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"):
        assert homes[name].strip('"').startswith(str(group[0].directory))


def test_a_frozen_api_server_does_not_answer_until_it_is_thawed(group: Group) -> None:
    cluster = group[1]
    pid = cluster.apiserver.pid
    cluster.apiserver.freeze()
    try:
        with pytest.raises(ApiError, match="timed out"):
            cluster.api.get("/api/v1/namespaces/default", timeout_s=0.5)
        assert cluster.apiserver.running
    finally:
        cluster.apiserver.thaw()
    assert cluster.api.get("/api/v1/namespaces/default")["kind"] == "Namespace"
    assert cluster.apiserver.pid == pid


def test_a_stopped_cluster_keeps_its_data_and_its_address(group: Group) -> None:
    cluster = group[1]
    server, pid = cluster.server, cluster.etcd.pid
    cluster.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    cluster.stop()
    assert not any(process.running for process in cluster.processes)
    with pytest.raises(ProcessError, match="does not run"):
        _ = cluster.apiserver.pid
    cluster.start()
    assert cluster.server == server
    assert cluster.etcd.pid != pid
    assert cluster.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"


def test_a_killed_process_is_started_again_by_hand(group: Group) -> None:
    cluster = group[1]
    cluster.controller_manager.kill()
    assert not cluster.controller_manager.running
    cluster.controller_manager.restart()
    assert cluster.controller_manager.running


def test_the_audit_log_shows_the_admins_request_and_no_body(group: Group, eventually: Callable[..., None]) -> None:
    cluster = group[0]
    offset = cluster.audit_offset()
    cluster.kubectl("create", "secret", "generic", "hidden", "--from-literal=key=do-not-log-me")

    def created() -> list[Manifest]:
        events = cluster.audit(offset)
        return [event for event in events if (event["verb"], _object(event)) == ("create", "secrets/hidden")]

    eventually(created)
    event = created()[0]
    assert event["user"]["username"] == "kubernetes-admin"
    assert event["level"] == "Metadata"
    assert "do-not-log-me" not in cluster.audit_log.read_text()
    assert "ZG8tbm90LWxvZy1tZQ" not in cluster.audit_log.read_text()


def test_a_half_written_audit_line_is_left_out(tmp_path: Path) -> None:
    from hack.controlplane.audit import audit_offset, read_audit

    log = tmp_path / "audit.log"
    assert (read_audit(log), audit_offset(log)) == ([], 0)
    log.write_bytes(b'{"a": 1}\n{"b": 2}\n{"c":')
    assert read_audit(log) == [{"a": 1}, {"b": 2}]
    assert audit_offset(log) == 18
    assert read_audit(log, since=9) == [{"b": 2}]


def test_a_credential_of_one_cluster_is_worth_nothing_in_another(group: Group) -> None:
    stranger = Api(group[1].port, pki=group[0].pki)
    with pytest.raises(ApiError, match="certificate verify failed"):
        stranger.get("/api/v1/namespaces")
    token = group[0].kubectl("create", "token", "default").strip()
    with pytest.raises(CommandError, match=r"Unauthorized|logged in"):
        _with_token(group[1].server, token)


def test_a_group_grows_and_passes_feature_gates_on(tmp_path: Path) -> None:
    with Group(1, prefix="gate", directory=tmp_path, feature_gates=["WatchList=false"]) as group:
        added = group.add()
        assert added.name == "gate-2"
        for cluster in group:
            assert _kubectl(group, cluster.name, "get", "ns", "default", "-o", "name") == "namespace/default\n"
            metrics = cluster.kubectl("get", "--raw", "/metrics")
            assert 'kubernetes_feature_enabled{name="WatchList",stage="BETA"} 0' in metrics
    assert (tmp_path / "gate-1" / "audit.log").exists()  # a directory that the caller named is left


def test_a_killed_parent_leaves_no_process_and_no_directory(eventually: Callable[..., None]) -> None:
    with _holder() as holder:
        assert holder.stdout is not None
        told = json.loads(holder.stdout.readline())
        assert all(start_time(pid) is not None for pid in told["pids"])
        holder.send_signal(signal.SIGKILL)
    eventually(lambda: all(start_time(pid) is None for pid in told["pids"]))
    eventually(lambda: not Path(told["directory"]).exists())


def test_an_interrupted_parent_has_cleaned_up_when_it_ends() -> None:
    with _holder() as holder:
        assert holder.stdout is not None
        told = json.loads(holder.stdout.readline())
        holder.send_signal(signal.SIGINT)
    assert all(start_time(pid) is None for pid in told["pids"])
    assert not Path(told["directory"]).exists()


@pytest.mark.parametrize("sign", ["kubeconfig", "etcd.log", "kube-apiserver.log", "kube-controller-manager.log"])
def test_a_parent_interrupted_during_the_start_has_cleaned_up_when_it_ends(
    tmp_path: Path, sign: str, eventually: Callable[..., None]
) -> None:
    with _holder(env={"TMPDIR": str(tmp_path)}) as holder:
        eventually(lambda: list(tmp_path.glob(f"*/doomed-1/*{sign}")))
        holder.send_signal(signal.SIGINT)
    assert list(tmp_path.iterdir()) == []


def test_a_port_is_reserved_until_it_is_released() -> None:
    from hack.controlplane.ports import _reserve

    port = Port()
    assert _reserve(port.number) is None
    port.release()
    again = _reserve(port.number)
    assert again is not None
    again.close()


def test_a_detached_group_is_found_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, path in ensure_binaries().items():
        monkeypatch.setenv(f"TEST_ASSET_{name.upper().replace('-', '_')}", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["status"]) == 1
    assert main(["up", "1", "--prefix", "away", "--detach"]) == 0
    try:
        assert "export KUBECONFIG=" in capsys.readouterr().out
        assert main(["up", "1", "--prefix", "away"]) == 1
        assert "is up already" in capsys.readouterr().err
        assert main(["status"]) == 0
        assert "away-1" in capsys.readouterr().out
    finally:
        assert main(["down"]) == 0
    assert "away: ended" in capsys.readouterr().out
    assert main(["status"]) == 1


@pytest.mark.parametrize("options", [[], ["--detach"]], ids=["by default", "with --detach"])
def test_up_returns_in_a_pipeline_and_leaves_the_group_up(tmp_path: Path, options: list[str]) -> None:
    assets = {f"TEST_ASSET_{name.upper().replace('-', '_')}": str(path) for name, path in ensure_binaries().items()}
    env = {**os.environ, **assets, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "hack.controlplane"]

    def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = ["/bin/sh", "-c", script, *command, *arguments]
        return subprocess.run(argv, cwd=_CHECKOUT, env=env, capture_output=True, text=True, check=False, timeout=120)

    try:
        done = run('"$0" "$@" | cat', "up", "1", "--prefix", "piped", *options)
        assert "piped-1" in done.stdout, done.stderr
        assert "piped-1" in run('"$0" "$@"', "status").stdout
    finally:
        assert "piped: ended" in run('"$0" "$@"', "down").stdout


@contextlib.contextmanager
def _holder(script: str = _HOLDER, *, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds a group; it must have ended by itself soon after the block."""
    holder = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=_CHECKOUT,
        env={**os.environ, **(env or {})},
    )
    with holder:
        try:
            yield holder
            holder.wait(timeout=30)
        finally:
            holder.kill()


def _kubectl(group: Group, context: str, *argv: str) -> str:
    kubectl = str(ensure_binaries(["kubectl"])["kubectl"])
    command = [kubectl, f"--kubeconfig={group.kubeconfig}", f"--context={context}", *argv]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _with_token(server: str, token: str) -> None:
    kubectl = str(ensure_binaries(["kubectl"])["kubectl"])
    argv = [kubectl, f"--server={server}", "--insecure-skip-tls-verify", f"--token={token}", "get", "ns"]
    env = {"HOME": "/nonexistent", "KUBECONFIG": "/dev/null"}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise CommandError(argv, returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)


def _object(event: Manifest) -> str:
    reference = event.get("objectRef", {})
    return f"{reference.get('resource')}/{reference.get('name')}"
