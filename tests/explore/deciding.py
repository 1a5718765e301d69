"""What one daemon of the abstract network decides about a member's Cluster and registry Secrets.

Called: `decide` with all that it calls, `voice_of_membership`, `natural_of_secret` and `left_after`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID
from registry_controller.core.decision.decide import decide
from registry_controller.core.decision.decision import Apply, Decision, Delete, Reason
from registry_controller.core.decision.marks import NATIVE, Voice, natural_of_secret, voice_of_membership
from registry_controller.core.decision.membership import left_after
from registry_controller.core.decision.state import Claim, CurrentCopy, MembershipState, TargetState
from registry_controller.core.decision.tombstones import Leavers
from tests.explore.called import IDS, NUMBERS, Removal, marks_of, uid_of
from tests.explore.copying import Copying
from tests.explore.world import Credentials, Held, named, put, with_secret


class Deciding(Copying):
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
                or self._decide_secrets(member, found)
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
        made_by = store.copies[member]
        gone = self.evaluate_rule(made_by) if made_by is not None and mind.acting is None else None
        return (
            self.who, member, store.clusters[member], store.secrets[member], made_by, mind.acting, gone,
            tuple(held is None for held in store.clusters), peers, mind.left, mind.deleted_at[member],
            self.truths[member], found.gone, found.ordered, found.has_left, found.known.get(uid), found.over.get(uid),
            found.stones.get(uid), found.former.get(uid),
            frozenset(found.known),
        )  # fmt: skip

    def _decide_cluster(self, member: int, found: Leavers, removals: list[Removal]) -> bool:
        held = self.store.clusters[member]
        claims = tuple(self._cluster_claims(member, found))
        current = None
        if held is not None:
            marks = (
                marks_of(meta.CLUSTER, member, uid_of(member, held.membership), held.revision)
                if held.is_copy
                else NATIVE
            )
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
            owner_leaves=held is not None and leaves,
            leaves_behind=(leaves or IDS[member] in gone) and self.store.copies[member] is not None,
        )

    def _record(self, decision: Decision, state: TargetState) -> None:
        """Record which members have left."""

        def is_present(member: ClusterUID) -> bool | None:
            facts = self.own_facts(NUMBERS[member])
            return facts.has_own if facts.is_heard else None

        before = {IDS[member]: revision for member, revision in self.mind.left}
        left = left_after(before, decision, state, is_present=is_present)
        self.mind = self.mind._replace(left=frozenset((NUMBERS[uid], revision) for uid, revision in left.items()))

    # Registry Secrets.

    def _stands(self, member: int) -> bool:
        """Return whether a member is read with the credentials that its Cluster here names."""
        held, truth, peer = self.store.clusters[member], self.truths[member], self.mind.peers[member]
        first = named(self.store.secrets[member], held.secret) if held is not None else None
        is_read = peer is not None and peer.is_connected and truth is not None
        return is_read and first is not None and truth is not None and first.token == truth.token

    def secret_state(self, member: int, number: int, found: Leavers) -> TargetState:
        """Return the state of a member's registry Secret."""
        held, current = named(self.store.secrets[member], number), None
        cluster = self.store.clusters[member]
        is_named = cluster is not None and cluster.secret == number
        if held is not None:
            marks = marks_of(meta.SECRET, member, "secret", held.token, number=number) if held.is_copy else NATIVE
            current = CurrentCopy(marks, "secret", 1, natural=IDS[member] if is_named else None)
        membership = MembershipState(
            gone=found.gone,
            has_cluster_here=cluster is not None,
            needs_way=held is not None and held.is_copy and not self._stands(member),
        )
        claims = tuple(self._secret_claims(member, number, found))
        origin = self._origin(member, is_offered=any(claim.voice is Voice.OWNER for claim in claims))
        return self._state(
            meta.SECRET, member, found, number=number, claims=claims, current=current, membership=membership,
            origin=origin,
        )  # fmt: skip

    def _decide_secrets(self, member: int, found: Leavers) -> bool:
        names = {one.name for one in self.store.secrets[member]}
        for _, peer in self.peers():
            names |= {one.name for one in peer.view.secrets[member]} if peer.view is not None else set()
        return any(self._decide_secret(member, number, found) for number in sorted(names))

    def _decide_secret(self, member: int, number: int, found: Leavers) -> bool:
        held = named(self.store.secrets[member], number)
        state = self.secret_state(member, number, found)
        if not state.claims and state.current is None:
            return False
        truth = self.truths[member]
        decision = self._prove(decide(state), state, has_it=truth is not None and number in truth.secrets)
        after = held
        if isinstance(decision, Delete):
            after = None
        elif isinstance(decision, Apply) and not (held is not None and decision.reason is Reason.RELAYED):
            peer = self.mind.peers[NUMBERS[decision.claim.peer]]
            assert peer is not None
            assert peer.view is not None
            offered = named(peer.view.secrets[member], number)
            assert offered is not None
            after = offered._replace(is_copy=True)
        self.put_secret(member, number, after)
        return after != held

    def _secret_claims(self, member: int, number: int, found: Leavers) -> Iterator[Claim]:
        cluster = self.store.clusters[member]
        is_named = cluster is not None and cluster.secret == number
        for by, peer in self.peers():
            offered = named(peer.view.secrets[member], number) if peer.view is not None else None
            if peer.view is None or offered is None:
                continue
            there = peer.view.clusters[member]
            natural = natural_of_secret(
                frozenset({IDS[member]} if is_named else ()),
                frozenset({IDS[member]} if there is not None and there.secret == number else ()),
                peer=IDS[by],
            )
            voice = voice_of_membership(natural, peer=IDS[by], local=IDS[self.who])
            is_known = voice is not Voice.INTERMEDIARY or offered.is_copy
            yield self._claim(
                meta.SECRET, member, by, voice,
                number=number,
                uid="secret",
                revision=offered.token if is_known else 0,
                has_left=voice is Voice.INTERMEDIARY and found.bars(IDS[member], "", 0),
            )  # fmt: skip

    def put_secret(self, member: int, number: int, held: Credentials | None) -> None:
        found = with_secret(self.store.secrets[member], number, held)
        self.store = self.store._replace(secrets=put(self.store.secrets, member, found))


_OUTCOMES: dict[Hashable, tuple[bool, tuple[Any, ...], frozenset[tuple[int, int]], tuple[Removal, ...]]] = {}
