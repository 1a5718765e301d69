"""What a real API server stores of a copy: spelled otherwise, without a field, with a field of a former state. A10."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.e2e.group import Member, eventually, grant, rule, steadily

pytestmark = [pytest.mark.group(2, prefix="stored"), pytest.mark.clause("A10")]

DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}
SERVICE = {"version": "v1", "kind": "Service"}
GROUP = "stored.example.com"
LAMP = {"group": GROUP, "version": "v1", "kind": "Lamp"}
CPU = "/spec/template/spec/containers/name=web/resources/requests?/cpu"


def _deployment() -> dict[str, Any]:
    containers = [{"name": "web", "image": "a", "resources": {}}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    info = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": info, "spec": spec}


def _definition(*fields: str) -> dict[str, Any]:
    of_spec = {
        "type": "object",
        "properties": {name: {"x-kubernetes-preserve-unknown-fields": True} for name in fields},
    }
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": of_spec, "status": status}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"lamps.{GROUP}"},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": names,
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }  # fmt: skip


def _lamp(**spec: Any) -> dict[str, Any]:
    info = {"name": "one", "namespace": "default"}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Lamp", "metadata": info, "spec": spec}


def _explain(member: Member, kind: str, name: str) -> dict[str, Any]:
    """Explain an object as the cluster's administrator; return the decision about it."""
    command = [sys.executable, "-m", "registry_controller", "explain", kind, name, "-o", "json"]
    command += ["--kubeconfig", str(member.cluster.kubeconfig)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    (row,) = json.loads(found.stdout)["decisions"]
    return dict(row)


def test_a_quantity_in_another_spelling_is_in_step_before_and_after_a_restart(members: list[Member]) -> None:
    """S1: and nine annotations by somebody else are no quarrel."""
    first, second = members
    for member in members:
        grant(member, "deployments", ["apps"], ["deployments"])
    second.apply(_deployment())
    override = {"type": "replace", "path": CPU, "value": "1000m"}
    entry = {"match": [{"objectKey": {"name": "web"}}], "mutations": {"overrides": [override]}}
    first.apply(rule("web", DEPLOYMENT, entry))

    def cpu() -> str:
        (container,) = first.get("deployment", "web")["spec"]["template"]["spec"]["containers"]
        return str(container["resources"].get("requests", {}).get("cpu"))

    eventually(lambda: cpu() == "1")
    for number in range(9):
        first.kubectl("annotate", "--overwrite", "deployment", "web", f"note={number}")
    first.kubectl("wait", "--for=condition=Synced", "rsr/web", "--timeout=180s")
    version = first.get("deployment", "web")["metadata"]["resourceVersion"]
    first.daemon.restart()
    first.daemon.wait_ready(timeout_s=180)

    def is_in_step() -> bool:
        here = first.get("deployment", "web")["metadata"]["resourceVersion"]
        return here == version and first.condition("rsr", "web", "Synced")["status"] == "True"

    steadily(is_in_step, for_s=5, what="the copy as it is stored")
    assert _explain(first, "deployment", "default/web")["action"] == "skip"


@pytest.mark.clause("A2")
def test_a_headless_service_that_gets_an_address_is_made_anew(members: list[Member]) -> None:
    first, second = members
    for member in members:
        grant(member, "services", [""], ["services"])
    info = {"name": "web", "namespace": "default"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": info}
    ports = {"ports": [{"name": "http", "port": 80}], "selector": {"app": "web"}}
    second.apply({**service, "spec": {**ports, "clusterIP": "None"}})
    first.apply(rule("services", SERVICE, {"match": [{"objectKey": {"name": "web"}}]}))
    eventually(lambda: first.get("service", "web")["spec"]["clusterIP"] == "None")
    first.daemon.stop()  # or else it deletes the copy with its source
    second.kubectl("delete", "service", "web")
    second.apply({**service, "spec": ports})
    first.daemon.start()
    first.daemon.wait_ready(timeout_s=180)
    found = eventually(lambda: (one := first.get("service", "web")["spec"])["clusterIP"] != "None" and one)
    assert found["clusterIP"]
    events = eventually(lambda: [
        event for event in first.get("events", "--all-namespaces")["items"]
        if event["reason"] == "Recreated" and "clusterIP" in event.get("message", event.get("note", ""))
    ])  # fmt: skip
    assert events
    uid = first.get("service", "web")["metadata"]["uid"]
    second.kubectl("annotate", "service", "web", "note=1")
    eventually(lambda: first.get("service", "web")["metadata"]["annotations"].get("note") == "1")
    assert first.get("service", "web")["metadata"]["uid"] == uid


@pytest.mark.clause("W6")
def test_a_field_that_the_definition_here_drops_is_named_and_comes_with_its_upgrade(members: list[Member]) -> None:
    """And a status that is edited here is put back."""
    first, second = members
    for member in members:
        grant(member, "lamps", [GROUP], ["lamps", "lamps/status"])
    first.apply(_definition("watts"))
    second.apply(_definition("watts", "colour", "dimmed"))
    for member in members:
        member.kubectl("wait", "--for=condition=Established", f"crd/lamps.{GROUP}", "--timeout=180s")
    eventually(lambda: second.apply(_lamp(watts=40, colour="red", dimmed=False)) or True)
    second.kubectl("patch", "lamp", "one", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"On"}}')
    match = {"match": [{"objectKey": {"name": "one"}}], "mutations": {"syncStatus": True}}
    first.apply(rule("lamps", LAMP, match))

    def said() -> str:
        found = first.condition("rsr", "lamps", "Synced")
        return str(found["message"]) if found.get("status") == "False" else ""

    eventually(lambda: "spec.colour" in said() and "spec.dimmed" in said() and "default/one" in said())
    assert _explain(first, "lamp", "default/one")["reason"] == "FieldsLost"
    first.kubectl("patch", "lamp", "one", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Off"}}')
    eventually(lambda: first.get("lamp", "one")["status"] == {"phase": "On"})
    first.apply(_definition("watts", "colour", "dimmed"))
    eventually(lambda: first.get("lamp", "one")["spec"] == {"watts": 40, "colour": "red", "dimmed": False})
    first.kubectl("wait", "--for=condition=Synced", "rsr/lamps", "--timeout=180s")
