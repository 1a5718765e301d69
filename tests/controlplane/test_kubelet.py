"""The stand-in kubelet, with a container that tells what it sees: a few lines of Python."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.controlplane import Cluster, ControlPlaneError, Group, Kubelet, ProcessError, UnsupportedError
from hack.controlplane.guardian import start_time

_APP = """
import http.server, json, os, pathlib, signal, ssl, sys, urllib.error, urllib.request
account = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
signal.signal(signal.SIGTERM, lambda *_: (print("got SIGTERM", flush=True), os._exit(0)))

def call(path):
    base = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
    bearer = {"Authorization": "Bearer " + (account / "token").read_text()}
    trust = ssl.create_default_context(cafile=account / "ca.crt")
    try:
        return urllib.request.urlopen(
            urllib.request.Request(base + path, headers=bearer), context=trust,
        ).status
    except urllib.error.HTTPError as error:
        return error.code

def write(path):
    try:
        pathlib.Path(path).write_text("")
    except OSError as error:
        return error.strerror

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        flag = {"/readyz": "/tmp/unready", "/livez": "/tmp/sick", "/access": "/tmp/none"}[self.path]
        access = {"token": (account / "token").read_text(), "cms": call(CMS)} if self.path == "/access" else None
        self.send_response(500 if pathlib.Path(flag).exists() else 200)
        self.end_headers()
        self.wfile.write(json.dumps(access).encode())
    def log_message(self, *_): pass

