"""The errors, and the tree on top of their module."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from registry_controller.api import errors
from registry_controller.api.errors import ApiError, Mistake, Party, RegistryError
from registry_controller.api.meta import metadata_of


class Line(NamedTuple):
    """A line of the tree, and the name on the line above it that has one level less."""

    name: str
    parent: str
    fault: str
    is_transient: str


def _drawn() -> list[Line]:
    """Read the tree in the module's docstring."""
    found: list[Line] = []
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"( *)([A-Z]\w+) +([a-z]+) +(yes|no) +\S", line):
            depth = len(match[1]) // 2
            path[depth:] = [match[2]]
            found.append(Line(match[2], path[depth - 1] if depth else "Exception", match[3], match[4]))
    return found


def _defined(error: type[RegistryError] = RegistryError) -> Iterator[type[RegistryError]]:
    """Yield the classes of the module, each before its subclasses."""
    yield error
    for below in error.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from _defined(below)


def test_the_tree_on_top_of_the_module_is_that_of_the_classes() -> None:
    classes = [
        Line(error.__name__, error.__base__.__name__, error.fault.value, "yes" if error.is_transient else "no")
        for error in _defined()
        if error.__base__ is not None
    ]
    assert _drawn() == classes
    assert {line.name for line in _drawn()} == {
        name for name, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, Exception)
    }


def test_every_party_is_at_fault_for_something() -> None:
    assert {Party(line.fault) for line in _drawn()} == set(Party)


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (errors.Unreachable("no answer"), 0.0),
        (ApiError("500", retry_after_s=3.0), 3.0),
        (errors.TooManyRequests("429", retry_after_s=1.0), 1.0),
        (errors.Contested("changed again", retry_after_s=60.0), 60.0),
    ],
)
def test_every_error_has_the_least_wait_before_a_retry(error: RegistryError, wait_s: float) -> None:
    assert error.retry_after_s == wait_s


def test_a_bug_is_reported_with_its_place_and_without_the_words_of_the_exception() -> None:
    try:
        errors.InvalidObject("a", None + "secret")  # type: ignore[operator]
    except TypeError as error:
        outside = Mistake.of(error, path="spec.rules")
    try:
        metadata_of("secret")  # type: ignore[arg-type]
    except AttributeError as error:
        inside = Mistake.of(error, path="spec.rules")
    assert str(outside) == "spec.rules: cannot be evaluated: a bug in this program; please report it"
    assert re.fullmatch(
        r"cannot be evaluated: a bug in this program at api\.meta:\d+; please report it", inside.message
    )
    assert (inside.reason, inside.fault, inside.is_transient) == ("Mistake", Party.PROGRAM, False)


def test_a_bare_error_keeps_its_message_and_drops_its_traceback_and_causes() -> None:
    def refuse() -> None:
        try:
            raise ValueError("data")
        except ValueError as error:
            raise RegistryError("refused") from error

    with pytest.raises(RegistryError) as caught:
        refuse()
    error = caught.value.without_traceback()
    assert str(error) == "refused"
    assert (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)
