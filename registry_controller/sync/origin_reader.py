"""Reads the facts about a copy's source and rule from the caches, while no claim stands for the copy.

Law: nothing here awaits, and silence shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import ClusterUID, GroupKind, ObjectKey, Target
from registry_controller.api.provenance import Provenance
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.copy_record import CopyRecord
from registry_controller.cache.source_cache import SourceCache
from registry_controller.cache.source_index import SourceIndex
from registry_controller.cache.source_records import SourceRecord
from registry_controller.clusters.provider import ClusterProvider
from registry_controller.clusters.rule_state import RuleStates
from registry_controller.core.decision.marks import is_at_home
from registry_controller.core.decision.rule_state import Maker
from registry_controller.core.decision.state import Claim, Move, Origin, RuleState, SourceRef, TargetState, Tracking
from registry_controller.core.rules.active import ActiveRule, Hit
from registry_controller.core.rules.destinations import is_unreadable
from registry_controller.core.rules.policy import Barrier


class MadeFrom(NamedTuple):
    """The input of a copy, for comparison.

    `hits` are the matches of its source: a younger rule may lose it now (W2). `beside` are matches in other versions.
    `rereads` is the number of times that its source was read again in this state.
    """

    claim: Claim
    hits: tuple[Hit, ...]
    beside: tuple[Hit, ...]
    rereads: int = 0


class OriginReader:
    """Reads the caches of a copy's owner, and the state of the rule that made the copy.

    `planned` are the copies that a plan makes, each with the claim of its source: they count as here.
    """

    def __init__(
        self, *, sources: SourceIndex, copies: CopyIndex, clusters: ClusterProvider, rule_states: RuleStates
    ) -> None:
        self.planned: Mapping[Target, Claim] = {}
        self._sources = sources
        self._copies = copies
        self._clusters = clusters
        self._rule_states = rule_states

    def read(self, state: TargetState, record: CopyRecord) -> Origin:
        """Read the origin of the copy that is here."""
        source, provenance = state.copied_from, record.marks.provenance
        caches = () if source is None else self._sources.caches_of_kind(source.owner, source.kind)
        rules = [active for cache in caches for active in cache.rules]
        tracking, offered_at = _track(caches, source, provenance)
        owner_leaves = state.membership is not None and state.membership.owner_leaves
        move, moved_to = self._find_move(caches, source, provenance, local=state.local)
        has_chosen_rules = source is None or self._clusters.has_chosen_rules(source.owner, source.kind)
        rule_state = self._rule_states.state(provenance)
        still_matches = _matches_as_then(rules, source, record)
        return Origin(
            rule=self._find_rule(source, provenance),
            barrier=None if state.membership is not None else self._barrier(state.target, record, source, rules),
            tracking=Tracking.ABSENT if owner_leaves else tracking,
            offered_at=offered_at,
            others_synced=has_chosen_rules and all(map(SourceCache.are_rules_synced, caches)),
            rule_state=rule_state,
            deletes_unwanted=self._rule_states.deletes_unwanted(provenance),
            source_rule=self._rule_states.state_of_rule(state.target, provenance),
            move=move,
            moved_to=moved_to,
            saw_match=tracking is Tracking.ABSENT and still_matches is True and _names_as_then(rules, record),
            is_edited=still_matches is False,
            is_anew=source is not None and self._is_anew(caches, source, record, rule_state, tracking),
            is_rule_pending=self._is_pending(caches, source, provenance, rule_state),
        )

    def read_rule(self, state: TargetState, record: CopyRecord) -> Origin:
        """Read whether the rule that made a copy may want it still, although another rule claims its source."""
        source, provenance = state.copied_from, record.marks.provenance
        caches = () if source is None else self._sources.caches_of_kind(source.owner, source.kind)
        rule_state = self._rule_states.state(provenance)
        return Origin(is_rule_pending=self._is_pending(caches, source, provenance, rule_state))

    def _is_pending(
        self,
        caches: Iterable[SourceCache],
        source: SourceRef | None,
        provenance: Provenance | None,
        rule_state: RuleState,
    ) -> bool:
        """Return whether the rule that made a copy may or may not make it now, because it has not seen the source."""
        if rule_state is RuleState.SILENT:
            return self._rule_states.is_unchosen(provenance)
        if source is None or provenance is None or rule_state is not RuleState.READS:
            return False
        reading = [cache for cache in caches if cache.has_rule(provenance.rule)]
        return not reading or not all(_was_evaluated(cache, source.key, (provenance.rule,)) for cache in reading)

    def _find_rule(self, source: SourceRef | None, provenance: Provenance | None) -> str:
        if provenance is not None:
            return provenance.rule
        return self._sources.first_rule(source.owner, source.kind) if source is not None else ""

    def _is_anew(
        self,
        caches: Iterable[SourceCache],
        source: SourceRef,
        record: CopyRecord,
        rule_state: RuleState,
        tracking: Tracking,
    ) -> bool:
        """Return whether a new definition, or another history of the owner, may have removed the source or feature."""
        provenance = record.marks.provenance
        if rule_state is RuleState.UNSELECTED:
            return provenance is not None and self._rule_states.has_lost_feature(provenance.rule, source.owner)
        if tracking is not Tracking.ABSENT or provenance is None or provenance.owner != source.owner:
            return False
        return any(
            cache.lost.is_lost(source.key, revision=provenance.revision)
            or provenance.revision > max((stream.revision for stream in cache.streams.values()), default=0)
            for cache in caches
            if cache.has_rule(provenance.rule)  # a cache of another version may be behind
        )

    def _find_move(
        self,
        caches: Iterable[SourceCache],
        source: SourceRef | None,
        provenance: Provenance | None,
        *,
        local: ClusterUID,
    ) -> tuple[Move, Target | None]:
        """Return whether the rule that made a copy gives its source another place now, and that place.

        Another rule of that name makes its copy first, too. Once that is here, the policy in the old copy decides, as
        for any copy that such a rule does not want.
        """
        if source is None or provenance is None:
            return Move.NONE, None
        hits = _list_hits(caches, source, provenance.rule)
        own = [hit for hit in hits if _is_by(hit, provenance)]
        places = [hit.target(source.key) for hit in own or hits]
        made = next((place for place in places if self._is_made(place, source, local=local)), None)
        if made is not None:
            return (Move.DONE, made) if own else (Move.NONE, None)
        return (Move.WAITS, places[0]) if places else (Move.NONE, None)

    def _is_made(self, place: Target, source: SourceRef, *, local: ClusterUID) -> bool:
        """Return whether a copy of a source is at a place, or is planned there."""
        planned = self.planned.get(place)
        if planned is not None:
            return planned.is_of(source)
        _, record = self._copies.find(place)
        return record is not None and _is_copy_of(record, source, local=local)

    def _barrier(
        self, target: Target, record: CopyRecord, source: SourceRef | None, rules: Iterable[ActiveRule]
    ) -> Barrier | None:
        """Return why the rule that made a copy may not write it; without provenance, why no rule for its owner may."""
        if record.marks.provenance is not None or source is None:
            return self._rule_states.barrier(target, record.marks.provenance, secret_type=record.kind_type)
        found = [
            active.target_policy.find_barrier(target, source=source.kind, secret_type=record.kind_type)
            for active in rules
        ]
        return found[0] if found and all(found) else None


def _track(
    caches: Iterable[SourceCache], source: SourceRef | None, provenance: Provenance | None
) -> tuple[Tracking, int]:
    """Return whether a peer offers a copy's source, and at which resourceVersion, else 0."""
    rule = provenance.rule if provenance is not None else ""
    reading = [cache for cache in caches if (cache.has_rule(rule) if rule else bool(cache.rules))]
    if source is None or not reading:
        return Tracking.NO_RULE, 0
    found = [cache.records[source.key] for cache in reading if source.key in cache.records]
    if any(held.unclear for held in found):
        errors = [error for cache in reading for error in _list_errors(cache, source.key)]
        return Tracking.UNREADABLE if errors and all(map(is_unreadable, errors)) else Tracking.UNCLEAR, 0
    rules = (rule,) if rule else tuple(active.rule.name for active in reading[0].rules)
    offered = [record for record in found if not record.deleting and _is_at_home(record, source.owner)]
    if offered and all(_was_evaluated(cache, source.key, rules) for cache in reading):
        return Tracking.OFFERED, max(record.revision for record in offered)
    if offered:
        return Tracking.NOT_COMPLETE, 0
    for cache in reading:
        if not all(map(cache.synced_for, filter(cache.has_rule, rules))):
            return Tracking.NOT_COMPLETE, 0
    return Tracking.ABSENT, 0


