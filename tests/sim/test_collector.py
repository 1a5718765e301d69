"""The library at home: what an operator writes, and what goes when its owners at another member are gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject, NotServed
from registry_controller.api.meta import Target
from registry_controller.group import Conflict, Forbidden, Group, Key, RegistryError
from registry_controller.group.dialers import Context, ContextDialer
from registry_controller.group.ownership import Owner, Propagation, encode_mark, read_mark
from registry_controller.group.sources import ContextSource
from registry_controller.kube.connect import READING, Reader
from tests.sim.cluster.group import SimGroup, config_map, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.operator import operator_at
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.request import Answer
from tests.sim.cluster.transport import Fault, Life, SimTransport

COUNTS = "operator-collector"
"""The ConfigMap with the counts."""


Owns = Sequence[Mapping[str, str]]
FAN: Owns = ({"label_selector": "fan"},)


@asynccontextmanager
async def maker_at(
    group: SimGroup,
    name: str,
    *,
    source: Any = None,
    members: str = "b",
    owns: Owns = FAN,
    propagation: Propagation = "Background",
    orphans: Collection[str] = (),
    makes: bool = True,
    label_selector: str = "",
) -> AsyncIterator[Group]:
    """Run an operator that makes a ConfigMap here for each Widget of some members, and owns those that `owns` selects.

    `orphans` are the names of Widgets whose ConfigMap stays.
    """
    async with operator_at(group, name, **({"source": source} if source is not None else {})) as operator:

        async def reconcile(key: Key) -> None:
            found = operator[key.member].get("widgets", key.name, namespace=key.namespace)
            if makes and key.member in members and found is not None:
                called = key.name if len(members) == 1 else f"{key.member}-{key.name}"
                manifest = {"apiVersion": "v1", **config_map(called, {"made": "here"}, labels={"fan": "out"})}
                goes: Propagation = "Orphan" if key.name in orphans else propagation
                await operator.local.apply(manifest, owner=operator[key.member].as_owner(found), propagation=goes)

        controller = operator.controller(reconcile)
        controller.watches("widgets", namespace="default", label_selector=label_selector)
        for one in owns:
            controller.owns("configmaps", **one)
        async with asyncio.TaskGroup() as scope:
            running = scope.create_task(controller.run())
            yield operator
            running.cancel()


def make_widgets(group: SimGroup, names: Iterable[str]) -> None:
    for name in names:
        group["b"].create({"kind": "Widget", "metadata": {"name": name, "namespace": "default"}, "spec": {}})


def label_widgets(group: SimGroup, names: Iterable[str], **labels: str) -> None:
    for name in names:
        found = group["b"].get("Widget", name, namespace="default")
        group["b"].replace({**found, "metadata": {**found["metadata"], "labels": labels}})


def delete_widgets(group: SimGroup, names: Iterable[str]) -> None:
    for name in names:
        group["b"].delete("Widget", name, namespace="default")


def made(group: SimGroup, at: str = "a") -> set[str]:
    found = group[at].list("ConfigMap", namespace="default")
    return {one["metadata"]["name"] for one in found if "fan" in (one["metadata"].get("labels") or {})}


def note_deletions(group: SimGroup, read: Callable[[str, bytes], str]) -> list[str]:
    """Return the list to which `read`, of path and body, of each deletion of a ConfigMap at a is added."""
    server, found = group["a"].server, list[str]()
    answer = server.answer

    def note(method: str, path: str, body: bytes | None, **options: Any) -> Answer:
        if method == "DELETE" and "configmaps" in path:
            found.append(read(path, body or b"{}"))
        return answer(method, path, body, **options)

    server.answer = note  # type: ignore[method-assign]
    return found


def note_policies(group: SimGroup) -> list[str]:
    return note_deletions(group, lambda _, body: str(json.loads(body)["propagationPolicy"]))


def note_names(group: SimGroup) -> list[str]:
    return note_deletions(group, lambda path, _: path.partition("?")[0].rpartition("/")[2])


def change_mark(here: Member, name: str, **changes: Any) -> None:
    """Write another valid mark on a ConfigMap."""
    found = here.get("ConfigMap", name, namespace="default")
    target = Target("", "ConfigMap", "default", name)
    mark = read_mark(found["metadata"]["annotations"], of=target, cluster=here.id)
    assert mark is not None
    text = encode_mark(replace(mark, **changes), of=target, cluster=here.id)
    annotations = {**found["metadata"]["annotations"], meta.GROUP_OWNER: text}
    here.replace({**found, "metadata": {**found["metadata"], "annotations": annotations}})


def numbered(count: int) -> list[str]:
    return [f"w-{number:03}" for number in range(count)]


def test_an_object_goes_with_its_owner_at_another_member_and_no_other_does() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        policies = note_policies(group)
        make_widgets(group, ["x", "y"])
        async with maker_at(group, "a"):
            await asyncio.sleep(10.0)
            assert made(group) == {"x", "y"}
            mark = group["a"].get("ConfigMap", "x", namespace="default")["metadata"]["annotations"]
            group["a"].create(config_map("copy", {}, labels={"fan": "out"}, annotations=mark))
            group["c"].create(config_map("x", {}, labels={"fan": "out"}, annotations=mark))
            async with maker_at(group, "c"):  # it makes its own y; the copied x is taken over by what it applies
                await asyncio.sleep(10.0)
                delete_widgets(group, ["x"])
                await asyncio.sleep(30.0)
            assert made(group) == {"copy", "y"}
            assert policies == ["Background"]
            assert made(group, "c") == {"y"}
            group["a"].delete("ConfigMap", "y", namespace="default")
            await asyncio.sleep(10.0)
            assert made(group) == {"copy", "y"}  # its owner is there: the controller makes it again

    simulate(scenario, n=3)


def test_a_mark_that_was_copied_with_its_object_to_another_cluster_is_no_mark() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        async with maker_at(group, "a"):
            await asyncio.sleep(10.0)
            found = group["a"].get("ConfigMap", "x", namespace="default")["metadata"]
        delete_widgets(group, ["x"])
        copy = config_map("x", {}, labels=found["labels"], annotations=found["annotations"])
        group["c"].create(copy)
        async with maker_at(group, "c"), maker_at(group, "a"):
            await asyncio.sleep(30.0)
            assert (made(group, "c"), made(group, "a")) == ({"x"}, set())

    simulate(scenario, n=3)


def test_an_owner_that_was_made_again_is_another_owner() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(10.0)
            before = group["a"].get("ConfigMap", "x", namespace="default")["metadata"]
            mark = before["annotations"][meta.GROUP_OWNER]
        delete_widgets(group, ["x"])
        make_widgets(group, ["x"])
        async with operator_at(group, "a") as operator:  # its controller makes nothing
            controller = operator.controller(nothing).watches("widgets").owns("configmaps")
            async with asyncio.TaskGroup() as scope:
                running = scope.create_task(controller.run())
                await asyncio.sleep(30.0)
                running.cancel()
            assert made(group) == set()
        assert json.loads(mark)["owner"]["uid"] != group["b"].get("Widget", "x", namespace="default")["metadata"]["uid"]

    simulate(scenario, n=2)


async def nothing(key: Key) -> None:
    """Reconcile nothing."""


@pytest.mark.parametrize("trouble", [Fault.HUNG, Fault.REFUSED, Fault.BROKEN, "401", "403"])
def test_no_answer_proves_nothing(trouble: Fault | str) -> None:
    """A member that is silent or refuses keeps everything, also over a restart; it goes once that answers."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x", "y"])
        wire, tokens = group.wire("a", "b"), set(group["b"].server.tokens)
        async with maker_at(group, "a"):
            await asyncio.sleep(10.0)
            assert made(group) == {"x", "y"}
            if isinstance(trouble, Fault):
                wire.set(trouble)
            elif trouble == "401":
                group["b"].server.tokens.clear()
            else:
                wire.unallowed = {"widgets"}
            delete_widgets(group, ["x"])
            await asyncio.sleep(200.0)
            assert made(group) == {"x", "y"}
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(100.0)
            assert made(group) == {"x", "y"}
            assert operator.collector.kept.keys() >= {"ConfigMap default/x"}
            assert all("b" in reason or "member" in reason for reason in operator.collector.kept.values())
            wire.set(Fault.NONE)
            wire.unallowed = set()
            group["b"].server.tokens.update(tokens)
            await asyncio.sleep(150.0)
            assert made(group) == {"y"}
            assert not operator.collector.kept

    simulate(scenario, n=2)


