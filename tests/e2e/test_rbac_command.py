"""`registry-controller rbac` on real clusters: with the ClusterRoles that it prints, a rule lacks no right. S3."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.group import BIN, Member, crd, eventually, rule

pytestmark = [pytest.mark.group(2, prefix="rights"), pytest.mark.clause("S3")]

LAMP = {"group": "test.example.com", "version": "v1", "kind": "Lamp"}
COMMAND = "registry-controller rbac"


def _lamp(color: str) -> dict[str, Any]:
    info = {"name": "one", "namespace": "far"}
    return {"apiVersion": "test.example.com/v1", "kind": "Lamp", "metadata": info, "spec": {"color": color}}


def _roles(member: Member, *arguments: str) -> str:
    """Run the command with the rights of an administrator."""
    command = [str(BIN / "registry-controller"), "--kubeconfig", str(member.cluster.kubeconfig), "rbac", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_with_the_printed_roles_a_plan_lacks_no_right_and_the_rule_works(members: list[Member], tmp_path: Path) -> None:
    first, second = members
    for member in members:
        member.apply(crd("Lamp"))
    entry = {"match": [{}], "mutations": {"syncStatus": True}}
    lamps = rule("lamps", LAMP, entry, deletionPolicy="Delete", createNamespaces=True)
    file = tmp_path / "rule.json"
    file.write_text(json.dumps(lamps))
    # The daemon's user cannot read the file.
    ask = ("sh", "-c", f"echo '{json.dumps(lamps)}' | registry-controller plan -f -")
    first.apply(lamps)
    eventually(
        lambda: COMMAND in first.condition("rsr", "lamps", "Synced").get("message", ""),
        what="the rule's status names the command",
    )
    told = eventually(lambda: (told := first.daemon.execute(*ask, check=False)) and COMMAND in told and told)
    assert "unavailable: " in told

    for member in members:
        printed = _roles(member, "-f", str(file))
        assert "lamps.test.example.com" not in printed
        member.kubectl("apply", "-f", "-", stdin=printed)
    eventually(
        lambda: "unavailable: " not in first.daemon.execute(*ask, check=False),
        within_s=180,
        what="a plan lacks no right",
    )
    first.daemon.execute(*ask)  # which ends with 0

    second.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}, _lamp("red"))
    second.kubectl(
        "patch", "lamp", "one", "-n", "far", "--subresource=status", "--type=merge", "-p", '{"status": {"is": "on"}}'
    )
    here = ("lamp", "one", "-n", "far")
    eventually(lambda: (first.find(*here) or {}).get("status") == {"is": "on"}, what="the copy with its status")
    second.apply(_lamp("blue"))
    eventually(lambda: first.get(*here)["spec"] == {"color": "blue"}, what="the copy follows")
    second.kubectl("delete", "lamp", "one", "-n", "far")
    eventually(lambda: first.find(*here) is None, what="the copy is deleted")
    eventually(lambda: first.condition("rsr", "lamps", "Synced").get("status") == "True", what="the rule is in step")


def test_the_rules_of_a_cluster_need_no_file(members: list[Member]) -> None:
    first, _ = members
    first.apply(crd("Lamp"), rule("lamps", LAMP))
    found = json.loads(_roles(first, "-o", "json"))
    assert [item["metadata"]["name"] for item in found["items"]] == [
        "cluster-registry-rules-reader",
        "cluster-registry-rules-controller",
    ]
    assert {resource for item in found["items"] for one in item["rules"] for resource in one["resources"]} == {"lamps"}
