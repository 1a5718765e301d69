"""The provenance annotation: the source of a copy, and the rule by which the daemon created it.

It depends only on the owner's state, on the rule, and on the cluster that holds the copy. It never contains data of the
object. It is valid only on the object that it names, because controllers and people copy annotations to other objects.

Its format has a number; without one, it is format 1. A version that changes the meaning of a field writes the next
number. A version that only adds a field keeps the number, and the field names the state that it is about: an earlier
version keeps fields that it does not know, also when it writes another state of the copy.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from registry_controller.api import meta
from registry_controller.api.jsontext import is_later, write_object
from registry_controller.api.meta import GVK, UID_LENGTH, ClusterUID, Manifest, ObjectKey, Target, cluster_id, revision

FORMAT: Final = 1

_LENGTH: Final = 64 * 1024  # the longest names take 4096 characters; the rest is for the fields of later versions
_TEXT_LENGTH: Final = 4096
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

_NAMES: Final = frozenset(
    (
        *("format", "copy", "spec", "owner", "policy", "source"),
        *("rule", "ruleOwner", "ruleDefinition", "ruleGeneration", "ruleRevision"),
    )
) | {name for _, name in _OPTIONAL}

_NO_CLUSTER: Final = ClusterUID("")
_NO_KIND: Final = GVK("", "", "")
_NO_KEY: Final = ObjectKey("", "")
_NO_COPY: Final = Target("", "", "", "")

_UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class RuleGeneration(NamedTuple):
    """The UID and the generation of a rule's object in one cluster; no UID if it is not known."""

    uid: str
    generation: int


UNKNOWN_GENERATION: Final = RuleGeneration("", 0)
_STATE: Final = re.compile(  # by pattern, because this runs for every event
    r'"resourceVersion":"[0-9]*",?|"cluster":"[^"]*","digest":"[0-9a-f]*",|"rule(?:Generation|Revision)":{[^}]*},'
)


