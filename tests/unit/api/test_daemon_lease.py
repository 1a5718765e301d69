"""The Lease of a daemon: reading what was written, its bound, and versions that add to it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.daemon_lease import DURATION_S, lease_manifest, lease_name, read_lease, spell_time
from registry_controller.api.daemon_report import (
    CopyCounts,
    DaemonReport,
    DefinitionReport,
    PeerReport,
    RuleReport,
    read_report,
    write_report,
)
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import ClusterUID, Manifest

NOW = datetime(2026, 1, 31, 12, 0, 1, 500, tzinfo=UTC)
REPORT = DaemonReport(
    version="1.2.3",
    started="2026-01-31T11:00:00Z",
    cluster_name="a",
    cluster_id=ClusterUID("0000000a"),
    formats={"provenance": 1},
    definitions=(DefinitionReport("Cluster", "2026-01-01T00:00:00Z", ("status.state",)),),
    peers=(
        PeerReport("c", ClusterUID("0000000c"), "Failed", "timed out", "2026-01-31T11:30:00Z", "2026-01-31T11:29:00Z"),
        PeerReport("a", ClusterUID("0000000a"), "Ready", is_local=True),
    ),
    rules=(
        RuleReport("secrets", "False", "Failing", "1 failing", (CopyCounts("c", 1, 2, 3, 4, 5, 6),)),
        RuleReport("maps", "True", "Synced"),
    ),
    rules_total=2,
    rules_ready=1,
)


def lease(report: DaemonReport = REPORT) -> Manifest:
    return lease_manifest(report, namespace="cluster-registry", holder="controller-7d9f", now=NOW)


def with_report(change: dict[str, Any]) -> str:
    return json.dumps({**json.loads(write_report(REPORT)), **change})


def test_a_copy_of_a_lease_is_no_lease_of_a_daemon_here() -> None:
    copy = lease()
    copy["metadata"]["annotations"][meta.OWNER] = "0000000c"
    with pytest.raises(InvalidObject, match="marks a copy"):
        read_lease(copy)


def test_a_lease_is_read_as_it_was_written() -> None:
    found = read_lease(lease())
    assert found.report == REPORT
    assert (found.name, found.holder, found.renewed) == ("cluster-registry-controller-7d9f", "controller-7d9f", NOW)


def test_times_have_the_form_that_an_api_server_takes() -> None:
    spec = lease()["spec"]
    assert (spec["acquireTime"], spec["renewTime"]) == ("2026-01-31T11:00:00.000000Z", "2026-01-31T12:00:01.000500Z")
    assert spell_time(NOW) == "2026-01-31T12:00:01Z"


@pytest.mark.parametrize(
    ("after_s", "is_current"), [(0, True), (DURATION_S - 1, True), (DURATION_S + 1, False), (-DURATION_S - 1, False)]
)
def test_a_lease_that_was_not_renewed_is_not_current(after_s: int, is_current: bool) -> None:
    assert read_lease(lease()).is_current(NOW + timedelta(seconds=after_s)) is is_current


@pytest.mark.parametrize(
    ("holder", "name"),
    [
        ("controller-7d9f-x2", "cluster-registry-controller-7d9f-x2"),
        ("Host_1.example.", "cluster-registry-host-1.example"),
        ("", "cluster-registry-daemon"),
        ("é", "cluster-registry-daemon"),
        ("a" * 300, "cluster-registry-" + "a" * 236),
    ],
)
def test_a_name_is_one_that_an_api_server_takes(holder: str, name: str) -> None:
    assert lease_name(holder) == name


def test_fields_of_a_later_version_are_ignored_within_the_format() -> None:
    peers = [{"name": "b", "clusterID": "0000000b", "state": "Ready", "load": 3}]
    found = read_report(with_report({"weather": {"x": 1}, "peers": peers}))
    assert found == replace(REPORT, peers=(PeerReport("b", ClusterUID("0000000b"), "Ready"),))


@pytest.mark.parametrize("number", [2, 0, True, "1", None])
def test_a_report_of_a_later_format_is_not_read(number: object) -> None:
    assert read_report(with_report({"format": number})) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}"])
def test_a_text_that_is_no_report_is_none(text: str) -> None:
    assert read_report(text) is None


def test_fields_of_other_types_are_ignored() -> None:
    hostile: dict[str, Any] = {
        "version": 1,
        "formats": [],
        "peers": [7, {"name": [], "isLocal": "yes"}],
        "rules": {"a": 1},
        "rulesTotal": -4,
        "rulesReady": True,
        "definitions": [{"kind": "Cluster", "drops": "x"}],
    }
    found = read_report(with_report(hostile))
    assert found is not None
    assert (found.version, found.formats, found.rules, found.rules_total, found.rules_ready) == ("", {}, (), 0, 0)
    assert found.peers == (PeerReport("", ClusterUID("")),)
    assert found.definitions == (DefinitionReport("Cluster"),)


@pytest.mark.parametrize("label", [None, "false"])
def test_another_lease_is_refused(label: str | None) -> None:
    info = {"name": "kube-scheduler", "labels": {} if label is None else {meta.DAEMON_LEASE: label}}
    with pytest.raises(InvalidObject, match="it is no Lease of a daemon"):
        read_lease({"metadata": info, "spec": {}})


def test_a_lease_without_a_time_is_not_current() -> None:
    bare = {"metadata": {"name": "x", "labels": {meta.DAEMON_LEASE: "true"}}}
    assert not read_lease(bare).is_current(NOW)


@pytest.mark.parametrize(
    ("rules", "owners", "text"), [(5000, 1, "x"), (1000, 300, "x"), (400, 1, "\N{SNOWMAN}" * 400), (2, 5000, "x")]
)
def test_a_large_group_fits_in_a_lease_and_what_is_not_in_step_is_kept(rules: int, owners: int, text: str) -> None:
    counts = tuple(CopyCounts(f"cluster-{number}", 10_000, 1, 1, 1, 1, 1) for number in range(owners))
    found = tuple(RuleReport(f"rule-{number:05}", "True", "Synced", text, counts) for number in range(rules))
    failing = RuleReport("z-last", "False", "Failing", text)
    peers = tuple(PeerReport(f"cluster-{number}", ClusterUID("x" * 64), "Failed", text) for number in range(300))
    written = write_report(replace(REPORT, peers=peers, rules=(*found, failing)))
    assert len(written.encode()) <= 128 * 1024
    back = read_report(written)
    assert back is not None
    assert back.rules[0].name == "z-last"
    assert back.rules_left_out + len(back.rules) == rules + 1
    assert len(back.peers) == 200
