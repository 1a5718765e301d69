"""What one daemon of the abstract network decides about copies: of the rule, and of the members' objects by the rule.

Called: `decide` with all that it calls, `evaluate_rule`, `evaluate_missing`, `is_to_record` and `voice_of`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID
from registry_controller.core.decision.decide import decide
from registry_controller.core.decision.decision import Apply, Decision, Delete, NeedsProof
from registry_controller.core.decision.deleted_rule import is_to_record
from registry_controller.core.decision.marks import NATIVE, Voice, voice_of
from registry_controller.core.decision.rule_state import RuleFacts, evaluate_missing, evaluate_rule
from registry_controller.core.decision.state import (
    Claim,
    CurrentCopy,
    Origin,
    OwnerAnswer,
    ProofResult,
    RuleState,
    SourceRef,
    TargetState,
    Tracking,
)
from registry_controller.core.decision.tombstones import Leavers
from tests.explore.called import CONFIG_MAP, CREATED, IDS, NUMBERS, RULE, Removal, key_of, marks_of, target_of
from tests.explore.facts import Facts
from tests.explore.world import Rule, put


class Copying(Facts):
    """The decisions of one daemon about copies."""

    def _state(self, kind: GVK, member: int, found: Leavers, *, number: int = 1, **facts: Any) -> TargetState:
        """Return the state of a target; `facts` are those that its kind has, and another one has not."""
        membership, known = facts.get("membership"), self._known()
        departed = membership.gone if membership is not None else found.gone & known & found.known.keys()
        departed |= {IDS[left] for left, _ in self.mind.left}
        if facts["current"] is not None and found.has_left and (owner := facts["current"].marks.owner):
            departed = departed if owner in known else departed | {owner}
        source = SourceRef(IDS[member], kind, key_of(kind, member, number))
        return TargetState(
            target=target_of(kind, member, number),
            local=IDS[self.who],
            known=known,
            alive=self._alive(),
            departed=departed,
            ordered=found.ordered,
            has_left=found.has_left,
            copied_from=source if facts["current"] is not None else None,
            **facts,
        )

    def _alive(self) -> frozenset[ClusterUID]:
        return frozenset(IDS[number] for number, peer in self.peers() if peer.is_alive)

    def _known(self) -> frozenset[ClusterUID]:
        return frozenset(IDS[member] for member, held in enumerate(self.store.clusters) if held is not None)

    def _is_heard(self, member: int) -> bool:
        peer = self.mind.peers[member]
        return peer is not None and peer.view is not None

    def _origin(self, member: int, *, is_offered: bool, owner_leaves: bool = False, **facts: Any) -> Origin:
        """Return the facts about a copy that a rule reads which always acts, as the core rules do."""
        is_heard = self._is_heard(member)
        tracking = Tracking.ABSENT if is_heard else Tracking.NOT_COMPLETE
        if is_heard and is_offered:
            tracking = Tracking.OFFERED
        return Origin(
            rule="rule",
            tracking=Tracking.ABSENT if owner_leaves else tracking,
            offered_at=1 if is_offered else 0,
            rule_state=RuleState.READS if is_heard else RuleState.SILENT,
            **facts,
        )

    def _claim(self, kind: GVK, member: int, peer: int, voice: Voice, *, number: int = 1, **facts: Any) -> Claim:
        return Claim(
            peer=IDS[peer], owner=IDS[member], voice=voice, kind=kind, key=key_of(kind, member, number),
            created=CREATED, rule="rule", **facts,
        )  # fmt: skip

    def _prove(self, decision: Decision, state: TargetState, *, has_it: bool) -> Decision:
        """Ask the owner where the decision needs it; without an answer nothing is done.

        The owner never answers with an earlier state: no history is restored here.
        """
        if not isinstance(decision, NeedsProof) or decision.expects is None:
            return decision
        if self.truths[NUMBERS[decision.owner]] is None:
            return decision.if_unanswered
        answer = ProofResult.FOUND if has_it else ProofResult.NOT_FOUND
        return decide(state.with_proof(OwnerAnswer(decision.expects.source, answer, revision=0, wanted=has_it)))

    # The copies of the members' objects, which stay there for ever.

    def _decide_copy(self, member: int, found: Leavers, removals: list[Removal]) -> bool:
        """Decide about the copy of a member's object."""
        made_by, acting = self.store.copies[member], self.mind.acting
        is_offered = acting is not None and self._is_heard(member)
        if made_by is None and not is_offered:
            return False
        claims = (self._claim(CONFIG_MAP, member, member, Voice.OWNER, uid="o", revision=1),) if is_offered else ()
        marks = marks_of(CONFIG_MAP, member, "o", 1, rule=made_by) if made_by is not None else NATIVE
        current = CurrentCopy(marks, "copy", 1) if made_by is not None else None
        origin = self._origin_of_copy(member, made_by) if made_by is not None else Origin()
        state = self._state(CONFIG_MAP, member, found, claims=claims, current=current, origin=origin)
        decision = self._prove(decide(state), state, has_it=True)
        after = made_by
        if isinstance(decision, Delete) and made_by is not None:
            removals.append(Removal(member, 0, decision.reason, made_by.uid))
            after = None
        elif isinstance(decision, Apply) and acting is not None:
            after = acting._replace(is_copy=True)
        self.store = self.store._replace(copies=put(self.store.copies, member, after))
        return after != made_by

    def _origin_of_copy(self, member: int, made_by: Rule) -> Origin:
        peer, is_heard = self.mind.peers[member], self._is_heard(member)
        acting, facts = self.mind.acting, RuleFacts(is_here=False)
        if acting is not None:
            selects = True if is_heard and peer is not None and peer.is_alive else None
            facts = RuleFacts(is_here=True, acts=True, selects_us=True, selects_owner=selects)
        if acting is None or acting.home != made_by.home:
            presence, was_deleted = self.evaluate_rule(made_by)
            facts = facts._replace(is_foreign=acting is not None, presence=presence, was_deleted=was_deleted)
        tracking = Tracking.OFFERED if is_heard else Tracking.NOT_COMPLETE
        return Origin(
            rule=RULE,
            tracking=tracking if self.mind.acting is not None else Tracking.NO_RULE,
            offered_at=1 if is_heard else 0,
            rule_state=evaluate_rule(facts),
            deletes_unwanted=True,
        )

    # The rule.

    def decide_rule(self, found: Leavers, removals: list[Removal]) -> bool:
        """Decide about the rule and the record of deleted ones; the same facts are judged once."""
        key = self._facts_about_rule(found)
        outcome = _OUTCOMES.get(key)
        if outcome is None:
            removed: list[Removal] = []
            is_changed = self._decide_rule(found, removed)
            outcome = _OUTCOMES[key] = (is_changed, self.store.rule, self.store.record, tuple(removed))
        is_changed, rule, record, removed_before = outcome
        removals += removed_before
        if is_changed:
            self.store = self.store._replace(rule=rule, record=record)
        return is_changed

    def _facts_about_rule(self, found: Leavers) -> Hashable:
        """Return everything that the decision about the rule reads."""
        store, mind = self.store, self.mind
        peers = tuple(
            None
            if peer is None
            else (peer.is_alive, peer.seen, peer.record, peer.view.rule if peer.view is not None else _UNHEARD)
            for peer in mind.peers
        )
        rules = tuple(None if truth is None else truth.rule for truth in self.truths)
        return (
            self.who, store.rule, store.record, store.copies, tuple(held is None for held in store.clusters), peers,
            mind.running, mind.acting, mind.seen, mind.left, rules, found.gone, found.ordered, found.has_left,
            frozenset(found.known),
        )  # fmt: skip

    def _decide_rule(self, found: Leavers, removals: list[Removal]) -> bool:
        """Decide about the copy of the rule, and keep the record of deleted rules; return whether one changed."""
        traces = self.traces(Rule(self.who, 0, is_copy=False))
        others = traces._replace(was_in_definition=False)
        recorded = {uid for uid, _ in self.mind.seen if is_to_record(others._replace(uid=f"r{uid}"))}
        recorded |= {
            made.uid
            for made in self.store.copies
            if made is not None and made.home == self.who and is_to_record(self.traces(made))
        }
        if not recorded <= self.store.record:
            self.store = self.store._replace(record=self.store.record | recorded)
            return True
        stored = self.store.rule
        offered = [number for number, peer in self.peers() if peer.view is not None and peer.view.rule is not None]
        home = stored.home if stored is not None else next((number for number in offered), None)
        if home is None or home == self.who:
            return False
        if stored is None and self.mind.acting is not None and self.mind.acting.home == self.who:
            return False  # the rule that went a moment ago keeps its name
        claims = [claim for number in offered if (claim := self._rule_claim(number)) is not None]
        marks = marks_of(meta.RULE, home, f"r{stored.uid}", stored.uid) if stored is not None else NATIVE
        current = CurrentCopy(marks, "rule", 1) if stored is not None else None
        is_offered = any(claim.voice is Voice.OWNER for claim in claims)
        source_rule = None
        if stored is not None:
            presence, was_deleted = self.evaluate_rule(stored)
            source_rule = evaluate_missing(presence, was_deleted=was_deleted)
        origin = self._origin(home, is_offered=is_offered, source_rule=source_rule)
        state = self._state(meta.RULE, home, found, claims=tuple(claims), current=current, origin=origin)
        truth = self.truths[home]
        decision = self._prove(decide(state), state, has_it=truth is not None and truth.rule > 0)
        after = stored
        if isinstance(decision, Delete) and stored is not None:
            removals.append(Removal(home, 0, decision.reason, stored.uid, is_rule=True))
            after = None
        elif isinstance(decision, Apply):
            peer = self.mind.peers[NUMBERS[decision.claim.peer]]
            assert peer is not None
            assert peer.view is not None
            assert peer.view.rule is not None
            after = peer.view.rule._replace(is_copy=True)
        self.store = self.store._replace(rule=after)
        return after != stored

    def _rule_claim(self, number: int) -> Claim | None:
        peer = self.mind.peers[number]
        assert peer is not None
        assert peer.view is not None
        rule = peer.view.rule
        if rule is None:
            return None
        marks = marks_of(meta.RULE, rule.home, f"r{rule.uid}", rule.uid) if rule.is_copy else NATIVE
        voice = voice_of(marks, peer=IDS[number], local=IDS[self.who])
        return self._claim(meta.RULE, number, number, voice, uid=f"r{rule.uid}", revision=rule.uid)


_UNHEARD: Final = "unheard"
_OUTCOMES: dict[Hashable, tuple[bool, Rule | None, frozenset[int], tuple[Removal, ...]]] = {}
