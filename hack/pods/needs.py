"""The requirements of a run on the machine, with the commands that meet them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

PACKAGES: Final = {
    "buildah": "buildah",
    "busybox": "busybox-static",
    "containerd": "containerd",
    "conntrack": "conntrack",
    "ctr": "containerd",
    "debootstrap": "debootstrap",
    "ethtool": "ethtool",
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "nsenter": "util-linux",
    "runc": "runc",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
"""Programs, and the Debian packages that have them."""
PLUGINS: Final = Path("/usr/lib/cni")
_PLUGIN_PACKAGE: Final = "containernetworking-plugins"
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CGROUPS: Final = Path("/sys/fs/cgroup")


def missing_packages() -> list[str]:
    """Return the Debian packages whose programs are not here."""
    missing = {package for program, package in PACKAGES.items() if shutil.which(program, path=PATH) is None}
    if not (PLUGINS / "bridge").exists():
        missing.add(_PLUGIN_PACKAGE)
    return sorted(missing)


def obstacles() -> list[str]:
    """Return the reasons why this machine cannot run nodes, each with what to do; empty when it can."""
    if sys.platform != "linux":
        return [f"nodes need Linux, and this is {sys.platform}: run it in a virtual machine with Linux"]
    found = []
    if os.geteuid() != 0:
        found.append("nodes need root, for namespaces, mounts and control groups: run it as root, or by sudo")
    if missing := missing_packages():
        found.append(f"programs are missing: on Debian, apt-get install --no-install-recommends {' '.join(missing)}")
    if not CGROUPS.is_dir() or not os.access(CGROUPS, os.W_OK):
        found.append(f"{CGROUPS} is missing or read-only: nodes need control groups, to limit their Pods")
    return found
