"""The provider applies plans: it engages, retains and disengages peers, once a change. P1, P5, P7."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Set
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, ObjectKey, Target
from registry_controller.cache.members import Members, cluster_target
from registry_controller.cache.registry import Registry
from registry_controller.clusters.plan import Engagement, PeerSnapshot
from registry_controller.clusters.provider import ClusterOptions, ClusterProvider
from registry_controller.clusters.watch_plan import RuleChanges
from registry_controller.core.decision.restoration import Restoration
from registry_controller.kube.kubeconfig import Credentials
from tests.sim.cluster.loop import run
from tests.unit.clusters.builders import LOCAL, NAMESPACE, cluster_manifest, credentials, rule_manifest

B, C = ClusterUID("id-b"), ClusterUID("id-c")


class FakePeer:
    """A peer that is never connected; it records its credentials and its end."""

    def __init__(self, cluster_id: ClusterUID, engagement: Engagement) -> None:
        self.cluster_id = cluster_id
        self.name, self.credentials, _ = engagement
        self.is_alive = True
        self.is_running = self.is_closed = False

    def snapshot(self) -> PeerSnapshot:
        return PeerSnapshot(self.name, self.is_alive, {})

    def set_engagement(self, engagement: Engagement) -> None:
        self.name, self.credentials, _ = engagement

    def is_read_with(self, credentials: Credentials | None) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True

    async def run(self) -> NoReturn:
        self.is_running = True
        try:
            await asyncio.get_running_loop().create_future()
            raise AssertionError("nothing sets it")
        finally:
            self.is_running = False


class Factory:
    """Makes peers of this module."""

    def __init__(self) -> None:
        self.made: list[FakePeer] = []

    def connect_peer(self, _: Credentials) -> Any:
        raise AssertionError("nothing is probed here")

    def make(self, cluster_id: ClusterUID, engagement: Engagement, *, observer: object) -> Any:
        self.made.append(FakePeer(cluster_id, engagement))
        return self.made[-1]


class Watches:
    """Records which peers were given their rules."""

    def __init__(self) -> None:
        self.active: Mapping[str, Any] = {}
        self.has_orphans = False
        self.due_s: float | None = None
        self.namespaces: list[str] = []
        self.planned: list[list[str]] = []
        self.changes: RuleChanges | None = None

    def watch_secrets(self, namespaces: Iterable[str], *, cluster_api: Iterable[str]) -> None:
        self.namespaces = list(namespaces)

    async def set_rules(self, peers: Mapping[ClusterUID, Any]) -> None:
        self.planned.append(sorted(peers))
        await asyncio.sleep(0)

    def take_changes(self, peers: Mapping[ClusterUID, Any]) -> RuleChanges | None:
        taken, self.changes = self.changes, None
        return taken

    def has_chosen_rules(self, peer: FakePeer, kind: object) -> bool:
        return peer.is_alive


class Observer:
    """Records the reports."""

    def __init__(self) -> None:
        self.members: list[frozenset[ClusterUID]] = []
        self.clones: list[ClusterUID] = []
        self.rules: list[object] = []
        self.rebuilt: list[str] = []
        self.plans = self.peers = 0

    def on_peers_changed(self) -> None:
        self.peers += 1

    def on_members_changed(self, members: Set[ClusterUID]) -> None:
        self.members.append(frozenset(members))

    def on_member_changed(self, member: ClusterUID) -> None:
        self.clones.append(member)

    def on_rules_changed(self, changes: RuleChanges) -> None:
        self.rules.append(changes)

    def on_rebuilt(self, name: str) -> None:
        self.rebuilt.append(name)

    def on_planned(self) -> None:
        self.plans += 1


class Stage:
    """A provider, and the objects here that it plans from."""

    def __init__(self) -> None:
        self.secrets: dict[ObjectKey, Credentials | str] = {}
        self.due: set[Target] = set()
        self.factory, self.watches, self.observer = Factory(), Watches(), Observer()
        self.revision = 0
        self.members = Members(on_change=lambda target: None)
        self.registry = Registry(local=LOCAL, on_change=self._changed)
        store: Any = SimpleNamespace(find=self.secrets.get, owners={}, of_cluster_api=frozenset())
        watches: Any = self.watches
        factory: Any = self.factory
        self.provider = ClusterProvider(
            ClusterOptions(LOCAL, NAMESPACE, "", trusts_after_s=0),
            registry=self.registry,
            members=self.members,
            credentials=store,
            watches=watches,
            factory=factory,
            restoration=lambda member, target: Restoration.POSSIBLE if target in self.due else Restoration.NONE,
            observer=self.observer,
        )

    def _changed(self, plural: str, name: str) -> None:
        if plural == "clusters":
            stored = self.registry.clusters.get(name)
            self.members.set_here(name, stored.cluster if stored else None)
        self.provider.on_own_kind_changed(plural, name)

    def apply(self, plural: str, manifest: Mapping[str, Any], event: str = "MODIFIED") -> None:
        """Receive an event of an object here."""
        self.revision += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self.revision)}
        self.registry.apply(plural, event, {**manifest, "metadata": metadata})

    def set_secret(self, name: str, found: Credentials | str | None) -> None:
        """Receive a registry Secret, or that it is gone."""
        key = ObjectKey(NAMESPACE, name)
        self.secrets.pop(key, None)
        if found is not None:
            self.secrets[key] = found
        self.provider.on_credentials_changed(key)

    @property
    def peers(self) -> Mapping[ClusterUID, Any]:
        return self.provider.peers


def play(scenario: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    """Run a provider while a scenario lasts."""

    async def main() -> None:
        stage = Stage()
        async with asyncio.TaskGroup() as scope:
            task = scope.create_task(stage.provider.run(), name="provider")
            await asyncio.sleep(1)
            await scenario(stage)
            task.cancel()

    run(main)


async def engage(stage: Stage, *names: str) -> None:
    """Make Clusters with usable Secrets, and wait for the plan."""
    for name in names:
        stage.set_secret(name, credentials(name))
        stage.apply("clusters", cluster_manifest(name))
    await asyncio.sleep(1)


def test_a_cluster_and_its_secret_engage_a_peer_with_one_plan() -> None:
    async def scenario(stage: Stage) -> None:
        assert (stage.observer.plans, stage.watches.planned) == (1, [[]])
        stage.set_secret("b", credentials("b"))
        await asyncio.sleep(1)
        assert stage.observer.plans == 1  # no Cluster names the Secret
        stage.apply("clusters", cluster_manifest("b"))
        assert not stage.provider.is_current
        await asyncio.sleep(1)
        assert stage.provider.is_current
        assert (stage.observer.plans, stage.watches.planned) == (2, [[], [B]])
        assert stage.peers[B].is_running
        assert stage.peers[B].credentials == credentials("b")
        assert stage.watches.namespaces == [NAMESPACE]
        assert stage.observer.members == [{B}]

    play(scenario)


def test_a_cluster_waits_for_its_secret() -> None:
    async def scenario(stage: Stage) -> None:
        stage.apply("clusters", cluster_manifest("b"))
        await asyncio.sleep(1)
        assert (stage.provider.resolved["b"].waiting, stage.peers) == (True, {})
        stage.set_secret("b", credentials("b"))
        await asyncio.sleep(1)
        assert set(stage.peers) == {B}

    play(scenario)


def test_changes_of_one_turn_cause_one_plan() -> None:
    async def scenario(stage: Stage) -> None:
        await engage(stage, "b", "c")
        assert stage.observer.plans == 2
        assert set(stage.peers) == {B, C}

    play(scenario)


def test_changed_credentials_reach_the_engaged_peer() -> None:
    async def scenario(stage: Stage) -> None:
        await engage(stage, "b")
        peer = stage.peers[B]
        stage.set_secret("b", credentials("elsewhere"))
        await asyncio.sleep(1)
        assert stage.peers[B] is peer
        assert peer.credentials == credentials("elsewhere")
        assert len(stage.factory.made) == 1

    play(scenario)


def test_p3_a_peer_whose_cluster_is_gone_is_disengaged() -> None:
    async def scenario(stage: Stage) -> None:
        await engage(stage, "b", "c")
        peer = stage.peers[B]
        stage.apply("clusters", cluster_manifest("b"), "DELETED")
        await asyncio.sleep(1)
        assert set(stage.peers) == {C}
        assert (peer.is_running, peer.is_closed) == (False, True)
        assert stage.observer.members[-1] == {B}
        assert stage.watches.planned[-1] == [C]

    play(scenario)


def test_a1_a_peer_stays_engaged_while_its_cluster_is_about_to_be_restored() -> None:
    async def scenario(stage: Stage) -> None:
        await engage(stage, "b")
        stage.due.add(cluster_target("b"))
        stage.apply("clusters", cluster_manifest("b"), "DELETED")
        await asyncio.sleep(10)
        assert stage.peers[B].is_running
        await asyncio.sleep(85)
        assert stage.peers == {}

    play(scenario)


def test_a1_the_end_of_a_restoration_is_noticed_within_a_second() -> None:
    async def scenario(stage: Stage) -> None:
        await engage(stage, "b")
        stage.due.add(cluster_target("b"))
        stage.apply("clusters", cluster_manifest("b"), "DELETED")
        await asyncio.sleep(1)
        stage.due.clear()
        await asyncio.sleep(1.1)
        assert stage.peers == {}

    play(scenario)


LABELLED = {"metadata": {"labels": {"stage": "test"}}}
STATUS = {"state": "Ready", "version": "1.36", "conditions": [{"type": "Ready", "lastTransitionTime": "today"}]}


@pytest.mark.parametrize(
    ("plural", "before", "after", "is_planned"),
    [
        ("clusters", cluster_manifest("b"), cluster_manifest("b"), False),
        (
            "clusters",
            cluster_manifest("b", status=STATUS),
            cluster_manifest("b", status=STATUS | {"message": "x"}),
            False,
        ),
        (
            "clusters",
            cluster_manifest("b", status=STATUS),
            cluster_manifest("b", status=STATUS | {"conditions": []}),
            False,
        ),
        (
            "clusters",
            cluster_manifest("b", status=STATUS),
            cluster_manifest("b", status=STATUS | {"version": "2"}),
            True,
        ),
        ("clusters", cluster_manifest("b"), cluster_manifest("b", **LABELLED), True),
        ("clusters", cluster_manifest("b"), cluster_manifest("b", secret="other"), True),
        (
            "clusters",
            cluster_manifest("b"),
            cluster_manifest("b", metadata={"annotations": {meta.PROVENANCE: "another"}}),
            True,
        ),
        ("resourcesyncrules", rule_manifest("r"), rule_manifest("r") | {"status": {"conditions": []}}, False),
        ("resourcesyncrules", rule_manifest("r"), rule_manifest("r", kind="Secret"), True),
        ("clusterfeatures", {"metadata": {"name": "f"}}, {"metadata": {"name": "f"}}, True),
    ],
    ids=[
        "the same Cluster",
        "a Cluster's message",
        "a Cluster's conditions",
        "a Cluster's version, which templates see",
        "a Cluster's labels",
        "a Cluster's Secret",
        "a Cluster's provenance, which tombstones read",
        "a rule's status",
        "a rule's kind",
        "any feature, which may be a tombstone",
    ],
)
def test_only_changes_that_plans_read_cause_a_plan(
    plural: str, before: dict[str, Any], after: dict[str, Any], is_planned: bool
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.apply(plural, before, "ADDED")
        await asyncio.sleep(1)
        plans = stage.observer.plans
        stage.apply(plural, after)
        await asyncio.sleep(1)
        assert stage.observer.plans - plans == is_planned

    play(scenario)


def test_w3_while_orphans_are_watched_time_alone_causes_plans() -> None:
    """The last orphan may be gone, which no object of our kinds shows."""

    async def scenario(stage: Stage) -> None:
        stage.watches.has_orphans = True
        await engage(stage, "b")
        plans = stage.observer.plans
        await asyncio.sleep(10)
        assert stage.observer.plans == plans + 2
        stage.watches.has_orphans = False
        await asyncio.sleep(60)
        assert stage.observer.plans == plans + 3

    play(scenario)


@pytest.mark.parametrize(
    ("key", "found", "is_planned"),
    [
        (ObjectKey(NAMESPACE, "b"), "broken", True),
        (ObjectKey(NAMESPACE, "b"), credentials("b"), False),
        (ObjectKey(NAMESPACE, "other"), "broken", False),
        (ObjectKey(NAMESPACE, ""), "cannot be listed", True),
        (ObjectKey(NAMESPACE, ""), credentials("b"), False),
        (ObjectKey("other", ""), "cannot be listed", False),
    ],
    ids=["changed", "the same", "of no Cluster", "its namespace, changed", "its namespace", "another namespace"],
)
def test_only_credentials_of_clusters_cause_a_plan(key: ObjectKey, found: Credentials | str, is_planned: bool) -> None:
    async def scenario(stage: Stage) -> None:
        await engage(stage, "b")
        plans = stage.observer.plans
        stage.secrets[ObjectKey(NAMESPACE, "b")] = found if is_planned else credentials("b")
        stage.provider.on_credentials_changed(key)
        await asyncio.sleep(1)
        assert stage.observer.plans - plans == is_planned

    play(scenario)


def test_p5_another_liveness_is_reported_and_planned_and_another_status_only_reported() -> None:
    async def scenario(stage: Stage) -> None:
        await engage(stage, "b")
        plans, reports = stage.observer.plans, stage.observer.peers
        stage.provider.on_peer_status_changed()
        await asyncio.sleep(1)
        assert (stage.observer.plans, stage.observer.peers) == (plans, reports + 1)
        stage.peers[B].is_alive = False
        stage.provider.on_peer_status_changed()
        assert stage.observer.members[-1] == {B}
        assert stage.provider.liveness.alive == frozenset()
        await asyncio.sleep(1)
        assert stage.observer.plans == plans + 1

    play(scenario)


def test_other_objects_of_a_peer_cause_a_plan() -> None:
    async def scenario(stage: Stage) -> None:
        plans = stage.observer.plans
        stage.provider.on_peer_objects_changed()
        await asyncio.sleep(1)
        assert stage.observer.plans == plans + 1

    play(scenario)


def test_changes_of_rules_and_rebuilt_clusters_are_passed_on() -> None:
    async def scenario(stage: Stage) -> None:
        stage.watches.changes = RuleChanges({"r"}, {("", "Secret")}, {B})
        stage.provider.request_plan()
        await asyncio.sleep(1)
        assert stage.observer.rules == [RuleChanges({"r"}, {("", "Secret")}, {B})]
        stage.provider.on_rebuilt("b")
        assert stage.observer.rebuilt == ["b"]

    play(scenario)


def test_a_cluster_is_called_by_the_name_that_it_is_read_by_or_has_or_by_its_id() -> None:
    async def scenario(stage: Stage) -> None:
        await engage(stage, "b")
        stage.apply("clusters", cluster_manifest("own", cluster_id=LOCAL))
        await asyncio.sleep(1)
        assert [stage.provider.name_of(uid) for uid in (B, LOCAL, C)] == ["b", "own", "id-c"]
        assert stage.provider.has_chosen_rules(B, meta.CLUSTER)
        assert not stage.provider.has_chosen_rules(C, meta.CLUSTER)

    play(scenario)
