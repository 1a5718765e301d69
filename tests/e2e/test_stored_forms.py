"""What a real API server stores of a copy: spelled otherwise, without a field, with a field of a former state. A10."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.controlplane import CommandError
from tests.e2e.group import NAMESPACE, Member, eventually, grant, rule, steadily

pytestmark = [pytest.mark.group(2, prefix="stored"), pytest.mark.clause("A10")]

DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}
SERVICE = {"version": "v1", "kind": "Service"}
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"
GROUP = "stored.example.com"
RBAC = "rbac.authorization.k8s.io"
LAMP = {"group": GROUP, "version": "v1", "kind": "Lamp"}
CPU = "/spec/template/spec/containers/name=web/resources/requests?/cpu"


def _deployment(name: str = "web") -> dict[str, Any]:
    containers = [{"name": "web", "image": "a", "resources": {}}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    info = {"name": name, "namespace": "default"}
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


def _run(kubeconfig: Path, *command: str, stdin: str = "") -> str:
    """Run a command of the command line; return what it prints."""
    words = [sys.executable, "-m", "registry_controller", *command, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(words, input=stdin, capture_output=True, text=True, check=False, timeout=180).stdout


def _explain(member: Member, kind: str, name: str, *, kubeconfig: Path | None = None) -> dict[str, Any]:
    """Explain an object, by default as the cluster's administrator; return the decision about it."""
    text = _run(kubeconfig or member.cluster.kubeconfig, "explain", kind, name, "-o", "json")
    (row,) = json.loads(text)["decisions"]
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


def _policy(name: str, *, group: str = "apps", resource: str = "deployments", **spec: Any) -> list[dict[str, Any]]:
    """Write an admission policy on a kind, and its binding; `spec` is what it does."""
    kind = "Mutating" if "mutations" in spec else "Validating"
    resources = {
        "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]
    }  # fmt: skip
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    actions = {"validationActions": ["Deny"]} if kind == "Validating" else {}
    return [
        {
            **head,
            "kind": f"{kind}AdmissionPolicy",
            "spec": {"matchConstraints": {"resourceRules": [resources]}, **spec},
        },
        {**head, "kind": f"{kind}AdmissionPolicyBinding", "spec": {"policyName": name, **actions}},
    ]


def _writes(member: Member, name: str, *, since: int) -> list[str]:
    """List the writes of a Deployment that the daemon sent, without dry runs."""
    lines = [line for line in member.cluster.audit(since=since) if line["user"].get("username") == ACCOUNT]
    paths = [line["requestURI"] for line in lines if line["verb"] in ("create", "update", "patch", "delete")]
    return [path for path in paths if f"/deployments/{name}" in path and "dryRun" not in path]


def test_a_copy_that_admission_changes_is_in_step_also_where_dry_runs_are_refused(members: list[Member]) -> None:
    """A label is added; then a restart is followed by one write at most, and nine annotations by none."""
    first, second = members
    for member in members:
        grant(member, "deployments", ["apps"], ["deployments"])
    stamp = {"expression": 'Object{metadata: Object.metadata{labels: {"admitted": "yes"}}}'}
    mutations = [{"patchType": "ApplyConfiguration", "applyConfiguration": stamp}]
    first.apply(*_policy("stamps", reinvocationPolicy="Never", mutations=mutations))
    dry = _deployment("probe")

    def stamped() -> str:
        made = first.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(dry))
        return str(json.loads(made)["metadata"].get("labels", {}).get("admitted"))

    eventually(lambda: stamped() == "yes", what="the policy is in force")
    second.apply(_deployment("stamped"))
    override = {"type": "replace", "path": CPU, "value": "1000m"}
    entry = {"match": [{"objectKey": {"name": "stamped"}}], "mutations": {"overrides": [override]}}
    first.apply(rule("stamped", DEPLOYMENT, entry))
    eventually(lambda: first.get("deployment", "stamped")["metadata"]["labels"]["admitted"] == "yes")
    first.kubectl("wait", "--for=condition=Synced", "rsr/stamped", "--timeout=180s")
    version = first.get("deployment", "stamped")["metadata"]["resourceVersion"]
    since = first.cluster.audit_offset()
    _restart(first)
    steadily(lambda: not _writes(first, "stamped", since=since), for_s=3.0, what="nothing is written")
    assert _explain(first, "deployment", "default/stamped")["action"] == "skip"

    first.apply(*_policy("refuses", validations=[{"expression": "request.dryRun != true"}]))

    def is_refused() -> bool:
        try:
            stamped()
        except CommandError as error:
            return "refuses" in str(error)
        return False

    eventually(is_refused, what="dry runs are refused")
    since = first.cluster.audit_offset()
    _restart(first)
    eventually(lambda: len(_writes(first, "stamped", since=since)) == 1, what="the one write")
    assert first.get("deployment", "stamped")["metadata"]["resourceVersion"] == version
    for number in range(9):
        first.kubectl("annotate", "--overwrite", "deployment", "stamped", f"note={number}")
    steadily(lambda: len(_writes(first, "stamped", since=since)) == 1, for_s=5.0, what="no second write")
    assert first.condition("rsr", "stamped", "Synced")["status"] == "True"
    first.kubectl("delete", "validatingadmissionpolicybinding", "refuses")


def _restart(member: Member) -> None:
    member.daemon.restart()
    member.daemon.wait_ready(timeout_s=180)


