"""Members that leave, or are said to have left, on real clusters. O6, O4."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.commands import TOMBSTONES, leave
from tests.e2e.group import (
    CONFIG_MAP,
    NAMESPACE,
    Member,
    config_map,
    eventually,
    hand_over,
    in_sync,
    joined_group,
    rule,
    steadily,
    swap,
)

pytestmark = pytest.mark.nightly

READER = "cluster-registry-controller-reader"


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    with joined_group(3, prefix="leave", values=("controller.memberLeftTrustSeconds=5",)) as found:
        for name, policy in (("goes", "Delete"), ("stays", "Orphan")):
            match = {"match": [{"labels": [{"matchLabels": {"keep": name}}]}]}
            found[0].apply(rule(name, CONFIG_MAP, match, deletionPolicy=policy))
        for member in found:
            for name in ("goes", "stays"):
                member.apply(config_map(f"{member.name}-{name}", {"at": member.name}, labels={"keep": name}))
        for member in found:
            eventually(lambda member=member: held(member) == everything(found), what=f"copies at {member.name}")
        yield found


def everything(members: list[Member]) -> set[str]:
    return {f"{member.name}-{name}" for member in members for name in ("goes", "stays")}


def held(member: Member) -> set[str]:
    text = member.kubectl("-n", "default", "get", "configmaps", "-l", "keep", "-o", "name")
    return {line.removeprefix("configmap/") for line in text.split()}


def tombstones(member: Member, *, of: str) -> list[str]:
    """List the tombstones of a member; the records that one was withdrawn have its labels, too."""
    found = member.kubectl("get", "clusterfeatures", "-l", f"{TOMBSTONES}={of}", "-o", "name").split()
    return [name for name in found if name.partition("/")[2].startswith("left-")]


def is_gone(member: Member, name: str) -> bool:
    return member.find("cluster", name) is None and member.find("-n", NAMESPACE, "secret", name) is None


def test_a_member_that_leaves_is_gone_everywhere_and_may_join_again(members: list[Member]) -> None:
    """O6, P3: with its copies, its credentials, and what it had of the others; then it comes again with one swap."""
    first, second, third = members
    token = second.get("-n", NAMESPACE, "secret", f"{READER}-token")["data"]["token"]
    said = leave(second.cluster.kubeconfig)
    assert "revoked" in said
    assert token not in said
    for member in (first, third):
        assert is_gone(member, second.name)
        assert held(member) == everything([first, third]) | {f"{second.name}-stays"}
    for peer in (first, third):
        assert is_gone(second, peer.name)
    assert is_gone(second, second.name)
    assert second.find("-n", NAMESPACE, "secret", f"{READER}-token") is None
    assert held(second) == everything([second]) | {f"{first.name}-stays", f"{third.name}-stays"}
    second.daemon.restart()
    steadily(lambda: second.find("cluster", second.name) is None, for_s=5.0)
    assert "no member" not in leave(second.cluster.kubeconfig)  # again is harmless

    second.kubectl("delete", "clusterfeatures", "-l", TOMBSTONES)
    eventually(lambda: second.find("cluster", second.name), what="a new Cluster")
    swap(first, second)
    in_sync(members)
    for member in members:
        eventually(lambda member=member: held(member) == everything(members), what=f"copies at {member.name}")


def test_a_dead_member_goes_by_the_word_of_another_and_stays_away(members: list[Member]) -> None:
    """O6, O4: also from who hears of it later; and it comes again where it was said to have left."""
    first, second, third = members
    assert "is Ready" in leave(first.cluster.kubeconfig, third.name, code=1)
    assert "Cluster nobody: does not exist here" in leave(first.cluster.kubeconfig, "nobody", code=1)
    third.cluster.apiserver.kill()
    eventually(lambda: first.get("cluster", third.name)["status"]["state"] == "Failed")
    leave(first.cluster.kubeconfig, third.name)
    for member in (first, second):
        eventually(lambda member=member: is_gone(member, third.name), what=f"{third.name} at {member.name}")
        left = everything([first, second]) | {f"{third.name}-stays"}
        eventually(lambda member=member, left=left: held(member) == left, what=f"copies at {member.name}")
    third.cluster.apiserver.start()
    third.cluster.apiserver.wait_ready(180)
    for member in (first, second):
        steadily(lambda member=member: is_gone(member, third.name), for_s=5.0)

    hand_over(third, first)
    in_sync(members)
    for member in members:
        eventually(lambda member=member: held(member) == everything(members), what=f"copies at {member.name}")
        eventually(lambda member=member: not tombstones(member, of=third.id), what=f"tombstones at {member.name}")


def test_who_is_no_member_cannot_leave(members: list[Member]) -> None:
    """O6: and is told so."""
    assert "without a name" in leave(members[0].cluster.kubeconfig, members[0].name, code=1)
