"""The steps and messages of the `leave` command, against a small API server in memory. O6, O7."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import BadInput
from registry_controller.api.meta import GVR, ClusterUID, ObjectKey
from registry_controller.api.provenance import Provenance, encode
from registry_controller.api.tombstone import Tombstone, tombstone_manifest
from registry_controller.cache.members import cluster_target, secret_target
from registry_controller.core.decision.tombstones import LASTS
from registry_controller.local.client import ClusterClient
from registry_controller.local.manifests import TOKEN_SECRET_TYPE
from registry_controller.membership.leave import LeaveCommand, LeaveIncomplete
from tests.sim.cluster.loop import run
from tests.unit.clusters.builders import NAMESPACE, cluster_manifest
from tests.unit.local.fake_server import FakeServer

LOCAL, B, C = ClusterUID("id-local"), ClusterUID("id-b"), ClusterUID("id-c")
TODAY = date(2026, 5, 1)
FROZEN = {meta.SYNC_DISABLED: "true"}
LISTS = "`kubectl get clusters` lists the names"


class Stage:
    """A cluster in a group, and the command in it."""

    def __init__(self, **options: Any) -> None:
        self.server = FakeServer()
        self.reported: list[str] = []
        settings: Any = SimpleNamespace(
            namespace=NAMESPACE,
            reader_service_account_name="reader",
            manage_local_cluster_secret=options.get("manage", True),
        )
        self.command = LeaveCommand(
            api=ClusterClient(self.server), local=LOCAL, settings=settings, today=TODAY, report=self.reported.append
        )

    def add(
        self, name: str, *, owner: ClusterUID | None = B, annotations: dict[str, str] | None = None, **fields: Any
    ) -> None:
        """Add a Cluster: a copy of its owner's, or one that a person created."""
        found = dict(annotations or {})
        if owner is not None:
            target = cluster_target(name)
            made = Provenance(owner, "r", LOCAL, "Delete", meta.CLUSTER, target.key, "m", "", 1, target)
            found |= {meta.OWNER: owner, meta.PROVENANCE: encode(made)}
        self.server.put(meta.CLUSTERS, cluster_manifest(name, metadata={"annotations": found}, **fields))

    def add_own(self) -> None:
        """Add this cluster's Cluster, its published Secret and its token."""
        self.server.put(meta.CLUSTERS, cluster_manifest("own", cluster_id=LOCAL))
        self.add_secret("own")
        info = {
            "name": "token",
            "namespace": NAMESPACE,
            "annotations": {"kubernetes.io/service-account.name": "reader"},
        }
        self.server.put(meta.SECRETS, {"metadata": info, "type": TOKEN_SECRET_TYPE})

    def add_secret(self, name: str, *, owner: ClusterUID | None = None, is_frozen: bool = False) -> None:
        """Add a registry Secret; a copy when it has an owner."""
        found = FROZEN if is_frozen else {}
        if owner is not None:
            found = found | {meta.OWNER: owner}
        info = {"name": name, "namespace": NAMESPACE, "annotations": found}
        self.server.put(meta.SECRETS, {"metadata": info, "type": meta.REGISTRY_SECRET_TYPE})

    def drop(self, gvr: GVR, *names: str) -> None:
        namespace = NAMESPACE if gvr is meta.SECRETS else ""
        for name in names:
            self.server.drop(gvr, name, namespace)

    def has(self, gvr: GVR, name: str) -> bool:
        return self.server.find(gvr, name, NAMESPACE if gvr is meta.SECRETS else "") is not None


def play(stage: Stage, command: Any, *, after_s: float = 0.0, then: Callable[[], None] | None = None) -> None:
    """Run a command in virtual time; the daemon's part is done after a while."""

    async def main() -> None:
        if then is not None:
            asyncio.get_running_loop().call_later(after_s, then)
        await command

    run(main)


