"""This cluster's etcd is restored while its daemon lives, with and without a raised revision. A1, W3, R4."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import ObjectKey
from registry_controller.watch import reflector
from tests.sim.checks.observer import Observer
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.play import play
from tests.sim.schedule.schedule import Schedule
from tests.sim.schedule.stage import Step
from tests.sim.schedule.tally import RESTORED, RESTORED_AHEAD, Tally

LABELS = {"sync": "yes"}
WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
BUMPS = [0, 1_000_000]


def _rule(match: dict[str, str], policy: str = "Orphan") -> dict[str, Any]:
    made = rule("wishes", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": match}]}]}, deletionPolicy=policy)
    made["metadata"]["annotations"] = {meta.SYNC_DISABLED: "true"}
    return made


@pytest.mark.clause("R4")
@pytest.mark.parametrize("has_passed", [False, True], ids=["behind", "past"])
def test_a_restored_object_that_has_another_change_at_the_same_revision_is_noticed(has_passed: bool) -> None:
    """The first change of the object since the backup is lost; the first one since the restore is another one."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule(LABELS))
        owner.create(config_map("changed", {"value": "1"}, labels=LABELS))
        await group.settle()
        backup = owner.server.store.backup()
        owner.apply(config_map("changed", {"value": "lost"}, labels=LABELS))
        at = owner.get("ConfigMap", "changed", namespace="default")["metadata"]["resourceVersion"]
        await group.settle()
        reached = owner.server.store.revision
        group.cut("b")
        owner.server.store.restore(backup, bump=0)
        owner.apply(config_map("changed", {"value": "kept"}, labels=LABELS))
        assert owner.get("ConfigMap", "changed", namespace="default")["metadata"]["resourceVersion"] == at
        for number in range(100 if has_passed else 0):
            owner.create({"kind": "Namespace", "metadata": {"name": f"native-{number}"}})
        assert (owner.server.store.revision > reached) is has_passed
        await group.settle()
        assert here.get("ConfigMap", "changed", namespace="default")["data"] == {"value": "kept"}

    simulate(scenario, n=2)


@pytest.mark.clause("A1")
@pytest.mark.parametrize("bump", BUMPS)
def test_a_copy_that_a_restore_made_old_is_brought_up_to_date(bump: int) -> None:
    """Edited, made and deleted since the backup: all is as the owner has it, without a restart."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule(LABELS))
        for name in ("edited", "deleted"):
            owner.create(config_map(name, {"value": "1"}, labels=LABELS))
        await group.settle()
        backup = here.server.store.backup()
        owner.apply(config_map("edited", {"value": "2"}))
        owner.create(config_map("made", {"value": "1"}, labels=LABELS))
        owner.delete("ConfigMap", "deleted", namespace="default")
        await group.settle()
        group.cut("a")
        here.server.store.restore(backup, bump=bump)
        await group.settle()
        found = {one["metadata"]["name"]: one["data"] for one in here.list("ConfigMap", namespace="default")}
        assert found == {"edited": {"value": "2"}, "made": {"value": "1"}}

    simulate(scenario, n=2)


@pytest.mark.clause("A7", "R4")
@pytest.mark.parametrize("bump", BUMPS)
def test_a_copy_by_a_state_of_its_rule_that_the_restore_undid_is_followed(bump: int) -> None:
    """A backup tool puts the copy here after the restore: it names a generation that this history does not have."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule(LABELS, "Delete"))
        await group.settle()
        backup = here.server.store.backup()
        here.apply(_rule(LABELS, "Delete") | {"spec": {**_rule({"sync": "later"}, "Delete")["spec"]}})
        owner.create(config_map("made", {"value": "1"}, labels={"sync": "later"}))
        await group.settle()
        made = here.get("ConfigMap", "made", namespace="default")
        group.cut("a")
        here.server.store.restore(backup, bump=bump)
        owner.delete("ConfigMap", "made", namespace="default")
        await group.settle()
        assert not here.list("ConfigMap", namespace="default")
        here.create(made | {"metadata": {**made["metadata"], "resourceVersion": ""}})
        await group.settle()
        assert not here.list("ConfigMap", namespace="default")

    simulate(scenario, n=2)


