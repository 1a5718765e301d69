"""From a key to its result: read the state, decide, count a deletion, ask for proof where it is needed, apply.

Laws: level-based, each key is decided afresh · no await between reading the caches and the Decision that rests on them
· a deletion is counted before its owner is asked, and each question is asked once · an answer is used only while
nothing but the copy's resourceVersion has changed since the question.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Container
from dataclasses import replace
from typing import Final, NamedTuple, NoReturn, Protocol

import msgspec

from registry_controller.api import meta
from registry_controller.api.errors import Conflict, Mistake, NotFound, RegistryError
from registry_controller.api.meta import GVK, ClusterUID, Target
from registry_controller.cache.source_index import Offer
from registry_controller.clusters.peer import Connection
from registry_controller.core.decision.decide import decide
from registry_controller.core.decision.decision import Apply, Decision, Delete, NeedsProof, Reason, Skip, deletion_in
from registry_controller.core.decision.marks import is_at_home, is_membership, read_marks
from registry_controller.core.decision.state import (
    OwnerAnswer,
    ProofResult,
    SourceRef,
    TargetState,
    Tracking,
    is_container,
)
from registry_controller.core.mutation.left_fields import LeftPath
from registry_controller.kube.discover import has_definition
from registry_controller.kube.watch import read_object
from registry_controller.membership.departures import Departures
from registry_controller.report.metrics import Metrics
from registry_controller.sync.container_copies import ContainerCopies
from registry_controller.sync.remaining_content import ContentFinder
from registry_controller.sync.state_reader import StateReader
from registry_controller.sync.workqueue import WorkQueue
from registry_controller.watch.fairness import EvaluationLimiter

_CREATABLE_S: Final = 0.05
ASK_TIMEOUT_S: Final = 10.0


class Judgment(NamedTuple):
    """A Decision, and the state that it was taken on; `offers` are the records behind the state's claims, in order."""

    state: TargetState
    offers: tuple[Offer, ...]
    decision: Decision


class Result(NamedTuple):
    """A decision that was carried out: an Apply that needed no write is a Skip.

    `losers` are the younger rules that make another copy of the same source (W2). `left` are the places of a rendered
    copy that its rule leaves to this cluster (A9). `lost` are wanted fields that the API server here does not store.
    """

    decision: Decision
    losers: tuple[str, ...] = ()
    left: tuple[LeftPath, ...] = ()
    lost: tuple[str, ...] = ()


class Reconciliation(msgspec.Struct, frozen=True):
    """The result of a key. Its decision is never a question; `error` is why it could not be carried out."""

    judgment: Judgment
    result: Result
    error: RegistryError | None = None


class Limiter(Protocol):
    """Counts deletions, and lets them go or holds them. `counted` are the targets whose deletion it counts now.

    Decisions that delete nothing, about other targets, do not concern it.
    """

    @property
    def counted(self) -> Container[Target]: ...

    def limit(self, target: Target, decision: Decision, *, rule: str, is_idle: bool = False) -> Decision:
        """Return the decision, or a Hold while it may not be carried out. `is_idle` means that no rule decided."""

    def withdraw(self, target: Target) -> None:
        """Stop counting a deletion that its proof has refuted."""

    def defer(self, target: Target) -> None:
        """Stop counting a deletion that is not due yet, unless the administrator has allowed it."""


class DecisionApplier(Protocol):
    """Carries decisions out."""

    async def apply(self, judgment: Judgment) -> Result:
        """Carry a decision out; RegistryError where it cannot be done now."""


