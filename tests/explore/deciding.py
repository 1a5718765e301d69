"""What one daemon of the abstract network decides about a member's Cluster, registry Secret and object.

Called: `decide`, with all that it calls, `voice_of_membership` and `Departures.record_decision`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID
from registry_controller.core.decision.decide import decide
from registry_controller.core.decision.decision import Apply, Decision, Delete, NeedsProof, Reason
from registry_controller.core.decision.ownership import NATIVE, Voice, natural_of_secret, voice_of_membership
from registry_controller.core.decision.state import (
    Claim,
    CurrentCopy,
    MembershipState,
    Origin,
    OwnerAnswer,
    ProofResult,
    RuleState,
    SourceRef,
    TargetState,
    Tracking,
)
from registry_controller.core.decision.tombstones import Leavers
from registry_controller.membership.departures import Departures
from tests.explore.facts import (
    CONFIG_MAP,
    IDS,
    NUMBERS,
    Facts,
    Removal,
    key_of,
    marks_of,
    target_of,
    uid_of,
)
from tests.explore.world import (
    Credentials,
    Held,
    put,
)


class _Present:
    """Tells `Departures` whether a live member has its own Cluster."""

    def __init__(self, daemon: Deciding) -> None:
        self._daemon = daemon

    def is_present(self, member: ClusterUID) -> bool | None:
        facts = self._daemon.own_facts(NUMBERS[member])
        return facts.has_own if facts.is_heard else None

    def on_departure(self, member: ClusterUID) -> None:
        """Nothing waits here."""


class Deciding(Facts):
    """The decisions of one daemon."""

    def decide_all(self, member: int, found: Leavers, removals: list[Removal]) -> bool:
        """Decide about a member's objects here, until one is written; the same facts are judged once."""
        key = self._facts_about(member, found)
        outcome = _OUTCOMES.get(key)
        if outcome is None:
            removed: list[Removal] = []
            is_changed = (
                self._decide_copy(member, found, removed)
                or self._decide_cluster(member, found, removed)
                or self._decide_secret(member, found)
            )
            here = tuple(values[member] for values in (self.store.clusters, self.store.secrets, self.store.copies))
            _OUTCOMES[key] = (is_changed, here, self.mind.left, tuple(removed))
            removals += removed
            return is_changed
        is_changed, here, left, removed_before = outcome
        removals += removed_before
        self.mind = self.mind._replace(left=left)
        if is_changed:
            cluster, secret, copy = here
            self.store = self.store._replace(
                clusters=put(self.store.clusters, member, cluster),
                secrets=put(self.store.secrets, member, secret),
                copies=put(self.store.copies, member, copy),
            )
        return is_changed

    def _facts_about(self, member: int, found: Leavers) -> Hashable:
        """Return everything that decisions about a member's objects read."""
        uid, store, mind = IDS[member], self.store, self.mind
        peers = tuple(
            None
            if peer is None
            else (
                peer.is_alive,
                peer.is_connected,
                peer.absence if number == member else None,
                any(peer.view.clusters) if number == member and peer.view is not None else None,
                (peer.view.clusters[member], peer.view.secrets[member]) if peer.view is not None else None,
            )
            for number, peer in enumerate(mind.peers)
        )
        return (
            self.who, member, store.clusters[member], store.secrets[member], store.copies[member],
            tuple(held is None for held in store.clusters), peers, mind.left, mind.deleted_at[member],
            self.truths[member], found.gone, found.ordered, found.has_left, found.known.get(uid), found.over.get(uid),
            found.stones.get(uid), found.former.get(uid),
            frozenset(found.known),
        )  # fmt: skip

    def _alive(self) -> frozenset[ClusterUID]:
        return frozenset(IDS[number] for number, peer in self.peers() if peer.is_alive)

    def _known(self) -> frozenset[ClusterUID]:
        return frozenset(IDS[member] for member, held in enumerate(self.store.clusters) if held is not None)

    def _state(self, kind: GVK, member: int, found: Leavers, **facts: Any) -> TargetState:
        """Return the state of a target; `facts` are those that its kind has, and another one has not."""
        membership, known = facts.get("membership"), self._known()
        departed = membership.gone if membership is not None else found.gone & known & found.known.keys()
        departed |= {IDS[left] for left, _ in self.mind.left}
        if facts["current"] is not None and found.has_left and (owner := facts["current"].marks.owner):
            departed = departed if owner in known else departed | {owner}
        return TargetState(
            target=target_of(kind, member),
            local=IDS[self.who],
            known=known,
            alive=self._alive(),
            departed=departed,
            ordered=found.ordered,
            has_left=found.has_left,
            copied_from=SourceRef(IDS[member], kind, key_of(kind, member)) if facts["current"] is not None else None,
            **facts,
        )

    def _origin(self, member: int, *, is_offered: bool, owner_leaves: bool = False) -> Origin:
        peer = self.mind.peers[member]
        is_complete = peer is not None and peer.view is not None
        tracking = Tracking.ABSENT if is_complete else Tracking.NOT_COMPLETE
        if is_complete and is_offered:
            tracking = Tracking.OFFERED
        return Origin(
            rule="rule",
            tracking=Tracking.ABSENT if owner_leaves else tracking,
            offered_at=1 if is_offered else 0,
            rule_state=RuleState.READS if is_complete else RuleState.SILENT,
            deletes_unwanted=True,
        )

    def _claim(self, kind: GVK, member: int, peer: int, voice: Voice, **facts: Any) -> Claim:
        return Claim(
            peer=IDS[peer], owner=IDS[member], voice=voice, kind=kind, key=key_of(kind, member),
            created="2026-01-01T00:00:00Z", rule="rule", **facts,
        )  # fmt: skip

    def _decide_copy(self, member: int, found: Leavers, removals: list[Removal]) -> bool:
        """Decide about the copy of a member's object, which stays there for ever."""
        peer, is_here = self.mind.peers[member], self.store.copies[member]
        is_offered = peer is not None and peer.view is not None
        claims = (self._claim(CONFIG_MAP, member, member, Voice.OWNER, uid="o", revision=1),) if is_offered else ()
        current = CurrentCopy(marks_of(CONFIG_MAP, member, 1, 1), "copy", 1) if is_here else None
        origin = self._origin(member, is_offered=is_offered)
        state = self._state(CONFIG_MAP, member, found, claims=claims, current=current, origin=origin)
        decision = self._prove(decide(state), state, has_it=True)
        is_wanted = is_here if not isinstance(decision, Apply | Delete) else isinstance(decision, Apply)
        if isinstance(decision, Delete) and is_here:
            removals.append(Removal(member, 0, decision.reason))
        self.store = self.store._replace(copies=put(self.store.copies, member, is_wanted))
        return is_wanted != is_here

    def _decide_cluster(self, member: int, found: Leavers, removals: list[Removal]) -> bool:
        held = self.store.clusters[member]
        claims = tuple(self._cluster_claims(member, found))
        current = None
        if held is not None:
            marks = marks_of(meta.CLUSTER, member, held.membership, held.revision) if held.is_copy else NATIVE
            current = CurrentCopy(marks, "cluster", 1, natural=IDS[member])
        if not claims and current is None:
            return False
        membership = self._of_cluster(member, held, found)
        state = self._state(meta.CLUSTER, member, found, claims=claims, current=current, membership=membership)
        offered = any(claim.voice is Voice.OWNER for claim in claims)
        origin = self._origin(member, is_offered=offered, owner_leaves=membership.owner_leaves)
        state = state._replace(origin=origin)
        truth = self.truths[member]
        decision = self._prove(decide(state), state, has_it=truth is not None and truth.has_cluster)
        self._record(decision, state)
        if isinstance(decision, Delete) and held is not None:
            removals.append(Removal(member, held.membership, decision.reason))
            self.store = self.store._replace(clusters=put(self.store.clusters, member, None))
        elif isinstance(decision, Apply):
            wanted = self._offered_cluster(decision.claim, member)
            is_ready = held is not None and held.is_ready
            self.store = self.store._replace(
                clusters=put(self.store.clusters, member, wanted._replace(is_copy=True, is_ready=is_ready))
            )
        return self.store.clusters[member] != held

    def _offered_cluster(self, claim: Claim, member: int) -> Held:
        peer = self.mind.peers[NUMBERS[claim.peer]]
        assert peer is not None
        assert peer.view is not None
        offered = peer.view.clusters[member]
        assert offered is not None
        return offered

    def _cluster_claims(self, member: int, found: Leavers) -> Iterator[Claim]:
        for number, peer in self.peers():
            offered = peer.view.clusters[member] if peer.view is not None else None
            if offered is None:
                continue
            voice = voice_of_membership({IDS[member]}, peer=IDS[number], local=IDS[self.who])
            is_known = voice is not Voice.INTERMEDIARY or offered.is_copy
            membership = uid_of(member, offered.membership) if is_known else ""
            revision = offered.revision if is_known else 0
            yield self._claim(
                meta.CLUSTER, member, number, voice,
                uid=uid_of(member, offered.membership),
                revision=revision,
                has_left=voice is Voice.INTERMEDIARY and found.bars(IDS[member], membership, revision),
            )  # fmt: skip

    def _of_cluster(self, member: int, held: Held | None, found: Leavers) -> MembershipState:
        gone = found.gone
        if held is not None and not found.takes(IDS[member], self.membership(member, held) or ""):
            gone -= {IDS[member]}
        facts = self.own_facts(member)
        leaves = self.has_lasted(member, by_itself=True) and facts.is_heard and not facts.has_own
        return MembershipState(
            tombstone=max(self.mind.deleted_at[member], dict(self.mind.left).get(member, 0)),
            gone=gone,
            owner_is_present=facts.is_heard and facts.has_own,
            owner_leaves=held is not None and leaves,
            leaves_behind=(leaves or IDS[member] in gone) and self.store.copies[member],
        )

    def _record(self, decision: Decision, state: TargetState) -> None:
        """Let the daemon's own class record which members have left."""
        tells: Any = _Present(self)
        nothing: Any = None
        departures = Departures(copies=nothing, absences=tells, rule_states=nothing, observer=tells)
        departures.left = {IDS[member]: revision for member, revision in self.mind.left}
        departures.record_decision(decision, state)
        left: Mapping[ClusterUID, int] = departures.left
        self.mind = self.mind._replace(left=frozenset((NUMBERS[uid], revision) for uid, revision in left.items()))

    def secret_state(self, member: int, found: Leavers) -> TargetState:
        """Return the state of a member's registry Secret."""
        held, current = self.store.secrets[member], None
        is_named = self.store.clusters[member] is not None
        if held is not None:
            marks = marks_of(meta.SECRET, member, 1, held.token) if held.is_copy else NATIVE
            current = CurrentCopy(marks, "secret", 1, natural=IDS[member] if is_named else None)
        membership = MembershipState(gone=found.gone, has_cluster_here=is_named)
        claims = tuple(self._secret_claims(member, found))
        origin = self._origin(member, is_offered=any(claim.voice is Voice.OWNER for claim in claims))
        return self._state(
            meta.SECRET, member, found, claims=claims, current=current, membership=membership, origin=origin
        )

    def _decide_secret(self, member: int, found: Leavers) -> bool:
        held = self.store.secrets[member]
        state = self.secret_state(member, found)
        if not state.claims and state.current is None:
            return False
        truth = self.truths[member]
        decision = self._prove(decide(state), state, has_it=truth is not None and truth.has_secret)
        if isinstance(decision, Delete):
            self.put_secret(member, None)
        elif isinstance(decision, Apply) and not (held is not None and decision.reason is Reason.RELAYED):
            peer = self.mind.peers[NUMBERS[decision.claim.peer]]
            assert peer is not None
            assert peer.view is not None
            offered = peer.view.secrets[member]
            assert offered is not None
            self.put_secret(member, offered._replace(is_copy=True))
        return self.store.secrets[member] != held

    def _secret_claims(self, member: int, found: Leavers) -> Iterator[Claim]:
        is_named = self.store.clusters[member] is not None
        for number, peer in self.peers():
            offered = peer.view.secrets[member] if peer.view is not None else None
            if peer.view is None or offered is None:
                continue
            natural = natural_of_secret(
                frozenset({IDS[member]} if is_named else ()),
                frozenset({IDS[member]} if peer.view.clusters[member] is not None else ()),
                peer=IDS[number],
            )
            voice = voice_of_membership(natural, peer=IDS[number], local=IDS[self.who])
            is_known = voice is not Voice.INTERMEDIARY or offered.is_copy
            yield self._claim(
                meta.SECRET, member, number, voice,
                uid="secret",
                revision=offered.token if is_known else 0,
                has_left=voice is Voice.INTERMEDIARY and found.bars(IDS[member], "", 0),
            )  # fmt: skip

    def put_secret(self, member: int, held: Credentials | None) -> None:
        self.store = self.store._replace(secrets=put(self.store.secrets, member, held))

    def _prove(self, decision: Decision, state: TargetState, *, has_it: bool) -> Decision:
        """Ask the owner where the decision needs it; without an answer nothing is done."""
        if not isinstance(decision, NeedsProof) or decision.expects is None:
            return decision
        if self.truths[NUMBERS[decision.owner]] is None:
            return decision.if_unanswered
        answer = ProofResult.FOUND if has_it else ProofResult.NOT_FOUND
        return decide(state.with_proof(OwnerAnswer(decision.expects.source, answer, revision=1, wanted=has_it)))


_OUTCOMES: dict[Hashable, tuple[bool, tuple[Any, ...], frozenset[tuple[int, int]], tuple[Removal, ...]]] = {}
