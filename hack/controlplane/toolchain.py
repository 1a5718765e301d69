"""The Go toolchain on this machine.

Law: all calls of go have the same environment, so that the build cache is valid. Its output is printed only without the
names of registries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError
from .guardian import Guardian

MINIMUM = (1, 26)
HEARTBEAT_S = 15.0
_POLL_S = 0.05
_TAIL_LINES = 15
_INSTALL = (
    "install Go 1.26 or newer and put it on the PATH, or point TEST_ASSET_<NAME> "
    "(as TEST_ASSET_KUBE_APISERVER) at binaries that are there already, or KUBEBUILDER_ASSETS at their folder"
)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+")
_DIALLED = re.compile(r"\b(dial tcp:? (?:lookup )?|lookup )\S+")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A `go` that is new enough."""

    go: str
    version: str
    platform: str
    env: Mapping[str, str]


def find_toolchain() -> Toolchain:
    """Return the `go` on the PATH; BuildError when it is missing, too old, or has no folder for its caches."""
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"go is not on the PATH: {_INSTALL}")
    if not os.environ.get("HOME") and not (os.environ.get("GOCACHE") and os.environ.get("GOPATH")):
        raise BuildError("HOME is not set, so go has no folder for its caches: set HOME, or GOCACHE and GOPATH")
    env = _environment()
    done = subprocess.run(
        [go, "env", "GOVERSION", "GOOS", "GOARCH"],
        env=env,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    answer = done.stdout.split()
    if done.returncode != 0 or len(answer) < 3:
        raise BuildError(f"{go} does not work: {scrub(done.stderr.strip(), env=env)}")
    version, system, machine = answer[0], answer[-2], answer[-1]
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < MINIMUM:
        raise BuildError(f"{go} is {version}, too old: {_INSTALL}")
    return Toolchain(go, version=version, platform=f"{system}/{machine}", env=env)


def run_go(
    toolchain: Toolchain,
    argv: Sequence[str],
    *,
    cwd: Path,
    log: Path,
    guardian: Guardian,
    beat: Callable[[float], None],
) -> None:
    """Run go, and call `beat` with the elapsed seconds; BuildError with the end of its output."""
    child = guardian.spawn([toolchain.go, *argv], env=toolchain.env, log=log, cwd=cwd)
    started = time.monotonic()
    beaten = started
    try:
        while child.poll() is None:
            if time.monotonic() - beaten >= HEARTBEAT_S:
                beaten = time.monotonic()
                beat(beaten - started)
            time.sleep(_POLL_S)
    except BaseException:
        guardian.close()  # go has its own session, so Ctrl-C does not reach it
        child.wait()
        raise
    guardian.forget(child.pid)
    if child.returncode != 0:
        output = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
        raise BuildError(f"go {argv[0]} failed:\n" + scrub("\n".join(output), env=toolchain.env))


def scrub(text: str, *, env: Mapping[str, str]) -> str:
    """Replace every URL, and every host from which go was configured to download."""
    text = _DIALLED.sub(r"\1<host>", _URL.sub("<url>", text))
    settings = " ".join(env.get(name, "") for name in ("GOPROXY", "GOSUMDB", "HTTPS_PROXY", "HTTP_PROXY"))
    for host in re.findall(r"[\w-]+(?:\.[\w-]+)+", settings):
        text = text.replace(host, "<host>")
    return text


def _environment() -> dict[str, str]:
    """Return the environment: variables that change the result are fixed, the machine's proxies and caches stay."""
    dropped = {"GOOS", "GOARCH", "GOEXPERIMENT"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    fixed = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    return kept | fixed