@pytest.mark.clause("R4")
@pytest.mark.parametrize("match", [{"labels": [{"matchLabels": LABELS}]}, {}], ids=["labels", "everything"])
@pytest.mark.parametrize("where", ["a", "b"])
@pytest.mark.parametrize("bump", BUMPS)
def test_a_deletion_that_a_restore_undoes_is_noticed_though_no_watch_has_shown_it(
    bump: int, where: str, match: dict[str, Any]
) -> None:
    """The daemon has listed the kind since; the server passes that revision before a watch goes on."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner, restored = group["a"], group["b"], group[where]
        made = rule("wishes", CONFIG_MAP, {"match": [{**match, "namespaces": ["default"]}]}, deletionPolicy="Delete")
        here.create(made | {"metadata": {**made["metadata"], "annotations": {meta.SYNC_DISABLED: "true"}}})
        for name in ("kept", "deleted"):
            owner.create(config_map(name, {"value": "1"}, labels=LABELS))
        await group.settle()
        backup = restored.server.store.backup()
        owner.delete("ConfigMap", "deleted", namespace="default")
        await group.settle()
        await here.restart()
        await group.settle()
        listed = restored.server.store.revision
        group.cut(where)
        restored.server.store.restore(backup, bump=bump)
        for number in range(100):
            restored.create({"kind": "Namespace", "metadata": {"name": f"native-{number}"}})
        assert restored.server.store.revision > listed
        await group.settle()
        found = {one["metadata"]["name"] for one in here.list("ConfigMap", namespace="default")}
        assert found == ({"kept"} if where == "a" else {"kept", "deleted"})

    simulate(scenario, n=2)


@pytest.mark.clause("A1")
@pytest.mark.parametrize("bump", BUMPS)
def test_copies_made_since_the_backup_are_made_again_though_their_events_were_late(bump: int) -> None:
    """The restore resets the watch, which brings neither those events any more nor one of the new history."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule(LABELS))
        await group.settle()
        backup = here.server.store.backup()
        names = ("heard", "late", "later")
        for name in names:
            owner.create(config_map(name, {"value": "1"}, labels=LABELS))
            await asyncio.sleep(1.0)
            here.home.late_s = 20.0
        group.cut("a")
        here.server.store.restore(backup, bump=bump)
        here.home.late_s = 0.0
        owner.create(config_map("since", {"value": "1"}, labels=LABELS))
        await group.settle()
        found = {one["metadata"]["name"] for one in here.list("ConfigMap", namespace="default")}
        assert found == {*names, "since"}

    simulate(scenario, n=2)


