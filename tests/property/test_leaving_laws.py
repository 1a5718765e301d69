"""The laws of tombstones, over all knowledge that Hypothesis can think of. O6."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.feature import read_feature
from registry_controller.api.meta import ClusterUID
from registry_controller.api.tombstone import Tombstone, read_tombstone, tombstone_manifest
from registry_controller.core.decision.tombstones import LASTS, STAYS, MembershipFacts, leavers

LOCAL, A, B, C = (ClusterUID(text) for text in ("local", "a", "b", "c"))
TODAY = date(2026, 1, 1)
LAST = TODAY + LASTS

members = st.sampled_from([LOCAL, A, B, C])
others = st.sampled_from([A, B, C])
memberships = st.sampled_from(["", "one", "two"])
days = st.sampled_from(
    [TODAY - STAYS - timedelta(days=1), TODAY - timedelta(days=1), TODAY, LAST, LAST + timedelta(days=400)]
)
revisions = st.integers(0, 3)
stones = st.builds(Tombstone, members, memberships, members, days, revisions)
some = st.frozensets(stones, max_size=3)


@st.composite
def knowledge(draw: st.DrawFn) -> MembershipFacts:
    alive = draw(st.frozensets(others))
    obj = draw(st.frozensets(st.sampled_from(sorted(alive)))) if alive else frozenset()
    here = draw(st.dictionaries(members, st.frozensets(st.none() | memberships, min_size=1, max_size=2)))
    stored = draw(some)
    return MembershipFacts(
        local=LOCAL,
        here=stored,
        there={uid: draw(some) for uid in sorted(obj)},
        alive=alive,
        memberships={
            **{uid: found for uid, found in here.items() if uid != LOCAL},
            **({LOCAL: frozenset({"one"})} if draw(st.booleans()) else {}),
        },
        lives={uid: draw(st.frozensets(st.sampled_from(["one", "two"]), max_size=2)) for uid in sorted(obj)},
        finds={
            uid: draw(st.frozensets(st.tuples(others, st.sampled_from(["", "one", "two"])), max_size=2))
            for uid in sorted(obj)
        },
        holds_us=draw(st.frozensets(st.sampled_from(sorted(obj)))) if obj else frozenset(),
        met={},
        proven=frozenset(),
        ordered=frozenset(stone for stone in sorted(stored) if draw(st.booleans())),
        revisions=draw(st.dictionaries(st.sampled_from(["one", "two"]), revisions)),
        former=draw(st.dictionaries(others, st.frozensets(st.sampled_from(["one", "two"])))),
        lasting=draw(st.frozensets(st.sampled_from(sorted(obj)))) if obj else frozenset(),
        silent_s={uid: draw(st.sampled_from([0.0, 10.0, 100.0])) for uid in (A, B, C) if uid not in alive},
        withdrawn=draw(st.frozensets(st.tuples(members, st.builds(lambda stone: stone.name, stones)), max_size=3)),
        today=TODAY,
        days=draw(st.frozensets(st.sampled_from([TODAY, TODAY + timedelta(days=100)]))),
        trusts_after_s=draw(st.sampled_from([0.0, 50.0])),
        returned=frozenset(stone for stone in sorted(stored) if draw(st.booleans())),
    )


def in_group(known: MembershipFacts) -> bool:
    return not leavers(known).has_left


@given(st.sampled_from([LOCAL, A, C]), revisions)
def test_a_farewell_counts_whichever_tombstone_of_the_membership_is_stored(author: ClusterUID, revision: int) -> None:
    """O6: those of one membership have one name, so one of them is stored here, and its author decides nothing."""
    farewell = Tombstone(B, "one", B, LAST)
    known = MembershipFacts(
        local=LOCAL,
        here=frozenset({Tombstone(B, "one", author, LAST, revision)}),
        there={B: frozenset({farewell})},
        alive=frozenset({B}),
        memberships={LOCAL: frozenset({"mine"}), B: frozenset({"one"}), author: frozenset({"one"})},
        lives={B: frozenset()},
        finds={},
        holds_us=frozenset({B}),
        met={},
        proven=frozenset(),
        ordered=frozenset(),
        revisions={},
        former={},
        lasting=frozenset(),
        silent_s={},
        withdrawn=frozenset(),
        today=TODAY,
        days=frozenset({TODAY}),
        trusts_after_s=0.0,
    )
    found = leavers(known)
    assert (found.gone, found.ordered) == ({B}, {B})


@given(knowledge().filter(in_group))
def test_a_member_that_was_back_has_not_left_because_its_cluster_is_missing(known: MembershipFacts) -> None:
    """O6: its tombstones are about earlier memberships."""
    for member in leavers(known).gone - known.memberships.keys():
        assert {stone for stone in known.here if stone.member == member} - known.returned


@given(knowledge())
def test_a_member_is_back_with_a_membership_that_its_tombstone_does_not_cover(known: MembershipFacts) -> None:
    """O6."""
    assert leavers(known).returned >= known.returned
    for stone in leavers(known).returned - known.returned:
        assert any(uid and not known.covers(stone, uid) for uid in known.memberships[stone.member])
        assert stone.membership


@given(knowledge().filter(in_group))
def test_who_is_alive_goes_by_its_own_farewell_or_by_an_order_about_a_lasting_absence(known: MembershipFacts) -> None:
    """O6: nobody else's word counts, and each membership that is here must be named."""
    for member in leavers(known).gone & known.alive:
        own = {stone for stone in known.there.get(member, ()) if stone.member == stone.reported_by == member}
        orders = known.ordered if member in known.lasting else frozenset()
        for uid in known.memberships[member]:
            if uid is None:  # carried here by a person
                assert own
                assert not known.lives[member]
                continue
            assert any(stone.member == member and stone.covers(uid or "") for stone in own | orders)
            assert uid not in known.lives[member]


