"""A rule's copy is compared with what its owner wrote before it is obeyed. W3, W5, A8."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from registry_controller.api import meta
from registry_controller.core.decision.stored_spec import digest_spec
from tests.sim.checks.convergence import Wrong, check_end
from tests.sim.checks.expected_copies import marks_of
from tests.sim.checks.observer import Observer
from tests.sim.checks.status import check_standing
from tests.sim.cluster.group import CONFIG_MAP, SECRET, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.tally import Tally

MANY = 5
LABELS = {"sync": "yes"}
WANTED = {"match": [{"labels": [{"matchLabels": LABELS}]}]}
NOTHING = [{"match": [{"labels": [{"matchLabels": {"sync": "nothing"}}]}]}]
TARGETS = ("ResourceSyncRule", "spec", "targetClusters")

EDITS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "it matches nothing": lambda spec: {**spec, "rules": NOTHING},
    "it has no entries": lambda spec: {**spec, "rules": []},
    "it reads another kind": lambda spec: {**spec, "groupVersionKind": SECRET},
    "it is for others": lambda spec: {**spec, "targetClusters": {"names": ["a"]}},
    "it asks for a feature": lambda spec: {**spec, "clusterFeatureMatch": [{"featureName": "none"}]},
    "it is refused": lambda spec: {**spec, "groupVersionKind": {}},
    "it gives other names": lambda spec: {
        **spec,
        "rules": [
            {
                **spec["rules"][0],
                "mutations": {"overrides": [{"type": "replace", "path": "/metadata/name", "value": "other"}]},
            }
        ],
    },
}


async def _synced(group: SimGroup, **spec: Any) -> tuple[Member, Member, Member]:
    """Let a have a rule, by which b and c have copies of each other's objects."""
    await group.join()
    for name in "ac":
        for number in range(MANY):
            group[name].create(config_map(f"{name}{number}", {"a": "1"}, labels=LABELS))
    group["a"].create(rule("r", CONFIG_MAP, WANTED, deletionPolicy="Delete", **spec))
    await group.settle()
    return group["a"], group["b"], group["c"]


def _copies(member: Member) -> dict[str, str]:
    return {
        item["metadata"]["name"]: item["metadata"]["uid"]
        for item in member.list("ConfigMap")
        if marks_of(item).owner not in ("", member.id)
    }


def _edit(member: Member, change: Callable[[dict[str, Any]], dict[str, Any]], **annotations: str) -> None:
    """Edit the rule as a member has it."""
    found = member.get("ResourceSyncRule", "r")
    info = found["metadata"]
    marked = {**info, "annotations": {**(info.get("annotations") or {}), **annotations}}
    member.replace({**found, "spec": change(found["spec"]), "metadata": marked})


def _silence(group: SimGroup, who: str, *, at: str, fault: Fault) -> None:
    group.wire(at, who).set(fault)


