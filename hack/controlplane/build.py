"""The programs of the control planes: from the paths in the environment, or built once and cached.

Law: a binary in the cache is whole. It is built into a temporary folder and moved into place. A builder that is
killed leaves nothing. Of two builders, the second waits for the first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .errors import BuildError
from .guardian import Guardian
from .toolchain import HEARTBEAT_S, Toolchain, find_toolchain, run_go

_HERE = Path(__file__).resolve().parent
_LOCK_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Recipe:
    """The way to build a program: module folder, package, and the seconds of a build (cold caches, two cores).

    overlay: a file for go's flag of that name. Its path must change with its content. tags: go's build tags.
    """

    folder: str
    package: str
    pinned: str  # the required module whose version is stamped
    stamps: tuple[str, ...]
    expected_s: int
    overlay: Path | None = None
    tags: str = ""


_VERSION = "k8s.io/component-base/version"
_CLIENT_VERSION = "k8s.io/client-go/pkg/version"
# Unstamped, gitVersion is a placeholder that clients fail to parse.
_STAMPS = (
    f"{_VERSION}.gitVersion={{version}}", f"{_VERSION}.gitMajor={{major}}", f"{_VERSION}.gitMinor={{minor}}",
    f"{_VERSION}.gitTreeState=clean", f"{_CLIENT_VERSION}.gitVersion={{version}}",
    f"{_CLIENT_VERSION}.gitMajor={{major}}", f"{_CLIENT_VERSION}.gitMinor={{minor}}",
)  # fmt: skip


def _kubernetes(name: str, *, expected_s: int) -> Recipe:
    return Recipe(".", f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes", _STAMPS, expected_s)


def _helm(folder: str, module: str, *, expected_s: int) -> Recipe:
    return Recipe(folder, f"{module}/cmd/helm", module, (f"{module}/internal/version.version={{version}}",), expected_s)


_PROMETHEUS = "github.com/prometheus/prometheus"
RECIPES = {
    "etcd": Recipe("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", (), 30),
    "kube-apiserver": _kubernetes("kube-apiserver", expected_s=230),
    "kube-controller-manager": _kubernetes("kube-controller-manager", expected_s=70),
    "kubectl": _kubernetes("kubectl", expected_s=20),
    "helm": _helm("helm", "helm.sh/helm/v4", expected_s=65),
    "kubelet": _kubernetes("kubelet", expected_s=90),
    "kube-scheduler": _kubernetes("kube-scheduler", expected_s=40),
    "helm3": _helm("helm3", "helm.sh/helm/v3", expected_s=65),
    "validate-krew-manifest": Recipe("krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest", "sigs.k8s.io/krew", (), 30),
    # Without the service discoveries, which link the clients of all clouds.
    "promtool": Recipe("promtool", f"{_PROMETHEUS}/cmd/promtool", _PROMETHEUS, (), 120, tags="remove_all_sd"),
    # Without the pages for browsers too, which the module does not have.
    "prometheus": Recipe("prometheus", f"{_PROMETHEUS}/cmd/prometheus", _PROMETHEUS, (), 180, tags="remove_all_sd"),
}
NIGHTLY_PROGRAMS = ("prometheus",)
"""The programs that only `hack/scrape` runs."""
NODE_PROGRAMS = ("kubelet", "kube-scheduler")
"""The programs that only clusters with real nodes need (`hack.pods`)."""
TEST_PROGRAMS = ("helm3", "validate-krew-manifest", "promtool")
"""The programs that only tests of this project run; no control plane needs them."""
DEFAULT_PROGRAMS = tuple(name for name in RECIPES if name not in {*NIGHTLY_PROGRAMS, *NODE_PROGRAMS, *TEST_PROGRAMS})


def ensure_binaries(names: Iterable[str] = DEFAULT_PROGRAMS) -> dict[str, Path]:
    """Return the path of each program, and build the missing ones; BuildError contains the next step."""
    found = {name: _from_environment(name) for name in names}
    binaries = {name: path for name, path in found.items() if path is not None}
    missing = [name for name in found if name not in binaries]
    if missing:
        toolchain = find_toolchain()
        binaries |= {name: _cached(name, toolchain) for name in missing}
    return binaries


def _from_environment(name: str) -> Path | None:
    """Return a path from the variables of envtest: TEST_ASSET_KUBE_APISERVER and so on, then KUBEBUILDER_ASSETS."""
    variable = f"TEST_ASSET_{name.upper().replace('-', '_')}"
    if asset := os.environ.get(variable):
        if not os.access(asset, os.X_OK):
            raise BuildError(f"{variable} is {asset}, which is not there or cannot be executed; correct or unset it")
        return Path(asset).resolve()
    if folder := os.environ.get("KUBEBUILDER_ASSETS"):
        path = Path(folder).resolve() / name
        return path if os.access(path, os.X_OK) else None  # envtest's folder has no controller manager
    return None


def cache_directory() -> Path:
    """Return the project's folder in the user's cache."""
    if cache := os.environ.get("XDG_CACHE_HOME"):
        root = Path(cache)
    elif home := os.environ.get("HOME"):
        root = Path(home) / ".cache"
    else:
        raise BuildError("there is no cache folder: set XDG_CACHE_HOME, or HOME")
    return root / "registry-controller" / "controlplane"


def _cached(name: str, toolchain: Toolchain) -> Path:
    recipe = RECIPES[name]
    flags = _flags(recipe)
    folder = cache_directory() / _digest(recipe, flags, toolchain)
    binary = folder / name
    if binary.exists():
        return binary
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(f"cannot write to the cache folder {folder}: {error}; set XDG_CACHE_HOME") from error
    with _locked(folder / f".{name}.lock", name):
        if not binary.exists():
            _build(name, recipe, flags, toolchain, binary)
    return binary


def _build(name: str, recipe: Recipe, flags: list[str], toolchain: Toolchain, binary: Path) -> None:
    """Build into a folder that the guardian removes, then move the binary: the cache never holds half of one."""
    _report(f"{name}: building, about {recipe.expected_s} s the first time (Go caches are cold then)")
    started = time.monotonic()
    guardian = Guardian()
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=binary.parent))
        guardian.own(temporary)
        argv = ["build", *flags, "-o", str(temporary / name), recipe.package]
        run_go(
            toolchain,
            argv,
            cwd=_HERE / recipe.folder,
            log=temporary / "log",
            guardian=guardian,
            beat=_heartbeat(name, recipe),
        )
        os.replace(temporary / name, binary)  # noqa: PTH105 - Path.replace reads as if it replaced text
    except BuildError as error:
        raise BuildError(f"{name} cannot be built: {error}") from error
    finally:
        guardian.close()
    _report(f"{name}: built in {time.monotonic() - started:.0f} s")


def _heartbeat(name: str, recipe: Recipe) -> Callable[[float], None]:
    return lambda elapsed_s: _report(f"{name}: go is at work, {elapsed_s:.0f} of about {recipe.expected_s} s")


@contextlib.contextmanager
def _locked(path: Path, name: str) -> Iterator[IO[str]]:
    """Hold the lock of one binary; the kernel releases it when the process ends."""
    with path.open("a", encoding="utf-8") as lock:
        started = reported = time.monotonic()
        waiting = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                now = time.monotonic()
                if not waiting or now - reported >= HEARTBEAT_S:
                    _report(f"{name}: another process is building it; waiting, {now - started:.0f} s so far")
                    waiting, reported = True, now
                time.sleep(_LOCK_POLL_S)
        yield lock


def _flags(recipe: Recipe) -> list[str]:
    text = (_HERE / recipe.folder / "go.mod").read_text(encoding="utf-8")
    pinned = re.search(rf"^\s*{re.escape(recipe.pinned)} (v(\d+)\.(\d+)\.\S+)", text, re.MULTILINE)
    if pinned is None:
        raise BuildError(f"{_HERE / recipe.folder}/go.mod does not require {recipe.pinned}")
    version, major, minor = pinned.groups()
    stamps = [f"-X {stamp.format(version=version, major=major, minor=minor)}" for stamp in recipe.stamps]
    overlay = ["-overlay", str(recipe.overlay)] if recipe.overlay is not None else []
    tags = ["-tags", recipe.tags] if recipe.tags else []
    return ["-trimpath", *tags, *overlay, "-ldflags", " ".join(["-s", "-w", *stamps])]


def _digest(recipe: Recipe, flags: list[str], toolchain: Toolchain) -> str:
    """Return a digest of everything that the binary depends on: sources, flags, compiler and platform."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((_HERE / recipe.folder / name).read_bytes())
    digest.update("\0".join([*flags, toolchain.version, toolchain.platform]).encode())
    return digest.hexdigest()[:16]


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
