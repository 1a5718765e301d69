"""The etcd of a real cluster is restored while its daemon lives, with a raised revision. R4."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos import etcd
from tests.e2e.group import CONFIG_MAP, Member, config_map, eventually, rule, steadily

pytestmark = [pytest.mark.group(2, prefix="restored"), pytest.mark.clause("R4")]


def _labelled(value: str) -> dict[str, Any]:
    return {"match": [{"labels": [{"matchLabels": {"sync": value}}]}]}


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
    """A1, W3: old copies are brought up to date, and rules are obeyed as they are stored now."""
    first, second = members
    first.apply(rule("edited", CONFIG_MAP, _labelled("edited")), rule("kept", CONFIG_MAP, _labelled("kept")))
    second.apply(config_map("one", {"value": "1"}, labels={"sync": "kept"}))
    eventually(lambda: _data(first, "one") == "1")
    etcd.back_up(first.cluster)
    eventually(lambda: first.condition("rsr", "kept", "Synced").get("status") == "True")
    second.apply(config_map("one", {"value": "2"}, labels={"sync": "kept"}))
    first.apply(rule("edited", CONFIG_MAP, _labelled("lost-edit")), rule("lost", CONFIG_MAP, _labelled("lost")))
    second.apply(config_map("two", {"value": "1"}, labels={"sync": "lost"}))
    eventually(lambda: (_data(first, "one"), _data(first, "two")) == ("2", "1"))
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
