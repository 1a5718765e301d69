"""The observer sees what goes wrong with what makes the group: Clusters, their Secrets, and rules that spread."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.history import DAEMON, NAMESPACE, PEOPLE, UNKNOWN, History, Place, State
from tests.chaos.laws import Verdict
from tests.chaos.making import OWNER
from tests.chaos.membership import LAW, judge_membership, strays

IDS = {"a": "id-a", "b": "id-b", "c": "id-c"}
SECRET, CLUSTER, RULE = "Secret", "Cluster", "ResourceSyncRule"
PLACES = {SECRET: (NAMESPACE, "b"), CLUSTER: ("", "b"), RULE: ("", "r")}


def _cluster(name: str, number: int = 0) -> dict[str, Any]:
    spec = {"clusterID": IDS[name], "authInfo": {"secretRef": {"name": name}}, "number": number}
    return {"kind": CLUSTER, "metadata": {"name": name}, "spec": spec}


def _secret(number: int) -> dict[str, Any]:
    return {"kind": SECRET, "metadata": {"name": "b", "namespace": NAMESPACE}, "data": {"kubeconfig": str(number)}}


def _rule(number: int, owner: str = "", *, status: str = "") -> dict[str, Any]:
    marks = {"annotations": {OWNER: owner}} if owner else {}
    return {"kind": RULE, "metadata": {"name": "r", **marks}, "spec": {"n": number}, "status": {"said": status}}


def _history(kind: str, *deeds: tuple[float, str, str, dict[str, Any] | str | None], told: int = 0) -> History:
    """Write a history down: (seconds, cluster, who, what), with what an object, a kind (deleted) or None (of the kind
    that this is about, deleted); beside the Clusters that each has of itself.
    """
    history = History(ids=dict(IDS))
    for name in IDS:
        place = Place(name, CLUSTER, "", name)
        history.states[place] = [State(place, 0.0, _cluster(name), PEOPLE)]
    for revision, (at, cluster, who, what) in enumerate(deeds, start=1):
        manifest = what if isinstance(what, dict) else None
        about = manifest["kind"] if manifest else what or kind
        place = Place(cluster, about, *PLACES[about])
        history.states.setdefault(place, []).append(State(place, at, manifest, who, at - 0.01, 0, revision))
        history.written[place] = history.written.get(place, 0) + (who == DAEMON and "x" not in str(what))
    place = Place("a", kind, *PLACES[kind])
    history.written[place] = history.written.get(place, 0) + told
    return history


def _said(history: History) -> list[str]:
    verdict = Verdict()
    judge_membership(history, verdict)
    assert {violation.law for violation in verdict.violations} <= {LAW}
    return [violation.words for violation in verdict.violations]


LEFT = _rule(1, "id-b")
PUBLISHED = [(1.0, "b", DAEMON, _secret(1)), (2.0, "a", PEOPLE, _secret(1))]
SPREAD = [(1.0, "b", PEOPLE, _rule(1)), (2.0, "a", DAEMON, _rule(1, "id-b"))]
KNOWN = [(1.0, "a", DAEMON, _cluster("b"))]
HONEST = {
    "a token follows": (SECRET, [*PUBLISHED, (3.0, "b", DAEMON, _secret(2)), (4.0, "a", DAEMON, _secret(2))]),
    "what people spoil is put back": (
        SECRET, [*PUBLISHED, (3.0, "a", PEOPLE, _secret(9)), (4.0, "a", DAEMON, _secret(1))],
    ),
    "a Secret goes with its Cluster, which people take away": (
        SECRET, [*PUBLISHED, (3.0, "a", PEOPLE, _cluster("b")), (4.0, "a", PEOPLE, CLUSTER), (5.0, "a", DAEMON, None)],
    ),
    "a rule follows": (RULE, [*SPREAD, (3.0, "b", PEOPLE, _rule(2)), (4.0, "a", DAEMON, _rule(2, "id-b"))]),
    "a rule goes": (RULE, [*SPREAD, (3.0, "b", PEOPLE, None), (4.0, "a", DAEMON, None)]),
    "a status is no change": (RULE, [*SPREAD, (3.0, "a", DAEMON, _rule(1, "id-b", status="x"))]),
    "the status of what was made here": (
        RULE, [(1.0, "a", PEOPLE, _rule(1)), (2.0, "a", DAEMON, _rule(1, status="x"))],
    ),
    "a Cluster is made known": (CLUSTER, KNOWN),
    "what nobody saw written": (SECRET, [*PUBLISHED, (3.0, "a", UNKNOWN, _secret(7))]),
}  # fmt: skip
DOCTORED = {
    "a token that nobody had": (SECRET, "was no state of", [*PUBLISHED, (3.0, "a", DAEMON, _secret(7))]),
    "a token of before": (
        SECRET, "goes back", [*PUBLISHED, (3.0, "b", DAEMON, _secret(2)), (4.0, "a", DAEMON, _secret(2)),
                              (5.0, "a", DAEMON, _secret(1))],
    ),
    "a token before it was there": (
        SECRET, "was no state of", [(1.0, "a", DAEMON, _secret(1)), (2.0, "b", DAEMON, _secret(1))],
    ),
    "a Secret that goes": (SECRET, "was deleted", [*PUBLISHED, (3.0, "a", DAEMON, None)]),
    "a Cluster that goes": (CLUSTER, "was deleted", [*KNOWN, (3.0, "a", DAEMON, None)]),
    "a Cluster that is changed": (CLUSTER, "was no state of", [*KNOWN, (3.0, "a", DAEMON, _cluster("b", 7))]),
    "a rule that nobody wrote": (RULE, "was no state of", [*SPREAD, (3.0, "a", DAEMON, _rule(7, "id-b"))]),
    "a rule of an intermediary": (
        RULE, "was no state of", [(1.0, "b", PEOPLE, _rule(1)), (2.0, "a", DAEMON, _rule(1, "id-c"))],
    ),
    "a rule that goes": (RULE, "was deleted", [*SPREAD, (3.0, "a", DAEMON, None)]),
    "a rule of this cluster that is changed": (
        RULE, "was made here", [(1.0, "b", PEOPLE, _rule(1)), (1.0, "a", PEOPLE, _rule(5)),
                                (2.0, "a", DAEMON, _rule(1, "id-b"))],
    ),
    "a rule of this cluster that goes": (
        RULE, "was made here", [(1.0, "a", PEOPLE, _rule(5)), (2.0, "a", DAEMON, None)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "deeds"), HONEST.values(), ids=HONEST)
def test_what_may_happen_breaks_no_law(kind: str, deeds: list[Any]) -> None:
    assert not _said(_history(kind, *deeds))


@pytest.mark.parametrize(("kind", "words", "deeds"), DOCTORED.values(), ids=DOCTORED)
def test_what_may_not_happen_is_seen(kind: str, words: str, deeds: list[Any]) -> None:
    said = _said(_history(kind, *deeds))
    assert any(words in one for one in said), said


@pytest.mark.parametrize("who", ["a", "b"])
@pytest.mark.parametrize(
    ("known_at", "gone_at", "is_seen"), [(1.0, 3.0, False), (10.0, 11.0, False), (100.0, 101.0, True)]
)
def test_whoever_leaves_lets_go(who: str, known_at: float, gone_at: float, is_seen: bool) -> None:
    history = _history(CLUSTER, (known_at, "a", DAEMON, _cluster("b")), (gone_at, "a", DAEMON, None))
    history.absent[who] = [(2.0, 9.0)]
    assert bool(_said(history)) == is_seen


@pytest.mark.parametrize(("back_at", "is_seen"), [(102.0, False), (130.0, True)])
def test_whoever_slept_through_a_leaving_takes_the_member_in_again_at_once(back_at: float, is_seen: bool) -> None:
    deeds = [(100.0, "a", DAEMON, _cluster("b")), (101.0, "a", DAEMON, None), (back_at, "a", DAEMON, _cluster("b"))]
    history = _history(CLUSTER, *deeds)
    assert _said(history)
    history.absent["b"] = [(2.0, 9.0)]
    assert bool(_said(history)) == is_seen


def test_writes_without_a_cause_are_seen() -> None:
    assert not _said(_history(RULE, *SPREAD))
    assert _said(_history(RULE, *SPREAD, told=1)) == ["was written 2 times for 1 causes"]


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([_rule(1, "id-b"), _cluster("b")], []),
        ([_rule(2, "id-b"), _cluster("b")], ["a: ResourceSyncRule r is not what it is in b"]),
        ([_rule(2), _cluster("b")], []),
        ([_cluster("b")], ["a has no ResourceSyncRule r of b"]),
        ([_rule(1, "id-b"), _cluster("b", 7)], ["a: Cluster b is not what it is in b"]),
        ([_rule(1, "id-b")], ["a has no Cluster b of b"]),
        ([_rule(1, "id-b"), {**LEFT, "metadata": {**LEFT["metadata"], "name": "s"}}, _cluster("b")],
         ["a: ResourceSyncRule s is left over"]),
    ],
)  # fmt: skip
def test_the_end_must_be_what_each_says_of_itself(held: list[dict[str, Any]], said: list[str]) -> None:
    objects = {"a": [*held, _cluster("a")], "b": [_rule(1), _cluster("b"), _cluster("a")]}
    assert strays(objects, IDS) == said
