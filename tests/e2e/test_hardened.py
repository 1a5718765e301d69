"""The hardened profile on real control planes: what a peer may cause in a cluster that has it. W8, S1."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from hack.controlplane import Group
from registry_controller.api import meta, names
from tests.e2e.group import (
    BIN,
    CHART,
    CONFIG_MAP,
    NAMESPACE,
    SECRET,
    Member,
    config_map,
    eventually,
    grant,
    holding_invariants,
    in_sync,
    rule,
    secret,
    steadily,
    swap,
)

PROFILE = str(CHART / "values-hardened.yaml")
RBAC = "rbac.authorization.k8s.io"
WANTED = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}
LABELS = {"sync": "yes"}
READER = f"{NAMESPACE}:cluster-registry-controller-reader"
CANARY = "a-greeting-that-nobody-may-see"


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    """Two hardened clusters that joined by a swap; the daemons are granted ConfigMaps and Roles all the same."""
    with Group(2, prefix="hard") as group, holding_invariants() as found:
        found += [Member(cluster).install("--values", PROFILE) for cluster in group]
        for member in found:
            member.daemon.wait_ready(timeout_s=180)
            grant(member, "configmaps", [""], ["configmaps"])
            grant(member, "roles", [RBAC], ["roles"])
        swap(*found)
        in_sync(found)
        yield found


def said(member: Member, name: str) -> tuple[str, str, str]:
    found = member.condition("rsr", name, "Synced")
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def role(name: str) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    info = {"name": name, "namespace": "default", "labels": LABELS}
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": info, "rules": rules}


def test_a_rule_of_a_peer_does_nothing_and_says_why_and_one_that_was_made_here_works(members: list[Member]) -> None:
    here, peer = members
    peer.apply(rule("from-peer", CONFIG_MAP, WANTED))
    peer.create(config_map("one", {"a": "1"}, labels=LABELS))
    eventually(lambda: said(here, "from-peer")[:2] == ("Unknown", "NotAllowedHere"))
    assert "SYNCED_RULES_ENABLED" in said(here, "from-peer")[2]
    assert here.condition("rsr", "from-peer", "Accepted")["status"] == "True"
    steadily(lambda: here.find("cm", "one") is None, for_s=2)
    told = here.daemon.execute("registry-controller", "explain", "configmap", "default/one", check=False)
    assert "rule from-peer does nothing here: SYNCED_RULES_ENABLED" in told
    assert told.endswith("skip (NotWanted)\n  because: no rule that acts here asks for it\n"), told
    here.apply(rule("own", CONFIG_MAP, WANTED))
    eventually(lambda: here.find("cm", "one"))
    eventually(lambda: said(here, "own")[0] == "True")
    eventually(lambda: said(peer, "own")[1] == "NotAllowedHere")


def test_a_secret_that_the_daemon_may_not_read_is_explained_with_its_own_rights(members: list[Member]) -> None:
    """S1, S3: `explain` in the Pod has no right on it, and tells everything else; the last line is true."""
    here, peer = members
    peer.apply(rule("greetings", SECRET, WANTED))
    peer.create(secret("hello", {"text": CANARY}, labels=LABELS))
    eventually(lambda: said(here, "greetings")[1] == "NotAllowedHere")
    eventually(lambda: peer.condition("rsr", "greetings", "Stalled").get("reason") == "ActionNeeded")
    steadily(lambda: said(peer, names.SECRETS_SINK)[0] == "True", for_s=2)  # which needs no more than it may read
    ask = ("registry-controller", "explain", "secret", "default/hello")
    told = here.daemon.execute(*ask, check=False)
    head, idle, *_ = told.splitlines()
    assert head.endswith(": cannot be read here, and is in no other cluster that could be read")
    assert idle.startswith("  rule greetings does nothing here: SYNCED_RULES_ENABLED: ")
    unasked = "because: no rule that acts here asks for it; a copy that the daemon may not read stays as it is\n"
    assert f"decision on Secret default/hello: skip (NotWanted)\n  {unasked}" in told
    for place, label, where in (("here", "controller", "here"), (f"peer {peer.name}", "reader", "there")):
        refused = f"not read: {place}: cannot get secrets.v1 default/hello: 403 Forbidden; grant it with a ClusterRole"
        assert f"{refused} labelled cluster-registry.k8s.cisco.com/{label}-aggregated" in told, told
        assert f"unless rbac.narrowSecrets is set {where}: then it is lacking on purpose" in told

    peer.kubectl("-n", "default", "create", "role", "secrets", "--verb=get", "--resource=secrets")
    peer.kubectl("-n", "default", "create", "rolebinding", "secrets", "--role=secrets", f"--serviceaccount={READER}")
    found = eventually(
        lambda: (told := here.daemon.execute(*ask, check=False)) and "could be read" not in told and told
    )
    assert found == here.daemon.execute(*ask)  # which ends well: somebody has it
    assert f"Secret default/hello in cluster {peer.name}:\n  rule greetings does nothing here: SYNCED" in found
    assert unasked in found
    assert CANARY not in told + found

    off = ("--kubeconfig", str(here.cluster.kubeconfig), "--synced-rules-enabled", "false")
    command = [str(BIN / "registry-controller"), *ask[1:], *off]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("skip (NotWanted)\n  because: no rule that acts here asks for it\n"), done.stdout


def test_a_rule_of_a_peer_gets_nothing_by_the_name_or_the_label_of_a_core_rule(members: list[Member]) -> None:
    here, peer = members
    before = here.get("rsr", names.CLUSTERS_SINK)
    peer.apply(rule("labelled", CONFIG_MAP, WANTED))
    eventually(lambda: here.find("rsr", "labelled"))
    here.kubectl("label", "rsr", "labelled", f"{meta.CORE_RESOURCE}=true")
    peer.daemon.freeze()  # or it would put its own core rule back
    spec = json.dumps(
        {"metadata": {"labels": {meta.CORE_RESOURCE: None}}, "spec": rule("x", CONFIG_MAP, WANTED)["spec"]}
    )
    peer.kubectl("patch", "rsr", names.CLUSTERS_SINK, "--type", "merge", "-p", spec)
    peer.create(config_map("two", {"a": "1"}, labels={"sync": "core"}))

    def refused() -> bool:
        clusters = here.get("rsr", names.RULES_SINK)["status"]["clusters"]
        return any(found["reason"] == "ReservedForThisCluster" for entry in clusters for found in entry["failures"])

    eventually(refused)
    assert here.get("rsr", names.CLUSTERS_SINK)["spec"] == before["spec"]
    assert said(here, "labelled")[1] == "NotAllowedHere"
    assert here.find("cm", "two") is None
    peer.daemon.thaw()
    eventually(lambda: peer.get("rsr", names.CLUSTERS_SINK)["spec"] == before["spec"])
    in_sync(members)


def test_rights_and_kube_system_are_closed_to_every_rule_whatever_is_granted(members: list[Member]) -> None:
    here, peer = members
    peer.create(role("powers"), config_map("settings", {"a": "1"}, namespace="kube-system", labels={"sync": "system"}))
    here.apply(
        rule("roles", {"group": RBAC, "version": "v1", "kind": "Role"}, WANTED),
        rule("system", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"sync": "system"}}]}]}),
    )
    eventually(lambda: said(here, "roles")[1] == "ClosedHere")
    assert "CLOSED_KINDS" in said(here, "roles")[2]
    eventually(lambda: "CLOSED_NAMESPACES" in said(here, "system")[2])
    (entry,) = here.get("rsr", "system")["status"]["clusters"]
    assert (entry["matched"], entry["skipped"], entry["failures"][0]["reason"]) == (1, 1, "ClosedHere")
    assert here.find("role", "powers") is None
    assert here.find("-n", "kube-system", "cm", "settings") is None


def test_who_leaves_takes_the_credentials_of_the_other_away_with_it(members: list[Member]) -> None:
    """O6: with the rights that the profile leaves to the daemon, and in its Pod."""
    here, peer = members
    assert here.find("-n", NAMESPACE, "secret", peer.name)
    said = here.daemon.execute("registry-controller", "leave", "--yes")
    assert "revoked" in said
    assert here.find("-n", NAMESPACE, "secret", peer.name) is None
    assert here.find("cluster", peer.name) is None
    assert peer.find("-n", NAMESPACE, "secret", here.name) is None
