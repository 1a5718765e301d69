"""Collects the files of the image in a folder: Python, CA certificates, the program, and the libraries that they load.

The Dockerfile runs this file alone, with the Python of the program's virtual environment: it imports only the standard
library. Usage: `python assemble.py FOLDER`.
"""

from __future__ import annotations

import compileall
import importlib.metadata
import os
import py_compile
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

Ignore = Callable[[str, list[str]], set[str]]
PROGRAM = "registry-controller"
# Tests, caches, sources of extensions, and tools that need a screen, a compiler or a package index.
LEFT_OUT: Ignore = shutil.ignore_patterns(
    *("__pycache__", "test", "tests", "testing", "*.pyi", "*.pyx", "*.pxd", "*.c", "*.h", "*.a"),
    *("site-packages", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "tkinter", "turtledemo"),
    *("config-*", "_tkinter*", "turtle.py"),
)
# The client's asynchronous half is in `aio`. The rest is its synchronous half, which the top module would import.
_CLIENT_KEPT = {"aio", "py.typed"}
_LOADED_LATER = ("libgcc_s.so.1",)  # libc opens it by name when a thread ends
_USERS = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n"
_GROUPS = "root:x:0:\nnonroot:x:65532:\n"
_IMPORT_ALL = """
import importlib, pkgutil, sys, registry_controller
for module in pkgutil.walk_packages(registry_controller.__path__, "registry_controller."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for module in list(sys.modules.values()):
    if (getattr(module, "__file__", None) or "").endswith(".py"):
        print(module.__file__)
"""


def main() -> None:
    """Fill the folder."""
    image = Path(sys.argv[1])
    image.mkdir(parents=True)
    shrink_client(Path(sysconfig.get_path("purelib")) / "kubernetes")
    for name in ("bin", "lib", "lib64", "sbin"):
        if (link := Path("/", name)).is_symlink():
            (image / name).symlink_to(link.readlink())
    copy_environment(Path(sys.prefix), image=image)
    copy_tree(Path(sysconfig.get_path("stdlib")), image=image)
    libraries = sorted(set(needed_libraries(image)))
    for library in libraries:
        copy_file(library, image=image)
    copy_certificates(image)
    copy_package_records([*libraries, Path(sys.executable), Path(os.__file__)], image=image)
    write_accounts(image)
    compile_imported(image)


def shrink_client(client: Path) -> None:
    """Delete the synchronous half of the Kubernetes client, and empty the module that imports it."""
    for path in client.iterdir():
        if path.is_dir() and path.name not in _CLIENT_KEPT:
            shutil.rmtree(path)
    (client / "__init__.py").write_text("", encoding="utf-8")


def copy_environment(prefix: Path, *, image: Path) -> None:
    """Copy the virtual environment; of its programs, keep Python's and this project's."""
    copy_tree(prefix / "lib", image=image, ignore=_without_caches)
    for name in ("pyvenv.cfg", "lib64"):
        if os.path.lexists(prefix / name):
            copy_file(prefix / name, image=image)
    scripts = {entry.name for entry in importlib.metadata.distribution(PROGRAM).entry_points}
    for path in (prefix / "bin").iterdir():
        if path.name in scripts or path.name.startswith("python"):
            copy_file(path, image=image)


def _without_caches(folder: str, names: list[str]) -> set[str]:
    """Leave out what LEFT_OUT names, except the folder in which the packages are."""
    return LEFT_OUT(folder, names) - {"site-packages"}


def copy_tree(source: Path, *, image: Path, ignore: Ignore = LEFT_OUT) -> None:
    """Copy a folder to the same path in the image, and the files outside the folder to which its links lead."""
    target = image / source.relative_to("/")
    shutil.copytree(source, target, symlinks=True, ignore=ignore, dirs_exist_ok=True)
    for path in target.rglob("*"):
        if path.is_symlink():
            after = source / path.parent.relative_to(target) / path.readlink()
            if after.is_file():
                copy_file(after, image=image)
            elif not after.is_dir():
                path.unlink()