@pytest.mark.clause("R4")
@pytest.mark.parametrize("verb", ["made", "edited", "status", "deleted"])
@pytest.mark.parametrize("bump", BUMPS)
def test_a_write_that_the_restore_undid_before_its_event_came_is_done_again(bump: int, verb: str) -> None:
    """The watch is where the backup was, so that only the answer to the write shows that history was lost."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        info = {"name": "one", "namespace": "default", "labels": LABELS}
        first, second = ({"kind": "Widget", "metadata": info, "spec": {"value": value}} for value in ("1", "2"))
        here.create(rule("wishes", WIDGET, {"mutations": {"syncStatus": True}}, deletionPolicy="Delete"))
        owner.create({**first, "metadata": {**info, "name": "other"}})
        if verb != "made":
            owner.create(first)
        await group.settle()
        backup = here.server.store.backup()
        here.home.late_s = 60.0
        if verb == "status":
            owner.write_as("them", {**first, "status": {"phase": "Ready"}}, subresource="status")
        elif verb == "deleted":
            owner.delete("Widget", "one", namespace="default")
        else:
            owner.apply(second)
        await asyncio.sleep(0.5)
        wanted = here.find("Widget", "one", namespace="default")
        group.cut("a")
        here.server.store.restore(backup, bump=bump)
        here.home.late_s = 0.0
        await group.settle()
        found = here.find("Widget", "one", namespace="default")
        parts = ("spec", "status") if verb != "deleted" else ()
        assert [(found or {}).get(part) for part in parts] == [(wanted or {}).get(part) for part in parts]
        assert (found is None) == (wanted is None) == (verb == "deleted")
        assert here.condition("ResourceSyncRule", "wishes", "Synced")["status"] == "True"

    simulate(scenario, n=2)


@pytest.mark.clause("R4")
@pytest.mark.parametrize("restored", ["here", "owner"])
def test_a_restore_shows_also_where_the_watches_break_when_they_were_to_end(
    monkeypatch: pytest.MonkeyPatch, restored: str
) -> None:
    """A virtual machine that is reset to a snapshot leaves connections without an answer, until they time out."""
    monkeypatch.setattr(reflector, "_WATCH_S", (5, 5))  # no break is well before the end

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule(LABELS))
        owner.create(config_map("one", {"value": "1"}, labels=LABELS))
        await group.settle()
        member = here if restored == "here" else owner
        backup = member.server.store.backup()
        owner.apply(config_map("one", {"value": "2"}))
        await group.settle()
        group.cut(member.name)
        member.server.store.restore(backup)
        await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"value": "2" if member is here else "1"}

    simulate(scenario, n=2)


@pytest.mark.clause("A1")
@pytest.mark.parametrize("bump", BUMPS)
def test_a_rule_is_obeyed_as_the_restore_left_it(bump: int) -> None:
    """An edit that is lost is followed no longer, and a rule that is lost neither; one that was deleted acts again."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule(LABELS))
        here.create({**_rule({"sync": "deleted"}), "metadata": {"name": "deleted"}})
        await group.settle()
        backup = here.server.store.backup()
        found = here.get("ResourceSyncRule", "wishes")
        here.replace({**found, "spec": _rule({"sync": "no"})["spec"]})
        here.create({**_rule({"sync": "lost"}), "metadata": {"name": "lost"}})
        here.delete("ResourceSyncRule", "deleted")
        await group.settle()
        group.cut("a")
        here.server.store.restore(backup, bump=bump)
        await asyncio.sleep(60.0)
        for value in ("yes", "no", "lost", "deleted"):
            owner.create(config_map(value, {"value": "1"}, labels={"sync": value}))
        await group.settle()
        assert [one["metadata"]["name"] for one in here.list("ConfigMap", namespace="default")] == ["deleted", "yes"]

    simulate(scenario, n=2)


@pytest.mark.clause("O3")
@pytest.mark.parametrize("bump", BUMPS)
def test_an_owner_whose_etcd_was_restored_is_followed(bump: int) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule(LABELS))
        owner.create(config_map("one", {"value": "1"}, labels=LABELS))
        await group.settle()
        backup = owner.server.store.backup()
        owner.apply(config_map("one", {"value": "2"}))
        await group.settle()
        group.cut("b")
        owner.server.store.restore(backup, bump=bump)
        await group.settle()
        assert here.get("ConfigMap", "one", namespace="default")["data"] == {"value": "1"}
        assert here.condition("ResourceSyncRule", "wishes", "HistoryRestored")["status"] == "True"

    simulate(scenario, n=2)


