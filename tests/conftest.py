"""What holds for every test."""

import gc
import os
import signal

import pytest

from tests.daily import list_nightly

# A shell that starts us in the background lets us ignore SIGINT, and every program that we start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test-pods` runs these in namespaces of their own; they are no part of `make test`.
collect_ignore = [] if "PODS_RUN" in os.environ else ["pods"]

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
    """Begin with the modules that wait longest: where several run at once, nobody waits for them at the end."""
    if config.getoption("daily"):
        nightly = set(list_nightly(items))
        config.hook.pytest_deselected(items=[item for item in items if item in nightly])
        items[:] = [item for item in items if item not in nightly]
    items.sort(key=lambda item: not item.nodeid.startswith(_LONGEST))
