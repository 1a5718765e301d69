"""A member's own Cluster that is missing for a while, at home and in the eyes of the others. O6, P2, A1."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from registry_controller.api import meta, names
from registry_controller.core.status.cluster import OWN_CLUSTER_MISSING
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, carry_over, config_map, rule, simulate
from tests.sim.cluster.member import NAMESPACE, READER, Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import declare, held, knows, leave, share, stones

ABSENCE_S = 600
SHAPE = {
    "labels": {"region": "north"},
    "annotations": {"team": "platform"},
    "endpoints": [{"serverAddress": "https://b.sim:6443"}],
}


@pytest.fixture(autouse=True)
def clocks() -> Iterator[None]:
    with virtual_clocks():
        yield


def shape(member: Member) -> tuple[Any, ...]:
    """Tell of a Cluster what its people gave it."""
    found = member.get("Cluster", "b")
    info = found["metadata"]
    return info.get("labels"), (info.get("annotations") or {}).get("team"), found["spec"]


async def prepare(group: SimGroup) -> tuple[int, ...]:
    """Let b's Cluster have labels, annotations and an endpoint, and all know; tell how much was written at a and c."""
    await share(group)
    b = group["b"]
    found = b.get("Cluster", "b")
    info = {**found["metadata"], "labels": SHAPE["labels"], "annotations": SHAPE["annotations"]}
    spec = {**found["spec"], "kubernetesApiEndpoints": SHAPE["endpoints"]}
    b.replace({**found, "metadata": info, "spec": spec})
    await group.settle()
    return tuple(len(group[name].server.journal) for name in "abc")


def telling(path: str, template: str) -> dict[str, Any]:
    """Return a rule whose copies tell the name of a Cluster at a path."""
    entry = {
        "match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}],
        "mutations": {"overrides": [{"type": "replace", "path": path, "value": template}]},
    }
    return rule("telling", CONFIG_MAP, entry)


async def copy_named_after_owner(group: SimGroup) -> tuple[Member, Member]:
    """Join the members; let b name its copy of an object of a after the Cluster of a; return both."""
    await group.join()
    a, b = group["a"], group["b"]
    b.create(telling("/metadata/name", "told-{{ .Cluster.GetName }}"))
    a.create(config_map("told", {"at": "a"}, labels={"sync": "yes"}))
    await group.settle()
    return a, b


def check_copy_kept_its_name(member: Member) -> None:
    written = [(write.verb, write.key.name) for write in member.server.journal if write.kind == "ConfigMap"]
    assert written == [("create", "told-a")]


def check_nothing_lost(group: SimGroup, before: tuple[int, ...]) -> None:
    """Nothing that b owns was touched at the others, nor what they own at b; all are Ready everywhere."""
    for member, count in zip(group.members, before, strict=True):
        written = [write for write in member.server.journal[count:] if write.kind == "ConfigMap" and write.changed]
        assert not written, member.name
        deleted = [write for write in member.server.journal[count:] if write.verb == "delete" and write.status == 200]
        assert not [write for write in deleted if write.kind in ("Cluster", "Secret")], member.name
        assert held(member) == {"goes", "stays"}
        assert not stones(member)
        for name in "abc":
            assert knows(member, name) == (True, True)
            assert member.get("Cluster", name)["status"]["state"] == "Ready", (member.name, name)
            assert not member.condition("Cluster", name, OWN_CLUSTER_MISSING)


async def check_in_step(group: SimGroup) -> None:
    """What b changes reaches the others, and b gets what they change."""
    group["b"].apply(config_map("stays", {"at": "b", "now": "yes"}))
    await group.settle()
    for name in "ac":
        assert group[name].get("ConfigMap", "stays", namespace="default")["data"]["now"] == "yes"


@pytest.mark.parametrize("labels", [True, False], ids=["with its labels", "without its labels"])
@pytest.mark.parametrize("pause_s", [0.3, 2.0])
def test_an_own_cluster_that_is_replaced_loses_nothing(labels: bool, pause_s: float) -> None:
    """O6: `kubectl replace --force`, and GitOps that replaces; what is created counts, as it is."""

    async def scenario(group: SimGroup) -> None:
        before = await prepare(group)
        b = group["b"]
        found = b.get("Cluster", "b")
        info = {"name": "b", **({"labels": SHAPE["labels"]} if labels else {})}
        b.delete("Cluster", "b")
        await asyncio.sleep(pause_s)
        b.create({"kind": "Cluster", "metadata": info, "spec": found["spec"]})
        uid = b.get("Cluster", "b")["metadata"]["uid"]
        await asyncio.sleep(15.0)
        check_nothing_lost(group, before)
        await group.settle()
        check_nothing_lost(group, before)
        assert b.get("Cluster", "b")["metadata"]["uid"] == uid
        for name in "ac":
            assert group[name].get("Cluster", "b")["metadata"].get("labels", {}).get("region") == (
                "north" if labels else None
            )
        await check_in_step(group)

    simulate(scenario, n=3)


