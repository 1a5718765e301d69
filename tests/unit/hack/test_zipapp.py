"""`hack/zipapp`: the file that Python runs, and the manifest of the kubectl plugin."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from hack.programs import zipapp

ROOT = Path(__file__).parents[3]
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def _made(tmp_path: Path, *pythons: str) -> Path:
    """Write a file whose command line prints its name and a word of its package."""
    package = tmp_path / "packages" / "registry_controller" / "cli"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("import sys\ndef main():\n    print(sys.argv[0], sys.argv[1:], __file__)\n")
    return zipapp.write_archive(tmp_path / "packages", tmp_path / "kubectl-cluster_registry", pythons)


def _run(archive: Path, cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.run(
        [sys.executable, str(archive), *words], env=env, capture_output=True, text=True, check=False, timeout=60
    )


def test_a_file_unpacks_itself_once_and_runs_the_command_line(tmp_path: Path) -> None:
    archive = _made(tmp_path, HERE)
    done = _run(archive, tmp_path / "cache", "plan")
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "cache" / "registry-controller" / "cli").iterdir()
    assert done.stdout == f"{archive} ['plan'] {folder}/registry_controller/cli/__init__.py\n"
    assert (tmp_path / "cache" / "registry-controller" / "cli").stat().st_mode & 0o77 == 0
    before = folder.stat().st_ino
    assert _run(archive, tmp_path / "cache").returncode == 0
    assert folder.stat().st_ino == before


def test_another_python_is_refused(tmp_path: Path) -> None:
    done = _run(_made(tmp_path, "3.1"), tmp_path / "cache")
    assert done.returncode == 1
    assert f"needs one of these versions of Python: 3.1; this is {HERE}" in done.stderr


def test_the_same_packages_are_the_same_bytes(tmp_path: Path) -> None:
    first = _made(tmp_path, HERE).read_bytes()
    again = zipapp.write_archive(tmp_path / "packages", tmp_path / "again", [HERE])
    assert again.read_bytes() == first
    packed = [hashlib.sha256(zipapp.pack(again).read_bytes()).hexdigest() for _ in range(2)]
    assert packed[0] == packed[1]
    with tarfile.open(again.with_suffix(".tar.gz")) as opened:
        assert [(info.name, info.mode) for info in opened] == [("kubectl-cluster_registry", 0o755)]


@pytest.mark.parametrize("platform", zipapp.PLATFORMS)
def test_packages_are_the_locked_wheels_of_the_platform(platform: str, tmp_path: Path) -> None:
    words = zipapp.list_pip_words(platform, "3.12", tmp_path)
    assert {"--require-hashes", "--only-binary", "cp312", *zipapp.PLATFORMS[platform].tags} <= set(words)
    assert words[-1] == str(ROOT / "requirements" / "run.lock")


def test_each_platform_has_its_packages() -> None:
    """uvloop has no wheels for Windows, and pip alone would compare markers with the machine of the build."""
    with_uvloop = {name for name in zipapp.PLATFORMS if "\nuvloop==" in "\n" + zipapp.select_packages(name, "3.12")}
    assert with_uvloop == set(zipapp.PLATFORMS) - {"windows-amd64"}
    assert all("pycparser==" in zipapp.select_packages(name, "3.12") for name in zipapp.PLATFORMS)


def test_the_template_of_krew_is_filled() -> None:
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in zipapp.PLATFORMS}
    url = "https://example.com/group/project/releases/download/v1"
    text = zipapp.fill_manifest((ROOT / ".krew.yaml").read_text(), "1.2.3", f"{url}/", sums)
    found = yaml.safe_load(text)
    assert found["metadata"]["name"] == "cluster-registry"
    assert found["spec"]["version"] == "v1.2.3"
    assert found["spec"]["homepage"] == "https://example.com/group/project"
    places = {f"{one['selector']['matchLabels']['os']}-{one['selector']['matchLabels']['arch']}": one
              for one in found["spec"]["platforms"]}  # fmt: skip
    assert set(places) == set(zipapp.PLATFORMS) - zipapp.NOT_IN_KREW
    for name, one in places.items():
        assert one["sha256"] == sums[name]
        assert one["uri"] == f"{url}/kubectl-cluster_registry-{name}.tar.gz"
        assert one["bin"] == "kubectl-cluster_registry"
