"""The validating webhook on a real API server, which calls the Pods by their Service."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
import trustme
from cryptography import x509

from hack.controlplane import CommandError, Group
from tests.e2e.group import API, CHART, NAMESPACE, Member, eventually, holding_invariants, steadily

CONFIGURATION = "cluster-registry-controller-cluster-validator-webhook"
WEBHOOK = "cluster-validator.clusterregistry.k8s.cisco.com"
ENABLED = "webhooks.clusterValidator.enabled=true"


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    with Group(1, prefix="hook") as group, holding_invariants() as members:
        members.append(Member(group[0], ENABLED, "replicas=2").install())
        members[0].daemon.wait_ready(timeout_s=60)
        yield members[0]


def cluster(name: str, cluster_id: str) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "Cluster", "metadata": {"name": name}, "spec": {
        "clusterID": cluster_id, "authInfo": {"secretRef": {"name": name, "namespace": NAMESPACE}}}}  # fmt: skip


def refusal(member: Member, name: str = "second", cluster_id: str | None = None) -> str:
    """Try to create a Cluster, for this cluster unless another one is named; return what kubectl is told."""
    try:
        wanted = cluster(name, cluster_id or member.id)
        member.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(wanted))
    except CommandError as error:
        return error.stderr
    return ""


def webhook(member: Member) -> dict[str, Any]:
    (found,) = member.get("validatingwebhookconfiguration", CONFIGURATION)["webhooks"]
    return dict(found)


def cas(member: Member) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(base64.b64decode(webhook(member)["clientConfig"]["caBundle"]))


def is_local(member: Member) -> bool:
    return bool(member.get("cluster", member.name).get("status", {}).get("type") == "Local")


def test_a_second_cluster_for_this_cluster_is_refused_with_words_for_people(member: Member) -> None:
    """A7: by every replica; other Clusters pass."""
    eventually(lambda: is_local(member))
    said = eventually(lambda: refusal(member))
    assert f'admission webhook "{WEBHOOK}" denied the request' in said
    assert f"for which Cluster {member.name} stands already; give second the ID" in said
    eventually(lambda: len(cas(member)) == 2, what="the CA of each replica")
    steadily(lambda: refusal(member), for_s=2, what="both replicas answer, each in its turn")
    assert refusal(member, "third", "5b9e8f4e-0000-4000-8000-00000000000b") == ""
    member.kubectl("annotate", "cluster", member.name, "example.com/note=1")


def test_no_key_is_where_others_can_read_it(member: Member) -> None:
    """P4, A6: the other clusters read Secrets; the key is in the memory of its Pod alone."""
    everything = member.kubectl("get", "secrets,configmaps,events,clusters", "-A", "-o", "json")
    for item in json.loads(everything)["items"]:
        data = "".join(base64.b64decode(value).decode(errors="replace") for value in (
            item.get("data") or {}).values() if item["kind"] == "Secret")  # fmt: skip
        assert "PRIVATE KEY" not in data + json.dumps(item), item["metadata"]["name"]
    assert "PRIVATE KEY" not in member.log()


def test_it_goes_on_after_crashes_and_upgrades(member: Member) -> None:
    """A7: new Pods add their CAs to those that are there."""
    member.daemon.crash()
    member.daemon.wait_ready(timeout_s=60)
    eventually(lambda: refusal(member))
    member.cluster.helm("upgrade", "cluster-registry", str(CHART), "-n", NAMESPACE, "--reuse-values",
                        "--set", "podAnnotations.again=yes")  # fmt: skip
    member.daemon.wait_ready(timeout_s=60)
    steadily(lambda: refusal(member), for_s=2)
    assert webhook(member)["failurePolicy"] == "Ignore"


def test_without_a_daemon_every_cluster_passes_and_the_conflict_is_said_later(member: Member) -> None:
    """P1: LocalConflict is there without the webhook."""
    member.daemon.kill()
    member.create(cluster("second", member.id))
    member.daemon.start()
    for name in (member.name, "second"):
        eventually(lambda name=name: member.condition("cluster", name, "LocalConflict")["status"] == "True")
    member.kubectl("annotate", "cluster", "second", "example.com/note=1")
    member.kubectl("delete", "cluster", "second")
    eventually(lambda: member.condition("cluster", member.name, "LocalConflict")["status"] == "False")
    eventually(lambda: refusal(member))


def test_what_a_killed_daemon_of_the_original_left_behind_is_taken_over(member: Member) -> None:
    """failurePolicy Fail and a CA whose key is gone: until we start, nobody can store any Cluster."""
    member.daemon.stop()
    foreign = trustme.CA().cert_pem.bytes()
    left = {"name": WEBHOOK, "failurePolicy": "Fail",
            "clientConfig": {"caBundle": base64.b64encode(foreign).decode()}}  # fmt: skip
    member.kubectl("patch", "validatingwebhookconfiguration", CONFIGURATION, "-p", json.dumps({"webhooks": [left]}))
    eventually(lambda: "failed calling webhook" in refusal(member, "third", "5b9e8f4e-0000-4000-8000-00000000000b"))
    member.daemon.start()
    member.daemon.wait_ready(timeout_s=60)
    assert webhook(member)["failurePolicy"] == "Ignore"
    assert x509.load_pem_x509_certificate(foreign) not in cas(member)
    eventually(lambda: "denied the request" in refusal(member))
    assert refusal(member, "third", "5b9e8f4e-0000-4000-8000-00000000000b") == ""


def test_a_bundle_that_somebody_empties_is_filled_again(member: Member) -> None:
    before = set(cas(member))
    patch = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    member.kubectl("patch", "validatingwebhookconfiguration", CONFIGURATION, "--type=json", "-p", json.dumps(patch))
    eventually(lambda: set(cas(member)) and set(cas(member)) <= before, within_s=10)
    eventually(lambda: len(cas(member)) == 2, within_s=10)
    steadily(lambda: refusal(member), for_s=1)


def test_switching_it_off_leaves_nothing_behind(member: Member) -> None:
    member.cluster.helm("upgrade", "cluster-registry", str(CHART), "-n", NAMESPACE, "--reuse-values",
                        "--set", "webhooks.clusterValidator.enabled=false")  # fmt: skip
    member.daemon.wait_ready(timeout_s=60)
    assert member.find("validatingwebhookconfiguration", CONFIGURATION) is None
    eventually(lambda: refusal(member) == "")
