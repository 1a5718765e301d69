"""What a daemon writes where its dry run is refused, and what the observer holds it to. A10."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson
import pytest

from registry_controller.api.meta import Manifest
from registry_controller.kube.transport import DRY_RUN
from registry_controller.planner.plan import PlanAction
from tests.sim.checks.observer import Observer
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.dry_run import explained
from tests.sim.cluster.group import SimGroup, rule, simulate
from tests.sim.cluster.habits import Habit
from tests.sim.cluster.member import Member
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.request import Answer
from tests.sim.schedule.tally import Tally

pytestmark = pytest.mark.clause("A10")

WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}
PATH = "/apis/sim.example/v1/namespaces/default/widgets/one"
UNNEEDED = "was sent, and is what is stored"


async def _a_stamped_copy(group: SimGroup) -> tuple[Member, Observer]:
    """Make a copy to which admission added a label; its daemon is stopped."""
    here, owner = group["a"], group["b"]
    here.server.habits.add("Widget", Habit.STAMPS)
    observer = Observer(group, Tally())
    await group.join()
    owner.create({"kind": "Widget", "metadata": {"name": "one", "namespace": "default"}, "spec": {"value": "small"}})
    here.create(rule("widgets", WIDGET))
    await group.settle()
    await here.stop()
    return here, observer


def _count_writes(here: Member) -> int:
    return sum((write.verb, write.kind, write.status) == ("update", "Widget", 200) for write in here.writes)


def _is_unneeded(observer: Observer) -> bool:
    observer.check_journals()
    return ("A10", UNNEEDED) in [(wrong.clause, wrong.words) for wrong in observer.broken]


def _hear_dry_runs(server: ApiServer, hear: Callable[[int], None]) -> None:
    """Call with the status of each dry run of a Widget."""
    answer = server.answer

    def answer_and_tell(method: str, path: str, body: bytes | None, *, who: str, accept: str = "") -> Answer:
        found = answer(method, path, body, who=who, accept=accept)
        if path.startswith(PATH) and DRY_RUN in path:
            hear(found.status)
        return found

    server.answer = answer_and_tell  # type: ignore[method-assign]


@pytest.mark.parametrize("lost", [0, 1], ids=["heard", "lost"])
def test_a_policy_that_ends_after_the_dry_run_costs_one_write(lost: int) -> None:
    """Where the answer to a refused dry run is lost, the next one decides."""

    async def scenario(group: SimGroup) -> None:
        here, observer = await _a_stamped_copy(group)
        statuses = list[int]()

        def hear(status: int) -> None:
            statuses.append(status)
            if len(statuses) == 1 + lost:
                here.server.denied.clear()
            else:
                here.home.lost = 1

        _hear_dry_runs(here.server, hear)
        here.server.denied.add("Widget one")
        here.start()
        await group.settle()
        assert statuses == [403] * (1 + lost)
        assert _count_writes(here) == 1
        assert not _is_unneeded(observer)

    simulate(scenario, n=2)


def test_a_policy_that_ends_before_a_later_dry_run_costs_no_write() -> None:
    async def scenario(group: SimGroup) -> None:
        here, observer = await _a_stamped_copy(group)
        here.server.denied.add("Widget one")
        here.start()
        await asyncio.sleep(20.0)
        here.server.denied.clear()
        await here.restart()
        await group.settle()
        assert _count_writes(here) == 0
        assert not _is_unneeded(observer)

    simulate(scenario, n=2)


def test_an_explanation_by_a_user_who_may_not_ask_names_the_right_that_he_lacks() -> None:
    """The label of the copy may be the API server's: with the right, a dry run shows that."""

    async def scenario(group: SimGroup) -> None:
        here, _ = await _a_stamped_copy(group)
        found, _ = await explained(group, "Widget", "one")
        assert [(row.action, row.not_asked) for row in found.planned] == [(PlanAction.SKIP, ())]
        lacks = Refusal(403, "Forbidden", 'widgets.sim.example "one" is forbidden: User "x" cannot update resource')
        here.server.refused["Widget one"] = lacks
        found, _ = await explained(group, "Widget", "one")
        right = "update widgets.sim.example in namespace default"
        assert [(row.action, row.not_asked) for row in found.planned] == [(PlanAction.UPDATE, (right,))]

    simulate(scenario, n=2)


