"""A stage on real control planes on loopback, with a stand-in kubelet that runs the Deployments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from hack.controlplane import Group, Kubelet, ensure_binaries

from .stage import Actor, install_command
from .terminal import Terminal

_BIN = Path(sys.executable).parent
_READY_TIMEOUT_S = 60.0


class LoopbackStage:
    """Three clusters that exist for the time of the story."""

    terminal: Terminal
    actors: tuple[Actor, ...]

    def __init__(self, size: int = 3) -> None:
        self._group = Group(size, prefix="demo")
        self._kubelets: dict[str, Kubelet] = {}
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        binaries = ensure_binaries()  # here, where a first build shows its progress
        print("starting three control planes (etcd, kube-apiserver, kube-controller-manager each)", flush=True)
        self._exit.enter_context(self._group)
        tools = self._group.directory / "bin"
        tools.mkdir()
        for tool in ("kubectl", "helm"):
            (tools / tool).symlink_to(binaries[tool])
        for tool in ("registry-controller", "kubectl-cluster_registry"):
            (tools / tool).symlink_to(_BIN / tool)
        self._tools = tools
        homes = {
            f"HELM_{kind}_HOME": f"{self._group.directory}/helm/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA")
        }
        path = f"{tools}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        env = {**os.environ, **homes, "PATH": path, "KUBECONFIG": str(self._group.kubeconfig)}
        self.terminal = Terminal(env)
        self.actors = tuple(Actor(cluster.name, cluster.name) for cluster in self._group)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def install(self, actor: Actor) -> None:
        """Install the chart, and run a kubelet for its Deployment."""
        self.terminal.run(install_command(actor), quiet=actor is not self.actors[0])
        kubelet = Kubelet(self._group[actor.context], path_prepend=[_BIN])
        kubelet.start()
        self._kubelets[actor.name] = kubelet

    def wait_ready(self, actor: Actor) -> None:
        """Wait for the Deployment."""
        self._kubelets[actor.name].wait_ready(_READY_TIMEOUT_S)

    @contextmanager
    def without_api_server(self, actor: Actor) -> Iterator[None]:
        """Stop a cluster's API server during the block."""
        server = self._group[actor.context].apiserver
        server.kill()
        try:
            yield
        finally:
            server.start()
            server.wait_ready(_READY_TIMEOUT_S)

    def logs(self) -> dict[str, Path | str]:
        """Return the containers' logs."""
        return {name: kubelet.log for name, kubelet in self._kubelets.items()}

    def next_commands(self) -> str:
        """Return commands for another terminal."""
        lines = [f"export KUBECONFIG={self._group.kubeconfig}", f"export PATH={self._tools}:$PATH"]
        lines += [f"{actor.kubectl} get clusters -o wide" for actor in self.actors[:1]]
        lines += [f"{self.actors[0].kubectl} get resourcesyncrules"]
        lines += [f"registry-controller status {' '.join(f'--context {actor.context}' for actor in self.actors)}"]
        lines += [f"less {kubelet.log}    # the daemon of {name}" for name, kubelet in self._kubelets.items()]
        return "\n".join(lines)