def test_a_member_that_has_left_or_is_not_known_keeps_what_it_owns() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        here = group["a"]
        here.kill()
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(10.0)
            here.delete("Cluster", "b")
            delete_widgets(group, ["x"])
            wire = group.wire("a", "b")
            wire.set(Fault.HUNG)  # the deletion comes with the departure
            await asyncio.sleep(120.0)
            assert sorted(operator) == ["a"]
            assert made(group) == {"x"}
            assert operator.collector.kept == {
                "ConfigMap default/x": "no member of the group has the ID of its owner's cluster"
            }
        async with maker_at(group, "a"):
            await asyncio.sleep(60.0)
            assert made(group) == {"x"}

    simulate(scenario, n=2)


def test_a_mark_that_changes_while_its_owner_is_asked_about_is_not_forgotten() -> None:
    """The event of the change may come before the answer that shows it."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, names = group["a"], numbered(30)
        server, changed = here.server, set[str]()
        answer = server.answer

        def change(method: str, path: str, body: bytes | None, **options: Any) -> Answer:
            name = path.partition("?")[0].rpartition("/configmaps/")[2]
            if method == "GET" and name in names and name not in changed:
                changed.add(name)
                change_mark(here, name, propagation="Foreground")
            return answer(method, path, body, **options)

        make_widgets(group, names)
        async with maker_at(group, "a"):
            await asyncio.sleep(10.0)
            assert made(group) == set(names)
            server.answer = change  # type: ignore[method-assign]
            delete_widgets(group, names)
            await asyncio.sleep(100.0)
            assert changed == set(names)
            assert made(group) == set()

    simulate(scenario, n=2)


def test_a_proof_counts_for_the_mark_that_was_asked_about() -> None:
    """Between the answers and the deletions the counts are stored; an object may get another owner meanwhile."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, names = group["a"], numbered(30)
        server, changed = here.server, list[str]()
        answer = server.answer

        def change(method: str, path: str, body: bytes | None, **options: Any) -> Answer:
            if method != "GET" and COUNTS in f"{path} {body!r}" and not changed:
                changed.extend(names)
                for name in names:
                    change_mark(here, name, owner=living)
            return answer(method, path, body, **options)

        make_widgets(group, [*names, "living"])
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(10.0)
            found = operator["b"].get("widgets", "living", namespace="default")
            assert found is not None
            living = operator["b"].as_owner(found)
            server.answer = change  # type: ignore[method-assign]
            delete_widgets(group, names)
            await asyncio.sleep(100.0)
            assert changed
            assert made(group) == {*names, "living"}

    simulate(scenario, n=2)


