"""Namespaces, mounts and network of one node, and the network and files of the run.

All nodes of a run are on one bridge in the network namespace of the run. No interface ends in the machine's own one.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hack.controlplane.errors import ControlPlaneError
from hack.controlplane.guardian import Guardian, start_time

from .needs import PATH

_BRIDGE: Final = "nodes"
_RUN_ADDRESS: Final = "192.0.2.254/24"
_READY_S: Final = 60.0
_POLL_S: Final = 0.05
# kubelet sets these values for the whole machine, unless it reads them already.
_KERNEL: Final = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}
_SETUP: Final = """
set -e
folder=$1; service=$2; kernel=$3
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
for state in cni kubelet; do  # kubelet has the sockets of its plugins there, also with another root folder
  mkdir -p "/var/lib/$state" && mount -t tmpfs tmpfs "/var/lib/$state"
done
for pair in $kernel; do
  file=$folder/kernel-$(echo "${pair%%=*}" | tr / -)
  echo "${pair#*=}" >"$file"
  mount --bind "$file" "/proc/sys/${pair%%=*}"
done
ip link set lo up
ip address add "$service/32" dev lo
touch "$folder/ready"
while :; do sleep 3600; done
"""


def alone() -> list[str]:
    """Return the beginning of a command line that runs in namespaces of its own, until this process ends."""
    # This process may end before the signal is set: then the shell finds another parent.
    signalled = ["setpriv", "--pdeathsig", "KILL", "/bin/sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid())]
    namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
    return [*signalled, *namespaces, "--mount-proc", "--propagation", "private"]


class Node:
    """The namespaces of one node, and its addresses. `number` is 1 to 99."""

    def __init__(self, number: int, *, folder: Path, guardian: Guardian) -> None:
        self.number = number
        self.folder = folder
        self.address = f"192.0.2.{number}"
        self.service_address = f"10.0.{number}.1"
        self.services = f"10.0.{number}.0/24"
        self.pods = f"10.244.{number}.0/24"
        kernel = " ".join(f"{name}={value}" for name, value in _KERNEL.items())
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += ["/bin/sh", "-c", _SETUP, "node", str(folder), self.service_address, kernel]
        self._log = folder / "node.log"
        self._child = guardian.spawn(command, env={"PATH": PATH}, log=self._log)
        try:
            self.pid = self._first_process()
            self._connect()
        except BaseException:
            self.end()
            raise

    @property
    def entry(self) -> list[str]:
        """The beginning of a command line that runs inside this node."""
        return ["nsenter", "--target", str(self.pid), "--mount", "--net", "--pid", "--"]

    def run(self, *argv: str) -> str:
        """Run a program inside this node and return its output."""
        return run_program([*self.entry, *argv])

    def end(self) -> None:
        """End the node with all its processes."""
        self._child.kill()
        self._child.wait()

    def _first_process(self) -> int:
        deadline = time.monotonic() + _READY_S
        while not (self.folder / "ready").exists():
            if start_time(self._child.pid) is None or time.monotonic() > deadline:
                raise ControlPlaneError(f"node {self.number} did not start: {self._log.read_text(encoding='utf-8')}")
            time.sleep(_POLL_S)
        children = Path(f"/proc/{self._child.pid}/task/{self._child.pid}/children").read_text(encoding="ascii")
        return int(children.split()[0])

    def _connect(self) -> None:
        near = f"node{self.number}"
        run_program(["ip", "link", "add", near, "type", "veth", "peer", "name", "uplink", "netns", str(self.pid)])
        run_program(["ip", "link", "set", near, "master", _BRIDGE, "up"])
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "uplink")
        self.run("ip", "link", "set", "uplink", "up")


def prepare_run(scratch: Path) -> None:
    """Add to the namespaces of the run a tmpfs for its files, loopback, and the bridge of the nodes."""
    run_program(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(scratch)])
    run_program(["ip", "link", "set", "lo", "up"])
    run_program(["ip", "link", "add", _BRIDGE, "type", "bridge"])
    run_program(["ip", "address", "add", _RUN_ADDRESS, "dev", _BRIDGE])
    run_program(["ip", "link", "set", _BRIDGE, "up"])


def run_program(argv: Sequence[str]) -> str:
    """Run a program and return its output; ControlPlaneError with its stderr when it fails."""
    done = subprocess.run(argv, env={"PATH": PATH}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ControlPlaneError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout
