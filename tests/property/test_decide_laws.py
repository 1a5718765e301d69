"""The laws of decide, over all views that Hypothesis can think of.

O1 O2 O3 O4 O5 O7 O8 O9 A3 S1 W5
"""

from __future__ import annotations

import copy
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance
from registry_controller.core.decision.decide import decide, depends_on_origin
from registry_controller.core.decision.decision import Apply, Delete, Hold, NeedsProof, Reason, Skip, deletion_in
from registry_controller.core.decision.marks import Binding, Marks, Voice
from registry_controller.core.decision.membership import relayed_claims
from registry_controller.core.decision.state import (
    Claim,
    Content,
    CurrentCopy,
    LostMatch,
    MembershipState,
    Move,
    NamespaceState,
    Origin,
    OwnerAnswer,
    ProofResult,
    RuleState,
    SourceRef,
    TargetState,
    Tracking,
)
from registry_controller.core.rules.policy import Barrier
from tests.target_states import with_facts

LOCAL = ClusterUID("local")
IDS = [ClusterUID(text) for text in ("a", "b", "c", "local", "stranger")]
KIND = GVK("", "v1", "ConfigMap")
KEY, ELSEWHERE = ObjectKey("ns", "x"), ObjectKey("elsewhere", "x")
TARGET = Target("", "ConfigMap", "ns", "x")
LOST = LostMatch(30.0, "2026-01-01T00:00:30Z")
SOURCE_A = SourceRef(ClusterUID("a"), KIND, KEY)

ids = st.sampled_from(IDS)
peers = st.sampled_from(IDS[:3])
revisions = st.integers(0, 5)
created = st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])


@st.composite
def provenances(draw: st.DrawFn, owner: ClusterUID) -> Provenance:
    return Provenance(
        owner,
        "rule",
        ClusterUID("a"),
        "Orphan",
        KIND,
        KEY,
        "uid",
        draw(created),
        draw(revisions),
        TARGET,
        draw(st.booleans()),
        cluster=draw(st.sampled_from((ClusterUID(""), LOCAL, LOCAL, ClusterUID("b")))),
    )


@st.composite
def marks(draw: st.DrawFn) -> Marks:
    owner = draw(st.none() | ids)
    provenance = draw(st.none() | provenances(owner)) if owner is not None else None
    binding = Binding.NAMED
    if provenance is None:
        binding = draw(st.sampled_from((binding, Binding.PASSED_ON if owner is None else Binding.UNPROVEN)))
    return Marks(owner, provenance, draw(st.booleans()), draw(st.booleans()), binding)


@st.composite
def claims(draw: st.DrawFn, membership: bool) -> Claim:
    peer, key = draw(peers), KEY if membership else draw(st.sampled_from([KEY, ELSEWHERE]))
    voices = list(Voice) if membership else [Voice.OWNER, Voice.OURS, Voice.SILENT]
    voice = draw(st.sampled_from(voices))
    owner = draw(ids.filter(lambda uid: uid not in (peer, LOCAL))) if voice is Voice.INTERMEDIARY else peer
    return Claim(
        peer, owner, voice, KIND, key, "uid", draw(created), draw(revisions), "rule", draw(st.booleans()),
        draw(st.booleans()), draw(st.none() | st.sampled_from(Barrier)), draw(revisions),
        made_by_daemon=draw(st.booleans()),
    )  # fmt: skip


def origins(membership: bool) -> st.SearchStrategy[Origin]:
    return st.builds(
        Origin,
        barrier=st.none() if membership else st.none() | st.sampled_from(Barrier),
        tracking=st.sampled_from(Tracking),
        offered_at=revisions,
        others_synced=st.booleans(),
        rule_state=st.sampled_from(RuleState),
        deletes_unwanted=st.booleans(),
        move=st.sampled_from(Move),
        saw_match=st.booleans(),
        is_rule_pending=st.booleans(),
        lost_match=st.none() | st.just(LOST),
    )