@pytest.mark.clause("O3")
@pytest.mark.parametrize("bump", BUMPS)
def test_a_write_that_was_under_way_when_the_etcd_of_the_owner_was_restored_is_undone(bump: int) -> None:
    """It arrives after the restore with the state that was lost; the owner is followed back, as the law says."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule(LABELS))
        owner.create(config_map("one", {"value": "1"}, labels=LABELS))
        await group.settle()
        observer = Observer(group, Tally())
        backup = owner.server.store.backup()
        here.home.set(Fault.HUNG)
        owner.apply(config_map("one", {"value": "2"}))
        await asyncio.sleep(3.0)
        group.cut("b")
        observer.see_restored(owner, lambda: owner.server.store.restore(backup, bump=bump))
        here.home.set(Fault.NONE)
        await group.settle()
        states = observer.history.states("a", "ConfigMap", ObjectKey("default", "one"))
        assert [state.manifest["data"]["value"] for state in states if state.manifest] == ["1", "2", "1"]
        assert here.condition("ResourceSyncRule", "wishes", "HistoryRestored")["status"] == "True"
        assert not observer.broken

    simulate(scenario, n=2)


@pytest.mark.clause("O3")
@pytest.mark.parametrize("bump", BUMPS)
@pytest.mark.parametrize(
    ("values", "are_in_order"), [("12R1", True), ("1R21", True), ("121", False), ("12R12", False), ("1R212", False)]
)
def test_the_states_of_a_copy_are_in_the_order_of_its_source(values: str, are_in_order: bool, bump: int) -> None:
    """R is the restore of the owner's etcd, which brings the first state back."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        observer, here, owner = Observer(group, Tally()), group["a"], group["b"]
        here.create(_rule(LABELS))
        owner.create(config_map("one", {"value": "1"}, labels=LABELS))
        await group.settle()
        backup = owner.server.store.backup()
        copies = {"1": here.get("ConfigMap", "one", namespace="default")}
        owner.apply(config_map("one", {"value": "2"}))
        await group.settle()
        copies["2"] = here.get("ConfigMap", "one", namespace="default")
        await here.stop()
        here.delete("ConfigMap", "one", namespace="default")
        here.server.acting = "a"
        for value in values:
            if value == "R":
                observer.see_restored(owner, lambda: owner.server.store.restore(backup, bump=bump))
                continue
            for made_by_server in ("uid", "resourceVersion"):
                copies[value]["metadata"].pop(made_by_server, None)
            here.apply(copies[value])
        assert ["goes back" in found.words for found in observer.broken] == [True] * (not are_in_order)

    simulate(scenario, n=2)


@pytest.mark.clause("A1")
@pytest.mark.parametrize("bump", BUMPS)
def test_a_copy_that_comes_back_half_deleted_is_made_anew(bump: int) -> None:
    """The backup is from before its finalizer was removed: the controller of that finalizer removes it again."""
    steps = (
        Step(0.0, "rules", "b", ("configmaps-1", ("ConfigMap", "plain", "labels", "Delete", ""))),
        Step(0.0, "puts", "c", (("ConfigMap", "default", "z"), "1", "sync")),
        Step(3.0, "holds copy while it goes", "b", (0, 5.0)),
        Step(0.0, "puts", "c", (("ConfigMap", "default", "z"), "2", "sync")),
        Step(1.0, "has its etcd restored", "b", (30.0, bump)),
    )
    outcome = play(Schedule(seed=1, count=3, joined=True, steps=steps))
    assert outcome.tally.deeds["holds copy while it goes"]
    assert outcome.tally.effects[RESTORED_AHEAD if bump else RESTORED]
    assert not outcome.broken


@pytest.mark.clause("A11")
@pytest.mark.parametrize("bump", BUMPS)
@pytest.mark.parametrize("meanwhile", ["", "drops copy"])
def test_a_copy_of_a_later_version_that_comes_back_at_the_end_is_read_once_it_has_this_format(
    meanwhile: str, bump: int
) -> None:
    """The backup is from before the copy got this format back, or was made anew: it gets this format again."""
    steps = (
        Step(0.0, "rules", "b", ("configmaps-1", ("ConfigMap", "plain", "labels", "Delete", ""))),
        Step(0.0, "puts", "c", (("ConfigMap", "default", "z"), "1", "sync")),
        Step(3.0, "has a copy of a later version", "b", (0, 2)),
        Step(1.0, "has its etcd restored", "b", (30.0, bump)),
        *((Step(1.0, meanwhile, "b", (0,)),) if meanwhile else ()),
    )
    outcome = play(Schedule(seed=1, count=3, joined=True, steps=steps))
    assert outcome.tally.deeds["has a copy of a later version"]
    assert outcome.tally.effects[RESTORED_AHEAD if bump else RESTORED]
    assert not outcome.broken
