"""Daemons that reach Secrets in some namespaces only, as with the chart's `rbac.narrowSecrets`. W3, O6."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from registry_controller.api import meta, names
from registry_controller.clusters.orphans import SEARCH_PERIOD_S
from registry_controller.membership.leave import LeaveIncomplete
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.group import CONFIG_MAP, SECRET, SimGroup, rule, simulate
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.schedule.leaving import join_again, knows, leave, shared

WANTED = {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}]}


@pytest.fixture(autouse=True)
def clocks() -> Iterator[None]:
    with virtual_clocks():
        yield


def narrow(group: SimGroup, name: str, *namespaces: str) -> None:
    """Let nobody reach Secrets of a cluster but in the daemon's namespace, and, for its own daemon, in these."""
    for member in group.members:
        within = {NAMESPACE, *namespaces} if member.name == name else {NAMESPACE}
        group.wire(member.name, name).narrowed["secrets"] = within


def widen(group: SimGroup, name: str) -> None:
    for member in group.members:
        group.wire(member.name, name).narrowed.clear()


def secret(name: str, namespace: str) -> dict[str, object]:
    info = {"name": name, "namespace": namespace, "labels": {"sync": "yes"}}
    return {"kind": "Secret", "metadata": info, "type": "Opaque", "data": {"a": "MQ=="}}


def credentials(member: Member) -> set[str]:
    """Name the members whose credentials a member holds."""
    return {name for name in "abc" if knows(member, name)[1]}


async def rejoined(group: SimGroup) -> None:
    """Let b leave and come back, so that a tombstone of its first membership stands in the others."""
    await leave(group, "b")
    await group.settle()
    await join_again(group)


@pytest.mark.parametrize("seed", range(4))
def test_who_leaves_keeps_nobodys_credentials(seed: int) -> None:
    """O6: while the core rules go with the Cluster to which they belong, which may be before the Secrets do."""

    async def scenario(group: SimGroup) -> None:
        narrow(group, "c")
        await shared(group)
        if seed % 2:
            await rejoined(group)
        assert credentials(group["c"]) == set("abc")
        await leave(group, "c")
        assert not credentials(group["c"])
        await group.settle()
        assert not credentials(group["c"])
        assert credentials(group["a"]) == credentials(group["b"]) == set("ab")

    simulate(scenario, n=3, seed=seed)


def test_who_has_left_while_no_daemon_ran_takes_the_credentials_away_when_one_does() -> None:
    """O6, W3: what is left is found in the cluster, in the namespaces that may be read; the command waits for it."""

    async def scenario(group: SimGroup) -> None:
        narrow(group, "c")
        await shared(group)
        c = group["c"]
        c.kill()
        with pytest.raises(LeaveIncomplete):
            await leave(group, "c", wait_s=30.0)
        assert c.find("ResourceSyncRule", names.SECRETS_SINK) is None
        assert credentials(c) == set("abc")
        c.start_again()
        await leave(group, "c")
        assert not credentials(c)

    simulate(scenario, n=3)


def test_the_command_says_which_credentials_it_waits_for() -> None:
    """O6: their Clusters may be gone already."""

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        c = group["c"]
        held = c.get("Secret", "a", namespace=NAMESPACE)
        held["metadata"]["annotations"][meta.SYNC_DISABLED] = "true"
        c.replace(held)
        await group.settle()
        kept = f"Secret {NAMESPACE}/a: the annotation {meta.SYNC_DISABLED} keeps it"
        with pytest.raises(LeaveIncomplete, match=kept):
            await leave(group, "c")
        c.delete("Secret", "a", namespace=NAMESPACE)
        await leave(group, "c")
        assert not credentials(c)

    simulate(scenario, n=3)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_rule_that_goes_takes_its_copies_away_where_its_namespace_alone_may_be_read(restarted: bool) -> None:
    """W3: they are looked for where rules have put some."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        group.wire("a", "a").narrowed["secrets"] = {NAMESPACE, "default"}
        if restarted:
            await a.restart()
            await group.settle()
        entry = {"match": [{**WANTED["match"][0], "namespaces": ["default"]}]}
        a.create(rule("some", SECRET, entry, deletionPolicy="Delete"))
        b.create(secret("x", "default"))
        await group.settle()
        assert a.find("Secret", "x", namespace="default")
        a.delete("ResourceSyncRule", "some")
        await group.settle()
        assert a.find("Secret", "x", namespace="default") is None
        for found in a.list("ResourceSyncRule"):
            assert a.condition("ResourceSyncRule", found["metadata"]["name"], "Synced")["status"] == "True"

    simulate(scenario, n=2)


def test_a_restored_copy_is_found_in_a_namespace_that_rules_wrote_since_the_start() -> None:
    """W3: no rule writes there any more, and the kind may not be read in the whole cluster."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        group.wire("a", "a").narrowed["secrets"] = {NAMESPACE, "default"}
        entry = {"match": [{**WANTED["match"][0], "namespaces": ["default"]}]}
        a.create(rule("some", SECRET, entry, deletionPolicy="Delete"))
        b.create(secret("x", "default"))
        await group.settle()
        saved = a.get("Secret", "x", namespace="default")
        a.delete("ResourceSyncRule", "some")
        await group.settle()
        assert a.find("Secret", "x", namespace="default") is None
        info = {name: saved["metadata"][name] for name in ("name", "namespace", "labels", "annotations")}
        a.create({**{part: saved[part] for part in ("kind", "type", "data")}, "metadata": info})
        await asyncio.sleep(SEARCH_PERIOD_S)
        await group.settle()
        assert a.find("Secret", "x", namespace="default") is None

    simulate(scenario, n=2)


