"""S5: what the Lease of a daemon reports about Clusters and rules is what their statuses say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from registry_controller.api.daemon_report import CopyCounts, DefinitionReport, PeerReport
from registry_controller.status.summary import StatusSummary
from tests.unit.status.engine_parts import LOCAL, PEER, FakeClusters, FakePeer, cluster, registry, resolved, rule

pytestmark = pytest.mark.clause("S5")

BEGAN = datetime(2026, 1, 31, 12, tzinfo=UTC)
DEFINITION = DefinitionReport("Cluster", "2026-01-01T00:00:00Z")


class World:
    """A summary over two Clusters and two rules, a clock, and the number of changes."""

    def __init__(self) -> None:
        self.now, self.changes = BEGAN, 0
        self.registry = registry(clusters=[cluster("a", LOCAL), cluster()], rules=[rule("secrets"), rule("maps")])
        self.peer = FakePeer()
        self.peer.silence_s = 90.0
        self.summary = StatusSummary(
            registry=self.registry,
            clusters=cast(Any, FakeClusters(resolved("a", LOCAL), resolved(), peers=[self.peer])),
            local=LOCAL,
            definitions=lambda: (DEFINITION,),
            now=lambda: self.now,
        )
        self.summary.on_change = self._note
        self.note("a", "Ready")

    def _note(self) -> None:
        self.changes += 1

    def note(self, name: str, state: str | None, message: str = "", current: Any = None) -> None:
        self.summary.note_cluster(name, {"state": state, "message": message or None}, current=current)

    def peer_b(self) -> PeerReport:
        (found,) = [one for one in self.summary.report().peers if one.name == "b"]
        return found


def ready(status: str, reason: str, **fields: Any) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": "text"}], **fields}


def test_it_reports_the_daemon_and_its_cluster() -> None:
    found = World().summary.report()
    assert (found.cluster_name, found.cluster_id, found.started) == ("a", LOCAL, "2026-01-31T12:00:00Z")
    assert found.definitions == (DEFINITION,)
    assert [(one.name, one.is_local) for one in found.peers] == [("a", True)]


def test_a_state_has_the_time_of_its_beginning_and_the_time_of_the_last_answer() -> None:
    world = World()
    world.note("b", "Ready")
    world.now += timedelta(minutes=5)
    world.note("b", "Failed", "timed out")
    world.now += timedelta(minutes=1)
    world.note("b", "Failed", "refused")
    assert world.peer_b() == PeerReport("b", PEER, "Failed", "refused", "2026-01-31T12:05:00Z", "2026-01-31T12:04:30Z")


def test_after_a_start_the_stored_status_has_the_time() -> None:
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-30T00:00:00Z"}]
    world = World()
    world.note("b", "Failed", current={"state": "Failed", "conditions": conditions})
    assert world.peer_b().since == "2026-01-30T00:00:00Z"
    world.note("b", "Ready", current={"state": "Failed", "conditions": conditions})
    assert world.peer_b().since == "2026-01-31T12:00:00Z"


def test_only_another_state_or_readiness_is_a_change() -> None:
    world = World()
    before = world.changes
    world.note("b", "Ready")
    world.note("b", "Ready", "another text")
    assert world.changes == before + 1
    world.summary.note_rule("maps", ready("True", "Synced", clusters=[{"clusterID": PEER, "synced": 1}]))
    world.summary.note_rule("maps", ready("True", "Synced", clusters=[{"clusterID": PEER, "synced": 2}]))
    assert world.changes == before + 2
    world.summary.note_rule("maps", ready("False", "Failing"))
    world.note("b", "Failed")
    assert world.changes == before + 4


def test_copies_are_counted_by_owner_and_state() -> None:
    world = World()
    entry = {
        "clusterID": PEER, "name": "b", "matched": 15, "synced": 5, "failing": 1, "held": 2, "skipped": 3,
        "conflicting": 4,
    }  # fmt: skip
    world.summary.note_rule("secrets", ready("False", "Failing", clusters=[entry]))
    world.summary.note_rule("maps", ready("True", "Synced", clusters=[{"clusterID": PEER, "matched": 1, "synced": 1}]))
    found = world.summary.report()
    assert (found.rules_total, found.rules_ready) == (2, 1)
    assert [(one.name, one.ready, one.reason) for one in found.rules] == [
        ("secrets", "False", "Failing"), ("maps", "True", "Synced"),
    ]  # fmt: skip
    assert found.rules[0].owners == (CopyCounts("b", in_step=5, behind=2, failing=1, held=2, conflicting=4, skipped=3),)
    assert found.rules[1].owners == (CopyCounts(PEER, in_step=1),)


def test_what_was_deleted_is_reported_no_more() -> None:
    world = World()
    world.note("b", "Ready")
    world.summary.note_rule("maps", ready("True", "Synced"))
    before = world.changes
    world.registry.apply("clusters", "DELETED", cluster())
    world.summary.drop_cluster("b")
    world.registry.apply("resourcesyncrules", "DELETED", rule("maps"))
    world.summary.drop_rule("maps")
    world.summary.drop_rule("unknown")
    assert world.changes == before + 2
    found = world.summary.report()
    assert [one.name for one in found.peers] == ["a"]
    assert (found.rules, found.rules_total) == ((), 1)


def test_a_report_has_no_more_rules_than_there_is_room_for() -> None:
    world = World()
    owners = [{"clusterID": f"uid-{number}", "synced": 1} for number in range(900)]
    world.summary.note_rule("maps", ready("True", "Synced", clusters=owners))
    world.summary.note_rule("secrets", ready("False", "Failing", clusters=owners))
    found = world.summary.report()
    assert [one.name for one in found.rules] == ["secrets"]
    assert (found.rules_ready, found.rules_total, found.rules_left_out) == (1, 2, 1)
