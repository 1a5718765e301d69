"""A container image of one static program, as `docker save` writes it: the sandbox of a Pod runs it."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import tarfile
from pathlib import Path
from typing import Final

from hack.controlplane.errors import BuildError

from .needs import PATH

PAUSE: Final = "registry.k8s.io/pause:3.10"
"""The name under which containerd looks for the sandbox's image."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_FOREVER_S: Final = "2147483647"


def write_pause_image(path: Path) -> Path:
    """Write the archive: busybox, which sleeps when it is called by that name."""
    program = shutil.which("busybox", path=PATH)
    if program is None:
        raise BuildError("busybox is missing: on Debian, apt-get install busybox-static")
    layer = _tar({"sleep": Path(program).read_bytes()}, mode=0o755)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": ["/sleep", _FOREVER_S], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE], "Layers": ["layer.tar"]}]
    files = {
        "layer.tar": layer,
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    path.write_bytes(_tar(files, mode=0o644))
    return path


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()
