"""What is left open in a step, drawn: names, kinds, values, rules; all in one shape, for deeds to choose from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.sim.schedule.vocabulary import (
    KINDS,
    NAMES,
    NAMESPACES,
    SELECTIONS,
    SELECTORS,
    SHAPES_OF,
    UNREADABLE_NAMES,
    UNREADABLE_SELECTORS,
)

Names = Sequence[str]
HELD_KINDS = ("ConfigMap", "Secret", "Widget", "Region")


def nothing(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return ()


def a_place(chance: random.Random, who: str, names: Names, *, kinds: Sequence[str] = HELD_KINDS) -> tuple[Any, ...]:
    kind = chance.choice(kinds)
    namespace = "" if kind in ("Region", "Namespace") else chance.choices(NAMESPACES, (5, 3, 2))[0]
    return ((kind, namespace, chance.choice(NAMES)),)


def an_object(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    shares = (("sync", 0.85), ("gold", 0.5), ("suffix", 0.7), ("disabled", 0.07), ("fixed", 0.06), ("mirrored", 0.1))
    more = [word for word, share in (*shares, ("tracked", 0.3)) if chance.random() < share]
    kinds = chance.choices(KINDS, (6, 4, 6, 3, 1, 2))
    return a_place(chance, who, names, kinds=kinds)[0], f"v{chance.randrange(10**6)}", " ".join(more)


def one(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    """Choose one of those that will be there: which, is seen then."""
    return (chance.randrange(1000),)


def one_and_a_value(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return chance.randrange(1000), f"p{chance.randrange(10**6)}"


def a_new_place(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return *a_place(chance, who, names), f"p{chance.randrange(10**6)}"


def a_rule(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    kind = chance.choices(KINDS, (6, 4, 6, 3, 1, 2))[0]
    more = [word for word, share in (("gold", 0.25), ("targets", 0.2), ("makes", 0.3), ("stays", 0.25),
                                     ("suspended", 0.05), ("newer", 0.05)) if chance.random() < share]  # fmt: skip
    policy = chance.choice(("", "Orphan", "Delete", "Delete"))
    selection = chance.choices(SELECTIONS, (5, 2, 1, 1, 1, 1))[0]
    name = f"{kind.lower()}s-{chance.choice('12')}"
    return name, (kind, chance.choice(SHAPES_OF[kind]), selection, policy, " ".join(more))


def a_naming(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    """Choose one of those that will be there, and what it says of the clusters that copy it: names and a selector."""
    few = sorted(chance.sample(names, chance.choice((1, 2, len(names)))))
    named = ",".join([*few, *(["nobody"] if chance.random() < 0.2 else [])])
    selector = chance.choice(sorted(SELECTORS))
    said = chance.choices(("names", "both", "selector", "neither", "empty", "wrong"), (8, 2, 3, 2, 1, 2))[0]
    names_text = {"names": named, "both": named, "empty": "", "wrong": chance.choice(UNREADABLE_NAMES)}.get(said)
    wrong_selector = chance.choice((None, *UNREADABLE_SELECTORS))
    selector_text = {"both": selector, "selector": selector, "wrong": wrong_selector}.get(said)
    return chance.randrange(1000), (names_text, selector_text)


def a_rule_name(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return (f"{chance.choice(KINDS).lower()}s-{chance.choice('12')}",)


def another(chance: random.Random, who: str, names: Names) -> tuple[Any, ...]:
    return (chance.choice([name for name in names if name != who]),)
