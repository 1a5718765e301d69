"""Real control planes on one machine, for tests, the demo and benchmarks. No part of the product.

errors       what can go wrong
build        the programs: from the environment, the cache, or built from the pinned modules
toolchain    the Go toolchain
parallel     several things at once
guardian     a process that cleans up when its parent cannot
files        files that are never seen half written
ports        loopback ports that nobody else takes
process      one program: start, stop, freeze, thaw
pki          the files of keys and certificates of a cluster
certificates  creates them
kubeconfig   kubeconfig files
flags        command lines
api          a plain client of one API server, as the admin
readiness    what a process must answer before it counts
audit        the audit log
cluster      etcd + kube-apiserver + kube-controller-manager
group        several clusters
detached     groups that outlive the command that started them
cli          `python -m hack.controlplane build|up|status|down`

podspec      a Deployment's pod template, read and resolved
volumes      what is mounted into a container: tokens, Secrets, ConfigMaps
sandbox      the mount namespace in which a container's command runs
probes       startup, liveness and readiness
pod          one replica: its container, its restarts, its probes
podobjects   what the API server shows of the pods
rollout      the Deployment's status
kubelet      the stand-in kubelet of one Deployment
services     how the API server reaches pods by their Service
"""

from .build import ensure_binaries
from .cluster import Cluster
from .errors import ApiError, BuildError, CommandError, ControlPlaneError, ProcessError, UnsupportedError
from .group import Group
from .kubelet import Kubelet
from .process import Process

__all__ = [
    "ApiError",
    "BuildError",
    "Cluster",
    "CommandError",
    "ControlPlaneError",
    "Group",
    "Kubelet",
    "Process",
    "ProcessError",
    "UnsupportedError",
    "ensure_binaries",
]