def _as_viewer(member: Member, folder: Path) -> Path:
    """Write the kubeconfig of a user who reads everything and may write nothing."""
    reads = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer", "namespace": "default"}}
    member.apply(account, *_allow("reads", reads))
    path = folder / "viewer.kubeconfig"
    found = yaml.safe_load(member.cluster.kubeconfig.read_text(encoding="utf-8"))
    (user,) = found["users"]
    user["user"] = {"token": member.kubectl("-n", "default", "create", "token", "viewer").strip()}
    path.write_text(yaml.safe_dump(found), encoding="utf-8")
    return path


def _allow(name: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write a ClusterRole, and its binding to the viewer."""
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": f"viewer-{name}"}}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"viewer-{name}"}
    subjects = [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}]
    return [
        {**head, "kind": "ClusterRole", "rules": rules},
        {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects},
    ]


@pytest.mark.clause("S1")
def test_who_may_not_ask_the_server_is_told_which_right_is_missing(members: list[Member], tmp_path: Path) -> None:
    """The copy is stored in another spelling, and only a dry run shows that it is in step."""
    first, second = members
    for member in members:
        grant(member, "deployments", ["apps"], ["deployments"])
    second.apply(_deployment("viewed"))
    override = {"type": "replace", "path": CPU, "value": "1000m"}
    entry = {"match": [{"objectKey": {"name": "viewed"}}], "mutations": {"overrides": [override]}}
    made = rule("viewed", DEPLOYMENT, entry)
    first.apply(made)
    eventually(lambda: first.find("deployment", "viewed"))
    first.kubectl("wait", "--for=condition=Synced", "rsr/viewed", "--timeout=180s")
    viewer = _as_viewer(first, tmp_path)
    right = "update deployments.apps in namespace default"
    row = _explain(first, "deployment", "default/viewed", kubeconfig=viewer)
    assert (row["action"], row["notAsked"]) == ("update", [right])
    words = f"not asked: you may not {right}, so no dry run shows whether the API server would change it"
    assert words in _run(viewer, "plan", "-f", "-", stdin=json.dumps(made))
    first.apply(*_allow("asks", [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["update"]}]))
    row = eventually(
        lambda: not (found := _explain(first, "deployment", "default/viewed", kubeconfig=viewer))["notAsked"] and found
    )
    assert row["reason"] == "InSync"


def test_a_renamed_namespace_is_in_step_after_a_restart(members: list[Member]) -> None:
    """The API server labels a Namespace with its name."""
    first, second = members
    for member in members:
        grant(member, "namespaces", [""], ["namespaces"])
    second.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    renamed = {"overrides": [{"type": "replace", "path": "/metadata/name", "value": "team-copy"}]}
    entry = {"match": [{"objectKey": {"name": "team"}}], "mutations": renamed}
    first.apply(rule("teams", {"version": "v1", "kind": "Namespace"}, entry))
    info = eventually(lambda: first.find("namespace", "team-copy"))["metadata"]
    assert info["labels"]["kubernetes.io/metadata.name"] == "team-copy"
    first.kubectl("wait", "--for=condition=Synced", "rsr/teams", "--timeout=180s")
    _restart(first)

    def is_in_step() -> bool:
        here = first.get("namespace", "team-copy")["metadata"]["resourceVersion"]
        return here == info["resourceVersion"] and first.condition("rsr", "teams", "Synced")["status"] == "True"

    steadily(is_in_step, for_s=3.0, what="the copy as it is stored")
    assert _explain(first, "namespace", "team-copy")["action"] == "skip"


def _refusal(member: Member, manifest: dict[str, Any]) -> str:
    """Return how the API server refuses a creation; it has an object of that name."""
    try:
        member.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))
    except CommandError as error:
        return str(error)
    return ""


@pytest.mark.clause("A2")
def test_a_headless_service_that_gets_an_address_is_made_anew(members: list[Member]) -> None:
    """Once that is allowed: until then the copy stays."""
    first, second = members
    for member in members:
        grant(member, "services", [""], ["services"])
    info = {"name": "web", "namespace": "default"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": info}
    ports = {"ports": [{"name": "http", "port": 80}], "selector": {"app": "web"}}
    second.apply({**service, "spec": {**ports, "clusterIP": "None"}})
    first.apply(rule("services", SERVICE, {"match": [{"objectKey": {"name": "web"}}]}))
    eventually(lambda: first.get("service", "web")["spec"]["clusterIP"] == "None")
    uid = first.get("service", "web")["metadata"]["uid"]
    allowed = "request.operation != 'CREATE' || object.metadata.name != 'web'"
    first.apply(*_policy("keeps", group="", resource="services", validations=[{"expression": allowed}]))
    eventually(lambda: "keeps" in _refusal(first, {**service, "spec": ports}), what="the policy is in force")
    first.daemon.stop()  # or else it deletes the copy with its source
    second.kubectl("delete", "service", "web")
    second.apply({**service, "spec": ports})
    first.daemon.start()
    first.daemon.wait_ready(timeout_s=180)
    eventually(lambda: "by ValidatingAdmissionPolicy keeps" in str(first.get("rsr", "services")["status"]))
    steadily(lambda: first.get("service", "web")["metadata"]["uid"] == uid, what="the copy stays")
    first.kubectl("delete", "validatingadmissionpolicybinding", "keeps")
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
    first.apply(_definition("watts", "colour"))  # which drops the field of a stored copy, and gives no event
    eventually(lambda: first.get("lamp", "one")["spec"] == {"watts": 40, "colour": "red"})
    eventually(lambda: "spec.dimmed" in said(), within_s=300)
    first.apply(_definition("watts", "colour", "dimmed"))
    first.kubectl("wait", "--for=condition=Synced", "rsr/lamps", "--timeout=300s")
    assert first.get("lamp", "one")["spec"] == {"watts": 40, "colour": "red", "dimmed": False}