def _list_errors(cache: SourceCache, key: ObjectKey) -> list[InvalidObject]:
    """List why rules cannot be evaluated on an object of a cache."""
    return [errors[key] for errors in cache.unclear.values() if key in errors]


def _matches_as_then(rules: Iterable[ActiveRule], source: SourceRef | None, record: CopyRecord) -> bool | None:
    """Report whether a rule has the matches still by which this daemon brought a copy in step with its source.

    Return None where this daemon did not. A rule has other matches, too, if it asks only now whether the object names
    this cluster.
    """
    made_from = record.made_from
    if source is None or not isinstance(made_from, MadeFrom) or not made_from.claim.is_of(source):
        return None
    rule = made_from.claim.rule
    hits = [hit for hit in made_from.hits if hit.rule == rule]
    matched = [(hit.named is not None, entry.matches) for hit in hits for entry in hit.entries]
    return any(
        (active.rule.requires_targets, entry.matches) in matched
        for active in rules
        if active.rule.name == rule
        for entry in active.rule.entries
    )


def _names_as_then(rules: Iterable[ActiveRule], record: CopyRecord) -> bool:
    """Report whether our own Cluster is as it was when the source of a copy named it, if its rule asks for that."""
    made_from = record.made_from
    if not isinstance(made_from, MadeFrom):
        return False
    named = {active.rule.name: active.own for active in rules}
    rule = made_from.claim.rule
    return any(hit.named == named.get(rule) for hit in made_from.hits if hit.rule == rule)