@st.composite
def views(draw: st.DrawFn) -> TargetState:
    membership = draw(st.booleans())
    offered = draw(st.lists(claims(membership), max_size=4, unique_by=lambda claim: (claim.peer, claim.key)))
    current = draw(
        st.none()
        | st.builds(
            CurrentCopy, marks(), st.just("uid"), revisions, st.booleans(), st.booleans(),
            (st.none() | ids) if membership else st.none(), owner_had_it=st.booleans(),
        )
    )  # fmt: skip
    source = None
    if current is not None and current.marks.owner is not None:
        source = SourceRef(current.natural or current.marks.owner, KIND, KEY)
    inquiry = None
    if draw(st.booleans()):
        asked = source or SourceRef(ClusterUID("a"), KIND, KEY)
        inquiry = OwnerAnswer(asked, draw(st.sampled_from(ProofResult)), draw(revisions))
    return TargetState(
        target=TARGET,
        claims=tuple(offered),
        current=current,
        local=LOCAL,
        known=frozenset(draw(st.sets(peers))) | {LOCAL},
        alive=frozenset(draw(st.sets(peers))),
        contested=frozenset(draw(st.sets(peers))),
        local_synced=draw(st.booleans()),
        namespace=draw(st.sampled_from(NamespaceState)),
        create_namespace=draw(st.booleans()),
        copied_from=source,
        origin=draw(origins(membership)),
        membership=draw(st.builds(MembershipState, revisions, st.frozensets(peers))) if membership else None,
        proofs=(inquiry,) if inquiry is not None else (),
    )


@given(views())
def test_nothing_of_a_member_of_whose_id_there_are_clones_is_written_or_deleted(view: TargetState) -> None:
    """P1: whoever offers it, and whatever is said of its leaving."""
    decision = decide(view)
    if isinstance(decision, Apply):
        assert decision.claim.owner not in view.contested
    if isinstance(decision, Apply | Delete) and view.current is not None and view.current.marks.is_copy:
        assert (view.current.natural or view.current.marks.owner) not in view.contested


@given(views())
def test_the_same_view_gives_the_same_decision_and_is_never_changed(view: TargetState) -> None:
    """S1."""
    before = copy.deepcopy(view)
    assert decide(view) == decide(view)
    assert view == before


@given(views(), st.randoms(use_true_random=False))
def test_the_order_in_which_claims_were_heard_never_matters(view: TargetState, random: object) -> None:
    """O8: whoever came first."""
    shuffled = list(view.claims)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = view._replace(claims=tuple(shuffled))
    assert decide(other) == decide(view)


@given(views())
def test_nobody_else_brings_a_second_cluster_of_a_member(view: TargetState) -> None:
    """O4: under whatever name it has one here, its Cluster is not missing."""
    decision = decide(view._replace(target=Target(meta.GROUP, meta.CLUSTER.kind, "", "x"), current=None))
    if view.membership and isinstance(decision, Apply) and decision.claim.voice is Voice.INTERMEDIARY:
        assert decision.claim.owner not in view.known


@given(views())
def test_what_a_copy_showed_is_known_whoever_has_it_now(view: TargetState) -> None:
    """O3: an older state of the same source is taken only when its owner says that it is what it has."""
    decision = decide(view)
    if view.membership or not isinstance(decision, Apply) or decision.claim.revision >= decision.claim.shown:
        return
    (proof,) = view.proofs
    assert (proof.source, proof.answer) == (decision.claim.source, ProofResult.FOUND)
    assert proof.revision == decision.claim.revision


@given(views())
def test_a_native_object_is_never_touched(view: TargetState) -> None:
    """O1, O2: of membership, only its natural owner adopts what was carried by hand (O7)."""
    if view.current is None or (view.current.marks.is_copy and view.current.marks.owner != LOCAL):
        return
    decision = decide(view)
    assert not isinstance(decision, Delete) or view.membership
    if isinstance(decision, Apply):
        assert view.membership
        assert decision.claim.voice is Voice.OWNER
        assert decision.claim.peer == decision.claim.owner


@given(views())
def test_what_no_mark_binds_is_touched_only_where_its_owner_is_seen_to_have_it(view: TargetState) -> None:
    """O11: it is native as long as its owner does not offer it, and is not seen to have, or have had, its source."""
    current = view.current
    if current is None or current.marks.owner is None or current.marks.is_bound_in(LOCAL) or view.membership:
        return
    owner, is_unproven = current.marks.owner, current.marks.binding is Binding.UNPROVEN
    is_offered = any(claim.owner == owner and claim.voice is Voice.OWNER for claim in view.claims)
    was_found = view.origin.tracking is Tracking.OFFERED or any(one.answer is ProofResult.FOUND for one in view.proofs)
    decision = decide(view)
    if isinstance(decision, Apply) and not is_offered:
        assert is_unproven or current.owner_had_it
        assert current.owner_had_it or was_found
    if isinstance(decision, Delete):
        assert current.owner_had_it or (is_unproven and was_found)


