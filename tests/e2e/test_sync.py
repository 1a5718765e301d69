"""What three clusters make of one rule: the same copies, put back, and nobody's own objects touched."""

from __future__ import annotations

import pytest

from tests.e2e.group import (
    OWNER,
    Member,
    config_map,
    eventually,
    steadily,
)
from tests.original_marks import last_applied

WANTED = {"sync": "yes"}
SYNC_DISABLED = "cluster-registry.k8s.cisco.com/resource-sync-disabled"

pytestmark = pytest.mark.group(3, prefix="sync", everywhere=WANTED)


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
        eventually(lambda member=member: _data(member, "kept") == wanted)
        for patch in ('{"data":{"a":"x"}}', '{"data":{"b":null}}', '{"data":{"extra":"x"}}'):
            member.kubectl("patch", "cm", "kept", "--type=merge", "-p", patch)
            eventually(lambda member=member: _data(member, "kept") == wanted, what=patch)
        member.kubectl("delete", "cm", "kept")
        eventually(lambda member=member: _data(member, "kept") == wanted, what="deleted")
    owner.kubectl("patch", "cm", "kept", "--type=merge", "-p", '{"data":{"a":"3"}}')
    for member in (first, third):
        eventually(lambda member=member: _data(member, "kept") == {"a": "3", "b": "2"})
    owner.kubectl("delete", "cm", "kept")
    for member in (first, third):
        eventually(lambda member=member: member.find("cm", "kept") is None)


@pytest.mark.clause("A1")
def test_what_others_add_to_a_copys_metadata_is_left_alone(members: list[Member]) -> None:
    """A1: labels, annotations and finalizers of others stay, also through a write of ours."""
    first, owner, _ = members
    owner.create(config_map("shared", {"a": "1"}, labels=WANTED))
    eventually(lambda: _data(first, "shared"))
    added = '{"metadata":{"labels":{"team":"x"},"annotations":{"note":"x"},"finalizers":["example.test/stay"]}}'
    first.kubectl("patch", "cm", "shared", "--type=merge", "-p", added)
    owner.kubectl("patch", "cm", "shared", "--type=merge", "-p", '{"data":{"a":"2"}}')
    eventually(lambda: _data(first, "shared") == {"a": "2"})
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
    eventually(lambda: _data(third, "native") == {"theirs": "1"})
    eventually(lambda: "LocalObjectExists" in str(first.get("rsr", "everywhere")["status"]))
    steadily(lambda: first.get("cm", "native")["metadata"]["resourceVersion"] == before)
    first.kubectl("delete", "cm", "native")
    eventually(lambda: _data(first, "native") == {"theirs": "1"})


@pytest.mark.clause("O3", "O9", "O11")
def test_an_unknown_mark_is_replaced_and_a_marked_object_is_no_source(members: list[Member]) -> None:
    """O3, O9: what is marked with a cluster that nobody knows goes nowhere, and gives way to a source."""
    first, owner, third = members
    mark = {OWNER: "11111111-2222-3333-4444-555555555555"}
    first.create(config_map("claimed", {"old": "1"}, labels=WANTED, annotations=mark))
    bound = last_applied({"metadata": {"namespace": "default", "name": "marked"}})
    mark["banzaicloud.com/last-applied"] = bound
    first.create(config_map("marked", {"old": "1"}, labels=WANTED, annotations=mark))
    steadily(lambda: third.find("cm", "marked") is None and owner.find("cm", "marked") is None)
    owner.create(config_map("marked", {"new": "1"}, labels=WANTED))
    for member in (first, third):
        eventually(lambda member=member: _data(member, "marked") == {"new": "1"})
    assert first.get("cm", "marked")["metadata"]["annotations"][OWNER] == owner.id
    owner.create(config_map("claimed", {"new": "1"}, labels=WANTED))  # nothing binds that mark: the object is native
    eventually(lambda: _data(third, "claimed") == {"new": "1"})
    steadily(lambda: _data(first, "claimed") == {"old": "1"})


@pytest.mark.clause("W5")
def test_a_copy_that_somebody_froze_is_left_alone_until_it_is_thawed(members: list[Member]) -> None:
    """W5: the annotation that a person sets on a copy is about this copy; the others go on."""
    first, owner, third = members
    owner.create(config_map("frozen", {"a": "1"}, labels=WANTED))
    for member in (first, third):
        eventually(lambda member=member: _data(member, "frozen") == {"a": "1"})
    first.kubectl("annotate", "cm", "frozen", f"{SYNC_DISABLED}=true")
    first.kubectl("patch", "cm", "frozen", "--type=merge", "-p", '{"data":{"mine":"1"}}')
    owner.kubectl("patch", "cm", "frozen", "--type=merge", "-p", '{"data":{"a":"2"}}')
    eventually(lambda: _data(third, "frozen") == {"a": "2"})
    steadily(lambda: _data(first, "frozen") == {"a": "1", "mine": "1"})
    first.kubectl("annotate", "cm", "frozen", f"{SYNC_DISABLED}-")
    eventually(lambda: _data(first, "frozen") == {"a": "2"})


@pytest.mark.clause("W5")
def test_a_source_that_is_not_to_be_synced_makes_no_new_copy_and_keeps_the_old_in_step(members: list[Member]) -> None:
    """W5: existing copies carry the annotation as inherited, follow changes, and go with their source."""
    first, owner, third = members
    owner.create(config_map("set", {"a": "1"}, labels=WANTED))
    for member in (first, third):
        eventually(lambda member=member: _data(member, "set") == {"a": "1"})
    owner.kubectl("annotate", "cm", "set", f"{SYNC_DISABLED}=true")
    eventually(lambda: SYNC_DISABLED in first.get("cm", "set")["metadata"]["annotations"])
    first.kubectl("delete", "cm", "set")
    owner.kubectl("patch", "cm", "set", "--type=merge", "-p", '{"data":{"a":"2"}}')
    eventually(lambda: _data(third, "set") == {"a": "2"})
    steadily(lambda: first.find("cm", "set") is None)
    owner.kubectl("delete", "cm", "set")
    eventually(lambda: third.find("cm", "set") is None)


@pytest.mark.clause("A2")
def test_a_copy_that_cannot_be_changed_is_made_again(members: list[Member]) -> None:
    """A2: somebody made the copy immutable; it is deleted and created, and an Event of the rule says so."""
    first, owner, _ = members
    owner.create(config_map("sealed", {"a": "1"}, labels=WANTED))
    eventually(lambda: _data(first, "sealed") == {"a": "1"})
    before = first.get("cm", "sealed")["metadata"]["uid"]
    first.kubectl("patch", "cm", "sealed", "--type=merge", "-p", '{"immutable":true}')
    copy = eventually(lambda: (found := first.find("cm", "sealed")) and found["metadata"]["uid"] != before and found)
    assert "immutable" not in copy
    owner.kubectl("patch", "cm", "sealed", "--type=merge", "-p", '{"data":{"a":"2"}}')
    eventually(lambda: _data(first, "sealed") == {"a": "2"})
    eventually(lambda: "ConfigMap default/sealed" in first.kubectl("get", "events", "-A", "-o", "json"))
