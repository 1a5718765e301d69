"""What `make test` leaves to `make test-nightly`."""

from __future__ import annotations

import itertools

import pytest

from tests.daily import cover

pytest_plugins = ["pytester"]

_TESTS = """
import pytest

@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("up", [False, True])
def test_matrix(size, up): pass

@pytest.mark.parametrize(("size", "up"), [(1, True), (1, False), (2, True)])
def test_table(size, up): pass

@pytest.fixture(params=["x", "y"])
def letter(request): return request.param

def test_fixture(letter): pass

@pytest.mark.nightly
def test_long(): pass

def test_short(): pass
"""


def test_each_value_is_tried_in_the_fewest_combinations() -> None:
    values = {pair: frozenset(enumerate(pair)) for pair in itertools.product("abc", "xy")}
    kept = cover(values)
    assert {value for pair in kept for value in enumerate(pair)} == set().union(*values.values())
    assert len(kept) == 3


def test_what_has_no_parameter_is_kept() -> None:
    assert cover({"one": frozenset(), "other": frozenset()}) == {"one", "other"}


@pytest.mark.parametrize(("folder", "combinations"), [("sim", 3), ("unit", 6)])
def test_combinations_are_left_out_where_a_test_runs_a_group(
    pytester: pytest.Pytester, folder: str, combinations: int
) -> None:
    """The rows of one table are combinations that somebody chose: all of them stay."""
    path = pytester.mkdir("tests").joinpath(folder, "test_some.py")
    path.parent.mkdir()
    path.write_text(_TESTS)
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nmarkers = ["nightly"]\n')
    for options, matrix, long in (([], 6, 1), (["--daily"], combinations, 0)):
        found = pytester.inline_run("-p", "no:asyncio", "-p", "tests.conftest", *options)
        names = [report.nodeid.split("::")[1].split("[")[0] for report in found.getreports() if report.when == "call"]
        assert [names.count(f"test_{name}") for name in ("matrix", "table", "fixture", "long", "short")] == [
            matrix, 3, 2, long, 1,
        ]  # fmt: skip