@given(views(), peers, st.sampled_from(ProofResult))
def test_a_mark_whose_owner_was_seen_to_have_the_object_binds_as_one_that_names_it(
    view: TargetState, owner: ClusterUID, answer: ProofResult
) -> None:
    """O11: or was seen to have had; so the copy goes with its source, also where it was never taken over."""
    source = SourceRef(owner, KIND, KEY)
    view = view._replace(
        known=frozenset(IDS[:4]), alive=frozenset(IDS[:3]), contested=frozenset(), local_synced=True, membership=None,
        copied_from=source, origin=view.origin._replace(barrier=None), proofs=(OwnerAnswer(source, answer),),
    )  # fmt: skip
    seen, named = (
        view._replace(current=CurrentCopy(Marks(owner, None, False, True, binding), "uid", 1, owner_had_it=had_it))
        for binding, had_it in ((Binding.UNPROVEN, True), (Binding.NAMED, False))
    )
    assert decide(seen) == decide(named)
    is_gone = view.origin.tracking is Tracking.ABSENT and answer is ProofResult.NOT_FOUND
    if is_gone and not view.claims and view.origin.rule_state is RuleState.READS:
        assert isinstance(decide(seen), Delete)


@given(views())
def test_the_marks_of_membership_need_not_bind(view: TargetState) -> None:
    """O7, O11: whom a Cluster or a registry Secret belongs to, its marks do not decide."""
    if view.membership is None or view.current is None or view.current.marks.owner is None:
        return
    marks = view.current.marks
    held = msgspec.structs.replace(marks.provenance, cluster=LOCAL) if marks.provenance is not None else None
    bound = view.current._replace(marks=replace(marks, provenance=held, binding=Binding.NAMED))
    one, other = decide(view), decide(view._replace(current=bound))
    assert type(one) is type(other)
    if isinstance(one, Apply) and isinstance(other, Apply):
        assert one.claim == other.claim


@given(claims(membership=False), claims(membership=False))
def test_of_equally_old_objects_the_one_that_no_daemon_wrote_wins(one: Claim, other: Claim) -> None:
    """O8."""
    written = one._replace(created=other.created, made_by_daemon=True)
    assert other._replace(made_by_daemon=False).rank < written.rank


@given(views())
def test_nothing_is_deleted_without_proof(view: TargetState) -> None:
    """O5: the owner is alive, does not offer it in a complete list, and said so when asked by name."""
    decision = decide(view)
    if not isinstance(decision, Delete) or decision.reason in _UNWANTED:
        return
    assert view.current is not None
    assert view.current.marks.is_copy
    assert not view.current.may_hold_content
    assert decision.owner in view.alive
    assert view.origin.tracking is Tracking.ABSENT
    (proof,) = view.proofs
    assert proof.answer is ProofResult.NOT_FOUND
    assert proof.source == view.copied_from
    assert (decision.uid, decision.revision) == (view.current.uid, view.current.revision)


_UNWANTED = {
    Reason.RULE_GONE: RuleState.GONE,
    Reason.NOT_SELECTED: RuleState.UNSELECTED,
    Reason.NOT_FOR_THIS_CLUSTER: RuleState.NOT_HERE,
    Reason.OTHER_KIND: RuleState.OTHER_KIND,
    Reason.NO_LONGER_MATCHES: RuleState.READS,
    Reason.MOVED: RuleState.READS,
}


@given(views())
def test_what_is_unwanted_goes_by_the_word_of_its_rule_and_its_live_owner(view: TargetState) -> None:
    """W3, O3: and a source says that it is not wanted as it is now, not as it was before the copy was made."""
    decision = decide(view)
    if not isinstance(decision, Delete) or decision.reason not in _UNWANTED:
        return
    assert view.current is not None
    assert decision.owner in view.alive
    assert view.origin.rule_state is _UNWANTED[decision.reason]
    assert view.origin.deletes_unwanted or decision.reason is Reason.MOVED
    assert decision.reason is not Reason.MOVED or view.origin.move is Move.DONE
    if view.origin.rule_state is RuleState.READS and view.origin.tracking is Tracking.OFFERED:
        provenance = view.current.marks.provenance
        answer = next((held for held in view.proofs if held.answer is ProofResult.FOUND), None)
        is_now = (
            provenance is None or provenance.owner != decision.owner or view.origin.offered_at >= provenance.revision
        )
        assert is_now or (answer is not None and answer.revision == view.origin.offered_at)


