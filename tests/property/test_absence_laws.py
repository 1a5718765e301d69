"""Laws of a member's absent own Cluster, over all histories of what is heard of it, and of what home makes again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey
from registry_controller.core.decision.absence import (
    Absence,
    OwnClusterFacts,
    lasts_from_s,
    left_from_s,
    observe_absence,
)
from registry_controller.core.decision.lost_cluster import (
    MEMBERS_S,
    REPLACED_S,
    LostClusterFacts,
    Make,
    Wait,
    choose_shown,
    named_secret,
    plan_own_cluster,
    restored_cluster,
)

WINDOW_S, LASTS_S = 30.0, 600.0
FACTS = st.sampled_from([
    OwnClusterFacts(is_heard=False),
    OwnClusterFacts(is_heard=True, has_own=True, has_any=True),
    OwnClusterFacts(is_heard=True, has_any=True),
    OwnClusterFacts(is_heard=True),
])  # fmt: skip
HISTORIES = st.lists(st.tuples(st.floats(0.1, 700.0), FACTS, st.booleans()), min_size=1, max_size=20)
"""Seconds since the last observation, what is heard, and whether another process observes from now on."""


def play(history: list[tuple[float, OwnClusterFacts, bool]]) -> list[tuple[float, OwnClusterFacts, Absence | None]]:
    """Observe a history; what a process knew of the absence is stored when it ends."""
    now_s, before, stored_s, seen = 10_000.0, None, None, []
    for passed_s, facts, restarts in history:
        now_s += passed_s
        if restarts:
            before = None
        before = observe_absence(facts, before, now_s=now_s, stored_since_s=stored_s)
        if facts.is_heard:
            stored_s = before.since_s if before is not None else None
        seen.append((now_s, facts, before))
    return seen


def has_left(absence: Absence | None, now_s: float, *, lasts_s: float = LASTS_S) -> bool:
    at_s = left_from_s(absence, lasts_s=lasts_s, window_s=WINDOW_S) if absence is not None else None
    return at_s is not None and at_s <= now_s


@pytest.mark.clause("O6")
@given(HISTORIES)
def test_nobody_has_left_who_had_a_cluster_of_itself_in_the_last_minutes(
    history: list[tuple[float, OwnClusterFacts, bool]],
) -> None:
    seen = play(history)
    for number, (now_s, _, absence) in enumerate(seen):
        if has_left(absence, now_s):
            there = [at_s for at_s, facts, _ in seen[: number + 1] if facts.is_heard and facts.has_own]
            assert not there or now_s - there[-1] >= LASTS_S


@pytest.mark.clause("O6")
@given(HISTORIES)
def test_nobody_has_left_who_is_not_heard_or_has_no_cluster_at_all(
    history: list[tuple[float, OwnClusterFacts, bool]],
) -> None:
    for now_s, facts, absence in play(history):
        assert not (has_left(absence, now_s) and not (facts.is_heard and facts.has_any and not facts.has_own))
        assert not has_left(absence, now_s, lasts_s=0.0)


@pytest.mark.clause("O6")
@given(HISTORIES)
def test_restarts_do_not_begin_anew(history: list[tuple[float, OwnClusterFacts, bool]]) -> None:
    with_restarts, without = play(history), play([(passed_s, facts, False) for passed_s, facts, _ in history])
    for (_, facts, absence), (_, _, other) in zip(with_restarts, without, strict=True):
        if facts.is_heard and absence is not None:
            assert other is not None
            assert absence.since_s == other.since_s


@pytest.mark.clause("O6")
@given(HISTORIES)
def test_what_was_heard_for_a_moment_only_proves_nothing(
    history: list[tuple[float, OwnClusterFacts, bool]],
) -> None:
    for now_s, _, absence in play(history):
        from_s = lasts_from_s(absence, lasts_s=LASTS_S, window_s=WINDOW_S) if absence is not None else None
        if absence is not None and from_s is not None and from_s <= now_s:
            assert absence.heard_since_s is not None
            assert now_s - absence.heard_since_s >= WINDOW_S


# Home.

LOCAL = ClusterUID("11111111-1111-1111-1111-111111111111")
TEXTS = st.dictionaries(st.sampled_from(["x", "y", meta.OWNER, meta.PROVENANCE]), st.sampled_from(["1", "2"]))


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    address = draw(st.sampled_from(["https://ours.test", "https://evil.test"]))
    endpoints = {"kubernetesApiEndpoints": [{"serverAddress": address}]} if draw(st.booleans()) else {}
    spec = {"clusterID": draw(st.sampled_from([LOCAL, "other"])), **endpoints}
    if draw(st.booleans()):
        spec["authInfo"] = {"secretRef": {"name": draw(st.sampled_from(["b", "a"])), "namespace": "n"}}
    info = {"name": "b", "uid": "u", "resourceVersion": "7", "finalizers": ["f"]}
    return {"metadata": {**info, "labels": draw(TEXTS), "annotations": draw(TEXTS)}, "spec": spec, "status": {"x": 1}}


@pytest.mark.clause("P2")
@given(clusters())
def test_what_is_made_again_is_as_it_was_and_ours(last: Manifest) -> None:
    made = restored_cluster(last, cluster_id=LOCAL)
    info = made["metadata"]
    assert made["spec"] == {**last["spec"], "clusterID": LOCAL}
    assert set(info) <= {"name", "labels", "annotations"}
    for part in ("labels", "annotations"):
        wanted = {name: text for name, text in last["metadata"][part].items() if name in ("x", "y")}
        assert info.get(part, {}) == wanted
    assert named_secret(restored_cluster(last, cluster_id=LOCAL, secret=ObjectKey("n", "mine"))) == ObjectKey(
        "n", "mine"
    )
    assert restored_cluster(made, cluster_id=LOCAL) == made


@pytest.mark.clause("P2")
@given(st.lists(clusters(), max_size=4), st.sets(st.sampled_from(["https://ours.test", "https://old.test"])))
def test_no_member_invents_an_address(shown: list[Manifest], addresses: set[str]) -> None:
    found = choose_shown(shown, published_addresses=addresses)
    assert (found is None) == (not shown)
    if addresses:
        assert "evil" not in str(found)


@pytest.mark.clause("P2")
@given(st.lists(clusters(), min_size=1, max_size=4))
def test_what_members_set_for_themselves_is_not_taken(shown: list[Manifest]) -> None:
    for_themselves = {meta.CLUSTER_DISABLED: "true", meta.ALLOW_DELETIONS: "now", meta.SYNC_DISABLED: "true"}
    found = choose_shown(shown)
    for manifest in shown:
        meta.annotations_of(manifest).update(for_themselves)
    assert choose_shown(shown) == found
    assert found is not None
    assert not for_themselves.keys() & meta.annotations_of(found).keys()


@pytest.mark.clause("P2")
@given(
    st.builds(
        LostClusterFacts,
        name=st.sampled_from(["", "b"]),
        has_farewell=st.booleans(),
        last=st.none() | clusters(),
        missing_s=st.floats(0, 60),
        shown=st.lists(clusters(), max_size=2),
        awaits_members=st.booleans(),
        published=st.none() | clusters(),
    )
)
def test_home_makes_its_cluster_unless_it_has_left_and_never_too_early(facts: LostClusterFacts) -> None:
    plan = plan_own_cluster(facts)
    known = facts.last or facts.shown or facts.published or facts.name
    if facts.has_farewell:
        assert plan is None
    elif isinstance(plan, Wait):
        assert 0 < plan.after_s <= REPLACED_S
        assert facts.missing_s < (REPLACED_S if facts.last is not None else MEMBERS_S)
    else:
        assert isinstance(plan, Make) == bool(known)
        if isinstance(plan, Make) and facts.last is not None:
            assert plan.cluster == facts.last
            assert facts.missing_s >= REPLACED_S