def copy_file(source: Path, *, image: Path) -> None:
    """Copy a file to the same path in the image; for a link, also its target."""
    place = source.parent.resolve() / source.name  # /lib is a link to /usr/lib, also in the image
    target = image / place.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(target):
        shutil.copy2(place, target, follow_symlinks=False)
    if place.is_symlink() and (after := place.parent / place.readlink()).is_file():
        copy_file(after, image=image)


def needed_libraries(image: Path) -> Iterator[Path]:
    """Yield the shared libraries that Python and its extensions need, the loader included."""
    cached = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for name in _LOADED_LATER:
        if found := re.search(rf"{re.escape(name)} .* => (\S+)", cached):
            yield Path(found[1])
    for path in image.rglob("*"):
        if path.is_symlink() or not path.is_file() or not _is_elf(path):
            continue
        listed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
        for found in re.finditer(r"^\s*(?:\S+ => )?(/\S+) \(0x", listed, re.MULTILINE):
            library = Path(found[1])
            if image not in library.parents:
                yield library


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def copy_certificates(image: Path) -> None:
    """Copy the CA certificates of the base, and link the path at which OpenSSL looks for them."""
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    if not bundle.is_file():
        raise SystemExit(f"the base image has no CA certificates at {bundle}: install its package ca-certificates")
    target = image / bundle.relative_to("/")
    target.parent.mkdir(parents=True)
    shutil.copyfile(bundle, target)
    default = image / Path(ssl.get_default_verify_paths().openssl_cafile).relative_to("/")
    if not os.path.lexists(default):
        default.parent.mkdir(parents=True, exist_ok=True)
        default.symlink_to(bundle)


def copy_package_records(files: Iterable[Path], *, image: Path) -> None:
    """Record the Debian packages of the copied files, where scanners read them, with their licences."""
    if shutil.which("dpkg-query") is None:
        return
    packages = {"ca-certificates"}
    for path in files:
        for place in {path, path.resolve(), Path("/", *path.resolve().parts[2:])}:  # listed with or without /usr
            asked = subprocess.run(["dpkg-query", "-S", str(place)], capture_output=True, text=True, check=False)
            packages |= {line.split(":")[0] for line in asked.stdout.splitlines() if not line.startswith("diversion")}
    records = image / "var/lib/dpkg/status.d"
    records.mkdir(parents=True)
    for package in sorted(packages):
        shown = subprocess.run(["dpkg-query", "-s", package], capture_output=True, text=True, check=False)
        if shown.returncode == 0:
            (records / package).write_text(shown.stdout, encoding="utf-8")
        if (licence := Path("/usr/share/doc", package, "copyright")).is_file():
            copy_file(licence.resolve(), image=image)


def write_accounts(image: Path) -> None:
    """Write the user database, name resolution, and the folder for temporary files."""
    (image / "etc/passwd").write_text(_USERS, encoding="utf-8")
    (image / "etc/group").write_text(_GROUPS, encoding="utf-8")
    (image / "etc/nsswitch.conf").write_text("hosts: files dns\n", encoding="utf-8")
    if (release := Path("/etc/os-release")).exists():
        shutil.copyfile(release, image / "etc/os-release")
    (image / "tmp").mkdir()
    (image / "tmp").chmod(0o1777)


def compile_imported(image: Path) -> None:
    """Compile the imported modules: the root is read-only in a Pod, and each start would compile it again."""
    command = [sys.executable, "-B", "-c", _IMPORT_ALL]
    # Not in the folder of the build, where Python would find the sources instead of the installed program.
    imported = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout.split("\n")
    for name in sorted(set(imported) - {""}):
        path = image / Path(name).relative_to("/")
        if path.is_file() and not compileall.compile_file(
            path, stripdir=str(image), quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        ):
            raise SystemExit(f"{name} cannot be compiled")


if __name__ == "__main__":
    main()
