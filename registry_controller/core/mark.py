"""Put the provenance on a copy.

Law: provenance is a function of the owner's state and of the rule alone, the same in every cluster.
"""

from __future__ import annotations

from registry_controller.api import meta
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.core.own import Marks, Voice
from registry_controller.core.view import Claim


def provenance_of(
    claim: Claim,
    *,
    rule_owner: ClusterUID,
    policy: str,
    marks: Marks,
    target: Target,
    inherited: bool,
    adopted: bool = False,
) -> Provenance:
    """Say where a copy made from a claim comes from; `marks` are those of the object that was read.

    `inherited` says that the copy has `resource-sync-disabled` from its source or its rule, so that it freezes nothing.

    What an intermediary holds passes on the provenance that it has from the owner, or says that nothing is known.
    """
    if claim.voice is Voice.INTERMEDIARY:
        theirs = marks.provenance if marks.provenance and marks.provenance.owner == claim.owner else None
        uid, created, revision = (theirs.uid, theirs.created, theirs.revision) if theirs else ("", "", 0)
    else:
        uid, created, revision = claim.uid, claim.created, claim.revision
    return Provenance(
        owner=claim.owner,
        rule=claim.rule,
        rule_owner=rule_owner,
        policy=policy,
        source=GVK(*claim.kind),
        key=ObjectKey(*claim.key),
        uid=uid,
        created=created,
        revision=revision,
        copy=target,
        inherited=inherited,
        adopted=adopted,
    )


def with_provenance(manifest: Manifest, provenance: Provenance) -> Manifest:
    """Build the manifest anew with the annotation."""
    info = meta.metadata_of(manifest)
    annotations = {**(info.get("annotations") or {}), meta.PROVENANCE: encode(provenance)}
    return {**manifest, "metadata": {**info, "annotations": annotations}}