def _list_hits(caches: Iterable[SourceCache], source: SourceRef, rule: str) -> list[Hit]:
    """List the matches of a source by the rules of a name, also those whose place the rule may not write."""
    held = [cache.records[source.key] for cache in caches if source.key in cache.records]
    return [hit for record in held for hit in record.hits if hit.rule == rule]


def _is_by(hit: Hit, provenance: Provenance) -> bool:
    """Return whether a match, by a rule of the name, is of the rule that made a copy."""
    reads = GroupKind(provenance.source.group, provenance.source.kind)
    maker = Maker(provenance.rule_owner, provenance.rule_uid, reads)
    return maker.is_same_rule(Maker(hit.rule_owner, hit.rule_uid, reads))


def _is_copy_of(record: CopyRecord, source: SourceRef, *, local: ClusterUID) -> bool:
    """Report whether an object here is a copy of a source, and stays."""
    if record.deleting or record.source is None or record.marks.owner != source.owner:
        return False
    kind, key = record.source
    is_same = (kind.group, kind.kind, key) == (source.kind.group, source.kind.kind, source.key)
    return is_same and record.marks.is_bound_in(local)


def _was_evaluated(cache: SourceCache, key: ObjectKey, rules: Iterable[str]) -> bool:
    """Return true if these rules, as they are now, have seen an object of a cache, or do not select it."""
    record = cache.records.get(key)
    return record is None or all(cache.was_evaluated(record, rule) for rule in rules)


def _is_at_home(record: SourceRecord, owner: ClusterUID) -> bool:
    return is_at_home(record.marks, peer=owner, membership=record.membership)
