"""The latest state that is known of each rule that came from another cluster, as its copies here named it (A8).

Law: an earlier state of a rule, which a backup tool or a person puts here, is no order of the rule's owner, unless the
owner shows it.
"""

from __future__ import annotations

from collections.abc import Callable

from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.api.provenance import Provenance
from registry_controller.core.decision.marks import Marks
from registry_controller.core.decision.stored_spec import NOT_AS_WRITTEN, Refusal, find_refusal, is_earlier


class RuleCopies:
    """Compares each copy of a rule with the rule's owner, and with the states that were here.

    `spec_at_owner` returns the digest of the spec that the owner of a copy's rule showed last; empty if unknown.
    """

    def __init__(self) -> None:
        self.spec_at_owner: Callable[[Provenance], str] = lambda _: ""
        self._latest: dict[str, tuple[ClusterUID, int]] = {}

    def find_refusal(self, name: str, manifest: Manifest, marks: Marks) -> Refusal | None:
        """Return why a rule may not act as it is here; None where it may, and its state is noted then."""
        provenance = marks.provenance
        if (refusal := find_refusal(manifest, marks)) is not None:
            return refusal
        if provenance is None or marks.frozen or not provenance.spec:
            return None
        owner, revision = self._latest.get(name, (provenance.owner, 0))
        if owner == provenance.owner and is_earlier(provenance, than=revision, at_owner=self.spec_at_owner(provenance)):
            return NOT_AS_WRITTEN
        self._latest[name] = (provenance.owner, provenance.revision)
        return None