CMS = "/api/v1/namespaces/" + (account / "namespace").read_text() + "/configmaps"
places = ("/written", "/etc/written", "/tmp/written", "/var/cache/app/written", str(account / "token"))
print(json.dumps({
    "args": sys.argv[1:], "env": dict(os.environ),
    "account": sorted(path.name for path in account.iterdir() if path.name[0] != "."),
    "configmaps": call(CMS), "secrets": call(CMS.replace("configmaps", "secrets")),
    "writes": {place: write(place) for place in places},
    "config": pathlib.Path("/etc/app/config/greeting").read_text(), "run": os.listdir("/run"),
}), flush=True)
host, port = os.environ["HEALTH_ADDR"].rsplit(":", 1)
http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"""
_ENV = [
    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
    {"name": "ACCOUNT", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
    {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "password", "key": "value"}}},
    {"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "greeting"}}},
    {"name": "ABSENT", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "value", "optional": True}}},
    {"name": "METRICS_ADDR", "value": ":8080"},
    {"name": "HEALTH_ADDR", "value": ":8090"},
    {"name": "WHO", "value": "$(POD_NAMESPACE)/$(ACCOUNT) $(UNKNOWN) $$(ACCOUNT)"},
]
Manifest = dict[str, Any]


def _probe(path: str) -> Manifest:
    """Ask often, and bear with a machine that is busy: only what the app says is to count here."""
    asked = {"path": path, "port": "health"}
    return {"httpGet": asked, "periodSeconds": 1, "timeoutSeconds": 15, "failureThreshold": 2}


def _deployment(namespace: str) -> Manifest:
    container = {
        "name": "app",
        "image": "none",
        "command": ["/opt/venv/bin/python3", "-c", _APP],
        "args": ["--namespace=$(POD_NAMESPACE)", "$$(POD_NAMESPACE)"],
        "env": _ENV,
        "ports": [{"name": "health", "containerPort": 8090}, {"name": "metrics", "containerPort": 8080}],
        "startupProbe": {**_probe("/livez"), "failureThreshold": 60},
        "livenessProbe": _probe("/livez"),
        "readinessProbe": {**_probe("/readyz"), "httpGet": {"path": "/readyz", "port": 8090}},
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "cache", "mountPath": "/var/cache/app"},
            {"name": "config", "mountPath": "/etc/app/config", "readOnly": True},
        ],
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod = {
        "serviceAccountName": "app",
        "containers": [container],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "cache", "emptyDir": {}},
            {"name": "config", "configMap": {"name": "config"}},
        ],
    }
    labels = {"app": "app", "team": "blue"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    selector = {"matchLabels": {"app": "app"}}
    spec = {"replicas": 1, "strategy": {"type": "Recreate"}, "selector": selector, "template": template}
    return _object("apps/v1", "Deployment", "app", namespace, spec=spec)


def _manifests(namespace: str) -> list[Manifest]:
    rbac = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    reference = {"apiGroup": rbac, "kind": "Role", "name": "app"}
    subject = {"kind": "ServiceAccount", "name": "app", "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        _object("v1", "ServiceAccount", "app", namespace),
        _object("v1", "ConfigMap", "config", namespace, data={"greeting": "hello"}),
        _object("v1", "Secret", "password", namespace, stringData={"value": "s3cret"}),
        _object(f"{rbac}/v1", "Role", "app", namespace, rules=rules),
        _object(f"{rbac}/v1", "RoleBinding", "app", namespace, roleRef=reference, subjects=[subject]),
        _deployment(namespace),
    ]


def _object(version: str, kind: str, name: str, namespace: str, **rest: object) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **rest}


@pytest.fixture(scope="module")
def cluster(group: Group) -> Cluster:
    return group[0]


@pytest.fixture
def kubelet(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Kubelet]:
    namespace = request.node.name.replace("_", "-")[:63].strip("-")
    cluster.kubectl("apply", "-f", "-", stdin="\n---\n".join(json.dumps(m) for m in _manifests(namespace)))
    kubelet = Kubelet(cluster, namespace=namespace, path_prepend=[Path(sys.executable).parent], backoff_s=0.2)
    kubelet.start()
    try:
        kubelet.wait_ready()
        yield kubelet
    finally:
        kubelet.kill()
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def test_the_container_has_its_declared_environment_and_nothing_of_the_hosts(kubelet: Kubelet) -> None:
    seen = _told(kubelet)
    env = seen["env"]
    assert seen["args"] == [f"--namespace={kubelet.namespace}", "$(POD_NAMESPACE)"]
    assert env["POD_NAME"] == kubelet.pod_name == env["HOSTNAME"]
    assert (env["POD_NAMESPACE"], env["ACCOUNT"], env["POD_IP"]) == (kubelet.namespace, "app", "127.0.0.1")
    assert (env["TEAM"], env["PASSWORD"], env["GREETING"]) == ("blue", "s3cret", "hello")
    assert env["WHO"] == f"{kubelet.namespace}/app $(UNKNOWN) $(ACCOUNT)"
    assert f"http://{env['METRICS_ADDR']}/metrics" == kubelet.metrics_url
    assert f"http://{env['HEALTH_ADDR']}" == kubelet.health_url
    assert not {"ABSENT", "HOME", "KUBECONFIG", "USER"} & set(env)
    assert kubelet.exec_env == {key: value for key, value in env.items() if key in kubelet.exec_env}


def test_the_container_has_its_service_accounts_rights_and_no_more(kubelet: Kubelet) -> None:
    seen = _told(kubelet)
    assert seen["account"] == ["ca.crt", "namespace", "token"]
    assert (seen["configmaps"], seen["secrets"]) == (200, 403)


def test_the_containers_root_is_read_only_and_the_host_sees_nothing(kubelet: Kubelet) -> None:
    seen = _told(kubelet)
    refused = {path for path, error in seen["writes"].items() if error is not None}
    token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    assert refused == {"/written", "/etc/written", token}
    assert (seen["config"], seen["run"]) == ("hello", ["secrets"])
    for path in (token, "/written", "/tmp/written", "/var/cache/app", "/etc/app"):
        assert not Path(path).exists()


def test_kubectl_rollout_status_sees_the_rollout(kubelet: Kubelet, cluster: Cluster) -> None:
    said = cluster.kubectl("rollout", "status", "deployment/app", "-n", kubelet.namespace, "--timeout=10s")
    assert "successfully rolled out" in said


def test_readiness_reaches_the_status_and_restarts_nothing(
    kubelet: Kubelet, cluster: Cluster, eventually: Callable[..., None]
) -> None:
    before = (kubelet.pid, kubelet.restarts)
    kubelet.execute("touch", "/tmp/unready")
    eventually(lambda: "readyReplicas" not in _status(cluster, kubelet))
    kubelet.execute("rm", "/tmp/unready")
    eventually(lambda: _status(cluster, kubelet).get("readyReplicas") == 1)
    assert (kubelet.pid, kubelet.restarts) == before


def test_a_sick_container_is_started_again(kubelet: Kubelet, eventually: Callable[..., None]) -> None:
    pid, name = kubelet.pid, kubelet.pod_name
    kubelet.execute("touch", "/tmp/sick")
    eventually(lambda: kubelet.restarts == 1)
    kubelet.wait_ready()
    assert kubelet.pid != pid
    assert kubelet.pod_name == name
    assert "liveness probe failed" in kubelet.log.read_text()
    assert "got SIGTERM" in kubelet.log.read_text()


def test_a_crashed_container_is_started_again_and_counted(kubelet: Kubelet, eventually: Callable[..., None]) -> None:
    for count in (1, 2):
        pid = kubelet.pid
        kubelet.crash()
        eventually(lambda count=count: kubelet.restarts == count)
        eventually(lambda pid=pid: kubelet.pids and kubelet.pid != pid)
        kubelet.wait_ready()


def test_a_frozen_container_is_silent_and_not_started_again(kubelet: Kubelet) -> None:
    before = (kubelet.pid, kubelet.restarts)
    kubelet.freeze()
    with pytest.raises(TimeoutError):
        _access(kubelet, timeout_s=0.3)
    kubelet.thaw()
    assert _access(kubelet)["cms"] == 200
    assert (kubelet.pid, kubelet.restarts) == before


def test_a_rotated_token_reaches_the_running_container(kubelet: Kubelet) -> None:
    before = _access(kubelet)
    kubelet.rotate_token()
    after = _access(kubelet)
    assert before["token"] != after["token"]
    assert after["cms"] == 200


def test_a_new_template_is_a_new_pod_on_the_same_ports(kubelet: Kubelet, cluster: Cluster) -> None:
    name, pid, url = kubelet.pod_name, kubelet.pid, kubelet.health_url
    cluster.kubectl("set", "env", "deployment/app", "GREETING=bye", "-n", kubelet.namespace)
    kubelet.wait_ready()
    assert start_time(pid) is None
    assert kubelet.pod_name != name
    assert kubelet.exec_env["GREETING"] == "bye"
    assert kubelet.health_url == url


def test_a_rolling_update_starts_a_new_pod_before_an_old_one_ends(kubelet: Kubelet, cluster: Cluster) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    patch = json.dumps({"spec": {"replicas": 2, "strategy": rolling}})
    cluster.kubectl("patch", "deployment", "app", "-n", kubelet.namespace, "-p", patch)
    kubelet.wait_ready()
    old = kubelet.pids_by_pod
    cluster.kubectl("set", "env", "deployment/app", "GREETING=bye", "-n", kubelet.namespace)
    seen: list[dict[str, int]] = []
    while not seen or set(seen[-1]) & set(old):
        seen.append(kubelet.pids_by_pod)
        time.sleep(0.05)
    kubelet.wait_ready()
    assert {len(pids) for pids in seen} <= {2, 3}
    assert any(len(pids) == 3 for pids in seen)
    assert len(kubelet.pids_by_pod) == 2
    assert kubelet.exec_env["GREETING"] == "bye"
    assert _access(kubelet)["cms"] == 200
    said = cluster.kubectl("rollout", "status", "deployment/app", "-n", kubelet.namespace, "--timeout=10s")
    assert "successfully rolled out" in said


def test_as_many_containers_run_as_the_deployment_wants(kubelet: Kubelet, cluster: Cluster) -> None:
    for wanted in (2, 0, 1):
        cluster.kubectl("scale", "deployment/app", f"--replicas={wanted}", "-n", kubelet.namespace)
        kubelet.wait_ready()
        assert len(kubelet.pids) == wanted
        assert _status(cluster, kubelet).get("readyReplicas", 0) == wanted


def test_a_deleted_deployment_ends_its_containers(
    kubelet: Kubelet, cluster: Cluster, eventually: Callable[..., None]
) -> None:
    pid = kubelet.pid
    cluster.kubectl("delete", "deployment", "app", "-n", kubelet.namespace)
    eventually(lambda: start_time(pid) is None)

    def runs_nothing() -> bool:
        try:
            return kubelet.pid < 0
        except ProcessError as error:  # the pod was removed, or is going
            return re.search(r"no pod of deployment app runs|app-\S+ does not run", str(error)) is not None

    eventually(runs_nothing)


def test_a_service_leads_to_its_ready_pods_in_turn(
    kubelet: Kubelet, cluster: Cluster, eventually: Callable[..., None]
) -> None:
    ports = [{"name": "a", "port": 443, "targetPort": "health"}, {"name": "b", "port": 80, "targetPort": 8090}]
    service = _object("v1", "Service", "app", kubelet.namespace, spec={"selector": {"app": "app"}, "ports": ports})
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(service))
    path = f"/api/v1/namespaces/{kubelet.namespace}/services/app"
    address = cluster.api.get(path)["spec"]["clusterIP"]
    port = int(kubelet.health_url.rpartition(":")[2])
    assert (cluster.services.route(address, 443), cluster.services.route(address, 80)) == (port, port)
    assert cluster.services.route(address, 8090) is None
    cluster.kubectl("scale", "deployment/app", "--replicas=2", "-n", kubelet.namespace)
    kubelet.wait_ready()
    assert len({cluster.services.route(address, 443) for _ in range(4)}) == 2
    cluster.kubectl("scale", "deployment/app", "--replicas=1", "-n", kubelet.namespace)
    kubelet.wait_ready()
    kubelet.execute("touch", "/tmp/unready")
    eventually(lambda: cluster.services.route(address, 443) is None)


def test_stop_is_gentle_and_reported_and_start_begins_again(kubelet: Kubelet, cluster: Cluster) -> None:
    pid = kubelet.pid
    kubelet.stop()
    assert start_time(pid) is None
    assert "got SIGTERM" in kubelet.log.read_text()
    assert "readyReplicas" not in _status(cluster, kubelet)
    assert not list((cluster.directory / "pods").iterdir())
    kubelet.start()
    kubelet.wait_ready()
    assert kubelet.pid != pid


def test_an_api_server_that_is_silent_or_gone_stops_no_container(kubelet: Kubelet, cluster: Cluster) -> None:
    pid = kubelet.pid
    cluster.apiserver.freeze()
    time.sleep(4)  # two probes that wait for it would have failed
    cluster.apiserver.thaw()
    cluster.apiserver.restart()
    kubelet.wait_ready()
    assert (kubelet.pid, kubelet.restarts) == (pid, 0)


def test_what_is_not_played_is_refused(kubelet: Kubelet, cluster: Cluster) -> None:
    kubelet.stop()
    container = {"name": "app", "livenessProbe": {"httpGet": None, "exec": {"command": ["true"]}}}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    cluster.kubectl("patch", "deployment", "app", "-n", kubelet.namespace, "-p", json.dumps(patch))
    with pytest.raises(UnsupportedError, match="only httpGet probes"):
        kubelet.start()


def test_without_a_deployment_there_is_nothing_to_start(cluster: Cluster) -> None:
    with pytest.raises(ControlPlaneError, match="has not one deployment but these: none"):
        Kubelet(cluster, namespace="default").start()


def test_helm_waits_for_a_release_that_the_kubelet_runs(kubelet: Kubelet, cluster: Cluster, tmp_path: Path) -> None:
    namespace = kubelet.namespace
    kubelet.kill()
    cluster.kubectl("delete", "deployment", "app", "-n", namespace)
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 0.1.0\n")
    (tmp_path / "templates" / "deployment.yaml").write_text(json.dumps(_deployment(namespace)))
    cluster.helm("install", "app", str(tmp_path), "-n", namespace)
    kubelet.start()
    said = cluster.helm("upgrade", "app", str(tmp_path), "-n", namespace, "--wait", "--timeout=30s")
    assert "STATUS: deployed" in said


def _told(kubelet: Kubelet) -> Manifest:
    told: Manifest = json.loads(kubelet.log.read_text().splitlines()[0])
    return told


def _status(cluster: Cluster, kubelet: Kubelet) -> Manifest:
    found = cluster.kubectl("get", "deployment", "app", "-n", kubelet.namespace, "-o", "json")
    status: Manifest = json.loads(found)["status"]
    return status


def _access(kubelet: Kubelet, *, timeout_s: float = 5.0) -> Manifest:
    with urllib.request.urlopen(f"{kubelet.health_url}/access", timeout=timeout_s) as response:
        answer: Manifest = json.loads(response.read())
    return answer