def fails(stage: Stage, command: Any) -> str:
    """Run a command that fails, and return its message."""
    with pytest.raises((BadInput, LeaveIncomplete)) as caught:
        play(stage, command)
    return str(caught.value)


def test_o6_a_cluster_leaves_with_its_tombstone_first_and_its_credentials_last() -> None:
    stage = Stage()
    stage.add_own()
    stage.add("b")

    def finish() -> None:
        assert not stage.has(meta.CLUSTERS, "own")
        assert stage.has(meta.SECRETS, "own")
        stage.drop(meta.CLUSTERS, "b")
        stage.drop(meta.SECRETS, "own", "token")

    play(stage, stage.command.leave(wait_s=60), after_s=5, then=finish)
    (tombstone,) = [found for path, found in stage.server.objects.items() if "clusterfeatures" in path]
    assert tombstone == tombstone | {
        "spec": tombstone_manifest(Tombstone(LOCAL, "uid-own", LOCAL, TODAY + LASTS))["spec"]
    }
    assert stage.server.writes == ["create clusterfeatures", "delete clusters"]
    assert stage.reported == [
        "deleted the Cluster own; the other members remove it when they read that",
        "b: waits until it has removed this cluster, and its copies are deleted here; a rule in DeletionHalted delays "
        "this, and the daemon of this cluster must be running",
        "this cluster has left, and its credentials are revoked",
    ]


def test_o6_the_command_continues_where_it_was_interrupted() -> None:
    stage = Stage()
    stage.add_own()
    stage.add("b")
    message = fails(stage, stage.command.leave(wait_s=3))
    assert message.startswith("b: waits until it has removed this cluster")
    assert message.endswith("; run the same command again to continue")
    stage.drop(meta.CLUSTERS, "b")
    stage.drop(meta.SECRETS, "own", "token")
    play(stage, stage.command.leave(wait_s=3))
    assert stage.reported[-1] == "this cluster has left, and its credentials are revoked"


def test_o6_members_that_are_left_out_are_removed_and_not_waited_for() -> None:
    stage = Stage()
    stage.add_own()
    stage.add("b")
    stage.add_secret("b", owner=B)
    play(
        stage,
        stage.command.leave(without=("b",), wait_s=60),
        after_s=1,
        then=lambda: stage.drop(meta.SECRETS, "own", "token"),
    )
    assert not stage.has(meta.CLUSTERS, "b")
    assert not stage.has(meta.SECRETS, "b")
    assert "deleted the Cluster b and its Secret" in stage.reported


def test_p3_credentials_that_the_daemon_does_not_manage_are_left_to_people() -> None:
    stage = Stage(manage=False)
    stage.add_own()
    play(stage, stage.command.leave(wait_s=60))
    assert stage.has(meta.SECRETS, "own")
    assert stage.reported[-1] == (
        "this cluster has left; MANAGE_LOCAL_CLUSTER_SECRET is false: revoke its credentials yourself, and delete the "
        "Secret that holds them"
    )


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (
            lambda stage: stage.add("b", annotations=FROZEN),
            f"b: the annotation {meta.SYNC_DISABLED} keeps its Cluster; remove the annotation, or leave "
            f"the member out with --without b",
        ),
        (
            lambda stage: stage.add("b", owner=None),
            "b: a person created its Cluster here, and nothing was read from the member since; leave it"
            " out with --without b",
        ),
        (
            lambda stage: stage.add_secret("b", owner=B),
            f"Secret {NAMESPACE}/b: waits until the daemon has deleted it",
        ),
        (
            lambda stage: stage.add_secret("b", owner=B, is_frozen=True),
            f"Secret {NAMESPACE}/b: the annotation {meta.SYNC_DISABLED} keeps it; remove it, or delete the Secret",
        ),
        (
            lambda stage: None,
            "waits until the daemon has deleted this cluster's credentials; where the daemon runs with "
            "MANAGE_LOCAL_CLUSTER_SECRET=false, delete them yourself",
        ),
    ],
    ids=["a frozen Cluster", "a Cluster of a person", "a Secret", "a frozen Secret", "its own credentials"],
)
def test_o6_what_is_waited_for_is_reported_with_the_way_out(setup: Callable[[Stage], None], message: str) -> None:
    stage = Stage()
    stage.add_own()
    setup(stage)
    assert message in fails(stage, stage.command.leave(wait_s=2))
    assert any(message in words for words in stage.reported)


