"""A group of clusters side by side on one machine, started together and ended together.

Law: after a group ends, no process and no port remains, and no directory unless the caller named it. The guardian
ensures this when the caller is killed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .audit import POLICY
from .build import ensure_binaries
from .cluster import PROGRAMS, Cluster
from .errors import ControlPlaneError
from .guardian import Guardian
from .kubeconfig import write_kubeconfig
from .parallel import run_all


class Group:
    """N clusters, named PREFIX-1 to PREFIX-N.

    directory: the folder of all files, which stays (then the processes stop gently, so that the data is whole); None is
    a temporary one, removed at the end. feature_gates: of the API servers, as "WatchList=false". fsync: of etcd, for
    latency measurements. audit_policy: of the API servers, for audit logs with bodies. has_workloads: with
    the controllers of Deployments, ReplicaSets, Jobs and quotas.
    """

    def __init__(
        self,
        size: int,
        *,
        prefix: str = "demo",
        directory: Path | None = None,
        feature_gates: Sequence[str] = (),
        fsync: bool = False,
        audit_policy: str = POLICY,
        has_workloads: bool = False,
    ) -> None:
        self.prefix = prefix
        self._size = size
        self._wanted_directory = directory
        self._feature_gates = tuple(feature_gates)
        self._fsync = fsync
        self._audit_policy = audit_policy
        self._has_workloads = has_workloads
        self._clusters: list[Cluster] = []
        self._guardian: Guardian | None = None
        self._directory: Path | None = None

    @property
    def directory(self) -> Path:
        """The folder of the group's files; ControlPlaneError before the start."""
        if self._directory is None:
            raise ControlPlaneError("the group has not been started")
        return self._directory

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the whole group, with one context for each cluster, of the cluster's name."""
        return self.directory / "kubeconfig"

    def start(self) -> None:
        """Start all clusters at once and wait for them; after a failure no process is left."""
        if self._guardian is not None:
            raise ControlPlaneError("a group starts only once")
        binaries = ensure_binaries(PROGRAMS)
        self._guardian = Guardian()
        try:
            self._directory = self._make_directory(self._guardian)
            for _ in range(self._size):
                self._clusters.append(self._make(binaries, guardian=self._guardian))
            run_all([cluster.create for cluster in self._clusters], fail_fast=True)
            self._write_kubeconfig()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all clusters, and a start in progress. A second call does nothing."""
        if self._guardian is None:
            return
        for cluster in self._clusters:
            for leave in cluster.guests:
                leave()
        self._guardian.refuse()
        keep = self._wanted_directory is not None
        run_all([cluster.stop if keep else cluster.kill for cluster in self._clusters])
        self._guardian.close()
        for cluster in self._clusters:
            cluster.release()

    def add(self) -> Cluster:
        """Start one more cluster."""
        if self._guardian is None:
            raise ControlPlaneError("the group has not been started")
        cluster = self._make(ensure_binaries(PROGRAMS), guardian=self._guardian)
        self._clusters.append(cluster)
        cluster.create()
        self._write_kubeconfig()
        return cluster

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __getitem__(self, key: int | str) -> Cluster:
        if isinstance(key, int):
            return self._clusters[key]
        for cluster in self._clusters:
            if cluster.name == key:
                return cluster
        raise KeyError(key)

    def __iter__(self) -> Iterator[Cluster]:
        return iter(list(self._clusters))

    def __len__(self) -> int:
        return len(self._clusters)

    def _make_directory(self, guardian: Guardian) -> Path:
        if self._wanted_directory is not None:
            self._wanted_directory.mkdir(parents=True, exist_ok=True)
            return self._wanted_directory.resolve()
        directory = Path(tempfile.mkdtemp(prefix="registry-controller-"))
        guardian.own(directory)
        return directory

    def _make(self, binaries: dict[str, Path], *, guardian: Guardian) -> Cluster:
        name = f"{self.prefix}-{len(self._clusters) + 1}"
        directory = self.directory / name
        if directory.exists():
            raise ControlPlaneError(f"{directory} exists from an earlier run; remove it, or use another folder")
        return Cluster(
            name,
            directory=directory,
            binaries=binaries,
            guardian=guardian,
            feature_gates=self._feature_gates,
            fsync=self._fsync,
            audit_policy=self._audit_policy,
            has_workloads=self._has_workloads,
        )

    def _write_kubeconfig(self) -> None:
        write_kubeconfig(self.kubeconfig, [cluster.entry for cluster in self._clusters])
