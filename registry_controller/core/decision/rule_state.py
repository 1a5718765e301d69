"""Judges the state of the rule that made a copy: whether it still acts, and on the copy's owner (W3).

Law: what is unknown proves nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from registry_controller.core.decision.state import RuleState


class RuleFacts(NamedTuple):
    """The facts about the rule that made a copy, towards the copy's owner; None is an unknown fact.

    `is_here` means that the rule is in this cluster, `is_gone` that its home has shown that it was deleted. `acts` is
    false for a rule that is suspended, is not accepted, or may not act here. `selects_us` is the answer of its
    `targetClusters`, `selects_owner` that of its `clusterFeatureMatch`, both stabilized.
    """

    is_here: bool
    is_gone: bool = False
    acts: bool = False
    selects_us: bool | None = None
    selects_owner: bool | None = None


def judge_rule(facts: RuleFacts) -> RuleState:
    """Return the state of a rule."""
    if not facts.is_here:
        return RuleState.GONE if facts.is_gone else RuleState.SILENT
    if not facts.acts or facts.selects_us is None:
        return RuleState.SILENT
    if not facts.selects_us:
        return RuleState.NOT_HERE
    if facts.selects_owner is None:
        return RuleState.SILENT
    return RuleState.READS if facts.selects_owner else RuleState.UNSELECTED
