"""What is done to an etcd behind its API server: by etcd's JSON gateway, and to the folder of its data."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hack.controlplane import Cluster


def ask(cluster: Cluster, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask etcd something; OSError when it refuses."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{cluster.etcd_port}/v3/{path}", data=json.dumps(body or {}).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def compact(cluster: Cluster) -> int:
    """Forget all history but the present; return the revision."""
    revision = int(ask(cluster, "maintenance/status")["header"]["revision"])
    try:
        ask(cluster, "kv/compaction", {"revision": str(revision), "physical": True})
    except urllib.error.HTTPError as error:
        if b"compacted" not in error.read():  # the API server compacts, too
            raise
    return revision


def raise_revision(cluster: Cluster, *, by: int) -> None:
    """Raise the revision, as etcd's restore with `--bump-revision` does; the objects keep theirs."""
    key = base64.b64encode(b"/raised").decode()
    for _ in range(by):
        ask(cluster, "kv/put", {"key": key, "value": ""})
    ask(cluster, "kv/deleterange", {"key": key})


def set_full(cluster: Cluster, *, is_full: bool) -> None:
    """Raise or disarm the alarm with which etcd refuses writes when its quota is used up."""
    header = ask(cluster, "maintenance/status")["header"]
    action = "ACTIVATE" if is_full else "DEACTIVATE"
    ask(cluster, "maintenance/alarm", {"action": action, "memberID": header["member_id"], "alarm": "NOSPACE"})


def set_cluster_id(cluster: Cluster, old: str, new: str) -> None:
    """Give kube-system another UID, by which a cluster is known; its API server hears of it by its own watch."""
    key = base64.b64encode(b"/registry/namespaces/kube-system").decode()
    (found,) = ask(cluster, "kv/range", {"key": key})["kvs"]
    value = base64.b64decode(found["value"])
    assert value.count(old.encode()) == 1, "the stored form holds the UID once"
    assert len(old) == len(new), "and its length before it"
    value = value.replace(old.encode(), new.encode())
    ask(cluster, "kv/put", {"key": key, "value": base64.b64encode(value).decode()})


def back_up(cluster: Cluster) -> None:
    """Copy the data folder while etcd is down, as a person does who makes a backup."""
    cluster.stop()
    shutil.copytree(cluster.directory / "etcd", cluster.directory / "etcd-backup")
    cluster.start()


def put_back(cluster: Cluster) -> None:
    """Replace the data folder by the copy; the cluster is down."""
    shutil.rmtree(cluster.directory / "etcd")
    shutil.move(cluster.directory / "etcd-backup", cluster.directory / "etcd")


@contextlib.contextmanager
def small_disk(cluster: Cluster, *, size_mib: int) -> Iterator[Path]:
    """Keep the data on a file system of its own for a while; the cluster is down while it moves. Needs root."""
    folder, aside = cluster.directory / "etcd", cluster.directory / "etcd-aside"
    cluster.stop()
    shutil.move(folder, aside)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=700", "tmpfs", str(folder)], check=True)
    try:
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        shutil.rmtree(aside)
        cluster.start()
        yield folder
        cluster.stop()
        shutil.copytree(folder, aside)
    finally:
        cluster.kill()
        subprocess.run(["umount", str(folder)], check=True)
    folder.rmdir()
    shutil.move(aside, folder)
    cluster.start()
