"""The test packages for the Python of the image: the locked ones that the image does not have."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from hack.controlplane.build import cache_directory

from .base import run
from .build import ROOT, BuiltImage

_LOCKS: Final = ROOT / "requirements"
_LEFT_OUT: Final = {"pip", "setuptools"}


def ensure_test_packages(image: BuiltImage) -> Path:
    """Return a folder with the packages of dev.lock that otel.lock lacks, for the image's Python, by pip."""
    version = python_of(image)
    lock = (_LOCKS / "dev.lock").read_bytes()
    digest = hashlib.sha256(lock + version.encode()).hexdigest()[:16]
    folder = cache_directory() / "image-tests" / digest
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".packages-", dir=folder.parent))
    try:
        chosen = made / "chosen.lock"
        chosen.write_text("\n".join(missing_pins()), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--no-compile"]
        command += ["--only-binary", ":all:", "--python-version", version, "--implementation", "cp"]
        command += ["--target", str(made / "packages"), "--requirement", str(chosen)]
        run(command, step="pip install of the test packages")
        (made / "packages").rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def missing_pins() -> list[str]:
    """Return the entries of dev.lock, with their hashes, for packages that are not in otel.lock."""
    here = set(pins(_LOCKS / "otel.lock")) | _LEFT_OUT
    return [entry for name, entry in pins(_LOCKS / "dev.lock").items() if name not in here]


def pins(lock: Path) -> dict[str, str]:
    """Return each entry of a lock file by the name of its package."""
    entries = re.split(r"\n(?=[a-z0-9])", lock.read_text(encoding="utf-8"))
    return {entry.split("==")[0]: entry for entry in entries if "==" in entry}


def python_of(image: BuiltImage) -> str:
    """Return the version of the image's Python, as 3.13."""
    [found] = (image.root / "app" / "lib").glob("python3.*")
    return found.name.removeprefix("python")
