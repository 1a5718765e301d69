"""Target states for tests."""

from __future__ import annotations

from typing import Any

from registry_controller.core.decision.state import Origin, TargetState


def with_facts(state: TargetState, **facts: Any) -> TargetState:
    """Return a state with other fields; those of its origin are named without it."""
    origin = {name: facts.pop(name) for name in Origin._fields if name in facts}
    return state._replace(origin=state.origin._replace(**origin), **facts)
