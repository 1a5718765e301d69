"""What holds for every test."""

import signal

import pytest

# A shell that starts us in the background lets us ignore SIGINT, and every program that we start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

_LONGEST = ("tests/e2e/test_idle.py", "tests/e2e/test_chain.py", "tests/e2e/test_faults.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that wait longest: where several run at once, nobody waits for them at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONGEST))
