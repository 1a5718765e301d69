"""Decides about copies of Clusters and registry Secrets, which belong to their natural owner (O4, O7).

Laws: the local cluster's own objects are never replaced · a free target that is reserved is created from the membership
of the clusters for which it is reserved · an object that a person carried here stays until its natural owner is alive ·
a relay never deletes an object, and never brings an older state · no relay brings back a member that has left.

`left_after` returns which members have left, and which are back, after such a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID
from registry_controller.core.decision.decision import Apply, Decision, Delete, Hold, Reason, Skip, owner_of
from registry_controller.core.decision.marks import Voice
from registry_controller.core.decision.proof import apply_over, judge_absence
from registry_controller.core.decision.state import Claim, CurrentCopy, MembershipState, TargetState, Tracking
from registry_controller.core.rules.policy import Barrier

_PROVEN: Final = frozenset((Reason.OWNER_LEAVES, Reason.OWNER_LEFT))


def decide_membership(state: TargetState, member: MembershipState) -> Decision:
    """Decide about a Cluster or a registry Secret."""
    # A Cluster that waits for a finalizer in its own cluster is there until it is gone.
    offered = [claim for claim in state.claims if not claim.deleting or claim.voice is Voice.OWNER]
    claims = sorted((claim for claim in offered if not claim.has_left), key=lambda claim: claim.rank)
    current = state.current
    natural = current.natural if current is not None else None
    own = next((c for c in claims if c.voice is Voice.OWNER and natural in (None, c.owner)), None)
    if any(claim.voice is Voice.OURS for claim in claims) or (current is not None and current.natural == state.local):
        return Skip(Reason.OUR_OWN, state.local)
    if current is not None:
        return _decide_known_member(state, member, current, claims, own)
    if offered and (state.has_left or not claims):
        return Skip(Reason.OWNER_LEFT, offered[0].owner)
    if claims and all(claim.voice is Voice.DISPUTED for claim in claims):
        return Skip(Reason.DISPUTED)
    return _decide_new_member(state, member, claims, own)


def reserve(claim: Claim, clusters: frozenset[ClusterUID] | None, *, membership: bool) -> Claim:
    """Return a claim on a target that is for membership alone, with a barrier if it may not be applied there.

    A free target is for the membership of `clusters`; None where an object of membership is here. A claim of membership
    that is never applied keeps the reason for that.
    """
    is_theirs = membership and (clusters is None or claim.owner in clusters or claim.voice is Voice.DISPUTED)
    if is_theirs or claim.voice is Voice.OURS:
        return claim
    rivals = tuple(rival._replace(barrier=rival.barrier or Barrier.RESERVED) for rival in claim.rivals)
    return claim._replace(barrier=claim.barrier or Barrier.RESERVED, rivals=rivals)


def _decide_known_member(
    state: TargetState, member: MembershipState, current: CurrentCopy, claims: list[Claim], own: Claim | None
) -> Decision:
    """Decide about an object here that belongs to another member."""
    natural = current.natural
    if current.disputed:
        return Skip(Reason.DISPUTED)
    if current.marks.frozen:
        return Skip(Reason.COPY_FROZEN, current.marks.owner)
    heirs = member.successors - state.departed
    heir = _best_relayed([claim for claim in claims if claim.owner in heirs])
    if heir is not None and current.marks.is_copy and natural not in state.alive and natural != heir.owner:
        return Apply(heir, Reason.REBUILT)
    if natural is None and current.marks.owner is not None and current.marks.owner in state.departed:
        # Credentials that no Cluster here names: earlier ones may still lead to the member (P7), so its Cluster goes
        # first. That one goes last of all else, because it takes the connection with it.
        if member.has_cluster_here:
            return Hold(Reason.OWNER_LEAVES, current.marks.owner)
        return _remove(state, current, current.marks.owner)
    if natural is not None and natural in member.gone and current.marks.is_copy:
        return _on_own_tombstone(state, member, current, natural)
    if own is not None and own.owner in state.alive:  # an earlier state does not show how to reach it now
        if not current.marks.is_copy:
            return Apply(own, Reason.ADOPT)
        return apply_over(state, current, own) if current.marks.owner == own.owner else Apply(own, Reason.ADOPT)
    if not current.marks.is_copy:
        return Skip(Reason.HAND_CARRIED, current.natural)
    return _decide_absent_member(state, member, current, claims)


def _on_own_tombstone(
    state: TargetState, member: MembershipState, current: CurrentCopy, natural: ClusterUID
) -> Decision:
    """Delete the objects of a member that has left: its copies first, its credentials last."""
    if member.leaves_behind or state.target.group != meta.GROUP:
        return Hold(Reason.OWNER_LEAVES, natural)
    return _remove(state, current, natural)


def _remove(state: TargetState, current: CurrentCopy, owner: ClusterUID) -> Delete:
    is_order = state.has_left or owner in state.ordered
    return Delete(current.uid, current.revision, Reason.OWNER_LEFT, owner, is_order=is_order)


def _decide_new_member(state: TargetState, member: MembershipState, claims: list[Claim], own: Claim | None) -> Decision:
    if own is not None:
        return Skip(Reason.SYNC_DISABLED, own.owner) if own.sync_disabled else Apply(own, Reason.CREATE)
    relayed = _best_relayed(claims)
    if relayed is None:
        silent = any(claim.voice is Voice.SILENT for claim in claims)
        return Skip(Reason.NOT_NAMED if silent else Reason.NOT_WANTED)
    if relayed.owner in state.departed and (state.target.group != meta.GROUP or relayed.revision <= member.tombstone):
        return Skip(Reason.OWNER_LEFT, relayed.owner)  # a newer Cluster means that it is back
    has_another = (
        state.target.group == meta.GROUP and relayed.owner in state.known
    )  # under another name, so it is not missing
    if relayed.owner in state.alive or has_another:
        return Hold(Reason.OWNER_DECIDES, relayed.owner)
    if member.tombstone and relayed.revision <= member.tombstone:
        return Skip(Reason.NOT_NEWER, relayed.owner)
    return Skip(Reason.SYNC_DISABLED, relayed.owner) if relayed.sync_disabled else Apply(relayed, Reason.RELAYED)


def _is_missing_for_a_while(state: TargetState, member: MembershipState, current: CurrentCopy) -> bool:
    """Report whether an object that its live member needs is missing there, which is no departure.

    These are the member's own Cluster, and the Secret that the member's Cluster here names, or named before the Cluster
    was lost, or before it named another one that does not work yet.
    """
    if state.target.group == meta.GROUP:
        return not (member.owner_has_another or member.owner_leaves)
    return current.natural is not None or not member.has_cluster_here or member.needs_way


def relayed_claims(state: TargetState) -> list[Claim]:
    """List the relays' claims of the member whose registry Secret this is, the newest first."""
    current = state.current
    if current is None or not may_use_relayed(state):
        return []
    relayed = _relayed(claim for claim in state.claims if claim.owner == current.natural)
    return [claim for claim in relayed if not (claim.deleting or claim.has_left)]


