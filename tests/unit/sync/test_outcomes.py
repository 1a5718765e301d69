"""S1: what is said of a decision, and to whom."""

from __future__ import annotations

import pytest

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.core.decision.decide import decide
from registry_controller.core.decision.decision import Hold, Reason
from registry_controller.core.decision.marks import Marks, Voice
from registry_controller.core.decision.state import Claim, Content, CurrentCopy, Rival, TargetState
from registry_controller.core.rules.policy import Barrier
from registry_controller.report.reasons import message_of
from registry_controller.sync.outcomes import WriteFailure, outcomes_of
from registry_controller.sync.results import ResultClass

HERE, FIRST, SECOND = map(ClusterUID, ("here", "first", "second"))
CONFIG_MAP = GVK("", "v1", "ConfigMap")


def _claim(owner: ClusterUID, *, created: str, rule: str) -> Claim:
    key = ObjectKey("default", "one")
    return Claim(owner, owner, Voice.OWNER, CONFIG_MAP, key, f"uid-{owner}", created, 7, rule)


def _view(current: CurrentCopy | None) -> TargetState:
    return TargetState(
        target=Target("", "ConfigMap", "default", "one"),
        claims=(_claim(FIRST, created="2026-01-01", rule="a"), _claim(SECOND, created="2026-02-01", rule="b")),
        current=current,
        local=HERE,
        known=frozenset((HERE, FIRST, SECOND)),
        alive=frozenset((FIRST, SECOND)),
    )


NATIVE = CurrentCopy(Marks(None, None, False, False), "", 0)


@pytest.mark.parametrize(("current", "second"), [(NATIVE, Reason.LOCAL_OBJECT_EXISTS), (None, Reason.CONFLICT)])
def test_everyone_who_lost_a_place_hears_to_whom(current: CurrentCopy | None, second: Reason) -> None:
    """O1, O8: to what was made here, which stays, or to an older object, which may go."""
    view = _view(current)
    said = outcomes_of(decide(view), view, name_of=str)
    assert [one.outcome.owner for one in said] == [FIRST, SECOND]
    assert (said[1].outcome.result, said[1].outcome.reason) == (ResultClass.CONFLICTING, second.value)
    assert ("made here" in said[1].message) == (second is Reason.LOCAL_OBJECT_EXISTS)
    assert (f"cluster {FIRST}" in said[1].message) == (second is Reason.CONFLICT)


def test_an_object_that_lost_its_place_to_another_one_of_its_own_cluster_hears_to_which() -> None:
    """O8, S1: two sources of one owner under one rule; also once the copy of the first is there."""
    first, second = (_claim(FIRST, created=f"2026-0{month}-01", rule="a") for month in (1, 2))
    second = second._replace(key=ObjectKey("team", "one"))
    there = CurrentCopy(Marks(FIRST, None, False, False), "uid", 1)
    for claims in ((first, second), (second, first)):
        for current, copied_from in ((None, None), (there, first.source)):
            view = _view(current)._replace(claims=claims, copied_from=copied_from)
            won, lost = outcomes_of(decide(view), view, name_of=str)
            assert (won.outcome.owner, won.outcome.result) == (FIRST, ResultClass.SYNCED)
            assert (lost.outcome.result, lost.source) == (ResultClass.CONFLICTING, second.source)
            assert lost.message.startswith(f"ConfigMap default/one, of cluster {FIRST}, has this place")


def test_whoever_wants_a_place_of_a_kind_that_is_not_heard_here_hears_that_it_waits() -> None:
    """R2, S1: an object may be there or not; who may not write it, or makes no new copy, does not wait for that."""
    first, second, third, fourth = (_claim(FIRST, created="2026-01-01", rule=name) for name in "abcd")
    claims = (first, second._replace(barrier=Barrier.CLOSED), third._replace(sync_disabled=True), fourth)
    view = _view(None)._replace(claims=claims, local_synced=False)
    said = outcomes_of(decide(view), view, name_of=str)
    assert [(one.outcome.rule, one.outcome.result) for one in said] == [
        ("a", ResultClass.WAITING), ("d", ResultClass.WAITING), ("b", ResultClass.SKIPPED)
    ]  # fmt: skip
    assert {one.outcome.reason for one in said[:2]} == {Reason.LOCAL_NOT_HEARD.value}
    assert all(one.message for one in said)


def _contested(current: CurrentCopy | None) -> TargetState:
    """See one source, which four rules want at one place; the last one may not write there."""
    rivals = (Rival("b", None), Rival("c", None), Rival("d", Barrier.CLOSED))
    claim = _claim(FIRST, created="2026-01-01", rule="a")._replace(rivals=rivals)
    return _view(current)._replace(claims=(claim,))


def test_rules_that_want_one_source_at_one_place_fare_as_the_oldest_does() -> None:
    """W2: but who wants it otherwise has lost, and who may not write is told that."""
    view = _contested(None)
    said = outcomes_of(decide(view), view, name_of=str, losers=("c",))
    assert [(one.outcome.rule, one.outcome.result) for one in said] == [
        ("a", ResultClass.SYNCED), ("b", ResultClass.SYNCED), ("c", ResultClass.CONFLICTING), ("d", ResultClass.SKIPPED)
    ]  # fmt: skip
    assert said[2].message == "rule a, which is older, wants it otherwise"


def test_a_native_object_is_in_the_way_of_every_rule() -> None:
    """O1, S1."""
    view = _contested(NATIVE)
    said = outcomes_of(decide(view), view, name_of=str)
    assert {one.outcome.rule for one in said if one.outcome.reason == Reason.LOCAL_OBJECT_EXISTS.value} == {*"abc"}


def test_no_rule_is_in_step_while_the_older_one_that_has_its_place_fails() -> None:
    """W2, S1: what it wants is not there."""
    view = _contested(None)
    said = outcomes_of(decide(view), view, name_of=str, failure=WriteFailure("Invalid", "is wrong"))
    assert [(one.outcome.rule, one.outcome.result, one.message) for one in said[:3]] == [
        ("a", ResultClass.FAILING, "is wrong"),
        ("b", ResultClass.CONFLICTING, "rule a, which is older, has this place, and cannot be carried out"),
        ("c", ResultClass.CONFLICTING, "rule a, which is older, has this place, and cannot be carried out"),
    ]


def test_a_container_that_stays_names_what_lives_in_it() -> None:
    """O1, S3: or what has to be granted, so that somebody can look."""
    view = _view(CurrentCopy(Marks(FIRST, None, False, False), "uid", 1)).with_content(Content("ConfigMap team/one"))
    (said, *_) = outcomes_of(Hold(Reason.CONTENT_REMAINS, FIRST), view, name_of=str)
    assert said.message == f"{message_of(Reason.CONTENT_REMAINS)}: ConfigMap team/one"


def test_a_copy_that_lacks_fields_is_not_in_step_and_they_are_named() -> None:
    """A10, S1: also for the younger rules that make the same copy."""
    claim = _claim(FIRST, created="2026-01-01", rule="a")._replace(rivals=(Rival("b", None),))
    view = _view(None)._replace(claims=(claim,))
    lost = tuple(f"spec.field{number}" for number in range(7))
    said = outcomes_of(decide(view), view, name_of=str, lost=lost)
    assert [(one.outcome.rule, one.outcome.result, one.outcome.reason) for one in said] == [
        ("a", ResultClass.FAILING, "FieldsLost"),
        ("b", ResultClass.FAILING, "FieldsLost"),
    ]
    assert "does not store spec.field0, spec.field1" in said[0].message
    assert "and 2 more" in said[0].message
