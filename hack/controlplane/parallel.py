"""Calls several functions at once, for a main thread that may be interrupted at any moment.

Law: the process does not wait for these threads when it exits. An executor joins its threads at exit. If Ctrl-C
interrupts it while it starts a thread, it never ends that thread, and the process hangs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence


def run_all(calls: Sequence[Callable[[], None]], *, fail_fast: bool = False) -> None:
    """Run the calls side by side; raise the first error after all have ended, or at once (fail_fast)."""
    outcomes: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            outcomes.put(error)
        else:
            outcomes.put(None)

    for call in calls:
        threading.Thread(target=run, args=(call,), daemon=True).start()
    first: BaseException | None = None
    for _ in calls:
        outcome = outcomes.get()
        first = first or outcome
        if first is not None and fail_fast:
            break
    if first is not None:
        raise first
