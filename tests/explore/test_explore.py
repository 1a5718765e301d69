"""The exhaustive search of small groups: what it finds, and that its foldings lose nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.programs.planted import PLANTED, Bug, plant
from tests.explore.draft import Draft
from tests.explore.in_sim import ids, play
from tests.explore.laws import AGREE, COPIES, DWELL, WITHDRAWN, check_step
from tests.explore.network import Network
from tests.explore.search import COMPLETE, Search, replay
from tests.explore.steps import ACTS, Step
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.group import SimGroup, simulate
from tests.sim.cluster.member import NAMESPACE, Member
from tests.sim.schedule.leaving import knows, shared

OWN_PLANTED = Path(__file__).parent / "planted"
_AT_MOST_S = 240.0


def test_every_order_of_two_acts_keeps_the_laws() -> None:
    """O4, O6, P2, P7, W3: all acts, at any moment of any order of deliveries and of time."""
    found = Search(acts=2).run(at_most_s=_AT_MOST_S)
    assert (found.broken, found.ended_by) == (None, COMPLETE), found


@pytest.mark.nightly
def test_who_left_and_swapped_is_over_as_what_it_was_before() -> None:
    """O6: who has an earlier Cluster of a member by a relay, and hears only then that it left, removes that one."""
    found = Search(acts=4, kinds=("leave", "swap")).run(at_most_s=_AT_MOST_S)
    assert (found.broken, found.ended_by) == (None, COMPLETE), found


@pytest.mark.parametrize("kinds", [ACTS, ACTS - {"rule", "unrule"}])
def test_a_newcomer_that_swaps_with_one_member_joins_all(kinds: frozenset[str]) -> None:
    """O4, P2: one act beside the swap, at any moment of it; the third member hears of the newcomer by the other one."""
    search = Search(acts=2, kinds=kinds, has_newcomer=True)
    found = search.run(at_most_s=_AT_MOST_S)
    assert (found.broken, found.ended_by) == (None, COMPLETE), found
    known = {tuple(cluster.store.clusters.count(None) for cluster in rest[:3]) for rest in search.list_rests()}
    assert (0, 0, 0) in known
    assert {(1, 1, 2), (1, 2, 1), (2, 1, 1)} & known


def test_folded_states_stand_for_all() -> None:
    """Without the names of members folded, there are up to six times as many states, and as many laws kept."""
    kinds = ACTS - {"rule", "unrule"}  # the rule makes its home another member than the others
    folded = Search(acts=1, kinds=kinds).run(at_most_s=_AT_MOST_S)
    full = Search(acts=1, kinds=kinds, is_folded=False).run(at_most_s=_AT_MOST_S)
    assert folded.broken is full.broken is None
    assert folded.ended_by == full.ended_by == COMPLETE
    assert folded.states < full.states <= 6 * folded.states
    assert folded.depth == full.depth


@pytest.mark.parametrize(
    ("acts", "kinds"), [(1, ",".join(sorted(ACTS))), (2, "unrule,cut"), (2, "rotate,crash"), (2, "leave,cut")]
)
def test_one_order_of_deliveries_that_commute_stands_for_all(acts: int, kinds: str) -> None:
    """With all orders there are more steps, and the same states at rest."""
    searches = [
        Search(acts=acts, kinds=kinds.split(","), is_folded=False, is_reduced=is_reduced)
        for is_reduced in (True, False)
    ]
    one, every = (search.run(at_most_s=_AT_MOST_S) for search in searches)
    assert one.broken is every.broken is None
    assert one.ended_by == every.ended_by == COMPLETE
    assert one.states <= every.states
    assert one.steps < every.steps
    assert searches[0].list_rests() == searches[1].list_rests()


@pytest.mark.parametrize(
    ("acts", "kinds"),
    [
        (1, ",".join(sorted(ACTS))),
        (2, "rename,unrule"),
        (2, "replace,unrule"),
        (2, "rotate,crash,restart"),
        (2, "leave,swap"),
        (2, "delete,leave"),
        (2, "cut,declare,heal"),
    ],
)
def test_what_a_reader_does_not_read_is_no_event_for_it(acts: int, kinds: str) -> None:
    """Where readers hear of every change, in all orders, there are more states, and the same ones at rest."""
    searches = [
        Search(acts=acts, kinds=kinds.split(","), is_folded=False, is_narrow=is_less, is_reduced=is_less)
        for is_less in (True, False)
    ]
    less, every = (search.run(at_most_s=_AT_MOST_S) for search in searches)
    assert less.broken is every.broken is None
    assert less.ended_by == every.ended_by == COMPLETE
    assert less.states < every.states
    assert searches[0].list_rests() == searches[1].list_rests()


@pytest.mark.parametrize(
    ("acts", "kinds"),
    [(1, ",".join(sorted(ACTS))), (2, "leave,swap,declare"), (2, "replace,unrule,rule"), (2, "rename,rotate")],
)
def test_a_step_that_is_taken_again_leads_where_it_led(acts: int, kinds: str) -> None:
    """What a search remembers of a step in another state is what the step does in this one."""
    search = Search(acts=acts, kinds=kinds.split(","))
    search.run(at_most_s=_AT_MOST_S)
    net, remembered = search.net, 0
    for state in search.states():
        for step, reached in net.after(state):
            if isinstance(reached, Draft):
                continue
            remembered += 1
            worked_out = net.take(state, step)
            assert check_step(step, net.draft(state), worked_out) is None
            assert worked_out.state() == reached
    assert remembered > 100


@pytest.mark.parametrize(("bound", "word"), [({"at_most_states": 100}, "100 states"), ({"at_most_mib": 1}, "1 MiB")])
def test_a_search_that_ends_early_says_why(bound: dict[str, int], word: str) -> None:
    found = Search(acts=2).run(at_most_s=_AT_MOST_S, **bound)
    assert found.ended_by == f"memory, {word}"
    assert f"every schedule of at most {found.depth} steps was searched" in str(found)


def test_a_trace_is_played_again() -> None:
    """Who leaves is removed by all that hear it; nothing of that is broken."""
    steps = [Step("leave", 0, 0), *(Step("deliver", who, 0) for who in (1, 1, 2, 2))]
    assert replay(steps) is None


def test_who_reads_on_with_refused_credentials_breaks_a_law() -> None:
    """P3: once time has passed, no open way has a token that its member refused before."""
    net = Network()
    before, after = net.draft(net.begin(1)), net.draft(net.begin(1))
    assert check_step(Step("window"), before, after) is None
    for draft in (before, after):
        draft.clusters[0] = draft.clusters[0]._replace(notes=draft.clusters[0].notes._replace(accepted=2))
    breach = check_step(Step("window"), before, after)
    assert breach is not None
    assert (breach.law, breach.who, breach.other) == (WITHDRAWN, 1, 0)


def test_copies_of_a_member_that_cannot_be_read_any_more_stay_with_a_deleted_rule() -> None:
    """P3, W3: c's credentials went while its daemon was down, so that people swap; its copy at a waits for that."""
    steps = [
        Step("unrule", 0, 0),
        *(Step("deliver", 1, 0) for _ in range(2)),
        Step("crash", 2, 2),
        Step("rotate", 2, 2),
        Step("window"),
        Step("deliver", 0, 1),
        Step("deliver", 1, 0),
        Step("repair"),
        *(Step("deliver", 2, source) for source in (0, 1)),
        *(Step("window") for _ in range(2)),
    ]
    assert replay(steps) is None


