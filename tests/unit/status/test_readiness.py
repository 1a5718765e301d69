"""What an engine still waits for, and what needs an administrator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from registry_controller.api.errors import ApiError, Forbidden, NotServed, Unreachable
from registry_controller.api.meta import GVK
from registry_controller.engine import Engine
from registry_controller.status.readiness import find_unserved_kinds, list_pending, list_problems
from tests.unit.status.engine_parts import (
    LOCAL,
    OTHER,
    WIDGET,
    FakeCache,
    FakeClusters,
    FakeCopies,
    FakePeer,
    FakeSources,
    registry,
    resolved,
    rule,
    stream,
)

FORBIDDEN = Forbidden("watch widgets.example.com/v1: 403 Forbidden", status=403)
RULES = ["rule"]


def engine(
    clusters: FakeClusters | None = None,
    *,
    sources: FakeSources | None = None,
    copies: FakeCopies | None = None,
    namespaces: bool = True,
    orphans: bool = True,
) -> Engine:
    parts: Any = SimpleNamespace(
        local=LOCAL,
        clusters=clusters
        or FakeClusters(resolved(), peers=[FakePeer()], rules=registry(rules=[rule()]).active_rules(LOCAL)),
        sources=sources or FakeSources(FakeCache()),
        copies=copies or FakeCopies(FakeCache()),
        namespaces=SimpleNamespace(is_complete=namespaces),
        orphans=SimpleNamespace(is_complete=orphans),
    )
    return cast(Engine, parts)


def test_nothing_is_pending_when_all_caches_are_complete() -> None:
    assert list_pending(engine()) == []
    assert list_problems(engine(), rules=RULES) == []


def test_before_the_first_plan_the_registrys_kinds_are_pending() -> None:
    clusters = FakeClusters()
    clusters.is_current = False
    assert list_pending(engine(clusters)) == ["the registry's kinds"]


def test_namespaces_orphans_secrets_and_local_kinds_are_pending() -> None:
    clusters = FakeClusters(resolved(waiting=True))
    copies = FakeCopies(FakeCache(streams=[stream(is_complete=False)]))
    assert list_pending(engine(clusters, copies=copies, namespaces=False, orphans=False)) == [
        "here: namespaces", "here: orphaned copies", "here: the Secret of Cluster b", f"here: {WIDGET}",
    ]  # fmt: skip


def test_a_peer_is_pending_until_it_is_connected_and_its_features_and_kinds_are_listed() -> None:
    sources = FakeSources(FakeCache(streams=[stream(is_complete=False)]))
    for peer, pending in (
        (FakePeer(connected=False), ["peer b: its API server"]),
        (FakePeer(connected=False, failure="refused"), ["peer b: refused"]),
        (FakePeer(features=None), ["peer b: its ClusterFeatures", f"peer b: {WIDGET}"]),
    ):
        assert list_pending(engine(FakeClusters(peers=[peer]), sources=sources)) == pending


def test_a_peer_that_does_not_answer_any_more_is_not_pending_and_a_problem() -> None:
    silent = engine(FakeClusters(peers=[FakePeer(connected=False, alive=False)]))
    assert list_pending(silent) == []
    assert list_problems(silent, rules=RULES) == ["peer b: did not answer in time"]


def test_an_error_is_not_pending_unless_the_server_asks_for_a_retry() -> None:
    for error, is_pending in (
        (FORBIDDEN, False),
        (Unreachable("no answer"), False),
        (ApiError("busy", status=429, retry_after_s=1.0), True),
    ):
        sources = FakeSources(FakeCache(streams=[stream(is_complete=False, error=error)]))
        assert bool(list_pending(engine(sources=sources))) is is_pending


def test_problems_are_those_of_the_rules_that_are_asked_for() -> None:
    broken = [stream(is_complete=False, error=FORBIDDEN)]
    asked = engine(sources=FakeSources(FakeCache(streams=broken)), copies=FakeCopies(FakeCache(streams=broken)))
    local, remote = list_problems(asked, rules=RULES)
    assert local.startswith(f"here: Widget: cannot {FORBIDDEN}")
    assert remote.startswith(f"peer b: Widget: cannot {FORBIDDEN}")
    assert list_problems(asked, rules=["another"]) == []


def test_a_list_that_is_late_is_a_problem() -> None:
    late = engine(
        FakeClusters(peers=[FakePeer(features=None)]),
        sources=FakeSources(FakeCache(streams=[stream(is_complete=False)])),
    )
    assert list_problems(late, rules=RULES) == [
        "peer b: its ClusterFeatures were not listed in time", "peer b: Widget: not listed in time",
    ]  # fmt: skip


def test_a_cluster_that_is_not_read_at_all_is_a_problem_unless_it_is_local_or_an_alias() -> None:
    missing = {"missing_auth": True, "credentials": None}
    clusters = FakeClusters(
        resolved("a", LOCAL, **missing),
        resolved("b", OTHER, **missing),
        resolved("c", OTHER, alias_of="b", auth_problem="x"),
        resolved("d", OTHER, disabled=True, credentials=None),
        resolved("e", OTHER, waiting=True, credentials=None),
    )
    assert list_problems(engine(clusters), rules=RULES) == [
        "peer b: spec.authInfo.secretRef is not complete", "peer e: its Secret was not listed in time",
    ]  # fmt: skip


def test_kinds_that_a_cluster_does_not_serve_are_found() -> None:
    gadget = GVK("example.com", "v1", "Gadget")
    sources = FakeSources(
        FakeCache(streams=[stream(is_complete=False, error=NotServed("not served"))]), FakeCache(gadget, rules=())
    )
    assert find_unserved_kinds(engine(sources=sources), rules=RULES) == {WIDGET}
    assert find_unserved_kinds(engine(sources=sources), rules=["another"]) == set()
