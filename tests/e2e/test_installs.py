"""Groups that are installed otherwise: Secrets narrowed to one namespace, and the CRDs of the original."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from hack.controlplane import Group
from tests.e2e.group import (
    CONFIG_MAP,
    NAMESPACE,
    ROOT,
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

OLD_CRDS = ROOT / "tests" / "fixtures" / "original" / "crds"


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    with Group(2, prefix="old") as group, holding_invariants() as found:
        group[1].kubectl("apply", "-f", str(OLD_CRDS))
        found += [Member(cluster, "rbac.narrowSecrets=true") for cluster in group]
        for member, flags in zip(found, ((), ("--skip-crds",)), strict=True):
            member.install(*flags).daemon.wait_ready(timeout_s=180)
        for member in found:
            grant(member, "configmaps", [""], ["configmaps"])
        swap(*found)
        in_sync(found)
        yield found


def test_a_group_that_reads_only_its_own_secrets_works(members: list[Member]) -> None:
    """R2, S3, A4: a rule that asks for more says which right is missing, and harms no other rule."""
    first, second = members
    first.apply(rule("broad", SECRET, {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}))
    words = eventually(
        lambda: (text := json.dumps(first.get("rsr", "broad").get("status", {}))) and "orbidden" in text and text
    )
    assert "secrets" in words
    assert "aggregated" in words
    assert "then it is lacking on purpose" in words
    second.create(secret("inside", {"a": "1"}, namespace=NAMESPACE))
    first.apply(rule("inside", SECRET, {"match": [{"objectKey": {"name": "inside", "namespace": NAMESPACE}}]}))
    eventually(lambda: first.find("-n", NAMESPACE, "secret", "inside"))
    in_sync(members)


def test_a_rule_that_an_old_crd_pruned_does_nothing(members: list[Member]) -> None:
    """A8, S2: the daemon works with the original's CRDs, says once what they drop, and never writes in a loop."""
    first, second = members
    match = {"match": [{"objectKey": {"name": "pruned"}}]}
    second.create(config_map("marker", {"a": "1"}))
    first.create(config_map("pruned", {"a": "1"}), config_map("whole", {"a": "1"}))
    first.apply(
        rule("pruned", CONFIG_MAP, match, createNamespaces=True),
        rule("whole", CONFIG_MAP, {"match": [{"objectKey": {"name": "whole"}}]}),
    )
    eventually(lambda: second.find("cm", "whole"), what="a rule without new fields works")
    copy = eventually(lambda: second.find("rsr", "pruned"))
    assert "createNamespaces" not in copy["spec"]
    offset = second.cluster.audit_offset()
    steadily(lambda: second.find("cm", "pruned") is None, for_s=3)
    written = [line for line in second.cluster.audit(since=offset) if line["verb"] in ("update", "patch", "create")]
    uris = [line["requestURI"] for line in written if "resourcesyncrules/pruned" in line["requestURI"]]
    # The one question about the stored form (A10) may come after the copy was seen; it stores nothing.
    assert len(uris) <= 2, uris
    again = [uri for uri in uris if "dryRun=All" not in uri]
    assert len(again) <= 1, again
    said = [line for line in second.log().splitlines() if "is older than this release" in line and "rules" in line]
    assert len(said) == 1
    assert "spec.createNamespaces" in said[0]


@pytest.mark.clause("S4")
def test_statuses_that_an_old_crd_prunes_are_not_written_again_and_again(members: list[Member]) -> None:
    """S2, S4: the original's CRDs drop the conditions of rules, and the generation in the status of Clusters."""
    first, second = members
    first.apply(rule("waited", CONFIG_MAP, {"match": [{"objectKey": {"name": "marker"}}]}))
    eventually(lambda: second.find("rsr", "waited"))
    first.kubectl("wait", "--for=condition=Ready", "--timeout=180s", "rsr/waited", f"cluster/{second.name}")
    eventually(lambda: first.get("cluster", second.name)["status"].get("observedGeneration"))
    in_sync(members)
    for name in (first.name, second.name):
        assert "observedGeneration" not in second.get("cluster", name)["status"]
    offset = second.cluster.audit_offset()
    steadily(lambda: second.condition("cluster", first.name, "Ready").get("status") == "True", for_s=8)
    lines = [line for line in second.cluster.audit(since=offset) if line["verb"] in ("update", "patch")]
    uris = [line["requestURI"] for line in lines if "/status" in line["requestURI"]]
    assert len(uris) <= 2, uris
