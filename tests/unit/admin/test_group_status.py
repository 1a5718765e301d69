"""The status of a group from Leases, or else from the status of Clusters and rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from registry_controller.admin.group_status import GroupStatus, MemberName, build_document
from registry_controller.admin.member_view import MemberObjects, SiteView, read_rule, view_member
from registry_controller.api import meta
from registry_controller.api.daemon_lease import DaemonLease
from registry_controller.api.daemon_report import CopyCounts, DaemonReport, DefinitionReport, PeerReport, RuleReport
from registry_controller.api.meta import ClusterUID
from registry_controller.api.names import CORE_RULES
from registry_controller.api.tombstone import Tombstone, tombstone_manifest
from registry_controller.cli.global_options import GlobalOptions
from registry_controller.cli.output import Cell, Form
from registry_controller.cli.status import print_status
from registry_controller.cli.status_tables import Section, build_sections, format_age

NOW = datetime(2026, 1, 10, 12, 0, 0, tzinfo=UTC)
ID = {name: ClusterUID(f"id-{name}") for name in "abc"}


def cluster(name: str, *, state: str = "Ready", message: str = "") -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(state == "Ready"), "lastTransitionTime": "2026-01-10T11:00:00Z"}
    return {
        "metadata": {"name": name, "annotations": {meta.DAEMON: '{"version": "0.1.0"}'}},
        "spec": {"clusterID": ID[name]},
        "status": {"state": state, "message": message, "conditions": [condition]},
    }


def report(name: str, *peers: PeerReport, **more: Any) -> DaemonReport:
    own = PeerReport(name, ID[name], "Ready", is_local=True)
    return DaemonReport("0.2.0", "2026-01-10T10:00:00Z", name, ID[name], peers=(own, *peers), **more)


def lease(found: DaemonReport | None, *, ago_s: float = 10.0) -> DaemonLease:
    return DaemonLease("lease", "pod", NOW - timedelta(seconds=ago_s), found)


def peer(name: str, state: str = "Ready", reason: str = "") -> PeerReport:
    return PeerReport(name, ID[name], state, reason, "2026-01-10T11:00:00Z", "2026-01-10T11:59:00Z")


def texts(section: Section) -> list[list[str]]:
    return [[cell if isinstance(cell, str) else cell.text for cell in row] for row in section.table.rows]


def view(name: str, *leases: DaemonLease, clusters: Any = None, rules: Any = (), features: Any = ()) -> SiteView:
    stored = [cluster(name)] if clusters is None else clusters
    objects = MemberObjects(ID[name], clusters=stored, rules=rules, features=features, leases=leases)
    return view_member(f"kind-{name}", objects, server_version="v1.36.0", now=NOW)


def test_all_is_well_where_every_member_reads_every_other_one() -> None:
    status = GroupStatus([view("a", lease(report("a", peer("b")))), view("b", lease(report("b", peer("a"))))])
    assert status.problems == []
    assert build_document(status)["isWell"] is True
    json.dumps(build_document(status))


def test_a_member_that_is_not_known_or_not_read_is_a_problem() -> None:
    failed = peer("c", "Failed", "no answer in time")
    status = GroupStatus([view("a", lease(report("a", peer("b"), failed))), view("b", lease(report("b", peer("a"))))])
    assert status.problems == [
        "a: c is Failed: no answer in time",
        "b does not know c; let them join by `registry-controller join`",
    ]


def test_a_cluster_that_has_left_is_named_as_such() -> None:
    stone = tombstone_manifest(Tombstone(ID["c"], "uid-c", ID["c"], date(2026, 4, 10)))
    left = view("c", lease(None), clusters=[], features=[stone])
    status = GroupStatus([view("a", lease(report("a"))), left])
    assert status.problems == ["kind-c: has left its group; leave out this context, or let it join again"]
    assert [member["hasLeft"] for member in build_document(status)["members"]] == [False, True]
    (members, *_) = build_sections(status, now=NOW)
    row = [cell if isinstance(cell, str) else cell.text for cell in members.table.rows[1]]
    assert row == ["kind-c", "has left", "-", "-", "-", "-"]
    others = view("c", lease(None), clusters=[], features=[])
    assert GroupStatus([others]).problems == ["kind-c: has no Cluster of its own; read the log of its daemon"]
    again = view("c", lease(report("c")), features=[stone])
    assert GroupStatus([again]).problems == []


def warned(kind: str, status: str, message: str) -> dict[str, Any]:
    found = cluster("b")
    found["status"]["conditions"].append({"type": kind, "status": status, "message": message})
    return found


HALTED = "60 copies of this cluster's objects would be deleted"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("DeletionHalted", f"{HALTED}; counts: baseline=100 counted=60"),
        ("RulesMissing", "ResourceSyncRules maps are missing in this cluster"),
        ("OwnClusterMissing", "it has no Cluster of itself"),
        ("AuthInfoNotUsed", "it is read with other credentials"),
        ("LaterFormat", "a later version of the daemon wrote in this cluster"),
    ],
)
def test_a_condition_of_a_member_that_is_ready_is_a_problem(kind: str, message: str) -> None:
    status = GroupStatus([view("a", lease(report("a")), clusters=[cluster("a"), warned(kind, "True", message)])])
    shown = message.partition("; counts")[0]
    assert status.problems == [f"a: Cluster b has the condition {kind}: {shown}"]
    (member,) = build_document(status)["members"]
    assert member["warnings"] == [{"cluster": "b", "kind": kind, "message": shown}]


def test_a_condition_that_does_not_hold_and_one_that_is_as_it_should_be_are_no_problem() -> None:
    for kind, holds in (("DeletionHalted", "False"), ("ClustersSynced", "True"), ("Ready", "True")):
        status = GroupStatus([view("a", lease(report("a")), clusters=[cluster("a"), warned(kind, holds, "words")])])
        assert status.problems == []


def differing(*, ago_s: int | None, state: str = "Ready") -> dict[str, Any]:
    """Return the Cluster b, which does not find this member."""
    found = cluster("b", state=state)
    condition = {"type": "ClustersSynced", "status": "False", "message": "does not find cluster a Ready"}
    if ago_s is not None:
        condition["lastTransitionTime"] = f"{NOW - timedelta(seconds=ago_s):%Y-%m-%dT%H:%M:%SZ}"
    found["status"]["conditions"].append(condition)
    return found


@pytest.mark.parametrize(("ago_s", "is_problem"), [(59, False), (61, True), (None, True)])
def test_a_member_that_does_not_read_the_one_context_is_a_problem_after_a_minute(
    ago_s: int | None, is_problem: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """That member alone shows it otherwise, so that `status` with one context showed that all is well."""
    clusters = [cluster("a"), differing(ago_s=ago_s)]
    words = "a: the Clusters in b are not in step: does not find cluster a Ready; give its --context, too"
    for leases in ((lease(report("a", peer("b"))),), ()):
        status = GroupStatus([view("a", *leases, clusters=clusters)])
        assert status.problems == ([words] if is_problem else [])
        assert print_out(status, capsys)[1] == ([words, "1 problem"] if is_problem else ["all is well"])
        (member,) = build_document(status)["members"]
        assert len(member["notInStep"]) == is_problem


def test_a_member_that_is_viewed_itself_or_not_read_is_no_further_problem() -> None:
    failed = peer("a", "Failed", "refused")
    one = view("a", lease(report("a", peer("b"))), clusters=[cluster("a"), differing(ago_s=600)])
    other = view("b", lease(report("b", failed)))
    assert GroupStatus([one, other]).problems == ["b: a is Failed: refused"]
    alone = view("a", clusters=[cluster("a"), differing(ago_s=600, state="Failed")])
    assert GroupStatus([alone]).problems == ["a: b is Failed: does not find cluster a Ready"]


def test_the_new_address_of_a_member_that_is_not_read_is_named_with_the_join() -> None:
    one = view("a", lease(report("a", peer("b", "Failed", "https://old refuses connections"))))
    status = GroupStatus([one, view("b", lease(report("b", peer("a"))))], {(ID["a"], ID["b"]): "https://new"})
    assert status.problems == [
        "a: b is Failed: https://old refuses connections; it has the address https://new now: run "
        "`registry-controller join` with the contexts of both"
    ]


def test_a_daemon_without_a_lease_is_shown_by_its_clusters_and_rules() -> None:
    found = view("a", clusters=[cluster("a"), cluster("b", state="Failed", message="refused")])
    assert (found.version, found.has_lease) == ("0.1.0", False)
    assert [(one.name, one.state, one.since, one.is_local) for one in found.peers] == [
        ("a", "Ready", "2026-01-10T11:00:00Z", True),
        ("b", "Failed", "2026-01-10T11:00:00Z", False),
    ]
    assert GroupStatus([found]).problems == ["a: b is Failed: refused"]


def test_a_lease_that_is_not_renewed_is_a_problem_and_its_report_does_not_count() -> None:
    found = view("a", lease(report("a", peer("b")), ago_s=600))
    assert found.is_silent
    assert [one.name for one in found.peers] == ["a"]
    assert "did not renew its Lease since 2026-01-10T11:50:00Z" in GroupStatus([found]).problems[0]


def test_of_several_daemons_the_problem_of_one_counts() -> None:
    other = report("a", peer("b", "Failed", "cut off"))
    found = view("a", lease(report("a", peer("b"))), lease(other, ago_s=20), lease(report("a"), ago_s=900))
    assert [(one.name, one.state) for one in found.peers] == [("a", "Ready"), ("b", "Failed")]


def test_a_report_of_a_later_format_leaves_the_status_of_the_clusters() -> None:
    found = view("a", lease(None), clusters=[cluster("a"), cluster("b")])
    assert [one.name for one in found.peers] == ["a", "b"]
    assert not found.is_silent


def test_a_cluster_that_cannot_be_read_is_a_problem() -> None:
    status = GroupStatus([view("a", lease(report("a"))), SiteView("kind-b", failure="context kind-b: no answer")])
    assert status.problems == ["context kind-b: no answer"]
    (section, *_) = build_sections(status, now=NOW)
    assert "cannot be read" in [cell.text for cell in section.table.rows[1] if isinstance(cell, Cell)]


@pytest.mark.parametrize(
    ("reason", "is_problem"),
    [("Conflict", True), ("Failing", True), ("Suspended", False), ("NotAllowedHere", False), ("ClosedHere", False)],
)
def test_rules_that_are_not_in_step_are_shown_and_count_unless_that_is_intended(reason: str, is_problem: bool) -> None:
    rule = RuleReport("r", "False", reason, "why")
    status = GroupStatus([view("a", lease(report("a", rules=(rule,))))])
    assert [at.rule.name for at in status.rules] == ["r"]
    assert bool(status.problems) is is_problem


def test_copies_are_added_up_by_rule_and_owner() -> None:
    rule = RuleReport("r", "True", owners=(CopyCounts("b", in_step=2, held=1),))
    one = view("a", lease(report("a", rules=(rule,))))
    status = GroupStatus([one, replace(one, label="kind-c", name="c", cluster_id="id-c")])
    (found,) = status.copies
    assert (found.rule, found.counts) == ("r", CopyCounts("b", in_step=4, held=2))


def test_copies_of_core_rules_that_are_in_step_are_in_the_wide_form_only() -> None:
    (core, *_) = CORE_RULES
    for counts, is_shown in ((CopyCounts("b", in_step=2), False), (CopyCounts("b", behind=1), True)):
        status = GroupStatus([view("a", lease(report("a", rules=(RuleReport(core, "True", owners=(counts,)),))))])
        titles = [section.title for section in build_sections(status, now=NOW)]
        assert ("copies by rule and owner" in titles) is is_shown
        assert "copies by rule and owner" in [one.title for one in build_sections(status, now=NOW, is_wide=True)]


def test_a_rule_without_a_report_is_read_from_its_status() -> None:
    entry = {"name": "b", "matched": 9, "synced": 3, "failing": 1, "conflicting": 2, "skipped": 1, "held": 4}
    manifest = {
        "metadata": {"name": "r"},
        "status": {
            "conditions": [
                {"type": "Accepted", "status": "True", "reason": "Accepted"},
                {"type": "Synced", "status": "False", "reason": "Failing", "message": "1 failing"},
            ],
            "clusters": [entry],
        },
    }
    counts = CopyCounts("b", in_step=3, behind=2, failing=1, held=4, conflicting=2, skipped=1)
    assert read_rule(manifest) == RuleReport("r", "False", "Failing", "1 failing", (counts,))
    refused = [{"type": "Accepted", "status": "False", "reason": "Invalid", "message": "spec.rules"}]
    assert read_rule({**manifest, "status": {"conditions": refused}}).reason == "Invalid"
    assert read_rule({"metadata": {"name": "r"}}) == RuleReport("r")


def test_definitions_that_drop_fields_are_a_problem() -> None:
    found = view("a", lease(report("a", definitions=(DefinitionReport("Cluster", "", ("spec.x",)),))))
    assert GroupStatus([found]).problems == ["a: its definitions lack Cluster: spec.x; apply the CRDs of this release"]


def test_the_tables_of_several_members_and_of_one() -> None:
    """The golden form of the tables, without colors."""
    one = view("a", lease(report("a", peer("b", "Failed", "no answer"))))
    two = view("b", lease(report("b", peer("a"))))
    (section, *_) = build_sections(GroupStatus([one, two]), now=NOW)
    shown = section.table.select_columns(is_wide=False)
    assert [*shown.headings] == ["MEMBER", "DAEMON", "CRDS", "a", "b"]
    assert [[cell if isinstance(cell, str) else cell.text for cell in row] for row in shown.rows] == [
        ["a", "0.2.0", "-", "local", "Failed 60m"],
        ["b", "0.2.0", "-", "Ready 60m", "local"],
    ]
    (section, *_) = build_sections(GroupStatus([one]), now=NOW)
    assert texts(section) == [
        ["a (here)", "local", "-", "here", "0.2.0", "-", ""],
        ["b", "Failed", "60m", "60s ago", "-", "-", "no answer"],
    ]


def test_the_members_of_a_large_group_are_not_sought_again_for_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[GroupStatus] = []
    find = GroupStatus.members.fget  # type: ignore[attr-defined]

    def find_members(status: GroupStatus) -> Sequence[MemberName]:
        sought.append(status)
        return find(status)  # type: ignore[no-any-return]

    monkeypatch.setattr(GroupStatus, "members", property(find_members))
    status = GroupStatus([replace(view("a", lease(report("a", peer("b")))), label=f"kind-{at}") for at in range(20)])
    (section, *_) = build_sections(status, now=NOW)
    assert [len(row) for row in section.table.rows] == [7] * 20
    assert len(sought) <= 3


def test_the_wide_table_of_several_members_has_the_last_contacts() -> None:
    one = view("a", lease(report("a", peer("b", "Failed", "no answer"))))
    two = view("b", lease(report("b", replace(peer("a"), last_contact=""))))
    (section, *_) = build_sections(GroupStatus([one, two]), now=NOW, is_wide=True)
    assert [*section.table.headings] == ["MEMBER", "DAEMON", "CRDS", "KUBERNETES", "RENEWED", "a", "b"]
    assert texts(section) == [
        ["a", "0.2.0", "-", "v1.36.0", "10s ago", "local", "Failed 60m, contact 60s ago"],
        ["b", "0.2.0", "-", "v1.36.0", "10s ago", "Ready 60m", "local"],
    ]


DEFINED = (DefinitionReport("Cluster", "2026-01-09T12:00:00Z"), DefinitionReport("ClusterFeature"))


@pytest.mark.parametrize(
    ("leases", "shown"),
    [
        ((), ("0.1.0", "-")),
        ((lease(report("b", definitions=DEFINED)), lease(None, ago_s=20)), ("0.2.0", "24h")),
        ((lease(report("b", definitions=DEFINED), ago_s=600),), ("0.1.0", "-")),
        ((lease(report("b")),), ("0.2.0", "-")),
    ],
    ids=["annotation", "lease", "lease-that-is-not-renewed", "lease-without-definitions"],
)
def test_one_member_shows_the_daemons_of_the_others(leases: Any, shown: tuple[str, str]) -> None:
    """From their Leases, or else from the annotation of their Clusters."""
    stored = [cluster("a"), cluster("b")]
    objects = MemberObjects(
        ID["a"], clusters=stored, leases=[lease(report("a", peer("b")))], peer_leases={ID["b"]: leases}
    )
    status = GroupStatus([view_member("kind-a", objects, server_version="v1.36.0", now=NOW)])
    (section, *_) = build_sections(status, now=NOW)
    assert texts(section)[1][:6] == ["b", "Ready", "60m", "60s ago", *shown]
    (member,) = build_document(status)["members"]
    own, other = member["peers"]
    assert (own["daemonVersion"], other["daemonVersion"]) == ("0.2.0", shown[0])
    assert other["definitionsSince"] == ("2026-01-09T12:00:00Z" if shown[1] != "-" else None)


def test_the_form_name_has_the_clusters_of_all_members(capsys: pytest.CaptureFixture[str]) -> None:
    status = GroupStatus([view("b", lease(report("b", peer("a"), peer("c", "Failed", "no answer"))))])
    print_status(GlobalOptions(form=Form.NAME), status)
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [f"cluster.{meta.GROUP}/{name}" for name in "abc"]
    assert shown.err == "b: c is Failed: no answer\n1 problem\n"


def print_out(status: GroupStatus, capsys: pytest.CaptureFixture[str], form: Form = Form.TEXT) -> tuple[str, list[str]]:
    print_status(GlobalOptions(form=form), status)
    shown = capsys.readouterr()
    return shown.out, shown.err.splitlines()


LACKING = RuleReport("lacking", "False", "Waiting", "here: Endpoints: forbidden")


def test_a_fault_that_a_table_shows_in_full_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    failed = peer("b", "Failed", "no answer in time")
    alone = GroupStatus([view("a", lease(report("a", failed, rules=(LACKING,))))])
    out, err = print_out(alone, capsys)
    assert (out.count("no answer in time"), out.count("here: Endpoints: forbidden")) == (1, 1)
    assert err == ["2 problems"]
    out, err = print_out(alone, capsys, Form.JSON)
    assert json.loads(out)["problems"] == alone.problems
    assert err == ["2 problems"]


def test_what_a_table_has_no_room_for_is_on_the_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    failed = peer("b", "Failed", "no answer in time")
    one, two = view("a", lease(report("a", failed, rules=(LACKING,)))), view("b", lease(report("b")))
    out, err = print_out(GroupStatus([one, two]), capsys)
    assert "Failed " in out
    assert "no answer in time" not in out
    assert err == [
        "a: b is Failed: no answer in time",
        "b does not know a; let them join by `registry-controller join`",
        "3 problems",
    ]


def stored_rule(name: str, message: str, stalled: str, *failures: str) -> dict[str, Any]:
    conditions = [
        {"type": "Accepted", "status": "True"},
        {"type": "Ready", "status": "False", "reason": "Failing", "message": message},
        {"type": "Stalled", "status": "True", "reason": "ActionNeeded", "message": stalled},
    ]
    entry = {"name": "b", "failures": [{"object": one, "message": "refused"} for one in failures]}
    return {"metadata": {"name": name}, "status": {"conditions": conditions, "clusters": [entry]}}


def test_further_causes_of_a_rule_are_counted_and_the_wide_form_and_documents_have_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "here: Endpoints: " + "forbidden " * 40 + "here"
    manifest = stored_rule("r", f"2 failing; {long}", f"{long}; peer b: Endpoints: forbidden", "x")
    reported = RuleReport("r", "False", "Failing", f"2 failing; {long}"[:297] + "...")  # as a Lease has it
    for leases in ((lease(report("a", rules=(reported,))),), ()):
        status = GroupStatus([view("a", *leases, rules=[manifest])])
        message = f"2 failing; {long}"
        more = " (and 2 more: kubectl describe rsr/r)"
        assert status.problems == [f"a: rule r: Failing: {message}{more}"]
        out, _ = print_out(status, capsys)
        assert f"{message}{more}\n" in out
        out, _ = print_out(status, capsys, Form.WIDE)
        assert f"{message}; peer b: Endpoints: forbidden; x: refused\n" in out
        assert "kubectl describe" not in out
        (shown,) = build_document(status)["members"][0]["rules"]
        assert shown["causes"] == [long, "peer b: Endpoints: forbidden", "x: refused"]


def test_a_rule_with_one_cause_has_no_further_ones() -> None:
    manifest = stored_rule("r", "1 failing; here: x: refused", "here: x: refused", "x")
    (at,) = GroupStatus([view("a", rules=[manifest])]).rules
    assert at.message == "1 failing; here: x: refused"


def test_a_member_that_has_not_answered_is_named_as_such() -> None:
    status = GroupStatus([view("a", lease(report("a", peer("b", ""))))])
    assert status.problems == ["a: b has no answer yet"]


@pytest.mark.parametrize(
    ("moment", "age"),
    [
        ("2026-01-10T11:59:30Z", "30s"),
        ("2026-01-10T11:58:00Z", "2m"),
        ("2026-01-10T09:00:00Z", "3h"),
        ("2026-01-07T12:00:00Z", "3d"),
        ("2026-01-10T12:05:00Z", "0s"),
        ("", ""),
        ("no time", ""),
    ],
)
def test_ages_are_as_those_of_kubectl(moment: str, age: str) -> None:
    assert format_age(moment, NOW) == age
