"""Laws of what made a copy: a rule, its owner and UID, and the kind that it reads. W3."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.meta import ClusterUID, GroupKind
from registry_controller.core.decision.rule_state import Maker, RuleFacts, RulePresence, evaluate_rule, is_unchosen
from registry_controller.core.decision.state import RuleState

MAKERS = st.builds(
    Maker,
    st.sampled_from(("", "a", "b")).map(ClusterUID),
    st.sampled_from(("", "uid-1", "uid-2")),
    st.sampled_from((GroupKind("", "ConfigMap"), GroupKind("", "Secret"), GroupKind("example.com", "Secret"))),
)
FACTS = st.builds(
    RuleFacts,
    is_here=st.booleans(),
    is_foreign=st.booleans(),
    presence=st.sampled_from(RulePresence),
    was_deleted=st.booleans(),
    acts=st.booleans(),
    is_unclear=st.booleans(),
    reads_kind=st.booleans(),
    selects_us=st.none() | st.booleans(),
    selects_owner=st.none() | st.booleans(),
)
UNWANTED = {RuleState.OTHER_KIND, RuleState.NOT_HERE, RuleState.UNSELECTED}


@given(MAKERS, MAKERS)
def test_what_made_a_copy_is_told_apart_by_owner_uid_and_kind(one: Maker, other: Maker) -> None:
    """And an earlier version's provenance, which lacks a part, differs from none in it."""
    assert one.is_same(one)
    assert one.is_same(other) is other.is_same(one)
    assert one.is_same(other) is (one.is_same_rule(other) and one.reads == other.reads)
    for part in ("owner", "uid"):
        mine, its = getattr(one, part), getattr(other, part)
        if mine and its and mine != its:
            assert not one.is_same_rule(other)
    assert one._replace(uid="", owner=ClusterUID("")).is_same_rule(other)


@given(FACTS)
def test_a_rule_that_does_not_act_or_is_unknown_gives_no_copy_up(facts: RuleFacts) -> None:
    state = evaluate_rule(facts)
    if not facts.is_here or not facts.acts or facts.selects_us is None:
        assert state not in UNWANTED
        assert state is not RuleState.READS


@given(FACTS)
def test_a_namesake_of_another_cluster_decides_only_once_the_rule_was_deleted(facts: RuleFacts) -> None:
    namesake = facts._replace(is_here=True, is_foreign=True)
    state = evaluate_rule(namesake)
    if facts.presence is RulePresence.MISSING and facts.was_deleted:
        assert state is evaluate_rule(namesake._replace(is_foreign=False))
    else:
        assert state is (RuleState.MISSING if facts.presence is RulePresence.MISSING else RuleState.SILENT)


@given(FACTS)
def test_a_rule_reads_from_an_owner_only_the_kind_that_it_names(facts: RuleFacts) -> None:
    state = evaluate_rule(facts)
    if state in (RuleState.READS, RuleState.UNSELECTED):
        assert facts.reads_kind
    if facts.is_here and not facts.is_foreign and facts.acts and facts.selects_us and not facts.reads_kind:
        assert state is RuleState.OTHER_KIND


@given(FACTS)
def test_a_rule_is_unchosen_only_while_a_fact_about_it_is_unknown(facts: RuleFacts) -> None:
    """W2: and each known answer ends that."""
    if not is_unchosen(facts) or facts.is_unclear:
        return
    assert evaluate_rule(facts) in (RuleState.SILENT, RuleState.MISSING)
    for selects_us, selects_owner in ((True, True), (True, False), (False, None)):
        assert not is_unchosen(facts._replace(selects_us=selects_us, selects_owner=selects_owner))


@given(FACTS)
def test_what_a_rule_that_is_here_asks_for_is_not_taken_from_it_while_that_is_unclear(facts: RuleFacts) -> None:
    """A11: it is not obeyed, and no other rule changes its copies."""
    unclear = facts._replace(is_here=True, acts=False, is_unclear=True)
    assert is_unchosen(unclear)
    assert not is_unchosen(unclear._replace(is_unclear=False))