@pytest.mark.parametrize(
    ("names", "without", "message"),
    [
        (
            ["own", "second"],
            (),
            "Clusters own, second all have this cluster's ID: delete all but one of them, and run this again",
        ),
        (["own"], ("x", "a"), f"--without a, x: no other member's Cluster has that name here; {LISTS}"),
        (["own"], ("own",), f"--without own: no other member's Cluster has that name here; {LISTS}"),
        ([], (), "this cluster is not a member: no Cluster here has its ID, so there is nothing to leave"),
    ],
    ids=["two Clusters", "unknown names", "its own name", "no member"],
)
def test_o6_a_cluster_that_cannot_leave_is_told_why(names: list[str], without: tuple[str, ...], message: str) -> None:
    stage = Stage()
    for name in names:
        stage.server.put(meta.CLUSTERS, cluster_manifest(name, cluster_id=LOCAL))
    assert fails(stage, stage.command.leave(without=without, wait_s=2)) == message
    assert stage.server.writes == []


def test_o6_another_member_is_declared_to_have_left() -> None:
    stage = Stage()
    stage.add("b")
    stage.add_secret("b")
    play(stage, stage.command.declare("b", wait_s=60), after_s=5, then=lambda: stage.drop(meta.CLUSTERS, "b"))
    stone = Tombstone(B, "m", LOCAL, TODAY + LASTS, revision=1)
    stored = stage.server.find(meta.FEATURES, stone.name)
    assert stored is not None
    assert stored["metadata"]["labels"] == tombstone_manifest(stone)["metadata"]["labels"]
    assert not stage.has(meta.SECRETS, "b")
    assert stage.reported == [
        "declared that b has left",
        "b: waits until the daemon finds it silent, and its copies are deleted here; a rule in DeletionHalted delays "
        "this, and the daemon of this cluster must be running",
        "b is removed from this cluster; each other member removes it after b has been silent there for "
        "controller.memberLeftTrustSeconds",
    ]


def test_o6_the_cluster_of_a_person_is_deleted_by_the_command() -> None:
    stage = Stage()
    stage.add("b", owner=None)
    play(stage, stage.command.declare("b", wait_s=60))
    assert not stage.has(meta.CLUSTERS, "b")


def test_o6_what_a_person_made_from_the_yaml_of_a_copy_is_deleted_by_the_command() -> None:
    """O11: the daemon leaves it alone, because its marks name another object."""
    stage = Stage()
    clone, secret = cluster_target("b"), secret_target(ObjectKey(NAMESPACE, "b"))
    texts = {}
    for kind, target in ((meta.CLUSTER, clone), (meta.SECRET, secret)):
        copy = target._replace(name="old")
        made = Provenance(B, "r", LOCAL, "Delete", kind, copy.key, "m", "", 1, copy)
        texts[target] = {meta.OWNER: B, meta.PROVENANCE: encode(made)}
    stage.add("b", owner=None, annotations=texts[clone])
    info = {"name": "b", "namespace": NAMESPACE, "annotations": texts[secret]}
    stage.server.put(meta.SECRETS, {"metadata": info, "type": meta.REGISTRY_SECRET_TYPE})
    play(stage, stage.command.declare("b", wait_s=60))
    assert not stage.has(meta.CLUSTERS, "b")
    assert not stage.has(meta.SECRETS, "b")