def test_the_simulation_plays_a_trace() -> None:
    """O6: a cannot reach b and says that b has left, then b leaves itself: whoever hears both removes b."""
    trace = [
        Step("cut", 0, 1),
        Step("window"),
        *(Step("deliver", who, 0) for who in (1, 2)),
        Step("declare", 0, 1),
        *(Step("deliver", who, 0) for who in (1, 2)),
        Step("leave", 1, 1),
        *(Step("deliver", 2, 1) for _ in range(2)),
    ]

    async def scenario(group: SimGroup) -> None:
        await shared(group)
        await play(trace, group)
        await group.settle()
        assert knows(group["c"], "b") == (False, False)

    with virtual_clocks():
        simulate(scenario, n=3, uids=ids("bca"))


def test_the_simulation_plays_acts_on_credentials_and_rules() -> None:
    """P3, P7, W3: a's Cluster names another Secret, its credentials change, and its rule goes while b hears nothing."""
    trace = [
        Step("rename", 0, 0),
        *(Step("deliver", who, 0) for who in (1, 1, 2, 2)),
        Step("rotate", 0, 0),
        *(Step("deliver", who, 0) for who in (1, 2)),
        Step("cut", 1, 0),
        Step("unrule", 0, 0),
        Step("window"),
        Step("repair"),
    ]
    assert replay(trace) is None

    def copies(member: Member) -> set[str]:
        return {found["metadata"]["name"] for found in member.list("ConfigMap")} - {f"of-{member.name}"}

    async def scenario(group: SimGroup) -> None:
        await group.join()
        await play(trace[:1], group)
        await group.settle()
        assert group["b"].find("Secret", "a-new", namespace=NAMESPACE) is not None
        assert group["b"].find("Secret", "a", namespace=NAMESPACE) is None
        await play(trace[1:-1], group)
        assert copies(group["b"]) == {"of-a", "of-c"}
        await play(trace[-1:], group)
        await group.settle()
        assert [copies(member) for member in group.members] == [set(), set(), set()]

    with virtual_clocks():
        simulate(scenario, n=3)


@pytest.mark.parametrize(
    ("patch", "acts", "kinds", "law"),
    [
        (PLANTED / "believe_absence.patch", 1, "delete", COPIES),
        (PLANTED / "believe_a_relays_clusters.patch", 3, "cut,rename", WITHDRAWN),
        (OWN_PLANTED / "obey_deletions_at_once.patch", 1, "unrule", DWELL),
        (OWN_PLANTED / "record_nothing.patch", 2, "cut,unrule", AGREE),
        (OWN_PLANTED / "drop_the_way.patch", 1, "rename", AGREE),
    ],
)
def test_planted_bugs_are_found(patch: Path, acts: int, kinds: str, law: str, tmp_path: Path) -> None:
    """With the bug, a few acts are enough. Without it, the same search is clean: it is a part of one of all kinds."""
    plant(Bug(patch.stem, "", patch), at=tmp_path)
    command = [sys.executable, "-m", "hack.programs.explore", "--acts", str(acts), "--kinds", kinds]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=_AT_MOST_S
    )
    assert (ran.returncode, ran.stderr) == (1, "")
    assert f"broken: {law}" in ran.stdout
    assert "  1. " in ran.stdout
