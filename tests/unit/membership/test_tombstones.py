"""The tombstones here and at peers, their conclusions and their effects, in virtual time. O6."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.feature import read_feature
from registry_controller.api.meta import ClusterUID
from registry_controller.api.provenance import Provenance, encode
from registry_controller.api.tombstone import Tombstone, tombstone_manifest, with_return
from registry_controller.cache.crds import Definition, DefinitionRead
from registry_controller.cache.members import cluster_target
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.marks import read_marks
from registry_controller.core.decision.tombstones import STAYS
from registry_controller.membership.tombstones import TombstoneTracker
from tests.sim.cluster.loop import run
from tests.unit.clusters.builders import cluster_manifest

LOCAL, B, C = ClusterUID("id-local"), ClusterUID("id-b"), ClusterUID("id-c")
TODAY = date(2026, 5, 1)
TRUST_S = 600
DEFINITION = Definition("crd", deleting=False, revision=0)


def stone(member: ClusterUID = B, membership: str = "m", by: ClusterUID = LOCAL, *, days: int = 80) -> Tombstone:
    return Tombstone(member, membership, by, TODAY + timedelta(days=days))


class Observer:
    """Records the effects."""

    def __init__(self) -> None:
        self.members: list[ClusterUID] = []
        self.relays = self.tombstones = self.departures = 0

    def on_member_changed(self, member: ClusterUID) -> None:
        self.members.append(member)

    def on_relays_changed(self) -> None:
        self.relays += 1

    def on_left(self) -> None:
        self.departures += 1

    def on_tombstones_changed(self) -> None:
        self.tombstones += 1


class DatedPeer(SimpleNamespace):
    """A peer whose clock shows the given day."""

    def __init__(self, day: Callable[[], date], **fields: Any) -> None:
        super().__init__(**fields)
        self._day = day

    @property
    def day_there(self) -> date:
        return self._day()


class Stage:
    """A tracker, and the objects here that it reads."""

    def __init__(self) -> None:
        self.today = TODAY
        self.writes = True
        self.revision = 0
        self.peers: dict[ClusterUID, Any] = {}
        self.left: dict[ClusterUID, int] = {}
        self.observer = Observer()
        self.registry = Registry(local=LOCAL, on_change=lambda plural, name: None)
        departures: Any = SimpleNamespace(left=self.left)
        self.lasting: set[ClusterUID] = set()
        self.absences: Any = SimpleNamespace(
            update=lambda: None, due_s=None, lasting=lambda: frozenset(self.lasting), serves_none=lambda member: False
        )
        self.tracker = TombstoneTracker(
            local=LOCAL,
            trusts_after_s=TRUST_S,
            registry=self.registry,
            peers=self.peers,
            absences=self.absences,
            departures=departures,
            writes_status_of=lambda gvr, name: self.writes,
            today=lambda: self.today,
            observer=self.observer,
        )

    def apply(self, plural: str, manifest: Any, event: str = "MODIFIED") -> None:
        self.revision += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self.revision)}
        self.registry.apply(plural, event, {**manifest, "metadata": metadata})

    def set_cluster(self, name: str, *, membership: str = "m") -> None:
        """Make the copy of a member's Cluster, of one membership."""
        member, target = ClusterUID(f"id-{name}"), cluster_target(name)
        made = Provenance(member, "r", LOCAL, "Delete", meta.CLUSTER, target.key, membership, "", 1, target)
        annotations = {meta.OWNER: member, meta.PROVENANCE: encode(made)}
        self.apply("clusters", cluster_manifest(name, metadata={"annotations": annotations}))

    def set_stone(self, *stones: Tombstone) -> None:
        for found in stones:
            self.apply("clusterfeatures", tombstone_manifest(found))

    def drop_stone(self, found: Tombstone, *, reads: str | None = "crd") -> None:
        """Delete a tombstone; `reads` is the definition of features that is read then, None for no answer."""
        self.apply("clusterfeatures", tombstone_manifest(found), "DELETED")
        if reads is not None:
            self.registry.prove_withdrawals(DEFINITION, read=DefinitionRead(reads, math.inf))

    def set_peer(self, name: str, *stones: Tombstone, is_alive: bool = True, is_listed: bool = True) -> None:
        features = tuple(read_feature(tombstone_manifest(found)) for found in stones) if is_listed else None
        self.peers[ClusterUID(f"id-{name}")] = DatedPeer(
            lambda: self.today,
            is_alive=is_alive,
            features=SimpleNamespace(held=features),
            clusters=SimpleNamespace(held={} if is_listed else None, is_listed=is_listed),
        )

    def relay_stone(self) -> Tombstone:
        """Let c hold a tombstone of b; both are known here."""
        for name in "bc":
            self.set_cluster(name)
        found = stone(by=C)
        self.set_peer("c", found)
        return found

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the tracker."""
        async with asyncio.TaskGroup() as scope:
            task = scope.create_task(self.tracker.run(), name="tombstones")
            yield
            task.cancel()


def play(scenario: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await scenario(Stage())

    run(main)


def test_o6_a_tombstone_of_this_cluster_makes_a_silent_member_go_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.set_cluster("b")
        stage.tracker.update()
        assert (stage.tracker.now.gone, stage.observer.members) == (frozenset(), [])
        stage.set_stone(stone())
        stage.tracker.update()
        assert stage.tracker.now.gone == {B}
        assert stage.observer.members == [B]
        stage.tracker.update()
        assert stage.observer.members == [B]

    play(scenario)


def test_o6_a_relays_tombstone_counts_only_after_a_long_silence() -> None:
    async def scenario(stage: Stage) -> None:
        stage.set_stone(stage.relay_stone())
        stage.set_peer("b", is_alive=False)
        stage.tracker.update()
        assert stage.tracker.now.gone == frozenset()
        assert stage.tracker.now.pending == {B: {C}}
        assert stage.tracker.now.due_s == TRUST_S
        await asyncio.sleep(TRUST_S)
        stage.tracker.update()
        assert stage.tracker.now.gone == {B}

    play(scenario)


def test_o6_time_alone_is_enough_for_the_next_update() -> None:
    async def scenario(stage: Stage) -> None:
        stage.set_stone(stage.relay_stone())
        stage.set_peer("b", is_alive=False)
        async with stage.running():
            await asyncio.sleep(1)
            stage.tracker.update()
            await asyncio.sleep(TRUST_S + 1)
        assert stage.tracker.now.gone == {B}

    play(scenario)


def test_o6_a_tombstone_expires_a_month_after_its_last_day_if_a_member_agrees_about_the_day() -> None:
    async def scenario(stage: Stage) -> None:
        stage.set_cluster("b")
        found = stone(days=1)
        stage.set_stone(found)
        async with stage.running():
            stage.tracker.update()
            assert stage.tracker.now.gone == {B}
            stage.today = TODAY + timedelta(days=1) + STAYS
            stage.set_peer("c")
            await asyncio.sleep(3700)
            assert stage.tracker.now.gone == {B}
            stage.today += timedelta(days=1)
            stage.peers.clear()
            await asyncio.sleep(3700)
            assert stage.tracker.now.gone == {B}, "nobody agrees"
            stage.set_peer("c")
            await asyncio.sleep(3700)
        assert stage.tracker.now.gone == frozenset()
        assert [meta.metadata_of(manifest)["name"] for manifest in stage.tracker.list_unwanted()] == [found.name]

    play(scenario)


def test_o6_it_is_noted_in_a_tombstone_that_its_member_is_back() -> None:
    """Without its Cluster it has not left again; also after a restart, which has met no membership."""

    async def scenario(stage: Stage) -> None:
        found = stone()
        stage.set_stone(found)
        stage.tracker.update()
        assert stage.tracker.now.gone == {B}
        assert list(stage.tracker.list_returned()) == []
        stage.set_cluster("b", membership="later")
        stage.tracker.update()
        (manifest,) = stage.tracker.list_returned()
        stage.writes = False
        assert list(stage.tracker.list_returned()) == []
        stage.writes = True
        restarted = Stage()
        restarted.apply("clusterfeatures", with_return(manifest))
        restarted.tracker.update()
        assert restarted.tracker.now.gone == frozenset()
        restarted.set_cluster("b", membership="later")
        restarted.tracker.update()
        assert list(restarted.tracker.list_returned()) == []
        later = stone(membership="later")
        restarted.set_stone(later)
        restarted.apply("clusters", cluster_manifest("b"), "DELETED")
        restarted.tracker.update()
        assert restarted.tracker.now.gone == {B}

    play(scenario)


def test_o6_tombstones_of_known_members_are_created_here_by_one_replica() -> None:
    async def scenario(stage: Stage) -> None:
        found = stage.relay_stone()
        stage.tracker.update()
        assert stage.observer.tombstones == 1
        assert list(stage.tracker.list_missing()) == [found]
        stage.writes = False
        assert list(stage.tracker.list_missing()) == []
        stage.writes = True
        stage.set_stone(found)
        stage.tracker.update()
        assert list(stage.tracker.list_missing()) == []

    play(scenario)


def test_o6_a_tombstone_that_was_deleted_here_is_not_created_again_for_5_minutes() -> None:
    async def scenario(stage: Stage) -> None:
        for name in "bc":
            stage.set_cluster(name)
        found = stone(by=C, membership="")
        stage.set_peer("c", found)
        stage.set_stone(found)
        stage.tracker.update()
        stage.drop_stone(found)
        stage.tracker.update()
        assert stage.tracker.now.to_keep == {found}
        assert list(stage.tracker.list_missing()) == []
        await asyncio.sleep(299)
        assert list(stage.tracker.list_missing()) == []
        await asyncio.sleep(2)
        assert list(stage.tracker.list_missing()) == [found]

    play(scenario)


@pytest.mark.clause("A11")
def test_what_a_later_version_added_to_a_tombstone_is_taken_from_its_author() -> None:
    async def scenario(stage: Stage) -> None:
        found, label = stage.relay_stone(), f"{meta.LEFT}added"

        def show(name: str, value: str) -> None:
            stage.set_peer(name)
            manifest = tombstone_manifest(found, further={label: value, "x/other": "no"})
            stage.peers[ClusterUID(f"id-{name}")].features.held = (read_feature(manifest),)

        show("d", "relayed")
        show("c", "said")
        assert stage.tracker.further_labels(found) == {label: "said"}
        del stage.peers[C]
        assert stage.tracker.further_labels(found) == {label: "relayed"}
        stage.peers.clear()
        assert stage.tracker.further_labels(found) == {}

    play(scenario)


@pytest.mark.clause("A11")
def test_a_farewell_that_was_lost_comes_back_with_what_a_later_version_added() -> None:
    async def scenario(stage: Stage) -> None:
        further = {f"{meta.LEFT}added": "yes"}
        stage.apply("clusterfeatures", tombstone_manifest(farewell(), further=further))
        stage.tracker.update()
        stage.drop_stone(farewell(), reads="")
        stage.tracker.update()
        assert list(stage.tracker.list_missing()) == [farewell()]
        assert stage.tracker.further_labels(farewell()) == further

    play(scenario)


@pytest.mark.clause("A11")
def test_a_tombstone_of_a_later_format_is_in_the_place_of_none() -> None:
    """It is told from the others, and nothing is created at its name."""

    async def scenario(stage: Stage) -> None:
        found = stage.relay_stone()
        manifest = tombstone_manifest(found, further={meta.LEFT_FORMAT: "2"})
        stage.apply("clusterfeatures", manifest)
        stage.tracker.update()
        assert stage.tracker.now.to_keep == {found}
        assert list(stage.tracker.list_missing()) == []
        assert list(stage.tracker.list_unwanted()) == []
        assert stage.registry.later_features == {found.name}
        stage.apply("clusterfeatures", manifest, "DELETED")
        assert stage.registry.later_features == set()

    play(scenario)


def test_o6_a_proven_departure_becomes_a_tombstone_of_the_known_membership() -> None:
    async def scenario(stage: Stage) -> None:
        stage.set_cluster("b", membership="m1")
        stage.tracker.update()
        stage.left[B] = 1
        stage.apply("clusters", cluster_manifest("b"), "DELETED")
        stage.tracker.update()
        assert [(made.member, made.membership, made.reported_by) for made in stage.tracker.list_missing()] == [
            (B, "m1", LOCAL)
        ]

    play(scenario)


def test_o6_nothing_that_a_peer_relays_is_copied_before_its_tombstones_are_known() -> None:
    async def scenario(stage: Stage) -> None:
        stage.set_peer("c", is_listed=False)
        stage.tracker.update()
        assert stage.tracker.bars(C, B, "m", 0)
        assert stage.observer.relays == 0
        stage.set_peer("c")
        stage.tracker.update()
        assert not stage.tracker.bars(C, B, "m", 0)
        assert stage.observer.relays == 1
        stage.set_peer("c", stone(by=C))
        stage.tracker.update()
        assert stage.tracker.bars(C, B, "m", 0)
        assert not stage.tracker.bars(C, B, "another", 0)

    play(scenario)


def test_o6_a_membership_that_began_later_is_not_gone() -> None:
    async def scenario(stage: Stage) -> None:
        stage.set_cluster("b")
        stage.set_stone(stone())
        stage.tracker.update()

        def marks(membership: str) -> Any:
            target = cluster_target("b")
            made = Provenance(B, "r", LOCAL, "Delete", meta.CLUSTER, target.key, membership, "", 1, target)
            return read_marks({meta.OWNER: B, meta.PROVENANCE: encode(made)}, of=target)

        assert stage.tracker.gone(None, None) == {B}
        assert stage.tracker.gone(B, marks("m")) == {B}
        assert stage.tracker.gone(B, marks("later")) == frozenset()
        assert stage.tracker.judged(frozenset({B, C})) == {B}

    play(scenario)


def test_o6_this_clusters_own_tombstone_means_that_it_has_left() -> None:
    async def scenario(stage: Stage) -> None:
        stage.set_cluster("b")
        stage.set_stone(stone(LOCAL))
        stage.tracker.update()
        assert stage.tracker.now.has_left
        assert stage.observer.members == [B]
        assert (stage.observer.tombstones, stage.observer.departures) == (1, 1)
        stage.drop_stone(stone(LOCAL))
        stage.tracker.update()
        assert not stage.tracker.now.has_left
        assert stage.observer.departures == 1
        assert stage.observer.members == [B, B]

    play(scenario)


def farewell(membership: str = "m") -> Tombstone:
    return stone(LOCAL, membership, LOCAL)


def test_o6_a_farewell_that_goes_with_the_definition_of_features_is_created_again() -> None:
    """The deletions of a definition's objects are no act, and neither is what a list does not show."""

    async def scenario(stage: Stage) -> None:
        stage.set_stone(farewell())
        stage.tracker.update()
        assert stage.tracker.now.has_left
        assert not stage.tracker.list_missing()
        before = stage.observer.tombstones
        stage.drop_stone(farewell(), reads=None)
        stage.tracker.update()
        assert stage.tracker.now.has_left, "nothing shows why it went"
        assert not stage.tracker.list_missing()
        stage.registry.prove_withdrawals(DEFINITION, read=DefinitionRead("", math.inf))
        stage.tracker.update()
        assert stage.observer.tombstones > before
        assert stage.tracker.has_lost_farewell()
        assert list(stage.tracker.list_missing()) == [farewell()]
        assert not list(stage.tracker.list_withdrawals())

    play(scenario)


