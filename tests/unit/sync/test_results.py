"""S1: what became of all targets, in sums that cost nothing to read."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.meta import ClusterUID, Target
from registry_controller.sync.results import (
    MOST_PLACES,
    SAMPLES,
    FailedTarget,
    ReportedResult,
    ResultClass,
    Results,
    TargetResult,
)

OWNER, OTHER = ClusterUID("owner"), ClusterUID("other")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def target(number: int) -> Target:
    return Target("", "ConfigMap", "default", f"m-{number:02}")


def report(
    result: ResultClass, *, rule: str = "rule", owner: ClusterUID = OWNER, reason: str = "Reason", message: str = ""
) -> ReportedResult:
    return ReportedResult(TargetResult(rule, owner, result, reason), message)


class Bench:
    def __init__(self) -> None:
        self.changed: list[str] = []
        self.results = Results(on_change=self.changed.append)


def test_a_result_replaces_the_one_before_and_says_whether_it_is_another() -> None:
    bench = Bench()
    held, synced = report(ResultClass.HELD), report(ResultClass.SYNCED)
    assert bench.results.record(target(1), [held])
    assert not bench.results.record(target(1), [held])
    assert bench.results.record(target(1), [synced])
    assert +bench.results.counts(("rule", OWNER)) == {ResultClass.SYNCED: 1}
    assert bench.results.record(target(1), [])
    assert not bench.results.counts(("rule", OWNER))
    assert not list(bench.results.all_places())
    assert bench.changed == ["rule"] * 4


def test_a_target_counts_once_for_each_rule_and_owner_that_wants_it() -> None:
    bench = Bench()
    bench.results.record(
        target(1), [report(ResultClass.SYNCED), report(ResultClass.CONFLICTING, owner=OTHER, message="taken")]
    )
    assert set(bench.results.places("rule")) == {OWNER, OTHER}
    assert not list(bench.results.places("another"))
    assert bench.results.counts(("rule", OTHER))[ResultClass.CONFLICTING] == 1


def test_a_status_names_a_few_failing_objects_and_forgets_what_is_mended() -> None:
    bench = Bench()
    for number in range(SAMPLES + 3):
        bench.results.record(target(number), [report(ResultClass.FAILING, message="no")])
    named = bench.results.failures(("rule", OWNER))
    assert named == tuple(FailedTarget(str(target(number)), "Reason", "no") for number in range(SAMPLES))
    bench.results.record(target(0), [report(ResultClass.FAILING, message="another message")])
    assert bench.results.failures(("rule", OWNER))[0].message == "another message"
    bench.results.record(target(0), [report(ResultClass.SYNCED)])
    assert len(bench.results.failures(("rule", OWNER))) == SAMPLES - 1


def test_what_is_skipped_on_purpose_is_named_only_with_a_message() -> None:
    bench = Bench()
    bench.results.record(target(1), [report(ResultClass.SKIPPED)])
    bench.results.record(
        target(2), [report(ResultClass.SKIPPED, message="frozen by a label that may be meant otherwise")]
    )
    assert [failed.target for failed in bench.results.failures(("rule", OWNER))] == [str(target(2))]


def test_what_is_held_is_counted_by_its_result() -> None:
    bench = Bench()
    for number, result in enumerate((ResultClass.HELD, ResultClass.HELD, ResultClass.SYNCED)):
        bench.results.record(target(number), [report(result)])
    assert dict(bench.results.held()) == {report(ResultClass.HELD).outcome: 2}


def test_moments_are_remembered_for_the_latest_places() -> None:
    bench = Bench()
    for number in range(MOST_PLACES + 1):
        bench.results.record_write((str(number), OWNER), NOW)
    bench.results.record_history_restored(("rule", OWNER), NOW)
    assert len(bench.results.wrote_at) == MOST_PLACES
    assert ("0", OWNER) not in bench.results.wrote_at
    assert bench.results.went_back_at == {("rule", OWNER): NOW}
    assert bench.changed[-1] == "rule"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.lists(
                st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([OWNER, OTHER]), st.sampled_from(ResultClass)),
                max_size=3, unique_by=lambda one: one[:2],
            ),
        ),
        max_size=30,
    )
)  # fmt: skip
def test_the_counts_are_the_sums_of_the_results(
    steps: list[tuple[int, list[tuple[str, ClusterUID, ResultClass]]]],
) -> None:
    bench, last = Bench(), dict[int, list[tuple[str, ClusterUID, ResultClass]]]()
    for number, found in steps:
        bench.results.record(target(number), [report(result, rule=rule, owner=owner) for rule, owner, result in found])
        last[number] = found
    every = [one for found in last.values() for one in found]
    for rule in ("a", "b"):
        for owner in (OWNER, OTHER):
            counts = bench.results.counts((rule, owner))
            for result in ResultClass:
                assert counts[result] == every.count((rule, owner, result))
    assert set(bench.results.all_places()) == {(rule, owner) for rule, owner, _ in every}
