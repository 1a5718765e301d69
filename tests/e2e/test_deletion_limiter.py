"""The brake on deletions, on real control planes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.e2e.group import API, CONFIG_MAP, Member, config_map, crd, eventually, grant, joined_group, rule, steadily

pytestmark = pytest.mark.group(2, prefix="brake")
COUNT, FEW = 120, 20
WIDGET = {"group": "test.example.com", "version": "v1", "kind": "Widget"}
LABELLED = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}


def uids(member: Member, resource: str) -> set[str]:
    """Return the uids of the copies, which tell whether one was made again."""
    found = json.loads(member.kubectl("-n", "default", "get", resource, "-l", "sync=yes", "-o", "json"))["items"]
    return {item["metadata"]["uid"] for item in found}


def halted(member: Member, name: str) -> dict[str, Any]:
    return member.condition("rsr", name, "DeletionHalted")


def test_a_selector_with_a_typing_error_deletes_nothing_until_somebody_allows_it(members: list[Member]) -> None:
    """W4, W3, A1: over a restart; the command that the condition names lets the copies go."""
    first, second = members

    def wanting(label: str) -> dict[str, Any]:
        match = [{"labels": [{"matchLabels": {"sync": label}}]}]
        return rule("many", CONFIG_MAP, {"match": match}, deletionPolicy="Delete")

    def left() -> int:
        return second.kubectl("get", "cm", "-l", "sync=yes", "-o", "name").count("many-")

    second.apply(wanting("yes"))
    first.create(*(config_map(f"many-{n}", {"n": str(n)}, labels={"sync": "yes"}) for n in range(COUNT)))
    eventually(lambda: left() == COUNT)
    second.apply(wanting("yse"))
    eventually(lambda: halted(second, "many").get("status") == "True", what="deletions are halted")
    assert left() == COUNT
    said = halted(second, "many")["message"]
    second.daemon.restart()
    second.daemon.wait_ready(timeout_s=180)
    eventually(lambda: second.condition("rsr", "many", "Accepted").get("status") == "True", what="the rule is read")
    assert halted(second, "many")["message"] == said
    assert left() == COUNT
    command = re.search(r"kubectl (annotate .*)$", said)
    assert command is not None, said
    second.kubectl(*command[1].split())
    eventually(lambda: left() == 0)
    eventually(lambda: not halted(second, "many"), what="the halt is over")


@pytest.mark.clause("W4")
@pytest.mark.nightly
def test_a_feature_that_comes_and_goes_deletes_its_copies_once() -> None:
    """W4: 45 copies, of which 50 may always go."""
    feature = {
        "apiVersion": API,
        "kind": "ClusterFeature",
        "metadata": {"name": "gold"},
        "spec": {"featureName": "gold"},
    }
    with joined_group(2, prefix="again", values=("controller.stabilizationWindowSeconds=0",)) as (first, second):
        first.create(feature, *(config_map(f"m-{n}", {"n": str(n)}, labels={"sync": "yes"}) for n in range(45)))
        asked = [{"featureName": "gold"}]
        second.apply(rule("gold", CONFIG_MAP, LABELLED, deletionPolicy="Delete", clusterFeatureMatch=asked))
        eventually(lambda: len(uids(second, "cm")) == 45, what="copies")
        first.kubectl("delete", "clusterfeature", "gold")
        eventually(lambda: not uids(second, "cm"), what="the copies go with the feature")
        first.create(feature)
        eventually(lambda: len(uids(second, "cm")) == 45, what="the copies are back")
        before = uids(second, "cm")
        first.kubectl("delete", "clusterfeature", "gold")
        eventually(lambda: halted(second, "gold").get("status") == "True", what="deletions are halted")
        assert uids(second, "cm") == before
        first.create(feature)
        eventually(lambda: not halted(second, "gold"), what="the halt is over")
        assert uids(second, "cm") == before


@pytest.mark.clause("W4")
def test_a_kind_that_its_owner_installs_again_deletes_no_copy(members: list[Member]) -> None:
    """W4: 20 copies; they are taken over once their sources are there again."""

    def widgets() -> list[dict[str, Any]]:
        info = {"namespace": "default", "labels": {"sync": "yes"}}
        kind = {"apiVersion": "test.example.com/v1", "kind": "Widget"}
        return [{**kind, "metadata": {**info, "name": f"m-{n}"}, "spec": {"size": n}} for n in range(FEW)]

    first, second = members
    for member in (first, second):
        member.apply(crd("Widget"))
        grant(member, "widgets", ["test.example.com"], ["widgets"])
    eventually(lambda: first.kubectl("get", "widgets.test.example.com", "-A") is not None, what="the kind")
    first.create(*widgets())
    second.apply(rule("widgets", WIDGET, LABELLED, deletionPolicy="Delete"))
    eventually(lambda: len(uids(second, "widgets.test.example.com")) == FEW, what="copies")
    before = uids(second, "widgets.test.example.com")
    first.kubectl("delete", "crd", "widgets.test.example.com", "--wait=true")
    first.apply(crd("Widget"))
    eventually(lambda: halted(second, "widgets").get("status") == "True", what="deletions are halted")
    steadily(lambda: uids(second, "widgets.test.example.com") == before, what="the copies stay")
    second.daemon.restart()
    second.daemon.wait_ready(timeout_s=180)
    steadily(lambda: uids(second, "widgets.test.example.com") == before, for_s=10.0, what="the copies stay")
    eventually(lambda: first.create(*widgets()) or True, what="the sources")
    eventually(lambda: not halted(second, "widgets"), what="the halt is over")
    assert uids(second, "widgets.test.example.com") == before