def may_use_relayed(state: TargetState) -> bool:
    """Return whether relays' credentials may be tried in place of those in this registry Secret.

    A Secret that a person carried here or froze is used as it is.
    """
    current = state.current
    if current is None or current.natural is None:
        return False
    return current.marks.is_copy and not current.marks.frozen


def _best_relayed(claims: list[Claim]) -> Claim | None:
    return next(iter(_relayed(claims)), None)


def _relayed(claims: Iterable[Claim]) -> list[Claim]:
    """List the relays' claims, the newest first; the lower peer first among equals."""
    relayed = (claim for claim in claims if claim.voice is Voice.INTERMEDIARY)
    return sorted(relayed, key=lambda claim: (-claim.revision, claim.peer))


def _decide_absent_member(
    state: TargetState, member: MembershipState, current: CurrentCopy, claims: list[Claim]
) -> Decision:
    """Decide about a membership copy that its natural owner does not offer now."""
    owner = current.natural or current.marks.owner
    assert owner is not None
    if owner in state.alive:
        if state.origin.tracking is Tracking.NO_RULE:
            return Skip(Reason.NO_LONGER_WANTED, owner)
        if _is_missing_for_a_while(state, member, current):
            return Hold(Reason.MISSING_AT_OWNER, owner)
        held = judge_absence(state, owner)
        if held is None and member.owner_leaves and member.leaves_behind:
            return Hold(Reason.OWNER_LEAVES, owner)
        reason = Reason.OWNER_LEFT if member.owner_leaves else Reason.SOURCE_DELETED
        return held or Delete(current.uid, current.revision, reason, owner)
    relayed = _best_relayed([claim for claim in claims if claim.owner == owner])
    provenance = current.marks.provenance
    known = provenance.revision if provenance is not None and provenance.owner == owner else 0
    if relayed is not None and relayed.revision > known:
        return Apply(relayed, Reason.RELAYED)
    return Hold(Reason.OWNER_SILENT, owner)


def left_after(
    left: Mapping[ClusterUID, int],
    decision: Decision,
    state: TargetState,
    *,
    is_present: Callable[[ClusterUID], bool | None],
) -> Mapping[ClusterUID, int]:
    """Return the members that have left, each with the last known revision of its Cluster, after a decision on one.

    `is_present` returns whether a live member has a Cluster of itself; None while that is unknown.
    """
    if decision.reason in _PROVEN:
        member = owner_of(decision)
        is_gone = state.membership is not None and member in state.membership.gone
        if member is None or is_gone or (isinstance(decision, Skip) and member not in left):
            return left  # rests on a tombstone, which its author may withdraw
        known = state.current.marks.revision if state.current is not None else 0
        return {**left, member: max(known, left.get(member, 0))}
    member = state.current.natural if state.current is not None else owner_of(decision)
    if member is None or not (isinstance(decision, Apply) or is_present(member)):
        return left  # no proof: another Cluster with its ID, which a person created here, proves nothing
    return {known: revision for known, revision in left.items() if known != member}
