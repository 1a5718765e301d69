"""The law of one thing that takes the place of another: none that was there for a moment counts. W3."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry_controller.core.stabilization import Settled, settle

WINDOW_S = 10.0
SEEN = st.lists(st.tuples(st.floats(0.0, 15.0), st.sampled_from(["", "a", "b", "c"])), max_size=30)


@given(SEEN)
def test_what_counts_was_first_or_was_the_only_one_for_the_window(seen: list[tuple[float, str]]) -> None:
    now_s, state = 0.0, None
    alone: tuple[str, float] = ("", 0.0)
    for pause_s, name in seen:
        now_s += pause_s
        before: Settled[str] | None = state
        if name != alone[0]:
            alone = (name, now_s)
        state = settle(name or None, name or None, before, now_s=now_s, window_s=WINDOW_S)
        if before is None or state is None:
            assert (state.value if state is not None else "") == name
            continue
        if state.value != before.value:
            assert state.value == name
            assert now_s >= alone[1] + WINDOW_S
        elif name not in ("", state.value):
            assert state.due_s == alone[1] + WINDOW_S > now_s
        else:
            assert state.due_s is None