@pytest.mark.parametrize("propagation", ["Foreground", "Orphan"])
def test_the_mark_chooses_how_an_object_goes(propagation: Propagation) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        policies = note_policies(group)
        make_widgets(group, ["x"])
        async with maker_at(group, "a", propagation=propagation):
            await asyncio.sleep(10.0)
            delete_widgets(group, ["x"])
            await asyncio.sleep(10.0)
        if propagation == "Orphan":
            kept = group["a"].get("ConfigMap", "x", namespace="default")
            assert meta.GROUP_OWNER not in (kept["metadata"].get("annotations") or {})
            assert kept["data"] == {"made": "here"}
            assert policies == []
        else:
            assert made(group) == set()
            assert policies == ["Foreground"]

    simulate(scenario, n=2)


def test_too_many_deletions_halt_until_a_person_allows_them() -> None:
    """The halt survives a restart, and the command that it names lifts it."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        names = numbered(120)
        make_widgets(group, names)
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(30.0)
            assert made(group) == set(names)
            delete_widgets(group, names[:70])
            await asyncio.sleep(400.0)
            assert made(group) == set(names)
            (halt,) = operator.collector.halts.values()
            assert (halt.cluster, halt.waiting) == (group["b"].id, 70)
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(60.0)
            assert made(group) == set(names)
            (again,) = operator.collector.halts.values()
            assert again == halt
            assert halt.command == (
                "kubectl -n default annotate --overwrite configmap operator-collector "
                f"cluster-registry.k8s.cisco.com/allow-deletions.{halt.cluster}={halt.since}"
            )
            allowed = {"annotations": {f"{meta.ALLOW_DELETIONS}.{halt.cluster}": halt.since}}
            info = {"name": COUNTS, "namespace": "default", **allowed}
            group["a"].write_as("kubectl", {"kind": "ConfigMap", "metadata": info})
            await asyncio.sleep(30.0)
            assert made(group) == set(names[70:])
            assert not operator.collector.halts
            delete_widgets(group, names[70:])  # 50 are free, with what was allowed not counted
            await asyncio.sleep(30.0)
            assert made(group) == set()

    simulate(scenario, n=2)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_halt_ends_once_the_owners_are_back(is_restarted: bool) -> None:
    """Their cluster is restored from a backup: they have the same uids."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        names = numbered(60)
        make_widgets(group, names)
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(30.0)
            backup = group["b"].server.store.backup()
            delete_widgets(group, names)
            await asyncio.sleep(10.0)
            assert operator.collector.halts
            if not is_restarted:
                group["b"].server.store.restore(backup, bump=1000)
                group.cut("b")
                await asyncio.sleep(60.0)
                assert not operator.collector.halts
                assert made(group) == set(names)
        if is_restarted:
            group["b"].server.store.restore(backup, bump=1000)
            async with maker_at(group, "a") as operator:
                await asyncio.sleep(60.0)
                assert not operator.collector.halts
                assert made(group) == set(names)

    simulate(scenario, n=2)


