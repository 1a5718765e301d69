"""Searches the package index for a wheel of each locked package, on each platform and Python: `hack/wheels`.

A package without a wheel would be compiled where it is installed: in the image, or on the machine of a user.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
_GLIBC_MINORS: Final = range(34, 16, -1)  # the newest first; the systems of 2022 have 2.35
_TIMEOUT_S: Final = 900


@dataclass(frozen=True, slots=True)
class Target:
    """A platform: its name, the tags of its wheels, the newest system first, and its values in environment markers.

    pip adds the tags of earlier versions of macOS.
    """

    name: str
    tags: tuple[str, ...]
    system: str
    machine: str


def _linux(machine: str) -> tuple[str, ...]:
    return (*(f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS), f"manylinux2014_{machine}")


TARGETS: Final = (
    Target("linux-amd64", _linux("x86_64"), system="linux", machine="x86_64"),
    Target("linux-arm64", _linux("aarch64"), system="linux", machine="aarch64"),
    Target("darwin-arm64", ("macosx_14_0_arm64",), system="darwin", machine="arm64"),
    Target("windows-amd64", ("win_amd64",), system="win32", machine="AMD64"),
)
"""The platforms, by the names that krew has for them. The locked cryptography has no wheel for macOS on Intel."""


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(prog="hack/wheels", description="Search for a wheel of each locked package.")
    made.add_argument("--only", default="", metavar="TEXT", help="only targets whose name contains it, as linux-arm64")
    made.add_argument("--python", action="append", choices=PYTHONS, help="only this version of Python; repeatable")
    return made


def main(options: argparse.Namespace) -> int:
    """Search for each target; return 1 when a package has no wheel, or the index does not answer."""
    failed = 0
    for target in (found for found in TARGETS if options.only in found.name):
        for python in options.python or PYTHONS:
            problem = missing_wheels(target, python=python)
            print(f"{target.name:14} Python {python}: {problem or 'every package has a wheel'}", flush=True)
            failed += problem is not None
    return 1 if failed else 0


def missing_wheels(target: Target, *, python: str) -> str | None:
    """Return what pip reports when a wheel of otel.lock is missing for the target; None when there are all."""
    with tempfile.TemporaryDirectory(prefix="registry-controller-wheels-") as folder:
        chosen = Path(folder, "chosen.lock")
        lock = (ROOT / "requirements" / "otel.lock").read_text(encoding="utf-8")
        chosen.write_text("\n".join(entries_for(lock, target=target, python=python)), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
        command += ["--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "--target", folder]
        command += ["--python-version", python, "--implementation", "cp", "--requirement", str(chosen)]
        command += [part for tag in target.tags for part in ("--platform", tag)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return None if done.returncode == 0 else "; ".join(lines) or done.stderr.strip()


def entries_for(lock: str, *, target: Target, python: str) -> Iterator[str]:
    """Yield the entries of a lock file that apply to a target, without their markers: pip reads those for itself."""
    from packaging.markers import Marker

    environment = {
        "sys_platform": target.system, "platform_machine": target.machine, "python_version": python,
        "python_full_version": f"{python}.0", "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }  # fmt: skip
    for entry in re.split(r"\n(?=\S)", lock):
        pin, _, rest = entry.partition(" \\\n")
        name, _, marker = pin.partition(" ; ")
        if "==" in name and (not marker or Marker(marker).evaluate(environment)):
            yield f"{name} \\\n{rest}"


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
