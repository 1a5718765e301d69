"""Several who want one object: two owners, two rules, and a controller that will not leave a copy alone."""

from __future__ import annotations

import threading
import time

import pytest

from tests.e2e.group import CONFIG_MAP, NAMESPACE, Member, config_map, eventually, rule

WANTED = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}
LABELS = {"sync": "yes"}
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"

pytestmark = [pytest.mark.group(3, prefix="rivals"), pytest.mark.nightly]


def _data(member: Member, name: str) -> dict[str, str]:
    found = member.find("cm", name)
    return {} if found is None else found["data"]


def _conflicts(member: Member, name: str) -> dict[str, int]:
    clusters = member.get("rsr", name).get("status", {}).get("clusters", [])
    return {entry["name"]: entry["conflicting"] for entry in clusters if entry["conflicting"]}


def test_of_two_owners_the_older_object_comes_and_the_other_one_after_it(members: list[Member]) -> None:
    """O8: the loser is a conflict on the rule, and takes over without a restart."""
    first, second, third = members
    here = {"cluster-registry.k8s.cisco.com/resource-sync-disabled": "yes"}  # the rule stays in the first cluster
    asked = rule("owners", CONFIG_MAP, WANTED)
    first.apply({**asked, "metadata": {**asked["metadata"], "annotations": here}})
    second.create(config_map("both", {"at": "second"}, labels=LABELS))
    eventually(lambda: _data(first, "both") == {"at": "second"})
    time.sleep(1.1)  # creationTimestamps count seconds
    third.create(config_map("both", {"at": "third"}, labels=LABELS))
    eventually(lambda: _conflicts(first, "owners") == {third.name: 1}, what="the younger one conflicts")
    assert _data(first, "both") == {"at": "second"}
    second.kubectl("delete", "cm", "both")
    eventually(lambda: _data(first, "both") == {"at": "third"}, what="the other one takes over")
    eventually(lambda: not _conflicts(first, "owners"))


def test_of_two_rules_the_older_one_is_followed_until_it_goes(members: list[Member]) -> None:
    """W2: the younger one says that it loses, and to whom."""
    first, second, _ = members
    marked = {"match": [{"objectKey": {"name": "twice"}}]}
    first.apply(rule("older", CONFIG_MAP, {**marked, "mutations": {"labels": {"add": {"by": "older"}}}}))
    time.sleep(1.1)
    first.apply(rule("younger", CONFIG_MAP, {**marked, "mutations": {"labels": {"add": {"by": "younger"}}}}))
    second.create(config_map("twice", {"a": "1"}))
    eventually(lambda: _label(first, "twice") == "older")
    eventually(lambda: _conflicts(first, "younger") == {second.name: 1})
    assert "rule older" in first.condition("rsr", "younger", "Synced")["message"]
    first.kubectl("delete", "rsr", "older")
    eventually(lambda: _label(first, "twice") == "younger")
    eventually(lambda: first.condition("rsr", "younger", "Synced").get("status") == "True")


def _label(member: Member, name: str) -> str:
    found = member.find("cm", name)
    return "" if found is None else found["metadata"].get("labels", {}).get("by", "")


def test_a_controller_that_keeps_changing_a_copy_is_named_and_not_fought(members: list[Member]) -> None:
    """A5: writes become rare, and it heals when the other one rests."""
    first, second, _ = members
    first.apply(rule("fought", CONFIG_MAP, {"match": [{"objectKey": {"name": "fought"}}]}))
    second.create(config_map("fought", {"a": "1"}))
    eventually(lambda: _data(first, "fought") == {"a": "1"})
    offset = first.cluster.audit_offset()
    rest = threading.Event()

    def meddle() -> None:
        while not rest.wait(0.2):
            patch = '{"data": {"a": "theirs"}}'
            first.kubectl("patch", "cm", "fought", "--type=merge", "--field-manager=meddler", "-p", patch)

    thread = threading.Thread(target=meddle, name="meddler")
    thread.start()
    try:
        eventually(lambda: "meddler" in first.condition("rsr", "fought", "Synced").get("message", ""))
        time.sleep(5)
    finally:
        rest.set()
        thread.join()
    wrote = [
        line
        for line in first.cluster.audit(since=offset)
        if line["user"]["username"] == ACCOUNT
        and line["verb"] in ("update", "patch")
        and line["requestURI"].partition("?")[0].endswith("/configmaps/fought")
        and line["stage"] == "ResponseComplete"
    ]
    assert 4 <= len(wrote) <= 8, len(wrote)
    eventually(lambda: _data(first, "fought") == {"a": "1"}, what="it is put back once a minute")
