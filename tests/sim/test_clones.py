"""Two clusters with one ID: what is left alone, what people are told, and what they cannot do by mistake. P1, O6."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import BadInput
from registry_controller.api.meta import ObjectKey
from registry_controller.planner.explain import explain_object
from tests.sim.cluster.dry_run import open_dry_run
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, hand_over, rule, simulate
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.leaving import declare, held, stones
from tests.sim.schedule.play import play
from tests.sim.schedule.schedule import Schedule
from tests.sim.schedule.stage import Step
from tests.sim.test_dishonest_members import with_token

ID = "0c10ed00-0000-4000-8000-000000000000"
CLONES = {"b": ID, "c": ID}
SAID = f"two API servers have the ID {ID}, as b, c: one is a clone; delete one of these Clusters"


async def _copied(group: SimGroup) -> None:
    """Let a hold a copy of b's object, by a rule of its own."""
    a, b = group.members[:2]
    group.start()
    await group.settle()
    hand_over(b, a)
    a.create(rule("all", CONFIG_MAP, deletionPolicy="Delete"))
    b.create(config_map("copied", {"at": "b"}))
    await group.settle()
    assert held(a) == {"copied"}


async def _cloned(group: SimGroup, *, ways: tuple[str, ...] = ()) -> None:
    """Let a hold a copy of b's object, and a Cluster of each of the two, and others that lead to b."""
    a, b, c = group.members[:3]
    await _copied(group)
    for name in ways:
        _add_way(b, name, at=[a])
    hand_over(c, a)
    await asyncio.sleep(5.0)
    assert _contested(a) == {"b", "c", *ways}


def _add_way(member: Member, name: str, *, at: list[Member]) -> None:
    """Give a member one more Cluster and Secret, with a token of its own, in the clusters `at`."""
    member.server.tokens.add(name)
    for kind, namespace in (("Cluster", ""), ("Secret", NAMESPACE)):
        found = member.get(kind, member.name, namespace=namespace)
        found["metadata"] = {"name": name, "namespace": namespace}
        if kind == "Cluster":
            found["spec"]["authInfo"]["secretRef"]["name"] = name
        else:
            found = with_token(found, name)
        for taker in at:
            if taker.find(kind, name, namespace=namespace) is None:
                taker.create(found)


def _contested(member: Member) -> set[str]:
    names = [item["metadata"]["name"] for item in member.list("Cluster")]
    return {name for name in names if member.condition("Cluster", name, "LocalConflict").get("status") == "True"}


def _disable(member: Member, *names: str) -> None:
    for name in names:
        notes = {meta.CLUSTER_DISABLED: "true"}
        member.apply({"kind": "Cluster", "metadata": {"name": name, "annotations": notes}})


def _enable(member: Member, *names: str) -> None:
    for name in names:
        found = member.get("Cluster", name)
        found["metadata"].pop("annotations", None)
        member.replace(found)


async def _both_change(group: SimGroup) -> None:
    for name in CLONES:
        group[name].apply(config_map("copied", {"at": f"{name}2"}))
        group[name].apply(config_map("new", {"at": name}))
    await asyncio.sleep(120.0)


def _is_as_it_was(member: Member) -> bool:
    found = {item["metadata"]["name"]: item["data"] for item in member.list("ConfigMap")}
    return found == {"copied": {"at": "b"}}


@pytest.mark.parametrize("disabled", [(), ("b",), ("c",), ("b", "c")])
@pytest.mark.parametrize("silent", ["", "b", "c"])
def test_of_a_clone_nobody_can_say_that_it_has_left(disabled: tuple[str, ...], silent: str) -> None:
    """P1, O6: it would be said of the other one, too, whichever is meant, and whether or not they are read."""

    async def scenario(group: SimGroup) -> None:
        await _cloned(group)
        a = group["a"]
        if silent:
            group.fail(silent, Fault.REFUSED)
        _disable(a, *disabled)
        await asyncio.sleep(120.0)
        for name in CLONES:
            with pytest.raises(BadInput, match=f"Cluster {name}: two API servers have its ID .* delete the Cluster"):
                await declare(group, name, at="a")
        await asyncio.sleep(60.0)
        assert not any(stones(member) for member in group.members)
        assert _is_as_it_was(a)
        assert _contested(a) == {"b", "c"}

    simulate(scenario, n=3, uids=CLONES)


