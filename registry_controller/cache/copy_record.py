"""Records of copies in the local cluster: marks, numbers and digests, never the body of a copy in sync."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey
from registry_controller.cache.write_results import StatusStored
from registry_controller.core.decision.marks import Binding, Marks
from registry_controller.core.diff.remainder import NOTHING_REMAINS, Remainder

HERE = ClusterUID("")
"""The cluster of slots that hold bodies of our own objects."""

RuleAndOwner = tuple[str, ClusterUID]
"""The name of a rule and an owner."""


class CopyGroup(NamedTuple):
    """The facts by which changes of rules and members find the copies that they affect.

    `source` is the group and kind that the copy was made from. `rule` and what follows are None without a provenance:
    the rule that made it, as far as the provenance names it.
    """

    owner: ClusterUID | None
    natural: ClusterUID | None
    source: tuple[str, str]
    rule: str | None
    rule_owner: ClusterUID | None
    rule_uid: str | None
    rule_definition: str | None


@dataclass(slots=True)
class CopyRecord:
    """One copy here, or a membership object, with or without marks.

    `desired` is the digest of the last wanted object, `baseline` the digest of its stored form, and `verified`
    the resourceVersion at which the stored object was that; None and 0 before the first comparison. `is_plain` is true
    if the stored object is exactly the sent one: the next replacement then has nothing to carry over.
    `made_from` is everything that decided the copy's content: while it is equal, no body is needed.
    `outranked_rules` are the younger rules that want the copy otherwise. `status_digest` is that of the status that was
    written last, where a rule asks for it, `status_baseline` that of its stored form, and `status_lost` are the fields
    that this lacks. `remainder` is what remains between the last wanted object and its stored form.
    `birth` is the source as the Go original recorded it.
    `streams` are the bits of the streams that have the object; 0 for our own write in a place that is not watched.
    `owner_had_it` means that the owner was seen to have the source of this copy. `shows_rule` means that daemons here
    wrote the provenance of this very object, so that it may show that its rule was here; a backup may bring back a copy
    without its rule.
    """

    uid: str
    revision: int
    deleting: bool
    marks: Marks
    birth: tuple[GVK, ObjectKey] | None
    natural: ClusterUID | None
    streams: int
    kind_type: str = ""
    desired: bytes | None = None
    baseline: bytes | None = None
    verified: int = 0
    is_plain: bool = False
    made_from: object = None
    outranked_rules: tuple[str, ...] = ()
    status_digest: bytes | None = None
    status_baseline: bytes | None = None
    status_lost: tuple[str, ...] = ()
    remainder: Remainder = NOTHING_REMAINS
    owner_had_it: bool = False
    shows_rule: bool = True

    @property
    def lost(self) -> tuple[str, ...]:
        """The wanted fields that the API server here does not store."""
        return self.remainder.lost + self.status_lost

    @property
    def source(self) -> tuple[GVK, ObjectKey] | None:
        """The kind and key of the object that the copy was made from; None for another object."""
        provenance = self.marks.provenance
        return (provenance.source, provenance.key) if provenance is not None else self.birth

    def is_copy_in(self, cluster: ClusterUID) -> bool:
        """Report whether this object is a copy in the cluster that has it: something binds its marks to it.

        Marks in a later format cannot be compared with the object; they count.
        """
        if self.marks.binding is Binding.UNREADABLE:
            return self.marks.is_copy
        return self.marks.is_copy and (self.owner_had_it or self.marks.is_bound_in(cluster))

    def origin(self, cluster: ClusterUID) -> RuleAndOwner:
        """Return the rule and the owner that the copy in a cluster was made by; empty where that is not known."""
        provenance = self.marks.provenance
        if not self.is_copy_in(cluster):
            return ("", HERE)
        return (provenance.rule if provenance is not None else "", self.marks.owner or HERE)

    @property
    def stands_for(self) -> tuple[object, ...] | None:
        """The source of this copy and the cluster that made it; None while it is being deleted."""
        provenance = self.marks.provenance
        if self.deleting or not self.marks.is_copy:
            return None
        return (self.marks.owner, self.source, provenance.cluster if provenance is not None else None)

    def group(self, kind: GVK) -> CopyGroup:
        """Return the group of this object of a kind."""
        source, provenance = self.source, self.marks.provenance
        made_from = kind if source is None else source[0]
        shared = (self.marks.owner, self.natural, (made_from.group, made_from.kind))
        if provenance is None:
            return CopyGroup(*shared, None, None, None, None)
        definition = provenance.rule_definition if self.shows_rule else ""
        return CopyGroup(*shared, provenance.rule, provenance.rule_owner, provenance.rule_uid, definition)

    def record_status(self, result: StatusStored) -> None:
        """Record the status of the copy; after our own status write, nothing else has changed."""
        obj = result.obj
        if obj is not None and obj.uid != self.uid:
            return
        self.status_digest, self.status_baseline = result.status_digest, result.baseline
        self.status_lost = result.lost
        if result.status_digest is None:
            self.made_from = None
        if obj is not None and obj.revision > self.revision:
            self.verified = obj.revision if self.verified == self.revision else 0
            self.revision = obj.revision
