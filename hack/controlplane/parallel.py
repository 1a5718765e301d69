"""Several things at once, for a main thread that may be interrupted at any moment.

Law: nobody waits for these threads at exit. An executor's are joined then, and one that is interrupted while
it starts a thread never tells that thread to end: Ctrl-C would hang.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence


def run_all(calls: Sequence[Callable[[], None]], *, fail_fast: bool = False) -> None:
    """Run the calls side by side; raise the first error, when all have ended or (fail_fast) at once."""
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
