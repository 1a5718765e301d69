"""Computes the conditions of a rule that programs wait for: Ready and Reconciling, as kstatus reads them.

Law: Ready is True for a rule that is Synced and has no held copy, and False for every other rule. Reconciling is there
only while the daemon goes on without a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_GOES_ON: Final = frozenset(("Failing", "Waiting", "Held"))
"""The reasons that end by themselves, or that the daemon tries again."""


def build_readiness(
    accepted: Mapping[str, Any], synced: Mapping[str, Any], stalled: Mapping[str, Any], *, held: int
) -> list[Mapping[str, Any]]:
    """Compute Ready and Reconciling from the other conditions of a rule; `held` is the number of its held copies.

    A condition with the status None is removed. kstatus takes a rule for `Current` only with Ready, for `Failed` with
    Stalled, and for `InProgress` otherwise.
    """
    is_ready = synced["status"] == "True" and not held
    if accepted["status"] != "True":
        cause = accepted
    elif synced["status"] == "True" and held:
        cause = {**synced, "reason": "Held"}
    else:
        cause = synced
    ready = {**cause, "type": "Ready", "status": "True" if is_ready else "False"}
    goes_on = not is_ready and stalled["status"] != "True" and cause["reason"] in _GOES_ON
    reconciling = {**cause, "type": "Reconciling", "status": "True"}
    return [ready, reconciling if goes_on else {"type": "Reconciling", "status": None}]
