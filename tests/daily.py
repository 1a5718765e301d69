"""Which tests `make test` leaves to `make test-nightly`.

Law: each value of each parameter is tried each day, in the fewest combinations; the night tries all combinations.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import pytest

FOLDERS = ("tests/sim/", "tests/e2e/")
"""Here a test runs a group, simulated or real: a combination costs a second, or several."""

K = TypeVar("K")


def find_nightly(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Find the tests that are marked so, and the combinations of parameters that add no value of a parameter."""
    nightly = {item for item in items if item.get_closest_marker("nightly")}
    tables: dict[str, dict[pytest.Item, frozenset[Hashable]]] = {}
    for item in items:
        if item.nodeid.startswith(FOLDERS) and isinstance(item, pytest.Function) and item not in nightly:
            tables.setdefault(item.nodeid.partition("[")[0], {})[item] = frozenset(_list_values(item))
    for values in tables.values():
        nightly |= values.keys() - cover(values)
    return nightly


def cover(values: dict[K, frozenset[Hashable]]) -> set[K]:
    """Choose keys that have all values of all keys together; of two that add as many, the earlier one."""
    missing = frozenset().union(*values.values())
    kept = {key for key, found in values.items() if not found}
    while missing:
        best = max(values, key=lambda key: len(values[key] & missing))
        kept.add(best)
        missing -= values[best]
    return kept


def _list_values(item: pytest.Function) -> Iterator[Hashable]:
    """List the values of each `parametrize`, whose parameters go together, and of each fixture with parameters."""
    called = getattr(item, "callspec", None)
    if called is None:
        return
    rest = set(called.params)
    for mark in item.iter_markers("parametrize"):
        names = _names(mark.args[0] if mark.args else mark.kwargs["argnames"])
        rest -= set(names)
        yield tuple((name, id(called.params[name])) for name in names)  # the same object in each combination
    yield from ((name, id(called.params[name])) for name in sorted(rest))


def _names(given: str | Iterable[str]) -> list[str]:
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
