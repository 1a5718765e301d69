"""The Clusters of the local cluster and of each peer, and the Secrets that they name.

Law: a registry Secret belongs to the member whose Cluster names it; without such a Cluster it belongs to no member.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, ClusterType
from registry_controller.api.meta import ClusterUID, ObjectKey, Target
from registry_controller.api.tombstone import fits_in_tombstone
from registry_controller.core.decision.marks import Marks, natural_of_secret, read_marks
from registry_controller.core.rules.reserved import OwnTargets, list_reserved_for

OnChange = Callable[[Target], None]
Naming = tuple[ClusterUID, ObjectKey | None]

_NONE: Final = OwnTargets(ClusterUID(""))


class MemberRecord(NamedTuple):
    """A Cluster object as one member has it."""

    name: str
    cluster_id: ClusterUID
    secret: ObjectKey | None
    state: str
    type: str
    disabled: bool
    membership: str
    """The uid of the Cluster at the member for which it stands; empty where the relay does not know it."""

    def is_own_name_of(self, member: ClusterUID) -> bool:
        """Return whether the member uses this Cluster as its own; without a type it was not reconciled there yet."""
        return self.cluster_id == member and self.type in ("", ClusterType.LOCAL.value)


def cluster_target(name: str) -> Target:
    """Return the target for a Cluster."""
    return Target(*meta.CLUSTER_KIND, "", name)


def secret_target(key: ObjectKey) -> Target:
    """Return the target for a Secret."""
    return Target("", "Secret", key.namespace, key.name)


def membership_of(annotations: Mapping[str, str], name: str, member: str) -> str:
    """Return the membership that a copied Cluster belongs to: the uid of its source; empty where it is not recorded."""
    return membership_marked(read_marks(annotations, of=cluster_target(name)), member)


def membership_marked(marks: Marks, member: str) -> str:
    """Return the membership that a copied Cluster with these marks belongs to; empty where it is not recorded."""
    provenance = marks.provenance
    known = provenance.uid if provenance is not None and provenance.owner == member else ""
    return known if fits_in_tombstone(known) else ""


class Members:
    """The Clusters of all members. `on_change` receives each Cluster and Secret that a change affects.

    `own` are the objects that the daemon makes for the local cluster.
    """

    def __init__(self, *, on_change: OnChange, own: OwnTargets = _NONE) -> None:
        self._own = own
        self._here: dict[str, Cluster] = {}
        self._ids_here = Counter[ClusterUID]()
        self._there: dict[ClusterUID, dict[str, MemberRecord]] = {}
        self._naming: dict[tuple[ClusterUID | None, ObjectKey], set[tuple[str, ClusterUID]]] = {}
        self._on_change = on_change

    def set_here(self, name: str, cluster: Cluster | None) -> None:
        """Record the local Cluster of that name, or its deletion."""
        old, had_own = self._here.pop(name, None), self.has_here(self._own.local)
        if old is not None:
            self._ids_here[old.cluster_id] -= 1
        if cluster is not None:
            self._here[name] = cluster
            self._ids_here[cluster.cluster_id] += 1
        if had_own != self.has_here(self._own.local):
            for target in sorted(self._own.provisioned):
                self._on_change(target)
        self._rename(None, name, _naming(old), _naming(cluster))
        if old is not None and (cluster is None or _naming(old) != _naming(cluster)):
            self._report_related(old)

    def report(self, target: Target) -> None:
        """Report a Cluster or Secret that needs a new decision."""
        self._on_change(target)

    def _report_related(self, gone: Cluster) -> None:
        """Report the Clusters at peers of the same member, or with the same Secret, as a local Cluster that is gone."""
        for held in self._there.values():
            for name, view in held.items():
                if view.cluster_id == gone.cluster_id or (view.secret is not None and view.secret == gone.secret):
                    self._on_change(cluster_target(name))

    def set_there(self, peer: ClusterUID, name: str, view: MemberRecord | None) -> bool:
        """Record a peer's Cluster of that name, or its deletion; return whether anything changed."""
        held = self._there.setdefault(peer, {})
        old = held.pop(name, None)
        if view is not None:
            held[name] = view
        if old == view:
            return False
        self._rename(peer, name, _naming(old), _naming(view))
        return True

    def drop_peer(self, peer: ClusterUID) -> None:
        """Drop the Clusters of a peer."""
        for name in list(self._there.get(peer, ())):
            self.set_there(peer, name, None)
        self._there.pop(peer, None)

    def peers(self) -> Iterable[ClusterUID]:
        """List the peers that have Clusters."""
        return list(self._there)

    def has_here(self, member: ClusterUID | None) -> bool:
        """Return whether any local Cluster stands for a member."""
        return member is not None and self._ids_here[member] > 0

    def list_reserved_for(self, target: Target) -> frozenset[ClusterUID] | None:
        """Return the clusters whose membership alone may be created at a target; None for one that is not reserved."""
        named_by: frozenset[ClusterUID] = frozenset()
        if (target.group, target.kind) == ("", meta.SECRET.kind):
            named_by = self.naming_here(ObjectKey(target.namespace, target.name))
        return list_reserved_for(target, self._own, has_cluster=self.has_here(self._own.local), named_by=named_by)

    def there(self, peer: ClusterUID) -> Mapping[str, MemberRecord]:
        """Return the Clusters of a peer, by name."""
        return self._there.get(peer, {})

    def secrets_of(self, member: Cluster, *, peer: ClusterUID) -> Sequence[ObjectKey]:
        """List the Secrets that a peer's Clusters of a member name; first that of the Cluster named as the one here."""
        held = [record for record in self.there(peer).values() if record.cluster_id == member.cluster_id]
        held.sort(key=lambda record: (record.name != member.name, record.name))
        return tuple(dict.fromkeys(record.secret for record in held if record.secret is not None))

    def naming_here(self, secret: ObjectKey) -> frozenset[ClusterUID]:
        """Return the members whose local Cluster names that Secret."""
        return frozenset(owner for _, owner in self._naming.get((None, secret), ()))

    def natural_of_secret(self, secret: ObjectKey, *, peer: ClusterUID) -> frozenset[ClusterUID]:
        """Return the members to which a Secret at a peer belongs here."""
        named_there = frozenset(owner for _, owner in self._naming.get((peer, secret), ()))
        return natural_of_secret(self.naming_here(secret), named_there, peer=peer)

    def _rename(
        self,
        peer: ClusterUID | None,
        name: str,
        old: Naming | None,
        new: Naming | None,
    ) -> None:
        if old == new:
            return
        for found, add in ((old, False), (new, True)):
            if not found or found[1] is None:
                continue
            named_by = self._naming.setdefault((peer, found[1]), set())
            (named_by.add if add else named_by.discard)((name, found[0]))
            if not named_by:
                del self._naming[(peer, found[1])]
            self._on_change(secret_target(found[1]))
        self._on_change(cluster_target(name))


def _naming(held: Cluster | MemberRecord | None) -> Naming | None:
    return None if held is None else (held.cluster_id, held.secret)