def test_the_counts_are_stored_again_after_a_person_deleted_them_so_that_a_halt_can_be_lifted() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        names = numbered(60)
        make_widgets(group, names)
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(30.0)
            delete_widgets(group, names)
            await asyncio.sleep(10.0)
            (halt,) = operator.collector.halts.values()
            group["a"].delete("ConfigMap", COUNTS, namespace="default")
            await asyncio.sleep(30.0)
            assert halt.cluster in group["a"].get("ConfigMap", COUNTS, namespace="default")["data"]
            assert made(group) == set(names)

    simulate(scenario, n=2)


@pytest.mark.parametrize("reason", ["serves no kind", "not allowed"])
def test_an_owned_kind_that_cannot_be_read_here_keeps_no_object_of_another_kind(reason: str) -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        async with maker_at(group, "a"):
            await asyncio.sleep(10.0)
        if reason == "not allowed":
            group.wire("a", "a").unallowed = {"widgets"}
        other = "relics" if reason == "serves no kind" else "widgets"
        async with operator_at(group, "a") as operator:
            controller = operator.controller(nothing).watches("widgets").owns(other).owns("configmaps")
            async with asyncio.TaskGroup() as scope:
                running = scope.create_task(controller.run())
                await asyncio.sleep(10.0)
                delete_widgets(group, ["x"])
                await asyncio.sleep(20.0)
                assert made(group) == set()
                assert operator.collector.problem.startswith(f"{other} cannot be read: ")
                running.cancel()

    simulate(scenario, n=2)


