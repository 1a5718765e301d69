"""The mount namespace of a container: the file system that it sees, and its rights.

Law: nothing in it appears on the host. Mount points are created on tmpfs inside the namespace. The container runs the
host's programs: this is no image, but the host with other mounts.

The file also runs as a script (`unshare -m python -I sandbox.py SPEC`, with `-r` for other users than root), so it
imports only the standard library."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

# mount(2), prctl(2)
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 32, 4096, 16384, 1 << 18
_MS_NOATIME, _MS_NODIRATIME, _MS_RELATIME = 1024, 2048, 1 << 21
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_LAST_CAPABILITY = 63  # the kernel returns EINVAL for unknown ones
_KEPT_FLAGS = {
    "nosuid": _MS_NOSUID, "nodev": _MS_NODEV, "noexec": _MS_NOEXEC,
    "noatime": _MS_NOATIME, "nodiratime": _MS_NODIRATIME, "relatime": _MS_RELATIME,
}  # fmt: skip
_DEVICES = ("/proc", "/sys", "/dev")
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A command and its environment."""

    argv: Sequence[str]
    env: Mapping[str, str]
    directory: str
    binds: Mapping[str, str]  # target -> source, read-only
    tmpfs: Sequence[str]  # emptyDirs, always writable
    visible: Sequence[str]  # folders of the host that stay visible below a tmpfs
    has_read_only_root: bool
    drops_capabilities: bool
    may_gain_privileges: bool

    def write(self, path: Path) -> None:
        """Write the file for the script; the environment may hold secrets."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def sandbox_argv(spec: Path) -> list[str]:
    """Return the command that runs a written Sandbox; its process id becomes the container's."""
    return [
        _tool("unshare"),
        "-m" if os.geteuid() == 0 else "-rm",
        sys.executable,
        "-I",
        "-S",
        __file__,
        str(spec),
    ]


def exec_argv(pid: int) -> list[str]:
    """Return the beginning of a command that runs in a container's namespace (`kubectl exec`)."""
    user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
    return [_tool("nsenter"), "-t", str(pid), *user, "-m", f"--wd=/proc/{pid}/cwd", "--"]


def _tool(name: str) -> str:
    return shutil.which(name) or f"/usr/bin/{name}"


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, data)]
    if _LIBC.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind or 'bind'} on {target}: {os.strerror(number)}")


def _enter(sandbox: Sandbox) -> None:
    """Mount shallow targets first, so that deeper ones are on top of them."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    run = os.path.realpath("/var/run")
    sources = {target: os.open(source, os.O_PATH) for target, source in sandbox.binds.items()}
    visible = {path: os.open(path, os.O_PATH) for path in sandbox.visible if Path(path).is_dir()}
    _tmpfs(run, visible)
    ours = {Path(run).stat().st_dev}  # the file systems on which mount points may be created
    targets = {os.path.realpath(target): target for target in (*sandbox.tmpfs, *sandbox.binds)}
    for place, target in sorted(targets.items(), key=lambda item: item[0].count("/")):
        _make_place(place, ours)
        if target in sources:
            _mount(f"/proc/self/fd/{sources[target]}", place, None, _MS_BIND)
        else:
            _tmpfs(place, visible)
            ours.add(Path(place).stat().st_dev)
    writable = {place for place, target in targets.items() if target in sandbox.tmpfs}
    read_only = {place for place, target in targets.items() if target in sources}
    for point, options in _mount_points():
        if point in read_only or (sandbox.has_read_only_root and point not in writable):
            _make_read_only(point, options)


def _tmpfs(place: str, visible: Mapping[str, int]) -> None:
    """Cover a folder by a tmpfs; folders that must stay visible are mounted again below it."""
    _mount("tmpfs", place, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode={'1777' if place == '/tmp' else '755'}")
    for path, handle in visible.items():
        if Path(path).is_relative_to(place):
            Path(path).mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{handle}", path, None, _MS_BIND | _MS_REC)


def _make_place(place: str, ours: set[int]) -> None:
    """Create a mount point on a tmpfs of the sandbox; the host's file systems never change."""
    path = Path(place)
    if path.is_dir():
        return
    parent = next(parent for parent in path.parents if parent.is_dir())
    if parent.stat().st_dev not in ours:
        _mirror(parent)
        ours.add(parent.stat().st_dev)
    path.mkdir(parents=True)


def _mirror(folder: Path) -> None:
    """Replace a folder by a tmpfs that shows the same entries, so that a mount point can be added to it."""
    if str(folder) == "/":
        raise OSError(errno.ENOENT, "a mount point directly below / must exist on the host")
    entries = {entry.name: entry for entry in os.scandir(folder)}
    handles = {name: os.open(entry.path, os.O_PATH | os.O_NOFOLLOW) for name, entry in entries.items()}
    links = {name: Path(entry.path).readlink() for name, entry in entries.items() if entry.is_symlink()}
    folders = {name for name, entry in entries.items() if entry.is_dir(follow_symlinks=False)}
    _mount("tmpfs", str(folder), "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    for name, handle in handles.items():
        place = folder / name
        if name in links:
            place.symlink_to(links[name])
            continue
        place.mkdir() if name in folders else place.touch()
        _mount(f"/proc/self/fd/{handle}", str(place), None, _MS_BIND | _MS_REC)


def _mount_points() -> list[tuple[str, set[str]]]:
    """Return mount points and options (proc_pid_mountinfo(5), fields 5 and 6), without the kernel's file systems."""
    points = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        point = fields[4].encode().decode("unicode_escape")
        if not any(Path(point).is_relative_to(device) for device in _DEVICES):
            points.append((point, set(fields[5].split(","))))
    return points


def _make_read_only(point: str, options: set[str]) -> None:
    """Remount; a user namespace may not drop the present flags, so they are given again."""
    kept = sum(flag for name, flag in _KEPT_FLAGS.items() if name in options)
    try:
        _mount("none", point, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)
    except OSError as error:
        # Covered by a later mount, or no longer visible: then it cannot be written either.
        if error.errno not in (errno.EINVAL, errno.ENOENT) or point == "/":
            raise


def _drop(sandbox: Sandbox) -> None:
    if sandbox.drops_capabilities:
        for capability in range(_LAST_CAPABILITY + 1):
            _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if not sandbox.may_gain_privileges:
        _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _program(sandbox: Sandbox) -> str:
    """Return the program's path; for an image's path that is missing on this host, look up the file name in PATH."""
    name = sandbox.argv[0]
    if "/" in name and os.access(name, os.X_OK):
        return name
    found = shutil.which(Path(name).name, path=sandbox.env.get("PATH", os.defpath))
    if found is None:
        raise FileNotFoundError(f"{name}: not a file, and not on the PATH")
    return found


def main() -> NoReturn:
    """Enter the sandbox and become the container's command."""
    sandbox = Sandbox(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    try:
        _enter(sandbox)
        os.chdir(sandbox.directory if Path(sandbox.directory).is_dir() else "/")
        program = _program(sandbox)
        _drop(sandbox)
        os.execve(program, [program, *sandbox.argv[1:]], dict(sandbox.env))
    except OSError as error:
        sys.exit(f"sandbox: {error}")


if __name__ == "__main__":
    main()