@given(views())
def test_what_one_rule_does_not_want_stays_while_another_may_want_it(view: TargetState) -> None:
    """W3: only a source that is gone, or an owner that has left, ends the claims of all rules."""
    view = view._replace(origin=view.origin._replace(others_synced=False))
    decision, known = decide(view), decide(view._replace(origin=view.origin._replace(others_synced=True)))
    if view.membership is None and (deletion := deletion_in(decision)) is not None:
        assert deletion.reason in (Reason.SOURCE_DELETED, Reason.OWNER_LEFT)
    if decision != known and not isinstance(decision, NeedsProof):
        assert isinstance(decision, Hold)
        assert decision.reason in (Reason.OWNER_NOT_HEARD, Reason.OWNER_SILENT)


@given(views())
def test_a_copy_that_moves_stays_until_its_new_copy_is_here(view: TargetState) -> None:
    """W3: whatever the policy says; it goes with its source, with its rule, or with its owner."""
    view = view._replace(origin=view.origin._replace(move=Move.WAITS))
    decision = decide(view)
    if isinstance(decision, Delete) and view.membership is None:
        lasting = (Reason.SOURCE_DELETED, Reason.RULE_GONE, Reason.NOT_SELECTED, Reason.NOT_FOR_THIS_CLUSTER)
        assert decision.reason in (*lasting, Reason.OWNER_LEFT)
    if isinstance(decision, Apply) and decision.reason is Reason.TAKE_OVER and view.current is not None:
        made_here = view._replace(origin=view.origin._replace(move=Move.DONE))
        assert decide(made_here) == decision


@given(views())
def test_a_copy_stays_while_its_source_may_match_again(view: TargetState) -> None:
    """W3: and no other source takes its place; it goes with its source, as it would without the window."""
    view = view._replace(origin=view.origin._replace(lost_match=LOST))
    at_once = decide(view._replace(origin=view.origin._replace(lost_match=None)))
    decision = decide(view)
    assert deletion_in(decision) is None or deletion_in(decision) == deletion_in(at_once)
    if isinstance(decision, Hold) and decision.reason is Reason.MAY_MATCH_AGAIN:
        assert view.may_lose_match or view.is_unchosen
        assert not isinstance(at_once, Hold | NeedsProof) or not view.origin.others_synced
    elif not isinstance(decision, NeedsProof):
        assert decision == at_once
    if isinstance(decision, Delete):
        assert decision.reason not in (Reason.NO_LONGER_MATCHES, Reason.NOT_SELECTED, Reason.NOT_FOR_THIS_CLUSTER)


@given(views())
def test_what_an_intermediary_holds_is_never_a_source_membership_apart(view: TargetState) -> None:
    """O3, O4: and through an intermediary nothing is created while its owner is alive."""
    decision = decide(view)
    if isinstance(decision, Apply) and decision.claim.peer != decision.claim.owner:
        assert view.membership
        assert decision.claim.voice is Voice.INTERMEDIARY
        assert decision.claim.owner not in view.alive
        if view.current is not None and view.current.marks.provenance is not None:
            assert decision.claim.revision > view.current.marks.provenance.revision


@given(views())
def test_what_is_tried_of_a_members_credentials_is_others_word_on_that_member(view: TargetState) -> None:
    """O4, O7: and none where a person carried them here, or froze them; the newest come first."""
    tried = relayed_claims(view)
    for claim in tried:
        assert view.current is not None
        assert view.current.marks.is_copy
        assert not view.current.marks.frozen
        assert (claim.voice, claim.owner) == (Voice.INTERMEDIARY, view.current.natural)
        assert not claim.deleting
        assert not claim.has_left
    assert [claim.revision for claim in tried] == sorted((claim.revision for claim in tried), reverse=True)


@given(st.lists(claims(membership=True), min_size=1, max_size=4), ids, st.frozensets(peers))
def test_a_cluster_that_was_carried_here_is_replaced_by_no_other(
    offered: list[Claim], natural: ClusterUID, alive: frozenset[ClusterUID]
) -> None:
    """O7, P11: whatever was proven; only its own cluster makes a copy of it."""
    carried = CurrentCopy(Marks(None, None, sync_disabled=False, go_written=False), "uid", 1, natural=natural)
    found = tuple(claim._replace(barrier=None, deleting=False) for claim in offered)
    heirs, known = frozenset(claim.owner for claim in found), frozenset({LOCAL, natural})
    decision = decide(
        TargetState(TARGET, found, carried, LOCAL, known, alive, membership=MembershipState(successors=heirs))
    )
    if isinstance(decision, Apply):
        assert (decision.reason, decision.claim.voice) == (Reason.ADOPT, Voice.OWNER)


