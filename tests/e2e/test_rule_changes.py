"""What becomes of copies when a rule is edited: here, or in the copy of the rule that another cluster has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.group import (
    CONFIG_MAP,
    CRDS,
    SECRET,
    Member,
    config_map,
    eventually,
    joined_group,
    rule,
    secret,
    steadily,
)

pytestmark = pytest.mark.nightly

MANY = 5


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    with joined_group(3, prefix="edits") as found:
        yield found


def _uids(member: Member, kind: str, label: str) -> dict[str, str]:
    found = member.get("-n", "default", kind, "-l", label)["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


def test_the_copies_go_when_their_rule_reads_another_kind(members: list[Member]) -> None:
    """W3: and the copies of the new kind come."""
    here, owner, _ = members
    labels = {"kind-edited": "yes"}
    entry = {"match": [{"labels": [{"matchLabels": labels}]}]}
    for number in range(MANY):
        owner.create(config_map(f"kind-{number}", {"a": "1"}, labels=labels))
    owner.create(secret("kind-secret", {"a": "1"}, labels=labels))
    here.apply(rule("kind", CONFIG_MAP, entry, deletionPolicy="Delete"))
    eventually(lambda: len(_uids(here, "configmaps", "kind-edited")) == MANY)
    here.apply(rule("kind", SECRET, entry, deletionPolicy="Delete"))
    eventually(lambda: not _uids(here, "configmaps", "kind-edited"))
    eventually(lambda: set(_uids(here, "secrets", "kind-edited")) == {"kind-secret"})
    assert len(_uids(owner, "configmaps", "kind-edited")) == MANY


def test_a_source_without_its_label_for_a_moment_keeps_its_copy(members: list[Member]) -> None:
    """W3: it goes once the label was missing for the stabilization window; the rule names it until then."""
    here, owner, _ = members
    labels = {"label-lost": "yes"}
    owner.create(config_map("hidden", {"a": "1"}, labels=labels))
    entry = {"match": [{"labels": [{"matchLabels": labels}]}]}
    here.apply(rule("hiding", CONFIG_MAP, entry, deletionPolicy="Delete"))
    uids = eventually(lambda: _uids(here, "configmaps", "label-lost"))

    def waits() -> bool:
        entries = here.get("rsr", "hiding")["status"].get("clusters") or ()
        return "MayMatchAgain" in [failure["reason"] for one in entries for failure in one.get("failures") or ()]

    owner.kubectl("label", "configmap", "hidden", "label-lost-")
    eventually(waits)
    assert here.condition("rsr", "hiding", "Synced")["status"] == "True"
    owner.kubectl("label", "configmap", "hidden", "label-lost=yes")
    eventually(lambda: not waits())
    assert _uids(here, "configmaps", "label-lost") == uids
    owner.kubectl("label", "configmap", "hidden", "label-lost-")
    eventually(waits)
    assert here.find("configmap", "hidden") is not None
    eventually(lambda: here.find("configmap", "hidden") is None)


def test_an_edit_of_a_rules_copy_is_put_back_and_no_copy_goes(members: list[Member]) -> None:
    """A8, W3: whether or not the daemon runs when somebody edits the copy."""
    here, home, _ = members
    labels = {"copy-edited": "yes"}
    entry = {"match": [{"labels": [{"matchLabels": labels}]}]}
    for number in range(MANY):
        home.create(config_map(f"edited-{number}", {"a": "1"}, labels=labels))
    home.apply(rule("edited", CONFIG_MAP, entry, deletionPolicy="Delete"))
    uids = eventually(lambda: len(found := _uids(here, "configmaps", "copy-edited")) == MANY and found)
    wanted = home.get("rsr", "edited")["spec"]
    nothing = '{"spec": {"rules": []}}'
    here.kubectl("patch", "rsr", "edited", "--type=merge", "-p", nothing)
    eventually(lambda: here.get("rsr", "edited")["spec"] == wanted)
    here.daemon.stop()
    here.kubectl("patch", "rsr", "edited", "--type=merge", "-p", nothing)
    here.daemon.start()
    eventually(lambda: here.get("rsr", "edited")["spec"] == wanted)
    eventually(lambda: here.condition("rsr", "edited", "Synced")["status"] == "True")
    assert _uids(here, "configmaps", "copy-edited") == uids


def _install(member: Member, change: Callable[[dict[str, Any]], object]) -> None:
    """Install the definition of rules with other fields of their spec, and wait until it is served."""
    text = (CRDS / "clusterregistry.k8s.cisco.com_resourcesyncrules.yaml").read_text(encoding="utf-8")
    definition = yaml.safe_load(text)
    (version,) = definition["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    change(properties)
    member.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(definition))
    asked = rule("asked", CONFIG_MAP, targetClusters={}, newer={})

    def stored() -> set[str]:
        arguments = ("create", "--dry-run=server", "--validate=false", "-o", "json", "-f", "-")
        return set(json.loads(member.kubectl(*arguments, stdin=json.dumps(asked)))["spec"])

    wanted = properties.keys() & {"targetClusters", "newer", "groupVersionKind", "rules"}
    eventually(lambda: stored() == wanted)


def test_a_rule_that_lost_a_field_does_nothing_before_and_after_a_restart(members: list[Member]) -> None:
    """A8: whether or not the rule's home answers; a third cluster has what the rule would copy without the field."""
    here, home, owner = members
    labels, obeyed = {"field-lost": "yes"}, {"field-kept": "yes"}
    for member in (home, owner):
        member.create(config_map(f"lost-{member.name}", {"a": "1"}, labels=labels))
    here.apply(rule("kept", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": obeyed}]}]}))

    def reason() -> str:
        return str(here.condition("rsr", "lost", "Accepted")["reason"])

    def does_nothing() -> bool:
        assert (reason(), _uids(here, "configmaps", "field-lost")) == ("FieldsPruned", {})
        return True

    def can_copy(name: str) -> bool:
        """Return whether another rule copies a new object of the third cluster."""
        owner.create(config_map(name, {"a": "1"}, labels=obeyed))
        return bool(eventually(lambda: name in _uids(here, "configmaps", "field-kept"), what=name))

    _install(here, lambda properties: properties.pop("targetClusters"))
    try:
        entry = {"match": [{"labels": [{"matchLabels": labels}]}]}
        home.apply(rule("lost", CONFIG_MAP, entry, targetClusters={"names": [home.name]}))
        eventually(lambda: reason() == "FieldsPruned")
        assert "targetClusters" not in here.get("rsr", "lost")["spec"]
        eventually(lambda: set(_uids(home, "configmaps", "field-lost")) == {f"lost-{m.name}" for m in (home, owner)})
        for is_silent in (False, True):
            if is_silent:
                home.cluster.apiserver.stop()
            here.daemon.restart()
            here.daemon.wait_ready(timeout_s=180)
            assert can_copy(f"kept-{is_silent}".lower())
            steadily(does_nothing, for_s=5.0)
        assert here.condition("cluster", home.name, "Ready").get("status") != "True"
    finally:
        home.cluster.apiserver.start()
        home.cluster.apiserver.wait_ready(timeout_s=180)
        _install(here, lambda properties: None)


def test_a_rule_with_a_field_of_a_later_release_does_nothing_and_keeps_its_copies(members: list[Member]) -> None:
    """A8: it is not obeyed without the field."""
    here, home, _ = members
    labels = {"newer": "yes"}
    entry = {"match": [{"labels": [{"matchLabels": labels}]}]}
    home.create(config_map("newer", {"a": "1"}, labels=labels))
    here.apply(rule("newer", CONFIG_MAP, entry, deletionPolicy="Delete"))
    uids = eventually(lambda: _uids(here, "configmaps", "newer"))
    preserved = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    _install(here, lambda properties: properties.update(newer=preserved))
    try:
        nothing = {"match": [{"objectKey": {"name": "nothing"}}]}
        here.apply(rule("newer", CONFIG_MAP, nothing, deletionPolicy="Delete", newer={"a": "b"}))
        eventually(lambda: here.condition("rsr", "newer", "Accepted")["reason"] == "UnknownFields")
        assert "spec.newer" in here.condition("rsr", "newer", "Accepted")["message"]
        steadily(lambda: _uids(here, "configmaps", "newer") == uids, for_s=5.0)
        here.apply(rule("newer", CONFIG_MAP, entry, deletionPolicy="Delete"))
        eventually(lambda: here.condition("rsr", "newer", "Accepted")["reason"] == "Accepted")
        assert _uids(here, "configmaps", "newer") == uids
    finally:
        _install(here, lambda properties: None)
