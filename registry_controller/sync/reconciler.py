"""Reach a Decision about one target: read the caches, decide, ask where that takes an answer, and decide again.

Law: no await between reading the caches and having the Decision that rests on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.errors import NotFound
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.clusters.peer import Connection
from registry_controller.core.decision.decide import decide
from registry_controller.core.decision.decision import Apply, Decision, Hold, Reason
from registry_controller.core.decision.ownership import is_at_home, is_membership, read_marks
from registry_controller.core.decision.state import OwnerAnswer, ProofResult, SourceRef, TargetState
from registry_controller.kube.connect import Reader
from registry_controller.kube.watch import read_object
from registry_controller.membership.departures import Departures
from registry_controller.sync.native_contents import holds_natives
from registry_controller.sync.state_reader import Offer, StateReader
from registry_controller.watch.fairness import EvaluationLimiter

ASK_TIMEOUT_S: Final = 10.0
_CLUSTER: Final = (meta.GROUP, meta.CLUSTER.kind)


class Judgment(NamedTuple):
    """A Decision, with what it was taken on; `offers` are what the view's claims come from, in their order."""

    view: TargetState
    offers: tuple[Offer, ...]
    decision: Decision


class Reconciler:
    """Decides. `home` is only read; `connection` finds that to a peer, None while there is none.

    `departures` hear what is decided about Clusters. What takes long takes `turns`.
    """

    def __init__(
        self,
        *,
        views: StateReader,
        home: Reader,
        connection: Callable[[ClusterUID], Connection | None],
        departures: Departures,
        turns: EvaluationLimiter,
    ) -> None:
        self._views = views
        self._home = home
        self._connection = connection
        self._departures = departures
        self._turns = turns

    def decide(self, target: Target) -> Judgment:
        """Decide on what the caches hold at this moment."""
        return self._decide(target, None)

    def is_due(self, member: ClusterUID, target: Target) -> bool:
        """Say whether a target is to be written here as a member itself has it."""
        decision = self.decide(target).decision
        return isinstance(decision, Apply) and decision.claim.peer == decision.claim.owner == member

    async def decide_with_proof(self, judgement: Judgment) -> Judgment:
        """Ask what a decision waits for, if it does, and decide on the caches as they are then."""
        target, decision, inquiry = judgement.view.target, judgement.decision, None
        if isinstance(decision, Hold) and decision.ask is not None:
            inquiry = await self._ask_owner(target, decision.ask)
            judgement = self._decide(target, inquiry)
        if judgement.decision.reason is Reason.MAY_HOLD_NATIVE_OBJECTS:
            found_empty = not await holds_natives(self._home, target)
            judgement = self._decide(target, inquiry, found_empty=found_empty)
        if (target.group, target.kind) == _CLUSTER:
            self._departures.hear(judgement.decision, judgement.view)
        return judgement

    def _decide(self, target: Target, inquiry: OwnerAnswer | None, *, found_empty: bool = False) -> Judgment:
        view, offers = self._views.read(target, inquiry, found_empty=found_empty)
        return Judgment(view, offers, decide(view))

    async def _ask_owner(self, target: Target, source: SourceRef) -> OwnerAnswer:
        """Ask an owner for one object by name: only its own NotFound is proof (O5)."""
        connection = self._connection(source.owner)
        if connection is None:
            return OwnerAnswer(source, ProofResult.NOT_ASKED)
        kind = self._views.kind_read(source)
        gvr = await connection.discovery.resolve(kind)
        try:
            obj = await read_object(connection.reader, gvr, source.key, kind=kind, timeout_s=ASK_TIMEOUT_S)
        except NotFound as error:
            return OwnerAnswer(source, ProofResult.NOT_FOUND if error.names_object else ProofResult.NOT_ASKED)
        marks = read_marks(obj.annotations, of=Target(source.kind.group, source.kind.kind, *source.key))
        is_there = not obj.deleting and is_at_home(
            marks, peer=source.owner, membership=is_membership(source.kind, obj.kind_type)
        )
        if not is_there:
            return OwnerAnswer(source, ProofResult.NOT_FOUND, obj.revision)
        await self._turns.wait(kind)
        with self._turns.spent(kind):
            return OwnerAnswer(source, ProofResult.FOUND, obj.revision, self._views.wants(target, source, obj))