def test_a_copy_whose_owner_is_cloned_says_that_this_is_why_nothing_becomes_of_it() -> None:
    """P1, S1: no rule is said to ask for it no more."""

    async def scenario(group: SimGroup) -> None:
        await _cloned(group)
        async with open_dry_run(group, "a") as dry_run:
            kind, gvr = await dry_run.engine.discovery.find("configmap")
            found = await explain_object(dry_run, kind, gvr, ObjectKey("default", "copied"))
        (row,) = found.planned
        assert (row.action.value, row.reason) == ("wait", "OwnerCloned")
        assert found.problems == [f"peer b: {SAID}", f"peer c: {SAID}"]

    simulate(scenario, n=3, uids=CLONES)


@pytest.mark.parametrize("disabled", [("b",), ("c",), ("b", "c")])
def test_a_clone_that_is_disabled_is_still_one_for_the_next_daemon(disabled: tuple[str, ...]) -> None:
    """P1, P8."""

    async def scenario(group: SimGroup) -> None:
        await _cloned(group)
        a = group["a"]
        _disable(a, *disabled)
        await _both_change(group)
        await a.restart()
        await asyncio.sleep(120.0)
        _enable(a, *disabled)
        await asyncio.sleep(120.0)
        assert _is_as_it_was(a)
        assert _contested(a) == {"b", "c"}

    simulate(scenario, n=3, uids=CLONES)


@pytest.mark.parametrize("silent", CLONES)
@pytest.mark.parametrize("told", CLONES)
def test_the_status_of_one_clone_is_enough_for_the_next_daemon(silent: str, told: str) -> None:
    """P1, A1: each has a status of its own, and the daemon may have ended between two writes."""

    async def scenario(group: SimGroup) -> None:
        await _cloned(group)
        a = group["a"]
        await a.stop()
        (other,) = CLONES.keys() - {told}
        found = a.get("Cluster", other)
        conditions = [one for one in found["status"]["conditions"] if one["type"] != "LocalConflict"]
        a.replace({**found, "status": {**found["status"], "conditions": conditions}}, subresource="status")
        group.fail(silent, Fault.HUNG)
        a.start()
        await _both_change(group)
        assert _is_as_it_was(a)

    simulate(scenario, n=3, uids=CLONES)


def test_a_clone_that_calls_itself_otherwise_is_still_one() -> None:
    """P1: while it has a name at all, and does not lead to the other one."""

    async def scenario(group: SimGroup) -> None:
        await _cloned(group)
        a, b, _ = group.members
        found = b.get("Cluster", "b")
        await b.stop()
        b.delete("Cluster", "b")
        b.create({"kind": "Cluster", "metadata": {"name": "bb"}, "spec": found["spec"]})
        b.options["PROVISION_LOCAL_CLUSTER"] = "bb"
        b.start()
        await _both_change(group)
        assert _is_as_it_was(a)
        a.delete("Cluster", "c")
        await group.settle()
        assert {name: _data(a, name) for name in held(a)} == {"copied": {"at": "b2"}, "new": {"at": "b"}}

    simulate(scenario, n=3, uids=CLONES)


def _data(member: Member, name: str) -> Any:
    return member.get("ConfigMap", name, namespace="default")["data"]


def test_a_conflict_ends_when_all_lead_to_one_api_server() -> None:
    """P1: however many Clusters it has here."""

    async def scenario(group: SimGroup) -> None:
        await _cloned(group, ways=("s1", "s2", "s3"))
        a = group["a"]
        data = a.get("Secret", "b", namespace=NAMESPACE)["data"]
        a.apply({"kind": "Secret", "metadata": {"name": "c", "namespace": NAMESPACE}, "data": data})
        await asyncio.sleep(70.0)
        assert _contested(a) == set()

    simulate(scenario, n=3, uids=CLONES)


