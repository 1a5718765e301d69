"""A5: how often a copy that somebody keeps changing is put back."""

from __future__ import annotations

import pytest

from registry_controller.api.meta import Target
from registry_controller.sync.contention import AT_ONCE, PAUSE_S, Contention, Repair

ONE, TWO = Target("", "ConfigMap", "default", "one"), Target("", "ConfigMap", "default", "two")


def repaired(count: int, *, every_s: float = 1.0) -> Contention:
    contention = Contention()
    for number in range(count):
        contention.repaired(ONE, Repair.CHANGES, ("kubectl",), now=number * every_s)
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
    contention.repaired(ONE, Repair.CHANGES, now=later_s)
    assert contention.pause_s(ONE, now=later_s) == 0


@pytest.mark.parametrize(
    ("deed", "managers", "words"),
    [
        (Repair.CHANGES, ("helm", "kubectl"), "helm, kubectl keeps changing it here; it is put back once a minute"),
        (Repair.CHANGES, (), "somebody keeps changing it here; it is put back once a minute"),
        (Repair.DELETES, (), "somebody keeps deleting it here; it is made again once a minute"),
    ],
)
def test_the_message_names_whoever_is_known(deed: Repair, managers: tuple[str, ...], words: str) -> None:
    contention = Contention()
    contention.repaired(ONE, deed, managers, now=0.0)
    assert contention.words(ONE) == words


def test_the_managers_of_an_earlier_repair_are_remembered() -> None:
    contention = repaired(2)
    contention.repaired(ONE, Repair.CHANGES, now=3.0)
    assert contention.words(ONE).startswith("kubectl keeps")
    contention.repaired(ONE, Repair.DELETES, now=4.0)
    assert contention.words(ONE).startswith("somebody keeps deleting")


def test_only_what_was_brought_before_is_a_repair() -> None:
    contention = Contention()
    assert not contention.has_brought(ONE, b"a")
    contention.brought(ONE, b"a")
    assert contention.has_brought(ONE, b"a")
    assert not contention.has_brought(ONE, b"b")
    assert not contention.has_brought(TWO, b"a")
    contention.let_go(ONE)
    assert not contention.has_brought(ONE, b"a")


def test_what_is_remembered_is_bounded() -> None:
    """The oldest is forgotten first."""
    contention = Contention()
    for number in range(10_001):
        target = ONE._replace(name=str(number))
        contention.brought(target, b"a")
        contention.repaired(target, Repair.DELETES, now=0.0)
    assert not contention.has_brought(ONE._replace(name="0"), b"a")
    assert contention.has_brought(ONE._replace(name="1"), b"a")
    with pytest.raises(KeyError):
        contention.words(ONE._replace(name="0"))
