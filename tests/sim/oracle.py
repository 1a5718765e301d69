"""What a group must end in, written a second time and as plainly as it can be.

It reads the API servers as they are, with all that people made there, and knows nothing of how the engine goes about
it. Where the past decides (what was left behind, who came first to an orphan), it says only what must not be.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from registry_controller.api import meta, names
from registry_controller.api.meta import ObjectKey
from tests.sim.fields import Manifest
from tests.sim.kinds import BY_KIND
from tests.sim.vocabulary import TEMPLATES, WRITTEN


class World(Protocol):
    """All clusters at one moment."""

    @property
    def names(self) -> Sequence[str]: ...

    def id_of(self, cluster: str) -> str: ...

    def all(self, cluster: str, kind: str) -> Mapping[ObjectKey, Manifest]: ...


class Marks(NamedTuple):
    """What an object says of where it comes from."""

    owner: str
    provenance: Mapping[str, Any]
    frozen: bool

    @property
    def adopted(self) -> bool:
        return bool(self.owner) and (not self.provenance or bool(self.provenance.get("adopted")))


def marks_of(manifest: Manifest) -> Marks:
    """Read an object's marks; a provenance counts only on the object that it names."""
    info = manifest["metadata"]
    found = info.get("annotations") or {}
    provenance: Mapping[str, Any] = {}
    if meta.PROVENANCE in found and meta.GO_LAST_APPLIED not in found:
        provenance = json.loads(found[meta.PROVENANCE])
        named, kind = provenance["copy"], BY_KIND[manifest["kind"]]
        here = (kind.group, kind.kind, info.get("namespace", ""), info["name"])
        if (named["group"], named["kind"], named["namespace"], named["name"]) != here:
            provenance = {}
    disabled = meta.SYNC_DISABLED in found and not provenance.get("inherited")
    return Marks(provenance.get("owner") or found.get(meta.OWNER, ""), provenance, disabled)


def key_of(manifest: Manifest) -> ObjectKey:
    """Name an object."""
    return ObjectKey(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])


class Place(NamedTuple):
    """Where an object is, or is to be."""

    kind: str
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


@dataclass(frozen=True)
class Rule:
    """A rule as one cluster has it."""

    manifest: Manifest
    rank: tuple[str, str, str]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def spec(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.manifest["spec"]
        return found

    @property
    def kind(self) -> str:
        return str(self.spec["groupVersionKind"]["kind"])

    @property
    def deletes(self) -> bool:
        return self.spec.get("deletionPolicy") == "Delete"

    def matching(self, source: Manifest) -> list[Mapping[str, Any]]:
        """List the entries that match."""
        return [
            entry
            for entry in self.spec["rules"]
            if any(_matches(match, source) for match in entry.get("match") or [{}])
        ]


def _matches(match: Mapping[str, Any], source: Manifest) -> bool:
    key, labels = key_of(source), source["metadata"].get("labels") or {}
    named = match.get("objectKey") or {}
    if named.get("name", key.name) != key.name or named.get("namespace", key.namespace) != key.namespace:
        return False
    if match.get("namespaces") and key.namespace and key.namespace not in match["namespaces"]:
        return False
    if match.get("labels") and not any(_selects(selector, labels) for selector in match["labels"]):
        return False
    return all(_at(source, content["key"]) == content["value"] for content in match.get("content") or ())


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    wanted = selector.get("matchLabels") or {}
    among = selector.get("matchExpressions") or []
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        labels.get(one["key"]) in one["values"] for one in among
    )


def _at(manifest: Any, path: str) -> Any:
    for step in path.split("."):
        manifest = manifest.get(step) if isinstance(manifest, Mapping) else None
    return manifest


@dataclass(frozen=True)
class Copy:
    """What a rule makes of a source. `content` is all but metadata and status; None as `status` was not asked for."""

    place: Place
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    content: Mapping[str, Any]
    status: Mapping[str, Any] | None

    def differs(self, found: Manifest) -> str:
        """Say in what an object is not this copy; empty where it is."""
        info = found["metadata"]
        for which, wanted in (("labels", self.labels), ("annotations", self.annotations)):
            held = info.get(which) or {}
            for name, text in wanted.items():
                if held.get(name) != text:
                    return f"its {which[:-1]} {name} is {held.get(name)!r} and not {text!r}"
        if content_of(found) != self.content:
            return f"it holds {content_of(found)} and not {self.content}"
        if self.status is not None and (found.get("status") or {}) != self.status:
            return f"its status is {found.get('status')} and not {self.status}"
        return ""


