"""`hack/zipapp`: builds the command line as one file for each platform, and the manifest of the kubectl plugin.

bootstrap   the first module of such a file: it unpacks the packages once, and runs the command line

A file has the packages of requirements/run.lock for one platform and several versions of Python, and this project.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import shutil
import string
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hack.programs.wheels import PYTHONS, TARGETS, entries_for

ROOT: Final = Path(__file__).parents[3]
PLATFORMS: Final = {target.name: target for target in TARGETS}
NOT_IN_KREW: Final = frozenset({"windows-amd64"})
"""Platforms on which krew cannot start a file of Python; there `python FILE` does."""
LOCK: Final = ROOT / "requirements" / "run.lock"
_NAME: Final = "kubectl-cluster_registry"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same bytes from each build
_LEFT_OUT: Final = frozenset({"__pycache__", "bin", "tests", "test"})


def main(options: argparse.Namespace) -> int:
    """Build the files, and fill the template of krew's manifest; return the exit code."""
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    sums = {}
    for platform in options.platforms or PLATFORMS:
        try:
            built = build(platform, options.pythons or PYTHONS, out=out)
        except subprocess.CalledProcessError as error:
            print(f"hack/zipapp: {platform}: {' '.join(error.cmd[:5])} ... failed:\n{error.stderr}", file=sys.stderr)
            return 1
        packed = pack(built)
        sums[platform] = hashlib.sha256(packed.read_bytes()).hexdigest()
        print(f"{sums[platform]}  {packed} ({packed.stat().st_size / 1e6:.1f} MB)")
    if options.url:
        from registry_controller import __version__

        text = fill_manifest((ROOT / ".krew.yaml").read_text(encoding="utf-8"), __version__, options.url, sums)
        (out / "cluster-registry.yaml").write_text(text, encoding="utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(
        prog="hack/zipapp", description="Build the command line as one file for each platform, from locked wheels."
    )
    made.add_argument("platforms", nargs="*", choices=[[], *PLATFORMS], metavar="PLATFORM", help=", ".join(PLATFORMS))
    made.add_argument("--python", dest="pythons", action="append", choices=PYTHONS, help="repeatable; default: all")
    made.add_argument("--out", default="dist", metavar="DIR", help="the folder for the files (dist)")
    made.add_argument("--url", metavar="URL", help="write krew's manifest, too; the files will be at URL/NAME")
    return made


def build(platform: str, pythons: Sequence[str], *, out: Path) -> Path:
    """Build the file of one platform; CalledProcessError where a wheel is missing."""
    with tempfile.TemporaryDirectory(prefix="zipapp-") as scratch:
        whole = Path(scratch) / "packages"
        whole.mkdir()
        for python in pythons:
            # Extension modules have names of their own for each version of Python; all other files are the same.
            one, lock = Path(scratch) / python, Path(scratch) / f"{python}.lock"
            lock.write_text(select_packages(platform, python), encoding="utf-8")
            subprocess.run(list_pip_words(platform, python, one, lock), check=True, capture_output=True, text=True)
            shutil.copytree(one, whole, dirs_exist_ok=True)
        _add_project(whole, Path(scratch))
        _remove_unused(whole)
        return write_archive(whole, out / f"{_NAME}-{platform}.pyz", pythons)


def select_packages(platform: str, python: str) -> str:
    """Return the entries of the lock for a platform, without markers: pip compares those with the machine here."""
    lock = LOCK.read_text(encoding="utf-8")
    return "\n".join(entries_for(lock, target=PLATFORMS[platform], python=python))


def list_pip_words(platform: str, python: str, target: Path, lock: Path = LOCK) -> list[str]:
    """Return the command that installs the locked wheels of a platform into a folder."""
    short = python.replace(".", "")
    tags = [word for tag in PLATFORMS[platform].tags for word in ("--platform", tag)]
    abis = [word for abi in (f"cp{short}", "abi3", "none") for word in ("--abi", abi)]
    return [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(target),
        "--only-binary", ":all:", "--no-deps", "--no-compile", "--require-hashes", "--implementation", "cp",
        "--python-version", python, *tags, *abis, "-r", str(lock),
    ]  # fmt: skip


def _add_project(whole: Path, scratch: Path) -> None:
    """Unpack this project's wheel, which has the CustomResourceDefinitions."""
    wheels = scratch / "wheel"
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(wheels)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    [wheel] = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(whole)


def _remove_unused(whole: Path) -> None:
    """Remove caches, scripts and the tests of packages."""
    for path in sorted(whole.rglob("*"), reverse=True):
        if path.is_dir() and path.name in _LEFT_OUT:
            shutil.rmtree(path)


def write_archive(whole: Path, archive: Path, pythons: Sequence[str]) -> Path:
    """Write a file that Python runs: a first line for the system, and a ZIP with the packages and the bootstrap."""
    files = sorted(path for path in whole.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(whole)}\0".encode() + path.read_bytes())
    bootstrap = (Path(__file__).parent / "bootstrap.py").read_text(encoding="utf-8")
    filled = bootstrap.replace("@DIGEST@", digest.hexdigest()).replace("@PYTHONS@", " ".join(pythons))
    with archive.open("wb") as raw:
        raw.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as opened:
            opened.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), filled)
            for path in files:
                info = zipfile.ZipInfo(f"packages/{path.relative_to(whole)}", _EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                opened.writestr(info, path.read_bytes())
    archive.chmod(0o755)
    return archive


def pack(archive: Path) -> Path:
    """Pack a file for krew, under the name by which kubectl finds the plugin; return the path of the package."""
    packed = archive.with_suffix(".tar.gz")
    with (
        packed.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as opened,
    ):
        info = tarfile.TarInfo(_NAME)
        info.size, info.mode = archive.stat().st_size, 0o755
        with archive.open("rb") as data:
            opened.addfile(info, data)
    return packed


def fill_manifest(template: str, version: str, url: str, sums: dict[str, str]) -> str:
    """Fill version, addresses and the SHA-256 of each platform into the template of krew's manifest.

    The homepage is the repository: the part of the URL before `/releases/`, or the whole URL where that is missing.
    """
    base = url.rstrip("/")
    values = {f"SHA256_{name.upper().replace('-', '_')}": value for name, value in sums.items()}
    return string.Template(template).substitute(
        values, VERSION=f"v{version}", BASE_URL=base, HOMEPAGE=base.partition("/releases/")[0]
    )
