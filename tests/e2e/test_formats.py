"""A11: two versions of the daemon, of which one writes a later format, in one group and in one cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from registry_controller import __version__
from registry_controller.api import meta
from tests.e2e.group import (
    CONFIG_MAP,
    NAMESPACE,
    OWNER,
    Member,
    config_map,
    eventually,
    in_sync,
    joined_group,
    rule,
    steadily,
)

LATER = Path(__file__).with_name("later")
_DEPLOYMENT = "deployment/cluster-registry-controller"


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    with joined_group(2, prefix="fmt") as found:
        yield found


def _run_version(member: Member, version: str) -> None:
    """Roll out the later version, or this one, and wait until the own Cluster names it."""
    path = f"PYTHONPATH={LATER}" if version != __version__ else "PYTHONPATH-"
    member.kubectl("-n", NAMESPACE, "set", "env", _DEPLOYMENT, path)
    eventually(lambda: _version_at(member, member.name) == version, what=f"{member.name} runs {version}")


def _version_at(member: Member, cluster: str) -> str:
    annotations = member.get("cluster", cluster)["metadata"].get("annotations") or {}
    return str(json.loads(annotations.get(meta.DAEMON, "{}")).get("version", ""))


def _format_at(copy: dict[str, Any]) -> int:
    return int(json.loads(copy["metadata"]["annotations"][meta.PROVENANCE]).get("format", 1))


@pytest.mark.clause("A11")
def test_a_copy_of_a_later_version_is_left_alone_until_that_version_is_back(members: list[Member]) -> None:
    one, two = members
    two.create(config_map("kept", {"a": "1"}), config_map("gone", {"a": "1"}))
    _run_version(one, "9.9.9")
    eventually(lambda: _version_at(two, one.name) == "9.9.9", what="the member knows the version")
    one.create(rule("maps", CONFIG_MAP, {"match": [{"objectKey": {"namespace": "default"}}]}, deletionPolicy="Delete"))

    def copy(name: str) -> dict[str, Any] | None:
        found = one.find("-n", "default", "configmap", name)
        return found if found is not None and OWNER in (found["metadata"].get("annotations") or {}) else None

    held = {name: eventually(lambda name=name: copy(name), what=name) for name in ("kept", "gone")}  # type: ignore[misc]
    assert {_format_at(found) for found in held.values()} == {2}
    _run_version(one, __version__)
    two.kubectl("-n", "default", "patch", "configmap", "kept", "-p", '{"data":{"a":"2"}}')
    two.kubectl("-n", "default", "delete", "configmap", "gone")
    two.create(config_map("new", {"a": "1"}))
    made = eventually(lambda: copy("new"), what="new")
    assert _format_at(made) == 1
    told = eventually(lambda: [text for text in _messages(one) if "later version" in text], what="the rule reports it")
    assert any("ConfigMap default/" in text for text in told), told

    def is_left() -> bool:
        return all(copy(name) == found for name, found in held.items())

    steadily(is_left, what="what the later version wrote stays")
    in_sync(members)
    _run_version(one, "9.9.9")
    eventually(lambda: (copy("kept") or {"data": {}})["data"] == {"a": "2"}, what="it follows its source again")
    eventually(lambda: copy("gone") is None, what="it goes with its source")
    _run_version(one, __version__)


def _messages(member: Member) -> list[str]:
    conditions = member.get("resourcesyncrule", "maps").get("status", {}).get("conditions", [])
    return [str(condition["message"]) for condition in conditions]


def _stored(name: str) -> dict[str, Any]:
    """Read what a daemon stores in the next format."""
    text = (Path(__file__).parents[1] / "fixtures" / "formats" / "2" / f"{name}.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@pytest.mark.clause("A11")
def test_a_tombstone_and_a_record_of_the_next_format_stay_and_are_said_at_each_member(members: list[Member]) -> None:
    one, two = members
    own = two.get("cluster", two.name)
    stone, record = _stored("tombstone"), _stored("deleted_rules")
    stone["metadata"]["name"] = f"left-{own['spec']['clusterID']}.{own['metadata']['uid']}"
    stone["metadata"]["labels"] |= {
        meta.LEFT_MEMBER: own["spec"]["clusterID"],
        meta.LEFT_MEMBERSHIP: own["metadata"]["uid"],
        meta.LEFT_REPORTED_BY: one.get("cluster", one.name)["spec"]["clusterID"],
    }
    one.create(stone, record, rule("short", CONFIG_MAP, {"match": [{"objectKey": {"name": "nothing"}}]}))
    names = [made["metadata"]["name"] for made in (stone, record)]
    held = {name: one.get("clusterfeature", name) for name in names}
    for member in members:
        eventually(
            lambda member=member: all(name in _later_at(member, one) for name in names),  # type: ignore[misc]
            what=f"{member.name} says it",
        )
        assert not _later_at(member, two)
    eventually(lambda: two.find("resourcesyncrule", "short"), what="the rule at the other member")
    one.kubectl("delete", "resourcesyncrule", "short")
    eventually(lambda: two.find("resourcesyncrule", "short") is None, what="the rule is gone")
    steadily(lambda: {name: one.get("clusterfeature", name) for name in names} == held, what="they stay as they are")
    in_sync(members)
    one.kubectl("delete", "clusterfeature", *names)
    for member in members:
        eventually(lambda member=member: not _later_at(member, one), what=f"{member.name} says it no more")  # type: ignore[misc]


def _later_at(member: Member, other: Member) -> str:
    return str(member.condition("cluster", other.name, "LaterFormat").get("message", ""))
