"""O5, W4: from a key to its result, in which order, and what an answer is used for."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import Conflict, Forbidden, Mistake, NotFound, RegistryError, Unreachable
from registry_controller.api.meta import GVK, GVR, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance
from registry_controller.core.decision.decision import Apply, Decision, Delete, Hold, NeedsProof, Reason, Skip
from registry_controller.core.decision.marks import Marks, Voice
from registry_controller.core.decision.state import (
    Claim,
    Content,
    CurrentCopy,
    LostMatch,
    MembershipState,
    Origin,
    RuleState,
    SourceRef,
    TargetState,
    Tracking,
)
from registry_controller.sync.reconciler import Judgment, Reconciler, Result
from registry_controller.watch.fairness import EvaluationLimiter
from tests.original_marks import last_applied
from tests.target_states import with_facts

LOCAL, OWNER = ClusterUID("local"), ClusterUID("owner")
KIND, KEY = GVK("", "v1", "ConfigMap"), ObjectKey("default", "one")
TARGET = Target("", "ConfigMap", *KEY)
SOURCE = SourceRef(OWNER, KIND, KEY)
JUDGED = Hold(Reason.DELETION_JUDGED, OWNER)


def copy_of(target: Target, *, revision: int = 3, sync_disabled: bool = False) -> CurrentCopy:
    key = ObjectKey(target.namespace, target.name)
    kind = GVK(target.group, "v1", target.kind)
    provenance = Provenance(OWNER, "rule", LOCAL, "Orphan", kind, key, "uid", "2026-01-01", revision, target)
    return CurrentCopy(Marks(OWNER, provenance, sync_disabled=sync_disabled, go_written=False), "here", 9)


def absent(target: Target = TARGET, **more: Any) -> TargetState:
    """A copy of which the source is in no complete list any more."""
    members = frozenset((LOCAL, OWNER))
    kind, key = GVK(target.group, "v1", target.kind), ObjectKey(target.namespace, target.name)
    state = TargetState(
        target, (), copy_of(target), LOCAL, members, members, copied_from=SourceRef(OWNER, kind, key),
        origin=Origin("rule", tracking=Tracking.ABSENT, rule_state=RuleState.READS, saw_match=True),
    )  # fmt: skip
    return with_facts(state, **more)


def claimed(revision: int) -> TargetState:
    """A copy and its source."""
    claim = Claim(OWNER, OWNER, Voice.OWNER, KIND, KEY, "uid", "2026-01-01", revision, "rule")
    return absent(claims=(claim,), tracking=Tracking.OFFERED)


class Bench:
    """Everything around a reconciler. `log` holds what happened, in order."""

    def __init__(self, state: TargetState) -> None:
        self.state = state
        self.log: list[str] = []
        self.answer: bytes | Exception = NotFound("gone", names_object=True)
        self.answers: dict[ObjectKey, bytes] = {}
        self.owners = {OWNER}
        self.meanwhile: Callable[[], None] = lambda: None
        self.wanted = False
        self.lets_go = True
        self.failure: Exception | None = None
        self.content: Content | None = None
        self.known: Content | None = None
        self.is_connected = True
        self.is_going = False
        states: Any = self
        content: Any = self
        containers: Any = SimpleNamespace(find=lambda _: self.known, forget=lambda _: None)
        departures: Any = SimpleNamespace(
            record_decision=lambda decision, state: self.log.append(f"heard {decision.reason.value}")
        )
        self.reconciler = Reconciler(
            states=states,
            content=content,
            containers=containers,
            connection=self.connection,
            departures=departures,
            evaluations=EvaluationLimiter(),
            request_rules=lambda: self.log.append("requested the rules"),
        )

    async def reconcile(self) -> tuple[Decision, RegistryError | None]:
        found = await self.reconciler.reconcile(self.state.target, limiter=self, applier=self)
        assert not isinstance(found.judgment.decision, NeedsProof)
        return found.result.decision, found.error

    async def find(self, container: Target) -> Content | None:
        self.log.append(f"looked into {container.name}")
        return self.content

    def forget(self, container: Target) -> None:
        self.log.append(f"forgot {container.name}")

    # The caches.

    def read(self, target: Target) -> tuple[TargetState, tuple[()]]:
        return self.state, ()

    def kind_read(self, source: SourceRef) -> GVK:
        return source.kind

    def wants(self, target: Target, source: SourceRef, obj: object) -> bool:
        return self.wanted

    def forget_match(self, target: Target) -> None:
        self.log.append("forgot the match")

    # The owner.

    def connection(self, peer: ClusterUID) -> Any:
        assert peer in self.owners
        return SimpleNamespace(reader=self, discovery=self) if self.is_connected else None

    async def resolve(self, kind: GVK) -> GVR:
        return GVR(kind.group, kind.version, "objects", True)

    async def may_create(self, kind: GVK) -> bool:
        return not self.is_going

    async def get(self, gvr: GVR, key: ObjectKey, *, timeout_s: float) -> bytes:
        self.log.append(f"asked about {key}")
        self.meanwhile()
        answer = self.answers.get(key, self.answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    # The limiter, which counts a deletion of everything.

    @property
    def counted(self) -> frozenset[Target]:
        return frozenset((self.state.target,))

    def limit(self, target: Target, decision: Decision, *, rule: str, is_idle: bool = False) -> Decision:
        self.log.append(f"counted {type(decision).__name__}")
        return decision if self.lets_go or not isinstance(decision, NeedsProof | Delete) else JUDGED

    def defer(self, target: Target) -> None:
        self.log.append("deferred")

    def withdraw(self, target: Target) -> None:
        self.log.append("withdrawn")

    # The applier.

    async def apply(self, judgment: Judgment) -> Result:
        self.log.append(f"applied {type(judgment.decision).__name__}")
        if self.failure is not None:
            raise self.failure
        return Result(judgment.decision)


def source(revision: int = 5, **info: Any) -> bytes:
    metadata = {"namespace": "default", "name": "one", "uid": "uid", "resourceVersion": str(revision), **info}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).encode()


async def test_a_deletion_is_counted_then_proven_once_and_then_applied() -> None:
    bench = Bench(absent())
    decision, error = await bench.reconcile()
    assert (decision, error) == (Delete("here", 9, Reason.SOURCE_DELETED, OWNER), None)
    assert bench.log == ["counted NeedsProof", "asked about default/one", "counted Delete", "applied Delete"]


async def test_nobody_is_asked_about_a_deletion_that_may_not_go() -> None:
    bench = Bench(absent())
    bench.lets_go = False
    assert await bench.reconcile() == (JUDGED, None)
    assert bench.log == ["counted NeedsProof", "applied Hold"]


@pytest.mark.parametrize("deleted", [False, True])
async def test_what_the_owner_still_has_is_no_deletion_and_is_counted_no_more(deleted: bool) -> None:
    """O5: unless it is about to go there."""
    bench = Bench(absent())
    bench.answer = source(deletionTimestamp="2026-01-01T00:00:00Z") if deleted else source()
    decision, _ = await bench.reconcile()
    assert isinstance(decision, Delete) == deleted
    assert ("withdrawn" in bench.log, "forgot the match" in bench.log) == (not deleted, not deleted)
    if not deleted:
        assert decision == Skip(Reason.NO_LONGER_MATCHES, OWNER)


@pytest.mark.clause("W3")
async def test_a_deletion_that_is_not_due_is_deferred_once_the_owner_is_known_to_have_its_source() -> None:
    lost = LostMatch(30.0, "2026-01-01T00:00:30Z")
    bench = Bench(absent(deletes_unwanted=True, lost_match=lost))
    bench.answer = source()
    assert (await bench.reconcile())[0] == Hold(Reason.MAY_MATCH_AGAIN, OWNER)
    assert [said for said in bench.log if said in ("deferred", "withdrawn")] == ["deferred"]
    bench.answer = NotFound("gone", names_object=True)
    assert (await bench.reconcile())[0] == Delete("here", 9, Reason.SOURCE_DELETED, OWNER)


async def test_what_the_owner_has_of_another_cluster_is_not_its_own() -> None:
    """O3, O5."""
    bench = Bench(absent())
    named = last_applied({"metadata": {"namespace": KEY.namespace, "name": KEY.name}})
    marks = {meta.OWNER: "11111111-1111-1111-1111-111111111111", meta.GO_LAST_APPLIED: named}
    bench.answer = source(annotations=marks)
    assert isinstance((await bench.reconcile())[0], Delete)


async def test_a_mark_that_names_nothing_does_not_prove_that_the_owners_object_is_gone() -> None:
    """O5, O11."""
    bench = Bench(absent())
    bench.answer = source(annotations={meta.OWNER: "11111111-1111-1111-1111-111111111111"})
    assert isinstance((await bench.reconcile())[0], Skip)


async def test_a_source_that_matches_again_is_waited_for() -> None:
    bench = Bench(absent())
    bench.answer, bench.wanted = source(), True
    assert await bench.reconcile() == (Hold(Reason.OWNER_NOT_HEARD, OWNER), None)
    assert "withdrawn" in bench.log


@pytest.mark.parametrize("is_connected", [False, True])
async def test_what_is_no_answer_proves_nothing_and_keeps_what_was_counted(is_connected: bool) -> None:
    """O5: a NotFound that does not name the object may be of the path, or of a proxy."""
    bench = Bench(absent())
    bench.is_connected, bench.answer = is_connected, NotFound("no such path")
    assert await bench.reconcile() == (Hold(Reason.NEEDS_PROOF, OWNER), None)
    assert "withdrawn" not in bench.log
    assert len([line for line in bench.log if line.startswith("asked")]) == is_connected


@pytest.mark.parametrize("failure", [Unreachable("it hangs"), Forbidden("no")])
async def test_an_owner_that_cannot_be_asked_is_an_error_of_that_object(failure: RegistryError) -> None:
    bench = Bench(absent())
    bench.answer = failure
    assert await bench.reconcile() == (Hold(Reason.NEEDS_PROOF, OWNER), failure)
    assert bench.log == ["counted NeedsProof", "asked about default/one"]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(absent(current=copy_of(TARGET, sync_disabled=True)), id="the copy is frozen now"),
        pytest.param(absent(current=copy_of(TARGET)._replace(uid="another")), id="it is another copy"),
        pytest.param(absent(current=None), id="the copy is gone"),
        pytest.param(claimed(7), id="its source is there again"),
        pytest.param(absent(tracking=Tracking.NOT_COMPLETE), id="its owner's list is incomplete now"),
        pytest.param(absent(alive=frozenset((LOCAL,))), id="its owner is silent now"),
        pytest.param(absent(rule_state=RuleState.GONE), id="its rule is gone"),
        pytest.param(absent(deletes_unwanted=True), id="its rule has another policy"),
    ],
)
async def test_an_answer_is_used_only_while_nothing_has_changed(changed: TargetState) -> None:
    """O5: it was asked for on another state; the key is looked at again."""
    bench = Bench(absent())

    def change() -> None:
        bench.state = changed

    bench.meanwhile = change
    decision, error = await bench.reconcile()
    assert (decision, type(error)) == (Hold(Reason.NEEDS_PROOF, OWNER), Conflict)
    assert bench.log == ["counted NeedsProof", "asked about default/one"]


async def test_a_write_of_the_copy_alone_does_not_ask_its_owner_again() -> None:
    """O5: a controller here may write it all the time. What is deleted is the copy as it is now."""
    bench = Bench(absent())

    def change() -> None:
        bench.state = absent(current=copy_of(TARGET)._replace(revision=10))

    bench.meanwhile = change
    decision, error = await bench.reconcile()
    assert isinstance(decision, Delete)
    assert (decision.revision, error) == (10, None)


async def test_an_older_state_is_taken_when_its_owner_has_no_other() -> None:
    """O3: which is no deletion, and needs no permission to be asked about."""
    bench = Bench(claimed(2))
    bench.answer = source(2)
    decision, _ = await bench.reconcile()
    assert (type(decision), decision.reason) == (Apply, Reason.HISTORY_RESTORED)
    bench.answer = source(8)
    assert await bench.reconcile() == (Hold(Reason.STALE_SOURCE, OWNER), None)


@pytest.mark.parametrize("content", [None, Content("ConfigMap team/one")])
async def test_a_container_is_looked_into_after_its_owner_was_asked(content: Content | None) -> None:
    """O1: and it goes only when it was found empty."""
    target = Target("", "Namespace", "", "team")
    bench = Bench(absent(target, current=copy_of(target)._replace(may_hold_content=True)))
    bench.content = content
    decision, _ = await bench.reconcile()
    assert bench.log[:3] == ["counted NeedsProof", "asked about team", "looked into team"]
    if content is not None:
        assert decision == Hold(Reason.CONTENT_REMAINS, OWNER)
        assert "withdrawn" in bench.log
    else:
        assert decision == Delete("here", 9, Reason.SOURCE_DELETED, OWNER)


async def test_a_copy_that_is_known_in_a_container_keeps_it_unread() -> None:
    """O1: while its kind is not served, too; and nothing counts as a deletion for the limit."""
    target = Target("", "Namespace", "", "team")
    bench = Bench(absent(target, current=copy_of(target)._replace(may_hold_content=True)))
    bench.known = Content("ConfigMap team/one")
    decision, error = await bench.reconcile()
    assert (decision, error) == (Hold(Reason.CONTENT_REMAINS, OWNER), None)
    assert "looked into team" not in bench.log
    assert "forgot team" not in bench.log
    assert "withdrawn" in bench.log


async def test_a_copy_that_comes_while_a_container_is_looked_into_keeps_it() -> None:
    """O1: the state has changed since the question, and is decided again."""
    target = Target("", "Namespace", "", "team")
    bench = Bench(absent(target, current=copy_of(target)._replace(may_hold_content=True)))

    def come() -> None:
        bench.known = Content("ConfigMap team/one")

    bench.meanwhile = come
    _, error = await bench.reconcile()
    assert type(error) is Conflict


async def test_what_was_seen_in_a_container_is_forgotten_while_it_is_not_to_go() -> None:
    target = Target("", "Namespace", "", "team")
    bench = Bench(absent(target, current=copy_of(target)._replace(may_hold_content=True))._replace(local_synced=False))
    decision, _ = await bench.reconcile()
    assert decision == Hold(Reason.LOCAL_NOT_HEARD)
    assert "forgot team" in bench.log


async def test_two_questions_are_asked_one_after_the_other_and_both_answers_count() -> None:
    """O3, O5: the copy's source is gone, and its successor looks older than what was here of it."""
    rival = ClusterUID("rival")
    claim = Claim(rival, rival, Voice.OWNER, KIND, ObjectKey("else", "two"), "u", "2027-01-01", 4, "rule", shown=6)
    members = frozenset((LOCAL, OWNER, rival))
    bench = Bench(absent(claims=(claim,), known=members, alive=members))
    metadata = {"namespace": "else", "name": "two", "uid": "u", "resourceVersion": "4"}
    there = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).encode()
    bench.owners.add(rival)
    bench.answers[claim.key] = there
    decision, _ = await bench.reconcile()
    assert (type(decision), decision.reason) == (Apply, Reason.HISTORY_RESTORED)
    assert [line for line in bench.log if line.startswith("asked")] == [
        "asked about default/one",
        "asked about else/two",
    ]