def _body(here: Member) -> bytes:
    found: Manifest = here.get("Widget", "one", namespace="default")
    return orjson.dumps(found)


def _ask(group: SimGroup, here: Member, method: str, path: str, body: bytes | None) -> None:
    """Ask as the daemon does, and hear the answer."""
    answer = here.server.answer(method, path, body, who=here.name)
    for hear in group.wire(here.name, here.name).listeners:
        hear(method, path, body, answer)


def _send(group: SimGroup, here: Member, body: bytes, *, is_dry: bool) -> None:
    _ask(group, here, "PUT", f"{PATH}?fieldValidation=Warn{f'&{DRY_RUN}' if is_dry else ''}", body)


def _read_hashes(group: SimGroup, here: Member) -> None:
    _ask(group, here, "GET", "/openapi/v3", None)


SENT = [
    ([], True),
    ([403], False),
    ([403, 200], True),
]


@pytest.mark.parametrize(("asked", "is_unneeded"), SENT, ids=["not asked", "refused", "refused and then answered"])
def test_the_last_dry_run_of_the_same_replacement_explains_a_write(asked: list[int], is_unneeded: bool) -> None:
    """Also at a server that refuses all dry runs by now."""

    async def scenario(group: SimGroup) -> None:
        here, observer = await _a_stamped_copy(group)
        for status in asked:
            if status != 200:
                here.server.denied.add("Widget one")
            _send(group, here, _body(here), is_dry=True)
            here.server.denied.clear()
        _send(group, here, _body(here), is_dry=False)
        here.server.habits.add("Widget", Habit.REFUSES_DRY_RUNS)
        assert _count_writes(here) == 1
        assert _is_unneeded(observer) is is_unneeded

    simulate(scenario, n=2)


@pytest.mark.parametrize(
    ("between", "is_lost", "is_unneeded"),
    [
        ("nothing", False, True),
        ("a restart", False, False),
        ("the first hashes", False, True),
        ("nothing", True, True),
        ("the first hashes", True, False),
        ("the same hashes", True, True),
        ("other hashes", True, False),
    ],
)
def test_a_daemon_that_was_told_what_is_stored_does_not_write_it_again(
    between: str, is_lost: bool, is_unneeded: bool
) -> None:
    """But for a lost field, when a schema may have changed."""

    async def scenario(group: SimGroup) -> None:
        here, observer = await _a_stamped_copy(group)
        here.server.habits.add("Widget", Habit.DENIES_DRY_RUNS)
        body = _body(here)
        if is_lost:
            here.server.habits.add("Widget", Habit.PRUNES, "spec", "tier")
            body = orjson.dumps({**orjson.loads(body), "spec": {"value": "small", "tier": "gold"}})
        if between in ("the same hashes", "other hashes"):
            _read_hashes(group, here)
        for number in range(2):
            _send(group, here, body, is_dry=True)
            _send(group, here, body, is_dry=False)
            if number:
                break
            if between == "a restart":
                here.starts += 1
            if between == "other hashes":
                here.server.habits.changes += 1
            if "hashes" in between:
                _read_hashes(group, here)
        assert _count_writes(here) == 2
        assert _is_unneeded(observer) is is_unneeded

    simulate(scenario, n=2)


@pytest.mark.parametrize("how", [Habit.REFUSES_DRY_RUNS, Habit.DENIES_DRY_RUNS])
def test_a_lost_field_costs_one_more_write_where_dry_runs_are_refused(how: Habit) -> None:
    """The schema may have changed between the write and the first look at its hashes."""

    async def scenario(group: SimGroup) -> None:
        here, owner = group["a"], group["b"]
        here.server.habits.add("Widget", Habit.PRUNES, "spec", "tier")
        here.server.habits.add("Widget", how)
        observer = Observer(group, Tally())
        await group.join()
        info = {"name": "one", "namespace": "default"}
        owner.create({"kind": "Widget", "metadata": info, "spec": {"value": "small", "tier": "gold"}})
        here.create(rule("widgets", WIDGET))
        await group.settle()
        for count in (1, 3):
            await asyncio.sleep(600.0)
            assert _count_writes(here) == count
            assert not _is_unneeded(observer)
            await here.restart()
            await group.settle()

    simulate(scenario, n=2)
