"""Compares the spec of a copied rule with the one that its owner wrote, before the rule is obeyed (A8).

The provenance of a copied rule has a digest of the spec as the rule's owner has it. A copy with another spec lost a
field in an older CustomResourceDefinition, or was edited here. One with an earlier spec, and its provenance, was put
here again, as by a backup tool.

Laws: the digest is the same in every cluster, and is known before the copy is written · a native rule, a copy with
`resource-sync-disabled` of this cluster, and one without a digest, as earlier versions write it, are obeyed as they are
· an earlier state is obeyed only where the rule's owner shows it, as after the restore of an etcd · while a copy here
is altered, the rule acts as before, if this daemon knows it as its owner wrote it · a copy whose marks a later version
of the daemon wrote does nothing: what its owner wrote, and which rule it is, is not known.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, NamedTuple

from registry_controller.api.meta import Manifest
from registry_controller.api.provenance import Provenance
from registry_controller.core.decision.marks import Binding, Marks


class Refusal(NamedTuple):
    """The reason for which a stored rule is not obeyed."""

    reason: str
    message: str


NOT_AS_WRITTEN: Final = Refusal(
    "NotAsWritten",
    "spec: is not the one that the rule's own cluster wrote: it was edited here, an earlier copy was put here, or an "
    "older CRD dropped a field; it is written again while that cluster answers; to use it as it is, annotate it with "
    "resource-sync-disabled",
)
LATER_FORMAT: Final = Refusal(
    "LaterFormat",
    "metadata.annotations: a later version of the daemon wrote the marks of this rule, so that it is not known whether "
    "it is as its own cluster wrote it: upgrade the daemon here; until then the rule does nothing, and its copies stay",
)

ACTS_AS_WRITTEN: Final = "spec: was altered here; the rule acts as its own cluster wrote it, until this daemon restarts"
"""The warning about a rule that goes on as before while its spec here is another one."""


def digest_spec(manifest: Manifest) -> str:
    """Return the digest of a rule's spec, in hexadecimal digits; empty where the spec is nested too deeply.

    A null is left out, because an API server does not store it.
    """
    try:
        text = json.dumps(_without_nulls(manifest.get("spec")), sort_keys=True, separators=(",", ":"))
    except RecursionError:
        return ""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def is_as_written(manifest: Manifest, marks: Marks) -> bool:
    """Return whether a rule has the spec that its owner wrote; true where that cannot be known."""
    written = marks.provenance.spec if marks.provenance is not None else ""
    return not written or digest_spec(manifest) == written


def find_refusal(manifest: Manifest, marks: Marks) -> Refusal | None:
    """Return why a stored rule may not act as it is here; None where it may."""
    if marks.binding is Binding.UNREADABLE:
        return LATER_FORMAT
    return None if marks.frozen or is_as_written(manifest, marks) else NOT_AS_WRITTEN


def is_earlier(rule: Provenance, *, than: int, at_owner: str) -> bool:
    """Return whether a rule's copy has an earlier state of the rule than a known revision at the rule's owner.

    `at_owner` is the digest of the spec that the owner showed last. The state that the owner shows is the present one.
    """
    return 0 < rule.revision < than and bool(rule.spec) and rule.spec != at_owner


def goes_on(acting: Manifest, acting_marks: Marks, *, marks: Marks) -> bool:
    """Return whether the rule that acts goes on, while its copy here is altered, or names an earlier state.

    `marks` are the marks of the altered copy.
    """
    before, now = acting_marks.provenance, marks.provenance
    if before is None or now is None or not before.spec:
        return False
    is_same = (before.owner, before.key, before.uid, before.spec) == (now.owner, now.key, now.uid, now.spec)
    is_earlier_now = (before.owner, before.key) == (now.owner, now.key) and 0 < now.revision < before.revision
    return (is_same or is_earlier_now) and is_as_written(acting, acting_marks)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
