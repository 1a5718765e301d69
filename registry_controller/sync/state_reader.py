"""Reads the caches into the TargetState that `core` decides on.

Law: nothing here awaits, so a state is of one moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance
from registry_controller.cache.caches import Caches
from registry_controller.cache.copy_record import CopyRecord
from registry_controller.cache.members import secret_target
from registry_controller.cache.source_index import Offer
from registry_controller.cache.write_results import Rendered
from registry_controller.clusters.provider import ClusterProvider
from registry_controller.clusters.rule_state import RuleStates
from registry_controller.core.decision.decide import changes_rule, depends_on_origin
from registry_controller.core.decision.marks import (
    NATIVE,
    Binding,
    Voice,
    is_membership,
    voice_of,
    voice_of_membership,
)
from registry_controller.core.decision.membership import reserve
from registry_controller.core.decision.state import (
    Claim,
    CurrentCopy,
    MembershipState,
    NamespaceState,
    Rival,
    SourceRef,
    TargetState,
    is_container,
)
from registry_controller.kube.object import PartialObject
from registry_controller.membership.absences import Absences
from registry_controller.membership.departures import Departures
from registry_controller.membership.quota import MOST_OF_ONE
from registry_controller.membership.tombstones import TombstoneTracker
from registry_controller.sync.lost_matches import LostMatches
from registry_controller.sync.made_once import RUN_WHEN_MADE, MadeOnce
from registry_controller.sync.origin_reader import OriginReader

_NATIVE: Final = CurrentCopy(NATIVE, "", 0)


class StateReader:
    """Reads the state of one target from the caches, the members and their departures."""

    def __init__(
        self,
        *,
        local: ClusterUID,
        caches: Caches,
        clusters: ClusterProvider,
        rule_states: RuleStates,
        departures: Departures,
        absences: Absences,
        tombstones: TombstoneTracker,
        made_once: MadeOnce,
        lost_matches: LostMatches,
    ) -> None:
        self.local = local
        self._sources = caches.sources
        self._copies = caches.copies
        self._members = caches.members
        self._namespaces = caches.namespaces
        self._clusters = clusters
        self._rule_states = rule_states
        self.origins = OriginReader(
            sources=caches.sources, copies=caches.copies, clusters=clusters, rule_states=rule_states
        )
        self._departures = departures
        self._absences = absences
        self._tombstones = tombstones
        self._made_once = made_once
        self._lost_matches = lost_matches

    def read(self, target: Target) -> tuple[TargetState, tuple[Offer, ...]]:
        """Read the state of a target, and the offers of its claims, in the order of the claims."""
        cache, record = self._copies.find(target)
        key = ObjectKey(target.namespace, target.name)
        offers = self._sources.claiming(target)
        if record is not None and record.marks.provenance is not None:
            _note_shown(record.marks.provenance, offers)
        claims = tuple([self._claim(offer) for offer in offers])
        current, is_member, copied_from = None, False, None
        if cache is not None and record is not None:
            is_member = is_membership(cache.kind, record.kind_type)
            current = self._current(target, record, membership=is_member)
            copied_from = _copied_from(current, record, cache.kind, key)
            if record.marks.binding is Binding.UNPROVEN and any(claim.is_of(copied_from) for claim in claims):
                self._copies.note_source(record)
                current = current._replace(owner_had_it=True)
        elif (cache is not None and key in cache.natives) or (
            target[:2] == meta.RULE_KIND and self._rule_states.keeps_name(target.name)
        ):
            current = _NATIVE
        else:
            is_member = any(offer.record.membership for offer in offers)
        claims = self._reserve(target, claims, offers, is_free=current is None, is_member=is_member)
        membership = self._membership(target, claims, current) if is_member else None
        namespace = NamespaceState.ACTIVE
        if current is None and target.namespace:
            namespace = self._namespace(target.namespace)
        is_listed = cache is not None and not cache.doubts and not cache.shown.isdisjoint(("", target.namespace))
        spent = ""
        if target[:2] in RUN_WHEN_MADE:
            spent = self._read_spent(target, record, namespace, is_here=current is not None)
        liveness = self._clusters.liveness
        state = TargetState(
            target=target,
            claims=claims,
            current=current,
            local=self.local,
            known=liveness.known,
            alive=liveness.alive,
            departed=self._departed(target, membership, claims, current, liveness.known),
            ordered=self._tombstones.now.ordered,
            contested=liveness.contested,
            has_left=self._tombstones.now.has_left,
            local_synced=record is not None or is_listed,
            is_rule_behind=record is not None and self._is_behind(record),
            namespace=namespace,
            create_namespace=namespace is NamespaceState.MISSING and self._creates_namespace(claims),
            copied_from=copied_from,
            membership=membership,
            spent=spent,
        )
        if record is not None and depends_on_origin(state):
            origin = self.origins.read(state, record)
            state = state._replace(origin=origin)
            lost_match = self._lost_matches.observe(state)
            state = state._replace(origin=origin._replace(lost_match=lost_match))
            return state, offers
        if record is not None and changes_rule(state):
            state = state._replace(origin=self.origins.read_rule(state, record))
        if self._lost_matches.held:
            self._lost_matches.forget(target)
        return state, offers

    def renamed_secrets(self, cluster: Cluster) -> list[Offer]:
        """List the registry Secrets of other names that relays' Clusters of a member name: at most 4 of each relay."""
        offers: list[Offer] = []
        for peer in self._members.peers():
            if peer == cluster.cluster_id or self._tombstones.bars(peer, cluster.cluster_id, "", 0):
                continue
            named = [key for key in self._members.secrets_of(cluster, peer=peer) if key != cluster.secret]
            for key in named[:MOST_OF_ONE]:
                if self._members.naming_here(key) <= {cluster.cluster_id}:
                    offers += self._secrets_at(peer, key)
        return offers

    def _secrets_at(self, peer: ClusterUID, key: ObjectKey) -> Iterable[Offer]:
        """Find a registry Secret at a peer: one or none."""
        for offer in self._sources.claiming(secret_target(key)):
            is_there = offer.cache.peer == peer and offer.key == key
            if is_there and offer.record.membership and not offer.record.deleting:
                yield offer

    def _read_spent(
        self, target: Target, record: CopyRecord | None, namespace: NamespaceState, *, is_here: bool
    ) -> str:
        """Return the uid of the source whose copy was here, until another client deleted it; empty for none."""
        if record is not None:
            self._made_once.note(target, record.uid, record.marks, is_going=record.deleting)
        if is_here:
            return ""
        if namespace is not NamespaceState.ACTIVE:
            self._made_once.forget(target)
        return self._made_once.source_of(target)

    def _reserve(
        self, target: Target, claims: tuple[Claim, ...], offers: Iterable[Offer], *, is_free: bool, is_member: bool
    ) -> tuple[Claim, ...]:
        """Return the claims, with a barrier for those that may not take a free target, or replace membership."""
        clusters = self._members.list_reserved_for(target) if is_free and claims else None
        if clusters is None and (is_free or not is_member):
            return claims
        pairs = zip(claims, offers, strict=True)
        return tuple([reserve(claim, clusters, membership=offer.record.membership) for claim, offer in pairs])

    def _membership(self, target: Target, claims: Iterable[Claim], current: CurrentCopy | None) -> MembershipState:
        natural = current.natural if current is not None and target.group == meta.GROUP else None
        gone = self._tombstones.gone(natural, current.marks if current is not None else None)
        marked = current.marks.owner if current is not None and target.group != meta.GROUP else None
        owner_leaves = natural is not None and self._absences.has_left(natural)
        return MembershipState(
            tombstone=max([self._deleted_at(claim.owner, target) for claim in claims], default=0),
            gone=gone,
            owner_has_another=natural is not None and self._absences.has_another(natural, target.name),
            owner_leaves=owner_leaves,
            leaves_behind=natural is not None
            and (owner_leaves or natural in gone)
            and self._departures.leaves_behind(natural),
            has_cluster_here=current is None or self._members.has_here(current.natural or current.marks.owner),
            needs_way=marked is not None and not self._clusters.stands(marked),
            successors=self._clusters.rebuilt.successors(target.name) if natural is not None else frozenset(),
        )

    def _departed(
        self,
        target: Target,
        membership: MembershipState | None,
        claims: Iterable[Claim],
        current: CurrentCopy | None,
        known: frozenset[ClusterUID],
    ) -> frozenset[ClusterUID]:
        """Return the members with a proven departure.

        A container goes once it is empty, which may be long after the Cluster of its owner: nothing goes with it.
        In a cluster that has left the group they include the owners of a copy, or of offers for its place, that have no
        Cluster here any more: a connection is still open for a moment when the Cluster is gone.
        """
        tombstones = self._tombstones.now
        departed: frozenset[ClusterUID] = frozenset()
        if membership is not None:
            departed = membership.gone
        elif tombstones.gone:
            departed = self._tombstones.judged(tombstones.gone & known)
            if is_container(target):
                departed |= tombstones.gone - known
        if self._departures.left:
            departed = departed.union(self._departures.left)
        if not tombstones.has_left:
            return departed
        owners = {claim.owner for claim in claims} if membership is None else set[ClusterUID]()
        if current is not None and current.marks.owner is not None:
            owners.add(current.marks.owner)
        return departed.union(owners - (known & tombstones.known.keys()))

    def _namespace(self, name: str) -> NamespaceState:
        """Return the state of a namespace. Until their list is complete, each counts as active: the write shows it."""
        if not self._namespaces.is_complete:
            return NamespaceState.ACTIVE
        deleting = self._namespaces.deleting.get(name)
        if deleting is None:
            return NamespaceState.MISSING
        return NamespaceState.TERMINATING if deleting else NamespaceState.ACTIVE

    def _creates_namespace(self, claims: Iterable[Claim]) -> bool:
        active = self._clusters.active
        rules = (active.get(claim.rule) for claim in claims if claim.barrier is None)
        return any(found is not None and found.rule.create_namespaces for found in rules)

    def wants(self, target: Target, source: SourceRef, obj: PartialObject) -> bool:
        """Return whether a rule makes the target of an object that was read by name, or its own rule another copy.

        True where that is unknown.
        """
        _, record = self._copies.find(target)
        provenance = record.marks.provenance if record is not None else None
        rule = provenance.rule if provenance is not None else ""
        caches = self._sources.caches_of_kind(source.owner, source.kind)
        return any(cache.wants(target, obj, moved_by=rule) for cache in caches)

    def kind_read(self, source: SourceRef) -> GVK:
        """Return a source's kind in a version that is read from its owner; the old version may not be served."""
        kinds = [cache.kind for cache in self._sources.caches_of_kind(source.owner, source.kind)]
        return source.kind if source.kind in kinds or not kinds else kinds[0]

    def note_unserved(self, source: SourceRef) -> None:
        """Record that the definition of a source's kind goes at its owner."""
        for cache in self._sources.caches_of_kind(source.owner, source.kind):
            cache.lost.note_unserved()

    def _deleted_at(self, owner: ClusterUID, target: Target) -> int:
        return max(self._sources.deleted_at(owner, target), self._departures.left.get(owner, 0))

    def _is_behind(self, record: CopyRecord) -> bool:
        """Return whether a daemon here wrote a copy by a later state of its rule than is known here."""
        provenance = record.marks.provenance
        return provenance is not None and self._rule_states.is_behind(provenance, written_at=record.revision)

    def _claim(self, offer: Offer) -> Claim:
        peer, record = offer.cache.peer, offer.record
        owner, revision, has_left = peer, record.revision, False
        if record.membership:
            natural = self._natural(offer)
            voice = voice_of_membership(natural, peer=peer, local=self.local)
            if voice is Voice.INTERMEDIARY:
                (owner,) = natural
                known = record.marks.provenance_of(owner)
                revision = known.revision if known is not None else 0
                # The membership of credentials is unknown.
                membership = known.uid if known is not None and offer.cache.kind.group == meta.GROUP else ""
                has_left = self._tombstones.bars(peer, owner, membership, revision if membership else 0)
        else:
            voice = voice_of(record.marks, peer=peer, local=self.local)
        return Claim(
            peer=peer,
            owner=owner,
            voice=voice,
            kind=offer.cache.kind,
            key=offer.key,
            uid=record.uid,
            created=record.created,
            revision=revision,
            rule=offer.hit.rule,
            deleting=record.deleting,
            sync_disabled=record.marks.sync_disabled,
            barrier=offer.hit.barrier,
            made_by_daemon=record.made_by_daemon,
            shown=record.shown,
            rule_rank=offer.hit.rank,
            rivals=_rivals(offer) if len(record.hits) > 1 else (),
            has_left=has_left,
        )

    def _natural(self, offer: Offer) -> frozenset[ClusterUID]:
        if offer.cache.kind.group == meta.GROUP:
            return frozenset({offer.record.cluster_id} if offer.record.cluster_id else ())
        return self._members.natural_of_secret(offer.key, peer=offer.cache.peer)

    def _current(self, target: Target, record: CopyRecord, *, membership: bool) -> CurrentCopy:
        natural, disputed = record.natural, False
        if membership and target.kind == "Secret":
            named_by = self._members.naming_here(ObjectKey(target.namespace, target.name))
            natural = self.local if self.local in named_by else next(iter(named_by)) if len(named_by) == 1 else None
            disputed = natural is None and len(named_by) > 1
        return CurrentCopy(
            record.marks,
            record.uid,
            record.revision,
            record.deleting,
            is_container(target),
            natural,
            disputed,
            owner_had_it=record.owner_had_it,
        )

    def forget_match(self, target: Target) -> None:
        """Record that a copy's source exists at its owner without a match."""
        cache, record = self._copies.find(target)
        if cache is not None and record is not None:
            cache.record_write(target.key, Rendered(None, record.outranked_rules))
            self._copies.note_source(record)


def _rivals(offer: Offer) -> tuple[Rival, ...]:
    """List the other rules that make the same target of the same object."""
    target = offer.hit.target(offer.key)
    others = (hit for hit in offer.record.hits if hit is not offer.hit)
    return tuple(Rival(hit.rule, hit.barrier) for hit in others if hit.target(offer.key) == target)


def _note_shown(provenance: Provenance, offers: Iterable[Offer]) -> None:
    """Record the revision that a copy shows while the peer shows an older one: another owner may take the copy over."""
    source = (provenance.owner, provenance.source.group, provenance.source.kind, provenance.key)
    for cache, key, record, _ in offers:
        if (cache.peer, cache.kind.group, cache.kind.kind, key) == source:
            record.shown = provenance.revision if provenance.revision > record.revision else 0


def _copied_from(current: CurrentCopy, record: CopyRecord, kind: GVK, key: ObjectKey) -> SourceRef | None:
    """Return the object that a copy was made from; without provenance, by the copy's marks and its own name."""
    marked = current.marks.owner
    if marked is None:
        return None
    owner = current.natural or marked
    source = record.source
    return SourceRef(owner, *source) if source is not None and owner == marked else SourceRef(owner, kind, key)