class Provenance(msgspec.Struct, frozen=True):
    """The origin of one copy.

    - `rule_owner` is the cluster in which the rule was created. `rule_uid` and `rule_created` are the rule's
      UID and creationTimestamp there; empty in a provenance of an earlier version.
    - `rule_definition` is the UID of a definition of rules that the cluster had together with the rule; only in the
      cluster in which the rule was created, and empty where that is not known. In the annotation it names the rule.
    - `created` is the source's creationTimestamp. `revision` is the source's resourceVersion at the owner when the
      present content was written; 0 if unknown.
    - `inherited` is true if the annotation `resource-sync-disabled` came with the source.
    - `adopted` is true if the Go original created the copy. The copy then keeps its owner as long as the owner has the
      source, even if another member has an older object for it.
    - `overrides` is a digest of the applied overrides of the rule. It separates fields that earlier overrides set
      from fields that the server defaulted.
    - `left` are digests of the places that the rule takes out, and leaves to the copy's cluster. A value at such a
      place, in a copy with its digest, was not wanted by the rule, also where the daemon wrote it.
    - `rule_generation` is the generation of the rule, in the cluster that holds the copy, by which the daemon wrote the
      copy. It alone is not written.
    - `rule_revision` is the rule's resourceVersion at the cluster in which the rule was created, as its copy named it
      when the daemon wrote the copy; 0 for a rule of the same cluster, and where it is unknown. It alone is not
      written. In the annotation it names the rule.
    - `cluster` is the cluster that holds the copy; empty if an earlier version wrote the copy, in the same cluster.
    - `unknown` are the fields that a later version of the daemon added, each with its name and its JSON text.
    - `spec` is, for the copy of a rule, the digest of its spec as the owner has it at `revision`; else empty. It is
      empty, too, where the digest in the annotation belongs to another revision.
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
    rule_definition: str = ""
    left: tuple[str, ...] = ()
    cluster: ClusterUID = _NO_CLUSTER
    spec: str = ""
    rule_generation: RuleGeneration = UNKNOWN_GENERATION
    rule_revision: int = 0
    unknown: tuple[tuple[str, str], ...] = ()

    def for_record(self, *, peer: ClusterUID) -> Provenance:
        """Return the parts that a record of a copy at a peer needs: where the copy was made, and its source.

        Of the source these are the owner, the UID, the creation time and the revision.
        """
        return Provenance(
            self.owner,
            "",
            _NO_CLUSTER,
            "",
            _NO_KIND,
            _NO_KEY,
            self.uid,
            self.created,
            self.revision,
            _NO_COPY,
            cluster=_NO_CLUSTER if self.cluster == peer else self.cluster,
        )

    def is_held_in(self, cluster: ClusterUID) -> bool:
        """Return whether the copy was made in this cluster."""
        return self.cluster in (_NO_CLUSTER, cluster)

    def same_origin(self, other: Provenance) -> bool:
        """Return whether nothing but the revision and the rule's state differs, which alone are not written.

        Nor are fields of a later version, and neither is the name of the cluster, the UID of the rule, its
        definition, or a rule's digest, where an earlier version has not written it.
        """
        if _NO_CLUSTER not in (self.cluster, other.cluster) and self.cluster != other.cluster:
            return False
        if self.rule_uid and other.rule_uid and self.rule_uid != other.rule_uid:
            return False
        if self.spec and other.spec and self.spec != other.spec:
            return False
        return self._essence() == other._essence()

    def _essence(self) -> Provenance:
        return msgspec.structs.replace(
            self,
            revision=0,
            rule_generation=UNKNOWN_GENERATION,
            rule_revision=0,
            rule_uid="",
            rule_created="",
            rule_definition="",
            cluster=_NO_CLUSTER,
            spec="",
            unknown=(),
        )


def encode(provenance: Provenance) -> str:
    """Return the value of the annotation: compact JSON with sorted keys.

    Fields of a later version are left out where the daemon could not read the text with them again.
    """
    source, key, copy, revision_text = provenance.source, provenance.key, provenance.copy, str(provenance.revision)
    place = {"group": copy.group, "kind": copy.kind, "namespace": copy.namespace, "name": copy.name}
    if provenance.cluster:
        place["cluster"], place["digest"] = provenance.cluster, _digest(copy, provenance.cluster)
    content = {
        "copy": place,
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
            "resourceVersion": revision_text,
        },
    }
    if provenance.rule_definition:
        content["ruleDefinition"] = {"uid": provenance.rule_definition, "ruleUID": provenance.rule_uid}
    if provenance.spec:
        content["spec"] = {"digest": provenance.spec, "resourceVersion": revision_text}
    if provenance.rule_generation.uid:
        content["ruleGeneration"] = provenance.rule_generation._asdict()
    if provenance.rule_revision and provenance.rule_uid:
        content["ruleRevision"] = {
            "resourceVersion": str(provenance.rule_revision),
            "ruleUID": provenance.rule_uid,
        }
    for field, name in _OPTIONAL:
        if value := getattr(provenance, field):
            content[name] = value
    found = content
    if provenance.unknown:
        found = content | {name: orjson.Fragment(text) for name, text in provenance.unknown}
    return write_object(found, plain=content, most=_LENGTH)


def without_state(text: str) -> str:
    """Return the value of the annotation without what alone is not written.

    That is the revision of the source, the state of the rule, and the cluster, which earlier versions do not write.
    """
    return _STATE.sub("", text)


def with_provenance(manifest: Manifest, provenance: Provenance) -> Manifest:
    """Return a manifest with the provenance annotation."""
    info = manifest["metadata"]
    annotations = {**(info.get("annotations") or {}), meta.PROVENANCE: encode(provenance)}
    return {**manifest, "metadata": {**info, "annotations": annotations}}


def decode(text: str | None, *, of: Target) -> Provenance | None:
    """Parse the annotation of the object `of`; None if it is missing, invalid, of a later format, or another object's.

    An annotation of more than 64 KiB is invalid.
    """
    if not text or len(text) > _LENGTH:
        return None
    try:
        found = orjson.loads(text)
        if is_later(found, than=FORMAT):
            return None
        source = found["source"]
        cluster = _cluster_of(found["copy"], of=of)
        if cluster is None:
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
            overrides=_text(found, "overrides") if isinstance(found.get("overrides"), str) else "",
            rule_uid=_optional_text(found, "ruleUID", most=UID_LENGTH),
            rule_created=_optional_text(found, "ruleCreationTimestamp", most=_TIME_LENGTH),
            rule_definition=_definition_of(found) if "ruleDefinition" in found else "",
            left=tuple(text for text in found["left"] if isinstance(text, str)) if _has_list(found, "left") else (),
            cluster=cluster,
            spec=_spec_of(found, revision_text=_text(source, "resourceVersion")) if "spec" in found else "",
            rule_generation=_generation_of(found["ruleGeneration"])
            if "ruleGeneration" in found
            else UNKNOWN_GENERATION,
            rule_revision=_rule_revision_of(found) if "ruleRevision" in found else 0,
            unknown=() if found.keys() <= _NAMES else _read_unknown(found),
        )
    except _UNREADABLE:
        return None
    return provenance if provenance.owner else None


def has_later_format(text: str) -> bool:
    """Return whether a later version of the daemon wrote the annotation, in a format that this one cannot read."""
    try:
        return len(text) <= _LENGTH and is_later(orjson.loads(text), than=FORMAT)
    except _UNREADABLE:
        return False


def _read_unknown(found: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the fields that this version does not know, with their JSON text; none where they are nested too deep."""
    try:
        return tuple((name, orjson.dumps(found[name]).decode()) for name in sorted(found.keys() - _NAMES))
    except orjson.JSONEncodeError:
        return ()


