"""The laws that hold in every state, and at rest. They share no code with the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from registry_controller.core.decision.decision import Reason
from tests.explore.draft import Draft
from tests.explore.facts import Removal
from tests.explore.steps import Step
from tests.explore.world import ABSENCE, MEMBERS, NAMES, WAYS, Cluster, Ghost, put

RETURNS = "who has left comes back only by a new swap"
LIVES = "who lives is never removed"
COPIES = "no copy goes without an act of its owner, or of this cluster"
AGREE = "at rest all members agree"
WITHDRAWN = "nobody reads with credentials that were withdrawn"


class Breach(NamedTuple):
    """A broken law: what `who` does, or has, that is about `other`."""

    law: str
    who: int
    other: int
    words: str

    def __str__(self) -> str:
        return f"{self.law}: {self.words.format(who=NAMES[self.who], other=NAMES[self.other])}"


def check_step(step: Step, before: Draft, after: Draft) -> Breach | None:
    """Return the law that a step breaks; None for none. The ghost learns what was removed."""
    for who, removal in after.removals:
        if breach := _judge_removal(who, removal, before, after):
            return breach
    for who in MEMBERS:
        had, has = before.clusters[who].store.clusters, after.clusters[who].store.clusters
        for member in MEMBERS:
            held = has[member]
            is_new = had[member] is None and held is not None and member != who
            if not is_new or held is None or step.kind == "swap":
                continue
            if (who, member, held.membership) in after.ghost.removed:
                return Breach(RETURNS, who, member, "{other} is a member at {who} again")
    return None


def _judge_removal(who: int, removal: Removal, before: Draft, after: Draft) -> Breach | None:
    member, ghost = removal.member, after.ghost
    held = before.clusters[who].store.clusters[member]
    membership = removal.membership or (held.membership if held is not None else 0)
    law = LIVES if removal.membership else COPIES
    breach = Breach(law, who, member, f"{{who}} deletes what it has of {{other}} ({removal.reason.value})")
    if removal.reason is not Reason.OWNER_LEFT and removal.membership == 0:
        return breach
    if not (_has_left(who, ghost) or _may_go(who, member, membership, after)):
        return breach
    if removal.membership and not _has_left(who, ghost):
        after.ghost = ghost._replace(removed=ghost.removed | {(who, member, membership)})
    return None


def _has_left(who: int, ghost: Ghost) -> bool:
    return any(member == who for member, _ in ghost.farewells)


def _may_go(who: int, member: int, membership: int, after: Draft) -> bool:
    """Report whether a membership is over: by an act, or because its Cluster has been missing for long."""
    ghost = after.ghost
    has_left = any(one == member and last >= membership for one, last in ghost.farewells)
    if not membership or has_left or ghost.missing[member] == ABSENCE:
        return True
    is_over = (member, membership) in ghost.declared or any(gone[1:] == (member, membership) for gone in ghost.removed)
    mind = after.clusters[who].mind
    peer = mind.peers[member] if mind is not None else None
    own = after.clusters[member].store.clusters[member]
    is_heard = peer is not None and peer.is_alive and peer.is_connected
    return is_over and not (is_heard and own is not None and own.membership == membership)


def check_rest(clusters: list[Cluster], ghost: Ghost) -> Breach | None:
    """Return the law that a group breaks in which nothing happens any more; None for none."""
    return next(_differences(clusters, ghost), None)


def _differences(clusters: list[Cluster], ghost: Ghost) -> Iterator[Breach]:
    own = [cluster.store.clusters[who] for who, cluster in enumerate(clusters)]
    out = ghost.out()
    members = [who for who in MEMBERS if own[who] is not None and who not in out]
    groups = _groups(members, clusters, out | ghost.returned)
    for who, other in WAYS:
        store = clusters[who].store
        held, secret, theirs = store.clusters[other], store.secrets[other], own[other]
        if theirs is not None and groups.get(who) == groups.get(other) is not None:
            if held is None or secret is None or (held.membership, held.is_copy) != (theirs.membership, True):
                yield Breach(AGREE, who, other, "both are members, and {who} does not know {other} as it is")
            elif not store.copies[other]:
                yield Breach(AGREE, who, other, "both are members, and {who} lacks the copy of {other}'s object")
        elif own[who] is None:
            continue  # who has left waits for the members that it was not told to leave out
        elif theirs is None and _has_left(other, ghost) and (held is not None or store.copies[other]):
            yield Breach(AGREE, who, other, "{other} has left, and {who} has not removed it")
        accepted = clusters[other].store.secrets[other]
        if secret is not None and (accepted is None or accepted.token != secret.token):
            yield Breach(WITHDRAWN, who, other, "{who} has old credentials of {other}")


def _groups(members: list[int], clusters: list[Cluster], leavers: frozenset[int]) -> dict[int, int]:
    """Return the group of each member: who never left is in one, and so are two that know each other."""
    groups = {who: who for who in members}

    def knows(who: int, other: int) -> bool:
        held, own = clusters[who].store.clusters[other], clusters[other].store.clusters[other]
        return held is not None and own is not None and held.membership == own.membership

    for who, other in WAYS * len(MEMBERS):
        is_lasting = not leavers & {who, other}
        if who in groups and other in groups and (is_lasting or (knows(who, other) and knows(other, who))):
            groups[who] = groups[other] = min(groups[who], groups[other])
    return groups


def forget_joined(step: Step, ghost: Ghost) -> Ghost:
    """Return what the laws remember after a swap: who swaps is out no more."""
    if step.kind != "swap":
        return ghost
    both = {step.who, step.other}
    return Ghost(
        farewells=frozenset(one for one in ghost.farewells if one[0] not in both),
        declared=frozenset(one for one in ghost.declared if one[0] not in both),
        removed=frozenset(one for one in ghost.removed if one[1] not in both),
        missing=put(put(ghost.missing, step.who, None), step.other, None),
        returned=ghost.returned | (both & ghost.out()),
    )
