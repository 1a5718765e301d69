"""Put the provenance on a copy.

Law: provenance is a function of the owner's state, of the rule, and of the cluster that holds the copy.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import orjson

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Manifest, Target
from registry_controller.api.provenance import Provenance, encode
from registry_controller.api.syncrule import RuleEntry
from registry_controller.core.decision.ownership import Marks, Voice
from registry_controller.core.decision.state import Claim


def provenance_of(
    claim: Claim,
    *,
    cluster: ClusterUID,
    rule_owner: ClusterUID,
    policy: str,
    marks: Marks,
    target: Target,
    inherited: bool,
    adopted: bool = False,
    entries: Sequence[RuleEntry] = (),
) -> Provenance:
    """Return the provenance of a copy in `cluster` that is made from a claim; `marks` are the marks of its source.

    `entries` are the rule's matching entries. `inherited` means that the copy has `resource-sync-disabled` from its
    source or its rule, so that it does not freeze the copy.

    A relay's object passes on the owner's provenance, or an empty one where it is unknown.
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
        source=claim.kind,
        key=claim.key,
        uid=uid,
        created=created,
        revision=revision,
        copy=target,
        inherited=inherited,
        adopted=adopted,
        overrides=_digest_overrides(tuple(entries)),
        cluster=cluster,
    )


@functools.lru_cache(maxsize=1024)
def _digest_overrides(entries: tuple[RuleEntry, ...]) -> str:
    """Return the digest of the overrides; empty without any. A template belongs to the rule and has no object data."""
    overrides = [
        (override.type, override.pointer, override.value, override.parse_value)
        for entry in entries
        for override in entry.mutations.overrides
    ]
    return hashlib.blake2b(orjson.dumps(overrides), digest_size=6).hexdigest() if overrides else ""


def with_provenance(manifest: Manifest, provenance: Provenance) -> Manifest:
    """Return a manifest with the provenance annotation."""
    info = manifest["metadata"]
    annotations = {**(info.get("annotations") or {}), meta.PROVENANCE: encode(provenance)}
    return {**manifest, "metadata": {**info, "annotations": annotations}}