@given(knowledge())
def test_who_goes_by_order_was_sent_by_itself_or_from_here(known: MembershipFacts) -> None:
    """W4: others' word is counted, and so is an absence."""
    found = leavers(known)
    assert found.ordered <= found.gone
    for member in found.ordered:
        orders = {stone for stone in known.here if stone in known.ordered or stone in known.there.get(member, ())}
        assert any(stone.member == member for stone in orders)


@given(knowledge().filter(in_group))
def test_nobody_goes_without_a_tombstone_here_of_each_membership_that_is_here(known: MembershipFacts) -> None:
    for member in leavers(known).gone:
        said = {stone for stone in known.here if stone.member == member and not known.is_expired(stone)}
        assert said
        for membership in known.memberships.get(member, ()):
            if membership is None:  # what somebody carried here stays, unless its member says farewell
                assert member in known.alive
                continue
            assert any(known.covers(stone, membership) for stone in said)


@given(knowledge().filter(in_group))
def test_on_anothers_word_only_who_was_silent_for_long_enough_goes(known: MembershipFacts) -> None:
    for member in leavers(known).gone:
        heard = known.ordered | {stone for stone in known.there.get(member, ()) if stone.reported_by == member}
        ours = any(stone.member == member and (stone.reported_by == LOCAL or stone in heard) for stone in known.here)
        assert ours or known.trusts_after_s
        assert ours or member not in known.memberships or known.silent_s[member] >= known.trusts_after_s


@given(knowledge())
def test_who_is_named_spoke_of_a_membership_that_is_here(known: MembershipFacts) -> None:
    for member, sayers in leavers(known).pending.items():
        here = [uid for uid in known.memberships[member] if uid is not None]
        spoke = {
            stone.reported_by
            for stone in known.here
            for uid in here
            if stone.member == member and known.covers(stone, uid)
        }
        assert sayers <= spoke


@given(knowledge())
def test_whoever_is_heard_speaks_for_itself(known: MembershipFacts) -> None:
    """Nobody speaks in its name, nor in ours."""
    for member, over in leavers(known).over.items():
        for membership in over:
            said = [
                (holder, stone)
                for holder, held in {LOCAL: known.here, **known.there}.items()
                for stone in held
                if (stone.member, stone.membership) == (member, membership)
            ]
            assert any(
                holder == LOCAL
                or stone.reported_by == holder
                or (stone.reported_by != LOCAL and stone in known.there.get(stone.reported_by, {stone}))
                or (stone.reported_by == LOCAL and (LOCAL, stone.name) not in known.withdrawn)  # lost here
                for holder, stone in said
            )


@given(knowledge(), others, memberships.filter(bool), revisions)
def test_a_tombstone_bars_what_is_earlier_than_its_membership_and_nothing_later(
    known: MembershipFacts, member: ClusterUID, membership: str, revision: int
) -> None:
    """By revision where both are known, else by what was here before."""
    found = leavers(known)
    if member in found.known:
        return
    stones_of = found.stones.get(member, frozenset())
    named = any(stone.covers(membership) for stone in stones_of)
    both = [stone for stone in stones_of if stone.revision and revision]
    is_earlier = any(revision < stone.revision for stone in both)
    is_former = len(both) < len(stones_of) and membership in known.former.get(member, ())
    assert found.bars(member, membership, revision) == (named or is_earlier or is_former)