class Reconciler:
    """Reconciles keys. `connection` returns a peer's, None while it is not connected.

    `request_rules` requests a list of the rules that are here: a copy may be of a later state of its rule.
    """

    def __init__(
        self,
        *,
        states: StateReader,
        content: ContentFinder,
        containers: ContainerCopies,
        connection: Callable[[ClusterUID], Connection | None],
        departures: Departures,
        evaluations: EvaluationLimiter,
        request_rules: Callable[[], None],
    ) -> None:
        self._states = states
        self._content = content
        self._containers = containers
        self._connection = connection
        self._departures = departures
        self._evaluations = evaluations
        self._request_rules = request_rules
        self._creatable_s: dict[tuple[ClusterUID, GVK], float] = {}

    async def reconcile(self, target: Target, *, limiter: Limiter, applier: DecisionApplier) -> Reconciliation:
        """Decide about a target and carry the decision out; an error is returned, not raised."""
        judgment = self.decide(target)
        decision = judgment.decision
        if isinstance(decision, Apply) and await self._evaluations.wait(decision.claim.kind):
            judgment = self.decide(target)  # other evaluations took long
        error: RegistryError
        try:
            judgment = await self._settle(judgment, limiter)
            result = await applier.apply(judgment)
        except RegistryError as raised:
            error = raised
        except Exception as raised:  # the source, or the rule, may be of another cluster
            error = Mistake.of(raised, path="spec.rules")
        else:
            return Reconciliation(judgment, result)
        judgment = _without_question(judgment)
        return Reconciliation(judgment, Result(judgment.decision), error)

    def decide(self, target: Target) -> Judgment:
        """Decide on the caches as they are now."""
        state, offers = self._read(target)
        return Judgment(state, offers, decide(state))

    def _read(self, target: Target) -> tuple[TargetState, tuple[Offer, ...]]:
        """Read the state of a target from the caches; of a container that is to go, with a copy that lives in it."""
        state, offers = self._states.read(target)
        if is_container(target) and deletion_in(decide(state)) is not None:
            found = self._containers.find(target)
            state = state if found is None else state.with_content(found)
        return state, offers

    async def prove(self, judgment: Judgment) -> Judgment:
        """Return the decision on the answers to a decision's questions, each asked once.

        The decision stays a question where there is no answer. Raises Conflict where the caches changed meanwhile; a
        write that leaves the copy's marks as they were changes its resourceVersion alone.
        """
        target, (state, offers, decision), revision = judgment.state.target, judgment, 0
        asked = set[OwnerAnswer | None]()
        while isinstance(decision, NeedsProof) and decision.expects not in asked:
            asked.add(decision.expects)
            proven = await self._ask(state, decision)
            now, offers = self._read(target)
            revision = now.current.revision if now.current is not None else 0
            if now != judgment.state.at(revision):
                raise Conflict(f"{target} changed while its proof was asked for; trying again")
            proven = proven.at(revision)
            is_as_expected = decision.expects is not None and decision.expects in proven.proofs
            state, decision = proven, decision.if_proven if is_as_expected else decide(proven)
        if any(answer.answer is ProofResult.FOUND for answer in state.proofs):
            self._states.forget_match(target)
        if isinstance(decision, Delete):
            decision = replace(decision, revision=revision)
        judgment = Judgment(state, offers, decision)
        self._record_member(judgment)
        return judgment

    async def _settle(self, judgment: Judgment, limiter: Limiter) -> Judgment:
        """Return the decision that may be carried out now: a deletion is counted first, and proven once it may go."""
        decision = judgment.decision
        if not isinstance(decision, NeedsProof):
            if decision.reason is Reason.RULE_NOT_HEARD:
                self._request_rules()  # no event may come: the copy may be of another history
            if decision.reason is Reason.CONTENT_REMAINS:
                limiter.withdraw(judgment.state.target)
            elif is_container(judgment.state.target):  # it is not to go
                self._content.forget(judgment.state.target)
                self._containers.forget(judgment.state.target)
            self._record_member(judgment)
            return _limit(judgment, limiter)
        counted = _limit(judgment, limiter)
        if counted.decision is not decision:
            if counted.decision.reason is Reason.DELETION_JUDGED:
                await self._look_at_definition(decision)
            return counted
        proven = await self.prove(counted)
        if proven.decision.reason is Reason.MAY_MATCH_AGAIN:
            limiter.defer(proven.state.target)
        elif not isinstance(proven.decision, NeedsProof | Delete):
            limiter.withdraw(proven.state.target)
        return _limit(_without_question(proven), limiter)

    async def _look_at_definition(self, question: NeedsProof) -> None:
        """Record whether the definition of a kind goes at its owner, while a deletion is counted."""
        source = question.expects.source if question.expects is not None else None
        connection = self._connection(source.owner) if source is not None else None
        if source is None or connection is None or not has_definition(source.kind):
            return
        kind = self._states.kind_read(source)
        with contextlib.suppress(RegistryError):  # the proof asks again
            if not await self._may_create(connection, kind, peer=source.owner):
                self._states.note_unserved(source)

    async def _may_create(self, connection: Connection, kind: GVK, *, peer: ClusterUID) -> bool:
        """Return whether a kind can be created at a peer, as the peer has answered a moment ago, or answers now."""
        now_s, place = asyncio.get_running_loop().time(), (peer, kind)
        if now_s - self._creatable_s.get(place, -_CREATABLE_S) < _CREATABLE_S:
            return True
        if not await connection.discovery.may_create(kind):
            return False
        self._creatable_s[place] = now_s
        return True

    def _record_member(self, judgment: Judgment) -> None:
        """Record a decision about a Cluster: its member may have left, or be back."""
        if judgment.state.target[:2] == meta.CLUSTER_KIND:
            self._departures.record_decision(_without_question(judgment).decision, judgment.state)

    async def _ask(self, state: TargetState, question: NeedsProof) -> TargetState:
        """Return the state with the answer to a question."""
        if question.expects is None:
            return state.with_content(await self._content.find(state.target))
        return state.with_proof(await self._ask_owner(state.target, question.expects.source))

    async def _ask_owner(self, target: Target, source: SourceRef) -> OwnerAnswer:
        """Read an object by name at its owner: only the owner's own NotFound is proof (O5)."""
        connection = self._connection(source.owner)
        if connection is None:
            return OwnerAnswer(source, ProofResult.NOT_ASKED)
        kind = self._states.kind_read(source)
        gvr = await connection.discovery.resolve(kind)
        try:
            obj = await read_object(connection.reader, gvr, source.key, kind=kind, timeout_s=ASK_TIMEOUT_S)
        except NotFound as error:
            if not error.names_object:
                return OwnerAnswer(source, ProofResult.NOT_ASKED)
            is_anew = has_definition(kind) and not await self._may_create(connection, kind, peer=source.owner)
            if is_anew and kind == meta.CLUSTER:  # a member loses its Clusters with their definition
                return OwnerAnswer(source, ProofResult.NOT_ASKED)
            return OwnerAnswer(source, ProofResult.NOT_FOUND, is_anew=is_anew)
        marks = read_marks(obj.annotations, of=Target(source.kind.group, source.kind.kind, *source.key))
        is_there = not obj.deleting and is_at_home(
            marks, peer=source.owner, membership=is_membership(source.kind, obj.kind_type)
        )
        if not is_there:
            return OwnerAnswer(source, ProofResult.NOT_FOUND, obj.revision)
        await self._evaluations.wait(kind)
        with self._evaluations.measure(kind):
            return OwnerAnswer(source, ProofResult.FOUND, obj.revision, self._states.wants(target, source, obj))


