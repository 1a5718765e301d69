"""A mark that was passed on, by a person or by a controller of Kubernetes, is no mark. O1, O11."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.e2e.group import OWNER, PROVENANCE, Member, config_map, eventually, grant, rule, steadily

WANTED = {"sync": "yes"}
SLICES = ("endpointslices", "-l", "kubernetes.io/service-name=outside")
ENDPOINTS = {"version": "v1", "kind": "Endpoints"}
SLICE = {"group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice"}

pytestmark = pytest.mark.group(2, prefix="marks", everywhere=WANTED, grants=("services", "endpoints"))


def _by_sed(text: str, old: str, new: str) -> str:
    """Change a text as `sed '/^  uid:/d; /^  resourceVersion:/d; s/OLD/NEW/'` does."""
    lines = [line for line in text.splitlines() if not re.match(r"  (uid|resourceVersion):", line)]
    return "\n".join(line.replace(old, new, 1) for line in lines)


@pytest.mark.clause("O1", "O11")
def test_a_copy_that_is_read_renamed_and_applied_is_that_persons_own(members: list[Member]) -> None:
    """O1, O11: it has all marks of the copy, is left alone, and is this cluster's for the others."""
    first, owner = members
    owner.create(config_map("base", {"a": "1"}, labels=WANTED))
    eventually(lambda: first.find("cm", "base"))
    first.kubectl("apply", "-f", "-", stdin=_by_sed(first.kubectl("get", "cm", "base", "-o", "yaml"), "base", "mine"))
    info = first.get("cm", "mine")["metadata"]
    assert info["annotations"][OWNER] == owner.id
    assert PROVENANCE in info["annotations"]
    eventually(lambda: owner.find("cm", "mine"))
    assert owner.get("cm", "mine")["metadata"]["annotations"][OWNER] == first.id
    owner.kubectl("delete", "cm", "base")
    eventually(lambda: first.find("cm", "base") is None)
    steadily(lambda: first.get("cm", "mine")["metadata"]["resourceVersion"] == info["resourceVersion"])


@pytest.mark.clause("O1", "O11")
def test_the_slices_that_kubernetes_mirrors_of_copied_endpoints_are_left_alone(members: list[Member]) -> None:
    """O1, O11: the mirroring controller copies the marks of the Endpoints to the slices that it makes of them."""
    first, owner = members
    for member in members:
        grant(member, "slices", ["discovery.k8s.io"], ["endpointslices"])
    outside: dict[str, Any] = {"name": "outside", "namespace": "default"}
    for member in members:
        port = {"name": "web", "port": 80}
        member.create({"apiVersion": "v1", "kind": "Service", "metadata": outside, "spec": {"ports": [port]}})
    first.apply(
        rule("endpoints", ENDPOINTS, {"match": [{"labels": [{"matchLabels": WANTED}]}]}, deletionPolicy="Delete"),
        rule("slices", SLICE, {"match": [{"labels": [{"matchLabels": {"slices": "none"}}]}]}, deletionPolicy="Delete"),
    )
    subset = {"addresses": [{"ip": "192.0.2.7"}], "ports": [{"name": "web", "port": 80}]}
    info = {**outside, "labels": WANTED}
    owner.create({"apiVersion": "v1", "kind": "Endpoints", "metadata": info, "subsets": [subset]})
    mirrored = eventually(lambda: first.get(*SLICES)["items"])
    (found,) = mirrored
    assert found["metadata"]["annotations"][OWNER] == owner.id
    assert PROVENANCE in found["metadata"]["annotations"]
    eventually(lambda: first.condition("rsr", "slices", "Synced").get("status") == "True")
    steadily(lambda: [one["metadata"]["uid"] for one in first.get(*SLICES)["items"]] == [found["metadata"]["uid"]])
    owner.kubectl("delete", "endpoints", "outside")
    eventually(lambda: not first.get(*SLICES)["items"])
