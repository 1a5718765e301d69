"""What a group must end in, written a second time and as plainly as it can be.

It reads the API servers as they are, with all that people made there, and knows nothing of how the engine goes about
it. Where the past decides (what was left behind, who came first to an orphan), it says only what must not be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple, Protocol

from registry_controller.api import meta, names
from registry_controller.api.deleted_rules import read_deleted_rules
from registry_controller.api.meta import ObjectKey
from tests.sim.checks.expected_copies import (
    Copy,
    Marks,
    Place,
    Rule,
    is_made_by_controller,
    key_of,
    make_copy,
    marks_of,
    names_cluster,
    source_named_by,
)
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.habits import Habits
from tests.sim.schedule.vocabulary import LETS_IN, WRITTEN


class World(Protocol):
    """All clusters at one moment."""

    @property
    def names(self) -> Sequence[str]: ...

    def id_of(self, cluster: str) -> str: ...

    def all(self, cluster: str, kind: str) -> Mapping[ObjectKey, Manifest]: ...

    def came_back(self, cluster: str, kind: str, key: ObjectKey) -> bool: ...

    def formerly(self, cluster: str, kind: str, key: ObjectKey) -> Iterator[Manifest]: ...

    def option(self, cluster: str, name: str) -> str: ...

    def habits(self, cluster: str) -> Habits: ...

    def is_lost(self, cluster: str, rule_uid: str) -> bool: ...

    def heard(self, cluster: str, kind: str, key: ObjectKey) -> Iterator[Manifest]: ...


class Claim(NamedTuple):
    """A source that is to be at a place, with the rule by which it is."""

    rank: tuple[str, bool, str]
    owner: str
    source: Manifest
    rule: Rule
    copy: Copy

    @property
    def origin(self) -> Place:
        """Name where the source is."""
        return Place(self.source["kind"], key_of(self.source))

    @property
    def disabled(self) -> bool:
        return meta.SYNC_DISABLED in (self.source["metadata"].get("annotations") or {})


class Fate(Enum):
    """What must become of a copy that its owner does not claim."""

    GOES = "goes"
    STAYS = "stays"
    OPEN = "may stay or go"


_CORE_RANK = "~"
_CORE = {"groupVersionKind": {"kind": "ResourceSyncRule"}, "rules": [{}]}


@dataclass
class Oracle:
    """The oracle on one world."""

    world: World
    _natives: dict[tuple[str, str], dict[ObjectKey, Manifest]] = field(default_factory=dict)
    _rules: dict[str, list[Rule]] = field(default_factory=dict)
    _claims: dict[str, dict[Place, list[Claim]]] = field(default_factory=dict)
    contested: set[tuple[str, Place, str]] = field(default_factory=set)
    """Where two rules want one source of an owner otherwise at one place (W2)."""

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
                rule = Rule(manifest, (born or info["creationTimestamp"], owner, key.name))
                found.append(self._as_it_acts(rule, cluster))
            core = Rule({"metadata": {"name": names.RULES_SINK}, "spec": _CORE}, (_CORE_RANK, _CORE_RANK, _CORE_RANK))
            self._rules[cluster] = [*sorted(found, key=lambda rule: rule.rank), core]
        return self._rules[cluster]

    def _as_it_acts(self, rule: Rule, cluster: str) -> Rule:
        """Take a rule that is altered here as its owner wrote it, where the daemon here knows that one and acts on it.

        A daemon knows what the copy was since it started; which of that the owner wrote, the copy's digest tells (A8).
        """
        if not rule.is_altered or not says_it_acts(rule.manifest):
            return rule
        for found in self.world.heard(cluster, "ResourceSyncRule", ObjectKey("", rule.name)):
            known = replace(rule, manifest={**rule.manifest, "spec": found["spec"]})
            if Rule(found, rule.rank).uid == rule.uid and not known.is_altered:
                return known
        return rule

    def is_for(self, rule: Rule, cluster: str) -> bool:
        """Say whether a cluster is meant."""
        targets = rule.spec.get("targetClusters")
        if targets is None:
            return True
        own = self.world.all(cluster, "Cluster").get(ObjectKey("", cluster))
        labels = (own["metadata"].get("labels") or {}) if own is not None else {}
        is_chosen = all(labels.get(name) == value for name, value in (targets.get("matchLabels") or {}).items())
        return cluster in targets.get("names", [cluster]) and is_chosen

    def is_named(self, rule: Rule, source: Manifest, cluster: str) -> bool | None:
        """Say whether an object names a cluster, where its rule asks for that; None where nobody can read it (W9)."""
        if not rule.asks_for_names:
            return True
        own = self.world.all(cluster, "Cluster").get(ObjectKey("", cluster))
        return names_cluster(source, cluster, (own["metadata"].get("labels") or {}) if own is not None else {})

    def reads(self, rule: Rule, peer: str) -> bool:
        """Say whether a rule reads from a peer, by its features."""
        names = {found["spec"]["featureName"] for found in self.world.all(peer, "ClusterFeature").values()}
        return all(asked["featureName"] in names for asked in rule.spec.get("clusterFeatureMatch") or ())

    def made_of(
        self, source: Manifest, *, owner: str, local: str, barred: bool = False
    ) -> Iterator[tuple[Rule, Copy | None]]:
        """Say what the rules of a cluster make of one source; with `barred`, also where they may not write."""
        if (source["metadata"].get("labels") or {}).get(meta.CORE_RESOURCE) or is_made_by_controller(source):
            return
        for rule in self.rules(local):
            acts = not rule.is_idle and self.is_for(rule, local) and self.reads(rule, owner)
            is_named = self.is_named(rule, source, local)
            if rule.kind == source["kind"] and acts and is_named is not False and rule.matching(source):
                copy = make_copy(source, rule, owner=owner, owner_id=self.world.id_of(owner), local=local)
                copy = copy if is_named else None
                if copy is None or barred or not self.is_barred(rule, copy, local):
                    yield rule, copy

    def is_barred(self, rule: Rule, copy: Copy, cluster: str) -> bool:
        """Say whether a rule may not write a copy: its cluster's administrator keeps it from there, or all do (W8)."""
        namespace, option = copy.place.key.namespace, self.world.option
        allowed = option(cluster, "SYNCED_RULES_NAMESPACES").split(",")
        is_synced = marks_of(rule.manifest).owner not in ("", self.world.id_of(cluster))
        if is_synced and (copy.content.get("type") == LETS_IN or (allowed != [""] and namespace not in allowed)):
            return True
        return bool(namespace) and namespace == option(cluster, "CLOSED_NAMESPACES")

    def may_be_claimed(self, cluster: str, place: Place) -> bool:
        """Say whether a rule matches an object of that name elsewhere, and what it makes of it cannot be told.

        Then the copy that is there stays until that is there, as with a move.
        """
        sources = [(owner, self.natives(owner, place.kind).get(place.key)) for owner in self.world.names]
        return any(
            copy is None
            for owner, source in sources
            if owner != cluster and source is not None
            for _, copy in self.made_of(source, owner=owner, local=cluster)
        )

    def claims(self, cluster: str) -> dict[Place, list[Claim]]:
        """List what all others claim of places here, the winner first."""
        if cluster not in self._claims:
            found: dict[Place, list[Claim]] = {}
            for owner in self.world.names:
                for kind in () if owner == cluster else WRITTEN:
                    for source in self.natives(owner, kind).values():
                        for claim in self._claims_of(source, owner=owner, cluster=cluster):
                            found.setdefault(claim.copy.place, []).append(claim)
            for claims in found.values():
                claims.sort(key=lambda claim: claim.rank)
            self._claims[cluster] = found
        return self._claims[cluster]

    def _claims_of(self, source: Manifest, *, owner: str, cluster: str) -> Iterator[Claim]:
        """Say what one source claims, the older rule first; note where two rules disagree."""
        taken: dict[Place, Copy] = {}
        for rule, copy in self._makes(source, owner=owner, local=cluster):
            if taken.setdefault(copy.place, copy) != copy:
                self.contested.add((cluster, copy.place, owner))
            elif taken[copy.place] is copy:
                rank = (source["metadata"]["creationTimestamp"], _was_copy(source), self.world.id_of(owner))
                yield Claim(rank, owner, source, rule, copy)

    def _makes(self, source: Manifest, *, owner: str, local: str) -> Iterator[tuple[Rule, Copy]]:
        """Say what the rules of a cluster make of one source, without places that an older rule keeps and cannot fill.

        A rule of which the name cannot be told keeps none.
        """
        kept: set[Place] = set()
        for rule, copy in self.made_of(source, owner=owner, local=local):
            is_told = self.is_named(rule, source, local) is not None
            if copy is None and is_told and not any("/metadata/" in path for path in rule.override_paths(source)):
                kept.add(Place(str(source["kind"]), key_of(source)))
            elif copy is not None and copy.place not in kept:
                yield rule, copy

    def name_of(self, cluster_id: str) -> str:
        """Find the cluster of that ID; empty for one that nobody knows."""
        return next((name for name in self.world.names if self.world.id_of(name) == cluster_id), "")

    def fate(self, cluster: str, copy: Manifest, *, deletes: bool = False) -> Fate:
        """Say what must become of a copy here that its owner does not claim (W3, O5).

        With `deletes`, as if its rule's policy were Delete: whether it is known to be unwanted.
        """
        marks = marks_of(copy)
        owner = self.name_of(marks.owner)
        if marks.frozen or not owner or not (marks.is_bound_in(self.world.id_of(cluster)) or not marks.is_named):
            return Fate.STAYS
        if not marks.is_named:
            return Fate.OPEN  # it is a copy where its owner was seen to have its source
        kind, key = source_named_by(copy)
        source = self._own_object(owner, kind, key)
        if source is None and kind == "ResourceSyncRule":
            if self._is_lost(owner, _uid_of_source(marks), name=key.name):
                return Fate.STAYS
            if not self._is_recorded(owner, _uid_of_source(marks)):
                return Fate.OPEN
        if source is None and not deletes and self._was_let_go(cluster, copy, owner, kind=kind, key=key):
            return Fate.OPEN
        if not marks.provenance:
            return Fate.OPEN if source is not None else self._fate_without_rule(cluster, owner, kind)
        return self._fate_by_rule(cluster, copy, source, owner=owner, kind=kind, deletes=deletes)

    def _own_object(self, cluster: str, kind: str, key: ObjectKey) -> Manifest | None:
        """Find what may be a cluster's own object; marks that nothing binds do not prove its absence (O5, O11)."""
        native = self.natives(cluster, kind).get(key)
        found = self.world.all(cluster, kind).get(key) if native is None else None
        if found is None or found["metadata"].get("deletionTimestamp"):
            return native
        return None if marks_of(found).is_bound_in(self.world.id_of(cluster)) else found

    def _is_lost(self, home: str, uid: str, *, name: str) -> bool:
        """Say whether a rule is gone at its home, nobody deleted it, and no other one has its name there (W3)."""
        has_name = ObjectKey("", name) in self.world.all(home, "ResourceSyncRule")
        return self.world.is_lost(home, uid) and not has_name

    def _is_recorded(self, home: str, uid: str) -> bool:
        """Say whether a cluster has recorded that a rule of its own was deleted (W3)."""
        found = self.world.all(home, "ClusterFeature").get(ObjectKey("", names.DELETED_RULES_OBJECT))
        annotations = (found["metadata"].get("annotations") or {}) if found is not None else {}
        return uid in {rule.uid for rule in read_deleted_rules(annotations)}

    def _was_let_go(self, cluster: str, copy: Manifest, owner: str, *, kind: str, key: ObjectKey) -> bool:
        """Say whether no rule made this copy of the last that its source was.

        Of what does not match any more nothing is heard, nor that it is deleted in the end: with Orphan the copy stays
        until somebody looks again, as after a restart. Only then its source's absence is seen.
        """
        last = next(self.world.formerly(owner, kind, key), None)
        made = self.made_of(last, owner=owner, local=cluster) if last is not None else ()
        rule = next((rule for rule in self.rules(cluster) if rule.name == marks_of(copy).provenance.get("rule")), None)
        if rule is not None and rule.deletes:
            return False
        return all(found is None or found.place != Place(copy["kind"], key_of(copy)) for _, found in made)

    def _fate_by_rule(
        self, cluster: str, copy: Manifest, source: Manifest | None, *, owner: str, kind: str, deletes: bool
    ) -> Fate:
        marks = marks_of(copy)
        name = marks.provenance["rule"]
        rule = next((rule for rule in self.rules(cluster) if rule.name == name), None)
        if rule is None and kind == "ResourceSyncRule":
            rule = self.rules(cluster)[-1]
        if rule is None:
            return self._fate_of_missing_rule(marks, deletes=deletes)
        if rule.is_idle:
            return Fate.STAYS
        is_maker = self._is_maker(rule, marks)
        if (waits := self._waits_for_own_rule(rule, marks)) is not None:
            return waits if source is not None else Fate.OPEN  # nobody may hear of its source meanwhile
        goes = rule.deletes if is_maker and rule.kind == kind else marks.provenance["policy"] == "Delete"
        if not is_maker and self._has_other_policy(marks) and not deletes:
            return Fate.OPEN  # who has seen the last policy keeps to it
        if self.world.came_back(cluster, "ResourceSyncRule", ObjectKey("", name)) and not deletes:
            return Fate.OPEN  # while there was none it was an orphan, of which nobody may have thought since
        if not self.is_for(rule, cluster) or rule.kind != kind or not self.reads(rule, owner):
            return Fate.GOES if deletes or goes else Fate.STAYS
        if source is None:
            return Fate.GOES
        at = Place(copy["kind"], key_of(copy))
        return self._fate_by_move(cluster, rule, source, owner=owner, is_maker=is_maker, at=at, deletes=deletes or goes)

    def _fate_of_missing_rule(self, marks: Marks, *, deletes: bool) -> Fate:
        """Say what becomes of a copy whose rule is not here."""
        home, uid = self._rule_that_made(marks)
        if not home or self._is_lost(home, uid, name=marks.provenance["rule"]):
            return Fate.STAYS
        if not self._is_recorded(home, uid):
            return Fate.OPEN  # nothing may show that it was deleted
        if self._has_other_policy(marks) and not deletes:
            return Fate.OPEN  # who has seen the last policy keeps to it
        return Fate.GOES if deletes or marks.provenance["policy"] == "Delete" else Fate.STAYS

    def _rule_that_made(self, marks: Marks) -> tuple[str, str]:
        """Return the home and the UID of the rule that made a copy; an empty home is none that is known."""
        return self.name_of(marks.provenance.get("ruleOwner", "")), marks.provenance.get("ruleUID", "")

    def _has_other_policy(self, marks: Marks) -> bool:
        """Say whether the rule that made a copy had another policy in the end than the copy names."""
        home, uid = self._rule_that_made(marks)
        if not home:
            return False
        last = self.world.formerly(home, "ResourceSyncRule", ObjectKey("", marks.provenance["rule"]))
        policy = next((found["spec"].get("deletionPolicy") for found in last if found["metadata"]["uid"] == uid), None)
        return policy != marks.provenance["policy"]

    def _fate_by_move(
        self, cluster: str, rule: Rule, source: Manifest, *, owner: str, is_maker: bool, at: Place, deletes: bool
    ) -> Fate:
        """Say what becomes of a copy that its rule gives another place, or none: the new copy is made first (W3).

        The copy stays `at` its place where the rule would make it there, if its source's marks were bound.
        """
        made = list(self.made_of(source, owner=owner, local=cluster, barred=True))
        if any(copy is None for _, copy in made):
            return Fate.STAYS
        places = [copy.place for found, copy in made if copy is not None and found.name == rule.name]
        if at in places or (places and not any(self._is_copied(cluster, place, source, owner) for place in places)):
            return Fate.STAYS
        return Fate.GOES if deletes or (is_maker and places) else Fate.STAYS

    def _is_copied(self, cluster: str, place: Place, source: Manifest, owner: str) -> bool:
        """Say whether a copy of a source is at a place, and is not about to go."""
        found = self.world.all(cluster, place.kind).get(place.key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return False
        is_same = source_named_by(found) == (source["kind"], key_of(source))
        return is_same and marks_of(found).owner == self.world.id_of(owner)

    def _waits_for_own_rule(self, rule: Rule, marks: Marks) -> Fate | None:
        """Say what becomes of a copy while a rule of another cluster has the name of the rule that made it (W3).

        That rule gives up what it does not want once something shows that the copy's own rule was deleted; None then.
        """
        home_id = marks.provenance.get("ruleOwner")
        if not home_id or home_id == rule.rank[1] or rule.rank[1] == _CORE_RANK:
            return None
        home, uid = self._rule_that_made(marks)
        own = self.world.all(home, "ResourceSyncRule").get(ObjectKey("", rule.name)) if home else None
        if not home or (own is not None and own["metadata"]["uid"] == uid):
            return Fate.STAYS
        if own is not None and not marks_of(own).owner:
            return Fate.OPEN  # it was created again: within the window it was not deleted
        return None if self._is_recorded(home, uid) else Fate.OPEN

    def _is_maker(self, rule: Rule, marks: Marks) -> bool:
        """Say whether a rule is the one that made a copy, and not another one of its name."""
        if rule.rank[1] == _CORE_RANK:
            return True
        made_by = (marks.provenance.get("ruleOwner"), marks.provenance.get("ruleUID", rule.uid))
        return made_by == (rule.rank[1], rule.uid)

    def _fate_without_rule(self, cluster: str, owner: str, kind: str) -> Fate:
        """Say what becomes of a copy that names no rule and whose source is gone."""
        acting = [rule for rule in self.rules(cluster) if rule.kind == kind and not rule.is_idle]
        obj = [rule for rule in acting if self.is_for(rule, cluster) and self.reads(rule, owner)]
        return Fate.GOES if any(_is_wide(rule) for rule in obj) else Fate.OPEN


def says_it_acts(rule: Manifest) -> bool:
    """Say whether the status of a rule says that it is obeyed.

    Not every altered rule acts whose daemon knows it: one that lost a field in an old definition does nothing.
    """
    conditions = (rule.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Accepted" and one["status"] == "True" for one in conditions)


def _was_copy(source: Manifest) -> bool:
    """Say whether a daemon wrote an object that is native now: somebody took its marks off."""
    entries = source["metadata"].get("managedFields") or ()
    return any(one["manager"] == meta.FIELD_MANAGER and not one.get("subresource") for one in entries)


def _uid_of_source(marks: Marks) -> str:
    return str((marks.provenance.get("source") or {}).get("uid", ""))


def _is_wide(rule: Rule) -> bool:
    """Say whether a rule writes the kind that it reads, in any namespace."""
    entries = rule.spec["rules"]
    turns = any("groupVersionKind" in (entry.get("mutations") or {}) for entry in entries)
    return not turns and not any(match.get("namespaces") for entry in entries for match in entry.get("match") or ())