def _definition_of(found: Mapping[str, Any]) -> str:
    """Return the UID of the rule's definition; empty where it belongs to another rule than the rest.

    A daemon of another version may have written the rest.
    """
    definition, rule_uid = found["ruleDefinition"], found.get("ruleUID")
    if not isinstance(definition, Mapping) or not rule_uid or definition.get("ruleUID") != rule_uid:
        return ""
    return _optional_text(definition, "uid", most=UID_LENGTH)


def _rule_revision_of(found: Mapping[str, Any]) -> int:
    """Return the revision of the rule at its owner; 0 where it belongs to another rule than the rest."""
    state, rule_uid = found["ruleRevision"], found.get("ruleUID")
    if not isinstance(state, Mapping) or not rule_uid or state.get("ruleUID") != rule_uid:
        return 0
    return revision(state.get("resourceVersion"))


def _generation_of(found: object) -> RuleGeneration:
    uid, generation = (found.get("uid"), found.get("generation")) if isinstance(found, Mapping) else (None, None)
    if not isinstance(uid, str) or len(uid) > UID_LENGTH or not isinstance(generation, int):
        return UNKNOWN_GENERATION
    return RuleGeneration(uid, generation)


def _spec_of(found: Mapping[str, Any], *, revision_text: str) -> str:
    """Return the digest of a rule's spec; empty where it belongs to another revision than the rest of the provenance.

    A daemon of another version may have written the rest.
    """
    spec = found["spec"]
    if not isinstance(spec, Mapping) or spec.get("resourceVersion") != revision_text:
        return ""
    return _optional_text(spec, "digest", most=UID_LENGTH)


def _has_list(found: Mapping[str, Any], key: str) -> bool:
    return isinstance(found.get(key), list)


def _optional_text(found: Mapping[str, Any], key: str, *, most: int) -> str:
    """Return a text that a provenance may have; empty where it is missing or too long. Few rules make many copies."""
    value = found.get(key)
    return sys.intern(value) if isinstance(value, str) and len(value) <= most else ""


def names_another(text: str, *, of: Target) -> bool:
    """Return whether the annotation of the object `of` was made for another object; False if it cannot be read."""
    if len(text) > _LENGTH:
        return False
    try:
        return _cluster_of(orjson.loads(text)["copy"], of=of) is None
    except _UNREADABLE:
        return False


def _cluster_of(copy: Mapping[str, Any], *, of: Target) -> ClusterUID | None:
    """Return the cluster in which the copy `of` was made, empty if it is not named; None for another object's copy.

    The digest shows whether a name, or the cluster, was replaced in the text.
    """
    if Target(**{part: _text(copy, part) for part in Target._fields}) != of:
        return None
    if "cluster" not in copy:
        return _NO_CLUSTER
    cluster = ClusterUID(sys.intern(_text(copy, "cluster", most=UID_LENGTH)))
    return cluster if copy.get("digest") == _digest(of, cluster) else None


def _digest(copy: Target, cluster: ClusterUID) -> str:
    """Return the digest of the names of a copy."""
    text = "\0".join((*copy, cluster))
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()


def _text(found: Mapping[str, Any], key: str, *, most: int = _TEXT_LENGTH) -> str:
    value = found[key]
    if not isinstance(value, str) or len(value) > most:
        raise TypeError(key)
    return value
