"""Decides which rules the record of deleted rules holds (W3).

Laws: nothing expires while no live member agrees with the local clock · a day counts once one agreed with it · a
known deletion is recorded again where the record was lost · one that has expired is not: copies that show it may
outlast the record · a rule that is here, as after the restore of an etcd, does not enter the record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date
from typing import NamedTuple

from registry_controller.api.deleted_rules import LASTS, MOST, DeletedRule


class KnownDeletions(NamedTuple):
    """The deletions of rules that one daemon knows. `uids` are the UIDs of all rules that were ever in `rules`."""

    rules: frozenset[DeletedRule] = frozenset()
    uids: frozenset[str] = frozenset()


def note_deletions(
    known: KnownDeletions,
    *,
    stored: Iterable[DeletedRule],
    found: Collection[DeletedRule],
    today: date,
    is_day_agreed: bool,
) -> KnownDeletions:
    """Add the rules in the stored record, and those that were found to be deleted; leave out expired ones."""
    rules = {rule.uid: rule for rule in known.rules}
    rules |= {rule.uid: _merge(rule, rules.get(rule.uid)) for rule in stored}
    seen = known.uids | rules.keys()
    rules |= {rule.uid: rule._replace(day=today, is_day_agreed=is_day_agreed) for rule in found if rule.uid not in seen}
    policies = {rule.uid: rule.policy for rule in found if rule.policy}
    whole = (rule._replace(policy=rule.policy or policies.get(rule.uid, "")) for rule in rules.values())
    dated = (_date(rule, today) if is_day_agreed else rule for rule in whole)
    lasting = [rule for rule in dated if not is_day_agreed or today - LASTS <= rule.day]
    latest = sorted(lasting, key=lambda rule: (not rule.is_day_agreed, rule.day, rule))[-MOST:]
    return KnownDeletions(frozenset(latest), seen | rules.keys())


def choose_record(
    known: KnownDeletions, *, stored: frozenset[DeletedRule], here: frozenset[str]
) -> frozenset[DeletedRule]:
    """Return the record to store in place of `stored`; `here` are the UIDs of the rules that are here."""
    recorded = {rule.uid for rule in stored}
    return frozenset(rule for rule in known.rules if rule.uid in recorded or rule.uid not in here)


def _merge(stored: DeletedRule, known: DeletedRule | None) -> DeletedRule:
    """Return a rule as the record has it, with what another daemon has not recorded."""
    return stored._replace(policy=stored.policy or known.policy) if known is not None else stored


def _date(rule: DeletedRule, today: date) -> DeletedRule:
    return rule if rule.is_day_agreed else rule._replace(day=today, is_day_agreed=True)
