"""W4: when a set of deletions is judged, halted, asked about and let go; time is virtual."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import ALLOW_DELETIONS, GVK, ClusterUID, ObjectKey, Target
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Decision, Delete, Halt, Hold, NeedsProof, Reason, Skip
from registry_controller.core.decision.deletion_limit import Window, spell, stored_form
from registry_controller.core.decision.state import OwnerAnswer, ProofResult, SourceRef
from registry_controller.sync.deletion_limiter import DeletionLimiter
from registry_controller.sync.workqueue import WorkQueue
from tests.sim.cluster.loop import BEGIN_S, run

RULE, OWNER = "many", ClusterUID("owner")
ORIGIN = (RULE, OWNER)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
JUDGED = Hold(Reason.DELETION_JUDGED, OWNER)


class Bench:
    """A limiter, its queue, the copies that are here, and the rule, whose status somebody may store.

    `has_others` says that of each source another copy is here, too.
    """

    def __init__(self, copies: int, *, percent: int = 50) -> None:
        self.here = {name(number) for number in range(copies)}
        self.has_others = True
        self.source_kind = GVK("", "v1", "ConfigMap")
        self.changes = Counter[str]()
        self.manifest: dict[str, Any] = {"metadata": {}}
        counts = SimpleNamespace(
            count=self.__getitem__, by_owner=self, has=self.here.__contains__, has_other=lambda _: self.has_others
        )
        counts.source_kind = lambda _: self.source_kind
        counts.find = lambda _: (None, None)
        stored: Any = SimpleNamespace(manifest=self.manifest)
        self.registry = Registry(on_change=lambda *_: None, local=ClusterUID("here"))
        self.registry.rules = {RULE: stored}
        self.registry.acting = {RULE: stored}
        self.queue = WorkQueue()
        self.limiter = self.restarted(counts, percent)

    def restarted(self, copies: Any, percent: int) -> DeletionLimiter:
        return DeletionLimiter(
            percent=lambda: percent,
            queue=self.queue,
            copies=copies,
            registry=self.registry,
            changed=self._changed,
            owner_changed=lambda: None,
            now=self._now,
        )

    def __getitem__(self, origin: tuple[str, str] | str) -> int:
        return len(self.here) if origin in (ORIGIN, OWNER) else 0

    def _changed(self, rule: str) -> None:
        self.changes[rule] += 1

    def _now(self) -> datetime:
        return BEGIN + timedelta(seconds=asyncio.get_running_loop().time() - BEGIN_S)

    def limit(self, decision_of: Callable[[Target], Decision], count: int, *, begin: int = 0) -> list[Decision]:
        return [
            self.limiter.limit(name(number), decision_of(name(number)), rule=RULE)
            for number in range(begin, begin + count)
        ]

    def store(self) -> None:
        """Store what the limiter wants in the rule's status."""
        form = self.limiter.stored_form(ORIGIN)
        self.manifest["status"] = {"clusters": [{"clusterID": OWNER, "deletions": form}]}

    def allow(self, moment: str) -> None:
        self.manifest["metadata"]["annotations"] = {ALLOW_DELETIONS: moment}
        self.limiter.rule_changed(RULE)

    @property
    def halted_at(self) -> str:
        return self.limiter.halted(RULE)[OWNER][0].since if self.limiter.halted(RULE) else ""

    async def drain(self) -> set[Target]:
        """Take every key from the queue."""
        taken = set()
        while len(self.queue):
            target, _ = await self.queue.get()
            self.queue.done(target)
            taken.add(target)
        return taken


def count_halted(decisions: list[Decision], *, by: GVK = meta.RULE) -> int:
    """Count the deletions that a rule has halted, or a Cluster."""
    return sum(
        isinstance(one, Hold)
        and one.reason is Reason.DELETION_HALTED
        and one.halt is not None
        and one.halt.kind == by
        and bool(one.halt.since)
        for one in decisions
    )


def name(number: int) -> Target:
    return Target("", "ConfigMap", "default", f"m-{number:03}")


def delete(target: Target) -> Delete:
    return Delete(target.name, 1, Reason.SOURCE_DELETED, OWNER)


