"""Evaluates the rules of a cache on an object: the match of each rule, or the error.

Laws: an object that a rule cannot be evaluated on is that rule's problem, and never "no match" (W1) · for one
object, the synced rules of one cluster together may take as many steps as one rule, and the rules of all clusters four
times as many · the number of matches is limited in the same way · their memory for all objects is limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from typing import Final

from registry_controller.api.errors import InvalidObject, Mistake
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey, Target
from registry_controller.cache.interner import MOST, Interner
from registry_controller.core.rules.active import ActiveRule, Hit
from registry_controller.gotemplate import DEFAULT, Pool
from registry_controller.kube.object import PartialObject

MOST_MOVED: Final = 50_000
"""Objects that one other cluster's rules may give other names or kinds: each takes some 500 bytes."""
MOST_WORDS: Final = 10_000
"""Objects that one other cluster's rules cannot be evaluated on, and that are kept with the reason."""
MOST_HITS: Final = 16
"""Rules of one other cluster that may match one object: each is considered whenever the object is."""
MOST_AT_ONE_PLACE: Final = 64
"""Objects that rules of other clusters may give one name: all are compared to choose one of them."""
_SHARED_BY: Final = 4
_NONE: Final = frozenset[str]()
_TOGETHER: Final = "the other rules of its cluster on this object"


def shares(owners: Collection[ClusterUID]) -> Mapping[ClusterUID, Pool]:
    """Return for each owner a pool of steps that its rules share for one object; all pools are equal."""
    most = share(DEFAULT.steps, len(owners))
    return {owner: Pool(most, whose=_TOGETHER) for owner in owners}


def _shares(owners: int) -> tuple[int, int]:
    return share(DEFAULT.steps, owners), share(MOST_HITS, owners)