def test_an_own_cluster_that_is_deleted_is_made_again_as_it_was() -> None:
    """P2, O6: within seconds, also as it was edited at the last moment."""

    async def scenario(group: SimGroup) -> None:
        before = await prepare(group)
        b = group["b"]
        found = b.get("Cluster", "b")
        b.replace({**found, "metadata": {**found["metadata"], "labels": {**SHAPE["labels"], "last": "word"}}})
        b.delete("Cluster", "b")
        await asyncio.sleep(15.0)
        check_nothing_lost(group, before)
        labels, team, spec = shape(b)
        assert (labels, team, spec) == ({"region": "north", "last": "word"}, "platform", found["spec"])
        await group.settle()
        check_nothing_lost(group, before)
        await check_in_step(group)

    simulate(scenario, n=3)


@pytest.mark.parametrize("shown", ["by members", "by the Secret"])
@pytest.mark.parametrize("name", ["b", ""], ids=["named", "unnamed"])
def test_an_own_cluster_that_went_while_no_daemon_ran_is_made_again(shown: str, name: str) -> None:
    """P2: as live members show it, else as the published Secret does."""

    async def scenario(group: SimGroup) -> None:
        before = await prepare(group)
        b = group["b"]
        was = shape(b)
        uid = b.get("Cluster", "b")["metadata"]["uid"]
        await b.stop()
        b.delete("Cluster", "b")
        b.options["PROVISION_LOCAL_CLUSTER"] = name
        if shown == "by the Secret":
            for peer in "ac":
                b.delete("Cluster", peer)
        await asyncio.sleep(60.0)
        b.start()
        await group.settle()
        assert b.get("Cluster", "b")["metadata"]["uid"] != uid
        if shown == "by members":
            assert shape(b) == was
            check_nothing_lost(group, before)
            await check_in_step(group)
        else:
            assert b.get("Cluster", "b")["spec"]["authInfo"] == was[2]["authInfo"]
            check_nothing_lost(group, before)
            await check_in_step(group)

    simulate(scenario, n=3)


@pytest.mark.parametrize(("carried", "name"), [("", ""), ("c", "c-fresh"), ("b", "b-old")])
def test_a_member_that_shows_a_forged_cluster_is_outvoted_and_gets_no_secret(carried: str, name: str) -> None:
    """O2: members show how a Cluster was; its ID and its Secret are this cluster's own."""

    async def scenario(group: SimGroup) -> None:
        await prepare(group)
        a, b = group["a"], group["b"]
        await b.stop()
        await a.stop()
        forged = a.get("Cluster", "b")
        spec = {**forged["spec"], "kubernetesApiEndpoints": [{"serverAddress": "https://evil.sim:6443"}]}
        spec["authInfo"] = {"secretRef": {"name": "a", "namespace": NAMESPACE}}
        a.replace({**forged, "spec": spec})
        was = shape(b)
        b.delete("Cluster", "b")
        if carried:
            beside = group[carried].get("Secret", carried, namespace=NAMESPACE)
            info = {"name": name, "namespace": NAMESPACE}
            b.create({"kind": "Secret", "metadata": info, "type": beside["type"], "data": beside["data"]})
        b.start()
        await asyncio.sleep(30.0)
        assert shape(b)[2]["authInfo"] == was[2]["authInfo"]
        assert "evil" not in str(shape(b))
        a.start()
        await group.settle()
        for member in group.members[1:]:
            assert member.get("Cluster", "b")["status"]["state"] == "Ready"

    simulate(scenario, n=3)


