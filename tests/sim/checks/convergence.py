"""Is a group at rest what the oracle says? Convergence: every copy is its owner's state, changed as its rule says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from registry_controller.api.meta import ObjectKey
from tests.sim.checks.expected_copies import Marks, Place, marks_of, stored_forms
from tests.sim.checks.oracle import Claim, Fate, Oracle
from tests.sim.checks.remaining_content import list_content
from tests.sim.cluster.fields import Manifest
from tests.sim.cluster.kinds import BY_KIND
from tests.sim.schedule.tally import Tally
from tests.sim.schedule.vocabulary import WRITTEN


class Wrong(NamedTuple):
    """What is not as it should be: the clause that it breaks, and where."""

    clause: str
    where: str
    words: str


def check_end(oracle: Oracle, tally: Tally) -> Iterator[Wrong]:
    """Compare all that is there with what should be."""
    for cluster in oracle.world.names:
        yield from _check_members(oracle, cluster, tally)
        claims = oracle.claims(cluster)
        copies = [
            Place(kind, key)
            for kind in WRITTEN
            for key, found in oracle.world.all(cluster, kind).items()
            if marks_of(found).owner not in ("", oracle.world.id_of(cluster))
        ]
        for place in dict.fromkeys([*claims, *copies]):
            found = oracle.world.all(cluster, place.kind).get(place.key)
            end = _End(oracle, cluster, place, found, claims.get(place, []), tally)
            wrong = end.check()
            if wrong is not None:
                yield Wrong(wrong[0], f"{place} at {cluster}", wrong[1])


def _check_members(oracle: Oracle, cluster: str, tally: Tally) -> Iterator[Wrong]:
    for peer in oracle.world.names:
        found = oracle.world.all(cluster, "Cluster").get(ObjectKey("", peer))
        status = (found or {}).get("status") or {}
        tally.clause("P5")
        if status.get("state") != "Ready":
            yield Wrong("P5", f"Cluster {peer} at {cluster}", f"is {status.get('state')}: {status.get('message')}")


class _End(NamedTuple):
    """One place."""

    oracle: Oracle
    cluster: str
    place: Place
    found: Manifest | None
    claims: Sequence[Claim]
    tally: Tally

    def check(self) -> tuple[str, str] | None:
        """Say what is wrong, and by which clause."""
        if self.found is None:
            return self._check_missing()
        marks = marks_of(self.found)
        if marks.owner in ("", self.oracle.world.id_of(self.cluster)):
            self.tally.clause("O1")
            return None
        if marks.frozen:
            self.tally.clause("W5")
            return None
        held = self._holder(marks)
        if not marks.is_bound_in(self.oracle.world.id_of(self.cluster)):
            self.tally.clause("O11")
            if held is None:
                return None
        if held is None:
            return self._check_unclaimed(self.found, marks)
        willing = [claim for claim in self.claims if not claim.disabled or claim is held]
        best = held if marks.adopted else willing[0]
        return self._check_copy(self.found, [claim for claim in willing if claim.rank == best.rank])

    def _holder(self, marks: Marks) -> Claim | None:
        """Find the claim of the very source that a copy was made of, else another of its owner's that makes copies."""
        source = marks.provenance.get("source")
        spare = None
        for claim in self.claims:
            if self.oracle.world.id_of(claim.owner) != marks.owner:
                continue
            if source and Place(source["kind"], ObjectKey(source["namespace"], source["name"])) == claim.origin:
                return claim
            if spare is None and (not source or not claim.disabled):
                spare = claim
        return spare

    def _check_missing(self) -> tuple[str, str] | None:
        willing = [claim for claim in self.claims if not claim.disabled]
        if not willing:
            self.tally.clause("W5")
            return None
        namespaced = BY_KIND[self.place.kind].namespaced
        if namespaced and ObjectKey("", self.place.key.namespace) not in self.oracle.world.all(
            self.cluster, "Namespace"
        ):
            self.tally.clause("A3")
            if not any(claim.rule.spec.get("createNamespaces") for claim in self.claims):
                return None
        if self.place.kind == "Pod" and self._was_made_of(willing[0].source):
            self.tally.clause("A9")
            return None  # who deleted it, and which daemon lived then, is not looked at
        if self.place.kind == "ResourceSyncRule" and self._keeps_name():
            self.tally.clause("W3")
            return None
        return "O5", f"is missing: {willing[0].owner} offers it by rule {willing[0].rule.name}"

    def _keeps_name(self) -> bool:
        """Say whether a rule of this very cluster had the name, and is said to be missing without a trace.

        Another rule may have had it since: a daemon that has just started does not know yet what is missing.
        """
        world, name = self.oracle.world, self.place.key.name
        states = world.formerly(self.cluster, self.place.kind, self.place.key)
        own = world.all(self.cluster, "Cluster").get(ObjectKey("", self.cluster)) or {}
        conditions = (own.get("status") or {}).get("conditions") or ()
        said = [found["message"] for found in conditions if found["type"] == "RulesMissing"]
        is_own = any(marks_of(state).owner in ("", world.id_of(self.cluster)) for state in states)
        return is_own and any(name in text for text in said)

    def _was_made_of(self, source: Manifest) -> bool:
        """Say whether a copy here was made of this very source; somebody may have taken its marks off since."""
        states = self.oracle.world.formerly(self.cluster, self.place.kind, self.place.key)
        made_of = (marks_of(state).provenance.get("source") or {} for state in states)
        return any(found.get("uid") == source["metadata"]["uid"] for found in made_of)

    def _check_unclaimed(self, found: Manifest, marks: Marks) -> tuple[str, str] | None:
        willing = [claim for claim in self.claims if not claim.disabled]
        owner = self.oracle.name_of(marks.owner)
        if willing:
            self.tally.clause("O9" if not owner else "O8")
            if not owner or self.oracle.fate(self.cluster, found, deletes=True) is Fate.GOES:
                return "O8", f"is {owner or 'unknown'}'s, who does not claim it, and not {willing[0].owner}'s"
            return None
        self.tally.clause("W3")
        if self.oracle.fate(self.cluster, found) is not Fate.GOES or self.oracle.may_be_claimed(
            self.cluster, self.place
        ):
            return None
        if any(list_content(lambda kind: self.oracle.world.all(self.cluster, kind.kind), self.place)):
            self.tally.clause("O1")
            return None
        return "W3", f"is {owner}'s copy that should be gone: {marks.provenance}"

    def _check_copy(self, found: Manifest, allowed: Sequence[Claim]) -> tuple[str, str] | None:
        self.tally.clause("O8" if len(self.claims) > 1 else "W1")
        marks = marks_of(found)
        said = ""
        for claim in allowed:
            if self.oracle.world.id_of(claim.owner) != marks.owner:
                said = said or f"is {self.oracle.name_of(marks.owner)}'s and not {claim.owner}'s, which is older"
                continue
            uid = claim.source["metadata"]["uid"]
            if marks.provenance and marks.provenance["source"]["uid"] != uid:
                said = f"is of another object than {claim.source['metadata']['name']} with uid {uid}"
                continue
            if (self.cluster, self.place, claim.owner) in self.oracle.contested:
                self.tally.clause("W2")
            forms = stored_forms(claim.copy, self.oracle.world.habits(self.cluster), None)
            told = [form.differs(found) for form in forms]
            if not all(told):
                self.tally.clauses["A10"] += bool(told[0])
                return None
            said = told[0]
        return "O8" if "older" in said else "W1", said
