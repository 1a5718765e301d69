"""The base image: Debian with Python, made by debootstrap from the mirror that this machine's package manager uses.

Docker pulls its base from a registry. This one stands in for it where no registry can be reached.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from hack.controlplane.build import cache_directory
from hack.controlplane.errors import BuildError

SUITE: Final = "trixie"
_PACKAGES: Final = ("ca-certificates", "python3-pip", "python3-venv", "python-is-python3")
_EXPECTED_S: Final = 45
_TIMEOUT_S: Final = 1200


def base_digest() -> str:
    """Return a digest of the suite and packages of the base."""
    return hashlib.sha256("\0".join([SUITE, *_PACKAGES]).encode()).hexdigest()[:16]


def ensure_base() -> Path:
    """Return a tar archive of the base's root, and make it once."""
    archive = cache_directory() / "images" / f"base-{base_digest()}.tar"
    if archive.exists():
        return archive
    if shutil.which("debootstrap") is None:
        raise BuildError("debootstrap is missing: on Debian, apt-get install debootstrap")
    archive.parent.mkdir(parents=True, exist_ok=True)
    print(f"base image: debootstrap {SUITE}, about {_EXPECTED_S} s the first time", flush=True)
    with tempfile.TemporaryDirectory(prefix="registry-controller-base-") as folder:
        root, packed = Path(folder, "root"), archive.with_suffix(".part")
        included = f"--include={','.join(_PACKAGES)}"
        # In a mount namespace of its own: the mounts below the root end with debootstrap, also when it is killed.
        alone = ["unshare", "--mount", "--propagation", "private"]
        run([*alone, "debootstrap", "--variant=minbase", included, SUITE, str(root), mirror()], step="debootstrap")
        left_out = ["--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*", "--exclude=./proc/*"]
        run(["tar", "-C", str(root), *left_out, "-cf", str(packed), "."], step="tar")
        packed.replace(archive)
    return archive


def mirror() -> str:
    """Return the address of the Debian archive from which this machine installs its packages."""
    command = ["apt-get", "indextargets", "--format", "$(SITE) $(LABEL)", "Identifier: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    found = next((line.removesuffix(" Debian") for line in listed if line.endswith(" Debian")), None)
    if found is None:
        raise BuildError("no Debian mirror is known: run apt-get update, or build by docker build")
    return found


def run(command: list[str], *, step: str, env: dict[str, str] | None = None) -> str:
    """Run a program and return its output; BuildError with the end of its output when it fails."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except FileNotFoundError as error:
        raise BuildError(f"{command[0]} is missing: on Debian, apt-get install {command[0]}") from error
    if done.returncode != 0:
        output = (done.stdout + done.stderr).splitlines()[-20:]
        raise BuildError(f"{step} failed with exit code {done.returncode}:\n" + "\n".join(output))
    return done.stdout