def missing_since(member: Member) -> str:
    return str(member.condition("Cluster", "b", OWN_CLUSTER_MISSING).get("lastTransitionTime", ""))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_member_without_a_cluster_of_itself_has_left_once_that_lasts(restarts: bool) -> None:
    """O6: as the Go original leaves; restarts do not begin anew."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        a, b, c = group.members
        await b.stop()  # no daemon keeps it
        b.delete("Cluster", "b")
        await asyncio.sleep(60.0)
        since = missing_since(a)
        assert since
        for _ in range(8):
            await asyncio.sleep(60.0)
            for member in (a, c):
                assert knows(member, "b") == (True, True)
                assert held(member) == {"goes", "stays"}
            if restarts:
                await a.restart()
        await asyncio.sleep(20.0)
        assert missing_since(a) == since
        await asyncio.sleep(60.0)
        await group.settle()
        for member in (a, c):
            assert knows(member, "b") == (False, False), member.name
            assert held(member) == {"stays"}
            assert knows(member, "a") == knows(member, "c") == (True, True)

    simulate(scenario, n=3)


@pytest.mark.parametrize("restarts", [False, True])
def test_an_absence_does_not_last_longer_because_a_clock_is_ahead(restarts: bool) -> None:
    """O6: only the time counts that a live member's clock shows, too."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        a, b, _ = group.members
        await b.stop()
        own = b.get("Cluster", "b")
        b.delete("Cluster", "b")
        await asyncio.sleep(20.0)
        assert missing_since(a)
        a.server.clock_ahead = timedelta(days=1)
        if restarts:
            await a.restart()
        await asyncio.sleep(120.0)
        assert knows(a, "b") == (True, True)
        assert held(a) == {"goes", "stays"}
        b.create({"kind": "Cluster", "metadata": {"name": "b"}, "spec": own["spec"]})
        a.server.clock_ahead = timedelta()
        b.start()
        await group.settle()
        assert knows(a, "b") == (True, True)

    simulate(scenario, n=3)


def test_an_absence_that_ends_in_time_is_forgotten() -> None:
    """O6: what comes back was never away, however often."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        a, b, _ = group.members
        await b.stop()
        own = b.get("Cluster", "b")
        for _ in range(3):
            b.delete("Cluster", "b")
            await asyncio.sleep(ABSENCE_S - 60.0)
            assert missing_since(a)
            b.create({"kind": "Cluster", "metadata": {"name": "b"}, "spec": own["spec"]})
            await asyncio.sleep(10.0)
            assert not missing_since(a)
        b.start()
        await group.settle()
        assert held(a) == {"goes", "stays"}
        assert knows(a, "b") == (True, True)

    simulate(scenario, n=3)


@pytest.mark.parametrize("crd", ["empty", "not served"])
def test_a_member_that_lost_all_its_clusters_has_not_left(crd: str) -> None:
    """O6: a list that is wholly empty is no word about the group; but a person here may say that it has left."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        a, b, c = group.members
        await b.stop()
        if crd == "not served":
            b.server.change_served("Cluster", served=True)
        for name in "bac":
            b.delete("Cluster", name)
        if crd == "not served":
            b.server.change_served("Cluster", served=False)
            group.cut("b")
        await asyncio.sleep(ABSENCE_S * 3)
        for member in (a, c):
            assert knows(member, "b") == (True, True)
            assert held(member) == {"goes", "stays"}
            condition = member.condition("Cluster", "b", OWN_CLUSTER_MISSING)
            assert condition["reason"] == "MissingForLong"
            assert "leave NAME" in condition["message"]
        await declare(group, "b", at="a")
        assert knows(a, "b") == (False, False)
        assert held(a) == {"stays"}

    simulate(scenario, n=3)


def test_an_own_cluster_that_waits_for_a_finalizer_is_there() -> None:
    """O6: until it is gone; then the daemon makes it again."""

    async def scenario(group: SimGroup) -> None:
        before = await prepare(group)
        b = group["b"]
        found = b.get("Cluster", "b")
        b.replace({**found, "metadata": {**found["metadata"], "finalizers": ["example.com/held"]}})
        await group.settle()
        b.delete("Cluster", "b")
        await asyncio.sleep(ABSENCE_S * 2)
        check_nothing_lost(group, before)
        going = b.get("Cluster", "b")
        assert going["metadata"]["deletionTimestamp"]
        b.replace({**going, "metadata": {**going["metadata"], "finalizers": []}})
        await group.settle()
        assert not b.get("Cluster", "b")["metadata"].get("deletionTimestamp")
        check_nothing_lost(group, before)

    simulate(scenario, n=3)