def test_o6_a_tombstone_of_another_member_is_replaced_and_ones_own_stays() -> None:
    stage = Stage()
    stage.add("b", owner=None)
    stone = Tombstone(B, "", C, TODAY + LASTS)
    further = {f"{meta.LEFT}added": "yes"}
    stage.server.put(meta.FEATURES, tombstone_manifest(stone, further=further))
    play(stage, stage.command.declare("b", wait_s=60))
    assert "replace clusterfeatures" in stage.server.writes
    stored = stage.server.find(meta.FEATURES, stone.name)
    assert stored is not None
    assert stored["metadata"]["labels"].items() >= further.items(), "a later version added it (A11)"
    stage.add("b", owner=None)
    stage.server.writes.clear()
    play(stage, stage.command.declare("b", wait_s=60))
    assert stage.server.writes == ["delete clusters"]


def test_o6_a_tombstone_that_the_daemon_deleted_means_that_the_member_answers() -> None:
    stage = Stage()
    stage.add("b")
    name = Tombstone(B, "m", LOCAL, TODAY).name
    with pytest.raises(BadInput, match="Cluster b: the daemon deleted the tombstone, because the cluster answers"):
        play(stage, stage.command.declare("b", wait_s=60), after_s=2, then=lambda: stage.drop(meta.FEATURES, name))


CONTESTED = {"status": {"conditions": [{"type": "LocalConflict", "status": "True"}]}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cluster_id": LOCAL}, "Cluster b: is this cluster; run `registry-controller leave` without a name"),
        (
            CONTESTED,
            "Cluster b: two API servers have its ID id-b, and both would be declared to have left; "
            "delete the Cluster and the Secret of the one that is no member instead",
        ),
        (
            {"status": {"state": "Ready"}},
            "Cluster b: is Ready, and did not lack its own Cluster for controller.memberAbsenceSeconds; run "
            "`registry-controller leave` in that cluster, or stop reading it with the annotation "
            f"{meta.CLUSTER_DISABLED}",
        ),
        ({"cluster_id": "no UID!"}, "Cluster b: its clusterID 'no UID!' is not a UID; delete the Cluster instead"),
        (
            {"annotations": FROZEN},
            f"Cluster b: the annotation {meta.SYNC_DISABLED} keeps it; remove the annotation, and run this again",
        ),
    ],
    ids=["this cluster", "a clone", "Ready", "no UID", "frozen"],
)
def test_o6_a_member_that_may_not_be_declared_to_have_left(fields: dict[str, Any], message: str) -> None:
    stage = Stage()
    stage.add("b", **fields)
    assert fails(stage, stage.command.declare("b", wait_s=2)) == message
    assert fails(stage, stage.command.question("b")) == message
    assert stage.server.writes == []


@pytest.mark.parametrize(("reason", "may"), [("Missing", False), ("MissingForLong", True)])
def test_o6_a_ready_member_may_be_declared_once_it_has_lacked_its_own_cluster_for_long(reason: str, may: bool) -> None:
    stage = Stage()
    condition = {"type": "OwnClusterMissing", "status": "True", "reason": reason}
    stage.add("b", status={"state": "Ready", "conditions": [condition]})
    if may:
        play(stage, stage.command.question("b"))
    else:
        assert "is Ready" in fails(stage, stage.command.question("b"))


def test_o6_a_name_without_a_cluster_is_refused() -> None:
    stage = Stage()
    assert fails(stage, stage.command.declare("b", wait_s=2)) == f"Cluster b: does not exist here; {LISTS}"


def test_the_question_names_the_cluster_and_the_effect() -> None:
    stage = Stage()
    stage.add_own()
    stage.add("b")
    asked: list[str] = []

    async def ask() -> None:
        asked.extend([await stage.command.question(""), await stage.command.question("b")])

    play(stage, ask())
    assert asked == [
        "Take this cluster own out of its group, delete its Cluster, and revoke its credentials?",
        "Declare that Cluster b is gone for good, so that all members remove it, and delete its copies here whose "
        "rules have the deletionPolicy Delete?",
    ]
