"""One group on which faults are played: the bed, the observer beside it, people at work, and the judgement of it all.

Law: a fault counts only if it bit. Whoever breaks something says through `bite` how often that was felt, and nothing
felt is a failure.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hack.controlplane import ControlPlaneError
from tests.chaos.bed import Bed, Site
from tests.chaos.diary import Diary
from tests.chaos.history import BINDING
from tests.chaos.laws import Verdict, Violation
from tests.chaos.membership import strays
from tests.chaos.observer import Observer, Watched, differences, read_all
from tests.chaos.weather import Weather
from tests.chaos.wire import Edge
from tests.chaos.workload import Workload

CLUSTERS = "/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusters"
CANARY = "canary-5d21f7c0b9"


class NoBite(Exception):
    """A fault was done, and nobody felt it."""


class Play:
    """A formed group under observation."""

    def __init__(self, size: int = 3, *, seed: int = 1, kinds: tuple[str, ...] = ("ConfigMap", "Secret")) -> None:
        self.bed = Bed(size)
        self.observer = Observer((CANARY,), kinds=(*kinds, *BINDING))
        self.bites: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self.diaries: dict[str, Diary] = {}
        self.trace: list[str] = []
        self._began = time.monotonic()
        self._seed = seed
        self._told: set[str] = set()

    @property
    def sites(self) -> list[Site]:
        return self.bed.sites

    def __enter__(self) -> Self:
        self.bed.__enter__()
        try:
            self.bed.form()
            for site in self.sites:
                self.watch(site)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.work = Workload(self.sites, seed=self._seed, canary=CANARY)
        self.work.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "work"):
            self.work.stop()
        for recorder in self.observer.recorders.values():
            recorder.ended.set()
        self.bed.__exit__(None, None, None)  # which ends the watches, too
        self.observer.__exit__(None, None, None)

    def watch(self, site: Site) -> None:
        """Put a site under observation."""
        cluster = site.cluster
        admin = cluster.pki.admin
        watched = Watched(
            site.name, cluster.port, cluster.pki.server_ca, admin.certificate, admin.key, cluster.audit_log,
            site.daemon.log_directory,
        )  # fmt: skip
        self.diaries[site.name] = Diary(site.daemon.log_directory)
        self.observer.watch(watched, cluster_id=site.id)

    def say(self, words: str) -> None:
        """Add a line to the schedule."""
        self.trace.append(f"{time.monotonic() - self._began:7.1f} s  {words}")

    def bite(self, what: str, count: int) -> None:
        """Take note of how often a fault was felt; NoBite when it was not."""
        self.bites[what] += count
        if count <= 0:
            raise NoBite(f"nobody felt it: {what}")

    @contextlib.contextmanager
    def weather(self, edges: Iterable[Edge], weather: Weather, *felt: str) -> Iterator[None]:
        """Change edges for a while. felt: of the edges' counts, those of which one at least must have grown."""
        edges = list(edges)
        before = [edge.counts.copy() for edge in edges]
        self.say(f"{', '.join(edge.name for edge in edges)}: {weather}")
        for edge in edges:
            edge.set(weather)
        try:
            yield
        finally:
            for edge in edges:
                edge.mend()
            self.say("mended")
        grown = sum(edge.counts[name] - old[name] for edge, old in zip(edges, before, strict=True) for name in felt)
        self.bite(" or ".join(felt), grown)

    @contextlib.contextmanager
    def working(self, *, pause_s: float = 0.15, gentle: bool = False) -> Iterator[None]:
        """Let people work meanwhile."""
        before = self.work.done.total()
        self.work.start(pause_s=pause_s, gentle=gentle)
        try:
            yield
        finally:
            self.work.stop()
            self.say(f"people did {self.work.done.total() - before} deeds")

    def kill(self, site: Site) -> None:
        """Kill a site's daemon with SIGKILL; its kubelet starts another one."""
        self.kills[site.name] += len(site.daemon.pids)
        site.daemon.crash()

    def forgive(self) -> None:
        """Take what daemons ended of until now, and what they said about it, for what a fault was meant to do."""
        for site in self.sites:
            diary = self.diaries[site.name]
            self.kills[site.name] = max(self.kills[site.name], diary.ends())
            diary.forgive()

    def wrong(self) -> list[str]:
        """Say in what the clusters are not yet what they must come to."""
        kinds = self.observer.kinds
        objects = {site.name: read_all(site.cluster.api, kinds) for site in self.sites}
        return differences(objects, self.observer.ids) or strays(objects, self.observer.ids) or self.unready()

    def unready(self) -> list[str]:
        """Say which members do not find each other, or themselves, as they should."""
        wrong = []
        for site in self.sites:
            found = {
                item["metadata"]["name"]: item.get("status", {}) for item in site.cluster.api.get(CLUSTERS)["items"]
            }
            for other in self.sites:
                status = found.get(other.name, {})
                kind = "Ready" if other is site else "ClustersSynced"
                conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
                if status.get("state") != "Ready" or conditions.get(kind) != "True":
                    wrong.append(
                        f"{site.name} says of {other.name}: {status.get('state')}, {kind} {conditions.get(kind)}"
                    )
        return wrong

    def rest(
        self, *, within_s: float = 90.0, steady_s: float = 2.0, meanwhile: Callable[[], object] = lambda: None
    ) -> float:
        """Wait until all is as it must be, and stays so; return how long that took, in seconds."""
        began = time.monotonic()
        deadline, last = began + within_s, ["nothing was read"]
        while time.monotonic() < deadline:
            with contextlib.suppress(ControlPlaneError):
                meanwhile()
                last = self.wrong()
                if not last:
                    took = time.monotonic() - began
                    time.sleep(steady_s)
                    if not (last := self.wrong()):
                        self.say(f"at rest after {took:.1f} s")
                        return took
            time.sleep(0.3)
        raise AssertionError(f"not at rest within {within_s:g} s: {'; '.join(last[:6])}")

    def judge(self) -> Verdict:
        """Hold all laws over the whole history; what was said once is not said again."""
        time.sleep(0.3)  # the observer's own connections bring what happened just now
        verdict = self.observer.judge(dict(self._texts()))
        for site in self.sites:
            self.diaries[site.name].check(verdict, site.name, kills=self.kills[site.name])
        verdict.violations = [one for one in verdict.violations if self._is_new(one)]
        return verdict

    def keep(self, folder: Path) -> None:
        """Copy what daemons and API servers wrote down, for whoever looks into it."""
        for site in self.sites:
            for file in (*site.daemon.log_directory.iterdir(), site.cluster.audit_log):
                target = folder / site.name / file.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)

    def _is_new(self, violation: Violation) -> bool:
        text = f"{violation.law}{violation.where}{violation.words}"
        return not (text in self._told or self._told.add(text))  # type: ignore[func-returns-value]

    def _texts(self) -> Iterator[tuple[str, str]]:
        """What everybody can see: objects without Secrets' data, metrics, and the container's temporary files."""
        for site in self.sites:
            kinds = site.kubectl("api-resources", "--verbs=list", "-o", "name").split()
            shown: list[dict[str, Any]] = json.loads(site.kubectl("get", ",".join(kinds), "-A", "-o", "json"))["items"]
            for item in shown:
                if item["kind"] == "Secret":
                    item.pop("data", None)
            yield f"an object of {site.name}", json.dumps(shown)
            for url in site.daemon.metrics_urls:
                with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                    yield f"the metrics of {site.name} at {url}", answer.read().decode()
            for pid in site.daemon.pids:
                for file in _files(Path("/proc", str(pid), "root", "tmp")):
                    with contextlib.suppress(OSError):
                        yield f"{file.name} in /tmp of {site.name}", file.read_text(errors="replace")


def _files(folder: Path) -> Iterator[Path]:
    """List the files of a folder that are on its own file system: what is shown through from elsewhere is not of the
    container.
    """
    with contextlib.suppress(OSError):
        device = folder.stat().st_dev
        for entry in folder.iterdir():
            if entry.is_symlink() or entry.stat().st_dev != device:
                continue
            yield from _files(entry) if entry.is_dir() else [entry]