def test_through_another_member_comes_nothing_of_a_clone() -> None:
    """P1, O4: d knows one of the two only, and follows it; a, which knows both, does not take that over."""

    async def scenario(group: SimGroup) -> None:
        a, b, _, d = group.members
        await _cloned(group)
        for giver, taker in ((b, d), (a, d), (d, a)):
            hand_over(giver, taker)
        await group.settle()
        assert held(d) == {"copied"}
        before = a.get("Cluster", "b")["metadata"].get("labels")
        b.apply({"kind": "Cluster", "metadata": {"name": "b", "labels": {"new": "yes"}}})
        await asyncio.sleep(120.0)
        assert d.get("Cluster", "b")["metadata"]["labels"]["new"] == "yes"
        assert a.get("Cluster", "b")["metadata"].get("labels") == before
        assert _contested(a) == {"b", "c"}

    simulate(scenario, n=4, uids=CLONES)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.HUNG, None])
def test_a_clone_of_a_silent_member_does_not_take_its_place(fault: Fault | None, restarts: bool) -> None:
    """P1, W3: nothing shows that the one that is silent, or disabled, was renamed; later, both are known."""

    async def scenario(group: SimGroup) -> None:
        a, c = group["a"], group["c"]
        await _copied(group)
        if fault is None:
            _disable(a, "b")
        else:
            group.fail("b", fault)
        await asyncio.sleep(60.0)
        if restarts:
            await a.stop()
        hand_over(c, a)
        if restarts:
            a.start()
        await asyncio.sleep(30.0)
        await _both_change(group)
        assert _is_as_it_was(a)
        assert _contested(a) == {"b", "c"}
        group.fail("b", Fault.NONE)
        _enable(a, "b")
        await asyncio.sleep(120.0)
        assert _is_as_it_was(a)
        assert _contested(a) == {"b", "c"}
        a.delete("Cluster", "c")
        await group.settle()
        assert {name: _data(a, name) for name in held(a)} == {"copied": {"at": "b2"}, "new": {"at": "b"}}

    simulate(scenario, n=3, uids=CLONES)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clone_that_came_later_is_not_the_first_one_because_a_clock_was_set_back(restarts: bool) -> None:
    """P1, O5: it is not read, and nothing goes, before both were asked by which names they call themselves."""

    async def scenario(group: SimGroup) -> None:
        a, c = group["a"], group["c"]
        await _copied(group)
        before = len(a.server.journal)
        a.server.skew_s -= 86400.0
        if restarts:
            await a.stop()
        hand_over(c, a)
        if restarts:
            a.start()
        await asyncio.sleep(5.0)
        await _both_change(group)
        assert not [write for write in a.server.journal[before:] if write.verb == "delete"]
        assert _is_as_it_was(a)
        assert _contested(a) == {"b", "c"}

    simulate(scenario, n=3, uids=CLONES)


# One cluster of several names.


async def _of_two_names(group: SimGroup, *, at_owner: bool) -> None:
    """Let a know b by two Clusters, of which the second is b's own, too, or not."""
    a, b = group.members
    group.start()
    await group.settle()
    hand_over(b, a)
    a.create(rule("all", CONFIG_MAP))
    b.create(config_map("copied", {"at": "b"}))
    await group.settle()
    _add_way(b, "second", at=[a, b] if at_owner else [a])
    await asyncio.sleep(120.0)
    assert _contested(a) == set()


async def _traffic(group: SimGroup) -> tuple[int, int]:
    """Count what a asks of b in a minute, and what it writes at home."""
    wire, writes = group.wire("a", "b"), group["a"].writes
    asked, written = wire.travel_count, len(writes)
    await asyncio.sleep(60.0)
    return wire.travel_count - asked, len(writes) - written


