"""A server that resets what it accepts costs its own answers and nothing else."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent(
    """
    import asyncio, socket, struct, threading
    import aiohttp, uvloop
    from registry_controller.kube.connector import Connector

    listening = socket.create_server(("127.0.0.1", 0), backlog=100)

    def reset_all() -> None:
        while True:
            accepted, _ = listening.accept()
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()

    async def ask(session, failed) -> None:
        for _ in range(100):
            try:
                await session.get(f"https://127.0.0.1:{listening.getsockname()[1]}/")
            except aiohttp.ClientConnectionError:
                failed.append(1)

    async def main() -> None:
        failed = []
        async with aiohttp.ClientSession(connector=Connector(limit=0)) as session, asyncio.TaskGroup() as tasks:
            for _ in range(20):
                tasks.create_task(ask(session, failed))
        print(len(failed))

    threading.Thread(target=reset_all, daemon=True).start()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    """
)


def test_a_server_that_resets_every_connection_does_not_end_the_process() -> None:
    """P6: without care uvloop closes others' descriptors, and libuv aborts: so it is tried in a process of its own."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "2000"), done.stderr[-2000:]
