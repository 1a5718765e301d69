"""What becomes of copies when a rule is edited: here, or in the copy of the rule that another cluster has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.group import CONFIG_MAP, SECRET, Member, config_map, eventually, joined_group, rule, secret

MANY = 5


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    with joined_group(2, prefix="edits") as found:
        yield found


def _uids(member: Member, kind: str, label: str) -> dict[str, str]:
    found = member.get("-n", "default", kind, "-l", label)["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


def test_the_copies_go_when_their_rule_reads_another_kind(members: list[Member]) -> None:
    """W3: and the copies of the new kind come."""
    here, owner = members
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