def question(target: Target, *, is_presumed: bool) -> NeedsProof:
    source = SourceRef(OWNER, GVK("", "v1", "ConfigMap"), ObjectKey("default", target.name))
    expects = OwnerAnswer(source, ProofResult.NOT_FOUND)
    return NeedsProof(Reason.NEEDS_PROOF, OWNER, expects, delete(target), is_presumed)


def presumed(target: Target) -> NeedsProof:
    return question(target, is_presumed=True)


def doubtful(target: Target) -> NeedsProof:
    return question(target, is_presumed=False)


def may_match_again(target: Target) -> Hold:
    return Hold(Reason.MAY_MATCH_AGAIN, OWNER)


def stays(target: Target) -> Skip:
    return Skip(Reason.NO_LONGER_MATCHES, OWNER)


@pytest.mark.parametrize("decision_of", [delete, presumed, doubtful])
def test_a_small_set_waits_for_its_judgment_and_goes(decision_of: Callable[[Target], Decision]) -> None:
    """W4: whatever is known of its sources, and before anybody is asked."""

    async def scenario() -> None:
        bench = Bench(120)
        assert bench.limit(decision_of, 40) == [JUDGED] * 40
        await asyncio.sleep(0.1)
        assert await bench.drain() == {name(number) for number in range(40)}
        assert bench.limit(decision_of, 40) == [decision_of(name(number)) for number in range(40)]

    run(scenario)


def test_a_set_is_not_judged_before_all_that_was_enqueued_with_it_was_looked_at() -> None:
    async def scenario() -> None:
        bench = Bench(120)
        for number in range(61):
            bench.queue.add(name(number))
        for _ in range(60):
            target, _since = await bench.queue.get()
            assert bench.limiter.limit(target, presumed(target), rule=RULE) == JUDGED
            bench.queue.done(target)
        await asyncio.sleep(60.0)
        assert not bench.halted_at
        assert await bench.drain() == {name(60)}
        assert bench.limit(presumed, 1, begin=60) == [JUDGED]
        await asyncio.sleep(0.1)
        assert bench.halted_at

    run(scenario)


def test_a_set_that_is_too_large_is_halted_and_lets_nobody_ask() -> None:
    """W4: and what joins it is halted at once."""

    async def scenario() -> None:
        bench = Bench(120)
        bench.limit(presumed, 61)
        await asyncio.sleep(0.1)
        assert bench.limiter.halted(RULE) == {OWNER: (Halt(meta.RULE, RULE, spell(BEGIN)), 61)}
        assert await bench.drain() == {name(number) for number in range(61)}
        assert count_halted(bench.limit(presumed, 62)) == 62
        assert count_halted(bench.limit(doubtful, 1, begin=70)) == 1
        await asyncio.sleep(3600.0)
        assert await bench.drain() == set()
        assert bench.limiter.halted(RULE) == {OWNER: (Halt(meta.RULE, RULE, spell(BEGIN)), 63)}

    run(scenario)


def test_a_halt_ends_when_it_is_allowed_or_when_fewer_are_to_go() -> None:
    async def scenario(*, is_allowed: bool) -> None:
        bench = Bench(120)
        bench.limit(presumed, 61)
        await asyncio.sleep(0.1)
        await bench.drain()
        if is_allowed:
            bench.allow(bench.halted_at)
        else:
            assert bench.limit(stays, 1) == [stays(name(0))]
            bench.store()
        await asyncio.sleep(0.5)
        bench.store()
        await asyncio.sleep(0.5)
        assert not bench.halted_at
        assert len(await bench.drain()) == 61 - (not is_allowed)

    for is_allowed in (False, True):
        run(lambda is_allowed=is_allowed: scenario(is_allowed=is_allowed))  # type: ignore[misc]


