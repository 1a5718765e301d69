"""A stage on existing clusters of the user, by the contexts of their kubeconfig.

Law: the demo removes everything that it created, and it does not start if one of these objects exists. Without an
image, the daemons run on this machine, as processes with the rights of the context. Their environment is that of the
chart's Deployment, which has no replicas then.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from hack.controlplane import ensure_binaries
from hack.controlplane.ports import Port

from .stage import DEPLOYMENT, NAMESPACE, RELEASE, Actor, install_command
from .terminal import StoryError, Terminal

_PROGRAM = Path(sys.executable).parent / "registry-controller"
_CRDS = " ".join(
    f"{kind}.clusterregistry.k8s.cisco.com" for kind in ("clusters", "clusterfeatures", "resourcesyncrules")
)
_CREATED = (
    f"namespace/{NAMESPACE}",
    *(f"customresourcedefinition/{name}" for name in _CRDS.split()),
    *(f"clusterrole/{DEPLOYMENT}{end}" for end in ("", "-reader", "-aggregated", "-reader-aggregated")),
    *(f"clusterrolebinding/{DEPLOYMENT}{end}" for end in ("", "-reader")),
    "secret/hello",
)
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0


class ContextStage:
    """The clusters behind three contexts; `image` runs the daemons in them."""

    def __init__(self, contexts: Sequence[str], *, image: str | None) -> None:
        self._image = image
        self._exit = ExitStack()
        self._daemons: dict[str, _Daemon] = {}
        self.terminal = Terminal({**os.environ, "PATH": _path()})
        self.actors: tuple[Actor, ...] = tuple(
            Actor(context, context if _DNS_LABEL.fullmatch(context) else f"demo-{number}")
            for number, context in enumerate(contexts, 1)
        )

    def __enter__(self) -> Self:
        obstacles = [text for actor in self.actors if (text := self._obstacle(actor))]
        if obstacles:
            raise StoryError(
                "\n\n".join(
                    ["the demo does not start: objects of its names exist, or a cluster is not reachable", *obstacles]
                )
            )
        self.actors = tuple(self._with_address(actor) for actor in self.actors)
        self._logs = Path(self._exit.enter_context(tempfile.TemporaryDirectory(prefix="registry-controller-demo-")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would stop the clean-up
        try:
            with contextlib.suppress(OSError):  # the pipe is closed, as after `| head`
                print("removing the objects of the demo", flush=True)
        finally:
            self._exit.close()

    def install(self, actor: Actor) -> None:
        """Install the chart; without an image start the daemon here."""
        self._exit.callback(self._remove, actor)
        more = _image_flags(self._image) if self._image else "--set replicas=0"
        self.terminal.run(install_command(actor, more), quiet=actor is not self.actors[0])
        if not self._image:
            daemon = _Daemon(actor, terminal=self.terminal, log=self._logs / f"{actor.name}.log")
            self._exit.callback(daemon.stop)
            self._daemons[actor.name] = daemon

    def wait_ready(self, actor: Actor) -> None:
        """Wait for the daemon, here or in the cluster."""
        if actor.name in self._daemons:
            self._daemons[actor.name].wait_ready()
        else:
            self.terminal.run(f"{actor.kubectl} -n {NAMESPACE} rollout status deployment/{DEPLOYMENT} --timeout=180s")

    def without_api_server(self, actor: Actor) -> None:
        """Return None: the API servers are not stopped."""

    def logs(self) -> dict[str, Path | str]:
        """Return the daemons' logs."""
        if self._daemons:
            return {name: daemon.log for name, daemon in self._daemons.items()}
        found: dict[str, Path | str] = {}
        for actor in self.actors:
            with contextlib.suppress(StoryError):
                command = f"{actor.kubectl} -n {NAMESPACE} logs deployment/{DEPLOYMENT} --tail=40"
                found[actor.name] = self.terminal.read(command)
        return found

    def next_commands(self) -> str:
        """Return commands for another terminal."""
        lines = [f"{actor.kubectl} get clusters -o wide" for actor in self.actors]
        lines += [f"less {daemon.log}    # the daemon of {name}" for name, daemon in self._daemons.items()]
        return "\n".join(lines)

    def _obstacle(self, actor: Actor) -> str:
        """Return why the demo cannot use a cluster: no connection, or objects of its names; empty for no reason."""
        try:
            found = self.terminal.read(
                f"{actor.kubectl} -n default get {' '.join(_CREATED)} -o name --ignore-not-found"
            ).split()
        except StoryError as error:
            return f"context {actor.context} cannot be used: {error}"
        if not found:
            return ""
        commands = [f"{actor.kubectl} -n default delete --ignore-not-found {' '.join(found)}"]
        if self.terminal.succeeds(f"{actor.helm} status {RELEASE} --namespace {NAMESPACE}"):
            commands.insert(0, f"{actor.helm} uninstall {RELEASE} --namespace {NAMESPACE}")
        lines = [
            f"context {actor.context} has objects that the demo would create, and remove at its end:",
            *(f"  {name}" for name in found),
            "an earlier demo may have left them; if they, and all Clusters and rules there, are not needed:",
            *(f"  {command}" for command in commands),
        ]
        return "\n".join(lines)

    def _with_address(self, actor: Actor) -> Actor:
        """Return the actor with the address under which the other daemons reach its cluster.

        For processes here, it is the address that kubectl uses. Containers do not reach the loopback address of kind
        and k3d; for these, it is the address of the control plane node.
        """
        view = f"kubectl config view --minify --context {actor.context}"
        server = self.terminal.read(f"{view} -o jsonpath='{{.clusters[0].cluster.server}}'").strip()
        if self._image and re.search(r"//(127\.|localhost|0\.0\.0\.0|\[::1\])", server):
            node = self.terminal.read(
                f"{actor.kubectl} get nodes -l node-role.kubernetes.io/control-plane"
                " -o jsonpath='{.items[0].status.addresses[?(@.type==\"InternalIP\")].address}'"
            ).split()
            if not node:
                raise StoryError(f"context {actor.context}: no control plane node has an address")
            server = f"https://{node[0]}:6443"
        flags = f"--set controller.apiServerEndpointAddress={server}"
        return Actor(actor.context, actor.name, helm_flags=flags)

    def _remove(self, actor: Actor) -> None:
        """Remove the objects of the demo; missing ones are ignored."""
        kubectl = actor.kubectl
        for command in (
            f"{kubectl} delete resourcesyncrule greetings --ignore-not-found",
            f"{kubectl} -n default delete secret hello --ignore-not-found",
            f"{actor.helm} uninstall {RELEASE} --namespace {NAMESPACE}",
            f"{kubectl} delete customresourcedefinition {_CRDS} --ignore-not-found",
            f"{kubectl} delete namespace {NAMESPACE} --ignore-not-found",
        ):
            if not self.terminal.succeeds(command):
                print(f"this command failed, please run it again: {command}", file=sys.stderr)


