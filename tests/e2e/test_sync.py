"""What three clusters make of one rule: the same copies, put back, and nobody's own objects touched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hack.controlplane import Group
from tests.e2e.group import (
    CONFIG_MAP,
    OWNER,
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


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    """Three clusters in a chain of swaps, with one rule, written at the first."""
    with Group(3, prefix="sync") as group:
        members = start_members(group)
        for member in members:
            grant(member, "configmaps", [""], ["configmaps"])
        swap(members[0], members[1])
        swap(members[1], members[2])
        in_sync(members)
        members[0].apply(rule("everywhere", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": WANTED}]}]}))
        yield members


def _data(member: Member, name: str) -> object:
    found = member.find("cm", name)
    return found and found.get("data")


@pytest.mark.clause("A1", "O5")
def test_a_copy_that_is_edited_stripped_or_deleted_comes_back_everywhere(members: list[Member]) -> None:
    """A1, O5: and a change and a delete at the owner arrive."""
    first, owner, third = members
    wanted = {"a": "1", "b": "2"}
    owner.create(config_map("kept", wanted, labels=WANTED))
    for member in (first, third):
        eventually(lambda member=member: _data(member, "kept") == wanted, within_s=60)
        for patch in ('{"data":{"a":"x"}}', '{"data":{"b":null}}', '{"data":{"extra":"x"}}'):
            member.kubectl("patch", "cm", "kept", "--type=merge", "-p", patch)
            eventually(lambda member=member: _data(member, "kept") == wanted, within_s=60, what=patch)
        member.kubectl("delete", "cm", "kept")
        eventually(lambda member=member: _data(member, "kept") == wanted, within_s=60, what="deleted")
    owner.kubectl("patch", "cm", "kept", "--type=merge", "-p", '{"data":{"a":"3"}}')
    for member in (first, third):
        eventually(lambda member=member: _data(member, "kept") == {"a": "3", "b": "2"}, within_s=60)
    owner.kubectl("delete", "cm", "kept")
    for member in (first, third):
        eventually(lambda member=member: member.find("cm", "kept") is None, within_s=60)


@pytest.mark.clause("A1")
def test_what_others_add_to_a_copys_metadata_is_left_alone(members: list[Member]) -> None:
    """A1: labels, annotations and finalizers of others stay, also through a write of ours."""
    first, owner, _ = members
    owner.create(config_map("shared", {"a": "1"}, labels=WANTED))
    eventually(lambda: _data(first, "shared"), within_s=60)
    added = '{"metadata":{"labels":{"team":"x"},"annotations":{"note":"x"},"finalizers":["example.test/stay"]}}'
    first.kubectl("patch", "cm", "shared", "--type=merge", "-p", added)
    owner.kubectl("patch", "cm", "shared", "--type=merge", "-p", '{"data":{"a":"2"}}')
    eventually(lambda: _data(first, "shared") == {"a": "2"}, within_s=60)
    info = first.get("cm", "shared")["metadata"]
    assert info["labels"]["team"] == "x"
    assert info["annotations"]["note"] == "x"
    assert info["finalizers"] == ["example.test/stay"]
    first.kubectl("patch", "cm", "shared", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


@pytest.mark.clause("O1")
def test_a_native_object_is_never_touched_and_gives_way_only_by_hand(members: list[Member]) -> None:
    """O1: LocalObjectExists on the rule; when the native one is deleted, the copy is made."""
    first, owner, third = members
    first.create(config_map("native", {"mine": "1"}))
    before = first.get("cm", "native")["metadata"]["resourceVersion"]
    owner.create(config_map("native", {"theirs": "1"}, labels=WANTED))
    eventually(lambda: _data(third, "native") == {"theirs": "1"}, within_s=60)
    eventually(lambda: "LocalObjectExists" in str(first.get("rsr", "everywhere")["status"]), within_s=60)
    steadily(lambda: first.get("cm", "native")["metadata"]["resourceVersion"] == before)
    first.kubectl("delete", "cm", "native")
    eventually(lambda: _data(first, "native") == {"theirs": "1"}, within_s=60)


@pytest.mark.clause("O3", "O9")
def test_an_unknown_mark_is_replaced_and_a_marked_object_is_no_source(members: list[Member]) -> None:
    """O3, O9: what is marked with a cluster that nobody knows goes nowhere, and gives way to a source."""
    first, owner, third = members
    mark = {OWNER: "11111111-2222-3333-4444-555555555555"}
    first.create(config_map("marked", {"old": "1"}, labels=WANTED, annotations=mark))
    steadily(lambda: third.find("cm", "marked") is None and owner.find("cm", "marked") is None)
    owner.create(config_map("marked", {"new": "1"}, labels=WANTED))
    for member in (first, third):
        eventually(lambda member=member: _data(member, "marked") == {"new": "1"}, within_s=60)
    assert first.get("cm", "marked")["metadata"]["annotations"][OWNER] == owner.id
