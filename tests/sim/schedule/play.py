"""Play a schedule on a simulated group with the real engine in each member, and say what was broken."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import io
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from unittest import mock

from registry_controller.api import meta
from registry_controller.api.errors import Mistake
from registry_controller.api.tombstone import is_own_tombstone
from registry_controller.clusters.orphans import SEARCH_PERIOD_S
from registry_controller.core.decision import deletion_limit
from registry_controller.core.decision.decision import NeedsProof
from registry_controller.core.decision.deletion_limit import window_of
from registry_controller.core.decision.state import TargetState
from registry_controller.core.status.cluster import read_deletions
from registry_controller.report import logs
from registry_controller.report.metrics import Metrics
from registry_controller.sync import reconciler
from tests.process_logging import restored_logging
from tests.sim.checks.convergence import Wrong, check_end
from tests.sim.checks.observer import Observer
from tests.sim.checks.program import ProgramLaws
from tests.sim.checks.status import check_standing
from tests.sim.cluster.apiserver import Snapshot
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.group import SimGroup
from tests.sim.cluster.loop import BEGIN_S, run, running_loop
from tests.sim.cluster.member import Member
from tests.sim.cluster.operator import Program
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.transport import Fault
from tests.sim.schedule.faults import introduce_again
from tests.sim.schedule.member_acts import carry_rebuilt, carry_reference, carry_secret, take_forgery_back
from tests.sim.schedule.program_acts import allow_collection
from tests.sim.schedule.schedule import Schedule
from tests.sim.schedule.stage import DEEDS, Stage, Step
from tests.sim.schedule.tally import Tally
from tests.sim.schedule.vocabulary import CANARY, ELSEWHERE

QUIET_S = 65.0
BRAKED = {"DELETION_LIMIT_PERCENT": "1"}
CLOSED = {"SYNCED_RULES_NAMESPACES": "default,extra", "CLOSED_NAMESPACES": "team"}
_ALLOWED = 8  # three owners' deletions, one after the other, and what they had held back
_POLLS, _POLL_S = 30, 4.0  # a retry of the library comes within a minute
_LOGGED = 10  # one schedule in so many is played with its log read


@dataclass
class Outcome:
    """What came of a schedule."""

    schedule: Schedule
    broken: list[Wrong] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    trace: list[tuple[float, str]] = field(default_factory=list)
    virtual_s: float = 0.0


class CountingMetrics(Metrics):
    """Metrics that also count, for all daemons together, why what was decided."""

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self._tally = tally

    def decided(self, *, decision: str, reason: str) -> None:
        """Count a decision."""
        self._tally.reasons[reason] += 1


def play(schedule: Schedule) -> Outcome:
    """Play a schedule from beginning to end."""
    outcome = Outcome(schedule)
    began_s, world = _met(schedule.count) if schedule.joined else (BEGIN_S, None)

    async def main() -> None:
        metrics = functools.partial(CountingMetrics, outcome.tally)
        async with SimGroup(schedule.count, seed=schedule.seed, metrics=metrics, world=world) as group:
            _advance(began_s)
            observer = Observer(group, outcome.tally)
            try:
                await _play(schedule, group, observer, outcome)
            finally:
                outcome.broken += observer.broken
                outcome.trace = observer.trace

    state = random.getstate()
    random.seed(schedule.seed)  # the engine's jitter
    try:
        with (
            _collecting_later(),
            virtual_clocks(),
            _counting(outcome.tally),
            _reading_logs(schedule, outcome),
            _braked(schedule),
            mock.patch.object(Mistake, "of", _raise),
        ):
            run(main)
    except Exception as error:  # a bug of its own is what we look for
        outcome.broken.append(Wrong("crash", type(error).__name__, _deepest(error)))
    finally:
        random.setstate(state)
    return outcome


async def _play(schedule: Schedule, group: SimGroup, observer: Observer, outcome: Outcome) -> None:
    stage = Stage(group, observer, outcome.tally)
    if not schedule.operated:
        await _play_on(stage, schedule, outcome)
        return
    laws = ProgramLaws(schedule.operated, observer.history, outcome.tally, observer.broken)
    chance = random.Random(f"program {schedule.seed}")
    metadata_only = chance.random() < 0.5
    stage.program = Program(group, schedule.operated, laws, chance=chance, metadata_only=metadata_only)
    try:
        await _play_on(stage, schedule, outcome)
        if not observer.broken:
            outcome.broken += await _check_program(stage, laws)
    finally:
        stage.program.stop()


async def _check_program(stage: Stage, laws: ProgramLaws) -> list[Wrong]:
    """Compare what a program knows and made with what is stored, until it is the same, or for too long."""
    for _ in range(_POLLS):
        if not (wrong := list(laws.check_rest())):
            return []
        allow_collection(stage)
        await asyncio.sleep(_POLL_S)
    return wrong


async def _play_on(stage: Stage, schedule: Schedule, outcome: Outcome) -> None:
    group, observer = stage.group, stage.observer
    for member in group.members:
        for name in ("team", "extra", ELSEWHERE)[: 3 if member.name == "a" else 1]:
            member.create({"kind": "Namespace", "metadata": {"name": name}})
        member.options |= CLOSED if member.name == schedule.closed else {}
        member.has_pods = member.name == schedule.doubled
        member.options |= BRAKED if schedule.braked else {}
    group.start()
    await asyncio.sleep(5.0)
    if stage.program is not None:
        stage.program.start_again()
    for step in schedule.steps:
        await asyncio.sleep(step.pause_s)
        if observer.broken:
            return  # what comes after it is of no use
        _take(stage, step)
    await _mend(stage)
    await _rest(stage, outcome)
    outcome.virtual_s = asyncio.get_running_loop().time()
    oracle = observer.oracle()
    for wrong in (*check_end(oracle, outcome.tally), *check_standing(oracle, outcome.tally)):
        observer.say(f"BROKEN {wrong.clause}: {wrong.where}: {wrong.words}")
        outcome.broken.append(wrong)
    observer.check_journals()


def _take(stage: Stage, step: Step) -> None:
    found = DEEDS[step.deed]
    stage.observer.say(f"   {step}")
    try:
        happened = found.happen(stage, stage.group[step.who], *step.what)
    except Refusal as refused:
        stage.observer.say(f"   -> refused: {refused.message}")
        return
    if happened is not False:
        (stage.tally.faults if found.is_fault else stage.tally.deeds)[found.name] += 1


async def _mend(stage: Stage) -> None:
    """Mend everything, and let members meet again that lost each other."""
    group = stage.group
    stage.observer.say("   all is mended")
    stage.mend()
    for one in group.members:
        group.fail(one.name, Fault.NONE)
        for kind in sorted(one.server.unserved):
            one.server.change_served(kind, served=True)
        one.server.denied.clear()
        one.start_again()
    if stage.program is not None:
        stage.program.start_again()
    await asyncio.sleep(20.0)
    for one in group.members:
        _come_back(stage, one)
    await asyncio.sleep(30.0)  # 20 of them may pass until a daemon has asked its members how its Cluster was
    if stage.rebuilt:
        await _introduce_rebuilt(stage)
    _reunite(stage)
    if stage.has_unseen_copies:  # a kind that is not watched any more is searched once a period
        await asyncio.sleep(SEARCH_PERIOD_S)


def _reunite(stage: Stage) -> None:
    """Carry Clusters and credentials between all members, and take forged endpoints away."""
    group = stage.group
    group.swap_all()
    for giver in group.members:
        for taker in group.members:
            if giver is not taker and carry_rebuilt(giver, taker):
                stage.observer.say(f"   the Cluster of {giver.name}, which was built anew, is carried to {taker.name}")
            if giver is not taker and carry_secret(giver, taker):
                stage.observer.say(f"   the credentials of {giver.name} are carried to {taker.name}")
            if giver is not taker and carry_reference(giver, taker):
                stage.observer.say(f"   the Cluster of {giver.name} is carried to {taker.name}, where it is not Ready")
            if giver is not taker and take_forgery_back(taker, giver.name):
                stage.observer.say(f"   the forged endpoint of {giver.name} is taken away at {taker.name}")


def _come_back(stage: Stage, one: Member) -> None:
    """Take the own tombstone of a member away that has left: it makes a new Cluster."""
    stones = [found for found in one.list("ClusterFeature") if is_own_tombstone(found, of=one.id)]
    for stone in stones if one.find("Cluster", one.name) is None else ():
        stage.observer.say(f"   {one.name} comes back")
        one.delete("ClusterFeature", stone["metadata"]["name"])


async def _introduce_rebuilt(stage: Stage) -> None:
    """Swap each cluster that was built anew with one other; from that one the rest hear of it."""
    for name in stage.rebuilt:
        one, other = stage.group[name], next(found for found in stage.group.members if found.name != name)
        if introduce_again(one, other):
            stage.observer.say(f"   {name}, which was built anew, is swapped with {other.name}")
    await asyncio.sleep(60.0)


async def _rest(stage: Stage, outcome: Outcome) -> None:
    """Wait until nobody writes any more; that this happens is a law (S2)."""
    outcome.tally.clause("S2")
    try:
        await stage.group.settle(quiet_s=QUIET_S)
        for _ in range(_ALLOWED):
            if not allow_deletions(stage):
                return
            await stage.group.settle(quiet_s=QUIET_S)
        outcome.broken.append(Wrong("W4", "the group", f"halts deletions again after {_ALLOWED} were allowed"))
    except AssertionError as error:
        outcome.broken.append(Wrong("S2", "the group", f"does not come to rest: {error}"))


def allow_deletions(stage: Stage) -> bool:
    """Name the moments at which rules and owners halted deletions, one of each; false where none did."""
    found = False
    for member in stage.group.members:
        for cluster in member.list("Cluster"):
            window = window_of(read_deletions(cluster.get("status")))
            if window is not None and window.halted_at:
                found = True
                name = cluster["metadata"]["name"]
                stage.observer.say(f"   {member.name} allows what the copies of {name} halted at {window.halted_at}")
                annotations = {**(cluster["metadata"].get("annotations") or {}), meta.ALLOW_DELETIONS: window.halted_at}
                member.replace({**cluster, "metadata": {**cluster["metadata"], "annotations": annotations}})
        for rule in member.list("ResourceSyncRule"):
            entries = (rule.get("status") or {}).get("clusters") or ()
            moments = [moment for one in entries if (moment := (one.get("deletions") or {}).get("haltedAt"))]
            halted = member.condition("ResourceSyncRule", rule["metadata"]["name"], "DeletionHalted")
            moments.sort(key=str(halted.get("message")).count, reverse=True)  # the one that a person is asked to name
            if moments and _is_due(member, rule, moments[0]):
                found = True
                stage.observer.say(f"   {member.name} allows what {rule['metadata']['name']} halted at {moments[0]}")
                annotations = {**(rule["metadata"].get("annotations") or {}), meta.ALLOW_DELETIONS: moments[0]}
                member.replace({**rule, "metadata": {**rule["metadata"], "annotations": annotations}})
    return found


def _is_due(member: Member, rule: Manifest, moment: str) -> bool:
    """Say whether a moment has not been named, or was in vain. A rule that does nothing now keeps its halt."""
    named = (rule["metadata"].get("annotations") or {}).get(meta.ALLOW_DELETIONS)
    halted = member.condition("ResourceSyncRule", rule["metadata"]["name"], "DeletionHalted")
    return named != moment or halted.get("status") == "True"


# Where a group begins that has met before.


@functools.cache
def _met(count: int) -> tuple[float, dict[str, Snapshot]]:
    """Let members meet once, for all schedules that begin with members that know each other."""

    async def main() -> tuple[float, dict[str, Snapshot]]:
        async with SimGroup(count, seed=count) as group:
            await group.join()
            for member in group.members:
                await member.stop()
            return asyncio.get_running_loop().time(), {one.name: one.server.snapshot() for one in group.members}

    random.seed(count)
    with virtual_clocks():
        return run(main)


def _advance(to_s: float) -> None:
    loop = running_loop()
    loop.advance(to_s - loop.time())


# Looking on.


@contextlib.contextmanager
def _braked(schedule: Schedule) -> Iterator[None]:
    """Let no small number go in any case, in some schedules: no rule has as many copies here as always may (W4)."""
    always = deletion_limit.ALWAYS
    deletion_limit.ALWAYS = 1 if schedule.braked else always  # type: ignore[misc]
    try:
        yield
    finally:
        deletion_limit.ALWAYS = always  # type: ignore[misc]


def _raise(error: Exception, *, path: str) -> NoReturn:
    """Bring to light what daemons survive."""
    raise error


@contextlib.contextmanager
def _collecting_later() -> Iterator[None]:
    """Look for garbage between schedules only: whoever plays many collects it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _counting(tally: Tally) -> Iterator[None]:
    """Count decisions that are only a question, too."""
    decide = reconciler.decide

    def counted(view: TargetState) -> object:
        decision = decide(view)
        if isinstance(decision, NeedsProof) and decision.expects is not None:
            tally.reasons[decision.reason.value] += 1
        return decision

    reconciler.decide = counted  # type: ignore[assignment]
    try:
        yield
    finally:
        reconciler.decide = decide


@contextlib.contextmanager
def _reading_logs(schedule: Schedule, outcome: Outcome) -> Iterator[None]:
    """Read the whole log of some schedules: nothing secret may be in it (A6)."""
    if schedule.seed % _LOGGED:
        yield
        return
    text = io.StringIO()
    with restored_logging(), contextlib.redirect_stderr(text):
        logs.configure(format="json", verbosity=1)
        yield
    outcome.tally.clauses["A6"] += text.getvalue().count("\n")
    if CANARY in text.getvalue():
        outcome.broken.append(Wrong("A6", "the log", "shows what is in a Secret"))


def _deepest(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    trace, lines = error.__traceback__, []
    while trace is not None:
        lines.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__}: {error} at {' > '.join(lines[-4:])}"