def test_o6_a_farewell_that_was_deleted_is_withdrawn_and_that_is_recorded() -> None:
    async def scenario(stage: Stage) -> None:
        stage.set_peer("c", farewell())
        stage.set_stone(farewell())
        stage.tracker.update()
        stage.drop_stone(farewell())
        stage.tracker.update()
        (record,) = stage.tracker.list_withdrawals()
        assert not stage.tracker.list_missing()
        started_again = Stage()
        started_again.set_peer("c", farewell())
        started_again.tracker.update()
        assert list(started_again.tracker.list_missing()) == [farewell()]
        started_again.apply("clusterfeatures", record)
        started_again.tracker.update()
        assert not started_again.tracker.list_missing()
        assert not started_again.tracker.has_lost_farewell()

    play(scenario)


def test_o6_a_farewell_of_an_earlier_membership_is_not_created_again() -> None:
    """A member again is not that member any more, also while its Cluster is missing."""

    async def scenario(stage: Stage) -> None:
        stage.set_stone(farewell())
        stage.tracker.update()
        stage.registry.features.clear()
        own = cluster_manifest("local", metadata={"uid": "again"})
        stage.apply("clusters", own)
        stage.tracker.update()
        stage.apply("clusters", own, "DELETED")
        stage.set_peer("c", farewell())
        stage.tracker.update()
        assert not stage.tracker.has_lost_farewell()
        assert not stage.tracker.list_missing()

    play(scenario)


