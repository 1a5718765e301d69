"""Unpacks the packages of this file into the user's cache folder, once, and runs the command line.

Extension modules cannot be imported from a ZIP.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

DIGEST = "@DIGEST@"
PYTHONS = tuple("@PYTHONS@".split(" "))  # noqa: SIM905  filled in by the program


def unpack(archive: Path, digest: str) -> Path:
    """Return the folder of the packages. Of two processes that unpack at once, the first one wins."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "registry-controller" / "cli"
    folder = cache / digest[:32]
    if folder.is_dir():
        return folder
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=cache))
    try:
        with zipfile.ZipFile(archive) as opened:
            names = [name for name in opened.namelist() if name.startswith("packages/")]
            opened.extractall(scratch, names)
        try:
            (scratch / "packages").rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def main() -> None:
    """Run the command line; exit 2 for a version of Python whose packages are missing."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version not in PYTHONS:
        sys.exit(f"{sys.argv[0]}: needs one of these versions of Python: {', '.join(PYTHONS)}; this is {version}")
    sys.path.insert(0, str(unpack(Path(sys.argv[0]), DIGEST)))
    from registry_controller.cli import main as run

    run()


if __name__ == "__main__":
    main()
