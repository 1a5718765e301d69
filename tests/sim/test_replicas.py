"""A7: two daemons in one cluster, of which one hears of changes of the rules later than the other."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from registry_controller import __version__
from registry_controller.api import meta
from registry_controller.cache.replicas import VERSION_LABEL
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import NAMESPACE, Member, Replica

SECRET = {"version": "v1", "kind": "Secret"}
LATE_S = 2.0
MANY = 120
YES = {"sync": "yes"}
GOLD = {"kind": "ClusterFeature", "metadata": {"name": "gold"}, "spec": {"featureName": "gold"}}


async def two_daemons(group: SimGroup) -> tuple[Member, Member, Replica]:
    """Let a cluster with two daemons, of which the second hears of our own kinds late, copy from another one."""
    here, owner = group.members
    here.has_pods = True
    await group.join()
    second = here.start_second()
    await group.settle()
    second.hear_late(LATE_S)
    for name in "xyz":
        owner.create(config_map(name, {"n": "1"}))
    return here, owner, second


def copying(**mutations: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"match": [{"objectKey": {"namespace": "default"}}]}
    return rule("maps", CONFIG_MAP, {**entry, "mutations": mutations} if mutations else entry, deletionPolicy="Delete")


def renaming(suffix: str) -> dict[str, Any]:
    return {
        "overrides": [
            {"type": "replace", "path": "/metadata/name", "value": f"{{{{ .Object.metadata.name }}}}{suffix}"}
        ]
    }


async def edit(group: SimGroup, here: Member, *, first: dict[str, Any], then: dict[str, Any]) -> list[tuple[str, str]]:
    """Create a rule, edit it once everything rests, and list how its copies were changed after the edit."""
    here.create(first)
    await group.settle()
    before = len(here.server.journal)
    here.apply(then)
    await group.settle()
    journal = here.server.journal[before:]
    return [(write.verb, write.key.name) for write in journal if write.kind == "ConfigMap" and write.changed]


@pytest.mark.clause("A7")
def test_a_late_daemon_does_not_delete_what_the_other_one_made_under_a_new_name() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _, _ = await two_daemons(group)
        changes = await edit(group, here, first=copying(), then=copying(**renaming("-new")))
        names = sorted(found["metadata"]["name"] for found in here.list("ConfigMap"))
        assert names == ["x-new", "y-new", "z-new"]
        assert not [name for verb, name in changes if verb == "delete" and "-new" in name]

    simulate(scenario, n=2)


@pytest.mark.clause("A7")
def test_a_late_daemon_does_not_put_a_copy_back_to_what_its_rule_made_before() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _, _ = await two_daemons(group)
        first, then = (copying(labels={"add": {"as": text}}) for text in ("before", "after"))
        changes = await edit(group, here, first=first, then=then)
        assert {found["metadata"]["labels"]["as"] for found in here.list("ConfigMap")} == {"after"}
        assert len(changes) == 3

    simulate(scenario, n=2)


@pytest.mark.clause("A7")
def test_a_late_daemon_deletes_with_the_rule_that_it_has_heard_of() -> None:
    async def scenario(group: SimGroup) -> None:
        here, owner, second = await two_daemons(group)
        await edit(group, here, first=copying(), then=copying(**renaming("-new")))
        here.first.kill()
        await asyncio.sleep(5.0)
        owner.delete("ConfigMap", "x", namespace="default")
        await group.settle()
        assert second.runs
        assert sorted(found["metadata"]["name"] for found in here.list("ConfigMap")) == ["y-new", "z-new"]

    simulate(scenario, n=2)


@pytest.mark.clause("A7", "W3")
@pytest.mark.parametrize("away_s", [5.0, 60.0])
def test_a_daemon_that_stood_still_deletes_no_copy_by_an_earlier_state_of_a_rule_that_went(away_s: float) -> None:
    """The rule goes with its definition, and acts for a window: here as it was before its last edit."""

    async def scenario(group: SimGroup) -> None:
        here, owner = group.members
        here.has_pods = True
        await group.join()
        here.create(rule("maps", SECRET, {"match": [{}]}, deletionPolicy="Delete"))
        await group.settle()
        second = here.start_second()
        await asyncio.sleep(0.1)
        second.stand_still()
        owner.create(config_map("x", {"n": "1"}))
        here.apply(copying())
        await asyncio.sleep(5.0)
        assert values(here) == {"x": "1"}  # by the other daemon
        here.server.terminate("ResourceSyncRule")
        for gone in here.list("ResourceSyncRule"):
            here.delete("ResourceSyncRule", gone["metadata"]["name"])
        here.server.change_served("ResourceSyncRule", served=False)
        second.go_on()
        second.hear_peers()
        await asyncio.sleep(away_s)
        assert values(here) == {"x": "1"}
        here.server.change_served("ResourceSyncRule", served=True)
        await asyncio.sleep(60.0)
        assert values(here) == {"x": "1"}

    simulate(scenario, n=2)


async def still_one(group: SimGroup) -> tuple[Member, Member, Replica]:
    """Let a cluster with two daemons copy from another one, and the second daemon stand still."""
    here, owner, second = await two_daemons(group)
    second.hear_late(0.0)
    here.create(copying())
    await group.settle()
    second.stand_still()
    return here, owner, second


def writes_of(here: Member, name: str) -> list[str]:
    """List the verbs of what daemons changed of a copy."""
    return [write.verb for write in here.server.journal if write.key.name == name and write.changed]


@pytest.mark.clause("A7")
@pytest.mark.parametrize("is_new", [True, False], ids=["a new source", "a known source"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_a_daemon_that_stood_still_makes_no_copy_that_the_other_one_deleted(is_new: bool, rounds: int) -> None:
    """Its streams bring what happened here before what happened at the owner."""

    async def scenario(group: SimGroup) -> None:
        here, owner, second = await still_one(group)
        name = "later" if is_new else "x"
        done = len(writes_of(here, name))
        for number in range(rounds):
            if number or is_new:
                owner.create(config_map(name, {"n": "0"}))
                await asyncio.sleep(1.0)
            for value in range(3):
                owner.apply(config_map(name, {"n": f"{number} {value}"}))
                await asyncio.sleep(1.0)
            owner.delete("ConfigMap", name, namespace="default")
            await asyncio.sleep(1.0)
        assert here.find("ConfigMap", name, namespace="default") is None
        by_first = writes_of(here, name)[done:]
        assert by_first.count("create") == by_first.count("delete") - (not is_new) == rounds - (not is_new)
        second.go_on()
        await asyncio.sleep(1.0)
        second.hear_peers()
        await group.settle()
        assert writes_of(here, name)[done:] == by_first

    simulate(scenario, n=2)


@pytest.mark.clause("A5")
def test_a_daemon_that_stood_still_makes_a_copy_again_that_a_person_deleted() -> None:
    async def scenario(group: SimGroup) -> None:
        here, _, second = await still_one(group)
        here.first.kill()
        here.delete("ConfigMap", "x", namespace="default")
        second.hear_peers()
        await group.settle()
        assert here.get("ConfigMap", "x", namespace="default")["data"] == {"n": "1"}

    simulate(scenario, n=2)


def label_own_cluster(member: Member, labels: dict[str, str]) -> None:
    found = member.get("Cluster", member.name)
    member.replace({**found, "metadata": {**found["metadata"], "labels": labels}})


@pytest.mark.clause("A7")
@pytest.mark.parametrize("stands_still", [True, False], ids=["a feature", "a label of our own Cluster"])
def test_a_daemon_deletes_no_copy_for_what_the_other_one_has_heard_first(stands_still: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        here, owner = group.members
        here.has_pods = True
        await group.join()
        second = here.start_second()
        await group.settle()
        spec: dict[str, Any] = {"clusterFeatureMatch": [{"featureName": "gold"}]}
        if not stands_still:
            spec = {"targetClusters": {"matchLabels": YES}}
        here.create(
            rule("maps", CONFIG_MAP, {"match": [{"objectKey": {"name": "x"}}]}, deletionPolicy="Delete", **spec)
        )
        owner.create(config_map("x", {"n": "1"}))
        await group.settle()
        await asyncio.sleep(60.0)
        assert here.find("ConfigMap", "x", namespace="default") is None
        if stands_still:
            second.stand_still()
            owner.create(GOLD)
        else:
            second.hear_late(8.0)
            label_own_cluster(here, YES)
        await asyncio.sleep(2.0)
        second.go_on()
        await asyncio.sleep(8.0)
        second.hear_peers()
        await group.settle()
        assert writes_of(here, "x") == ["create"]
        assert second.runs
        if stands_still:
            owner.delete("ClusterFeature", "gold")
        else:
            second.hear_late(0.0)
            label_own_cluster(here, {})
        await asyncio.sleep(60.0)
        await group.settle()
        assert writes_of(here, "x") == ["create", "delete"]

    simulate(scenario, n=2)


@pytest.mark.clause("W4")
@pytest.mark.parametrize("own", ["0", "100"], ids=["no limit", "a laxer one"])
def test_the_lowest_limit_of_two_daemons_holds_for_both(own: str) -> None:
    async def scenario(group: SimGroup) -> None:
        here, owner = group.members
        here.has_pods = True
        await group.join()
        second = here.start_second(DELETION_LIMIT_PERCENT=own)
        here.create(copying())
        for number in range(MANY):
            owner.create(config_map(f"m-{number:03}", {"n": "1"}))
        await group.settle()
        for number in range(MANY):
            owner.delete("ConfigMap", f"m-{number:03}", namespace="default")
        await group.settle()
        assert (len(here.list("ConfigMap")), second.runs) == (MANY, True)
        assert here.condition("ResourceSyncRule", "maps", "DeletionHalted").get("status") == "True"
        here.roll_over()
        await asyncio.sleep(400.0)
        await group.settle()
        assert len(here.list("ConfigMap")) == (0 if own == "0" else MANY)  # a halt lasts, but not where no limit is

    simulate(scenario, n=2)


async def counting(group: SimGroup, count: int, *, window_s: int = 0) -> tuple[Member, Member, Replica, Replica]:
    """Let two daemons have copies of so many objects of another cluster, which has the feature gold.

    Of the daemons, the one comes first that writes the statuses of the rule and of the owner's Cluster.
    """
    here, owner = group.members
    here.has_pods = True
    here.options["STABILIZATION_WINDOW_SECONDS"] = str(window_s)
    await group.join()
    second = here.start_second()
    owner.create(GOLD)
    wanted = {"match": [{"labels": [{"matchLabels": YES}]}]}
    here.create(
        rule("maps", CONFIG_MAP, wanted, deletionPolicy="Delete", clusterFeatureMatch=[{"featureName": "gold"}])
    )
    for number in range(count):
        owner.create(config_map(f"m-{number:03}", {"n": "1"}, labels=YES))
    await group.settle()
    assert left(here) == count
    assert [writes_statuses(found) for found in (second, here.first)] == [True, False]
    return here, owner, second, here.first


def writes_statuses(replica: Replica) -> bool:
    assert replica.daemon is not None
    writes = replica.daemon.engine.replicas.writes_status_of
    found = {writes(meta.RULES, "maps"), writes(meta.CLUSTERS, "b")}
    assert len(found) == 1
    return found == {True}


def left(member: Member) -> int:
    return sum(item["metadata"]["name"].startswith("m-") for item in member.list("ConfigMap"))


def counts(here: Member) -> dict[str, Any]:
    (entry,) = here.get("ResourceSyncRule", "maps")["status"]["clusters"]
    return dict(entry["deletions"])


@pytest.mark.clause("W4")
@pytest.mark.parametrize("by_writer", [False, True], ids=["the other one", "the writer of the status"])
def test_what_one_daemon_deleted_counts_for_the_other_one(by_writer: bool) -> None:
    """No daemon deletes more than 45, of which 50 may always go; which of the two does not matter."""

    async def scenario(group: SimGroup) -> None:
        here, owner, writer, other = await counting(group, 45)
        first, second = (writer, other) if by_writer else (other, writer)
        second.barred.add("DELETE")
        owner.delete("ClusterFeature", "gold")
        await asyncio.sleep(10.0)
        assert (left(here), len(first.deleted), len(second.deleted)) == (0, 45, 0)
        owner.create(GOLD)
        await asyncio.sleep(10.0)
        assert (left(here), counts(here)["counted"]) == (45, 45)
        second.barred.clear()
        first.barred.add("DELETE")
        owner.delete("ClusterFeature", "gold")
        await group.settle()
        assert (left(here), len(second.deleted)) == (45, 0)
        assert here.condition("ResourceSyncRule", "maps", "DeletionHalted").get("status") == "True"

    simulate(scenario, n=2)


@pytest.mark.clause("W4")
def test_what_both_daemons_delete_once_a_label_is_lost_counts_each_time() -> None:
    """Both are about to ask the owner again when the first copies go: each knows why the other one deletes those."""

    async def scenario(group: SimGroup) -> None:
        here, owner, writer, other = await counting(group, 45, window_s=5)
        for number in range(45):
            owner.apply(config_map(f"m-{number:03}", {"n": "1"}, labels={"sync": "no"}))
        await group.settle()
        assert left(here) == 0
        assert len(writer.deleted) + len(other.deleted) == 45
        assert other.deleted
        assert counts(here)["counted"] == 45

    simulate(scenario, n=2)


@pytest.mark.clause("W4")
def test_beyond_a_few_a_daemon_deletes_once_the_one_that_writes_the_status_has_stored_the_sum() -> None:
    """Thirty went by the writer, and thirty more, which are less than half, are to go by the other one."""

    def narrow(here: Member, *parts: str) -> None:
        labels = [{"matchLabels": {**YES, "part": part}} for part in parts]
        found = here.get("ResourceSyncRule", "maps")
        here.replace({**found, "spec": {**found["spec"], "rules": [{"match": [{"labels": labels}]}]}})

    async def scenario(group: SimGroup) -> None:
        here, owner, writer, other = await counting(group, 140)
        for number in range(140):
            part = "x" if number < 30 else "y" if number < 60 else "z"
            owner.apply(config_map(f"m-{number:03}", {"n": "1"}, labels={"part": part}))
        narrow(here, "x", "y", "z")
        await group.settle()
        statuses = {"ResourceSyncRule maps", "Cluster b"}
        here.server.denied |= statuses
        other.barred.add("DELETE")
        narrow(here, "y", "z")
        await asyncio.sleep(4.0)
        assert (len(writer.deleted), left(here)) == (30, 110)  # as few as that may go at once
        other.barred.clear()
        writer.barred.add("DELETE")
        narrow(here, "z")
        await asyncio.sleep(8.0)
        assert (len(other.deleted), left(here)) == (0, 110)
        asked = [write for write in here.writes if write.kind == "ResourceSyncRule" and write.status == 403]
        assert asked
        here.server.denied -= statuses
        before = len(here.server.journal)
        await asyncio.sleep(20.0)
        assert (len(other.deleted), left(here)) == (30, 80)
        went = [write.kind for write in here.server.journal[before:] if write.changed]
        assert "ConfigMap" not in went[: went.index("ResourceSyncRule")]
        assert "ConfigMap" not in went[: went.index("Cluster")]
        await group.settle()
        assert (counts(here)["baseline"], counts(here)["counted"], left(here)) == (140, 60, 80)
        assert here.condition("ResourceSyncRule", "maps", "DeletionHalted").get("status") != "True"

    simulate(scenario, n=2)


def values(member: Member) -> dict[str, str]:
    """Return what the ConfigMaps hold, by name."""
    return {found["metadata"]["name"]: found["data"]["n"] for found in member.list("ConfigMap", namespace="default")}


@pytest.mark.clause("R4", "A7")
@pytest.mark.parametrize("bump", [0, 1_000_000])
@pytest.mark.parametrize("late_s", [2.0, 10.0])
@pytest.mark.parametrize("late", ["the first one", "the second one"])
def test_what_one_daemon_writes_after_a_restore_while_the_other_one_lists_stays(
    late: str, late_s: float, bump: int
) -> None:
    """Its list is as the backup was, and comes after those writes; then it knows by itself what is there."""

    async def scenario(group: SimGroup) -> None:
        here, owner, second = await two_daemons(group)
        second.hear_late(0.0)
        here.create(copying())
        for name in ("edited", "edited-again", "deleted", "deleted-later"):
            owner.create(config_map(name, {"n": "1"}))
        await group.settle()
        backup = here.server.store.backup()
        here.server.store.revision += 10_000  # as in a busy cluster: what comes after the restore has lower ones
        owner.apply(config_map("edited", {"n": "2"}))
        owner.apply(config_map("edited-again", {"n": "2"}))
        owner.delete("ConfigMap", "deleted", namespace="default")
        owner.create(config_map("made", {"n": "1"}))
        owner.create(config_map("made-and-deleted-later", {"n": "1"}))
        await group.settle()
        slow, quick = (here.first, second) if late == "the first one" else (second, here.first)
        slow.late_s = late_s
        group.cut("a")
        here.server.store.restore(backup, bump=bump)
        await asyncio.sleep(1.0)
        assert values(here)["edited"] == "2"  # by the other daemon
        owner.apply(config_map("edited-again", {"n": "3"}))
        owner.create(config_map("since", {"n": "1"}))
        for name in ("deleted-later", "made-and-deleted-later"):
            owner.delete("ConfigMap", name, namespace="default")
        await group.settle()
        assert values(here) == values(owner)
        assert values(here)["edited-again"] == "3"
        quick.kill()
        here.apply(config_map("edited", {"n": "spoilt"}))
        owner.apply(config_map("made", {"n": "2"}))
        owner.delete("ConfigMap", "edited-again", namespace="default")
        await group.settle()
        assert values(here) == values(owner)
        assert slow.runs


@pytest.mark.clause("A11")
def test_the_version_is_that_of_the_newest_ready_daemon_before_and_after_a_restart_and_once_it_is_gone() -> None:
    """The later daemon is its Pod, and what it wrote. An earlier one that starts does not write before it knows it."""

    async def scenario(group: SimGroup) -> None:
        here, _ = group.members
        here.has_pods = True
        await group.join()
        await group.settle()
        own = here.get("Pod", here.first.pod, namespace=NAMESPACE)["metadata"]
        info = {"name": "later", "namespace": NAMESPACE, "labels": {**own["labels"], VERSION_LABEL: "9.9.9"}}
        here.create({"kind": "Pod", "metadata": info})
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        here.replace({"kind": "Pod", "metadata": info, "status": ready}, subresource="status")
        await group.settle()
        annotations = {meta.DAEMON: json.dumps({"version": "9.9.9"})}
        here.apply({"kind": "Cluster", "metadata": {"name": here.name, "annotations": annotations}})

        def version() -> str:
            found = here.get("Cluster", here.name)["metadata"]["annotations"]
            return str(json.loads(found[meta.DAEMON])["version"])

        mark = len(here.server.journal)
        await asyncio.sleep(150.0)
        await here.restart()
        await asyncio.sleep(150.0)
        written = [write for write in here.server.journal[mark:] if write.kind == "Cluster" and write.verb == "update"]
        assert (version(), [write for write in written if write.changed and write.who == here.name]) == ("9.9.9", [])
        here.delete("Pod", "later", namespace=NAMESPACE)
        await asyncio.sleep(5.0)
        assert version() == __version__

    simulate(scenario, n=2)