class _Daemon:
    """`registry-controller run` on this machine, with the environment of a cluster's Deployment."""

    def __init__(self, actor: Actor, *, terminal: Terminal, log: Path) -> None:
        self.log = log
        self._name = actor.name
        self._ports = {"METRICS_ADDR": Port(), "HEALTH_ADDR": Port()}
        kubeconfig = log.with_suffix(".kubeconfig")
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(
            terminal.read(f"kubectl config view --raw --minify --flatten --context {actor.context}"), encoding="utf-8"
        )
        env = dict(terminal.env) | _declared_env(actor, terminal)
        env |= {name: f"127.0.0.1:{port.number}" for name, port in self._ports.items()}
        command = [str(_PROGRAM), "run", "--kubeconfig", str(kubeconfig), "--context", actor.context]
        terminal.explain(f"(the daemon runs here: registry-controller run --kubeconfig ... --context {actor.context})")
        self._output: IO[bytes] = log.open("ab")
        self._process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip

    def wait_ready(self) -> None:
        """Wait until the daemon is ready."""
        url = f"http://127.0.0.1:{self._ports['HEALTH_ADDR'].number}/readyz"
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise StoryError(f"the daemon of {self._name} ended with {self._process.returncode}")
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
            time.sleep(0.1)
        raise StoryError(f"the daemon of {self._name} was not ready after {_READY_TIMEOUT_S:g} s")

    def stop(self) -> None:
        """End the daemon with SIGTERM, and with SIGKILL after a timeout."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()
        for port in self._ports.values():
            port.release()


def _declared_env(actor: Actor, terminal: Terminal) -> dict[str, str]:
    """Return the environment that the chart declares, with resolved fields."""
    deployment = json.loads(terminal.read(f"{actor.kubectl} -n {NAMESPACE} get deployment {DEPLOYMENT} -o json"))
    fields = {"metadata.namespace": NAMESPACE, "metadata.name": f"{DEPLOYMENT}-demo"}
    env: dict[str, str] = {}
    for item in deployment["spec"]["template"]["spec"]["containers"][0]["env"]:
        source = item.get("valueFrom")
        env[item["name"]] = fields[source["fieldRef"]["fieldPath"]] if source else item.get("value", "")
    return env


def _image_flags(image: str) -> str:
    repository, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = image, "latest"
    return f"--set image.repository={repository} --set image.tag={tag} --set image.pullPolicy=IfNotPresent"


def _path() -> str:
    """Return a PATH with the built tools and this program behind the user's own tools."""
    folders = [os.environ.get("PATH", os.defpath)]
    folders += [str(path.parent) for path in ensure_binaries(["kubectl", "helm"]).values()]
    folders.append(str(_PROGRAM.parent))
    return os.pathsep.join(folders)
