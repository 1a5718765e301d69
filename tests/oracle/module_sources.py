"""The files of Go modules whose definitions and names this project uses: Cluster API and its neighbours.

Law: `sources/go.mod` has their exact versions and `sources/go.sum` their hashes, which go compares. Go's module cache
keeps the files, so each version is downloaded once.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
from pathlib import Path

from hack.controlplane.errors import BuildError
from hack.controlplane.toolchain import find_toolchain, scrub

_HERE = Path(__file__).resolve().parent / "sources"
_LIMIT_S = 240.0


@functools.cache
def module_folder(module: str) -> Path:
    """Return the folder with the files of a pinned module; BuildError when go cannot download it."""
    toolchain = find_toolchain()
    command = [toolchain.go, "mod", "download", "-json", module]
    done = subprocess.run(
        command, cwd=_HERE, env=toolchain.env, capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    if done.returncode:
        output = scrub(done.stdout + done.stderr, env=toolchain.env)
        raise BuildError(f"go mod download {module} failed in {_HERE}; it needs a Go module proxy (GOPROXY):\n{output}")
    return Path(json.loads(done.stdout)["Dir"])


def read_constant(module: str, file: str, name: str) -> str:
    """Return the text of a constant in a module's Go file; ValueError when it is not there."""
    text = (module_folder(module) / file).read_text(encoding="utf-8")
    found = re.search(rf'^\s*(?:const )?{re.escape(name)}\b[^=\n]*= *(?:\w+\()?"([^"\n]*)"', text, re.MULTILINE)
    if found is None:
        raise ValueError(f"{module}/{file} has no constant {name} with a text")
    return found[1]