@pytest.mark.parametrize("refused_s", [5.0, 60.0])
@pytest.mark.parametrize("is_in_own_namespace", [False, True])
def test_copies_that_a_restart_forgot_go_soon_after_a_right_is_back(
    *, refused_s: float, is_in_own_namespace: bool
) -> None:
    """W3: their rule is gone, and Secrets may not be read just when the daemon starts."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        a.create(rule("all", SECRET, WANTED, deletionPolicy="Delete"))
        b.create(secret("x", "default"))
        await group.settle()
        assert a.find("Secret", "x", namespace="default")
        await a.stop()
        a.delete("ResourceSyncRule", "all")
        if is_in_own_namespace:
            narrow(group, "a")
        else:
            group.wire("a", "a").unallowed.add("secrets")
        a.start()
        await asyncio.sleep(refused_s)
        widen(group, "a")
        group.wire("a", "a").unallowed.clear()
        await asyncio.sleep(120.0)
        assert a.find("Secret", "x", namespace="default") is None
        assert credentials(a) == set("ab")

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_changed", [False, True])
def test_copies_that_are_known_go_soon_after_a_right_is_back(*, is_changed: bool) -> None:
    """W3: Secrets may not be read for a moment just when their rule goes, or reads another kind."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        a.create(rule("all", SECRET, WANTED, deletionPolicy="Delete"))
        b.create(secret("x", "default"))
        await group.settle()
        assert a.find("Secret", "x", namespace="default")
        narrow(group, "a")
        group.wire("a", "a").cut()
        if is_changed:
            a.apply(rule("all", CONFIG_MAP, WANTED, deletionPolicy="Delete"))
        else:
            a.delete("ResourceSyncRule", "all")
        await asyncio.sleep(60.0)  # a rule that is created again within 30 s was not deleted
        assert a.find("Secret", "x", namespace="default")
        assert a.condition("ResourceSyncRule", names.SECRETS_SINK, "Synced")["status"] == "True"
        widen(group, "a")
        await asyncio.sleep(90.0)
        assert a.find("Secret", "x", namespace="default") is None
        assert credentials(a) == set("ab")

    simulate(scenario, n=2)


def test_only_the_rule_that_needs_more_says_so() -> None:
    """R2: the core rule for Secrets has all that it needs, whatever another rule asks for."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a = group.members[0]
        narrow(group, "a")
        a.create(rule("wide", SECRET, WANTED))
        await group.settle()
        stalled = a.condition("ResourceSyncRule", "wide", "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "ActionNeeded")
        assert "here: Secret: cannot watch secrets.v1 (all): 403 Forbidden" in stalled["message"]
        for name in sorted(names.CORE_RULES):
            assert a.condition("ResourceSyncRule", name, "Synced")["status"] == "True"
            assert a.condition("ResourceSyncRule", name, "Stalled")["status"] == "False"
        assert credentials(a) >= {"a", "b"}

    simulate(scenario, n=2)


def test_what_was_copied_before_secrets_were_narrowed_goes_when_they_are_widened_again() -> None:
    """W3: and meanwhile the credentials are kept, and no core rule complains."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        a.create(rule("all", SECRET, WANTED, deletionPolicy="Delete"))
        b.create(secret("x", "default"))
        b.create(secret("y", NAMESPACE))
        await group.settle()
        narrow(group, "a")
        await a.restart()
        await asyncio.sleep(30.0)
        a.delete("ResourceSyncRule", "all")
        b.delete("ResourceSyncRule", "all")
        await group.settle()
        assert a.find("Secret", "x", namespace="default")
        assert a.find("Secret", "y", namespace=NAMESPACE) is None
        assert a.condition("ResourceSyncRule", names.SECRETS_SINK, "Synced")["status"] == "True"
        widen(group, "a")
        await asyncio.sleep(700.0)
        assert a.find("Secret", "x", namespace="default") is None
        assert credentials(a) == set("ab")

    simulate(scenario, n=2)


def test_a_namespace_that_may_not_be_read_is_nobodys_trouble_when_its_rule_has_gone_and_is_looked_at_again() -> None:
    """W3, S3: other rules that write the kind have all they need; copies there go when the right is back."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        a, b = group.members
        wire = group.wire("a", "a")
        wire.narrowed["secrets"] = {NAMESPACE, "default"}
        await a.restart()
        entry = {"match": [{**WANTED["match"][0], "namespaces": ["default"]}]}
        a.create(rule("some", SECRET, entry, deletionPolicy="Delete"))
        b.create(secret("x", "default"))
        await group.settle()
        assert a.find("Secret", "x", namespace="default")
        wire.narrowed["secrets"] = {NAMESPACE}
        wire.cut()
        await asyncio.sleep(60.0)
        a.delete("ResourceSyncRule", "some")
        await group.settle()
        assert a.condition("ResourceSyncRule", names.SECRETS_SINK, "Synced")["status"] == "True"
        assert a.find("Secret", "x", namespace="default")
        wire.narrowed["secrets"].add("default")
        await asyncio.sleep(1300.0)
        assert a.find("Secret", "x", namespace="default") is None

    simulate(scenario, n=2)