def content_of(manifest: Manifest) -> dict[str, Any]:
    """Take what an object is about."""
    left_out = ("apiVersion", "kind", "metadata", "status")
    return {name: value for name, value in manifest.items() if name not in left_out}


_STAYS_BEHIND = (
    meta.OWNER, meta.PROVENANCE, meta.ORIGINAL_NAME, meta.ORIGINAL_NAMESPACE, meta.ORIGINAL_GVK, meta.GO_LAST_APPLIED
)  # fmt: skip


def make_copy(source: Manifest, rule: Rule, *, owner: str, owner_id: str, local: str) -> Copy | None:
    """Make of a source what a rule says; None where that cannot be told. The rule matches it."""
    info, kind = source["metadata"], str(source["kind"])
    namespace, name = key_of(source)
    labels = {key: text for key, text in (info.get("labels") or {}).items() if key not in _STAYS_BEHIND}
    annotations = {key: text for key, text in (info.get("annotations") or {}).items() if key not in _STAYS_BEHIND}
    content, status = content_of(source), None
    if kind == "Namespace":
        content = {"spec": {"finalizers": ["kubernetes"]}}
    for entry in rule.matching(source):
        mutations = entry.get("mutations") or {}
        kind = (mutations.get("groupVersionKind") or {}).get("kind") or kind
        labels |= (mutations.get("labels") or {}).get("add") or {}
        if mutations.get("syncStatus"):
            status = source.get("status") or {}
        for override in mutations.get("overrides") or ():
            value = override["value"]
            text = TEMPLATES[value](source, owner, local) if value in TEMPLATES else value
            if text is None:
                return None
            match override["path"].strip("?").split("/")[1:]:
                case ["metadata", "name"]:
                    name = text
                case ["metadata", "namespace"]:
                    namespace = text
                case [body, where]:
                    content = {**content, body: {**(content.get(body) or {}), where: text}}
                case path:
                    raise AssertionError(path)
    labels[meta.OWNER] = annotations[meta.OWNER] = owner_id
    if name != info["name"]:
        labels[meta.ORIGINAL_NAME] = info["name"]
    if namespace != info.get("namespace", ""):
        labels[meta.ORIGINAL_NAMESPACE] = info["namespace"]
    return Copy(Place(kind, ObjectKey(namespace, name)), labels, annotations, content, status)


class Claim(NamedTuple):
    """A source that is to be at a place, with the rule by which it is."""

    rank: tuple[str, str]
    owner: str
    source: Manifest
    rule: Rule
    copy: Copy

    @property
    def disabled(self) -> bool:
        return meta.SYNC_DISABLED in (self.source["metadata"].get("annotations") or {})


class Fate(Enum):
    """What must become of a copy that its owner does not claim."""

    GOES = "goes"
    STAYS = "stays"
    OPEN = "may stay or go"


_CORE = {"groupVersionKind": {"kind": "ResourceSyncRule"}, "rules": [{}]}


