"""What the rules of a feed say of an object: what they make of it, or why that cannot be told.

Laws: what cannot be evaluated is its rule's own problem, and never "no match" (W1) · the rules that came from one
cluster may take together, of an object, the time that one rule may, and those of all clusters four times as much · for
all objects they may take no more than so much memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from registry_controller.api.errors import InvalidObject, Mistake
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey
from registry_controller.core.wanted import ActiveRule, Hit
from registry_controller.engine.shared import Shared
from registry_controller.gotemplate import DEFAULT, Pool
from registry_controller.kube.watch import Heard

MOST_MOVED: Final = 50_000
"""So many objects may one other cluster's rules give other names or kinds: each takes some 500 bytes."""
MOST_WORDS: Final = 10_000
"""So many objects that one other cluster's rules cannot be evaluated on are remembered with the reason."""
_MOST_STEPS: Final = 4 * DEFAULT.steps  # about a second
_TOGETHER: Final = "what the other rules of its cluster ask of this object"


def shares(owners: Collection[ClusterUID]) -> Mapping[ClusterUID, Pool]:
    """Give the rules of each owner their share of what may be asked of one object: the same to all, so it is no chance.

    An attacker may introduce hundreds of owners.
    """
    most = min(DEFAULT.steps, _MOST_STEPS // max(len(owners), 1))
    return {owner: Pool(most, whose=_TOGETHER) for owner in owners}


class Kept:
    """What is kept for the rules of each other cluster, in all feeds together."""

    def __init__(self) -> None:
        self.moved: Counter[ClusterUID] = Counter()
        self.words: Counter[ClusterUID] = Counter()


class Asking:
    """The rules of one feed. `unclear` are the words on what cannot be evaluated, by rule."""

    def __init__(
        self,
        *,
        peer: ClusterUID,
        kind: GVK,
        rules: tuple[ActiveRule, ...],
        kept: Kept,
        changed: Callable[[], None],
    ) -> None:
        self.unclear: dict[str, dict[ObjectKey, InvalidObject]] = {}
        self._peer = peer
        self._kind = kind
        self._rules = rules
        self._strangers = {active.rule.name: active.owner for active in rules if active.fence.synced}
        self._owners = frozenset(self._strangers.values())
        self._kept = kept
        self._changed = changed
        self._hits: Shared[tuple[Hit, ...]] = Shared()
        self._names: Shared[frozenset[str]] = Shared()

    def answers(
        self, heard: Heard, body: Callable[[], Manifest]
    ) -> Iterator[tuple[ActiveRule, Hit | InvalidObject | None]]:
        """Ask every rule, in their order."""
        pools = shares(self._owners)
        for active in self._rules:
            pool = pools[active.owner] if active.fence.synced else None
            answer: Hit | InvalidObject | None
            try:
                answer = active.hit(heard, body, owner=self._peer, pool=pool)
            except InvalidObject as error:
                answer = error
            except Exception as error:  # a stranger may have written either
                answer = Mistake.of(error, path="spec.rules")
            yield active, answer

    def ask(
        self, heard: Heard, body: Callable[[], Manifest], *, is_own: bool, before: tuple[Hit, ...]
    ) -> tuple[tuple[Hit, ...], frozenset[str]]:
        """Tell what is made of an object, and which rules cannot tell; of another's copy nobody needs to (W1)."""
        had = frozenset(hit.rule for hit in before if hit.is_moved(self._kind))
        self._release(before)
        hits: list[Hit] = []
        unclear: set[str] = set()
        for active, answer in self.answers(heard, body):
            name = active.rule.name
            found = self._keep(answer, had=name in had) if isinstance(answer, Hit) else answer
            if isinstance(found, InvalidObject) and is_own:
                unclear.add(name)
                self._note(name, heard.key, found)
                continue
            self._note(name, heard.key, None)
            if isinstance(found, Hit):
                hits.append(found)
        return (
            self._hits.one(tuple(hits)) if hits else (),
            self._names.one(frozenset(unclear)) if unclear else frozenset(),
        )

    def forget(self, key: ObjectKey, hits: tuple[Hit, ...], unclear: frozenset[str]) -> None:
        """Forget what was said of an object."""
        self._release(hits)
        for rule in unclear:
            self._note(rule, key, None)

    def _keep(self, hit: Hit, *, had: bool) -> Hit | InvalidObject:
        """Count what is made elsewhere; what was before stays, and what is too much cannot be told."""
        stranger = self._strangers.get(hit.rule)
        if stranger is not None and hit.is_moved(self._kind):
            if not had and self._kept.moved[stranger] >= MOST_MOVED:
                words = (
                    f"make more than {MOST_MOVED} objects of other names or kinds, with the other rules of that cluster"
                )
                return InvalidObject("spec.rules", words)
            self._kept.moved[stranger] += 1
        return hit

    def _release(self, hits: tuple[Hit, ...]) -> None:
        for hit in hits:
            stranger = self._strangers.get(hit.rule)
            if stranger is not None and hit.is_moved(self._kind):
                self._kept.moved[stranger] -= 1

    def _note(self, rule: str, key: ObjectKey, error: InvalidObject | None) -> None:
        """Keep the words on an object; where there are too many already, the first of each rule stand for all."""
        held = self.unclear.get(rule, {})
        stranger = self._strangers.get(rule)
        if error is None:
            if key not in held:
                return
            del held[key]
            if not held:
                del self.unclear[rule]
            if stranger is not None:
                self._kept.words[stranger] -= 1
        else:
            if key not in held and stranger is not None:
                if held and self._kept.words[stranger] >= MOST_WORDS:
                    return
                self._kept.words[stranger] += 1
            last = next(reversed(held.values()), error)  # most of them say the same
            self.unclear.setdefault(rule, held)[key] = last if last.args == error.args else error
            held[key].bare()
        self._changed()
