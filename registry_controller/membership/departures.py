"""Members that have left: their Cluster was proven deleted where they stand themselves (O6).

Laws: a Cluster that is merely missing proves nothing · what a leaver leaves behind goes first and its Cluster last, so
that a restart finds all that it needs to know in the cluster itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.local_cache import HERE, CopyRecord
from registry_controller.clusters.peer import Peer
from registry_controller.clusters.rule_state import RuleStates
from registry_controller.core.decision.decision import Apply, Decision, Reason, Skip, owner_of
from registry_controller.core.decision.state import TargetState
from registry_controller.core.rules.matching import is_container
from registry_controller.report.logs import get_logger

log = get_logger(__name__)

_PROVEN = frozenset((Reason.OWNER_LEAVES, Reason.OWNER_LEFT))


class Departures:
    """Who has left, and up to which revision of its Cluster.

    `look_at` hears whose copies want a fresh look, `add` which Cluster does.
    """

    def __init__(
        self,
        *,
        copies: CopyIndex,
        link: Callable[[ClusterUID], Peer | None],
        rule_states: RuleStates,
        look_at: Callable[[ClusterUID], None],
        add: Callable[[Target, str], None],
    ) -> None:
        self.left: Mapping[ClusterUID, int] = {}
        self._copies = copies
        self._link = link
        self._rule_states = rule_states
        self._look_at = look_at
        self._add = add
        self._waits_for: dict[Target, ClusterUID] = {}

    def has_no_cluster(self, member: ClusterUID) -> bool:
        """Say whether a live member's complete list has no Cluster that stands for itself, under any name."""
        return self._has_cluster(member) is False

    def _has_cluster(self, member: ClusterUID) -> bool | None:
        """Say whether a member's complete list has a Cluster that stands for itself; None where it is not heard."""
        link = self._link(member)
        if link is None or not link.is_alive or (held := link.clusters.held) is None:
            return None
        return any(view.cluster_id == member for view in held.values())

    def leaves_behind(self, member: ClusterUID) -> bool:
        """Say whether copies of a member's objects are still to be removed here; `copy_changed` ends the wait."""
        behind = next(self._left_behind(member), None)
        if behind is not None:
            self._waits_for[behind] = member
            log.debug("copies of a member that leaves are still here", cluster_id=member, first=str(behind))
        return behind is not None

    def copy_changed(self, target: Target) -> None:
        """Look again at the Cluster of a member whose removal waited for this copy."""
        if target not in self._waits_for:
            return
        member = self._waits_for.pop(target)
        if (cache := self._copies.cache_of(meta.GROUP, meta.CLUSTER.kind)) is not None:
            for key, record in cache.records.items():
                if record.natural == member:
                    self._add(cache.target(key), record.marks.owner or HERE)

    def _left_behind(self, member: ClusterUID) -> Iterator[Target]:
        return (
            cache.target(key)
            for cache in self._copies.all_caches()
            if (cache.kind.group, cache.kind.kind) != (meta.GROUP, meta.CLUSTER.kind)
            for key, record in cache.records.items()
            if record.marks.owner == member
            and self._rule_states.deletes_unwanted(record.marks.provenance)
            and not record.deleting
            and not record.marks.frozen
            and not is_container(cache.target(key))
            and not self._stays(cache.target(key), record)
        )

    def _stays(self, target: Target, record: CopyRecord) -> bool:
        """Say whether nothing may be done here for the rule that made a copy."""
        held = self._rule_states.barrier(target, record.marks.provenance, secret_type=record.kind_type)
        return held is not None

    def hear(self, decision: Decision, view: TargetState) -> None:
        """Hear what was decided about a Cluster: its member has left, or is one again."""
        if decision.reason in _PROVEN:
            member = owner_of(decision)
            if member in view.gone or (isinstance(decision, Skip) and member not in self.left):
                return  # on somebody's word, which may be taken back
            known = view.current.marks.revision if view.current is not None else 0
            gone = {member: max(known, self.left.get(member, 0))} if member is not None else {}
            left = {**self.left, **gone}
        else:
            member = view.current.natural if view.current is not None else owner_of(decision)
            if member is None or not (isinstance(decision, Apply) or self._has_cluster(member)):
                return  # no sign of it: another Cluster of its ID, which somebody carried here, is none
            left = {known: revision for known, revision in self.left.items() if known != member}
        was, self.left = self.left, left
        if member is not None and (member in left) != (member in was):
            log.info("member left" if member in left else "member is back", cluster_id=member)
            self._look_at(member)
