"""What a rule copies, what it never touches, and what it says, on two real clusters."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.controlplane import CommandError
from tests.e2e.group import (
    CONFIG_MAP,
    OWNER,
    SECRET,
    Member,
    config_map,
    crd,
    eventually,
    grant,
    rule,
    secret,
    steadily,
)

WIDGET = {"group": "test.example.com", "version": "v1", "kind": "Widget"}
READER_AGGREGATED = "cluster-registry.k8s.cisco.com/reader-aggregated"
CONTROLLER_AGGREGATED = "cluster-registry.k8s.cisco.com/controller-aggregated"
SYNC_DISABLED = "cluster-registry.k8s.cisco.com/resource-sync-disabled"
CANARY = "canary-51c0ffee"


def _widget(name: str, *, kind: str = "Widget", version: str = "v1", **spec: Any) -> dict[str, Any]:
    info = {"name": name} if kind == "Planet" else {"name": name, "namespace": "default"}
    return {"apiVersion": f"test.example.com/{version}", "kind": kind, "metadata": info, "spec": spec}


pytestmark = pytest.mark.group(
    2,
    prefix="copy",
    values=("controller.createNamespaces=true", "controller.stabilizationWindowSeconds=0"),
    canaries=(CANARY,),
    grants=("services",),
)


def _accepted(member: Member, name: str) -> dict[str, Any]:
    return eventually(lambda: member.condition("rsr", name, "Accepted"))


def test_a_kind_that_nobody_serves_or_allows_is_said_and_heals(members: list[Member]) -> None:
    """R2, S3: the rule names who, what and which right; nobody touches it when it heals."""
    first, second = members
    first.apply(rule("widgets", WIDGET, {"match": [{}]}))
    words = eventually(lambda: "Widget" in (said := first.condition("rsr", "widgets", "Stalled")["message"]) and said)
    assert f"peer {second.name}:" in words
    assert "not serve" in words
    for member in members:
        member.apply(crd("Widget", versions=("v1alpha1", "v1")), crd("Planet", scope="Cluster"), crd("Gadget"))
    eventually(
        lambda: re.search(
            rf"peer {second.name}: Widget: cannot (list|watch) widgets.test.example.com[^;]*;[^;]*{READER_AGGREGATED}",
            first.condition("rsr", "widgets", "Stalled")["message"],
        ),
        what="forbidden",
    )  # fmt: skip
    for member in members:
        grant(member, "tests", ["test.example.com"], ["widgets", "planets", "gadgets"])
    second.apply(_widget("w1", size=1))
    eventually(lambda: first.find("widgets.test.example.com", "w1"), within_s=120)
    first.kubectl("wait", "--for=condition=Synced", "rsr/widgets", "--timeout=180s")


def test_a_right_to_write_that_is_missing_is_said_with_what_grants_it_and_heals(members: list[Member]) -> None:
    """S3, A4: the daemon may list and watch the kind here, and not create it."""
    first, second = members
    for member in members:
        member.apply(crd("Comet"))
    grant(second, "comets", ["test.example.com"], ["comets"])
    seeing = {"apiGroups": ["test.example.com"], "resources": ["comets"], "verbs": ["get", "list", "watch"]}
    first.apply({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [seeing],
        "metadata": {"name": "see-comets", "labels": {CONTROLLER_AGGREGATED: "true"}},
    })  # fmt: skip
    first.apply(rule("comets", {**WIDGET, "kind": "Comet"}))
    second.apply(_widget("halley", kind="Comet", a=1))
    eventually(
        lambda: re.search(
            rf"create comets.test.example.com.*403 Forbidden; .*{CONTROLLER_AGGREGATED}",
            first.condition("rsr", "comets", "Synced").get("message", ""),
        ),
        what="the right is named",
    )  # fmt: skip
    grant(first, "comets", ["test.example.com"], ["comets"])
    eventually(lambda: first.find("comets.test.example.com", "halley"))


def test_versions_scopes_kinds_and_sizes(members: list[Member]) -> None:
    """W1, R1: two versions, a cluster-scoped kind, a kind mutation, names of 253 characters, 900 KiB."""
    first, second = members
    first.apply(
        rule("old-version", {**WIDGET, "version": "v1alpha1"}, {"match": [{"objectKey": {"name": "w-old"}}]}),
        rule("planets", {**WIDGET, "kind": "Planet"}),
        rule("to-gadgets", WIDGET, {
            "match": [{"objectKey": {"name": "w-mutated"}}],
            "mutations": {
                "groupVersionKind": {"kind": "Gadget"}, "labels": {"add": {"seen": "yes"}, "remove": ["gone"]},
            },
        }),
        rule("large", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"large": "yes"}}]}]}),
    )  # fmt: skip
    long = "n" * 253
    mutated = _widget("w-mutated", a=1)
    mutated["metadata"]["labels"] = {"gone": "1", "kept": "1"}
    made = (_widget("w-old", version="v1alpha1", a=1), _widget("earth", kind="Planet", moons=1), mutated)
    eventually(lambda: second.apply(*made) is None, what="the definitions are served")
    second.create(
        config_map(long, {"a": "1"}, labels={"large": "yes"}),
        config_map("big", {"a": "x" * 900 * 1024}, labels={"large": "yes"}),
    )
    eventually(lambda: first.find("widgets.test.example.com", "w-old"))
    eventually(lambda: first.find("planets.test.example.com", "earth"))
    eventually(lambda: first.find("cm", long))
    eventually(lambda: len(first.get("cm", "big")["data"]["a"]) == 900 * 1024)
    gadget = eventually(lambda: first.find("gadgets.test.example.com", "w-mutated"))
    assert gadget["metadata"]["labels"]["seen"] == "yes"
    assert "gone" not in gadget["metadata"]["labels"]
    original = gadget["metadata"]["annotations"]["cluster-registry.k8s.cisco.com/original-group-version-kind"]
    assert original == "Widget.test.example.com/v1"
    second.kubectl("delete", "widgets.test.example.com", "w-mutated")
    eventually(lambda: first.find("gadgets.test.example.com", "w-mutated") is None)


def test_a_service_keeps_what_its_own_cluster_allocates(members: list[Member]) -> None:
    """A1, W6: clusterIP is no drift; server metadata, finalizers and tracking marks stay behind."""
    first, second = members
    first.apply(rule("services", {"version": "v1", "kind": "Service"}, {"match": [{"objectKey": {"name": "web"}}]}))
    second.apply(
        {
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "default", "finalizers": ["example.com/hold"],
                         "labels": {"app.kubernetes.io/name": "web"},
                         "annotations": {"meta.helm.sh/release-name": "r"}},
            "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [{"name": "http", "port": 80}]},
        }
    )  # fmt: skip
    copy = eventually(lambda: first.find("svc", "web"))
    assert copy["spec"]["clusterIP"]
    assert "finalizers" not in copy["metadata"]
    assert "meta.helm.sh/release-name" not in copy["metadata"]["annotations"]
    assert copy["metadata"]["labels"]["app.kubernetes.io/name"] == "web"
    first.kubectl("label", "svc", "web", "ours=yes")
    version = first.get("svc", "web")["metadata"]["resourceVersion"]
    steadily(lambda: first.get("svc", "web")["metadata"]["resourceVersion"] == version, for_s=3)
    second.kubectl("patch", "svc", "web", "--type=merge", "-p", '{"spec":{"selector":{"a":"c"}}}')
    eventually(lambda: first.get("svc", "web")["spec"]["selector"] == {"a": "c"})
    assert first.get("svc", "web")["metadata"]["labels"]["ours"] == "yes"
    assert first.get("svc", "web")["spec"]["clusterIP"] == copy["spec"]["clusterIP"]
    second.kubectl("patch", "svc", "web", "--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]')


def test_a_crash_would_leave_nothing_of_a_daemons_memory(members: list[Member]) -> None:
    """A6: no core file, and no memory for whom cores are piped to."""

    def with_children(pid: int) -> Iterator[int]:
        yield pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            yield from with_children(int(child))

    for member in members:
        (pod,) = member.daemon.pids
        *_, daemon = with_children(pod)
        assert b"registry-controller" in Path(f"/proc/{daemon}/cmdline").read_bytes()
        for pid in with_children(daemon):
            limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
            assert re.search(r"Max core file size +0 +0 ", limits)
            assert int(Path(f"/proc/{pid}/coredump_filter").read_text(encoding="ascii"), 16) == 0


def test_everything_of_a_kind_leaves_out_what_belongs_to_a_cluster(members: list[Member]) -> None:
    """W7, A6: tokens, releases, root certificates; and no data of a Secret in any annotation.

    Root certificates are not meant by a namespace either, so that a rule for one can be in step.
    """
    first, second = members
    second.create(secret("ordinary", {"password": CANARY}))
    first.apply(rule("all-secrets", SECRET, {"match": [{}]}), rule("all-maps", CONFIG_MAP, {"match": [{}]}))
    copy = eventually(lambda: first.find("secret", "ordinary"))
    assert CANARY not in json.dumps(copy["metadata"])
    second.create(config_map("marker", {"a": "1"}))
    eventually(lambda: first.find("cm", "marker"))
    for item in json.loads(first.kubectl("get", "secrets,configmaps", "-A", "-o", "json"))["items"]:
        if item["metadata"].get("annotations", {}).get(OWNER) == second.id:
            assert item.get("type") not in ("kubernetes.io/service-account-token", "helm.sh/release.v1")
            assert item["metadata"]["name"] != "kube-root-ca.crt"
            assert not item["metadata"]["namespace"].startswith("kube-")
    first.kubectl("delete", "rsr", "all-maps")
    first.apply(rule("maps-of-default", CONFIG_MAP, {"match": [{"namespaces": ["default"]}]}))
    second.create(config_map("of-default", {"a": "1"}))
    eventually(lambda: first.find("cm", "of-default"))
    eventually(lambda: first.condition("rsr", "maps-of-default", "Synced")["status"] == "True")
    for name in ("all-secrets", "maps-of-default"):
        first.kubectl("delete", "rsr", name)
    steadily(lambda: first.find("secret", "ordinary") and first.find("cm", "marker"), for_s=2)


def test_one_object_that_fails_blocks_no_other(members: list[Member]) -> None:
    """A4, A3: a missing namespace is waited for; the rest goes on, and it is tried at once when it appears."""
    first, second = members
    second.kubectl("create", "namespace", "later")
    second.kubectl("create", "namespace", "made")
    labels = {"spread": "yes"}
    second.create(config_map("x", {"a": "1"}, namespace="later", labels=labels), config_map("y", {}, labels=labels))
    second.create(config_map("z", {"a": "1"}, namespace="made", labels={"made": "yes"}))
    first.apply(
        rule("spread", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": labels}]}]}),
        rule("making", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"made": "yes"}}]}]}, createNamespaces=True),
    )
    eventually(lambda: first.find("cm", "y"))
    eventually(lambda: first.find("-n", "made", "cm", "z"))
    words = eventually(lambda: "later/x" in (said := first.condition("rsr", "spread", "Synced"))["message"] and said)
    assert (words["status"], words["reason"]) == ("False", "Waiting")
    assert "create it, or set createNamespaces on the rule" in words["message"]
    assert first.find("namespace", "later") is None
    first.kubectl("create", "namespace", "later")
    eventually(lambda: first.find("-n", "later", "cm", "x"))


def test_a_suspended_rule_does_nothing(members: list[Member]) -> None:
    """W1: it reads and writes nothing, until it is taken up again."""
    first, second = members
    second.create(config_map("idle", {"a": "1"}, labels={"idle": "yes"}))
    match = {"match": [{"labels": [{"matchLabels": {"idle": "yes"}}]}]}
    first.apply(rule("suspended", CONFIG_MAP, match, suspend=True))
    steadily(lambda: first.find("cm", "idle") is None, for_s=2)
    first.kubectl("patch", "rsr", "suspended", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    eventually(lambda: first.find("cm", "idle"))


def test_a_rule_chooses_whom_to_read_from_by_features(members: list[Member]) -> None:
    """W1: added and removed live; copies stay when a feature goes."""
    first, second = members
    second.create(config_map("featured", {"a": "1"}, labels={"featured": "yes"}))
    match = {"match": [{"labels": [{"matchLabels": {"featured": "yes"}}]}]}
    first.apply(rule("by-feature", CONFIG_MAP, match, clusterFeatureMatch=[{"featureName": "source"}]))
    steadily(lambda: first.find("cm", "featured") is None, for_s=2)
    feature = {
        "apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1", "kind": "ClusterFeature",
        "metadata": {"name": "source"}, "spec": {"featureName": "source"},
    }  # fmt: skip
    second.apply(feature)
    eventually(lambda: first.find("cm", "featured"))
    second.kubectl("delete", "cf", "source")
    second.kubectl("patch", "cm", "featured", "--type=merge", "-p", '{"data":{"a":"2"}}')
    steadily(lambda: first.get("cm", "featured")["data"] == {"a": "1"}, for_s=3)
    second.apply(feature)
    eventually(lambda: first.get("cm", "featured")["data"] == {"a": "2"})


def test_a_rule_that_is_not_to_be_synced_goes_nowhere_again(members: list[Member]) -> None:
    """W5: what is deleted on one cluster stays deleted; what exists stays in step and follows the delete."""
    first, second = members
    match = {"match": [{"objectKey": {"name": "set"}}]}
    second.apply(rule("set", CONFIG_MAP, match))
    eventually(lambda: first.find("rsr", "set"))
    second.kubectl("annotate", "rsr", "set", f"{SYNC_DISABLED}=true")
    eventually(lambda: SYNC_DISABLED in first.get("rsr", "set")["metadata"]["annotations"])
    second.kubectl("patch", "rsr", "set", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    eventually(lambda: first.get("rsr", "set")["spec"].get("suspend") is True)
    first.kubectl("delete", "rsr", "set")
    steadily(lambda: first.find("rsr", "set") is None, for_s=3)


def test_a_lost_label_keeps_the_copy_and_a_status_costs_no_write(members: list[Member]) -> None:
    """O5, W3, A1, R6: a hundred changes of a status write nothing here."""
    first, second = members
    first.apply(rule("labelled", WIDGET, {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}))
    labelled = _widget("labelled", a=1)
    labelled["metadata"]["labels"] = {"sync": "yes"}
    first.kubectl("delete", "rsr", "widgets")
    second.apply(labelled)
    eventually(lambda: first.find("widgets.test.example.com", "labelled"))
    time.sleep(2)
    version = first.get("widgets.test.example.com", "labelled")["metadata"]["resourceVersion"]
    status = "/apis/test.example.com/v1/namespaces/default/widgets/labelled/status"
    for number in range(100):
        body = {"status": {"count": number}}
        second.cluster.api.request("PATCH", status, body=body, content_type="application/merge-patch+json")
    steadily(
        lambda: first.get("widgets.test.example.com", "labelled")["metadata"]["resourceVersion"] == version, for_s=2
    )
    second.kubectl("label", "widgets.test.example.com", "labelled", "sync-")
    steadily(lambda: first.find("widgets.test.example.com", "labelled"), for_s=3)


def test_a_slow_write_never_stops_the_reading(members: list[Member]) -> None:
    """R3: while our own API server is frozen, what a peer says is still heard, and written when it is back."""
    first, second = members
    first.apply(rule("slow", CONFIG_MAP, {"match": [{"objectKey": {"name": "slow"}}]}))
    second.create(config_map("slow", {"a": "0"}))
    eventually(lambda: first.find("cm", "slow"))
    first.cluster.apiserver.freeze()
    for number in range(1, 6):
        second.kubectl("patch", "cm", "slow", "--type=merge", "-p", json.dumps({"data": {"a": str(number)}}))
    first.cluster.apiserver.thaw()
    eventually(lambda: first.get("cm", "slow")["data"] == {"a": "5"})


def test_an_object_that_admission_refuses_is_said_and_blocks_no_other(members: list[Member]) -> None:
    """A4, S1: with the object and the policy's name; it is made when the policy goes."""
    first, second = members
    first.apply(*_refusing("Refused", "not here"))
    labels = {"admission": "yes"}
    second.create(config_map("refused", {"a": "1"}, labels=labels), config_map("welcome", {"a": "1"}, labels=labels))
    eventually(lambda: "not here" in _refusal(first), what="the policy is at work")
    first.apply(rule("admission", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": labels}]}]}))
    eventually(lambda: first.find("cm", "welcome"))
    failure = eventually(lambda: first.get("rsr", "admission")["status"]["clusters"][0]["failures"][0])
    assert failure["object"] == "ConfigMap default/refused"
    assert "by ValidatingAdmissionPolicy refusing" in failure["message"]
    assert "not here" not in failure["message"], "a policy may quote the object"
    assert first.condition("rsr", "admission", "Synced")["reason"] == "Failing"
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        first.kubectl("delete", kind, "refusing")
    eventually(lambda: first.find("cm", "refused"))
    first.kubectl("wait", "--for=condition=Synced", "rsr/admission", "--timeout=180s")


def _refusing(name: str, words: str) -> list[dict[str, Any]]:
    """A policy that refuses ConfigMaps of a name."""
    api = "admissionregistration.k8s.io/v1"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    return [
        {
            "apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "refusing"},
            "spec": {
                "matchConstraints": {"resourceRules": rules}, "failurePolicy": "Fail",
                "validations": [{"expression": f"object.metadata.name != '{name.lower()}'", "message": words}],
            },
        },
        {
            "apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "refusing"},
            "spec": {"policyName": "refusing", "validationActions": ["Deny"]},
        },
    ]  # fmt: skip


def _refusal(member: Member) -> str:
    try:
        member.kubectl("create", "configmap", "refused", "--dry-run=server")
    except CommandError as error:
        return str(error)
    return ""


def test_what_a_rule_gets_wrong_is_said_with_its_path_and_harms_no_other(members: list[Member]) -> None:
    """W1, A8: an expression that no schema sees is InvalidSpec; a historic mistake is warned of; others go on."""
    first, second = members
    second.create(config_map("fine", {"a": "1"}))
    key = {"objectKey": {"name": "fine"}}
    first.apply(rule("wrong", CONFIG_MAP, {"match": [{"content": [{"key": "data.#(", "value": "1"}]}]}))
    accepted = _accepted(first, "wrong")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert "spec.rules[0].match[0].content[0].key" in accepted["message"]
    first.apply(rule("historic", CONFIG_MAP, {"match": [{**key, "syncStatus": True}]}))
    accepted = _accepted(first, "historic")
    assert accepted["status"] == "True"
    assert "spec.rules[0].match[0].syncStatus" in accepted["message"]
    eventually(lambda: first.find("cm", "fine"))


def test_copies_stay_when_their_rule_is_edited_or_goes(members: list[Member]) -> None:
    """W3: what is no longer wanted is left untouched, and taken back when it is wanted again."""
    first, second = members
    for name in ("one", "two"):
        second.create(config_map(f"edited-{name}", {"a": "1"}, labels={"edited": name}))

    def match(name: str) -> dict[str, Any]:
        return {"match": [{"labels": [{"matchLabels": {"edited": name}}]}]}

    first.apply(rule("edited", CONFIG_MAP, match("one")))
    eventually(lambda: first.find("cm", "edited-one"))
    first.apply(rule("edited", CONFIG_MAP, match("two")))
    eventually(lambda: first.find("cm", "edited-two"))
    second.kubectl("patch", "cm", "edited-one", "--type=merge", "-p", '{"data":{"a":"2"}}')
    steadily(lambda: first.get("cm", "edited-one")["data"] == {"a": "1"}, for_s=2)
    first.apply(rule("edited", CONFIG_MAP, match("one")))
    eventually(lambda: first.get("cm", "edited-one")["data"] == {"a": "2"}, what="taken back")
    first.kubectl("delete", "rsr", "edited")
    second.kubectl("delete", "cm", "edited-one", "edited-two")
    steadily(lambda: first.find("cm", "edited-one") and first.find("cm", "edited-two"), for_s=3)


def test_a_rule_that_goes_in_the_midst_of_its_work_ends_it_quietly(members: list[Member]) -> None:
    """W3, A4: several hundred copies are under way when it is deleted; the daemon goes on with the next rule."""
    first, second = members
    second.create(*(config_map(f"midst-{number}", {"a": "x" * 512}, labels={"midst": "yes"}) for number in range(300)))
    match = {"match": [{"labels": [{"matchLabels": {"midst": "yes"}}]}]}
    for _ in range(3):
        first.apply(rule("midst", CONFIG_MAP, match))
        eventually(lambda: first.find("cm", "midst-0") or first.find("cm", "midst-150"), every_s=0.01)
        first.kubectl("delete", "rsr", "midst")
        first.cluster.api.request("DELETE", "/api/v1/namespaces/default/configmaps?labelSelector=midst%3Dyes")
    first.apply(rule("midst", CONFIG_MAP, match))
    eventually(lambda: first.kubectl("get", "cm", "-l", "midst=yes", "-o", "name").count("midst-") == 300)
