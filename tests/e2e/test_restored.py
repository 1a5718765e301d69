"""The etcd of a real cluster is restored while its daemon lives, with a raised revision. R4."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api.names import DELETED_RULES_OBJECT
from tests.chaos import etcd
from tests.e2e.group import CONFIG_MAP, Member, config_map, eventually, rule, steadily

pytestmark = [pytest.mark.nightly, pytest.mark.group(3, prefix="restored"), pytest.mark.clause("R4")]


MANY = [f"lost-{number}" for number in range(10)]


def _labelled(value: str) -> dict[str, Any]:
    return {"match": [{"labels": [{"matchLabels": {"sync": value}}]}]}


def _rule_of_many() -> dict[str, Any]:
    return rule("lost", CONFIG_MAP, _labelled("lost"), deletionPolicy="Delete")


def _uids(member: Member) -> dict[str, str]:
    """Return the uids of the copies that the lost rule made, by name."""
    found = member.get("-n", "default", "configmaps", "-l", "sync=lost")["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


def _data(member: Member, name: str) -> str:
    found = member.find("configmap", name)
    return str(found["data"]["value"]) if found is not None else ""


def _restore(member: Member) -> None:
    """Put the backup back as etcd's recovery page says: with a raised revision, and with the history before it gone."""
    cluster = member.cluster
    cluster.stop()
    etcd.put_back(cluster)
    cluster.etcd.start()
    cluster.etcd.wait_ready(180)
    etcd.raise_revision(cluster, by=3000)
    etcd.compact(cluster)
    cluster.start()


def test_a_daemon_follows_its_restored_etcd_without_a_restart(members: list[Member]) -> None:
    """A1, W3: old copies are brought up to date, and rules are obeyed as they are stored now.

    A rule that is lost with it was not deleted: its copies in another cluster stay, and are kept up to date.
    """
    first, second, third = members
    first.apply(rule("edited", CONFIG_MAP, _labelled("edited")), rule("kept", CONFIG_MAP, _labelled("kept")))
    second.apply(config_map("one", {"value": "1"}, labels={"sync": "kept"}))
    eventually(lambda: _data(first, "one") == "1")
    etcd.back_up(first.cluster)
    eventually(lambda: first.condition("rsr", "kept", "Synced").get("status") == "True")
    second.apply(config_map("one", {"value": "2"}, labels={"sync": "kept"}))
    first.apply(rule("edited", CONFIG_MAP, _labelled("lost-edit")), _rule_of_many())
    for name in MANY:
        second.apply(config_map(name, {"value": "1"}, labels={"sync": "lost"}))
    eventually(lambda: _data(first, "one") == "2" and all(_data(first, name) == "1" for name in MANY))
    uids = eventually(lambda: len(found := _uids(third)) == len(MANY) and found)
    copied = first.get("configmap", MANY[0])
    daemon = first.daemon.pid
    _restore(first)
    assert _data(first, "one") in ("1", "2")
    assert first.find("rsr", "lost") is None
    eventually(lambda: _data(first, "one") == "2", what="the copy is as its source")
    second.apply(config_map("three", {"value": "1"}, labels={"sync": "edited"}))
    eventually(lambda: _data(first, "three") == "1", what="the rule is obeyed as it is stored")
    second.apply(config_map("four", {"value": "1"}, labels={"sync": "lost-edit"}))
    steadily(lambda: first.find("configmap", "four") is None, what="the lost edit is forgotten")
    assert first.daemon.pid == daemon, "the daemon has not been restarted"
    missing = eventually(lambda: third.condition("cluster", first.name, "RulesMissing"), what="the rule is missing")
    assert "ResourceSyncRules lost are missing" in missing["message"]
    second.apply(config_map(MANY[0], {"value": "2"}, labels={"sync": "lost"}))
    eventually(lambda: _data(third, MANY[0]) == "2", what="the copies of the lost rule are kept up to date")
    assert _uids(third) == uids

    # A backup tool brings back a copy that names the lost rule, as if that had been in this etcd.
    first.daemon.stop(grace_s=60)
    first.kubectl("delete", "configmap", MANY[0], "--ignore-not-found")
    kept = {part: copied["metadata"][part] for part in ("name", "namespace", "labels", "annotations")}
    first.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept, "data": copied["data"]})
    first.daemon.start()
    missing = eventually(lambda: first.condition("cluster", first.name, "RulesMissing"), what="it is missing here, too")
    assert "ResourceSyncRules lost are missing" in missing["message"]
    steadily(lambda: _uids(third) == uids and not first.find("clusterfeature", DELETED_RULES_OBJECT))
