"""Real control planes on one machine, for tests, the demo and benchmarks. No part of the product.

errors       the errors
build        the programs: from the environment, from the cache, or built from the pinned modules
toolchain    the Go toolchain
parallel     calls several functions at once
guardian     a process that cleans up after its parent has ended
files        files that are replaced atomically
ports        reserved loopback ports
process      one program: start, stop, freeze, thaw
pki          the files of keys and certificates of a cluster
certificates  creates them
kubeconfig   kubeconfig files
flags        command lines
controllers  which controllers a cluster has
api          a plain client of one API server, as the admin
readiness    conditions under which a process is ready
audit        the audit log
cluster      etcd + kube-apiserver + kube-controller-manager
group        several clusters
detached     groups that continue after the command that started them
cli          `python -m hack.controlplane build|up|status|down`

podspec      the pod template of a Deployment, read and resolved
volumes      the volumes of a container: tokens, Secrets, ConfigMaps
sandbox      the mount namespace in which a container's command runs
probes       startup, liveness and readiness
pod          one replica: its container, its restarts, its probes
podobjects   the Pod objects in the API server
rollout      the Deployment's status
kubelet      the stand-in kubelet of one Deployment
services     routes requests of the API server to pods by their Service
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
