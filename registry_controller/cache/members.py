"""What is known of membership: which Clusters are held where, and which Secrets they name.

Law: a registry Secret belongs to the member whose Cluster names it; what nobody names belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, ClusterType
from registry_controller.api.meta import ClusterUID, ObjectKey, Target
from registry_controller.api.tombstone import can_be_named
from registry_controller.core.decision.ownership import Marks, read_marks

OnChange = Callable[[Target], None]
Naming = tuple[ClusterUID, ObjectKey | None]


class MemberRecord(NamedTuple):
    """A Cluster object as some member holds it."""

    name: str
    cluster_id: ClusterUID
    secret: ObjectKey | None
    state: str
    type: str
    disabled: bool
    membership: str
    """The uid of the Cluster at the member for which it stands; empty where its holder does not know."""

    def is_own_name_of(self, holder: ClusterUID) -> bool:
        """Say whether its holder calls itself by its name; one that has no type yet was not looked at there."""
        return self.cluster_id == holder and self.type in ("", ClusterType.LOCAL.value)


def cluster_target(name: str) -> Target:
    """Name a Cluster as a target."""
    return Target(meta.GROUP, meta.CLUSTER.kind, "", name)


def secret_target(key: ObjectKey) -> Target:
    """Name a Secret as a target."""
    return Target("", "Secret", key.namespace, key.name)


def membership_of(annotations: Mapping[str, str], name: str, member: str) -> str:
    """Tell of which membership a copy of a member's Cluster is: the uid at its source; empty where it does not say."""
    return membership_marked(read_marks(annotations, of=cluster_target(name)), member)


def membership_marked(marks: Marks, member: str) -> str:
    """Tell of which membership the copy of a member's Cluster is that has these marks."""
    provenance = marks.provenance
    known = provenance.uid if provenance is not None and provenance.owner == member else ""
    return known if can_be_named(known) else ""


class Members:
    """Clusters here and at every peer. `on_change` hears the membership targets that a change bears on."""

    def __init__(self, *, on_change: OnChange) -> None:
        self._here: dict[str, Cluster] = {}
        self._there: dict[ClusterUID, dict[str, MemberRecord]] = {}
        self._naming: dict[tuple[ClusterUID | None, ObjectKey], set[tuple[str, ClusterUID]]] = {}
        self._on_change = on_change

    def set_here(self, name: str, cluster: Cluster | None) -> None:
        """Remember our own object of that name, or that it is gone."""
        old = self._here.pop(name, None)
        if cluster is not None:
            self._here[name] = cluster
        self._rename(None, name, _naming(old), _naming(cluster))
        if old is not None and (cluster is None or _naming(old) != _naming(cluster)):
            self._look_at_others(old)

    def _look_at_others(self, gone: Cluster) -> None:
        """Look at the Clusters that peers hold of a member that has none here any more, or that name its Secret."""
        for held in self._there.values():
            for name, view in held.items():
                if view.cluster_id == gone.cluster_id or (view.secret is not None and view.secret == gone.secret):
                    self._on_change(cluster_target(name))

    def set_there(self, peer: ClusterUID, name: str, view: MemberRecord | None) -> bool:
        """Remember a peer's object of that name, or that it is gone; say whether something changed."""
        held = self._there.setdefault(peer, {})
        old = held.pop(name, None)
        if view is not None:
            held[name] = view
        if old == view:
            return False
        self._rename(peer, name, _naming(old), _naming(view))
        return True

    def drop_peer(self, peer: ClusterUID) -> None:
        """Forget what a peer holds."""
        for name in list(self._there.get(peer, ())):
            self.set_there(peer, name, None)
        self._there.pop(peer, None)

    def peers(self) -> Iterable[ClusterUID]:
        """List the peers that hold any."""
        return list(self._there)

    def there(self, peer: ClusterUID) -> Mapping[str, MemberRecord]:
        """List the Clusters that a peer holds."""
        return self._there.get(peer, {})

    def naming_here(self, secret: ObjectKey) -> frozenset[ClusterUID]:
        """List the members whose Cluster, here, names that Secret."""
        return frozenset(owner for _, owner in self._naming.get((None, secret), ()))

    def natural_of_secret(self, secret: ObjectKey, *, peer: ClusterUID) -> frozenset[ClusterUID]:
        """List the members whose Cluster names that Secret here, or at that peer where none here does.

        What is known here no peer changes: another Cluster that it holds would take a member's Secret from it.
        """
        return self.naming_here(secret) or frozenset(owner for _, owner in self._naming.get((peer, secret), ()))

    def disputed_secrets(self) -> Iterable[tuple[ObjectKey, tuple[str, ...]]]:
        """List the Secrets that Clusters of several members name here, with the Clusters' names."""
        for (peer, secret), named_by in self._naming.items():
            if peer is None and len({owner for _, owner in named_by}) > 1:
                yield secret, tuple(sorted(name for name, _ in named_by))

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
