"""The quickstart on three real clusters: join by one swap each, keep objects in step, survive an owner's silence."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator

import pytest

from hack.controlplane import Group
from registry_controller.report.metrics import METRICS, PREFIX
from tests.e2e.group import (
    CONFIG_MAP,
    NAMESPACE,
    OWNER,
    SECRET,
    Member,
    config_map,
    eventually,
    grant,
    holding_invariants,
    in_sync,
    rule,
    secret,
    start_members,
    steadily,
    swap,
)

LABEL = {"sync": "yes"}
MATCH = {"match": [{"labels": [{"matchLabels": LABEL}]}]}


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    with Group(3, prefix="demo") as group, holding_invariants() as found:
        found += start_members(group)
        for member in found:
            grant(member, "configmaps", [""], ["configmaps"])
        yield found


@pytest.fixture(scope="module")
def joined(members: list[Member]) -> list[Member]:
    first, second, third = members
    swap(first, second)
    in_sync([first, second])
    swap(first, third)
    in_sync(members)
    return members


def test_a_third_cluster_joins_by_one_swap(joined: list[Member]) -> None:
    """P1, P2, P9, O4, O7: the second and the third know each other without any swap."""
    _, second, third = joined
    assert third.get("cluster", second.name)["status"]["type"] == "Peer"
    assert third.get("cluster", third.name)["status"]["type"] == "Local"
    third.kubectl("wait", "--for=condition=ClustersSynced", f"cluster/{second.name}", "--timeout=180s")
    copy = third.get("-n", NAMESPACE, "secret", second.name)
    assert copy["metadata"]["annotations"][OWNER] == second.id
    own = second.get("-n", NAMESPACE, "secret", second.name)
    assert copy["data"] == own["data"]
    assert "ownerReferences" not in own["metadata"]


def test_a_rule_and_a_secret_reach_every_cluster(joined: list[Member]) -> None:
    """A1, O5, S1: a copy that is edited, stripped, added to or deleted comes back; changes and deletes arrive."""
    first, second, third = joined
    first.apply(rule("everywhere", SECRET, MATCH))
    second.create(secret("shared", {"a": "1", "b": "2"}, labels=LABEL))
    for member in (first, third):
        eventually(lambda member=member: member.find("secret", "shared"))
    wanted = second.get("secret", "shared")["data"]
    for patch in ('{"data":{"a":"eA=="}}', '{"data":{"b":null}}', '{"data":{"c":"eA=="}}'):
        third.kubectl("patch", "secret", "shared", "--type=merge", "-p", patch)
        eventually(lambda: third.get("secret", "shared")["data"] == wanted, what=patch)
    third.kubectl("delete", "secret", "shared")
    eventually(lambda: third.find("secret", "shared"))
    second.kubectl("patch", "secret", "shared", "--type=merge", "-p", '{"data":{"a":null}}')
    for member in (first, third):
        eventually(lambda member=member: set(member.get("secret", "shared")["data"]) == {"b"})
    second.kubectl("delete", "secret", "shared")
    for member in (first, third):
        eventually(lambda member=member: member.find("secret", "shared") is None)


def test_every_metric_that_is_promised_has_a_sample(joined: list[Member]) -> None:
    """S1: of a daemon that reads peers; what is counted only in trouble may be missing."""
    first, *_ = joined

    def missing() -> set[str]:
        with urllib.request.urlopen(first.daemon.metrics_url, timeout=60) as answer:
            samples = {line.partition("{")[0].partition(" ")[0] for line in answer.read().decode().splitlines()}
        ends = ("", "_total", "_count")
        return {
            m.name
            for m in METRICS
            if not any(f"{PREFIX}{m.name.removesuffix('_total')}{end}" in samples for end in ends)
        }

    eventually(lambda: missing() <= {"held"}, what="samples")


def test_a_native_object_is_never_touched(joined: list[Member]) -> None:
    """O1: and when it goes, the copy is made."""
    first, second, _ = joined
    first.apply(config_map("mine", {"whose": "first"}))
    second.apply(config_map("mine", {"whose": "second"}, labels=LABEL))
    first.apply(rule("natives", CONFIG_MAP, MATCH))
    conflicting = eventually(
        lambda: [c for c in first.get("rsr", "natives")["status"]["clusters"] if c.get("conflicting")]
    )
    assert conflicting[0]["clusterID"] == second.id
    steadily(lambda: first.get("cm", "mine")["data"] == {"whose": "first"}, for_s=1.5)
    first.kubectl("delete", "cm", "mine")
    eventually(lambda: first.get("cm", "mine")["data"] == {"whose": "second"})
    first.kubectl("delete", "rsr", "natives")
    second.kubectl("delete", "cm", "mine")


def test_a_daemon_ends_cleanly_and_is_ready_without_its_peers(joined: list[Member]) -> None:
    """P5, P6: readiness never depends on a peer; SIGTERM ends the daemon within five seconds."""
    first, second, third = joined
    for member in (second, third):
        member.cluster.apiserver.freeze()
    try:
        began = time.monotonic()
        first.daemon.stop(grace_s=30)
        assert time.monotonic() - began < 5
        assert '"stopped"' in first.log()
        first.daemon.start()
        first.daemon.wait_ready(timeout_s=180)
    finally:
        for member in (second, third):
            member.cluster.apiserver.thaw()
    in_sync(joined)