def test_a_disabled_cluster_is_not_read_by_another_name_and_leaves_the_daemon_in_peace() -> None:
    """P1, P8: which one is read does not depend on what only its own connection tells."""

    async def scenario(group: SimGroup) -> None:
        await _of_two_names(group, at_owner=False)
        _disable(group["a"], "b")
        await asyncio.sleep(5.0)
        group["b"].apply(config_map("copied", {"at": "b2"}))
        asked, written = await _traffic(group)
        assert asked < 20
        assert written < 10
        assert _is_as_it_was(group["a"])

    simulate(scenario, n=2)


@pytest.mark.parametrize("every", [1, 2])
def test_a_member_that_answers_otherwise_each_time_is_not_asked_more_often(every: int) -> None:
    """P1, A6: lists that leave one of its own Clusters out, always or now and then, while its watch holds it."""

    async def scenario(group: SimGroup) -> None:
        await _of_two_names(group, at_owner=True)
        a, b = group.members
        await b.stop()
        genuine, lists = b.server._list, 0

        def lie(request: Any) -> dict[str, Any]:
            nonlocal lists
            found = genuine(request)
            if request.kind.kind == "Cluster":
                lists += 1
                found["items"] = [one for one in found["items"] if one["metadata"]["name"] != "third" or lists % every]
            return found

        b.server._list = lie  # type: ignore[method-assign]
        _add_way(b, "third", at=[b])
        await asyncio.sleep(10.0)
        for _ in range(10):
            asked, written = await _traffic(group)
            assert asked < 300
            assert written < 40
        assert a.writes

    simulate(scenario, n=2)


@pytest.mark.parametrize("revoked", [True, False])
def test_a_name_that_a_cluster_gives_up_makes_no_clone_of_it(revoked: bool) -> None:
    """P1, A2: also when the credentials of that name end with it, so that nobody answers by it any more."""

    async def scenario(group: SimGroup) -> None:
        await _of_two_names(group, at_owner=True)
        a, b = group.members
        if revoked:
            b.server.tokens.discard("second")
        b.delete("Cluster", "second")
        b.delete("Secret", "second", namespace=NAMESPACE)
        for _ in range(60):
            await asyncio.sleep(2.0)
            assert _contested(a) == set()
        b.apply(config_map("copied", {"at": "b2"}))
        await asyncio.sleep(5.0)
        assert _data(a, "copied") == {"at": "b2"}
        assert a.find("Cluster", "second") is None

    simulate(scenario, n=2)


@pytest.mark.clause("O5")
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_deleted_before_it_is_known_that_two_clusters_of_one_id_lead_to_clones(seed: int) -> None:
    """The clone is read first, because the member's own Cluster was missing; it does not have that Cluster."""
    steps = (
        Step(0.0, "forgets member", "b", ("a", None)),
        Step(0.01, "meets a clone", "b", ("a", 2.0)),
        Step(5.0, "puts", "a", (("ConfigMap", "default", "x"), "1", "sync")),
    )
    outcome = play(Schedule(seed=seed, count=3, joined=True, steps=steps))
    assert outcome.tally.faults["meets a clone"]
    assert not outcome.broken


@pytest.mark.clause("P1", "A4")
def test_what_was_offered_while_it_was_not_known_whether_there_are_clones_is_copied_after() -> None:
    """A member with several names is asked again once its credentials change."""
    steps = (
        Step(0.0, "puts", "c", (("ConfigMap", "default", "y"), "1", "sync")),
        Step(2.0, "has many names", "c"),
        Step(0.0, "rotates", "c"),
        Step(0.01, "restarts", "c"),
        Step(0.0, "rules", "a", ("configmaps-1", ("ConfigMap", "plain", "labels", "Delete", ""))),
    )
    outcome = play(Schedule(seed=3101346, count=3, joined=True, steps=steps))
    assert outcome.tally.deeds["has many names"] + outcome.tally.faults["has many names"]
    assert not outcome.broken