def break_lists(here: Member, plural: str) -> Callable[[], None]:
    """Answer 500 to each list and watch of a kind, as with a broken conversion webhook; return what mends that."""
    server = here.server
    answer, watch = server.answer, server.watch
    broken = Answer(500, b'{"kind": "Status", "message": "conversion webhook failed"}')

    def is_broken(path: str) -> bool:
        return path.partition("?")[0].endswith(f"/{plural}")

    def mend() -> None:
        server.answer, server.watch = answer, watch  # type: ignore[method-assign]

    server.answer = lambda method, path, body, **options: (  # type: ignore[method-assign]
        broken if method == "GET" and is_broken(path) else answer(method, path, body, **options)
    )
    server.watch = lambda path, **options: broken if is_broken(path) else watch(path, **options)  # type: ignore[method-assign]
    return mend


def test_an_owned_kind_whose_lists_fail_keeps_its_own_objects_alone() -> None:
    """Not each failure lasts: those of a server that starts do not."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(10.0)
            owner = operator["b"].as_owner(operator["b"].list("widgets")[0])
            info = {"name": "x", "namespace": "default"}
            await operator.local.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": info}, owner=owner)
        delete_widgets(group, ["x"])
        mend = break_lists(group["a"], "configmaps")
        async with operator_at(group, "a") as operator:
            controller = operator.controller(nothing).watches("widgets").owns("configmaps").owns("jobs.batch")
            async with asyncio.TaskGroup() as scope:
                running = scope.create_task(controller.run())
                await asyncio.sleep(30.0)
                assert group["a"].list("Job", namespace="default")
                await asyncio.sleep(60.0)
                assert not group["a"].list("Job", namespace="default")
                assert made(group) == {"x"}
                assert "configmaps cannot be read: " in operator.collector.problem
                mend()
                await asyncio.sleep(30.0)
                assert made(group) == set()
                assert not operator.collector.problem
                running.cancel()

    simulate(scenario, n=2)


def test_a_restart_does_not_begin_to_count_again() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        names = numbered(120)
        make_widgets(group, names)
        async with maker_at(group, "a"):
            await asyncio.sleep(30.0)
            delete_widgets(group, names[:40])
            await asyncio.sleep(10.0)
            assert made(group) == set(names[40:])
        async with maker_at(group, "a") as operator:
            await asyncio.sleep(10.0)
            delete_widgets(group, names[40:70])
            await asyncio.sleep(60.0)
            assert made(group) == set(names[40:])
            assert len(operator.collector.halts) == 1

    simulate(scenario, n=2)


def test_objects_that_people_delete_count_for_no_halt() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        names = numbered(120)
        make_widgets(group, names)
        async with maker_at(group, "a"):
            await asyncio.sleep(30.0)
        async with operator_at(group, "a") as operator:
            controller = operator.controller(nothing).watches("widgets").owns("configmaps")
            async with asyncio.TaskGroup() as scope:
                running = scope.create_task(controller.run())
                await asyncio.sleep(10.0)
                delete_widgets(group, names[:1])  # a window begins, with all of them
                await asyncio.sleep(10.0)
                for name in names[1:60]:
                    group["a"].delete("ConfigMap", name, namespace="default")
                await asyncio.sleep(5.0)
                delete_widgets(group, names[60:100])
                await asyncio.sleep(20.0)
                assert made(group) == set(names[100:])
                assert not operator.collector.halts
                running.cancel()

    simulate(scenario, n=2)


def test_nothing_goes_while_the_counts_cannot_be_stored_or_read() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x", "y"])
        server = group["a"].server
        async with maker_at(group, "a"):
            await asyncio.sleep(10.0)
            server.denied.add(f"ConfigMap {COUNTS}")
            delete_widgets(group, ["x"])
            await asyncio.sleep(60.0)
            assert made(group) == {"x", "y"}
            server.denied.clear()
            await asyncio.sleep(30.0)
            assert made(group) == {"y"}
        later = json.dumps({"format": 2, "windowStart": "2026-01-01T00:00:00Z", "baseline": 5})
        group["a"].write_as("kubectl", config_map(COUNTS, {group["b"].id: later}))
        async with maker_at(group, "a") as operator:
            delete_widgets(group, ["y"])
            await asyncio.sleep(60.0)
            assert made(group) == {"y"}
            assert "nothing is deleted until it is removed" in operator.collector.problem
            group["a"].delete("ConfigMap", COUNTS, namespace="default")
            await asyncio.sleep(30.0)
            assert made(group) == set()

    simulate(scenario, n=2)


def test_an_operator_reads_and_writes_objects_of_its_own_cluster() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        writes = [len(member.server.journal) for member in group.members]
        group["a"].kill()
        group["b"].kill()
        async with operator_at(group, "a") as operator:
            local = operator.local
            assert await local.get("widgets", "w", namespace="default") is None
            head = {"apiVersion": "sim.example/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
            stored = await local.apply({**head, "spec": {"size": 1}})
            assert (stored.name, stored.manifest["spec"]) == ("w", {"size": 1})
            stored = await local.apply_status({**head, "status": {"phase": "Ready"}})
            assert stored.manifest["status"] == {"phase": "Ready"}
            await asyncio.gather(*(local.add_finalizer(stored, f"example.com/f-{number}") for number in range(3)))
            found = await local.get("widgets", "w", namespace="default")
            assert found is not None
            assert sorted(found.manifest["metadata"]["finalizers"]) == [f"example.com/f-{n}" for n in range(3)]
            for number in range(3):
                await local.remove_finalizer(stored, f"example.com/f-{number}")
            local.event(stored, reason="Made", message="it was made")
            local.event(stored, reason="Made", message="it was made")
            await asyncio.sleep(5.0)
            events = group["a"].list("Event", namespace="default")
            (event,) = [one for one in events if one["source"] == {"component": "operator"}]
            assert (event["reason"], event["involvedObject"]["uid"]) == ("Made", stored.uid)
            await local.delete(stored)
            assert await local.get("widgets", "w", namespace="default") is None
            again = await local.apply({**head, "spec": {"size": 2}})
            await local.delete(stored)  # that object is gone; the new one stays
            assert await local.remove_finalizer(stored, "example.com/f-0") is None
            found = await local.get("widgets", "w", namespace="default")
            assert found is not None
            assert found.uid == again.uid
        assert len(group["b"].server.journal) == writes[1]

    simulate(scenario, n=2)


def test_errors_of_writes_name_what_to_do() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        group["a"].kill()
        server, wire = group["a"].server, group.wire("a", "a")
        head = {"apiVersion": "sim.example/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
        async with operator_at(group, "a") as operator:
            local = operator.local
            stored = await local.apply(head)
            wire.unallowed = {"widgets"}
            right = "widgets.sim.example in namespace default; grant that to its account by a Role or ClusterRole"
            for words, call in (
                (f"may not get {right}", local.get("widgets", "w", namespace="default")),
                (f"may not create and patch {right}", local.apply(head)),
                (f"may not patch {right.replace('example', 'example/status')}", local.apply_status(head)),
            ):
                with pytest.raises(Forbidden, match=words):
                    await call
            wire.unallowed = set()
            server.refused["Widget w"] = Refusal(409, "Conflict", "fields are set by another manager")
            with pytest.raises(Conflict, match="or take them over with force=True"):
                await local.apply(head)
            with pytest.raises(Conflict):  # after some tries
                await local.add_finalizer(stored, "example.com/f")
            server.refused.clear()
            server.trouble.extend([Answer(429, b'{"kind":"Status","code":429,"reason":"TooManyRequests"}')] * 3)
            assert (await local.apply(head)).uid == stored.uid
            for words, manifest in (
                ("apiVersion: is missing", {"kind": "Widget", "metadata": {"name": "w"}}),
                ("kind: is missing", {"apiVersion": "v1", "metadata": {"name": "w"}}),
                ("metadata.name: is missing", {"apiVersion": "v1", "kind": "Widget"}),
                ("metadata.namespace: is missing for widgets", {**head, "metadata": {"name": "w"}}),
                (
                    "metadata.namespace: must be empty",
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": head["metadata"]},
                ),
            ):
                with pytest.raises(InvalidObject, match=words):
                    await local.apply(manifest)
            with pytest.raises(NotServed, match="serves no kind unicorns"):
                await local.get("unicorns", "u")

    simulate(scenario, n=2)


def test_an_object_of_another_cluster_is_no_owner_at_a_member() -> None:
    """The collector would read at that member that it is gone, and delete what it owns."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        make_widgets(group, ["x"])
        source: Any = lambda _: ContextSource([Context(name=name) for name in "ab"], local="a")  # noqa: E731
        async with operator_at(group, "a", source=source) as operator:
            operator.watch("widgets")
            await asyncio.sleep(10.0)
            before, read = operator["b"], operator["b"].get("widgets", "x", namespace="default")
            here = await operator.local.apply({"apiVersion": "v1", **config_map("here", {})})
            assert read is not None
            assert before.as_owner(read).cluster == group["b"].id
            assert operator["a"].as_owner(here).cluster == group["a"].id
            for member, obj in (("a", read), ("b", here)):
                with pytest.raises(ValueError, match=f"was read from .*: give an object that group.'{member}'. shows"):
                    operator[member].as_owner(obj)
            group.rebuild("b")
            group["b"].start()
            await asyncio.sleep(90.0)
            assert operator["b"].cluster_id == group["b"].id
            with pytest.raises(ValueError, match="was read from b, cluster"):
                operator["b"].as_owner(read)

    simulate(scenario, n=2)


