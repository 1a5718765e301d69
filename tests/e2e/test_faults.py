"""What a group does while one of its API servers is frozen or gone: nothing is deleted, the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hack.controlplane import Group
from tests.e2e.group import (
    CONFIG_MAP,
    Member,
    config_map,
    eventually,
    grant,
    in_sync,
    rule,
    start_members,
    steadily,
    swap,
)

WANTED = {"sync": "yes"}
DETECTED_S = 35  # longer than a silent stream takes to be probed and given up


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    """Three clusters in a chain of swaps, with one rule, written at the first."""
    with Group(3, prefix="faults") as group:
        members = start_members(group)
        for member in members:
            grant(member, "configmaps", [""], ["configmaps"])
        swap(members[0], members[1])
        swap(members[1], members[2])
        in_sync(members)
        members[0].apply(rule("everywhere", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": WANTED}]}]}))
        yield members


def _has(member: Member, name: str) -> bool:
    return member.find("cm", name) is not None


@pytest.mark.clause("O5", "P5", "P6")
def test_a_silent_owner_costs_no_copy_and_nobody_else_any_time(members: list[Member]) -> None:
    """O5, P5, P6: frozen, then gone, the other daemons restarted; what was missed is caught up, deletes too."""
    first, owner, third = members
    owner.create(*(config_map(name, {"a": "1"}, labels=WANTED) for name in ("stays", "goes")))
    for member in (first, third):
        for name in ("stays", "goes"):
            eventually(lambda member=member, name=name: _has(member, name), within_s=60)
    owner.cluster.apiserver.freeze()
    try:
        for number in range(DETECTED_S // 5):
            began = time.monotonic()
            first.create(config_map(f"meanwhile-{number}", {"n": str(number)}, labels=WANTED))
            eventually(lambda number=number: _has(third, f"meanwhile-{number}"), within_s=5)
            steadily(lambda: _has(first, "stays") and _has(third, "stays"), for_s=5 - (time.monotonic() - began))
    finally:
        owner.cluster.apiserver.thaw()
    owner.kubectl("delete", "cm", "goes")
    for member in (first, third):
        eventually(lambda member=member: not _has(member, "goes"), within_s=30)
    owner.cluster.apiserver.kill()
    for member in (first, third):
        member.daemon.restart()
        member.daemon.wait_ready(timeout_s=60)
    steadily(lambda: _has(first, "stays") and _has(third, "stays"), for_s=5)
    owner.cluster.start()
    owner.kubectl("delete", "cm", "stays")
    for member in (first, third):
        eventually(lambda member=member: not _has(member, "stays"), within_s=60)
    in_sync(members)
    for member in members:
        assert member.daemon.restarts == 0, member.log()[-2000:]
