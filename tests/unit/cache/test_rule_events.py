"""The deletions of rules that a watch shows. W3."""

from __future__ import annotations

from registry_controller.cache import rule_events
from registry_controller.cache.definition_state import DefinitionState
from registry_controller.cache.rule_events import RuleDeletion, RuleEvents


def test_w3_every_deletion_of_a_name_is_kept_until_the_watch_is_interrupted() -> None:
    times, changes = iter((1.0, 2.0, 3.0)), list[None]()
    events = RuleEvents(now_s=lambda: next(times), changed=lambda: changes.append(None))
    events.on_delete("r", "first", 10)
    events.on_delete("r", "second", 20)
    events.on_delete("other", "third", 30)
    assert list(events.of("r")) == ["first", "second"]
    assert list(events) == [
        RuleDeletion("r", "first", 10, 1.0),
        RuleDeletion("r", "second", 20, 2.0),
        RuleDeletion("other", "third", 30, 3.0),
    ]
    assert len(changes) == 3
    events.interrupt()
    events.interrupt()
    assert (list(events), len(changes)) == ([], 4)
    events.on_synced()
    assert len(changes) == 5


def test_a_deletion_is_confirmed_once_the_definition_was_there_after_it() -> None:
    times, told = iter((1.0, 2.0)), list[str]()
    events = RuleEvents(
        now_s=lambda: next(times), changed=lambda: told.append("changed"), deleted=lambda: told.append("deleted")
    )
    events.on_delete("r", "first", 10)
    events.on_delete("r", "second", 20)
    assert told == ["deleted", "changed"] * 2
    first, second = events
    assert not events.is_confirmed(first)
    events.on_definition(DefinitionState.THERE, 1.0)
    assert (events.is_confirmed(first), events.is_confirmed(second)) == (True, False)
    assert told[4:] == ["changed"]


def test_no_deletion_is_confirmed_after_the_definition_was_seen_to_go() -> None:
    """W3: what the next definition shows is no answer about the rules of the former one."""
    events = RuleEvents(now_s=lambda: 1.0)
    events.on_delete("r", "uid", 10)
    events.on_definition(DefinitionState.GOING, 2.0)
    assert not list(events)
    events.on_delete("late", "uid", 20)
    events.on_definition(DefinitionState.UNKNOWN, 2.0)
    assert list(events)
    events.on_definition(DefinitionState.NEXT, 3.0)
    assert not list(events)
    events.on_delete("r", "next", 30)
    events.on_definition(DefinitionState.THERE, 4.0)
    assert [events.is_confirmed(deletion) for deletion in events] == [True]


def test_the_earliest_deletions_are_forgotten_first() -> None:
    events = RuleEvents(now_s=lambda: 0.0)
    most = rule_events._MOST
    for number in range(most):
        events.on_delete(f"r{number // 2}", f"uid-{number}", number)
    events.on_delete("r0", "uid-0", 5)  # again, as after a list
    assert len(list(events)) == most
    events.on_delete("last", "uid-last", most)
    assert len(list(events)) == most
    assert list(events.of("r0")) == ["uid-0"]
    assert list(events.of("last")) == ["uid-last"]
