"""The programs: honoured, built once, and never left half done. Go itself is played by a shell script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from hack.controlplane import BuildError, ensure_binaries
from hack.controlplane.guardian import start_time

_CHECKOUT = Path(__file__).resolve().parents[2]
_GO = """\
#!/bin/sh
if [ "$1" = env ]; then printf '%s\\nlinux\\namd64\\n' "$FAKE_GO_VERSION"; exit; fi
while [ "$1" != -o ]; do shift; done
printf half > "$2"
echo $$ >> "$FAKE_GO/started"
while [ ! -e "$FAKE_GO/release" ]; do sleep 0.02; done
if [ -e "$FAKE_GO/fail" ]; then
  echo 'go: GET https://proxy.example.test/x: dial tcp: lookup proxy.example.test: no such host'; exit 1
fi
printf '#!/bin/sh\\n' > "$2"; chmod +x "$2"
"""


@dataclass(frozen=True, slots=True)
class FakeGo:
    """A `go` that builds when it is told to."""

    directory: Path
    cache: Path
    env: Mapping[str, str]

    def started(self) -> list[int]:
        path = self.directory / "started"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def release(self) -> None:
        (self.directory / "release").touch()

    def fail(self) -> None:
        (self.directory / "fail").touch()
        self.release()

    def cached(self) -> list[str]:
        """What is in the cache, locks left out."""
        return [path.name for path in self.cache.rglob("*") if path.is_file() and path.suffix != ".lock"]

    def build(self) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "hack.controlplane", "build", "etcd"]
        return subprocess.Popen(
            argv, env=self.env, cwd=_CHECKOUT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    for name in [name for name in os.environ if name.startswith("TEST_ASSET_")] + ["KUBEBUILDER_ASSETS"]:
        monkeypatch.delenv(name, raising=False)
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(_GO)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_GO", str(tmp_path))
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.26.8")
    monkeypatch.setenv("GOPROXY", "https://proxy.example.test,direct")
    return FakeGo(tmp_path, cache=tmp_path / "cache", env=dict(os.environ))


@pytest.mark.parametrize("name", ["etcd", "kube-controller-manager"])
def test_a_test_asset_is_taken_before_anything_else(go: FakeGo, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    asset = _program(go.directory / "assets" / "mine")
    _program(go.directory / "envtest" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(go.directory / "envtest"))
    monkeypatch.setenv(f"TEST_ASSET_{name.upper().replace('-', '_')}", str(asset))
    assert ensure_binaries([name]) == {name: asset}
    assert go.started() == []


def test_what_the_envtest_folder_lacks_is_built(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    etcd = _program(go.directory / "envtest" / "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(etcd.parent))
    go.release()
    found = ensure_binaries(["etcd", "kube-controller-manager"])
    assert found["etcd"] == etcd
    assert found["kube-controller-manager"].is_relative_to(go.cache)
    assert len(go.started()) == 1


def test_a_test_asset_that_is_not_there_is_an_error(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_ASSET_ETCD", "/not/there")
    with pytest.raises(BuildError, match="TEST_ASSET_ETCD is /not/there"):
        ensure_binaries(["etcd"])


def test_a_binary_is_built_once(go: FakeGo) -> None:
    go.release()
    first, second = ensure_binaries(["etcd"]), ensure_binaries(["etcd"])
    assert first == second
    assert os.access(first["etcd"], os.X_OK)
    assert len(go.started()) == 1
    assert go.cached() == ["etcd"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_leaves_no_binary_and_no_compiler(
    go: FakeGo, eventually: Callable[..., None], number: signal.Signals
) -> None:
    with go.build() as build:
        eventually(go.started)
        build.send_signal(number)
        build.communicate()
    assert build.returncode != 0
    eventually(lambda: start_time(go.started()[0]) is None)
    eventually(lambda: go.cached() == [])


def test_of_two_builds_the_second_waits_for_the_first(go: FakeGo, eventually: Callable[..., None]) -> None:
    with go.build() as first:
        eventually(go.started)
        with go.build() as second:
            assert second.stderr is not None
            assert "another process is building it; waiting" in second.stderr.readline()
            go.release()
            outputs = first.communicate()[0], second.communicate()[0]
    assert outputs[0] == outputs[1]
    assert len(go.started()) == 1


def test_a_long_build_says_that_it_goes_on(
    go: FakeGo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hack.controlplane.toolchain.HEARTBEAT_S", 0.0)
    monkeypatch.setattr("hack.controlplane.toolchain.time.sleep", lambda _: go.release())
    ensure_binaries(["etcd"])
    assert "etcd: go is at work, 0 of about 30 s" in capsys.readouterr().err


def test_a_failed_build_names_no_registry(go: FakeGo) -> None:
    go.fail()
    with pytest.raises(BuildError, match="etcd cannot be built: go build failed") as caught:
        ensure_binaries(["etcd"])
    assert "no such host" in str(caught.value)
    assert "example.test" not in str(caught.value)
    assert go.cached() == []


def test_a_go_that_is_too_old_is_named(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.25.4")
    with pytest.raises(BuildError, match=r"is go1\.25\.4, too old: install Go 1\.26"):
        ensure_binaries(["etcd"])


def test_a_missing_go_is_said_with_what_to_do(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BuildError, match="go is not on the PATH: install Go"):
        ensure_binaries(["etcd"])


def test_a_missing_cache_folder_is_said_with_what_to_do(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("GOCACHE", str(go.directory))
    monkeypatch.setenv("GOPATH", str(go.directory))
    with pytest.raises(BuildError, match="set XDG_CACHE_HOME, or HOME"):
        ensure_binaries(["etcd"])
    monkeypatch.delenv("GOCACHE")
    with pytest.raises(BuildError, match="HOME is not set"):
        ensure_binaries(["etcd"])


def _program(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path
