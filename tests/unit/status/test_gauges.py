"""What a scrape reads from the engine."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from registry_controller.api.errors import Unreachable
from registry_controller.api.meta import Target
from registry_controller.report.metrics import Metrics
from registry_controller.status.gauges import Gauges
from registry_controller.sync.results import ReportedResult, ResultClass, Results, TargetResult
from tests.unit.status.engine_parts import (
    LOCAL,
    OTHER,
    PEER,
    WIDGET,
    FakeCache,
    FakeClusters,
    FakePeer,
    FakeSources,
    registry,
    resolved,
    rule,
    stream,
)


class FakeQueue:
    def __init__(self) -> None:
        self.added = self.retried = self.length = 0

    def __len__(self) -> int:
        return self.length


class World:
    """Gauges over one peer with one cache."""

    def __init__(self) -> None:
        active = registry(rules=[rule()]).active_rules(LOCAL)
        self.metrics = Metrics()
        self.queue = FakeQueue()
        self.cache = FakeCache(streams=[stream(events=5)])
        self.sources = FakeSources(self.cache)
        self.clusters = FakeClusters(
            resolved("a", LOCAL), resolved(), resolved("c", OTHER, disabled=True), peers=[FakePeer()], rules=active
        )
        self.results = Results(on_change=lambda name: None)
        self.expires_at_s = math.inf
        parts: dict[str, Any] = {
            "metrics": self.metrics,
            "queue": self.queue,
            "clusters": self.clusters,
            "sources": self.sources,
            "results": self.results,
            "token_expires_at_s": lambda: self.expires_at_s,
            "now_s": lambda: 1_000.0,
        }
        self.gauges = Gauges(**cast(Any, parts))

    async def scrape(self) -> dict[str, float]:
        """Return the lines of a scrape: the value of each series."""
        text = self.gauges.render("")[0].decode()
        lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        return {name.removeprefix("registrycontroller_"): float(value) for name, _, value in lines}

    def record(self, result: ResultClass, name: str) -> None:
        target = Target(WIDGET.group, WIDGET.kind, "default", name)
        self.results.record(target, [ReportedResult(TargetResult("rule", PEER, result, "R"), "")])


async def test_peers_are_counted_by_state_without_the_local_cluster() -> None:
    series = await World().scrape()
    assert {name: value for name, value in series.items() if name.startswith("peers{")} == {
        'peers{state="connected"}': 1.0, 'peers{state="disabled"}': 1.0,
    }  # fmt: skip


async def test_a_state_without_peers_is_not_shown_any_more() -> None:
    world = World()
    await world.scrape()
    world.clusters.peers[PEER].is_connected = False
    series = await world.scrape()
    assert 'peers{state="connected"}' not in series
    assert series['peers{state="not connected"}'] == 1.0


async def test_counters_of_the_queue_and_of_events_grow_by_the_difference() -> None:
    world = World()
    world.queue.added, world.queue.retried, world.queue.length = 7, 2, 3
    await world.scrape()
    world.queue.added = 9
    (one,) = world.cache.streams.values()
    one.events = 6
    series = await world.scrape()
    assert (series["workqueue_depth"], series["workqueue_adds_total"], series["workqueue_retries_total"]) == (3, 9, 2)
    assert series['watch_events_total{kind="Widget",peer="b"}'] == 6.0


async def test_the_events_of_a_closed_cache_are_not_subtracted() -> None:
    world = World()
    await world.scrape()
    (one,) = world.cache.streams.values()
    one.events = 1
    series = await world.scrape()
    assert series['watch_events_total{kind="Widget",peer="b"}'] == 5.0


async def test_a_stream_with_an_error_is_stalled() -> None:
    world = World()
    (one,) = world.cache.streams.values()
    one.error = Unreachable("no answer")
    assert (await world.scrape())['reflector_stalled{kind="Widget",peer="b"}'] == 1.0


async def test_synced_and_held_copies_are_counted_by_peer() -> None:
    world = World()
    world.record(ResultClass.SYNCED, "one")
    world.record(ResultClass.SYNCED, "two")
    world.record(ResultClass.HELD, "three")
    series = await world.scrape()
    assert series['objects_synced{kind="Widget",peer="b"}'] == 2.0
    assert series['held{peer="b",reason="R"}'] == 1.0


async def test_a_cluster_that_is_not_connected_is_named_by_its_id() -> None:
    world = World()
    world.clusters.peers.clear()
    world.record(ResultClass.SYNCED, "one")
    assert (await world.scrape())[f'objects_synced{{kind="Widget",peer="{PEER}"}}'] == 1.0


async def test_a_peer_without_caches_has_no_series_any_more() -> None:
    world = World()
    await world.scrape()
    world.sources.caches = ()
    assert not [name for name in await world.scrape() if name.startswith(("watch_events_total", "reflector_stalled"))]


async def test_a_peer_is_up_while_it_is_connected_and_answers() -> None:
    world = World()
    world.clusters.peers[PEER].silence_s = 4.0
    series = await world.scrape()
    assert {name: value for name, value in series.items() if name.startswith("peer_")} == {
        'peer_up{peer="b"}': 1.0, 'peer_last_contact_timestamp_seconds{peer="b"}': 996.0,
    }  # fmt: skip
    world.clusters.peers[PEER].is_alive = False
    assert (await world.scrape())['peer_up{peer="b"}'] == 0.0
    world.clusters.peers.clear()
    series = await world.scrape()
    assert series['peer_up{peer="b"}'] == 0.0
    assert 'peer_last_contact_timestamp_seconds{peer="b"}' not in series


async def test_a_peer_that_is_no_member_any_more_has_no_series() -> None:
    world = World()
    await world.scrape()
    del world.clusters.resolved["b"]
    assert not [name for name in await world.scrape() if name.startswith("peer_up")]


async def test_copies_are_counted_by_rule_and_state() -> None:
    world = World()
    for number, result in enumerate(ResultClass):
        world.record(result, f"one-{number}")
    world.record(ResultClass.WAITING, "another")
    series = await world.scrape()
    assert {name: value for name, value in series.items() if name.startswith("copies{")} == {
        f'copies{{rule="rule",state="{state}"}}': 1.0 + (state == "behind")
        for state in ("in_step", "behind", "failing", "held", "conflicting", "skipped")
    }


@pytest.mark.parametrize("expires_at_s", [math.inf, 1_700_000_000.0])
async def test_the_expiry_of_the_published_token_is_shown(expires_at_s: float) -> None:
    world = World()
    world.expires_at_s = expires_at_s
    assert (await world.scrape())["reader_token_expiry_timestamp_seconds"] == expires_at_s