@given(views(), st.data())
def test_where_a_claim_stands_for_a_copy_its_origin_decides_nothing(view: TargetState, data: st.DataObject) -> None:
    """A1: so that it need not be read. W2 has the exception, which is read where another rule claims the source."""
    if not depends_on_origin(view):
        other = data.draw(origins(membership=False))._replace(is_rule_pending=False)
        view = view._replace(origin=view.origin._replace(is_rule_pending=False))
        assert decide(view._replace(origin=other)) == decide(view._replace(origin=Origin()))


@given(views())
def test_no_other_rule_takes_a_copy_that_its_own_rule_may_want(view: TargetState) -> None:
    """W2: the copy stays as it is until that is known."""
    if view.membership is None and not depends_on_origin(view) and view.current is not None:
        decision = decide(view._replace(origin=Origin(is_rule_pending=True)))
        is_copy = view.current.marks.is_copy and view.current.marks.owner != LOCAL
        assert not is_copy or not isinstance(decision, Apply | Delete)


@given(views())
def test_our_own_objects_are_never_imported_back(view: TargetState) -> None:
    """O2."""
    decision = decide(view)
    if isinstance(decision, Apply):
        assert decision.claim.voice not in (Voice.OURS, Voice.SILENT, Voice.DISPUTED)
        assert decision.claim.owner != LOCAL


@given(views())
def test_no_copy_goes_back_to_an_older_state_of_its_owner(view: TargetState) -> None:
    """O3: unless a quorum read found that very state to be the present one."""
    decision = decide(view)
    if not isinstance(decision, Apply) or view.current is None or view.current.marks.provenance is None:
        return
    provenance = view.current.marks.provenance
    if decision.claim.owner == view.current.marks.owner and decision.claim.revision < provenance.revision:
        is_same = decision.claim.is_of(view.copied_from) or decision.claim.revision < decision.claim.shown
        assert (decision.reason is Reason.HISTORY_RESTORED) is is_same
        (proof,) = view.proofs
        assert proof.answer is ProofResult.FOUND
        assert proof.revision == decision.claim.revision


@given(views())
def test_a_silent_owners_copy_is_kept(view: TargetState) -> None:
    """O5, O8: silence ends no claim, and moves nothing but to an older source."""
    current = view.current
    if current is None or current.marks.owner is None or view.membership:
        return
    owner = current.marks.owner
    offers = any(c.owner == owner and c.voice is Voice.OWNER and not c.deleting for c in view.claims)
    if owner in view.alive or owner == LOCAL or owner not in view.known or offers:
        return
    decision = decide(view)
    assert not isinstance(decision, Delete)
    if isinstance(decision, Apply):
        assert current.marks.provenance is not None
        assert decision.claim.rank < (current.marks.provenance.created or "~", False, owner)


@given(views())
def test_a_copy_frozen_by_hand_is_left_alone(view: TargetState) -> None:
    """W5, O7."""
    if view.current is not None and view.current.marks.is_copy and view.current.marks.frozen:
        assert isinstance(decide(view), Hold | Skip)


@given(views())
def test_a_source_that_is_not_to_be_synced_makes_no_new_copies(view: TargetState) -> None:
    """W5."""
    decision = decide(view)
    if view.current is None and isinstance(decision, Apply):
        assert not decision.claim.sync_disabled


@given(views())
def test_nothing_is_created_in_a_namespace_that_cannot_take_it(view: TargetState) -> None:
    """A3."""
    decision = decide(view)
    if view.current is None and isinstance(decision, Apply):
        assert view.namespace is not NamespaceState.TERMINATING
        assert view.namespace is NamespaceState.ACTIVE or view.create_namespace


@given(views())
def test_nothing_is_decided_before_we_heard_what_is_here(view: TargetState) -> None:
    """O1."""
    if not view.local_synced:
        assert decide(view) == Hold(Reason.LOCAL_NOT_HEARD)


@given(views())
def test_a_copy_by_a_later_state_of_its_rule_stays_until_that_is_heard(view: TargetState) -> None:
    """A7: and where nothing is here yet, there is nothing to wait for."""
    behind = view._replace(is_rule_behind=True)
    if view.current is None:
        assert decide(behind) == decide(view)
    elif view.local_synced and not view.current.deleting:
        assert decide(behind) == Hold(Reason.RULE_NOT_HEARD, view.current.marks.owner)


