"""A11: two versions of the daemon, of which one writes a later format, in one group and in one cluster."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.controlplane import Kubelet
from registry_controller import __version__
from registry_controller.api import meta
from registry_controller.cache.replicas import VERSION_LABEL
from tests.e2e.group import (
    API,
    BIN,
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
from tests.e2e.history import recorded

pytestmark = pytest.mark.nightly

LATER = Path(__file__).with_name("later")
_DEPLOYMENT = "deployment/cluster-registry-controller"
_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"
_COUNT = 10
_STATES = 12


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


@contextlib.contextmanager
def _later_beside(member: Member) -> Iterator[Kubelet]:
    """Run a replica of the later version beside the present one: a Deployment of its own, so that none is replaced."""
    found = member.get("-n", NAMESPACE, _DEPLOYMENT)
    template, label = found["spec"]["template"], {"only": "later"}
    template["metadata"]["labels"] |= {VERSION_LABEL: "9.9.9", **label}
    template["spec"]["containers"][0]["env"].append({"name": "PYTHONPATH", "value": str(LATER)})
    spec = {**found["spec"], "selector": {"matchLabels": {**found["spec"]["selector"]["matchLabels"], **label}}}
    info = {"name": "later", "namespace": NAMESPACE}
    member.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": info, "spec": spec})
    kubelet = Kubelet(member.cluster, namespace=NAMESPACE, deployment="later", path_prepend=[BIN])
    kubelet.start()
    try:
        kubelet.wait_ready(timeout_s=180)
        yield kubelet
        assert kubelet.restarts == 0
        assert '"level":"error"' not in kubelet.log.read_text(errors="replace")
    finally:
        kubelet.stop()
        member.kubectl("-n", NAMESPACE, "delete", "deployment", "later")


@pytest.mark.clause("A7", "A11")
def test_two_versions_at_work_in_one_cluster_share_the_copies_without_a_fight(members: list[Member]) -> None:
    """What the later one wrote stays its own; each state is stored once; the own Cluster names the later one.

    The earlier one starts again meanwhile, without its memory.
    """
    one, two = members
    labels, names = {"load": "both"}, [f"both-{number}" for number in range(_COUNT)]
    for member in members:
        member.kubectl("create", "namespace", "both")

    def put(state: int, *more: str) -> None:
        found = (config_map(name, {"state": str(state)}, namespace="both", labels=labels) for name in (*names, *more))
        two.apply(*found)

    def states() -> Mapping[str, str]:
        found = one.get("-n", "both", "configmaps", "-l", "load=both")["items"]
        return {item["metadata"]["name"]: item["data"]["state"] for item in found}

    put(0)
    match = {"match": [{"objectKey": {"namespace": "both"}, "labels": [{"matchLabels": labels}]}]}
    one.create(rule("both", CONFIG_MAP, match, deletionPolicy="Delete"))
    eventually(lambda: states() == dict.fromkeys(names, "0"), what="the copies of this version")
    assert {_format_at(copy) for copy in one.get("-n", "both", "configmaps", "-l", "load=both")["items"]} == {1}
    offset = one.cluster.audit_offset()
    with (
        recorded(one.cluster, "/api/v1/namespaces/both/configmaps?labelSelector=load%3Dboth") as copies,
        recorded(one.cluster, f"/apis/{API}/resourcesyncrules?fieldSelector=metadata.name%3Dboth") as rules,
        recorded(one.cluster, f"/apis/{API}/clusters?fieldSelector=metadata.name%3D{one.name}") as clusters,
    ):
        with _later_beside(one) as later:
            eventually(lambda: _version_at(one, one.name) == "9.9.9", what="the later version is named")
            for state in range(1, _STATES):
                put(state, f"new-{state}")
                names.append(f"new-{state}")
                eventually(lambda state=state: states().get(names[0]) == str(state), what=f"state {state}")  # type: ignore[misc]
                if state == _STATES // 2:
                    one.daemon.restart()
            one.daemon.wait_ready(timeout_s=180)
            gone = [names.pop(0), names.pop()]
            two.kubectl("-n", "both", "delete", "configmap", *gone)
            put(_STATES)
            eventually(lambda: states() == dict.fromkeys(names, str(_STATES)), what="the last state, and two are gone")
            steadily(lambda: states() == dict.fromkeys(names, str(_STATES)) and _version_at(one, one.name) == "9.9.9")
            texts = [one.log(), later.log.read_text(errors="replace"), json.dumps(rules)]
        assert not any("Contested" in text or "keeps changing it" in text for text in texts)
        eventually(lambda: _version_at(one, one.name) == __version__, what="the one that is left is named")
    _hold_shared(copies, gone=gone)
    versions = [json.loads(found["metadata"]["annotations"][meta.DAEMON])["version"] for found in clusters]
    turns = [version for version, _ in itertools.groupby(versions)]
    assert turns in (["9.9.9", __version__], [__version__, "9.9.9", __version__]), turns
    deleted = [
        line
        for line in one.cluster.audit(offset)
        if line["verb"] == "delete" and line["user"].get("username") == _ACCOUNT
        if line["objectRef"].get("namespace") == "both" and line["responseStatus"]["code"] == 200
    ]
    assert sorted(line["objectRef"]["name"] for line in deleted) == sorted(gone)
    last = {found["metadata"]["name"]: _format_at(found) for found in copies}
    for line in deleted:
        if last[line["objectRef"]["name"]] == 2:
            assert line["userAgent"] == "registry-controller/9.9.9"


def _hold_shared(copies: list[dict[str, Any]], *, gone: list[str]) -> None:
    """The later version wrote; no copy went back to the earlier format or state, and none was written twice."""
    formats: dict[str, list[int]] = {}
    written: dict[str, list[int]] = {}
    for copy in copies:
        name = copy["metadata"]["name"]
        formats.setdefault(name, []).append(_format_at(copy))
        written.setdefault(name, []).append(int(copy["data"]["state"]))
    for name, seen in formats.items():
        assert seen == sorted(seen), f"{name} was written again in the earlier format: {seen}"
    assert any(2 in seen for seen in formats.values())
    for name, states in written.items():
        assert len(states) == len(set(states)) + (name in gone), f"{name} was written twice: {states}"
        assert states == sorted(states), f"{name} went back: {states}"


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
