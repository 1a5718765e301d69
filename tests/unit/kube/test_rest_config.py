"""How a pod finds its API server, and which one a kubeconfig leads to."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from registry_controller.api.errors import InvalidOption
from registry_controller.kube.rest_config import load_local_identity, pod_server
from registry_controller.kube.transport import Identity


@pytest.mark.parametrize(
    ("host", "port", "server"),
    [
        ("10.0.0.1", "443", "https://10.0.0.1:443"),
        ("fd00::1", "6443", "https://[fd00::1]:6443"),
        ("api.test", "", "https://api.test:443"),
    ],
)
def test_the_server_is_what_the_kubelet_announces(host: str, port: str, server: str) -> None:
    assert pod_server({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}) == server


def test_outside_a_pod_there_is_no_server() -> None:
    with pytest.raises(InvalidOption):
        pod_server({})


def write_kubeconfig(
    path: Path,
    name: str,
    *,
    user: Mapping[str, Any] | None = None,
    current: str | None = None,
    cluster: Mapping[str, Any] | None = None,
) -> Path:
    """Write a kubeconfig of one context, which is the current one unless `current` names another one."""
    document = {
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.test"} if cluster is None else cluster}],
        "users": [{"name": name, "user": user or {"token": f"token-of-{name}"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name if current is None else current,
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def load(*files: Path, context: str | None = None) -> Identity:
    environment = {"KUBECONFIG": os.pathsep.join(map(str, files))}
    return asyncio.run(load_local_identity(environment, kubeconfig=None, context=context))


def test_the_first_file_with_a_current_context_decides_it_as_in_kubectl(tmp_path: Path) -> None:
    one = write_kubeconfig(tmp_path / "one", "one")
    two = write_kubeconfig(tmp_path / "two", "two")
    none = write_kubeconfig(tmp_path / "none", "none", current="")
    assert load(one, two).configuration.host == "https://one.test"
    assert load(one, none).configuration.host == "https://one.test"
    assert load(none, two).configuration.host == "https://two.test"
    assert load(one, two, context="two").authorization() == "Bearer token-of-two"


def test_an_empty_file_counts_as_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    one = write_kubeconfig(tmp_path / "one", "one")
    assert load(tmp_path / "empty", one, tmp_path / "missing").configuration.host == "https://one.test"
    with pytest.raises(InvalidOption, match="its current-context is missing"):
        load(tmp_path / "empty")


def test_a_program_with_a_relative_path_is_beside_its_kubeconfig(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "interactiveMode": "Never"}
    file = write_kubeconfig(tmp_path / "folder" / "config", "one", user={"exec": plugin})
    credential = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "status": {"token": "from-the-program"}}
    program = file.with_name("login")
    program.write_text(f"#!{sys.executable}\nprint({json.dumps(credential)!r})\n")
    program.chmod(0o755)
    assert load(file).authorization() == "Bearer from-the-program"


@pytest.mark.parametrize("more", [{"as": "viewer"}, {"as-groups": ["viewers"]}, {"as-uid": "1"}])
def test_a_user_that_acts_as_another_one_is_refused(tmp_path: Path, more: Mapping[str, Any]) -> None:
    file = write_kubeconfig(tmp_path / "config", "one", user={"token": "t", **more})
    with pytest.raises(InvalidOption, match="acts as another one"):
        load(file)


@pytest.mark.parametrize(
    ("cluster", "field"),
    [
        ({}, "server"),
        ({"server": ""}, "server"),
        ({"server": "one.test:6443"}, "server"),
        ({"server": "https://one.test:99999"}, "server"),
        ({"server": "https://[::1"}, "server"),
        ({"server": "https://one.test", "proxy-url": "socks5://proxy.test"}, "proxy-url"),
        ({"server": "https://one.test", "proxy-url": "::::"}, "proxy-url"),
    ],
)
def test_a_server_or_proxy_without_a_usable_url_is_refused(
    tmp_path: Path, cluster: Mapping[str, Any], field: str
) -> None:
    file = write_kubeconfig(tmp_path / "config", "one", cluster=cluster)
    with pytest.raises(InvalidOption, match=f"the {field} of its cluster is no URL"):
        load(file)


def test_a_server_with_a_path_and_a_proxy_are_usable(tmp_path: Path) -> None:
    cluster = {"server": "https://[::1]:6443/k8s/clusters/c-1", "proxy-url": "http://u:p@proxy.test:3128"}
    file = write_kubeconfig(tmp_path / "config", "one", cluster=cluster)
    assert load(file).configuration.host == cluster["server"]
