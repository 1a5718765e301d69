"""The provenance annotation: the source of a copy, and the rule by which the daemon created it.

It depends only on the owner's state and on the rule, so it is the same in every cluster. It never contains data of the
object. It is valid only on the object that it names, because controllers copy annotations to other objects.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from registry_controller.api import meta
from registry_controller.api.meta import GVK, UID_LENGTH, ClusterUID, Manifest, ObjectKey, Target, cluster_id, revision

_LENGTH: Final = 4096  # seven names of 253 characters, four of 63, and some shorter values
_TIME_LENGTH: Final = 40

_OPTIONAL: Final = (
    ("inherited", "inherited"),
    ("adopted", "adopted"),
    ("overrides", "overrides"),
    ("rule_uid", "ruleUID"),
    ("rule_created", "ruleCreationTimestamp"),
    ("left", "left"),
)
"""Fields that are left out while they are empty, with their names in the annotation."""

_NO_CLUSTER: Final = ClusterUID("")
_NO_KIND: Final = GVK("", "", "")
_NO_KEY: Final = ObjectKey("", "")
_NO_COPY: Final = Target("", "", "", "")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of one copy.

    - `rule_owner` is the cluster in which the rule was created, its home. `rule_uid` and `rule_created` are the rule's
      UID and creationTimestamp there; empty in a provenance of an earlier version.
    - `created` is the source's creationTimestamp. `revision` is the source's resourceVersion at the owner when the
      present content was written; 0 if unknown.
    - `inherited` is true if the annotation `resource-sync-disabled` came with the source.
    - `adopted` is true if the Go original created the copy. The copy then keeps its owner as long as the owner has the
      source, even if another member has an older object for it.
    - `overrides` is a digest of the applied overrides of the rule. It separates fields that earlier overrides set
      from fields that the server defaulted.
    - `left` are digests of the places that the rule takes out, and leaves to the copy's cluster. A value at such a
      place, in a copy with its digest, was not wanted by the rule, also where the daemon wrote it.
    """

    owner: ClusterUID
    rule: str
    rule_owner: ClusterUID
    policy: str
    source: GVK
    key: ObjectKey
    uid: str
    created: str
    revision: int
    copy: Target
    inherited: bool = False
    adopted: bool = False
    overrides: str = ""
    rule_uid: str = ""
    rule_created: str = ""
    left: tuple[str, ...] = ()

    def for_record(self) -> Provenance:
        """Return only the owner and the source's UID, creation time and revision, for a record of a copy at a peer."""
        return Provenance(
            self.owner, "", _NO_CLUSTER, "", _NO_KIND, _NO_KEY, self.uid, self.created, self.revision, _NO_COPY
        )

    def same_origin(self, other: Provenance) -> bool:
        """Return whether nothing but the revision differs. A different revision alone is not written.

        A provenance of an earlier version names no rule by UID; that alone is not written either.
        """
        if not (self.rule_uid and other.rule_uid):
            return self._without_rule() == other._without_rule()
        return replace(self, revision=0) == replace(other, revision=0)

    def _without_rule(self) -> Provenance:
        return replace(self, revision=0, rule_uid="", rule_created="")


def encode(provenance: Provenance) -> str:
    """Return the value of the annotation: compact JSON with sorted keys."""
    source, key, copy = provenance.source, provenance.key, provenance.copy
    content = {
        "copy": {"group": copy.group, "kind": copy.kind, "namespace": copy.namespace, "name": copy.name},
        "owner": provenance.owner,
        "policy": provenance.policy,
        "rule": provenance.rule,
        "ruleOwner": provenance.rule_owner,
        "source": {
            "group": source.group,
            "version": source.version,
            "kind": source.kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": provenance.uid,
            "creationTimestamp": provenance.created,
            "resourceVersion": str(provenance.revision),
        },
    }
    for field, name in _OPTIONAL:
        if value := getattr(provenance, field):
            content[name] = value
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode()


def with_provenance(manifest: Manifest, provenance: Provenance) -> Manifest:
    """Return a manifest with the provenance annotation."""
    info = manifest["metadata"]
    annotations = {**(info.get("annotations") or {}), meta.PROVENANCE: encode(provenance)}
    return {**manifest, "metadata": {**info, "annotations": annotations}}


def decode(text: str | None, *, of: Target) -> Provenance | None:
    """Parse the annotation of the object `of`; None if it is missing, invalid, or names another object.

    An annotation is invalid if it is longer than valid names allow.
    """
    if not text or len(text) > _LENGTH:
        return None
    try:
        found = orjson.loads(text)
        source = found["source"]
        if Target(**{part: _text(found["copy"], part) for part in Target._fields}) != of:
            return None
        provenance = Provenance(
            owner=cluster_id(_text(found, "owner")),
            rule=_text(found, "rule"),
            rule_owner=cluster_id(found["ruleOwner"] if isinstance(found.get("ruleOwner"), str) else ""),
            policy=_text(found, "policy"),
            source=GVK(_text(source, "group"), _text(source, "version"), _text(source, "kind")),
            key=ObjectKey(_text(source, "namespace"), _text(source, "name")),
            uid=_text(source, "uid", most=UID_LENGTH),
            created=_text(source, "creationTimestamp", most=_TIME_LENGTH),
            revision=revision(_text(source, "resourceVersion")),
            copy=of,
            inherited=found.get("inherited") is True,
            adopted=found.get("adopted") is True,
            overrides=found["overrides"] if isinstance(found.get("overrides"), str) else "",
            rule_uid=_optional_text(found, "ruleUID", most=UID_LENGTH),
            rule_created=_optional_text(found, "ruleCreationTimestamp", most=_TIME_LENGTH),
            left=tuple(text for text in found["left"] if isinstance(text, str)) if _has_list(found, "left") else (),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return provenance if provenance.owner else None


def _has_list(found: Mapping[str, Any], key: str) -> bool:
    return isinstance(found.get(key), list)


def _optional_text(found: Mapping[str, Any], key: str, *, most: int) -> str:
    """Return a text that a provenance may have; empty where it is missing or too long. Few rules make many copies."""
    value = found.get(key)
    return sys.intern(value) if isinstance(value, str) and len(value) <= most else ""


def _text(found: Mapping[str, Any], key: str, *, most: int = _LENGTH) -> str:
    value = found[key]
    if not isinstance(value, str) or len(value) > most:
        raise TypeError(key)
    return value
