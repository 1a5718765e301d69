"""The requirements of `make test-pods`, as it reports them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hack.pods import needs


def test_a_machine_without_programs_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "PATH", str(tmp_path))
    monkeypatch.setattr(needs, "PLUGINS", tmp_path)
    monkeypatch.setattr(needs, "CGROUPS", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    [obstacle] = needs.obstacles()
    assert obstacle.endswith(
        "apt-get install --no-install-recommends buildah busybox-static conntrack containerd "
        "containernetworking-plugins debootstrap ethtool iproute2 iptables mount runc util-linux"
    )


def test_a_user_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert needs.obstacles()[0].startswith("nodes need root")


def test_another_system_than_linux_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert needs.obstacles() == ["nodes need Linux, and this is darwin: run it in a virtual machine with Linux"]
