"""What holds for every test."""

import os
import signal

import pytest

# A shell that starts us in the background lets us ignore SIGINT, and every program that we start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test-pods` runs these in namespaces of their own; they are no part of `make test`.
collect_ignore = [] if "PODS_RUN" in os.environ else ["pods"]

_LONGEST = ("tests/e2e/test_idle.py", "tests/e2e/test_chain.py", "tests/e2e/test_faults.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that wait longest: where several run at once, nobody waits for them at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONGEST))
