"""Builds the image by buildah, once for each content, and unpacks it for the tests.

Law: an image in the cache is whole: it is made in a temporary folder and moved into place. buildah runs in a mount
namespace of its own, so that no mount stays when it is killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hack.controlplane.build import cache_directory
from hack.controlplane.errors import BuildError
from registry_controller import __version__

from .base import base_digest, ensure_base, run

ROOT: Final = Path(__file__).resolve().parents[3]
DEFAULT_TAG: Final = "localhost/registry-controller:dev"
INPUTS: Final = (
    *("Dockerfile", ".dockerignore", "LICENSE", "README.md", "pyproject.toml", "crds", "registry_controller"),
    *("requirements/otel.lock", "requirements/build.lock", "hack/programs/image/assemble.py"),
)
"""Files and folders on which the image depends."""
CA_BUNDLE: Final = Path("/etc/ssl/certs/ca-certificates.crt")
MOUNTED_BUNDLE: Final = Path("/run/build-ca.crt")
"""The path of the CA bundle in the build."""
_MARKER: Final = "marker.crt"
_KEPT: Final = 3
_EXPECTED_S: Final = 60


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image: its name, the OCI archive, and the folder with its unpacked files."""

    tag: str
    archive: Path
    root: Path

    @property
    def marker(self) -> Path:
        """The certificate (PEM) that only the CA bundle of the build had, besides the machine's own."""
        return self.root.with_name(_MARKER)

    def size_mib(self) -> float:
        """Return the size of all files."""
        return sum(_sizes(self.root).values()) / 2**20

    def largest(self, count: int = 8) -> list[tuple[str, float]]:
        """Return the largest packages of Python and folders of the root, in MiB."""
        found: dict[str, int] = {}
        for path, size in _sizes(self.root).items():
            parts = path.relative_to(self.root).parts
            depth = parts.index("site-packages") + 2 if "site-packages" in parts else 3
            name = "/".join(parts[: min(depth, len(parts) - 1)])
            found[name] = found.get(name, 0) + size
        ranked = sorted(found.items(), key=lambda item: -item[1])
        return [(name, size / 2**20) for name, size in ranked[:count]]

    def config(self) -> dict[str, Any]:
        """Return the part of the OCI configuration that the program sees: user, entry point, labels."""
        oci = self.root.parent / "oci"
        named = _named(oci, _manifest(oci)["config"]["digest"])
        found: dict[str, Any] = json.loads(named.read_text(encoding="utf-8"))["config"]
        return found


def ensure_image(tag: str = DEFAULT_TAG) -> BuiltImage:
    """Return the image of this checkout, and build it unless it is cached."""
    folder = cache_directory() / "images" / _digest(tag)
    image = BuiltImage(tag, archive=folder / "image.tar", root=folder / "root")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            if os.geteuid() != 0:
                raise BuildError("debootstrap and buildah need root here; run it as root, or build by docker build")
            _build(tag, folder=folder)
        os.utime(folder)
        _prune(folder.parent)
    return image


def revision() -> str:
    """Return the last commit that changed the image's files, with `-dirty` when they differ; `unknown` without git."""
    commit = _git("log", "-1", "--format=%H", "--", *INPUTS)
    if not commit:
        return "unknown"
    return f"{commit}-dirty" if _git("status", "--porcelain", "--", *INPUTS) else commit


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def _build(tag: str, *, folder: Path) -> None:
    from hack.controlplane.certificates import write_authority

    base = ensure_base()
    print(f"image: building, about {_EXPECTED_S} s", flush=True)
    work = Path(tempfile.mkdtemp(prefix=".image-", dir=folder.parent))
    try:
        storage = work / "storage"
        made, oci = work / "made", work / "made" / "oci"
        made.mkdir()
        base_tag = f"localhost/registry-controller-base:{base_digest()}"
        container = _buildah(["from", "scratch"], storage=storage).strip()
        _buildah(["add", "--quiet", container, str(base), "/"], storage=storage)
        _buildah(["commit", "--quiet", "--rm", container, base_tag], storage=storage)
        command = ["bud", "--pull-never", "--tag", tag, "--build-arg", f"BASE={base_tag}"]
        command += ["--build-arg", f"VERSION={__version__}", "--build-arg", f"REVISION={revision()}"]
        if CA_BUNDLE.is_file():
            marker = write_authority(made / _MARKER, name="marker of the build's CA bundle")
            bundle = work / "bundle.crt"
            bundle.write_bytes(CA_BUNDLE.read_bytes() + b"\n" + marker.read_bytes())
            command += ["--volume", f"{bundle}:{MOUNTED_BUNDLE}:ro", "--build-arg", f"PIP_CERT={MOUNTED_BUNDLE}"]
        if index := os.environ.get("PIP_INDEX_URL"):
            command += ["--build-arg", f"PIP_INDEX_URL={index}"]
        _buildah([*command, str(ROOT)], storage=storage)
        _buildah(["push", "--disable-compression", tag, f"oci-archive:{made}/image.tar:{tag}"], storage=storage)
        oci.mkdir()
        run(["tar", "-C", str(oci), "-xf", str(made / "image.tar")], step="tar")
        _unpack(oci, made / "root")
        made.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _buildah(arguments: list[str], *, storage: Path) -> str:
    """Run buildah on a storage of its own; its mounts end with it."""
    alone = ["unshare", "--mount", "--propagation", "private"]
    command = [*alone, "buildah", "--root", str(storage), "--runroot", f"{storage}.run", *arguments]
    temporary = storage.with_name("tmp")
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot", "TMPDIR": str(temporary)}
    if shutil.which("buildah") is None:
        raise BuildError("buildah is missing: on Debian, apt-get install buildah debootstrap")
    return run(command, step=f"buildah {arguments[0]}", env=env)


def _unpack(oci: Path, root: Path) -> None:
    """Unpack the layers; none of them deletes a file of an earlier one, because the last stage begins from scratch."""
    root.mkdir()
    for layer in _manifest(oci)["layers"]:
        packed = _named(oci, layer["digest"])
        run(["tar", "-C", str(root), "-xf", str(packed)], step="tar")
        packed.unlink()


def _manifest(oci: Path) -> dict[str, Any]:
    index = json.loads((oci / "index.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = json.loads(_named(oci, index["manifests"][0]["digest"]).read_text(encoding="utf-8"))
    return found


def _named(oci: Path, digest: str) -> Path:
    return oci / "blobs" / digest.replace(":", "/")


def _digest(tag: str) -> str:
    digest = hashlib.sha256(
        "\0".join([tag, base_digest(), platform.machine(), revision(), Path(__file__).read_text("utf-8")]).encode()
    )
    for name in INPUTS:
        place = ROOT / name
        paths = [place] if place.is_file() else sorted(p for p in place.rglob("*") if "__pycache__" not in p.parts)
        for path in paths:
            if path.is_file():
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _prune(folder: Path) -> None:
    """Remove images that were not used lately, and the folders of builds that were killed; the caller has the lock."""
    images = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: -path.stat().st_mtime)
    for path in images[_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


def _sizes(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink()}
