"""Runs the program as a user does, with the contexts of a group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.e2e.group import Member

PROGRAM = Path(sys.executable).parent / "registry-controller"
TOMBSTONES = "cluster-registry.k8s.cisco.com/left-member"
"""The label of tombstones; its value is the ID of the member."""


class Ended(NamedTuple):
    """The end of a command."""

    code: int
    stdout: str
    stderr: str


def run(kubeconfig: Path, *arguments: str, timeout_s: float = 280, stdin: str = "") -> Ended:
    """Run a command with this kubeconfig."""
    env = {**os.environ, "KUBECONFIG": str(kubeconfig), "NO_COLOR": "1"}
    done = subprocess.run(
        [str(PROGRAM), *arguments], env=env, input=stdin, capture_output=True, text=True, check=False,
        timeout=timeout_s,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def leave(kubeconfig: Path, *arguments: str, code: int = 0) -> str:
    """Run `leave` without a question, and return all that it prints."""
    ended = run(kubeconfig, "leave", "--yes", *arguments)
    assert ended.code == code, f"{ended.code}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout + ended.stderr


def merge_kubeconfigs(members: Sequence[Member], *, at: Path) -> Path:
    """Write one kubeconfig with a context for each member, named as the member; the first one is the current one."""
    whole: dict[str, list[object]] = {"clusters": [], "users": [], "contexts": []}
    for member in members:
        found = yaml.safe_load(member.cluster.kubeconfig.read_text())
        for part, field in (("clusters", "cluster"), ("users", "user")):
            whole[part].append({"name": member.name, field: found[part][0][field]})
        context = {"cluster": member.name, "user": member.name}
        whole["contexts"].append({"name": member.name, "context": context})
    at.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": members[0].name, **whole}))
    return at


def contexts(names: Iterable[str]) -> list[str]:
    """Return the flags for these contexts."""
    return [word for name in names for word in ("--context", name)]
