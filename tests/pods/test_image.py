"""The content of the image that `hack/image` builds, and the program inside it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from hack.pods.needs import PATH
from hack.programs.image.base import ensure_base
from hack.programs.image.build import CA_BUNDLE, MOUNTED_BUNDLE, ROOT, BuiltImage, revision
from registry_controller import __version__

_SHELLS = {"sh", "bash", "dash", "busybox", "pip", "pip3", "apt", "dpkg", "perl"}
_IMPORT_ALL = """
import importlib, os, pkgutil, sys
assert os.getuid() == 65532
for package in (importlib.import_module(name) for name in sys.argv[1:]):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(len([name for name in sys.modules if name.split(".")[0] in sys.argv[1:]]))
"""
_UNIT = {
    *("admin", "api", "cache", "cli", "clusters", "core", "gotemplate", "group", "kube", "local", "membership"),
    *("planner", "report", "status", "sync", "watch"),
    *("test_chart_values.py", "test_crash_output.py", "test_handlers.py", "test_monitoring.py", "test_settings.py"),
}
_NOT_OF_THE_PROGRAM = {
    # The tools of the checkout, which are not in the image, and which need git and the sources.
    *(
        "chaos",
        "hack",
        "test_daily.py",
        "test_hack.py",
        "test_sentences.py",
        "test_walks.py",
        "test_words.py",
        "test_workflows.py",
    ),
    # The sources, docs and tests of the checkout, compared with one another.
    *("test_clauses.py", "test_project.py"),
}
_NO_SOURCES = ("--ignore", "tests/unit/report/test_log_calls.py")  # it reads the program's sources in the checkout
_ENTER = """
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mkdir -p proc dev packages src
mount -t proc proc proc
mount --rbind /dev dev
mount --bind "$3" packages
for name in tests docs crds deploy hack pyproject.toml requirements; do
  if [ -d "$4/$name" ]; then mkdir "src/$name"; else : >"src/$name"; fi
  mount --bind "$4/$name" "src/$name"
done
shift 4
exec chroot . /app/bin/python -c "$ENTER" "$@"
"""


_CHDIR = "import os, sys; os.chdir('/src'); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


def _run(image: BuiltImage, *argv: str) -> str:
    """Run a program of the image as its user, with the image's files only."""
    command = [shutil.which("chroot", path=PATH) or "chroot", "--userspec", "65532:65532", str(image.root), *argv]
    return subprocess.run(command, env={"PATH": "/app/bin"}, capture_output=True, text=True, check=True).stdout


def _files(image: BuiltImage) -> list[Path]:
    return [path for path in image.root.rglob("*") if path.is_file() and not path.is_symlink()]


def _bodies(bundle: bytes) -> set[bytes]:
    """Return the first line of each certificate: it has the serial number."""
    return set(re.findall(rb"-----BEGIN CERTIFICATE-----\n(.{64})\n", bundle))


def test_the_ca_bundle_of_the_build_is_not_in_the_image(image: BuiltImage) -> None:
    """Its certificates that the base has not are in no file, nor is its mount; the base's are as they were."""
    with tarfile.open(ensure_base()) as base:
        member = base.extractfile("./etc/ssl/certs/ca-certificates.crt")
        assert member is not None
        based = member.read()
    assert (image.root / CA_BUNDLE.relative_to("/")).read_bytes() == based
    marker = _bodies(image.marker.read_bytes())
    assert len(marker) == 1
    own = (_bodies(CA_BUNDLE.read_bytes()) | marker) - _bodies(based)
    assert marker <= own
    holding = [path for path in _files(image) if own & set(re.findall(rb"(?m)^.{64}$", path.read_bytes()))]
    assert holding == []
    assert not os.path.lexists(image.root / MOUNTED_BUNDLE.relative_to("/"))


def test_every_module_of_ours_and_of_kopf_imports(image: BuiltImage) -> None:
    count = int(_run(image, "/app/bin/python", "-c", _IMPORT_ALL, "registry_controller", "kopf"))
    assert count > 200


def test_the_image_is_described_and_runs_as_a_number(image: BuiltImage) -> None:
    config = image.config()
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["registry-controller"]
    prefix = "org.opencontainers.image."
    assert {name: value for name, value in config["Labels"].items() if name.startswith(prefix)} == {
        f"{prefix}title": "registry-controller",
        f"{prefix}description": "Peer-to-peer sync for groups of Kubernetes clusters",
        f"{prefix}licenses": "Apache-2.0",
        f"{prefix}version": __version__,
        f"{prefix}revision": revision(),
        f"{prefix}source": "unknown",  # only the release knows the address of the sources
    }


def test_the_image_holds_python_certificates_and_the_program_only(image: BuiltImage) -> None:
    names = {path.name for path in _files(image)}
    assert not names & _SHELLS
    packages = next((image.root / "app" / "lib").glob("python3.*")) / "site-packages"
    assert {path.name for path in (packages / "kubernetes").iterdir()} <= {
        "__init__.py",
        "__pycache__",
        "aio",
        "py.typed",
    }
    assert (packages / "kubernetes" / "__init__.py").read_text() == ""
    assert [path for path in image.root.rglob("test*") if path.is_dir() and path.name in {"test", "tests"}] == []
    assert [path for path in _files(image) if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)] == []
    assert {path.name for path in (image.root / "app" / "bin").iterdir() if not path.name.startswith("python")} == {
        "kubectl-cluster_registry",
        "registry-controller",
    }


def test_the_user_can_write_to_the_temporary_folder_only(image: BuiltImage) -> None:
    writable = [path for path in image.root.rglob("*") if not path.is_symlink() and path.stat().st_mode & stat.S_IWOTH]
    assert writable == [image.root / "tmp"]
    assert {path.stat().st_uid for path in image.root.rglob("*") if not path.is_symlink()} == {0}


def test_what_the_program_imports_is_compiled(image: BuiltImage) -> None:
    """The root is read-only in a Pod: each start would compile it again."""
    code = "import registry_controller.process as p, registry_controller.app as a; print(p.__cached__, a.__cached__)"
    for path in _run(image, "/app/bin/python", "-c", code).split():
        assert (image.root / Path(path).relative_to("/")).is_file()


@pytest.mark.timeout(1800)
def test_the_unit_tests_pass_inside_the_image(image: BuiltImage, scratch: Path) -> None:
    """With the image's Python, its packages and its copy of the program."""
    assert {path.name for path in (ROOT / "tests" / "unit").iterdir()} - {"__pycache__"} == _UNIT | _NOT_OF_THE_PROGRAM
    work = scratch / "unit"
    for name in ("upper", "work", "root"):
        (work / name).mkdir(parents=True)
    tests = [f"tests/unit/{name}" for name in sorted(_UNIT)]
    command = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", _ENTER, "unit"]
    command += [str(image.root), str(work), os.environ["PODS_PACKAGES"], str(ROOT)]
    command += ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *_NO_SOURCES, *tests]
    env = {"PYTHONPATH": "/packages", "PYTHONHASHSEED": "0", "HOME": "/tmp", "LANG": "C.UTF-8"}
    env |= {"PATH": f"/app/bin:{PATH}", "ENTER": _CHDIR, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