def test_an_owner_is_not_read_before_its_cluster_has_proven_its_id() -> None:
    """A context whose user may no longer read the ID of its cluster: it proves nothing from then on."""

    async def scenario(group: SimGroup) -> None:
        here, there = group["a"], group["b"]
        wire = group.wire("a", "b")

        async def connect(context: Context) -> Reader:
            transport: Any = SimTransport(wire, token=None, methods=READING, life=Life())
            return Reader(transport)

        dialer = ContextDialer("b", Context(name="b"), connect=connect)
        reader = await dialer.dial()
        assert dialer.cluster_id == there.id
        wire.unallowed = {"namespaces"}
        await dialer.prove(reader)
        assert dialer.cluster_id == ""
        wire.unallowed = set()
        await dialer.prove(reader)
        assert dialer.cluster_id == there.id
        wire.unallowed = {"namespaces"}
        await dialer.prove(reader)
        wire.unallowed, wire.server = set(), here.server
        with pytest.raises(RegistryError):
            await dialer.prove(reader)

    simulate(scenario, n=2)


def test_a_manifest_that_is_none_is_an_error_that_names_its_field() -> None:
    async def scenario(group: SimGroup) -> None:
        await group.join()
        good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}
        info = good["metadata"]
        owner = Owner(group["b"].id, "", "ConfigMap", "default", "x", "uid")
        cases: list[tuple[Any, dict[str, Any], str]] = [
            ("kind: ConfigMap", {}, "manifest: must be a mapping"),
            (None, {}, "manifest: must be a mapping"),
            ({**good, "metadata": ["x"]}, {}, "metadata: must be a mapping"),
            ({**good, "metadata": {**info, "annotations": ["x"]}}, {"owner": owner}, "metadata.annotations: "),
            ({**good, "metadata": {**info, "namespace": 5}}, {}, "metadata.namespace: must be a text"),
            ({**good, "metadata": {**info, "name": 5}}, {}, "metadata.name: is missing, or no text"),
            ({**good, "data": {"secret": object()}}, {}, "manifest: has a value that is no JSON"),
            ({**good, "data": {"secret": chr(0xD800)}}, {}, "manifest: has a value that is no JSON"),
            (good, {"owner": "x"}, "owner: must be an Owner"),
            (good, {"owner": owner, "propagation": True}, "propagation: must be Background"),
            (good, {"propagation": "foreground"}, "propagation: must be Background"),
        ]
        async with operator_at(group, "a") as operator:
            for manifest, options, words in cases:
                with pytest.raises(InvalidObject, match=words):
                    await operator.local.apply(manifest, **options)
            stored = await operator.local.apply(good)
            typo: Any = "foreground"
            with pytest.raises(InvalidObject, match="propagation: must be Background"):
                await operator.local.delete(stored, propagation=typo)

    simulate(scenario, n=2)
