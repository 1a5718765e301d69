"""Reads the owner of an object from its marks, and the right by which a peer offers it.

Laws: a mark binds to the object that it names, in the cluster that holds the copy; a label is no mark · an object with
the mark of another object is native, and so is one whose mark nothing binds · a mark that a later version of the
daemon wrote proves nothing, and is left alone · a peer may offer the objects that were
created there · membership (Clusters and registry Secrets) is offered by its natural owner, with any marks.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from registry_controller.api import meta
from registry_controller.api.last_applied import names_object
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey, Target
from registry_controller.api.provenance import Provenance, decode, has_later_format, names_another


class Doubt(enum.Enum):
    """A true value that its author may not have meant."""

    SAYS_FALSE = "false"
    """`resource-sync-disabled` counts with any value, and has this one."""


class Binding(enum.Enum):
    """The object that the marks on an object are about."""

    NAMED = "this very object, which they name"
    UNPROVEN = "not named: only the owner can show that it has an object for this copy"
    PASSED_ON = "another object: a controller or a person copied them from there"
    UNREADABLE = "not known: a later version of the daemon wrote them"


@dataclass(frozen=True, slots=True)
class Marks:
    """The origin of an object, from its annotations.

    A native object has no `owner`, nor has one whose marks were passed on to it. `frozen` means that a person put
    `resource-sync-disabled` on the object itself, `go_written` that the Go original wrote it last (a provenance on it
    was copied from its source).
    """

    owner: ClusterUID | None
    provenance: Provenance | None
    sync_disabled: bool | Doubt
    go_written: bool
    binding: Binding = Binding.NAMED

    @property
    def is_copy(self) -> bool:
        return self.owner is not None

    @property
    def may_be_copy(self) -> bool:
        """Report whether the object is a copy, or has marks that only a later version can read."""
        return self.is_copy or self.binding is Binding.UNREADABLE

    def is_bound_in(self, cluster: ClusterUID) -> bool:
        """Report whether the marks are about this very object in the cluster that has it."""
        if self.binding is not Binding.NAMED:
            return False
        return self.provenance is None or self.provenance.is_held_in(cluster)

    def counted_in(self, cluster: ClusterUID) -> Marks:
        """Return the marks as they count in the cluster that has the object: there, its own object is native."""
        return Marks(None, None, self.sync_disabled, False) if self.owner == cluster else self

    @property
    def by_go(self) -> bool:
        """Report whether the Go original made this copy: it has no provenance, or one marked as adopted (O10)."""
        return self.is_copy and (self.provenance is None or self.provenance.adopted)

    def provenance_of(self, owner: ClusterUID) -> Provenance | None:
        """Return the provenance if it names this owner, as at a relay."""
        return self.provenance if self.provenance is not None and self.provenance.owner == owner else None

    @property
    def revision(self) -> int:
        """Return the source's resourceVersion at its owner from which the content was written; 0 if unknown."""
        return self.provenance.revision if self.provenance else 0

    @property
    def frozen(self) -> bool:
        return bool(self.sync_disabled) and not (self.provenance and self.provenance.inherited)


NATIVE = Marks(None, None, False, False)


def read_marks(annotations: Mapping[str, str], *, of: Target) -> Marks:
    """Read the marks from the annotations of the object `of`."""
    sync_disabled = _is_set(annotations.get(meta.SYNC_DISABLED))
    owner, text = annotations.get(meta.OWNER), annotations.get(meta.PROVENANCE)
    if not owner and not text:
        return Marks(None, None, sync_disabled, False) if sync_disabled else NATIVE
    applied = annotations.get(meta.GO_LAST_APPLIED)
    if applied is not None:
        is_named = names_object(applied, of=of) if owner else None
        if is_named is False:
            return Marks(None, None, sync_disabled, True, Binding.PASSED_ON)
        binding = Binding.NAMED if is_named or not owner else Binding.UNPROVEN
        return Marks(meta.cluster_id(owner) if owner else None, None, sync_disabled, True, binding)
    provenance = decode(text, of=of)
    if provenance is not None:
        return Marks(provenance.owner, provenance, sync_disabled, False)
    if text and has_later_format(text):
        return Marks(meta.cluster_id(owner) if owner else None, None, sync_disabled, False, Binding.UNREADABLE)
    if text and names_another(text, of=of):
        return Marks(None, None, sync_disabled, False, Binding.PASSED_ON)
    if not owner:
        return Marks(None, None, sync_disabled, False)
    return Marks(meta.cluster_id(owner), None, sync_disabled, False, Binding.UNPROVEN)


