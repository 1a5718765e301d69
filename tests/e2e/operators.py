"""The programs of the examples, as they run beside the members, and what they write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.group import ROOT, Member, eventually

FAN_OUT = ROOT / "examples" / "fan-out-job"


def log_in(member: Member, account: str) -> str:
    """Return a kubeconfig for the account of an operator, which has the rights of the example alone."""
    member.writers.add(f"system:serviceaccount:default:{account}")
    found = yaml.safe_load(member.cluster.kubeconfig.read_text())
    token = member.kubectl("-n", "default", "create", "token", account).strip()
    for user in found["users"]:
        user["user"] = {"token": token}
    return json.dumps(found)


def account(name: str) -> list[dict[str, Any]]:
    """Return the account of an operator, with the rights of the ClusterRole of that name."""
    info, role = {"name": name, "namespace": "default"}, {"kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", **info}
    group = "rbac.authorization.k8s.io"
    binding = {"roleRef": {"apiGroup": group, **role}, "subjects": [subject]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": info},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}, **binding},
    ]


class Program:
    """A program of the examples at one member."""

    def __init__(
        self, member: Member, *command: str, account: str, output: Path, stop: signal.Signals = signal.SIGINT
    ) -> None:
        self._command = [sys.executable, *command]
        kubeconfig = output.with_suffix(".kubeconfig")
        kubeconfig.write_text(log_in(member, account))
        self._env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._output = output
        self._signal = stop
        self.start()

    def start(self) -> None:
        with self._output.open("a") as output:
            self._process = subprocess.Popen(self._command, env=self._env, stdout=output, stderr=output)

    def stop(self) -> None:
        self._process.send_signal(self._signal)
        assert self._process.wait(timeout=60) == 0, self.log()
        assert "Traceback" not in self.log(), self.log()

    def log(self) -> str:
        return self._output.read_text()[-4000:]


def install_fan_out(members: Sequence[Member]) -> None:
    """Install the definition of FanOutJobs at the first member, and the rights at each."""
    members[0].kubectl("apply", "-f", str(FAN_OUT / "crd.yaml"))
    for member in members:
        member.kubectl("apply", "-f", str(FAN_OUT / "rbac.yaml"))
    members[0].kubectl("wait", "--for=condition=Established", "crd/fanoutjobs.batch.example.com")


def fan_out_job(name: str, *, image: str = "none.invalid/none", command: Sequence[str] = ("true",)) -> dict[str, Any]:
    info = {"name": name, "namespace": "default"}
    spec = {"image": image, "command": list(command)}
    return {"apiVersion": "batch.example.com/v1", "kind": "FanOutJob", "metadata": info, "spec": spec}


def states(main: Member, name: str) -> tuple[str, dict[str, str]]:
    """Return the phase of a FanOutJob, and the states of the members."""
    status = main.get("-n", "default", "fanoutjob", name).get("status") or {}
    return status.get("phase", ""), {one["name"]: one["state"] for one in status.get("members", ())}


def expect(main: Member, name: str, phase: str, *found: str, members: Sequence[Member]) -> None:
    wanted = phase, dict(zip((member.name for member in members), found, strict=True))
    eventually(lambda: states(main, name) == wanted, what=f"{name}: {wanted}")