@pytest.mark.parametrize("who", ["leaves", "is declared"])
def test_a_departure_that_was_ordered_ends_however_many_copies_go(who: str) -> None:
    """O6, W4: `leave` is an order; nothing is halted, here or there."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        for name in "ab":
            for number in range(120):
                group[name].create(config_map(f"{name}-{number}", {"at": name}, labels={"keep": "goes"}))
        await group.settle()
        a, b, c = group.members
        assert len(held(c)) == 242
        if who == "leaves":
            await leave(group, "b")
            assert held(b) == {"goes", "stays", *(f"b-{number}" for number in range(120))}
        else:
            await b.stop()
            group.fail("b", Fault.REFUSED)
            await asyncio.sleep(60.0)
            await declare(group, "b", at="a")
        await group.settle()
        for member in (a, c) if who == "leaves" else (a,):
            assert held(member) == {"stays", *(f"a-{number}" for number in range(120))}, member.name
            assert not [rule for rule in member.list("ResourceSyncRule") if "haltedAt" in str(rule.get("status"))]
        if who == "is declared":  # another's word is no order
            assert len(held(c)) == 242
            assert "haltedAt" in str(c.get("ResourceSyncRule", "goes")["status"])
            assert knows(c, "b") == (True, True)

    simulate(scenario, n=3)


def test_a_lasting_absence_is_counted_by_the_deletion_limiter() -> None:
    """O6, W4: nobody ordered it."""

    async def scenario(group: SimGroup) -> None:
        await share(group)
        a, b, _ = group.members
        for number in range(120):
            b.create(config_map(f"b-{number}", {"at": "b"}, labels={"keep": "goes"}))
        await group.settle()
        await b.stop()
        b.delete("Cluster", "b")
        await asyncio.sleep(ABSENCE_S * 2)
        assert len(held(a)) == 122
        assert "haltedAt" in str(a.get("ResourceSyncRule", "goes")["status"])
        assert knows(a, "b") == (True, True)
        b.start()
        await group.settle()
        assert len(held(a)) == 122
        assert "haltedAt" not in str(a.get("ResourceSyncRule", "goes")["status"])

    simulate(scenario, n=3)


@pytest.mark.parametrize("away_s", [0.3, 20.0, 300.0])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_reinstalled_definition_loses_nobody(away_s: float, restarts: bool) -> None:
    """A1, P2, O6: the Clusters go with it; the links stay open, or are opened with the Secrets, until they are made."""

    async def scenario(group: SimGroup) -> None:
        before = await prepare(group)
        b = group["b"]
        was = shape(b)
        b.server.change_served("Cluster", served=True)
        await group.settle()
        for name in "bac":
            b.delete("Cluster", name)
        b.server.change_served("Cluster", served=False)
        group.cut("b")
        await asyncio.sleep(away_s)
        if restarts:
            await b.restart()
        b.server.change_served("Cluster", served=True)
        await asyncio.sleep(90.0)
        for name in "abc":
            assert b.find("Cluster", name) is not None, name
        await group.settle()
        check_nothing_lost(group, before)
        assert shape(b) == was
        await check_in_step(group)

    simulate(scenario, n=3)


def test_a_daemons_namespace_that_was_deleted_needs_a_swap_and_says_so() -> None:
    """P2, O5: the Clusters and all copies stay; the credentials of both sides are carried to and from one member."""

    async def scenario(group: SimGroup) -> None:
        await prepare(group)
        a, b, _ = group.members
        await b.stop()
        b.delete("Namespace", NAMESPACE)
        await asyncio.sleep(ABSENCE_S * 2)
        b.create({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        b.create({"kind": "ServiceAccount", "metadata": {"name": READER, "namespace": NAMESPACE}})
        b.start()
        await group.settle()
        for member, peer, words in ((b, "a", "by a new swap"), (b, "c", "by a new swap"), (a, "b", "carry the Secret")):
            status = member.get("Cluster", peer)["status"]
            assert status["state"] != "Ready"
            assert words in status["message"], status
            assert held(member) == {"goes", "stays"}
        carry_over(b, a)
        carry_over(a, b)
        await group.settle()
        for member in group.members:
            for name in "abc":
                assert member.get("Cluster", name)["status"]["state"] == "Ready", (member.name, name)
            assert held(member) == {"goes", "stays"}
        await check_in_step(group)

    simulate(scenario, n=3)


@pytest.mark.clause("P2")
@pytest.mark.parametrize("first", ["own", "others"])
@pytest.mark.parametrize("pause_s", [0.0, 60.0])
def test_others_of_its_id_that_come_and_go_do_not_take_the_place_of_the_own_cluster(first: str, pause_s: float) -> None:
    """The events of several Clusters are in no order: for a moment any of them may be the only one that is known."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group["a"], group["b"]
        a.create(telling("/data/at", "{{ .LocalCluster.GetName }}"))
        await group.settle()
        names = [f"a-{number}" for number in range(5)]
        if first == "own":
            a.delete("Cluster", "a")
        for name in names:
            a.create({"kind": "Cluster", "metadata": {"name": name}, "spec": {"clusterID": a.id}})
        if first == "others":
            a.delete("Cluster", "a")
        await asyncio.sleep(pause_s)
        b.create(config_map("told", {"at": "b"}, labels={"sync": "yes"}))
        await asyncio.sleep(1.0)
        for name in names:
            a.delete("Cluster", name)
        await group.settle()
        assert {item["metadata"]["name"] for item in a.list("Cluster")} == {"a", "b", "c"}
        assert a.get("ConfigMap", "told", namespace="default")["data"] == {"at": "a"}
        written = [write for write in a.server.journal if write.kind == "ConfigMap"]
        assert len(written) == 1

    simulate(scenario, n=3)


