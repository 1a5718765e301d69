"""The stand-in kubelet of one Deployment: the control planes have no nodes, so it runs the Deployment's pods.

Law: the container has the ServiceAccount's token, the declared environment and the declared mounts, as in a pod, and
nothing more. So the tests show missing RBAC rules. A field that is not implemented is refused (UnsupportedError). The
kubelet calls the API server as the admin, once a second. An API server that does not answer stops nothing."""

from __future__ import annotations

import contextlib
import functools
import itertools
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .cluster import Cluster
from .errors import ApiError, CommandError, ControlPlaneError, ProcessError
from .parallel import run_all
from .pod import LISTENING, Pod, Surroundings, failure
from .podobjects import PodObjects
from .podspec import Deployment, read_deployment
from .ports import Port
from .rollout import (
    Standing,
    choose_to_stop,
    compute_status,
    count_to_start,
    deployment_path,
    is_done,
    is_reported,
    report_status,
)

_POLL_S = 1.0
_TICK_S = 0.1


class Kubelet:
    """Runs the pods of a Deployment.

    deployment: its name; None is the only Deployment of the namespace. path_prepend: folders before the host's PATH,
    as the bin folder of a virtual environment. entrypoint: the program of an image without `command`. env: overrides
    the Deployment's environment, for tests. backoff_s: the pause before the second restart, which doubles each time.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str = "cluster-registry",
        deployment: str | None = None,
        path_prepend: Sequence[Path | str] = (),
        log_directory: Path | None = None,
        entrypoint: Sequence[str] = ("registry-controller",),
        env: Mapping[str, str] | None = None,
        backoff_s: float = 1.0,
        max_backoff_s: float = 30.0,
    ) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.log_directory = log_directory or cluster.directory / "logs"
        self._name = deployment
        self._around = Surroundings(
            cluster,
            path_prepend=[Path(folder).absolute() for folder in path_prepend],
            entrypoint=tuple(entrypoint),
            env=dict(env or {}),
            directory=cluster.directory / "pods",
            backoff_s=backoff_s,
            max_backoff_s=max_backoff_s,
        )
        self._objects = PodObjects(cluster, namespace=namespace)
        self._pods: list[Pod] = []
        self._ports: list[dict[str, Port]] = []
        self._deployment: Deployment | None = None
        self._reported: Mapping[str, object] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()
        cluster.guests.append(self.kill)

    @property
    def pid(self) -> int:
        """The process id of the first pod's container; ProcessError when it does not run."""
        return self._first().process.pid

    @property
    def pids(self) -> list[int]:
        """The process ids of all containers that run."""
        return list(self.pids_by_pod.values())

    @property
    def pids_by_pod(self) -> dict[str, int]:
        """The process ids of all containers that run, by the names of their pods."""
        return {pod.facts.name: pod.process.pid for pod in self._pods if pod.process.running}

    @property
    def log(self) -> Path:
        """The output of the first pod's container, over all restarts."""
        return self._log(self._slot())

    @property
    def restarts(self) -> int:
        """The restarts of all containers of the present pods."""
        return sum(pod.restarts for pod in self._pods)

    @property
    def metrics_url(self) -> str:
        """The first pod's http://127.0.0.1:PORT/metrics; the port stays until `stop` or `kill`."""
        return f"http://127.0.0.1:{self._port('metrics')}/metrics"

    @property
    def metrics_urls(self) -> list[str]:
        """The metrics URLs of all pods whose containers run."""
        numbers = [self._ports[pod.slot]["metrics"].number for pod in self._pods if pod.process.running]
        return [f"http://127.0.0.1:{number}/metrics" for number in numbers]

    @property
    def health_url(self) -> str:
        """The first pod's http://127.0.0.1:PORT, without a path; the port stays until `stop` or `kill`."""
        return f"http://127.0.0.1:{self._port('health')}"

    @property
    def exec_env(self) -> dict[str, str]:
        """The environment of the first pod's container."""
        return dict(self._first().env)

    @property
    def pod_name(self) -> str:
        """The name of the first pod."""
        return self._first().facts.name

    def start(self) -> None:
        """Run the Deployment; ControlPlaneError when the namespace has not exactly one, or when it cannot start."""
        if self._thread is not None:
            return
        self._name = self._name or self._only_deployment()
        self._stopping.clear()
        try:
            self._reconcile(self._read())
        except BaseException:
            self._end(Pod.kill)
            raise
        self._thread = threading.Thread(target=self._loop, name=f"kubelet-{self.cluster.name}", daemon=True)
        self._thread.start()
        self.cluster.services.join(self.endpoints)

    def endpoints(self, namespace: str, selector: Mapping[str, str], port: int | str) -> list[int]:
        """Return the real ports of the ready pods that a Service selects."""
        if namespace != self.namespace:
            return []
        ready = [pod for pod in self._pods if pod.is_ready and selector.items() <= pod.template.labels.items()]
        return [pod.real_port(port) for pod in ready]

    def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Wait until the present generation of the Deployment runs, is ready, and has a status that reports it."""
        deadline = time.monotonic() + timeout_s
        generation = self._read_generation()
        while not self._is_ready(generation):
            if time.monotonic() > deadline:
                raise failure(self._pods, f"deployment {self._name} was not ready after {timeout_s:g} s")
            time.sleep(_TICK_S)

    def stop(self, grace_s: float = 30.0) -> None:
        """End all pods with SIGTERM, then the kubelet; the status reports no ready pod."""
        if self._thread is None:
            return
        self._end(lambda pod: pod.stop(grace_s))
        with contextlib.suppress(ControlPlaneError):
            self._report(self._read())
        self._objects.forget()

    def kill(self) -> None:
        """End all pods with SIGKILL, then the kubelet, as if the node were lost: no status changes."""
        self._end(Pod.kill)
        self._objects.forget()

    def crash(self) -> None:
        """End the containers with SIGKILL; the kubelet restarts them and counts the restarts."""
        for pod in self._pods:
            pod.process.kill()

    def freeze(self) -> None:
        """Freeze all pods and their probes, as on a suspended node."""
        for pod in self._pods:
            pod.freeze()

    def thaw(self) -> None:
        """Continue frozen pods."""
        for pod in self._pods:
            pod.thaw()

    def restart(self, grace_s: float = 30.0) -> None:
        """Stop and start the kubelet, with new pods."""
        self.stop(grace_s)
        self.start()

    def rotate_token(self) -> None:
        """Replace all tokens by new ones, atomically."""
        for pod in self._pods:
            pod.rotate_token()

    def execute(self, *argv: str, check: bool = True, timeout_s: float = 60.0) -> str:
        """Run a command in the first pod's container, as `kubectl exec` does; return its output."""
        done: subprocess.CompletedProcess[str] = self._first().execute(argv, timeout_s=timeout_s)
        if check and done.returncode != 0:
            raise CommandError(argv, returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)
        return done.stdout

    def _loop(self) -> None:
        due = 0.0
        while not self._stopping.wait(_TICK_S):
            try:
                if time.monotonic() >= due:
                    due = time.monotonic() + _POLL_S
                    self._reconcile(self._read())
                self._report(self._deployment)
            except ControlPlaneError as error:
                if not (isinstance(error, ApiError) and error.status == 0) and self._pods:
                    self._pods[0].note(str(error))

    def _reconcile(self, deployment: Deployment | None) -> None:
        """Start and end pods until they match the Deployment."""
        with self._lock:
            if self._stopping.is_set():
                return
            if deployment is None:
                self._stop_pods(self._pods, _stop_gently)
            else:
                going = choose_to_stop(deployment, self._standings(deployment))
                self._stop_pods([self._pods[number] for number in going], _stop_gently)
                for _ in range(count_to_start(deployment, self._standings(deployment))):
                    self._add_pod(deployment)
            self._deployment = deployment

    def _standings(self, deployment: Deployment) -> list[Standing]:
        return [Standing(pod.template.digest == deployment.template.digest, pod.is_ready) for pod in self._pods]

    def _add_pod(self, deployment: Deployment) -> None:
        taken = {pod.slot for pod in self._pods}
        slot = next(number for number in itertools.count() if number not in taken)
        if slot == len(self._ports):
            self._ports.append({name: Port() for name in LISTENING})
        self.log_directory.mkdir(parents=True, exist_ok=True)
        pod = Pod(deployment, slot=slot, ports=self._ports[slot], log=self._log(slot), surroundings=self._around)
        try:
            pod.start()
        except BaseException:
            pod.kill()
            raise
        self._pods.append(pod)

    def _stop_pods(self, pods: Sequence[Pod], stop: Callable[[Pod], None]) -> None:
        if pods:
            run_all([functools.partial(stop, pod) for pod in pods])
            self._pods = [pod for pod in self._pods if pod not in pods]

    def _end(self, stop: Callable[[Pod], None]) -> None:
        self.cluster.services.leave(self.endpoints)
        self._stopping.set()
        with self._lock:
            self._stop_pods(self._pods, stop)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for ports in self._ports:
            for port in ports.values():
                port.release()
        self._ports = []

    def _report(self, deployment: Deployment | None) -> None:
        """Write the status if it differs from the last written one, or from the stored one."""
        self._objects.publish(self._pods, prefix=f"{self._name}-")
        if deployment is None:
            return
        status = compute_status(deployment, self._standings(deployment))
        if not is_reported(status, self._reported) or not is_reported(status, deployment.status):
            report_status(self.cluster, deployment, status)
            self._reported = status
            self._deployment = self._read() if self._deployment is not None else None

    def _read(self) -> Deployment | None:
        assert self._name is not None
        try:
            return read_deployment(self.cluster.api.get(deployment_path(self.namespace, self._name)))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def _read_generation(self) -> int:
        """Return the generation that must become ready: the stored one, or without an answer the last known one."""
        try:
            found = self._read()
        except ApiError:
            found = self._deployment
        if found is None:
            raise ProcessError(f"namespace {self.namespace} has no deployment {self._name}")
        return found.generation

    def _is_ready(self, generation: int) -> bool:
        deployment = self._deployment
        if deployment is None or deployment.generation < generation:
            return False
        is_available = self._reported.get("readyReplicas") == deployment.replicas
        is_current = self._reported.get("observedGeneration") == deployment.generation
        return is_available and is_current and is_done(deployment, self._standings(deployment))

    def _only_deployment(self) -> str:
        found = self.cluster.api.get(deployment_path(self.namespace))["items"]
        if len(found) != 1:
            names = ", ".join(item["metadata"]["name"] for item in found) or "none"
            raise ControlPlaneError(f"namespace {self.namespace} has not one deployment but these: {names}")
        name = found[0]["metadata"]["name"]
        assert isinstance(name, str)
        return name

    def _first(self) -> Pod:
        if not self._pods:
            raise ProcessError(f"no pod of deployment {self._name} runs")
        return self._pods[0]

    def _port(self, name: str) -> int:
        if not self._ports:
            raise ProcessError(f"the kubelet of deployment {self._name} does not run")
        return self._ports[self._slot()][name].number

    def _slot(self) -> int:
        """Return the slot of the first pod, which has its ports and its log."""
        return self._pods[0].slot if self._pods else 0

    def _log(self, slot: int) -> Path:
        if self._name is None:
            raise ProcessError("the deployment is known only after the start")
        return self.log_directory / f"{self._name}-{slot}.log"


def _stop_gently(pod: Pod) -> None:
    pod.stop(pod.template.grace_s)