@pytest.mark.parametrize("is_anew", [False, True])
def test_the_halt_of_a_rule_ends_with_the_rule(is_anew: bool) -> None:
    """W4: while the rule is missing and acts it stands; once it acts no more, nobody could lift it."""

    def delete_by_rule(target: Target) -> Delete:
        return Delete(target.name, 1, Reason.RULE_GONE, OWNER)

    async def scenario() -> None:
        count = 3 if is_anew else 120
        bench = Bench(count)
        bench.limiter.limit(name(0), delete_by_rule(name(0)), rule=RULE)  # an order, the first one
        bench.limiter.rule_changed(RULE)
        bench.limit(lambda target: replace(delete(target), is_anew=is_anew), count)
        await asyncio.sleep(0.1)
        assert len(await bench.drain()) == count
        bench.registry.rules.clear()
        bench.limiter.rule_changed(RULE)
        await asyncio.sleep(20.0)
        assert bench.halted_at == spell(BEGIN)
        assert await bench.drain() == set()
        bench.registry.acting.clear()
        for expected in (JUDGED, JUDGED, None):
            decided = bench.limit(delete_by_rule, count)
            assert decided == [expected or delete_by_rule(name(number)) for number in range(count)]
            await asyncio.sleep(0.1)
            assert len(await bench.drain()) == (count if expected else 0)

    run(scenario)


def test_a_halt_that_ended_with_its_rule_lets_nothing_go_once_the_rule_is_back() -> None:
    """W4, W3: the rule was missing without a trace, so that its copies stayed."""

    def stays_without_rule(target: Target) -> Hold:
        return Hold(Reason.RULE_MISSING, OWNER)

    async def scenario() -> None:
        bench = Bench(120)
        bench.limit(presumed, 61)
        await asyncio.sleep(0.1)
        await bench.drain()
        rules = dict(bench.registry.rules)
        bench.registry.rules.clear()
        bench.registry.acting.clear()
        assert bench.limit(stays_without_rule, 61) == [stays_without_rule(name(0))] * 61
        await asyncio.sleep(60.0)
        assert len(await bench.drain()) == 61
        assert bench.limit(stays_without_rule, 61) == [stays_without_rule(name(0))] * 61
        bench.registry.rules |= rules
        bench.registry.acting |= rules
        bench.limiter.rule_changed(RULE)
        assert bench.limit(presumed, 61) == [JUDGED] * 61
        await asyncio.sleep(0.1)
        await bench.drain()
        assert count_halted(bench.limit(presumed, 61)) == 61

    run(scenario)


def test_the_limit_of_a_rule_holds_while_the_rule_is_missing_for_a_moment() -> None:
    """W4: also where nothing of it was counted yet, and a halt was stored."""

    async def scenario(*, is_stored: bool) -> None:
        bench = Bench(120)
        if is_stored:
            window = Window(spell(BEGIN), 120, halted_at=spell(BEGIN), is_anew=True)
            bench.manifest["status"] = {"clusters": [{"clusterID": OWNER, "deletions": stored_form(window)}]}
        bench.registry.rules.clear()
        count = 1 if is_stored else 61
        bench.limit(presumed, count)
        await asyncio.sleep(0.1)
        await bench.drain()
        assert count_halted(bench.limit(presumed, count)) == count
        assert bench.halted_at == spell(BEGIN)

    for is_stored in (False, True):
        run(lambda is_stored=is_stored: scenario(is_stored=is_stored))  # type: ignore[misc]


def test_a_second_halt_is_reported_as_the_first() -> None:
    """W4: the first one ended because no copy was to go any more."""

    async def scenario() -> None:
        bench = Bench(120)
        for _ in range(2):
            bench.limit(delete, 100)
            await asyncio.sleep(0.1)
            assert bench.halted_at
            assert await bench.drain() == {name(number) for number in range(100)}
            assert count_halted(bench.limit(delete, 100)) == 100
            bench.limit(stays, 100)
            assert not bench.halted_at

    run(scenario)


def test_beyond_a_handful_nothing_goes_before_the_window_is_stored() -> None:
    """W4: for half a minute; a CRD may not know the field."""

    async def scenario(*, is_stored: bool) -> None:
        bench = Bench(200)
        bench.limit(presumed, 60)
        await asyncio.sleep(20.0)
        assert await bench.drain() == set()
        window = {"windowStart": spell(BEGIN), "baseline": 200, "deleted": 60, "percent": 50}
        assert bench.limiter.stored_form(ORIGIN) == window
        if is_stored:
            bench.store()
            await asyncio.sleep(0.3)
            assert len(await bench.drain()) == 60
        else:
            await asyncio.sleep(9.0)
            assert await bench.drain() == set()
            await asyncio.sleep(2.0)
            assert len(await bench.drain()) == 60

    for is_stored in (False, True):
        run(lambda is_stored=is_stored: scenario(is_stored=is_stored))  # type: ignore[misc]


