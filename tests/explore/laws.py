"""The laws that hold in every state, and at rest. They share no code with the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from registry_controller.core.decision.decision import Reason
from tests.explore.called import Removal
from tests.explore.draft import Draft
from tests.explore.steps import Step
from tests.explore.world import ABSENCE, MEMBERS, MOMENT, NAMES, TICKS, WAYS, WINDOW, Cluster, Ghost, put

RETURNS = "who has left comes back only by a new swap"
LIVES = "who lives is never removed"
COPIES = "no copy goes without an act of its owner, of its rule's home or of this cluster"
DWELL = "what is deleted and made again in a moment was not deleted"
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
    if TICKS.get(step.kind, MOMENT) > MOMENT and (breach := next(_refused_ways(before, after), None)):
        return breach
    return None if step.kind == "swap" else next(_unnamed_secrets(before, after), None)


def _refused_ways(before: Draft, after: Draft) -> Iterator[Breach]:
    """Find readers whose token was refused before time passed, and who read on."""
    for who, member in WAYS:
        way, accepted = after.ways[who, member], after.token(member)
        is_read = way.is_open and not way.cut and before.token(member) == accepted
        if is_read and accepted not in _tokens(who, member, before) | _tokens(who, member, after):
            yield Breach(WITHDRAWN, who, member, "{who} reads {other} with credentials that were withdrawn")


def _tokens(who: int, member: int, found: Draft) -> set[int]:
    """Return the tokens for a member that a cluster has, or that others show it."""
    store, mind = found.clusters[who].store, found.clusters[who].mind
    views = [peer.view for peer in mind.peers if peer is not None] if mind is not None else []
    return {known.token for one in (store, *views) if one is not None for known in one.secrets[member]}


def _unnamed_secrets(before: Draft, after: Draft) -> Iterator[Breach]:
    """Find Secrets that came though no Cluster here names them, and their member does not show them (O4)."""
    for who, member in WAYS:
        had, now = before.clusters[who].store, after.clusters[who]
        if now.store == had:
            continue
        held, mind = now.store.clusters[member], now.mind
        peer = mind.peers[member] if mind is not None else None
        shown = peer.view.secrets[member] if peer is not None and peer.view is not None else ()
        known = {found.name for found in (*had.secrets[member], *shown)} | (
            {held.secret} if held is not None else set()
        )
        if any(found.name not in known for found in now.store.secrets[member]):
            yield Breach(WITHDRAWN, who, member, "{who} takes a Secret of {other} that only another member has")


def _judge_removal(who: int, removal: Removal, before: Draft, after: Draft) -> Breach | None:
    member, ghost = removal.member, after.ghost
    held = before.clusters[who].store.clusters[member]
    membership = removal.membership or (held.membership if held is not None else 0)
    law = LIVES if removal.membership else COPIES
    breach = Breach(law, who, member, f"{{who}} deletes what it has of {{other}} ({removal.reason.value})")
    if removal.membership == 0 and removal.reason is not Reason.OWNER_LEFT:
        is_of_rule = removal.reason is (Reason.SOURCE_DELETED if removal.is_rule else Reason.RULE_GONE)
        ages = [one.age for one in ghost.ended if one.uid == removal.rule]
        if not is_of_rule or not ages:
            return breach
        words = "{who} deletes what the rule of {other} made before it is known that the rule stays away"
        return Breach(DWELL, who, member, words) if max(ages) < WINDOW else None
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
    ended = ghost.farewells | (ghost.earlier if membership else frozenset())  # O6: and earlier ones
    has_left = any(one == member and last >= membership for one, last in ended)
    if has_left or ghost.missing[member] == ABSENCE:
        return True
    if not membership:  # its Cluster is not here any more
        return member in ghost.out()
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
    joining = out | ghost.joining
    groups = _groups(members, clusters, joining)
    for who, other in WAYS:
        if not _is_lost(who, other, clusters):
            may_know = not joining & {who, other} or _may_hear(who, other, clusters)
            is_one_group = own[other] is not None and groups.get(who) == groups.get(other) is not None and may_know
            yield from _judge_member(who, other, clusters, ghost, is_one_group=is_one_group)
    if ghost.home in groups:
        for who in MEMBERS:
            may_know = not joining & {who, ghost.home} or who == ghost.home or _may_hear(who, ghost.home, clusters)
            if groups.get(who) == groups[ghost.home] and may_know and not _is_lost(who, ghost.home, clusters):
                yield from _judge_rule(who, ghost.home, clusters, ghost)


def _judge_member(
    who: int, other: int, clusters: list[Cluster], ghost: Ghost, *, is_one_group: bool
) -> Iterator[Breach]:
    store, theirs = clusters[who].store, clusters[other].store.clusters[other]
    held, has_secret = store.clusters[other], bool(store.secrets[other])
    if is_one_group and theirs is not None:
        if held is None or not has_secret or (held.membership, held.is_copy) != (theirs.membership, True):
            yield Breach(AGREE, who, other, "both are members, and {who} does not know {other} as it is")
        elif store.rule is not None and store.copies[other] != store.rule._replace(is_copy=True):
            yield Breach(AGREE, who, other, "both are members, and {who} lacks the copy of {other}'s object")
    is_left = store.clusters[who] is not None and theirs is None and _has_left(other, ghost)
    if is_left and (held is not None or store.copies[other] is not None):
        yield Breach(AGREE, who, other, "{other} has left, and {who} has not removed it")
    yield from _judge_secrets(who, other, clusters)


def _may_hear(who: int, other: int, clusters: list[Cluster]) -> bool:
    """Return whether a member reads one that knows another one: who joined is known by relays alone (P2, P3)."""
    store = clusters[who].store
    relays = [one for one in MEMBERS if one != who and store.clusters[one] is not None and store.secrets[one]]
    return any(
        clusters[relay].store.clusters[other] is not None and not _is_lost(who, relay, clusters) for relay in relays
    )


def _is_lost(who: int, other: int, clusters: list[Cluster]) -> bool:
    """Return whether a member cannot learn how another one is read: all of them were withdrawn.

    P3, O4: credentials come from the member itself and from relays. Where none has those that count, people swap.
    """
    mind, accepted = clusters[who].mind, clusters[other].notes.accepted
    if who == other or mind is None:
        return False
    relays = [peer for peer, known in enumerate(mind.peers) if known is not None and known.is_connected]
    shown = [found for peer in (who, *relays) for found in clusters[peer].store.secrets[other]]
    return bool(clusters[who].store.secrets[other]) and all(found.token != accepted for found in shown)


def _judge_secrets(who: int, other: int, clusters: list[Cluster]) -> Iterator[Breach]:
    accepted = clusters[other].notes.accepted
    published = {found.name for found in clusters[other].store.secrets[other]}
    is_named = clusters[who].store.clusters[other] is not None
    for found in clusters[who].store.secrets[other]:
        if not (found.is_copy or is_named):  # a person carried it, and it is nobody else's (O7)
            continue
        if found.token != accepted:
            yield Breach(WITHDRAWN, who, other, "{who} has old credentials of {other}")
        elif found.name not in published:
            yield Breach(WITHDRAWN, who, other, "{who} has a Secret that {other} deleted")


def _judge_rule(who: int, home: int, clusters: list[Cluster], ghost: Ghost) -> Iterator[Breach]:
    """Judge the rule, and what it made, at a member that its home knows."""
    store, rule = clusters[who].store, clusters[home].store.rule
    if rule is not None:
        if store.rule != rule._replace(is_copy=who != home):
            yield Breach(AGREE, who, home, "{who} does not have the rule of {other}")
        return
    readable = [member for member in MEMBERS if not _is_lost(who, member, clusters)]  # P3: the others wait for a swap
    copies = [store.copies[member] for member in readable]
    left = [found for found in (store.rule, *copies) if found is not None]
    known = {one.uid for one in ghost.ended if one.is_known}
    # W3: a deletion that nothing shows at the home is not in its record, and the copies elsewhere wait for a person.
    if any(who == home or found.uid in known for found in left):
        yield Breach(AGREE, who, home, "{who} has the rule that was deleted at {other}, or a copy that it made")


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
    """Return what the laws remember after a swap: who swaps is out no more, but what it left as stays over.

    Who had left took all tombstones away, and knows no more than the other one: it may hear of others that have left.
    """
    if step.kind != "swap":
        return ghost
    both = {step.who, step.other}
    unaware = {who for who in both if _has_left(who, ghost)}
    removed = ((one[1], *one[1:]) if one[0] in unaware else one for one in ghost.removed)
    return ghost._replace(
        farewells=frozenset(one for one in ghost.farewells if one[0] not in both),
        earlier=ghost.earlier | {one for one in ghost.farewells if one[0] in both},
        declared=frozenset(one for one in ghost.declared if one[0] not in both),
        removed=frozenset(one for one in removed if one[1] not in both),
        missing=put(put(ghost.missing, step.who, None), step.other, None),
        joining=ghost.joining | (both & ghost.out()),
    )
