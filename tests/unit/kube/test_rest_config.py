"""How a pod finds its API server."""

from __future__ import annotations

import pytest

from registry_controller.api.errors import InvalidOption
from registry_controller.kube.rest_config import pod_server


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