@pytest.mark.parametrize(
    ("definition", "read", "is_decided", "is_withdrawn"),
    [
        (DEFINITION, DefinitionRead("crd", 9.0), False, False),
        (DEFINITION, DefinitionRead("crd", 10.0), True, True),
        (DEFINITION, DefinitionRead("", 10.0), True, False),
        (None, DefinitionRead("", 10.0), True, False),
        (None, DefinitionRead("crd", 10.0), False, False),
        (DEFINITION, DefinitionRead("another", 10.0), False, False),
        (Definition("crd", deleting=False, revision=9), DefinitionRead("crd", 10.0), True, False),
    ],
    ids=["before it", "there", "gone", "known to be gone", "not known yet", "the watch is behind", "made since"],
)
def test_o6_a_deleted_tombstone_is_withdrawn_if_its_definition_outlasted_it(
    definition: Definition | None, read: DefinitionRead, is_decided: bool, is_withdrawn: bool
) -> None:
    """Until that is decided, it stands."""
    changed: list[str] = []
    registry = Registry(local=LOCAL, on_change=lambda plural, name: changed.append(name), now_s=lambda: 10.0)
    manifest = tombstone_manifest(farewell())
    manifest["metadata"]["resourceVersion"] = "5"
    registry.apply("clusterfeatures", "ADDED", manifest)
    registry.apply("clusterfeatures", "DELETED", manifest)
    assert list(registry.standing_features()) == [manifest]
    changed.clear()
    registry.prove_withdrawals(definition, read=read)
    assert (not list(registry.standing_features()), bool(changed)) == (is_decided, is_decided)
    assert bool(registry.deleted_tombstones) is is_withdrawn