@given(views())
def test_a_question_is_asked_only_of_an_owner_that_is_alive(view: TargetState) -> None:
    """O5, O3."""
    decision = decide(view)
    if isinstance(decision, NeedsProof) and decision.reason is Reason.NEEDS_PROOF:
        assert decision.expects is not None
        assert decision.expects.source.owner in view.alive


@given(views())
def test_a_question_says_what_it_becomes_and_no_other_answer_deletes(view: TargetState) -> None:
    """O5, W4: so what is counted before anybody is asked is all that may be deleted."""
    asked = decide(view)
    if not isinstance(asked, NeedsProof):
        return
    if asked.expects is None:
        assert decide(view.with_content(None)) == asked.if_proven
        assert not isinstance(decide(view.with_content(Content("Widget one"))), Delete | NeedsProof)
        return
    assert decide(view.with_proof(asked.expects)) == asked.if_proven
    for answer in ProofResult:
        for revision in range(6):
            for wanted in (False, True):
                found = decide(view.with_proof(OwnerAnswer(asked.expects.source, answer, revision, wanted)))
                assert deletion_in(found) is None or deletion_in(asked) is not None


@given(views())
def test_what_is_presumed_without_an_answer_is_a_deletion(view: TargetState) -> None:
    """W4: a set of these is halted, and nobody is asked; what was never seen to match is none where it may stay."""
    asked = decide(view)
    if not isinstance(asked, NeedsProof) or not asked.is_presumed:
        return
    assert asked.expects is not None
    assert asked.expects.answer is ProofResult.NOT_FOUND
    assert isinstance(asked.if_proven, Delete)
    stays = decide(view.with_proof(asked.expects._replace(answer=ProofResult.FOUND)))
    assert view.origin.saw_match or isinstance(stays, Delete)


@given(views(), provenances(ClusterUID("a")), st.lists(claims(membership=False), min_size=1, max_size=2))
def test_what_is_not_to_be_synced_takes_the_place_of_no_other_source(
    view: TargetState, provenance: Provenance, offered: list[Claim]
) -> None:
    """W5: of its own copies it keeps those in step that it has, and nothing else."""
    current = CurrentCopy(Marks(provenance.owner, provenance, sync_disabled=False, go_written=False), "uid", 1)
    owner = SOURCE_A.owner
    owned = tuple(claim._replace(peer=owner, owner=owner, voice=Voice.OWNER, barrier=None) for claim in offered)
    read = with_facts(view, local_synced=True, membership=None, barrier=None)
    decision = decide(read._replace(current=current, claims=owned, copied_from=SOURCE_A))
    if isinstance(decision, Apply) and decision.claim.sync_disabled:
        assert decision.claim.source == SOURCE_A


def _claim(
    owner: str, *, created: str = "2026-01-01T00:00:00Z", revision: int = 3, key: ObjectKey = KEY, off: bool = False
) -> Claim:
    uid = ClusterUID(owner)
    return Claim(uid, uid, Voice.OWNER, KIND, key, "u", created, revision, "rule", sync_disabled=off)


def _view(*offered: Claim, current: CurrentCopy | None = None, **more: object) -> TargetState:
    known = frozenset(IDS[:3]) | {LOCAL}
    base = TargetState(TARGET, offered, current, LOCAL, known, known)
    return with_facts(base, **more)


def _copy(owner: str, *, created: str = "2026-01-01T00:00:00Z", revision: int = 3) -> CurrentCopy:
    uid = ClusterUID(owner)
    provenance = Provenance(uid, "rule", ClusterUID("a"), "Orphan", KIND, KEY, "u", created, revision, TARGET)
    return CurrentCopy(Marks(uid, provenance, False, False), "here", 9)


OLDER, NEWER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


@given(st.booleans(), st.booleans())
def test_of_two_versions_of_a_source_the_older_rules_is_made(is_there: bool, turned: bool) -> None:
    """W2: which version each of the rules reads never matters."""
    older, younger = ("2026-01-01", "a", "older"), ("2026-02-01", "a", "younger")
    base = Claim(IDS[0], IDS[0], Voice.OWNER, KIND, KEY, "uid", "2026-01-01T00:00:00Z", 1, "")
    for versions in (("v1", "v2"), ("v2", "v1")):
        offered = tuple(
            base._replace(kind=KIND._replace(version=version), rule=rank[2], rule_rank=rank)
            for version, rank in zip(versions, (older, younger), strict=True)
        )
        there = CurrentCopy(Marks(IDS[0], None, False, False), "uid", 1) if is_there else None
        view = TargetState(
            TARGET, tuple(reversed(offered)) if turned else offered, there, LOCAL, frozenset(IDS), frozenset(IDS),
            copied_from=SOURCE_A if is_there else None,
        )  # fmt: skip
        decision = decide(view)
        assert isinstance(decision, Apply)
        assert decision.claim.rule == "older"