def test_what_may_stay_is_asked_about_before_the_set_is_halted() -> None:
    """W4: it may be no deletion at all."""

    async def scenario() -> None:
        bench = Bench(120)
        assert bench.limit(doubtful, 60) == [JUDGED] * 60
        assert bench.limit(presumed, 5, begin=60) == [JUDGED] * 5
        await asyncio.sleep(0.1)
        assert not bench.halted_at
        assert await bench.drain() == {name(number) for number in range(60)}
        assert bench.limit(doubtful, 60) == [doubtful(name(number)) for number in range(60)]
        assert bench.limit(presumed, 5, begin=60) == [JUDGED] * 5
        assert bench.limit(stays, 58) == [stays(name(number)) for number in range(58)]
        assert bench.limit(delete, 2, begin=58) == [JUDGED] * 2
        await asyncio.sleep(0.1)
        assert not bench.halted_at
        assert await bench.drain() == {name(number) for number in range(58, 65)}

    run(scenario)


@pytest.mark.parametrize("answered", [0, 61])
def test_a_set_is_halted_once_its_questions_are_over(answered: int) -> None:
    """W4: by proof, or because nobody answers."""

    async def scenario() -> None:
        bench = Bench(120)
        bench.limit(doubtful, 61)
        await asyncio.sleep(0.1)
        assert len(await bench.drain()) == 61
        assert not bench.halted_at
        bench.limit(doubtful, 61)
        assert bench.limit(delete, answered) == [JUDGED] * answered
        await asyncio.sleep(0.1)
        assert bench.halted_at
        assert count_halted(bench.limit(doubtful, 61)) == 61

    run(scenario)


