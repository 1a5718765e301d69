"""A11: two versions of the daemon, of which one writes a later format, in one group and in one cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
