"""Copied Namespaces and definitions, which Kubernetes deletes with all in them: on real control planes. O1, W4."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from hack.controlplane import ensure_binaries
from tests.docs.documents import ROOT, blocks
from tests.e2e.group import CONFIG_MAP, Member, config_map, crd, eventually, grant, rule, steadily

pytestmark = [pytest.mark.nightly, pytest.mark.group(3, prefix="contain")]

LABELS = {"sync": "yes"}
ENTRY = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
NAMESPACE = {"version": "v1", "kind": "Namespace"}
DEFINITION = {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition"}
WIDGET = {"group": "test.example.com", "version": "v1", "kind": "Widget"}
WIDGETS = "widgets.test.example.com"


def uids(member: Member, *where: str) -> dict[str, str]:
    """Return the UIDs of what is listed with the label, by name."""
    found = json.loads(member.kubectl("get", *where, "-l", "sync=yes", "-o", "json"))["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


def told(member: Member, name: str) -> str:
    """Return the message of a rule's condition Synced, while it is False."""
    condition = member.condition("rsr", name, "Synced")
    return str(condition["message"]) if condition.get("status") == "False" else ""


def find_content(member: Member) -> str:
    """Run the command of docs/troubleshooting.md that lists what lives in the Namespace `team`."""
    (block,) = (found for found in blocks(ROOT / "docs" / "troubleshooting.md") if "api-resources" in found.text)
    (program,) = ensure_binaries(["kubectl"]).values()
    path, kubeconfig = f"{program.parent}:{os.environ['PATH']}", str(member.cluster.kubeconfig)
    command = ["bash", "-euo", "pipefail", "-c", block.text.replace(" --context kind-a", "")]
    env = {**os.environ, "PATH": path, "KUBECONFIG": kubeconfig}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=280).stdout


def test_a_copied_namespace_stays_while_a_copy_of_another_member_lives_in_it(members: list[Member]) -> None:
    first, second, third = members
    for member in members:
        grant(member, "all", ["*"], ["*"])
    first.apply(rule("spaces", NAMESPACE, ENTRY, deletionPolicy="Delete"))
    first.apply(rule("many", CONFIG_MAP, ENTRY))
    for member, labels in ((second, LABELS), (third, {})):
        member.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}})
        member.create(config_map(member.name, {"a": "1"}, namespace="team", labels=LABELS))
    before = eventually(lambda: len(found := uids(first, "-n", "team", "cm")) == 2 and found, what="both are copied")
    (space,) = uids(first, "ns").values()
    second.kubectl("delete", "ns", "team")
    eventually(lambda: f"ConfigMap team/{third.name}" in told(first, "spaces"), what="the rule has the reason")
    kept = {third.name: before[third.name]}
    eventually(lambda: uids(first, "-n", "team", "cm") == kept, what="what its owner deleted goes, and nothing else")
    steadily(lambda: uids(first, "-n", "team", "cm") == kept, for_s=12.0)
    assert uids(first, "ns") == {"team": space}
    assert f"configmap/{third.name} " in find_content(first)
    serve_widgets(first, served=True)
    first.create(widget(1, namespace="team"))
    serve_widgets(first, served=False)
    third.kubectl("-n", "team", "delete", "cm", third.name)
    eventually(lambda: f"{WIDGETS}: no version is served" in told(first, "spaces"), what="the rule has the reason")
    serve_widgets(first, served=True)
    assert list(uids(first, "-n", "team", WIDGETS)) == ["w-1"]
    first.kubectl("delete", "crd", WIDGETS)
    eventually(lambda: not uids(first, "ns"), within_s=300.0, what="a Namespace goes once it is empty")


def serve_widgets(member: Member, *, served: bool) -> None:
    """Serve Widgets, or store them only; wait until that is so."""
    defined = crd("Widget")
    defined["spec"]["versions"][0]["served"] = served
    member.apply(defined)
    listed = ("api-resources", "--api-group", WIDGET["group"], "-o", "name", "--cached=false")
    eventually(lambda: (WIDGETS in member.kubectl(*listed)) == served, what="the definition is taken up")


def widget(number: int, *, namespace: str = "default") -> dict[str, Any]:
    """Write a Widget that is copied."""
    info = {"name": f"w-{number}", "namespace": namespace, "labels": LABELS}
    return {"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": info, "spec": {"n": str(number)}}


def test_a_copied_definition_that_its_owner_replaces_by_force_takes_no_object_along(members: list[Member]) -> None:
    first, second, _ = members
    for member in members:
        grant(member, "all", ["*"], ["*"])
    defined = crd("Widget")
    defined["metadata"]["labels"] = LABELS
    second.create(defined)
    second.kubectl("wait", "--for=condition=Established", f"crd/{WIDGETS}", "--timeout=180s")
    first.apply(rule("kinds", DEFINITION, ENTRY, deletionPolicy="Delete"))
    second.create(*(widget(number) for number in range(5)))
    eventually(lambda: uids(first, "crd"), what="the definition is copied")
    first.apply(rule("widgets", WIDGET, ENTRY, deletionPolicy="Delete"))
    before = eventually(
        lambda: len(found := uids(first, WIDGETS)) == 5 and found, within_s=300.0, what="all are copied"
    )
    definition = uids(first, "crd")
    second.kubectl("replace", "--force", "-f", "-", stdin=json.dumps(defined))
    second.kubectl("wait", "--for=condition=Established", f"crd/{WIDGETS}", "--timeout=180s")
    assert not uids(second, WIDGETS)
    steadily(lambda: (uids(first, "crd"), uids(first, WIDGETS)) == (definition, before), for_s=40.0)
    second.kubectl("delete", "crd", WIDGETS)
    eventually(lambda: "Widget default/w-" in told(first, "kinds"), what="the rule has the reason")
    steadily(lambda: (uids(first, "crd"), uids(first, WIDGETS)) == (definition, before), for_s=12.0)
    first.kubectl("delete", "rsr", "widgets")
    first.kubectl("delete", WIDGETS, "--all")
    eventually(lambda: not uids(first, "crd"), within_s=300.0, what="a definition goes once it has no objects")
