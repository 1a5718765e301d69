"""Prints the Pods of all members of a group, and each change of one: cluster, namespace, name, event.

python watch_pods.py                      the members of the group of the current context, or of the Pod's cluster
python watch_pods.py kind-a kind-b        the clusters of these contexts, which need no group
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence

from registry_controller.group import Group


async def watch_pods(contexts: Sequence[str]) -> None:
    """Print until cancelled."""
    async with Group.from_contexts(contexts) if contexts else Group.from_cluster() as group:
        async for event in group.watch("pods", metadata_only=True):
            if event.object is not None:
                print(event.member, event.object.namespace, event.object.name, event.type.lower(), flush=True)
            elif event.reason:
                print(f"{event.member}: {event.reason}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the first process of a Pod, too
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(watch_pods(sys.argv[1:]))
