"""What holds for every test."""

import gc
import os
import signal
from collections.abc import Sequence

import pytest

from tests.daily import find_nightly

# A shell that starts us in the background lets us ignore SIGINT, and every program that we start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test-pods` runs these in namespaces of their own; they are no part of `make test`.
collect_ignore = [] if "PODS_RUN" in os.environ else ["pods"]

_ON_CLUSTERS = ("tests/chaos", "tests/controlplane", "tests/docs", "tests/e2e", "tests/packaging")
_COMPUTING = ("tests/explore", "tests/sim")
_LONGEST = ("tests/e2e/test_hostile_servers.py", "tests/e2e/test_idle.py", "tests/e2e/test_chain.py")


_ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000
"""Python's own threshold is 700: simulated groups make so many objects that collections take a seventh of the time."""


def pytest_collection_finish() -> None:
    """Let the collector of cycles run less often, and skip all objects that exist by now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--daily", action="store_true", help="leave out what `make test-nightly` runs besides `make test`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the modules so that several processes at once have something to compute at any time, and end together."""
    if config.getoption("daily"):
        nightly = find_nightly(items)
        config.hook.pytest_deselected(items=[item for item in items if item in nightly])
        items[:] = [item for item in items if item not in nightly]
    items[:] = _by_turns(items)
    items.sort(key=lambda item: not item.nodeid.startswith(_LONGEST))


def _by_turns(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Put modules on clusters, which wait, modules that compute and short ones by turns; each kind keeps its order."""
    kinds: tuple[dict[str, list[pytest.Item]], ...] = ({}, {}, {})
    for item in items:
        module = item.nodeid.partition("::")[0]
        kind = kinds[0 if module.startswith(_ON_CLUSTERS) else 1 if module.startswith(_COMPUTING) else 2]
        kind.setdefault(module, []).append(item)
    placed = (
        (place / len(kind), module, found) for kind in kinds for place, (module, found) in enumerate(kind.items())
    )
    return [item for _, _, found in sorted(placed, key=lambda one: one[:2]) for item in found]
