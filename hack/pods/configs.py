"""The configuration files of containerd, its network plugins and kubelet; JSON is YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from .archive import PAUSE
from .needs import PLUGINS

SOCKET: Final = Path("/run/containerd/containerd.sock")
_CONTAINERD: Final = """
version = 2
root = "{root}"
state = "/run/containerd/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{network}"
"""


def write_containerd(folder: Path, *, pods: str) -> Path:
    """Write containerd's configuration, with a network for the Pods (a CIDR); root may lack CAP_SYS_RESOURCE."""
    network = folder / "cni"
    network.mkdir()
    ranges = [[{"subnet": pods}]]
    bridge = {
        "type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]},
    }  # fmt: skip
    listed = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
    (network / "10-pods.conflist").write_text(json.dumps(listed), encoding="utf-8")
    path = folder / "containerd.toml"
    text = _CONTAINERD.format(root=folder / "containerd", socket=SOCKET, pause=PAUSE, plugins=PLUGINS, network=network)
    path.write_text(text, encoding="utf-8")
    return path


def write_kubelet(folder: Path, *, client_ca: Path, cgroup: str) -> Path:
    """Write kubelet's configuration: no eviction, no limits of the node, and every client of the CA may do all."""
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(client_ca)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "enforceNodeAllocatable": [],
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "2s",
        "resolvConf": "",  # no name is resolved: no name server is in the namespaces
        "syncFrequency": "10s",
    }
    path = folder / "kubelet.json"
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    return path
