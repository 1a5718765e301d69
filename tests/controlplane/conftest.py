"""Two real clusters for all tests of the room, and patience instead of sleep."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from hack.controlplane import Group

Eventually = Callable[..., None]


@pytest.fixture(scope="session")
def group() -> Iterator[Group]:
    with Group(2, prefix="demo") as group:
        yield group


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    def wait(condition: Callable[[], object], *, timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.02)

    return wait