@pytest.mark.clause("W3", "A8")
@pytest.mark.parametrize("down", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_a_rules_copy_is_put_back_and_no_copy_goes(edit: str, down: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        home, here, _ = await _synced(group)
        uids = _copies(here)
        assert len(uids) == 2 * MANY
        if down:
            await here.stop()
        written = len(here.server.journal)
        _edit(here, EDITS[edit])
        here.start_again()
        await group.settle()
        assert _copies(here) == uids
        assert here.get("ResourceSyncRule", "r")["spec"] == home.get("ResourceSyncRule", "r")["spec"]
        assert not [write for write in here.server.journal[written:] if write.kind == "ConfigMap"]
        for condition in ("Accepted", "Synced"):
            assert here.condition("ResourceSyncRule", "r", condition)["status"] == "True"

    simulate(scenario, n=3)


@pytest.mark.clause("W3", "A8")
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_a_rules_copy_is_not_obeyed_while_its_owner_is_silent(edit: str, restarted: bool) -> None:
    """A daemon that knows the rule as its owner wrote it follows that one; another one keeps what is there."""

    async def scenario(group: SimGroup) -> None:
        home, here, other = await _synced(group)
        uids = _copies(here)
        for name in "bc":
            _silence(group, "a", at=name, fault=Fault.REFUSED)
        await asyncio.sleep(30.0)
        _edit(here, EDITS[edit])
        if restarted:
            await here.restart()
        other.create(config_map("late", {"a": "1"}, labels=LABELS))
        await asyncio.sleep(120.0)
        assert _copies(here).items() >= uids.items()
        assert ("late" in _copies(here)) is not restarted
        accepted = here.condition("ResourceSyncRule", "r", "Accepted")
        assert (accepted["status"], accepted["reason"]) == (
            ("False", "NotAsWritten") if restarted else ("True", "Accepted")
        )
        assert ("spec: is not the one" if restarted else "spec: was altered here") in accepted["message"], accepted
        for name in "bc":
            _silence(group, "a", at=name, fault=Fault.NONE)
        await group.settle()
        assert here.get("ResourceSyncRule", "r")["spec"] == home.get("ResourceSyncRule", "r")["spec"]
        assert _copies(here).keys() == uids.keys() | {"late"}

    simulate(scenario, n=3)


def _selecting(*values: str) -> dict[str, Any]:
    """Make a rule that selects objects by the values of a label."""
    expression = {"key": "sync", "operator": "In", "values": list(values)}
    wanted = {"match": [{"labels": [{"matchExpressions": [expression]}]}]}
    return rule("r", CONFIG_MAP, wanted, deletionPolicy="Delete")


async def _widened(group: SimGroup) -> tuple[Any, dict[str, Any]]:
    """Let the rule select more objects after an edit; return the home's backup, and b's copy of the rule, before it."""
    await group.join()
    home, here, other = group.members
    for number in range(MANY):
        other.create(config_map(f"first{number}", {"a": "1"}, labels=LABELS))
        other.create(config_map(f"later{number}", {"a": "1"}, labels={"sync": "also"}))
    home.create(_selecting("yes"))
    await group.settle()
    backup, earlier = home.server.store.backup(), here.get("ResourceSyncRule", "r")
    home.apply(_selecting("yes", "also"))
    await group.settle()
    assert len(_copies(here)) == 2 * MANY
    return backup, earlier


@pytest.mark.clause("A8")
@pytest.mark.parametrize("is_silent", [False, True], ids=["home alive", "home silent"])
@pytest.mark.parametrize("daemon", ["up", "restarted", "down"])
def test_an_earlier_copy_of_a_rule_that_is_put_here_is_no_order(is_silent: bool, daemon: str) -> None:
    """A backup tool puts it here with the provenance that it had, so that the copy is whole."""

    async def scenario(group: SimGroup) -> None:
        _, earlier = await _widened(group)
        home, here, other = group.members
        uids = _copies(here)
        for name in "bc" if is_silent else "":
            _silence(group, "a", at=name, fault=Fault.REFUSED)
        await asyncio.sleep(60.0)
        if daemon == "down":
            await here.stop()
        here.replace(earlier)
        if daemon == "restarted":
            await here.restart()
        here.start_again()
        other.create(config_map("new", {"a": "1"}, labels={"sync": "also"}))
        await asyncio.sleep(120.0)
        assert _copies(here).items() >= uids.items()
        assert ("new" in _copies(here)) == (daemon == "up" or not is_silent)
        for name in "bc":
            _silence(group, "a", at=name, fault=Fault.NONE)
        await group.settle()
        assert here.get("ResourceSyncRule", "r")["spec"] == home.get("ResourceSyncRule", "r")["spec"]
        assert _copies(here).keys() == uids.keys() | {"new"}
        assert _copies(here).items() >= uids.items()

    simulate(scenario, n=3)


@pytest.mark.clause("A8", "O3")
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_an_earlier_state_of_a_rule_counts_where_its_owner_shows_it(restarted: bool) -> None:
    """The etcd of its home is restored; copies here name the later state that the home does not have any more."""

    async def scenario(group: SimGroup) -> None:
        backup, _ = await _widened(group)
        home, here, other = group.members
        other.apply(config_map("first0", {"a": "2"}, labels=LABELS))
        await group.settle()
        group.cut("a")
        home.server.store.restore(backup)
        await group.settle()
        assert here.get("ResourceSyncRule", "r")["spec"] == home.get("ResourceSyncRule", "r")["spec"]
        if restarted:
            await here.restart()
        other.apply(config_map("first0", {"a": "3"}, labels=LABELS))
        await group.settle()
        assert _copies(here).keys() == {f"first{number}" for number in range(MANY)}
        assert here.get("ConfigMap", "first0", namespace="default")["data"] == {"a": "3"}

    simulate(scenario, n=3)


@pytest.mark.clause("W5")
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_a_rules_copy_that_was_frozen_is_obeyed_as_it_is(restarted: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        _, here, other = await _synced(group)
        if restarted:
            await here.stop()
        narrowed = [{"match": [{"objectKey": {"name": "c0"}}]}]
        _edit(here, lambda spec: {**spec, "rules": narrowed}, **{meta.SYNC_DISABLED: "true"})
        here.start_again()
        await group.settle()
        assert _copies(here).keys() == {"c0"}
        assert here.get("ResourceSyncRule", "r")["spec"]["rules"] == narrowed
        assert len(_copies(other)) == MANY

    simulate(scenario, n=3)


def _set_format(member: Member, number: int) -> None:
    """Write the marks of the rule as a later version of the daemon does, or as this one does."""
    found = marks_of(member.get("ResourceSyncRule", "r")).provenance
    _edit(member, lambda spec: spec, **{meta.PROVENANCE: orjson.dumps({**found, "format": number}).decode()})


@pytest.mark.clause("A8", "A11", "W3")
@pytest.mark.parametrize("home_is_silent", [False, True], ids=["owner answers", "owner silent"])
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_a_rule_whose_marks_a_later_version_wrote_does_nothing(restarted: bool, home_is_silent: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        home, here, other = await _synced(group)
        uids, written = _copies(here), len(here.server.journal)
        if home_is_silent:
            for name in "bc":
                _silence(group, "a", at=name, fault=Fault.REFUSED)
            await group.settle()
        _set_format(here, 2)
        _edit(here, EDITS["it matches nothing"])
        held = here.get("ResourceSyncRule", "r")["spec"]
        await (here.restart() if restarted else group.settle())
        other.create(config_map("late", {"a": "1"}, labels=LABELS))
        await group.settle()
        assert _copies(here) == uids
        assert here.get("ResourceSyncRule", "r")["spec"] == held
        assert not [write for write in here.server.journal[written:] if write.kind == "ConfigMap"]
        accepted = here.condition("ResourceSyncRule", "r", "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "LaterFormat")
        assert "upgrade the daemon here" in accepted["message"]
        for name in "bc":
            _silence(group, "a", at=name, fault=Fault.NONE)
        _set_format(here, 1)
        await group.settle()
        assert here.get("ResourceSyncRule", "r")["spec"] == home.get("ResourceSyncRule", "r")["spec"]
        assert _copies(here).items() > uids.items()

    simulate(scenario, n=3)


@pytest.mark.clause("A11", "W3")
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_a_deleted_rule_goes_with_its_copies_once_its_marks_can_be_read(restarted: bool) -> None:
    """Meanwhile its copies go on naming the rule at its owner."""

    async def scenario(group: SimGroup) -> None:
        home, here, _ = await _synced(group)
        uids = _copies(here)
        _set_format(here, 2)
        if restarted:
            await here.restart()
        await group.settle()
        named = {marks_of(here.get("ConfigMap", name, namespace="default")).provenance["ruleUID"] for name in uids}
        assert named == {home.get("ResourceSyncRule", "r")["metadata"]["uid"]}
        home.delete("ResourceSyncRule", "r")
        await group.settle()
        assert _copies(here) == uids
        _set_format(here, 1)
        await here.restart()
        await group.settle()
        assert here.find("ResourceSyncRule", "r") is None
        assert not _copies(here)

    simulate(scenario, n=3)


@pytest.mark.clause("W2", "A11")
def test_no_other_rule_changes_the_copies_of_a_rule_whose_marks_a_later_version_wrote() -> None:
    async def scenario(group: SimGroup) -> None:
        home, here, other = group["a"], group["b"], group["c"]
        home.create(rule("r", CONFIG_MAP, WANTED), born="2020-01-01T00:00:00Z")
        younger = {**WANTED, "mutations": {"labels": {"add": {"by": "younger"}}}}
        here.create(rule("younger", CONFIG_MAP, younger), born="2021-01-01T00:00:00Z")
        await group.join()
        other.create(config_map("x", {"a": "1"}, labels=LABELS))
        await group.settle()
        held = here.get("ConfigMap", "x", namespace="default")
        assert "by" not in held["metadata"]["labels"]
        _set_format(here, 2)
        await group.settle()
        assert here.get("ConfigMap", "x", namespace="default") == held

    simulate(scenario, n=3)


@pytest.mark.clause("A8")
@pytest.mark.parametrize("home_is_silent", [False, True], ids=["owner answers", "owner silent"])
def test_a_rule_that_lost_a_field_does_nothing_before_and_after_a_restart(home_is_silent: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        home, here, other = group["a"], group["b"], group["c"]
        here.server.store.unknown.add(TARGETS)
        for number in range(30):
            other.create(config_map(f"c{number}", {"a": "1"}, labels=LABELS))
        home.create(rule("r", CONFIG_MAP, WANTED, deletionPolicy="Delete", targetClusters={"names": ["a"]}))
        await group.settle()
        assert "targetClusters" not in here.get("ResourceSyncRule", "r")["spec"]
        assert (len(_copies(home)), _copies(here)) == (30, {})
        assert here.condition("ResourceSyncRule", "r", "Accepted")["reason"] == "FieldsPruned"
        await here.stop()
        if home_is_silent:
            await home.stop()
            for name in "bc":
                _silence(group, "a", at=name, fault=Fault.REFUSED)
        here.start()
        await group.settle()
        assert not [write for write in here.server.journal if write.kind == "ConfigMap"]
        assert not _copies(here)
        accepted = here.condition("ResourceSyncRule", "r", "Accepted")
        assert (accepted["status"], accepted["reason"]) == (
            "False",
            "NotAsWritten" if home_is_silent else "FieldsPruned",
        )

    simulate(scenario, n=3)


@pytest.mark.clause("A8")
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_a_rule_that_loses_a_field_by_an_edit_keeps_its_copies_and_makes_none(restarted: bool) -> None:
    async def scenario(group: SimGroup) -> None:
        home, here, other = await _synced(group)
        here.server.store.unknown.add(TARGETS)
        uids = _copies(here)
        found = home.get("ResourceSyncRule", "r")
        home.replace({**found, "spec": {**found["spec"], "targetClusters": {"names": ["a"]}}})
        await group.settle()
        if restarted:
            await here.restart()
        other.create(config_map("late", {"a": "1"}, labels=LABELS))
        await group.settle()
        assert _copies(here) == uids
        assert here.condition("ResourceSyncRule", "r", "Accepted")["reason"] == "FieldsPruned"

    simulate(scenario, n=3)


@pytest.mark.clause("A8")
def test_the_digest_of_a_rule_is_the_same_in_every_cluster_and_written_once() -> None:
    async def scenario(group: SimGroup) -> None:
        home, *others = await _synced(group)
        wanted = digest_spec(home.get("ResourceSyncRule", "r"))
        for member in others:
            provenance = marks_of(member.get("ResourceSyncRule", "r")).provenance
            assert provenance["spec"] == {
                "digest": wanted, "resourceVersion": provenance["source"]["resourceVersion"],
            }  # fmt: skip
            assert "spec" not in marks_of(member.get("ConfigMap", "a0", namespace="default")).provenance
        home.replace(home.get("ResourceSyncRule", "r") | {"status": {"clusters": []}}, subresource="status")
        writes = [write for write in await group.writes_within(120.0) if write.kind == "ResourceSyncRule"]
        assert not [write for write in writes if write.verb == "update"]

    simulate(scenario, n=3)


@pytest.mark.clause("A8")
def test_a_rule_without_a_digest_acts_as_it_is() -> None:
    """Earlier versions wrote none; and none is added to a copy in which nothing else changes."""

    async def scenario(group: SimGroup) -> None:
        home, here, _ = await _synced(group)
        await here.stop()
        found = here.get("ResourceSyncRule", "r")
        annotations = dict(found["metadata"]["annotations"])
        provenance = orjson.loads(annotations[meta.PROVENANCE])
        del provenance["spec"]
        annotations[meta.PROVENANCE] = orjson.dumps(provenance, option=orjson.OPT_SORT_KEYS).decode()
        here.replace({**found, "metadata": {**found["metadata"], "annotations": annotations}})
        written = len(here.server.journal)
        here.start()
        await group.settle()
        assert len(_copies(here)) == 2 * MANY
        assert not [write for write in here.server.journal[written:] if write.verb == "update"]
        assert "spec" not in marks_of(here.get("ResourceSyncRule", "r")).provenance
        found = home.get("ResourceSyncRule", "r")
        home.replace({**found, "spec": {**found["spec"], "suspend": True}})
        await group.settle()
        assert marks_of(here.get("ResourceSyncRule", "r")).provenance["spec"]

    simulate(scenario, n=3)


@pytest.mark.clause("W1")
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
@pytest.mark.parametrize("place", ["the spec", "an entry", "a match"])
def test_a_rule_with_fields_that_the_daemon_does_not_know_does_nothing_and_keeps_its_copies(
    place: str, restarted: bool
) -> None:
    async def scenario(group: SimGroup) -> None:
        home, here, other = await _synced(group)
        uids = _copies(here)
        found = home.get("ResourceSyncRule", "r")
        spec = {**found["spec"], "rules": [{"match": [{"objectKey": {"name": "none"}}]}]}
        at = {"the spec": spec, "an entry": spec["rules"][0], "a match": spec["rules"][0]["match"][0]}[place]
        at["ofALaterRelease"] = {"a": "b"}
        home.replace({**found, "spec": spec})
        await group.settle()
        if restarted:
            await here.restart()
        other.create(config_map("late", {"a": "1"}, labels=LABELS))
        other.delete("ConfigMap", "c0", namespace="default")
        await group.settle()
        for member in (home, here):
            accepted = member.condition("ResourceSyncRule", "r", "Accepted")
            assert (accepted["status"], accepted["reason"]) == ("False", "UnknownFields")
            assert "ofALaterRelease" in accepted["message"]
        assert _copies(here) == uids
        home.replace({**home.get("ResourceSyncRule", "r"), "spec": found["spec"]})
        await group.settle()
        assert _copies(here).keys() == uids.keys() - {"c0"} | {"late"}

    simulate(scenario, n=3)


@pytest.mark.clause("W1")
def test_a_stored_match_with_its_name_one_level_too_high_selects_what_was_meant() -> None:
    """As the first README of the Go original writes it, in a cluster that kept the fields."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        owner, here = group["a"], group["b"]
        for name in ("x", "z"):
            owner.create(config_map(name, {"a": "1"}))
        match = {"objectKey": None, "name": "x", "namespace": "default"}
        here.create(rule("r", CONFIG_MAP, {"match": [match]}))
        await group.settle()
        assert _copies(here).keys() == {"x"}
        accepted = here.condition("ResourceSyncRule", "r", "Accepted")
        assert accepted["status"] == "True"
        for part in ("name", "namespace"):
            assert f"spec.rules[0].match[0].{part}: is read as objectKey.{part}" in accepted["message"]

    simulate(scenario, n=2)


@pytest.mark.clause("O3", "A8")
@pytest.mark.parametrize("late", [False, True], ids=["at once", "much later"])
def test_a_copy_by_a_rule_as_it_was_before_an_edit_counts_for_a_while_only(late: bool) -> None:
    """The copy of the rule was altered here, its owner wrote another one, and the daemon has just heard of that."""

    async def scenario(group: SimGroup) -> None:
        home, here, other = await _synced(group)
        observer = Observer(group, Tally())
        other.create(config_map("late", {"a": "1"}, labels=LABELS))
        await group.settle()
        made = here.get("ConfigMap", "late", namespace="default")
        _silence(group, "a", at="b", fault=Fault.REFUSED)
        _edit(here, EDITS["it asks for a feature"])
        _edit(home, EDITS["it matches nothing"])
        await asyncio.sleep(120.0)
        _silence(group, "a", at="b", fault=Fault.NONE)
        await _until(lambda: here.get("ResourceSyncRule", "r")["spec"] == home.get("ResourceSyncRule", "r")["spec"])
        assert not observer.broken
        await here.stop()
        await asyncio.sleep(120.0 * late)
        here.delete("ConfigMap", "late", namespace="default")
        here.server.acting = here.name
        here.create({**made, "metadata": {**made["metadata"], "resourceVersion": None}})
        assert [wrong.clause for wrong in observer.broken] == ["O3"] * late

    simulate(scenario, n=3)


@pytest.mark.clause("W2", "A8")
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_the_oracle_judges_an_altered_rule_by_what_its_daemon_knows(restarted: bool) -> None:
    """The older of two rules was altered here, and its owner is gone: its daemon acts on it until it restarts."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        home, here, other = group["a"], group["b"], group["c"]
        observer = Observer(group, Tally())
        other.create(config_map("one", {"a": "1"}, labels=LABELS))
        home.create(rule("r", CONFIG_MAP, WANTED))
        await group.settle()
        otherwise = {"overrides": [{"type": "replace", "path": "/data/a", "value": "2"}]}
        other.create(rule("younger", CONFIG_MAP, {**WANTED, "mutations": otherwise}))
        await group.settle()
        for name in "bc":
            _silence(group, "a", at=name, fault=Fault.REFUSED)
        await asyncio.sleep(30.0)
        _edit(here, EDITS["it is for others"])
        if restarted:
            await here.restart()
        await asyncio.sleep(120.0)
        copy = here.get("ConfigMap", "one", namespace="default")
        assert copy["data"] == {"a": "2" if restarted else "1"}
        assert not _wrong(observer)
        here.replace({**copy, "data": {"a": "1" if restarted else "2"}})
        assert [wrong.clause for wrong in _wrong(observer)] == ["W1"]
        here.replace(copy)
        found = here.get("ResourceSyncRule", "r")
        accepted = {**here.condition("ResourceSyncRule", "r", "Accepted"), "status": "True"}
        here.replace({**found, "status": {**found["status"], "conditions": [accepted]}}, subresource="status")
        assert [wrong.clause for wrong in _wrong(observer)] == ["A8"] * restarted

    simulate(scenario, n=3)


def _wrong(observer: Observer) -> list[Wrong]:
    """List what the oracle finds wrong in the copies and rules at b."""
    oracle, tally = observer.oracle(), Tally()
    found = (*check_end(oracle, tally), *check_standing(oracle, tally))
    return [one for one in found if one.where.startswith(("ConfigMap", "rule")) and one.where.endswith("at b")]


async def _until(holds: Callable[[], bool]) -> None:
    for _ in range(60_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the rule was never written again")