@pytest.mark.parametrize("failure", [Conflict("it changed"), RuntimeError("a bug, or a strange object")])
async def test_what_cannot_be_carried_out_is_part_of_the_result(failure: Exception) -> None:
    """A4."""
    bench = Bench(claimed(7))
    bench.failure = failure
    decision, error = await bench.reconcile()
    assert isinstance(decision, Apply)
    assert type(error) is (Conflict if isinstance(failure, Conflict) else Mistake)


@pytest.mark.parametrize("is_going", [True, False])
async def test_an_absent_cluster_is_no_proof_while_its_definition_is_going(is_going: bool) -> None:
    """O6: a member loses its Clusters one by one with their definition, its own one perhaps first."""
    target = Target(meta.GROUP, meta.CLUSTER.kind, "", "one")
    state = absent(target, membership=MembershipState(owner_leaves=True))
    current = state.current
    assert current is not None
    bench = Bench(
        state._replace(current=current._replace(natural=OWNER), copied_from=SourceRef(OWNER, meta.CLUSTER, target.key))
    )
    bench.is_going = is_going
    decision, _ = await bench.reconcile()
    assert isinstance(decision, Hold if is_going else Delete)


async def test_departures_hear_what_was_proven_about_a_cluster_and_nothing_before() -> None:
    """O6."""
    target = Target(meta.GROUP, meta.CLUSTER.kind, "", "one")
    state = absent(target, membership=MembershipState(owner_leaves=True))
    current = state.current
    assert current is not None
    bench = Bench(state._replace(current=current._replace(natural=OWNER)))
    bench.lets_go = False
    await bench.reconcile()
    assert not [line for line in bench.log if line.startswith("heard")]
    bench.lets_go = True
    await bench.reconcile()
    assert [line for line in bench.log if line.startswith("heard")] == ["heard OwnerLeft"]


@pytest.mark.clause("A7")
@pytest.mark.parametrize("is_behind", [False, True])
async def test_the_rules_are_listed_where_a_copy_is_of_a_later_state_of_its_rule(is_behind: bool) -> None:
    """It may be of another history, so that no event of the rule comes."""
    bench = Bench(absent(deletes_unwanted=True)._replace(is_rule_behind=is_behind))
    decision, _ = await bench.reconcile()
    assert (decision.reason is Reason.RULE_NOT_HEARD) == is_behind
    assert ("requested the rules" in bench.log) == is_behind
