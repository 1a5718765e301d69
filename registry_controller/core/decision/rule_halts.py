"""The halts of rules, as the Cluster of the owner of their copies stores them beside the status of the rules (W4).

Laws: a rule that was deleted and created again while no daemon ran has no status, and its halt stands · the stored form
is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

RuleHalts = Mapping[str, str]
"""By rule, the beginning of its halt; empty while only no number of deletions is always allowed."""

_MOST: Final = 50
_ALL: Final = "*"
"""The entry that stands for any rule: more rules are halted than are stored."""


def halt_in(stored: Mapping[str, Any] | None) -> str | None:
    """Return the entry for a rule with this in its status; None where nothing there has to outlast the rule."""
    found = stored or {}
    halted_at = found.get("haltedAt")
    if isinstance(halted_at, str) and halted_at:
        return halted_at
    return "" if found.get("withoutMinimum") else None


def stored_halts_form(halts: RuleHalts) -> Mapping[str, Any]:
    """Return the halts' form in a status."""
    if len(halts) > _MOST:
        halts = {_ALL: min(halts.values())}
    return {"rules": ",".join(f"{rule}@{moment}" for rule, moment in sorted(halts.items()))} if halts else {}


def read_halts(stored: Mapping[str, Any] | None) -> RuleHalts:
    """Read the halts of rules from the status of a Cluster."""
    text = (stored or {}).get("rules")
    pairs = (pair.partition("@") for pair in text.split(",")) if isinstance(text, str) else ()
    return {rule: moment for rule, at, moment in pairs if rule and at}


def form_for(halts: RuleHalts, rule: str) -> Mapping[str, Any] | None:
    """Return the entry that a rule has lost with its status; None without a halt.

    The counts are lost: the halt lasts until it is allowed, or no deletion is wanted.
    """
    moment = halts.get(rule, halts.get(_ALL))
    if moment is None:
        return None
    window = {"windowStart": moment, "baseline": 0, "haltedAt": moment} if moment else {}
    return {**window, "withoutMinimum": True}
