"""What a member reads another one with, and whether that one still accepts it."""

from __future__ import annotations

import base64
from pathlib import Path

from hack.controlplane import CommandError
from tests.e2e.group import NAMESPACE, Member


def kubeconfig(holder: Member, of: Member) -> bytes:
    """Tell with what a member reads another one."""
    return base64.b64decode(holder.get("-n", NAMESPACE, "secret", of.name)["data"]["kubeconfig"])


def is_refused(member: Member, path: Path) -> bool:
    """Tell whether a member refuses a kubeconfig: an API server accepts a token that is gone for some seconds more."""
    try:
        member.kubectl("--kubeconfig", str(path), "get", "namespace", "kube-system", "-o", "name")
    except CommandError as error:
        return "Unauthorized" in error.stderr or "must be logged in" in error.stderr
    return False
