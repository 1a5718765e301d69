"""The daemon as a process: signals, tuning, probes, exit code.

Law: SIGTERM ends it cleanly, a second one at once; a bug ends it loudly.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import uvloop

from registry_controller import __version__
from registry_controller.api.errors import InvalidOption
from registry_controller.app import Daemon
from registry_controller.handlers import KopfWatcher, as_connection
from registry_controller.kube.connect import connect_home
from registry_controller.kube.kopf_login import read_login
from registry_controller.kube.watch import read_cluster_id
from registry_controller.report import logs
from registry_controller.report.health import HealthServer
from registry_controller.report.metrics import Metrics
from registry_controller.settings import Settings
from registry_controller.watch.patience import until_answered

log = logs.get_logger(__name__)

_M_MMAP_THRESHOLD: Final = -3  # malloc.h
_M_ARENA_MAX: Final = -8
_LARGE_BYTES: Final = 64 * 1024


def run(settings: Settings, *, kubeconfig: Path | None, context: str | None) -> int:
    """Run the daemon until SIGTERM or SIGINT; return the exit code. A second signal ends it at once."""
    logs.configure(format=settings.log_format, verbosity=settings.log_verbosity)
    _leave_no_core()
    _tune()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_main(settings, kubeconfig=kubeconfig, context=context))
    except InvalidOption as error:
        log.error("cannot start", error=str(error))
        return 2


def _leave_no_core() -> None:
    """Let a crash leave nothing of our memory, in which credentials are.

    A limit of 0 keeps files from being written; where cores are piped to a program, limits do not count, and it gets
    no memory because the filter names none (core(5)).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # only Linux has it
        Path("/proc/self/coredump_filter").write_text("0", encoding="ascii")


def _tune() -> None:
    """Keep pauses short: what was imported is never garbage, and the ear's thread hands over after half a millisecond.

    Python's own interval is 5 ms, more than a whole relay takes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    sys.setswitchinterval(0.0005)
    _keep_memory_whole()


def _keep_memory_whole() -> None:
    """Let glibc take large buffers from the system, and give them back, instead of cutting them out of its heap.

    By itself it raises the size from which it does so as such buffers are freed, and what is small and stays then
    settles between them: in a group of three whose third member left and joined every 12 s, the heap of a daemon grew
    by more than a MiB a minute, all of it holes; with this it stays. Threads share one heap, as they share the GIL.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other libraries have none, and need none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 1)


async def _main(settings: Settings, *, kubeconfig: Path | None, context: str | None) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_loop_error)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, stopping)
    log.info("starting", version=__version__, namespace=settings.namespace)
    for remark in settings.remarks():
        log.info("about an option", remark=remark)
    daemon = asyncio.create_task(_run_daemon(settings, kubeconfig=kubeconfig, context=context), name="daemon")  # noqa: TID251
    waiter = asyncio.create_task(stopping.wait(), name="stop")  # noqa: TID251
    await asyncio.wait((daemon, waiter), return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    if not daemon.done():
        daemon.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await daemon
        log.info("stopped")
        return 0
    await daemon
    return 1


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say what no task hears. A connection that broke while TLS still wrote to it is the peer's news, not an error."""
    if "transport" in context:
        log.debug("a connection ended while it was written to", error_type=logs.describe(context["exception"]))
        return
    loop.default_exception_handler(context)


def _stop(stopping: asyncio.Event) -> None:
    if stopping.is_set():
        os._exit(1)
    stopping.set()


async def _run_daemon(settings: Settings, *, kubeconfig: Path | None, context: str | None) -> NoReturn:
    writer = await connect_home(kubeconfig=kubeconfig, context=context)
    log.info("this is home", server=writer.server)
    metrics = Metrics()
    try:
        ready: dict[str, str | None] = {"home": "the own API server was not heard yet"}
        live: dict[str, KopfWatcher] = {}
        rendering: list[Callable[[str], tuple[bytes, str]]] = [metrics.render]

        def render(accept: str) -> tuple[bytes, str]:
            return rendering[0](accept)  # the daemon, which knows more, is made later

        server = HealthServer(
            health=settings.health_addr,
            metrics=settings.metrics_addr,
            live={"ear": lambda: None if not live or live["ear"].healthy else "listening to our own kinds has stopped"},
            ready={"home": lambda: ready["home"]},
            render=render,
        )
        async with contextlib.AsyncExitStack() as doors:
            await doors.enter_async_context(server.serve())
            local = await until_answered(functools.partial(read_cluster_id, writer), what="read our own cluster's ID")
            daemon = Daemon(settings, writer=writer, local=local, metrics=metrics)
            rendering[0] = daemon.gauges.render
            ear = KopfWatcher(
                login=lambda: as_connection(read_login(kubeconfig=kubeconfig, context=context)),
                on_event=daemon.hand_over,
                on_restart=daemon.hand_over_restart,
            )
            live["ear"] = ear
            writer.on_new_ca(ear.rewatch)
            try:
                await daemon.run(ear, ready)
            finally:
                await asyncio.to_thread(ear.stop, 3.0)
    finally:
        await writer.close()
    raise AssertionError("a daemon never returns")