def share(most: int, owners: int) -> int:
    """Return how much of what one owner may have each of several has: an attacker may introduce hundreds."""
    return max(1, min(most, _SHARED_BY * most // max(owners, 1)))


class EvaluationUsage:
    """The objects and errors that all caches together keep for the rules of each other cluster."""

    def __init__(self) -> None:
        self.moved: Counter[ClusterUID] = Counter()
        self.words: Counter[ClusterUID] = Counter()


class RuleEvaluator:
    """The rules of one cache. `unclear` are the errors of objects that cannot be evaluated, by rule."""

    def __init__(
        self,
        *,
        peer: ClusterUID,
        kept: EvaluationUsage,
        crowd: Callable[[Target], int],
        changed: Callable[[], None],
    ) -> None:
        self.unclear: dict[str, dict[ObjectKey, InvalidObject]] = {}
        self._noted: dict[ObjectKey, set[str]] = {}
        self._peer = peer
        self._rules: tuple[ActiveRule, ...] = ()
        self._synced: Mapping[str, ClusterUID] = {}
        self._owners: frozenset[ClusterUID] = frozenset()
        self._most_hits = MOST_HITS
        self._kept = kept
        self._crowd = crowd
        self._changed = changed
        self._hits: dict[tuple[int, ...], tuple[Hit, ...]] = {}
        self._names: Interner[frozenset[str]] = Interner()

    def set_rules(self, rules: tuple[ActiveRule, ...], *, changed: Set[str]) -> Set[str]:
        """Evaluate by these rules from now on; `changed` names those that came, changed or went.

        Return the other rules whose limits that moves: their objects must be evaluated again.
        """
        before, owners_before = self._synced, len(self._owners)
        self._rules = rules
        self._synced = {active.rule.name: active.owner for active in rules if active.target_policy.is_synced}
        self._owners = frozenset(self._synced.values())
        self._most_hits = share(MOST_HITS, len(self._owners))
        if _shares(owners_before) != _shares(len(self._owners)) and before:
            return self._synced.keys() - changed
        touched = {names[name] for names in (before, self._synced) for name in changed if name in names}
        waiting = {name for name, owner in self._synced.items() if owner in touched and name in self.unclear}
        return waiting - changed

    def evaluate_all(
        self, obj: PartialObject, body: Callable[[], Manifest]
    ) -> Iterator[tuple[ActiveRule, Hit | InvalidObject | None]]:
        """Evaluate every rule, in their order."""
        pools = shares(self._owners) if self._owners else {}
        hits: dict[ClusterUID, int] = {}
        for active in self._rules:
            pool = pools[active.owner] if active.target_policy.is_synced else None
            answer: Hit | InvalidObject | None
            try:
                answer = active.evaluate(obj, body, owner=self._peer, pool=pool)
            except InvalidObject as error:
                answer = error
            except Exception as error:  # the rule and the object may come from another cluster
                answer = Mistake.of(error, path="spec.rules")
            if isinstance(answer, Hit) and active.target_policy.is_synced:
                hits[active.owner] = hits.get(active.owner, 0) + 1
                if hits[active.owner] > self._most_hits:
                    words = f"match one object more than the {self._most_hits} rules of their cluster that may"
                    answer = InvalidObject("spec.rules", words)
            yield active, answer

    def evaluate(
        self, obj: PartialObject, body: Callable[[], Manifest], *, is_own: bool, before: tuple[Hit, ...]
    ) -> tuple[tuple[Hit, ...], frozenset[str]]:
        """Return the hits of an object, and the rules that cannot be evaluated on it; none for a peer's copy (W1)."""
        had: Mapping[str, Target | None] = {}
        if before and self._synced:
            had = {hit.rule: hit.moved_to for hit in before if hit.is_moved}
            self._release(before)
        hits: list[Hit] = []
        unclear: set[str] = set()
        had_errors = obj.key in self._noted
        for active, answer in self.evaluate_all(obj, body):
            if answer is None and not had_errors:
                continue
            name = active.rule.name
            found = self._keep(answer, had=had) if isinstance(answer, Hit) and answer.is_moved else answer
            if isinstance(found, InvalidObject) and is_own:
                unclear.add(name)
                self._note(name, obj.key, found)
                continue
            if had_errors:
                self._note(name, obj.key, None)
            if isinstance(found, Hit):
                hits.append(found)
        return self.shared(tuple(hits), frozenset(unclear))

    def shared(self, hits: tuple[Hit, ...], unclear: frozenset[str]) -> tuple[tuple[Hit, ...], frozenset[str]]:
        """Return values that are equal to these, of which all records have the same."""
        if hits:
            if len(self._hits) >= MOST:
                self._hits.clear()
            hits = self._hits.setdefault(tuple(map(id, hits)), hits)  # a rule makes one hit for many objects
        return hits, self._names.one(unclear) if unclear else _NONE

    def release(self, key: ObjectKey, hits: tuple[Hit, ...], *, rules: Collection[str] | None = None) -> None:
        """Forget hits of an object, and the errors of all rules on it, or of some."""
        if self._synced:
            self._release(hits)
        for rule in tuple(self._noted.get(key, ())):
            if rules is None or rule in rules:
                self._note(rule, key, None)

    def _keep(self, hit: Hit, *, had: Mapping[str, Target | None]) -> Hit | InvalidObject:
        """Count a hit for another place; one that was there before stays, and one beyond a limit is an error."""
        owner = self._synced.get(hit.rule)
        if owner is not None:
            place = hit.moved_to
            if place is not None and had.get(hit.rule) != place and self._crowd(place) >= MOST_AT_ONE_PLACE:
                words = f"give one name to more than {MOST_AT_ONE_PLACE} objects, with the rules of all clusters"
                return InvalidObject("spec.rules", words)
            if hit.rule not in had and self._kept.moved[owner] >= MOST_MOVED:
                words = (
                    f"make more than {MOST_MOVED} objects of other names or kinds, with the other rules of that cluster"
                )
                return InvalidObject("spec.rules", words)
            self._kept.moved[owner] += 1
        return hit

    def _release(self, hits: tuple[Hit, ...]) -> None:
        for hit in hits:
            owner = self._synced.get(hit.rule)
            if owner is not None and hit.is_moved:
                self._kept.moved[owner] -= 1

    def _note(self, rule: str, key: ObjectKey, error: InvalidObject | None) -> None:
        """Keep an object's error, None for none; beyond the limit, the first one of each rule stands for all."""
        held = self.unclear.get(rule, {})
        owner = self._synced.get(rule)
        if error is None:
            if key not in held:
                return
            del held[key]
            self._noted[key].discard(rule)
            if not self._noted[key]:
                del self._noted[key]
            if not held:
                del self.unclear[rule]
            if owner is not None:
                self._kept.words[owner] -= 1
        else:
            if key not in held and owner is not None:
                if held and self._kept.words[owner] >= MOST_WORDS:
                    return
                self._kept.words[owner] += 1
            last = next(reversed(held.values()), error)  # most errors are the same
            self._noted.setdefault(key, set()).add(rule)
            self.unclear.setdefault(rule, held)[key] = last if last.args == error.args else error
            held[key].without_traceback()
        self._changed()