def test_what_was_let_go_and_stays_gives_its_place_back() -> None:
    """W4: of what may go within the window."""

    async def scenario() -> None:
        bench = Bench(100)
        bench.limit(presumed, 50)
        await asyncio.sleep(0.1)
        await bench.drain()
        for number in range(50):
            bench.limiter.withdraw(name(number))
        bench.limit(presumed, 50, begin=50)
        await asyncio.sleep(0.1)
        assert not bench.halted_at
        assert len(await bench.drain()) == 50

    run(scenario)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_what_is_not_due_counts_when_it_goes_and_stays_allowed(is_allowed: bool) -> None:
    """W4, W3: a deletion that waits for the stabilization window."""

    async def scenario() -> None:
        bench = Bench(300)
        count = 200 if is_allowed else 40
        bench.limit(presumed, count)
        await asyncio.sleep(0.1)
        await bench.drain()
        if is_allowed:
            bench.allow(bench.halted_at)
            await asyncio.sleep(0.1)
            await bench.drain()
        assert bench.limit(presumed, count) == [presumed(name(number)) for number in range(count)]
        for number in range(count):
            bench.limiter.defer(name(number))
        assert len(bench.limiter.counted) == (count if is_allowed else 0)
        assert bench.limit(may_match_again, count) == [may_match_again(name(number)) for number in range(count)]
        found = bench.limit(presumed, count)
        assert found == ([presumed(name(number)) for number in range(count)] if is_allowed else [JUDGED] * count)
        await asyncio.sleep(0.1)
        assert not bench.halted_at

    run(scenario)


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("kept", [0, 100])
def test_what_was_allowed_and_stays_allows_nothing_later(kept: int, is_stored: bool) -> None:
    """W4: whether or not the allowance was stored before it was known."""

    async def scenario() -> None:
        bench = Bench(300)
        bench.limit(presumed, 200)
        await asyncio.sleep(0.1)
        await bench.drain()
        bench.allow(bench.halted_at)
        await asyncio.sleep(0.1)
        assert len(await bench.drain()) == 200
        if is_stored:
            bench.store()
        assert bench.limiter.stored_form(ORIGIN)["allowed"] == 200  # type: ignore[index]
        for number in range(200):
            if number >= kept:
                bench.here.discard(name(number))
            bench.limiter.withdraw(name(number))
        assert bench.limiter.stored_form(ORIGIN)["allowed"] == 200 - kept  # type: ignore[index]
        may_go = max(50, (300 - (200 - kept)) // 2)
        bench.limit(presumed, may_go, begin=200)
        await asyncio.sleep(40.0)
        assert len(await bench.drain()) == may_go
        bench.limit(presumed, 1, begin=0 if kept else 299)
        await asyncio.sleep(0.1)
        assert bench.halted_at

    run(scenario)


def test_questions_change_no_status() -> None:
    """A1: copies that an owner still has are asked about at every restart, and once an hour."""

    async def scenario() -> None:
        bench = Bench(200)
        bench.limit(doubtful, 40)
        await asyncio.sleep(0.1)
        assert len(await bench.drain()) == 40
        bench.limit(stays, 40)
        bench.limit(doubtful, 80)
        await asyncio.sleep(0.1)
        assert len(await bench.drain()) == 80
        bench.limit(stays, 79)
        await asyncio.sleep(0.1)
        await bench.drain()
        assert (bench.limiter.stored_form(ORIGIN), bench.changes) == (None, Counter())
        assert bench.limit(delete, 1, begin=79) == [delete(name(79))]
        assert bench.changes[RULE]
        assert bench.limiter.stored_form(ORIGIN) is not None

    run(scenario)


def test_a_halt_that_was_stored_holds_after_a_restart_and_asks_nobody() -> None:
    """W4."""

    async def scenario() -> None:
        bench = Bench(120)
        bench.limit(presumed, 61)
        await asyncio.sleep(0.1)
        since = bench.halted_at
        bench.store()
        await bench.drain()
        copies: Any = SimpleNamespace(
            count=bench.__getitem__, by_owner=bench, has=bench.here.__contains__, source_kind=lambda _: None
        )
        bench.limiter = bench.restarted(copies, 50)
        assert count_halted(bench.limit(doubtful, 61)) == 61
        await asyncio.sleep(600.0)
        assert await bench.drain() == set()
        assert bench.halted_at == since

    run(scenario)


def test_a_stored_halt_ends_where_nothing_waits() -> None:
    async def scenario() -> None:
        bench = Bench(120)
        form = {"windowStart": spell(BEGIN), "baseline": 120, "deleted": 61, "haltedAt": spell(BEGIN)}
        bench.manifest["status"] = {"clusters": [{"clusterID": OWNER, "deletions": form}]}
        bench.limiter.nothing_waits(ORIGIN)
        assert "haltedAt" not in (bench.limiter.stored_form(ORIGIN) or {})
        assert bench.changes[RULE]

    run(scenario)


def test_a_hold_ends_no_deletion_and_what_is_gone_is_counted_no_more() -> None:
    """O5: an owner that is silent for a moment has not withdrawn anything."""

    async def scenario() -> None:
        bench = Bench(120)
        bench.limit(presumed, 30)
        silent = Hold(Reason.OWNER_SILENT, OWNER)
        assert bench.limit(lambda _: silent, 30) == [silent] * 30
        await asyncio.sleep(0.1)
        await bench.drain()
        assert bench.limit(lambda _: silent, 30) == [silent] * 30
        assert bench.limit(delete, 30) == [delete(name(number)) for number in range(30)]
        bench.here.discard(name(0))
        assert bench.limit(lambda _: silent, 1) == [silent]
        assert bench.limit(delete, 2) == [JUDGED, delete(name(1))]

    run(scenario)


def test_the_deletion_of_a_rule_and_a_farewell_are_orders_and_zero_percent_limits_nothing() -> None:
    """W4, W3, O6."""

    async def scenario() -> None:
        for ordered in (
            Delete("uid", 1, Reason.RULE_GONE, OWNER),
            Delete("uid", 1, Reason.OWNER_LEFT, OWNER, is_order=True),
        ):
            assert Bench(120).limit(lambda _, ordered=ordered: ordered, 120) == [ordered] * 120
        left = Delete("uid", 1, Reason.OWNER_LEFT, OWNER)
        assert left not in Bench(120).limit(lambda _: left, 120)
        assert Bench(120, percent=0).limit(presumed, 120) == [presumed(name(number)) for number in range(120)]

    run(scenario)
