"""Laws of rules that are missing at their owner, and of the memberships that were here, over all facts. W3, O6."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone
from registry_controller.core.decision.deleted_rule import (
    RuleTraces,
    SeenDeletion,
    StoredAs,
    deletes_copies,
    evaluate_traces,
    is_to_record,
)
from registry_controller.core.decision.met_memberships import MetMemberships, note_memberships
from registry_controller.core.decision.rule_state import RulePresence

WINDOW_S = 30.0
UIDS = st.sampled_from(("u", "v"))
TRACES = st.builds(
    RuleTraces,
    uid=st.sampled_from(("", "u", "v")),
    is_local=st.booleans(),
    is_heard=st.booleans(),
    stored=st.sampled_from(StoredAs),
    seen=st.lists(st.builds(SeenDeletion, UIDS, st.integers(1, 9), st.floats(0.0, 60.0)), max_size=3),
    recorded=st.frozensets(UIDS),
    is_allowed=st.booleans(),
    defined_since=st.none() | st.integers(1, 9),
    was_in_definition=st.booleans(),
)
MEMBER = ClusterUID("b")
PRESENT = st.frozensets(st.sampled_from(("", "1", "2", "3", None)))
STONES = st.frozensets(
    st.builds(Tombstone, st.just(MEMBER), st.sampled_from("123"), st.just(MEMBER), st.just(date.min))
)


@pytest.mark.clause("W3")
@given(TRACES)
def test_only_a_rule_that_is_missing_at_an_owner_that_answers_was_deleted(traces: RuleTraces) -> None:
    presence, was_deleted = evaluate_traces(traces, window_s=WINDOW_S)
    if not traces.is_heard:
        assert presence is RulePresence.UNKNOWN
    assert presence is RulePresence.MISSING or not was_deleted
    assert presence is not RulePresence.THERE or traces.stored is StoredAs.ITSELF


@pytest.mark.clause("W3")
@given(TRACES)
def test_without_anything_that_shows_it_no_rule_was_deleted(traces: RuleTraces) -> None:
    nothing = traces._replace(seen=(), recorded=frozenset(), is_allowed=False, defined_since=None)
    for stored in (StoredAs.NONE, StoredAs.ANOTHER, StoredAs.NOT_COPIED):
        assert not evaluate_traces(nothing._replace(stored=stored), window_s=WINDOW_S)[1]
    if traces.uid:  # the deletion of another rule of its name shows nothing
        others = traces._replace(
            stored=StoredAs.NONE if traces.stored is StoredAs.ITSELF else traces.stored,
            seen=[one._replace(uid="w") for one in traces.seen],
            recorded=frozenset("w" for _ in traces.recorded),
            is_allowed=False,
            defined_since=None,
        )
        assert not evaluate_traces(others, window_s=WINDOW_S)[1]


@pytest.mark.clause("W3")
@given(TRACES)
def test_a_deletion_counts_after_the_window_whichever_rule_has_the_name(traces: RuleTraces) -> None:
    if traces.stored is not StoredAs.ITSELF and any(one.known_s < WINDOW_S for one in traces.seen):
        assert evaluate_traces(traces, window_s=WINDOW_S)[0] is RulePresence.UNKNOWN


@pytest.mark.clause("W3")
@given(TRACES)
def test_a_rule_that_is_not_copied_from_its_owner_shows_nothing(traces: RuleTraces) -> None:
    found = [
        (evaluate_traces(one, window_s=WINDOW_S), is_to_record(one))
        for one in (traces._replace(stored=stored) for stored in StoredAs if stored is not StoredAs.ITSELF)
    ]
    assert len(set(found)) == 1


@pytest.mark.clause("W3")
@given(TRACES)
def test_only_what_this_cluster_saw_or_holds_is_recorded(traces: RuleTraces) -> None:
    if is_to_record(traces):
        since = traces.defined_since
        assert since is not None
        is_seen = any(one.uid == traces.uid and one.revision > since for one in traces.seen)
        assert is_seen or (traces.is_local and traces.is_heard and traces.was_in_definition)


@pytest.mark.clause("W3")
@given(st.sampled_from(("Delete", "Orphan")), st.frozensets(st.sampled_from(("", "Delete", "Orphan"))))
def test_a_copy_goes_with_its_rule_only_where_no_known_policy_keeps_it(policy: str, last: frozenset[str]) -> None:
    assert deletes_copies(policy, last=last) == ("Orphan" not in {policy, *last})


@pytest.mark.clause("O6")
@given(st.lists(st.tuples(PRESENT, STONES), max_size=8))
def test_memberships_that_were_here_are_remembered(
    history: list[tuple[frozenset[str | None], frozenset[Tombstone]]],
) -> None:
    found, seen = MetMemberships(), set[str]()
    for present, stones in history:
        before, found = found, note_memberships(found, {MEMBER: present}, stones)
        now = {uid for uid in present if uid}
        seen |= now
        met, former = found.met.get(MEMBER, frozenset()), found.former.get(MEMBER, frozenset())
        assert former >= before.former.get(MEMBER, frozenset()), "for ever"
        assert former <= seen
        assert met == (now or before.met.get(MEMBER, frozenset())) - {stone.membership for stone in stones}
        assert found.last.get(MEMBER, frozenset()) == (now or before.last.get(MEMBER, frozenset()))
