"""A1, A2, A5: the copy that was judged is brought to what is wanted, and repairs have their pauses."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import (
    ChangesTooOften,
    Conflict,
    Contested,
    Forbidden,
    Immutable,
    RegistryError,
    ServerError,
)
from registry_controller.api.meta import GVK, ClusterUID, Target
from registry_controller.api.provenance import Provenance
from registry_controller.core.decision.decision import Delete, Reason
from registry_controller.core.decision.marks import NATIVE, Marks
from registry_controller.core.decision.state import CurrentCopy, NamespaceState, TargetState
from registry_controller.core.diff.remainder import NOTHING_REMAINS, Remainder
from registry_controller.report.metrics import Metrics
from registry_controller.sync.contention import AT_ONCE, PAUSE_S
from registry_controller.sync.copy_updater import CopyUpdater
from registry_controller.sync.desired_copy import DesiredCopy, Update
from registry_controller.sync.made_once import MadeOnce
from registry_controller.sync.pace import AT_ONCE as CHANGES_AT_ONCE
from registry_controller.sync.pace import OPEN_S
from registry_controller.sync.replaced_copies import ReplacedCopies
from registry_controller.watch.body_cache import BodyCache
from tests.sim.cluster.loop import run

LOCAL = ClusterUID("local")
TARGET = Target("", "ConfigMap", "default", "one")


class Bench:
    """An updater over a server that stores what is written. `log` holds the writes."""

    def __init__(self, target: Target = TARGET, *, is_there: bool = True) -> None:
        self.target = target
        self.log: list[str] = []
        self.immutable = False
        self.refusal: RegistryError | None = None
        self.failure: RegistryError | None = None
        self.undeletable: RegistryError | None = None
        self.values: dict[str, str] | None = None
        self.kept: tuple[str, ...] = ()
        self.unpaired: tuple[str, ...] = ()
        self.lost: list[Target] = []
        self.changes_nothing = False
        self.status = b"status"
        self.metrics = Metrics()
        self.cache: Any = SimpleNamespace(
            kind=GVK(target.group, "v1", target.kind), records={}, record_write=lambda *_: None
        )
        if is_there:
            self._store(b"")
        copies: Any = SimpleNamespace(
            cache_of=lambda group, kind: self.cache, find=lambda target: (self.cache, self.record)
        )
        writer: Any = self
        self.updater = CopyUpdater(
            local=LOCAL,
            copies=copies,
            bodies=BodyCache(),
            writer=writer,
            metrics=self.metrics,
            made_once=MadeOnce(),
            replaced=ReplacedCopies(),
            recreated=self._recreated,
            put_back=self._put_back,
            lost=self.lost.append,
        )

    @property
    def record(self) -> Any:
        return self.cache.records.get(self.target.key)

    def wanted(self, digest: bytes = b"wanted", *, status: dict[str, Any] | None = None) -> DesiredCopy:
        return DesiredCopy(self.target, self.cache.kind, {}, digest, NATIVE, status)

    def state(self, **more: Any) -> TargetState:
        record = self.record
        current = CurrentCopy(NATIVE, record.uid, record.revision) if record is not None else None
        return TargetState(self.target, (), current, ClusterUID("local"), frozenset(), frozenset())._replace(**more)

    async def update(self, digest: bytes = b"wanted", *, reason: Reason = Reason.UPDATE, **more: Any) -> bool:
        return await self.updater.update(
            self.state(**more), self.wanted(digest), self.cache, self.record, reason=reason
        )

    def disturb(self) -> None:
        """Let a controller here change the copy."""
        record = self.cache.records[self.target.key]
        record.revision += 1

    def remove(self) -> None:
        """Let a person delete the copy here."""
        del self.cache.records[self.target.key]

    def make_again(self, uid: str) -> None:
        """Let a person make the copy again."""
        self._store(b"")
        self.cache.records[self.target.key].uid = uid

    def _store(self, digest: bytes) -> None:
        before = self.cache.records.get(self.target.key)
        revision = (before.revision if before is not None else 0) + 1
        self.cache.records[self.target.key] = SimpleNamespace(
            uid="uid", revision=revision, verified=revision if digest else 0, desired=digest or None, baseline=digest,
            made_from=None, status_digest=None, marks=NATIVE, status_lost=(),
            remainder=NOTHING_REMAINS,
        )  # fmt: skip

    def _put_back(self, target: Target, rule: str, lists: tuple[str, ...]) -> None:
        self.log.append(f"put back: {', '.join(lists)}")

    def _recreated(self, target: Target, rule: str, why: str) -> None:
        self.log.append(f"recreated: {why}")

    # The writer.

    async def read(self, wanted: DesiredCopy, record: Any) -> dict[str, str] | None:
        return self.values

    async def check_replaceable(self, wanted: DesiredCopy, *, over: Any) -> None:
        if self.refusal is not None:
            raise self.refusal

    async def create(self, wanted: DesiredCopy, cache: Any, *, over: Any = None) -> None:
        if self.failure is not None:
            raise self.failure
        self.log.append("create" if over is None else f"create over {over}")
        self._store(wanted.digest)

    async def create_namespace(self, name: str) -> None:
        self.log.append(f"create namespace {name}")

    async def write(self, wanted: DesiredCopy, record: Any, cache: Any, *, adopt: bool) -> Update:
        if self.immutable:
            raise Immutable("spec.selector is immutable", managers=("kubectl",), kept=self.kept)
        self.log.append("adopt" if adopt else "write")
        if not self.changes_nothing:
            self._store(wanted.digest)
        return Update(not self.changes_nothing, ("kubectl",), self.unpaired)

    async def write_status(self, wanted: DesiredCopy, record: Any, cache: Any) -> Update:
        self.log.append("write status")
        record.status_digest = self.status_digest(wanted)
        return Update(True, ("kubectl",))

    def digest(self, manifest: object) -> bytes:
        return b"digest"

    def status_digest(self, wanted: DesiredCopy) -> bytes | None:
        return None if wanted.status is None else self.status

    async def delete(self, target: Target, kind: GVK, *, uid: str, revision: int) -> None:
        if self.undeletable is not None:
            raise self.undeletable
        self.log.append(f"delete {uid} at {revision}")
        del self.cache.records[target.key]

    def still_as_written(self, record: Any, obj: Any) -> bool:
        return False

    def still_has_status(self, record: Any, obj: Any) -> bool:
        return True


async def test_a_copy_in_step_is_not_written() -> None:
    """A1."""
    bench = Bench()
    assert await bench.update()
    assert not await bench.update()
    assert bench.log == ["write"]


async def test_a_copy_that_changed_since_it_was_judged_is_judged_again() -> None:
    """O5: and one that came or went, too."""
    bench = Bench()
    for state in (bench.state(), bench.state(current=None)):
        bench.disturb()
        with pytest.raises(Conflict):
            await bench.updater.update(state, bench.wanted(), bench.cache, bench.record, reason=Reason.UPDATE)
    assert not bench.log


async def test_a_missing_namespace_is_created_first() -> None:
    """A3."""
    bench = Bench(is_there=False)
    assert await bench.update(reason=Reason.CREATE, namespace=NamespaceState.MISSING)
    assert bench.log == ["create namespace default", "create"]


async def test_an_adoption_is_told_to_the_writer() -> None:
    bench = Bench()
    await bench.update(reason=Reason.ADOPT)
    assert bench.log == ["adopt"]


async def test_a_field_that_may_not_change_has_the_copy_made_anew() -> None:
    """A2."""
    bench = Bench()
    bench.immutable = True
    assert await bench.update()
    assert bench.log == ["delete uid at 1", "create", "recreated: a changed field is immutable"]


OVER = "create over {'replicas': '5'}"


@pytest.mark.clause("A9")
@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        ("nothing", OVER),
        ("waits", OVER),
        ("is not wanted", "create"),
        ("its namespace goes", "create"),
        ("another object came and went", "create"),
    ],
)
async def test_what_a_copy_had_is_kept_until_it_is_made_again_or_is_not_wanted(meanwhile: str, expected: str) -> None:
    """A2: the Event comes then, too, and another deletion of the copy has nothing kept."""
    bench = Bench()
    bench.immutable, bench.failure, bench.values = True, ServerError("a timeout"), {"replicas": "5"}
    for _ in range(2):
        with pytest.raises(ServerError):
            await bench.update()
    bench.failure = None
    match meanwhile:
        case "waits":
            bench.updater.note_idle(bench.state(), is_held=True)
        case "is not wanted":
            bench.updater.note_idle(bench.state(), is_held=False)
        case "its namespace goes":
            bench.updater.note_idle(bench.state(namespace=NamespaceState.TERMINATING), is_held=True)
        case "another object came and went":
            bench.make_again("another")
            bench.updater.note_idle(bench.state(), is_held=False)
            bench.remove()
    assert await bench.update()
    recreated = ["recreated: a changed field is immutable"] if expected == OVER else []
    assert bench.log == ["delete uid at 1", expected, *recreated]
    bench.remove()
    assert await bench.update()
    assert bench.log[-1] == "create"


@pytest.mark.clause("A9")
async def test_a_copy_that_may_not_be_deleted_has_nothing_kept() -> None:
    """A person who deletes it then wants it without the values that it had."""
    bench = Bench()
    bench.immutable, bench.values, bench.undeletable = True, {"replicas": "5"}, Forbidden("a policy denies it")
    with pytest.raises(Forbidden):
        await bench.update()
    bench.remove()
    assert await bench.update()
    assert bench.log == ["create"]


@pytest.mark.parametrize(
    "target",
    [
        Target("", "Namespace", "", "one"),
        Target("apiextensions.k8s.io", "CustomResourceDefinition", "", "one"),
        Target("", "PersistentVolume", "", "one"),
        Target("", "PersistentVolumeClaim", "default", "one"),
    ],
)
async def test_what_takes_others_along_is_never_made_anew_for_a_field(target: Target) -> None:
    """A2."""
    bench = Bench(target)
    bench.immutable = True
    with pytest.raises(Immutable, match=f"a {target.kind} is not deleted to be made again"):
        await bench.update()
    assert not bench.log


async def test_a_copy_stays_while_it_may_not_be_made_anew() -> None:
    """A2: and its change is no repair then; it is made anew when that is allowed."""
    bench = Bench()
    bench.immutable, bench.refusal = True, Forbidden("a policy denies it")
    for _ in range(2 * AT_ONCE):
        with pytest.raises(Forbidden, match="a policy denies it"):
            await bench.update()
    assert not bench.log
    bench.refusal = None
    assert await bench.update()
    assert bench.log == ["delete uid at 1", "create", "recreated: a changed field is immutable"]


async def test_the_copy_of_a_rebuilt_clusters_cluster_is_made_anew() -> None:
    """P11."""
    bench = Bench()
    await bench.update(reason=Reason.REBUILT)
    assert bench.log[:2] == ["delete uid at 1", "create"]


@pytest.mark.parametrize("harm", ["disturb", "remove"])
def test_repairs_get_a_pause_and_what_the_owner_changes_gets_none(harm: str) -> None:
    """A5."""

    async def scenario() -> None:
        bench = Bench()
        await bench.update()
        for _ in range(AT_ONCE):
            getattr(bench, harm)()
            assert await bench.update()
        getattr(bench, harm)()
        with pytest.raises(Contested, match="keeps") as raised:
            await bench.update()
        assert raised.value.retry_after_s == pytest.approx(PAUSE_S, abs=1.0)
        assert await bench.update(b"something newer")
        getattr(bench, harm)()
        await asyncio.sleep(PAUSE_S)
        assert await bench.update(b"something newer")

    run(scenario)


def test_a_copy_that_is_rightly_absent_is_no_repair_when_it_is_made_again() -> None:
    """A5: as one that we deleted, or whose source was not to be synced for a while."""

    async def scenario() -> None:
        bench = Bench()
        await bench.update()
        for number in range(3 * AT_ONCE):
            if number % 2:
                bench.remove()
                bench.updater.note_idle(bench.state(), is_held=False)
            else:
                await bench.updater.delete(bench.state(), Delete("uid", 1, Reason.SOURCE_DELETED, ClusterUID("owner")))
            assert await bench.update()

    run(scenario)


def test_the_deletion_of_what_somebody_makes_again_gets_a_pause() -> None:
    """A5: each time it has another uid. What was wanted meanwhile is deleted at once."""

    async def scenario() -> None:
        bench = Bench()
        await bench.update()

        async def delete(uid: str) -> None:
            bench.make_again(uid)
            await bench.updater.delete(bench.state(), Delete(uid, 1, Reason.SOURCE_DELETED, ClusterUID("owner")))

        for number in range(AT_ONCE + 1):
            await delete(str(number))
        with pytest.raises(Contested, match="somebody keeps making it again here; it is deleted once a minute"):
            await delete("last")
        assert await bench.update()
        await delete("wanted")
        with pytest.raises(Contested):
            await delete("again")
        await asyncio.sleep(PAUSE_S)
        await delete("again")

    run(scenario)


async def test_a_deletion_that_is_tried_again_is_no_repair() -> None:
    """A5: the object is the same; it waits for a finalizer, or the cache is late."""
    bench = Bench()
    for _ in range(3 * AT_ONCE):
        bench.make_again("same")
        await bench.updater.delete(bench.state(), Delete("same", 1, Reason.SOURCE_DELETED, ClusterUID("owner")))


async def test_a_copy_whose_mark_is_of_another_cluster_is_not_in_step() -> None:
    """O11: what is stored otherwise is as wanted, and a write puts the mark right."""
    bench = Bench()
    await bench.update()
    assert not await bench.update()
    made = Provenance(
        LOCAL, "", LOCAL, "", meta.SECRET, TARGET.key, "", "", 1, TARGET, cluster=ClusterUID("other")
    )  # fmt: skip
    bench.cache.records[TARGET.key].marks = Marks(LOCAL, made, sync_disabled=False, go_written=False)
    assert await bench.update()


async def test_a_status_is_brought_after_the_copy_and_only_where_it_is_asked_for() -> None:
    """W6."""
    bench = Bench()
    wanted = bench.wanted(status={"phase": "Bound"})
    assert await bench.updater.update(bench.state(), wanted, bench.cache, bench.record, reason=Reason.UPDATE)
    assert bench.log == ["write", "write status"]
    assert not await bench.updater.update(bench.state(), wanted, bench.cache, bench.record, reason=Reason.UPDATE)


async def test_what_was_made_from_the_same_is_in_step_while_nobody_changes_it() -> None:
    bench = Bench()
    await bench.update()
    bench.cache.records[TARGET.key].made_from = "this"
    assert bench.updater.is_in_step(TARGET, "this")
    assert not bench.updater.is_in_step(TARGET, "that")
    bench.disturb()
    assert not bench.updater.is_in_step(TARGET, "this")


def test_copied_rules_change_no_more_often_than_may_be() -> None:
    """S1: each change has what they read listed again."""

    async def scenario() -> None:
        bench = Bench(Target(meta.GROUP, meta.RULE.kind, "", "one"))

        async def change_without_pause() -> None:
            for number in range(2 * CHANGES_AT_ONCE):
                await bench.update(str(number).encode())
                await asyncio.sleep(OPEN_S)

        with pytest.raises(ChangesTooOften):
            await change_without_pause()
        assert len(bench.log) >= CHANGES_AT_ONCE

    run(scenario)


async def test_writes_are_counted_with_their_results() -> None:
    bench = Bench(Target("", "Namespace", "", "one"))
    await bench.update()
    bench.immutable = True
    with pytest.raises(Immutable):
        await bench.update(b"another")
    text = bench.metrics.render()[0].decode()
    for result in ("ok", "error"):
        assert f'writes_total{{kind="Namespace",result="{result}",verb="update"}} 1.0' in text


async def test_a_write_that_changes_nothing_has_repaired_nothing() -> None:
    """A5: however often somebody here changes another part of the copy."""
    bench = Bench()
    await bench.update()
    bench.changes_nothing = True
    for _ in range(3 * AT_ONCE):
        bench.disturb()
        assert not await bench.update()
    assert bench.log.count("write") == 1 + 3 * AT_ONCE


async def test_a_field_that_the_server_keeps_has_the_copy_made_anew_and_is_named() -> None:
    """A2."""
    bench = Bench()
    bench.immutable, bench.kept = True, ("spec.clusterIP",)
    assert await bench.update()
    assert bench.log == ["delete uid at 1", "create", "recreated: the API server keeps spec.clusterIP"]


async def test_a_field_that_is_still_to_be_asked_about_is_no_copy_in_step() -> None:
    bench = Bench()
    await bench.update()
    bench.record.remainder = Remainder(suspects=(("spec", "old"),))
    await bench.update()
    assert bench.log == ["write", "write"]


async def test_a_copy_that_lacks_fields_is_told_each_time_that_it_is_looked_at() -> None:
    bench = Bench()
    await bench.update()
    assert bench.lost == []
    bench.record.remainder = Remainder(lost=("spec.colour",))
    await bench.update()
    assert bench.lost == [TARGET]


def test_a_status_that_somebody_keeps_editing_is_put_back_ever_more_rarely() -> None:
    """A5, W6: and a status that is another one now is written at once."""

    async def scenario() -> None:
        bench = Bench()
        wanted = bench.wanted(status={"phase": "Bound"})

        async def update() -> bool:
            return await bench.updater.update(bench.state(), wanted, bench.cache, bench.record, reason=Reason.UPDATE)

        await update()
        for _ in range(AT_ONCE):
            bench.record.status_digest = None
            await update()
        bench.record.status_digest = None
        with pytest.raises(Contested, match="kubectl keeps changing it here"):
            await update()
        bench.status = b"another"
        assert await update()
        assert bench.log.count("write status") == AT_ONCE + 2

    run(scenario)