@pytest.mark.parametrize(
    ("view", "kind", "reason"),
    [
        pytest.param(_view(_claim("a")), Apply, Reason.CREATE, id="a new source is copied"),
        pytest.param(_view(_claim("a"), current=_copy("a")), Apply, Reason.UPDATE, id="a copy follows its owner"),
        pytest.param(
            _view(_claim("a"), current=CurrentCopy(Marks(None, None, False, False), "n", 1)),
            Skip, Reason.LOCAL_OBJECT_EXISTS, id="a native object is in the way",
        ),
        pytest.param(
            _view(_claim("b", created=NEWER), current=_copy("a")), Skip, Reason.NO_LONGER_WANTED,
            id="a younger rival waits while nobody tracks the holder",
        ),
        pytest.param(
            _view(_claim("b", created=OLDER), current=_copy("a", created=NEWER)), Apply, Reason.TAKE_OVER,
            id="an older rival wins whoever came first",
        ),
        pytest.param(
            _view(_claim("b", created=NEWER), current=_copy("a"), tracking=Tracking.ABSENT,
                  copied_from=SOURCE_A, proofs=(OwnerAnswer(SOURCE_A, ProofResult.NOT_FOUND),)),
            Apply, Reason.TAKE_OVER, id="when the winner goes the loser takes over",
        ),
        pytest.param(
            _view(_claim("a"), current=_copy("stranger")), Apply, Reason.TAKE_OVER, id="an unknown owner is replaced",
        ),
        pytest.param(
            _view(_claim("a", created=OLDER, key=ELSEWHERE, off=True), _claim("a", created=NEWER, revision=4),
                  current=_copy("a", created=NEWER), copied_from=SOURCE_A),
            Apply, Reason.UPDATE, id="an older source that is not to be synced leaves its owner's copy to the other",
        ),
        pytest.param(
            _view(_claim("a", key=ELSEWHERE, off=True), current=_copy("a"), copied_from=SOURCE_A,
                  tracking=Tracking.ABSENT),
            NeedsProof, Reason.NEEDS_PROOF, id="nor does it take it over when the other goes",
        ),
        pytest.param(
            _view(_claim("a", key=ELSEWHERE), current=_copy("a"), copied_from=SOURCE_A, tracking=Tracking.ABSENT),
            Apply, Reason.UPDATE, id="another source of the owner takes the place of one that is gone",
        ),
        pytest.param(
            _view(_claim("a", created=OLDER, off=True), _claim("b", created=NEWER), current=_copy("a"),
                  copied_from=SOURCE_A),
            Apply, Reason.UPDATE, id="a copy whose source is not to be synced any more stays in step",
        ),
        pytest.param(
            _view(current=_copy("a"), tracking=Tracking.ABSENT, copied_from=SOURCE_A), NeedsProof, Reason.NEEDS_PROOF,
            id="absence is asked about",
        ),
        pytest.param(
            _view(current=_copy("a"), tracking=Tracking.ABSENT, copied_from=SOURCE_A,
                  proofs=(OwnerAnswer(SOURCE_A, ProofResult.NOT_FOUND),)),
            Delete, Reason.SOURCE_DELETED, id="proven absence deletes",
        ),
        pytest.param(
            _view(current=_copy("a"), tracking=Tracking.ABSENT, copied_from=SOURCE_A,
                  proofs=(OwnerAnswer(SOURCE_A, ProofResult.FOUND, 4),)),
            Skip, Reason.NO_LONGER_MATCHES, id="a source that only stopped matching keeps its copy",
        ),
        pytest.param(
            _view(current=_copy("a"), tracking=Tracking.ABSENT, copied_from=SOURCE_A, rule_state=RuleState.READS,
                  deletes_unwanted=True,
                  proofs=(OwnerAnswer(SOURCE_A, ProofResult.FOUND, 4, wanted=True),)),
            Hold, Reason.OWNER_NOT_HEARD, id="a source that matches again is waited for",
        ),
        pytest.param(
            _view(current=_copy("a"), tracking=Tracking.ABSENT, copied_from=SOURCE_A, alive=frozenset()),
            Hold, Reason.OWNER_SILENT, id="a dead owner's copy is kept",
        ),
        pytest.param(
            _view(current=_copy("a"), tracking=Tracking.OFFERED, offered_at=3, copied_from=SOURCE_A,
                  rule_state=RuleState.READS, deletes_unwanted=True),
            Delete, Reason.NO_LONGER_MATCHES, id="what no longer matches goes with the policy Delete",
        ),
        pytest.param(
            _view(current=_copy("a"), tracking=Tracking.OFFERED, offered_at=2, copied_from=SOURCE_A,
                  rule_state=RuleState.READS, deletes_unwanted=True),
            NeedsProof, Reason.STALE_SOURCE, id="what did not match before it was copied proves nothing",
        ),
        pytest.param(
            _view(current=_copy("a"), tracking=Tracking.OFFERED, offered_at=2, copied_from=SOURCE_A,
                  rule_state=RuleState.READS, deletes_unwanted=True,
                  proofs=(OwnerAnswer(SOURCE_A, ProofResult.FOUND, 4),)),
            Hold, Reason.STALE_SOURCE, id="a stream that is late is waited for",
        ),
        pytest.param(
            _view(current=_copy("a"), tracking=Tracking.OFFERED, offered_at=2, copied_from=SOURCE_A,
                  rule_state=RuleState.READS, deletes_unwanted=True,
                  proofs=(OwnerAnswer(SOURCE_A, ProofResult.FOUND, 2),)),
            Delete, Reason.NO_LONGER_MATCHES, id="unless the owner says that it went back",
        ),
        pytest.param(
            _view(current=_copy("a"), tracking=Tracking.UNREADABLE, copied_from=SOURCE_A,
                  rule_state=RuleState.READS, deletes_unwanted=True),
            Hold, Reason.TARGETS_UNREADABLE, id="a source whose destinations cannot be read keeps its copy",
        ),
        pytest.param(
            _view(_claim("a", revision=2), current=_copy("a", revision=3)), NeedsProof, Reason.STALE_SOURCE,
            id="an older state is asked about",
        ),
    ],
)  # fmt: skip
def test_the_table(view: TargetState, kind: type, reason: Reason) -> None:
    """O1, O3, O5, O8, O9."""
    decision = decide(view)
    assert (type(decision), decision.reason) == (kind, reason)


