"""Planned results for tests, and an engine with the parts that the planner reads."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.cache.registry import Registry
from registry_controller.clusters.rule_selection import RuleSelection
from registry_controller.core.decision.decision import Apply, Decision, Delete, Reason
from registry_controller.core.decision.marks import Marks, Voice
from registry_controller.core.decision.state import Claim, CurrentCopy, Origin, TargetState
from registry_controller.engine import Engine
from registry_controller.planner.dry_run import PlannedResult
from registry_controller.planner.recording_client import RecordedWrite
from registry_controller.sync.reconciler import Judgment, Result
from tests.unit.status.engine_parts import FakeCache, FakeClusters, FakeCopies, FakeSources

LOCAL, PEER, OTHER = ClusterUID("uid-local"), ClusterUID("uid-peer"), ClusterUID("uid-other")
WIDGET = GVK("example.com", "v1", "Widget")
KEY = ObjectKey("default", "x")
TARGET = Target(WIDGET.group, WIDGET.kind, *KEY)
COPY = CurrentCopy(Marks(PEER, None, False, False), "u", 1)


def claim(owner: ClusterUID = PEER, *, rule: str = "rule", created: str = "2026-01-01", **fields: Any) -> Claim:
    return Claim(owner, owner, Voice.OWNER, WIDGET, KEY, f"uid-{owner}", created, 7, rule, **fields)


def state(
    *claims: Claim, target: Target = TARGET, current: CurrentCopy | None = None, rule: str = "", **fields: Any
) -> TargetState:
    members = frozenset((LOCAL, PEER, OTHER))
    return TargetState(target, claims, current, LOCAL, known=members, alive=members, origin=Origin(rule), **fields)


APPLY = Apply(claim(), Reason.CREATE)
DELETE = Delete("u", 1, Reason.SOURCE_DELETED, PEER)


def planned(
    decision: Decision,
    *writes: RecordedWrite,
    result: Decision | None = None,
    view: TargetState | None = None,
    error: RegistryError | None = None,
    losers: tuple[str, ...] = (),
) -> PlannedResult:
    """Build the plan for one target; by default the decision is applied as it is."""
    read = view or state(*([decision.claim] if isinstance(decision, Apply) else []), rule="rule")
    return PlannedResult(Judgment(read, (), decision), Result(result or decision, losers), writes, error)


def engine(
    registry: Registry,
    *,
    clusters: FakeClusters | None = None,
    sources: Iterable[FakeCache] = (),
    copies: Iterable[FakeCache] = (),
) -> Engine:
    parts: Any = SimpleNamespace(
        local=LOCAL,
        registry=registry,
        selection=RuleSelection(registry=registry, local=LOCAL),
        clusters=clusters or FakeClusters(),
        sources=FakeSources(*sources),
        copies=FakeCopies(*copies),
    )
    return cast(Engine, parts)
