"""A5: how often a copy that somebody keeps changing is put back."""

from __future__ import annotations

import pytest

from registry_controller.api.meta import Target
from registry_controller.sync.contention import AT_ONCE, PAUSE_S, Contention, Repair

ONE, TWO = Target("", "ConfigMap", "default", "one"), Target("", "ConfigMap", "default", "two")


def repaired(count: int, *, every_s: float = 1.0) -> Contention:
    contention = Contention()
    for number in range(count):
        contention.record_repair(ONE, Repair.CHANGES, ("kubectl",), now=number * every_s)
    return contention


def test_the_first_repairs_are_made_at_once_and_later_ones_once_a_minute() -> None:
    last_s = float(AT_ONCE - 1)
    assert repaired(AT_ONCE - 1).pause_s(ONE, now=last_s) == 0
    contention = repaired(AT_ONCE)
    assert contention.pause_s(ONE, now=last_s) == PAUSE_S
    assert contention.pause_s(ONE, now=last_s + 20.0) == PAUSE_S - 20.0
    assert contention.pause_s(ONE, now=last_s + PAUSE_S) == 0
    assert contention.pause_s(TWO, now=last_s) == 0


def test_who_has_rested_begins_anew() -> None:
    contention = repaired(AT_ONCE)
    later_s = AT_ONCE + 5 * PAUSE_S
    contention.record_repair(ONE, Repair.CHANGES, now=later_s)
    assert contention.pause_s(ONE, now=later_s) == 0


@pytest.mark.parametrize(
    ("cause", "managers", "words"),
    [
        (Repair.CHANGES, ("helm", "kubectl"), "helm, kubectl keeps changing it here; it is put back once a minute"),
        (Repair.CHANGES, (), "somebody keeps changing it here; it is put back once a minute"),
        (Repair.DELETES, (), "somebody keeps deleting it here; it is made again once a minute"),
    ],
)
def test_the_message_names_whoever_is_known(cause: Repair, managers: tuple[str, ...], words: str) -> None:
    contention = Contention()
    contention.record_repair(ONE, cause, managers, now=0.0)
    assert contention.message(ONE) == words


def test_the_managers_of_an_earlier_repair_are_remembered() -> None:
    contention = repaired(2)
    contention.record_repair(ONE, Repair.CHANGES, now=3.0)
    assert contention.message(ONE).startswith("kubectl keeps")
    contention.record_repair(ONE, Repair.DELETES, now=4.0)
    assert contention.message(ONE).startswith("somebody keeps deleting")


def test_only_what_was_brought_before_is_a_repair() -> None:
    contention = Contention()
    assert not contention.is_repair(ONE, b"a")
    contention.record_write(ONE, b"a")
    assert contention.is_repair(ONE, b"a")
    assert not contention.is_repair(ONE, b"b")
    assert not contention.is_repair(TWO, b"a")
    contention.record_absence(ONE)
    assert not contention.is_repair(ONE, b"a")


def test_what_is_remembered_is_bounded() -> None:
    """The oldest is forgotten first."""
    contention = Contention()
    for number in range(10_001):
        target = ONE._replace(name=str(number))
        contention.record_write(target, b"a")
        contention.record_repair(target, Repair.DELETES, now=0.0)
    assert not contention.is_repair(ONE._replace(name="0"), b"a")
    assert contention.is_repair(ONE._replace(name="1"), b"a")
    with pytest.raises(KeyError):
        contention.message(ONE._replace(name="0"))