class ResultRecorder(Protocol):
    """Records results, and decides when a key comes back."""

    def record(self, target: Target, found: Reconciliation, queued_s: float) -> None:
        """Record the result of a key whose event was at `queued_s` of the loop's time."""


class Tracer(Protocol):
    """Makes a span for each reconcile."""

    async def trace(
        self, target: Target, waited_s: float, reconcile: Callable[[Target], Awaitable[Reconciliation]]
    ) -> Reconciliation:
        """Reconcile a key whose event was `waited_s` seconds ago, within a span."""


class WorkerPool:
    """The state that all worker tasks share. `reconcile` takes a key to its result, and raises nothing."""

    def __init__(
        self,
        *,
        queue: WorkQueue[Target],
        reconcile: Callable[[Target], Awaitable[Reconciliation]],
        recorder: ResultRecorder,
        metrics: Metrics,
        tracer: Tracer | None = None,
    ) -> None:
        self._queue = queue
        self._tracer = tracer
        self._reconcile = reconcile
        self._recorder = recorder
        self._metrics = metrics

    async def run(self) -> NoReturn:
        """Take keys from the queue, forever."""
        while True:
            target, queued_s = await self._queue.get()
            now = asyncio.get_running_loop().time()
            self._metrics.workqueue_latency_seconds.observe(now - queued_s)
            try:
                if self._tracer is None:
                    found = await self._reconcile(target)
                else:
                    found = await self._tracer.trace(target, now - queued_s, self._reconcile)
                self._recorder.record(target, found, queued_s)
            finally:
                self._queue.done(target)


def _limit(judgment: Judgment, limiter: Limiter) -> Judgment:
    if not isinstance(judgment.decision, Delete | NeedsProof) and judgment.state.target not in limiter.counted:
        return judgment
    origin = judgment.state.origin
    is_idle = isinstance(judgment.decision, Skip) and origin.tracking is Tracking.NO_RULE
    decision = limiter.limit(judgment.state.target, judgment.decision, rule=origin.rule, is_idle=is_idle)
    return judgment._replace(decision=decision)


def _without_question(judgment: Judgment) -> Judgment:
    """Replace a question without an answer by its Hold."""
    decision = judgment.decision
    return judgment._replace(decision=decision.if_unanswered) if isinstance(decision, NeedsProof) else judgment