@given(knowledge())
def test_the_absence_of_a_tombstone_at_its_author_withdraws_nothing(known: MembershipFacts) -> None:
    """The author records that it was deleted, or finds the member Ready, or the member itself is alive."""
    found = leavers(known)
    for stone in found.to_drop - {held for held in known.here if LOCAL in (held.member, held.reported_by)}:
        is_recorded = (stone.reported_by, stone.name) in known.withdrawn
        is_ready = any(member == stone.member for member, _ in known.finds.get(stone.reported_by, ()))
        is_alive = any(stone.covers(uid) for uid in known.lives.get(stone.member, ()))
        assert is_recorded or is_ready or is_alive or known.is_expired(stone)


@given(knowledge())
def test_nothing_expires_while_no_live_member_agrees_about_the_day(known: MembershipFacts) -> None:
    """And what expires was over for the whole time for which it stays."""
    found = leavers(replace(known, there={}, finds={}, lives={}, alive=frozenset()))
    for stone in found.to_drop:
        if stone.member != LOCAL:
            assert known.is_day_agreed
            assert TODAY - stone.until > STAYS


@given(knowledge())
def test_what_a_live_member_has_of_itself_is_not_over(known: MembershipFacts) -> None:
    found = leavers(known).over
    assert LOCAL not in found
    for member, over in found.items():
        assert over.isdisjoint(known.lives.get(member, ()))


@given(knowledge())
def test_what_is_to_stand_here_and_what_is_to_go_are_not_the_same(known: MembershipFacts) -> None:
    """Nobody writes a tombstone and takes it away again, over and over."""
    found = leavers(known)
    assert found.to_keep.isdisjoint(known.here)
    assert {stone.name for stone in found.to_keep}.isdisjoint(stone.name for stone in known.here)
    assert found.to_drop <= known.here
    after = leavers(replace(known, here=(known.here | found.to_keep) - found.to_drop))
    assert found.to_keep.isdisjoint(after.to_drop)
    assert after.to_drop == frozenset()


@given(knowledge(), st.integers(0, 600), st.integers(0, 600))
def test_whoever_makes_up_a_thousand_members_fills_no_shelf_of_ours(
    known: MembershipFacts, here: int, there: int
) -> None:
    def made_up(prefix: str, count: int) -> frozenset[Tombstone]:
        return frozenset(Tombstone(ClusterUID(f"{prefix}{n}"), "", A, LAST) for n in range(count))

    found = leavers(replace(known, here=known.here | made_up("x", here), there={A: made_up("y", there)}))
    assert len([stone for stone in found.to_keep if stone.member not in known.memberships]) + here <= max(here, 256)
    assert len(found.to_keep) + here <= max(here, 512)


@given(knowledge())
def test_what_was_done_on_anothers_word_stays_done(known: MembershipFacts) -> None:
    """Unless that one finds the member Ready, or it lives: a backup that is restored brings nobody back."""
    found = leavers(known)
    for stone in known.here - found.to_drop:
        assert stone.member == LOCAL or not known.is_expired(stone)
    for stone in found.to_drop:
        is_done = stone.member not in known.memberships
        lives = any(stone.covers(uid) for uid in known.lives.get(stone.member, ()))
        ready = any(member == stone.member for member, _ in known.finds.get(stone.reported_by, ()))
        is_expired = known.is_expired(stone)
        assert not is_done or lives or ready or is_expired or LOCAL in (stone.member, stone.reported_by)


@given(knowledge())
def test_a_cluster_has_left_only_by_its_own_word(known: MembershipFacts) -> None:
    found = leavers(known)
    said = {stone.membership for stone in known.here if stone.member == stone.reported_by == LOCAL}
    assert found.has_left <= bool(said)
    if found.has_left:
        assert LOCAL not in known.memberships


@given(knowledge())
def test_what_stands_here_was_said_by_somebody_who_can_take_it_back(known: MembershipFacts) -> None:
    for stone in leavers(known).to_keep:
        assert stone.reported_by in {LOCAL, *known.memberships}


@given(stones)
def test_a_tombstone_survives_its_spelling(stone: Tombstone) -> None:
    assert read_tombstone(read_feature(tombstone_manifest(stone))) == stone
