"""Decides which rules that are missing without a trace may let their copies go: those that a person allowed (W3).

Laws: an allowance names a moment, and counts for the rules that were missing then · a rule that goes missing later gets
a later moment, also by a clock that is set back · an allowance lasts while its annotation does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from registry_controller.core.decision.deletion_limit import spell

_SECOND: Final = timedelta(seconds=1)


class MissingRules(NamedTuple):
    """The rules that are missing at an owner, each with the moment since when (RFC 3339).

    `allowed` is the moment that a person allowed; empty for none.
    """

    since: Mapping[str, str]
    allowed: str = ""

    def allows(self, rule: str) -> bool:
        """Return whether the copies of a missing rule may go."""
        return rule in self.since and self.since[rule] <= self.allowed

    @property
    def waiting(self) -> Mapping[str, str]:
        """The rules whose copies stay until a person allows it."""
        return {rule: moment for rule, moment in self.since.items() if not self.allows(rule)}

    @property
    def going(self) -> frozenset[str]:
        """The rules whose copies may go."""
        return frozenset(filter(self.allows, self.since))

    @property
    def moment(self) -> str:
        """The moment that a person has to name, so that all copies may go; empty where nothing waits."""
        return max(self.waiting.values(), default="")

    def with_allowance(self, named: Collection[str]) -> MissingRules:
        """Return these with the moment that is allowed now, of those that annotations have named."""
        return self._replace(allowed=max((moment for moment in self._issued if moment in named), default=""))

    def with_rules(self, rules: Iterable[str], *, now: datetime) -> MissingRules:
        """Return the rules that are missing now: a rule that was not missing before gets a new moment."""
        new = spell(now)
        latest = max(self._issued, default="")
        if new <= latest:
            new = spell(datetime.fromisoformat(latest).astimezone(UTC) + _SECOND)
        return self._replace(since={rule: self.since.get(rule, new) for rule in rules})

    @property
    def _issued(self) -> frozenset[str]:
        return frozenset((*self.since.values(), self.allowed)) - {""}
