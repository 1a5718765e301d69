"""What a group does while one of its API servers is frozen or gone: nothing is deleted, the rest goes on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.e2e.group import (
    Member,
    config_map,
    eventually,
    in_sync,
    steadily,
)

WANTED = {"sync": "yes"}
FROZEN_S = 60
UNTOUCHED_S = 20
"""Nobody who waits for a frozen server does anything within this time, however busy the machine is."""

pytestmark = [pytest.mark.group(3, prefix="faults", everywhere=WANTED), pytest.mark.nightly]


def _has(member: Member, name: str) -> bool:
    return member.find("cm", name) is not None


@contextlib.contextmanager
def _frozen(member: Member) -> Iterator[None]:
    member.cluster.apiserver.freeze()
    try:
        yield
    finally:
        member.cluster.apiserver.thaw()


def _standing(member: Member, other: Member) -> list[str]:
    return [member.condition("cluster", other.name, kind).get("status", "") for kind in ("Ready", "ClustersSynced")]


@pytest.mark.clause("O5", "P5", "P6", "P9")
def test_a_silent_owner_costs_no_copy_and_nobody_else_any_time(members: list[Member]) -> None:
    """O5, P5, P6, P9: frozen for a minute, then gone; what was missed is caught up within seconds, deletes too."""
    first, owner, third = members
    owner.create(*(config_map(name, {"a": "1"}, labels=WANTED) for name in ("stays", "goes", "lost")))
    for member in (first, third):
        for name in ("stays", "goes", "lost"):
            eventually(lambda member=member, name=name: _has(member, name))
    with _frozen(owner):
        for number in range(FROZEN_S // 5):
            began = time.monotonic()
            first.create(config_map(f"meanwhile-{number}", {"n": str(number)}, labels=WANTED))
            eventually(lambda number=number: _has(third, f"meanwhile-{number}"), within_s=UNTOUCHED_S)
            steadily(lambda: _has(first, "stays") and _has(third, "stays"), for_s=5 - (time.monotonic() - began))
        assert _standing(first, owner) == ["False", "False"]
        words = "one dead cluster shows only where it is meant"
        eventually(lambda: _standing(first, third) == ["True", "True"], within_s=UNTOUCHED_S, what=words)
        assert first.get("cluster", owner.name)["status"]["state"] == "Failed"
    owner.kubectl("delete", "cm", "goes")
    for member in (first, third):
        eventually(lambda member=member: not _has(member, "goes"), within_s=UNTOUCHED_S)
    owner.cluster.apiserver.kill()
    for member in (first, third):
        member.daemon.restart()
        member.daemon.wait_ready(timeout_s=180)
    first.kubectl("delete", "cm", "lost")
    steadily(lambda: _has(first, "stays") and _has(third, "stays") and _has(third, "lost"), for_s=5)
    owner.cluster.start()
    owner.kubectl("delete", "cm", "stays")
    for member in (first, third):
        eventually(lambda member=member: not _has(member, "stays"))
    eventually(lambda: _has(first, "lost"), what="what an intermediary had lost")
    in_sync(members)


@pytest.mark.clause("P6", "R4", "A4")
def test_the_end_of_our_own_api_server_is_survived(members: list[Member]) -> None:
    """P6, R4, A4: killed and started again, nothing is lost: what peers said meanwhile is written when it is back."""
    first, owner, third = members
    owner.create(config_map("at-home", {"a": "0"}, labels=WANTED))
    eventually(lambda: _has(first, "at-home") and _has(third, "at-home"))
    first.cluster.apiserver.kill()
    owner.kubectl("patch", "cm", "at-home", "--type=merge", "-p", '{"data":{"a":"1"}}')
    owner.create(config_map("meanwhile", {"a": "1"}, labels=WANTED))
    eventually(lambda: _has(third, "meanwhile"), what="nobody else waits for it")
    time.sleep(3)
    first.cluster.start()
    eventually(lambda: first.get("cm", "at-home")["data"] == {"a": "1"})
    eventually(lambda: _has(first, "meanwhile"))
    in_sync(members)