@dataclass
class Oracle:
    """The oracle on one world."""

    world: World
    _natives: dict[tuple[str, str], dict[ObjectKey, Manifest]] = field(default_factory=dict)
    _rules: dict[str, list[Rule]] = field(default_factory=dict)
    _claims: dict[str, dict[Place, list[Claim]]] = field(default_factory=dict)

    def natives(self, cluster: str, kind: str) -> dict[ObjectKey, Manifest]:
        """List what was born at a cluster and is not about to go."""
        if (cluster, kind) not in self._natives:
            own = ("", self.world.id_of(cluster))
            self._natives[cluster, kind] = {
                key: found
                for key, found in self.world.all(cluster, kind).items()
                if marks_of(found).owner in own and not found["metadata"].get("deletionTimestamp")
            }
        return self._natives[cluster, kind]

    def rules(self, cluster: str) -> list[Rule]:
        """List the rules that a cluster has, the winner of two first; the core rule that brings rules comes last."""
        if cluster not in self._rules:
            found = []
            for key, manifest in self.world.all(cluster, "ResourceSyncRule").items():
                info, marks = manifest["metadata"], marks_of(manifest)
                if (info.get("labels") or {}).get(meta.CORE_RESOURCE):
                    continue
                born = marks.provenance["source"]["creationTimestamp"] if marks.provenance else ""
                owner = marks.owner or self.world.id_of(cluster)
                found.append(Rule(manifest, (born or info["creationTimestamp"], owner, key.name)))
            core = Rule({"metadata": {"name": names.RULES_SINK}, "spec": _CORE}, ("~", "~", "~"))
            self._rules[cluster] = [*sorted(found, key=lambda rule: rule.rank), core]
        return self._rules[cluster]

    def is_for(self, rule: Rule, cluster: str) -> bool:
        """Say whether a cluster is meant."""
        targets = rule.spec.get("targetClusters")
        return targets is None or cluster in targets["names"]

    def reads(self, rule: Rule, peer: str) -> bool:
        """Say whether a rule reads from a peer, by its features."""
        names = {found["spec"]["featureName"] for found in self.world.all(peer, "ClusterFeature").values()}
        return all(asked["featureName"] in names for asked in rule.spec.get("clusterFeatureMatch") or ())

    def made_of(self, source: Manifest, *, owner: str, local: str) -> Iterator[tuple[Rule, Copy | None]]:
        """Say what the rules of a cluster make of one source."""
        if (source["metadata"].get("labels") or {}).get(meta.CORE_RESOURCE):
            return
        for rule in self.rules(local):
            acts = not rule.spec.get("suspend") and self.is_for(rule, local) and self.reads(rule, owner)
            if rule.kind == source["kind"] and acts and rule.matching(source):
                yield rule, make_copy(source, rule, owner=owner, owner_id=self.world.id_of(owner), local=local)

    def claims(self, cluster: str) -> dict[Place, list[Claim]]:
        """List what all others claim of places here, the winner first."""
        if cluster not in self._claims:
            found: dict[Place, list[Claim]] = {}
            for owner in self.world.names:
                for kind in () if owner == cluster else WRITTEN:
                    for source in self.natives(owner, kind).values():
                        taken = set()
                        for rule, copy in self.made_of(source, owner=owner, local=cluster):
                            if copy is not None and copy.place not in taken:
                                taken.add(copy.place)
                                rank = (source["metadata"]["creationTimestamp"], self.world.id_of(owner))
                                found.setdefault(copy.place, []).append(Claim(rank, owner, source, rule, copy))
            for claims in found.values():
                claims.sort(key=lambda claim: claim.rank)
            self._claims[cluster] = found
        return self._claims[cluster]

    def name_of(self, cluster_id: str) -> str:
        """Find the cluster of that ID; empty for one that nobody knows."""
        return next((name for name in self.world.names if self.world.id_of(name) == cluster_id), "")

    def fate(self, cluster: str, copy: Manifest, *, deletes: bool = False) -> Fate:
        """Say what must become of a copy here that its owner does not claim (W3, O5).

        With `deletes`, as if its rule's policy were Delete: whether it is known to be unwanted.
        """
        marks = marks_of(copy)
        owner = self.name_of(marks.owner)
        if marks.frozen or not owner:
            return Fate.STAYS
        named = marks.provenance.get("source") or {}
        kind, key = named.get("kind", copy["kind"]), key_of(copy)
        if named:
            key = ObjectKey(named["namespace"], named["name"])
        source = self.natives(owner, kind).get(key)
        if not marks.provenance:
            return Fate.OPEN if source is not None else self._fate_without_rule(cluster, owner, kind)
        name = marks.provenance["rule"]
        rule = next((rule for rule in self.rules(cluster) if rule.name == name), None)
        if rule is None and kind == "ResourceSyncRule":
            rule = self.rules(cluster)[-1]
        if rule is None:
            if not self.name_of(marks.provenance["ruleOwner"]):
                return Fate.STAYS
            return Fate.GOES if deletes or marks.provenance["policy"] == "Delete" else Fate.STAYS
        if rule.spec.get("suspend"):
            return Fate.STAYS
        if not self.is_for(rule, cluster) or not self.reads(rule, owner):
            return Fate.GOES if deletes or rule.deletes else Fate.STAYS
        if source is None:
            return Fate.GOES
        made = list(self.made_of(source, owner=owner, local=cluster))
        if any(copy is None for _, copy in made):
            return Fate.STAYS
        moved = any(found.name == rule.name for found, _ in made)
        return Fate.GOES if moved or deletes or rule.deletes else Fate.STAYS

    def _fate_without_rule(self, cluster: str, owner: str, kind: str) -> Fate:
        acting = [rule for rule in self.rules(cluster) if rule.kind == kind and not rule.spec.get("suspend")]
        heard = any(self.is_for(rule, cluster) and self.reads(rule, owner) for rule in acting)
        return Fate.GOES if heard else Fate.OPEN

    def holds_natives(self, cluster: str, namespace: str) -> bool:
        """Say whether anything that was born at a cluster lives in a namespace there."""
        kinds = [kind for kind in BY_KIND.values() if kind.namespaced and kind.kind != "Event"]
        found = (key for kind in kinds for key in self.natives(cluster, kind.kind))
        return any(key.namespace == namespace for key in found)