def remembered(marks: Marks, *, peer: ClusterUID) -> Marks:
    """Return the marks of an object at a peer, reduced to the parts that decisions read (R6)."""
    if marks.provenance is None:
        return marks
    return replace(marks, provenance=marks.provenance.for_record(peer=peer))


def read_birth(
    annotations: Mapping[str, str], labels: Mapping[str, str], *, gvk: GVK, key: ObjectKey
) -> tuple[GVK, ObjectKey]:
    """Return the kind and key of the source of a copy without provenance.

    The Go original recorded them; otherwise they are the copy's own.
    """
    kind, _, rest = annotations.get(meta.ORIGINAL_GVK, "").partition(".")
    group, _, version = rest.rpartition("/")
    namespace, name = labels.get(meta.ORIGINAL_NAMESPACE), labels.get(meta.ORIGINAL_NAME)
    born = ObjectKey(namespace or key.namespace, name or key.name)
    return GVK(group, version, kind) if kind and version else gvk, born


def _is_set(value: str | None) -> bool | Doubt:
    return Doubt.SAYS_FALSE if value == Doubt.SAYS_FALSE.value else value is not None


class Voice(enum.Enum):
    """The right by which a peer offers an object."""

    OWNER = "owner"
    INTERMEDIARY = "intermediary"
    OURS = "ours"
    SILENT = "silent"
    """No right: a copy of another cluster's object, or a Secret that no Cluster names."""
    DISPUTED = "disputed"
    """A Secret that Clusters of different members name, or that our own Cluster names."""


def voice_of(marks: Marks, *, peer: ClusterUID, local: ClusterUID) -> Voice:
    """Return the right by which `peer` offers an ordinary object (O2, O3)."""
    if marks.owner is None and marks.binding is Binding.UNREADABLE:
        return Voice.SILENT
    if marks.owner is None or marks.owner == peer:
        return Voice.OWNER
    return Voice.OURS if marks.owner == local else Voice.SILENT


def is_at_home(marks: Marks, *, peer: ClusterUID, membership: bool) -> bool:
    """Report whether an object at `peer` may be its own; a bound copy proves that its own object is gone (O3, O5)."""
    return membership or marks.owner in (None, peer) or not marks.is_bound_in(peer)


def is_made_by_controller(marks: Marks, body: Callable[[], Manifest], *, peer: ClusterUID) -> bool:
    """Report whether a controller at `peer` made an object from a copy: its marks are not bound, and it has an owner.

    Such an object is no source: the same controller makes it in every cluster that has the copy. Marks that name
    `peer` itself are of no copy there. `body` decodes the object.
    """
    if marks.owner == peer or marks.is_bound_in(peer):
        return False
    references = meta.metadata_of(body()).get("ownerReferences")
    owners = references if isinstance(references, list) else ()
    return any(isinstance(one, Mapping) and one.get("controller") is True for one in owners)


def voice_of_membership(natural: Collection[ClusterUID], *, peer: ClusterUID, local: ClusterUID) -> Voice:
    """Return the right by which `peer` offers a Cluster or a registry Secret (O2, O7).

    `natural` holds the clusters that the object represents: a Cluster's clusterID, or the clusterIDs of the Clusters
    that name a Secret, here, or at that peer if none does here.
    """
    if not natural:
        return Voice.SILENT
    if local in natural:
        return Voice.OURS
    if len(natural) > 1:
        return Voice.DISPUTED
    return Voice.OWNER if peer in natural else Voice.INTERMEDIARY


def natural_of_secret(
    named_here: frozenset[ClusterUID], named_there: frozenset[ClusterUID], *, peer: ClusterUID
) -> frozenset[ClusterUID]:
    """Return the members to which a registry Secret at `peer` belongs here (O4, O7).

    These are the members whose Clusters here name it. A Secret that no Cluster here names belongs to the peer itself,
    where the peer's Cluster names it there. A relay's Clusters decide nothing: they may be older than those that were
    here, and a relay could take a member's Secret from it.
    """
    return named_here or (named_there if named_there == {peer} else frozenset())


def is_membership(kind: GVK, secret_type: str) -> bool:
    """Report whether objects of this kind (and Secret type) are membership."""
    if kind.group == meta.GROUP:
        return kind.kind == meta.CLUSTER.kind
    return kind.group == "" and kind.kind == "Secret" and secret_type == meta.REGISTRY_SECRET_TYPE
