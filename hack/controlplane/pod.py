"""One replica: its container's process, its restarts, its probes and its token.

Law: a pod keeps its name, ports and log over the restarts of its container; a new template is a new pod. One thread for
each pod restarts the container and runs the probes. When `stop` returns, the thread has ended."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .cluster import Cluster
from .errors import ControlPlaneError, ProcessError
from .podspec import Deployment, PodFacts, Probe, expand, resolve_env
from .ports import Port
from .probes import Probing, ask_http, real_port
from .process import Process
from .sandbox import Sandbox, exec_argv, sandbox_argv
from .volumes import TOKEN_PATH, read_data, token_files, volume_files, write_volume

_TICK_S = 0.1
_TOKEN_DURATION_S = 3600
_TOKEN_RENEWAL_S = 0.8 * _TOKEN_DURATION_S  # a kubelet renews at 80 % of the lifetime
LISTENING = {  # for each port the variables that move it: all clusters share one loopback
    "health": {"HEALTH_ADDR": "127.0.0.1:{}"},
    "metrics": {"METRICS_ADDR": "127.0.0.1:{}"},
}
_CHECKOUT = Path(__file__).resolve().parents[2]  # the target of an editable installation


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts that all pods of a kubelet share."""

    cluster: Cluster
    path_prepend: Sequence[Path]
    entrypoint: Sequence[str]
    env: Mapping[str, str]
    directory: Path
    backoff_s: float
    max_backoff_s: float


