"""A group at rest, and a restart with a thousand copies."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.e2e.group import (
    CONFIG_MAP,
    NAMESPACE,
    Member,
    config_map,
    eventually,
    joined_group,
    rule,
)

pytestmark = pytest.mark.nightly

COUNT = 1000
WRITES = ("create", "update", "patch", "delete", "deletecollection")
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"


def _by(member: Member, account: str, *, since: int) -> list[dict[str, Any]]:
    return [line for line in member.cluster.audit(since=since) if line["user"]["username"] == account]


def _list_writes(member: Member, *, since: int) -> list[dict[str, Any]]:
    """List what the daemon wrote, but for its own Lease, which it renews once a minute."""
    lines = (line for line in _by(member, ACCOUNT, since=since) if line["verb"] in WRITES)
    return [line for line in lines if line.get("objectRef", {}).get("resource") != "leases"]


def _count(member: Member) -> int:
    return member.kubectl("get", "cm", "-l", "sync=yes", "-o", "name").count("many-")


@pytest.mark.timeout(600)  # three minutes of it are waiting
def test_a_group_at_rest_writes_nothing_and_asks_little() -> None:
    """S2, P5, R4, R5, A1, R6: nor does a restart with a thousand copies write."""
    with joined_group(3, prefix="idle") as members:
        first, second, third = members
        first.apply(rule("many", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}))
        second.create(*(config_map(f"many-{n}", {"n": str(n)}, labels={"sync": "yes"}) for n in range(COUNT)))
        for member in (first, third):
            eventually(lambda member=member: _count(member) == COUNT, within_s=120, every_s=1)
        time.sleep(70)  # the last statuses, and the counts of Events, which are written once a minute
        offsets = {member.name: member.cluster.audit_offset() for member in members}
        time.sleep(60)
        for member in members:
            written = _list_writes(member, since=offsets[member.name])
            assert not written, [(line["verb"], line["requestURI"]) for line in written]
            asked = [
                line
                for line in _by(member, f"{ACCOUNT}-reader", since=offsets[member.name])
                if line["stage"] != "ResponseStarted"
            ]
            assert len(asked) <= 5 * 2, [line["requestURI"] for line in asked]
            assert {line["verb"] for line in asked} <= {"get", "list", "watch"}
        offset = third.cluster.audit_offset()
        third.daemon.restart()
        third.daemon.wait_ready(timeout_s=180)
        eventually(lambda: third.condition("cluster", second.name, "Ready").get("status") == "True", what="still Ready")
        time.sleep(15)  # what would be written, would be by now
        written = _list_writes(third, since=offset)
        assert not written, [(line["verb"], line["requestURI"]) for line in written]
        assert _count(third) == COUNT