@pytest.mark.clause("O6")
def test_a_list_that_is_ahead_of_the_watch_does_not_show_that_the_own_cluster_has_another_name() -> None:
    """A new rule has its own list, while the watch still shows the Cluster that is missing there."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, c = group["a"], group["c"]
        await a.stop()
        group.wire("c", "a").late_s = 300.0
        a.delete("Cluster", "a")
        c.delete("ResourceSyncRule", names.CLUSTERS_SINK)
        await asyncio.sleep(20.0)
        assert c.find("Cluster", "a") is not None
        group.wire("c", "a").late_s = 0.0
        a.start()
        await group.settle()
        assert not [write for write in c.server.journal if (write.verb, write.kind) == ("delete", "Cluster")]

    simulate(scenario, n=3)


@pytest.mark.clause("P2")
def test_copies_keep_the_name_of_their_owner_while_that_has_several_clusters_of_itself() -> None:
    """The others take four of one ID: the one that they had may not be among them."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copy_named_after_owner(group)
        await a.stop()
        names = [f"a-{number}" for number in range(5)]
        a.delete("Cluster", "a")
        for name in names:
            a.create({"kind": "Cluster", "metadata": {"name": name}, "spec": {"clusterID": a.id}})
        await asyncio.sleep(5.0)
        assert b.find("Cluster", "a") is None
        await asyncio.sleep(100.0)
        a.create({"kind": "Cluster", "metadata": {"name": "a"}, "spec": {"clusterID": a.id}})
        a.start()
        for name in names:
            a.delete("Cluster", name)
        await group.settle()
        assert {item["metadata"]["name"] for item in b.list("Cluster")} == {"a", "b", "c"}
        check_copy_kept_its_name(b)

    simulate(scenario, n=3)


@pytest.mark.clause("P1")
@pytest.mark.parametrize("is_own_there", [True, False])
def test_copies_keep_the_name_of_their_owner_where_a_daemon_starts_beside_another_cluster_of_it(
    is_own_there: bool,
) -> None:
    """The one that a person made here is older, because the copy of the owner's own was made again."""

    async def scenario(group: SimGroup) -> None:
        a, b = await copy_named_after_owner(group)
        own = b.get("Cluster", "a")
        info = {"name": "a-1", "annotations": {meta.SYNC_DISABLED: "true"}}
        b.create({"kind": "Cluster", "metadata": info, "spec": own["spec"]})
        await group.settle()
        await a.stop()
        for member in (a, b):
            member.delete("Cluster", "a")
        await asyncio.sleep(1.0)
        assert b.get("Cluster", "a-1")["status"]["version"], "it is read through this one"
        a.start()
        await group.settle()
        assert b.get("Cluster", "a")["metadata"]["creationTimestamp"] > own["metadata"]["creationTimestamp"]
        if not is_own_there:
            await a.stop()
            a.delete("Cluster", "a")
        await b.stop()
        b.start()
        await asyncio.sleep(60.0)
        check_copy_kept_its_name(b)

    simulate(scenario, n=3)