@pytest.mark.parametrize("policy", ["Orphan", "Delete"])
@pytest.mark.parametrize("rival", [(), (_claim("b", created=NEWER),)])
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"rule_state": RuleState.GONE}, Reason.RULE_GONE),
        ({"rule_state": RuleState.NOT_HERE}, Reason.NOT_FOR_THIS_CLUSTER),
        ({"rule_state": RuleState.READS}, Reason.NO_LONGER_MATCHES),
        ({"rule_state": RuleState.READS, "move": Move.DONE}, Reason.MOVED),
    ],
)
def test_a_copy_goes_once_every_rule_is_known_not_to_want_it(
    facts: dict[str, object], reason: Reason, rival: tuple[Claim, ...], policy: str
) -> None:
    """W3: until then no other source takes its place either; what stays in any case waits for nothing."""
    deletes = policy == "Delete"
    known = _view(*rival, current=_copy("a"), copied_from=SOURCE_A, tracking=Tracking.OFFERED, offered_at=3,
                  deletes_unwanted=deletes, **facts)  # fmt: skip
    goes = deletes or reason is Reason.MOVED
    expected = (Apply, Reason.TAKE_OVER) if rival else (Delete, reason) if goes else (Skip, reason)
    decision = decide(known)
    assert (type(decision), decision.reason) == expected
    waits = decide(known._replace(origin=known.origin._replace(others_synced=False)))
    assert waits == (Hold(Reason.OWNER_NOT_HEARD, IDS[0]) if rival or goes else decision)


@given(views())
def test_what_a_rule_may_not_write_here_it_neither_writes_nor_deletes(view: TargetState) -> None:
    """W8: and what it made stays as it is, unless a rule that may wants it."""
    decision = decide(view)
    if isinstance(decision, Apply):
        assert decision.claim.barrier is None
    if view.origin.barrier is not None:
        assert not isinstance(decision, Delete)


@given(views())
def test_a_rule_that_is_barred_is_as_none_to_all_others(view: TargetState) -> None:
    """W8."""
    allowed = view._replace(claims=tuple(claim for claim in view.claims if claim.barrier is None))
    with_it, without = decide(view), decide(allowed)
    assert type(with_it) is type(without)
    assert not isinstance(with_it, Apply | Delete) or with_it == without
