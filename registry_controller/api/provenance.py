"""The provenance annotation: where a copy comes from, written by us from the first copy on.

It is a function of the owner's state and of the rule alone, so it is the same in every cluster. It never holds
any of the object's data. It counts only on the object that it names: controllers pass annotations on, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from registry_controller.api.meta import GVK, UID_LENGTH, ClusterUID, ObjectKey, Target, cluster_id, revision

_LENGTH: Final = 4096  # seven names of 253 characters, four of 63, and less of everything else
_TIME_LENGTH: Final = 40

_NOBODY: Final = ClusterUID("")
_NO_KIND: Final = GVK("", "", "")
_NO_KEY: Final = ObjectKey("", "")
_NO_COPY: Final = Target("", "", "", "")


@dataclass(frozen=True, slots=True)
class Provenance:
    """One copy's origin.

    `rule_owner` is the cluster where the rule was written, `created` the source's creationTimestamp, `revision` its
    resourceVersion at the owner when the present content was written (0: not known). `inherited` says that
    `resource-sync-disabled` came with the source, `adopted` that the Go original had made the copy: it keeps its
    owner for as long as that one offers it, whoever is older. `overrides` is a digest of the rule's overrides that
    were applied: only by it can the fields that they once gave be told from those that the server filled in.
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

    def remembered(self) -> Provenance:
        """Keep what is asked of an object that a peer holds of somebody else's: whose state it is, and which."""
        return Provenance(
            self.owner, "", _NOBODY, "", _NO_KIND, _NO_KEY, self.uid, self.created, self.revision, _NO_COPY
        )

    def same_origin(self, other: Provenance) -> bool:
        """Say whether only the revision differs: alone, that is no reason to write."""
        return replace(self, revision=0) == replace(other, revision=0)


def encode(provenance: Provenance) -> str:
    """Spell a provenance as the annotation's text: compact JSON, keys sorted."""
    source = provenance.source
    return orjson.dumps(
        {
            "owner": provenance.owner,
            "rule": provenance.rule,
            "ruleOwner": provenance.rule_owner,
            "policy": provenance.policy,
            "source": {
                "group": source.group,
                "version": source.version,
                "kind": source.kind,
                "namespace": provenance.key.namespace,
                "name": provenance.key.name,
                "uid": provenance.uid,
                "creationTimestamp": provenance.created,
                "resourceVersion": str(provenance.revision),
            },
            "copy": provenance.copy._asdict(),
            **({"inherited": True} if provenance.inherited else {}),
            **({"adopted": True} if provenance.adopted else {}),
            **({"overrides": provenance.overrides} if provenance.overrides else {}),
        },
        option=orjson.OPT_SORT_KEYS,
    ).decode()


def decode(text: str | None, *, of: Target) -> Provenance | None:
    """Read the annotation of the object `of`; None when it is absent, broken, or meant for another object.

    One that is longer than names of objects can make it is broken.
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
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return provenance if provenance.owner else None


def _text(found: Mapping[str, Any], key: str, *, most: int = _LENGTH) -> str:
    value = found[key]
    if not isinstance(value, str) or len(value) > most:
        raise TypeError(key)
    return value