class Pod:
    """A pod of the Deployment, with the real ports of its slot for the names in `LISTENING`."""

    def __init__(
        self, deployment: Deployment, *, slot: int, ports: Mapping[str, Port], log: Path, surroundings: Surroundings
    ) -> None:
        self.template = deployment.template
        self.slot = slot
        self.log = log
        self.restarts = 0
        self.env: Mapping[str, str] = {}
        self._around = surroundings
        self._ports = {name: port.number for name, port in ports.items()}
        name = f"{deployment.name}-{self.template.digest}-{uuid.uuid4().hex[:5]}"
        self.facts = PodFacts(name, namespace=deployment.namespace, uid=str(uuid.uuid4()), node="loopback")
        self.directory = surroundings.directory / name
        self._token_at: float | None = None
        self._probing = Probing(self.template.container, now=time.monotonic())
        self._frozen = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._process = Process(
            name,
            argv=sandbox_argv(self.directory / "sandbox.json"),
            env={"PATH": os.defpath},
            log=log,
            guardian=surroundings.cluster.guardian,
            ready=lambda: None if self.is_ready else "its probes do not succeed",
        )

    @property
    def is_ready(self) -> bool:
        """Whether the container runs and its probes report it ready."""
        return self._process.running and self._probing.is_ready

    @property
    def process(self) -> Process:
        """The container's process."""
        return self._process

    def start(self) -> None:
        """Start the container; ControlPlaneError when it cannot start, and then the pod does not exist."""
        self.directory.mkdir(parents=True, mode=0o700)
        self._start_container()
        self._thread.start()

    def stop(self, grace_s: float) -> None:
        """End the container with SIGTERM, and with SIGKILL after the shorter of `grace_s` and the pod's grace."""
        self._stopping.set()
        self._process.stop(grace_s=min(grace_s, self.template.grace_s))
        self._end()

    def kill(self) -> None:
        """End the pod with SIGKILL."""
        self._stopping.set()
        self._process.kill()
        self._end()

    def freeze(self) -> None:
        """Freeze the container and its probes, as on a suspended node."""
        self._frozen.set()
        self._process.freeze()

    def thaw(self) -> None:
        """Continue a frozen pod."""
        self._process.thaw()
        self._frozen.clear()

    def real_port(self, port: int | str) -> int:
        """Return the real port for a port of the container, by name or number."""
        return real_port(port, self.template.container, overrides=self._ports)

    def rotate_token(self) -> None:
        """Replace the token by a new one."""
        cluster, account = self._around.cluster, self.template.service_account
        files = token_files(
            cluster, namespace=self.facts.namespace, service_account=account, duration_s=_TOKEN_DURATION_S
        )
        write_volume(self.directory / "serviceaccount", files)
        self._token_at = time.monotonic()

    def execute(self, argv: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run a command in the container's namespace, with its environment."""
        command = [*exec_argv(self._process.pid), *argv]
        return subprocess.run(
            command, env=dict(self.env), capture_output=True, text=True, check=False, timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def note(self, text: str) -> None:
        """Append a line of the kubelet to the container's log."""
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"kubelet: {self.facts.name}: {text}\n")

    def _end(self) -> None:
        if self._thread.is_alive():
            self._thread.join()
        self._process.kill()  # the thread may just have started it
        shutil.rmtree(self.directory, ignore_errors=True)

    def _live(self) -> None:
        """Watch the container, and restart it when it ends: at once, then after growing pauses."""
        pause_s = 0.0
        while not self._stopping.wait(_TICK_S):
            if self._frozen.is_set():
                continue
            reason = self._check()
            if reason is None or self._stopping.is_set():  # the pod may have been stopped during the check
                continue
            self.note(f"{reason}; starting it again in {pause_s:g} s")
            self._process.stop(grace_s=self.template.grace_s)
            self.restarts += 1
            if self._stopping.wait(pause_s):
                return
            pause_s = min(max(2 * pause_s, self._around.backoff_s), self._around.max_backoff_s)
            with contextlib.suppress(ControlPlaneError):
                self._start_container()

    def _check(self) -> str | None:
        """Run the due probes; return the reason for a restart, None for none."""
        if not self._process.running:
            return "the container does not run"
        if self._token_at is not None and time.monotonic() - self._token_at > _TOKEN_RENEWAL_S:
            with contextlib.suppress(ControlPlaneError):
                self.rotate_token()
        return self._probing.run(self._ask, now=time.monotonic())

    def _ask(self, probe: Probe) -> str | None:
        return ask_http(probe, port=self.real_port(probe.port))

    def _start_container(self) -> None:
        """Resolve environment and volumes again, as a kubelet does at each start, and run the command."""
        try:
            self._sandbox().write(self.directory / "sandbox.json")
        except ControlPlaneError as error:
            self.note(f"cannot start the container: {error}")
            raise
        self._probing = Probing(self.template.container, now=time.monotonic())
        if not self._stopping.is_set():
            self._process.start()

    def _sandbox(self) -> Sandbox:
        container = self.template.container
        self.env = self._environment()
        argv = [*(container.command or self._around.entrypoint), *container.args]
        binds, tmpfs = self._volumes()
        return Sandbox(
            argv=[expand(word, self.env) for word in argv],
            env=self.env,
            directory=container.working_directory,
            binds=binds,
            tmpfs=tmpfs,
            visible=sorted({str(path) for folder in self._around.path_prepend for path in _homes(folder)}),
            has_read_only_root=container.has_read_only_root,
            drops_capabilities=container.drops_capabilities,
            may_gain_privileges=container.may_gain_privileges,
        )

    def _environment(self) -> dict[str, str]:
        """Return the environment: that of a kubelet and of the Deployment; PATH and LANG are from the host."""
        cluster = self._around.cluster
        lookup = functools.partial(_lookup, cluster, self.facts.namespace)
        path = [*(str(folder) for folder in self._around.path_prepend), os.environ.get("PATH", os.defpath)]
        return {
            "PATH": os.pathsep.join(path),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "HOSTNAME": self.facts.name,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(cluster.port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(cluster.port),
            **resolve_env(self.template, facts=self.facts, lookup=lookup),
            **{
                variable: value.format(number)
                for name, number in self._ports.items()
                for variable, value in LISTENING[name].items()
            },
            **self._around.env,
        }

    def _volumes(self) -> tuple[dict[str, str], list[str]]:
        """Fill the volumes; return the binds (target -> source) and the emptyDirs' targets."""
        binds: dict[str, str] = {}
        tmpfs: list[str] = []
        if self._mounts_token():
            self.rotate_token()
            binds[TOKEN_PATH] = str(self.directory / "serviceaccount")
        for mount in self.template.container.mounts:
            volume = self.template.volumes[mount.volume]
            files = volume_files(self._around.cluster, namespace=self.facts.namespace, volume=volume)
            if files is None:
                tmpfs.append(mount.path)
                continue
            source = self.directory / "volumes" / mount.volume
            write_volume(source, files)
            binds[mount.path] = str(source)
        return binds, tmpfs

    def _mounts_token(self) -> bool:
        if self.template.mounts_token is not None:
            return self.template.mounts_token
        path = f"/api/v1/namespaces/{self.facts.namespace}/serviceaccounts/{self.template.service_account}"
        return bool(self._around.cluster.api.get(path).get("automountServiceAccountToken", True))


def _lookup(cluster: Cluster, namespace: str, kind: str, name: str) -> Mapping[str, bytes] | None:
    return read_data(cluster, namespace=namespace, kind=kind, name=name)


def _homes(folder: Path) -> list[Path]:
    """Return the folders that a bin folder needs: the virtual environment, its interpreter and the checkout."""
    interpreter = (folder / "python3").resolve()
    return [folder.parent if folder.name == "bin" else folder, interpreter.parents[1], _CHECKOUT]


def failure(pods: Sequence[Pod], what: str) -> ProcessError:
    """Return the error of a late pod, with the end of the first log."""
    return ProcessError(what + (pods[0].process.tail() if pods else "; no pod is wanted"))
