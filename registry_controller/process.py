"""The daemon as a process: signals, tuning, probes, exit code.

Law: SIGTERM ends it cleanly, a second SIGTERM ends it at once; a bug ends it with a traceback and exit code 1.
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
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from registry_controller import __version__
from registry_controller.api.errors import InvalidOption
from registry_controller.app import Daemon
from registry_controller.handlers import KopfWatcher, as_connection
from registry_controller.kube.kopf_login import read_login
from registry_controller.kube.transport import Transport
from registry_controller.kube.watch import read_cluster_id
from registry_controller.kube.writer import connect_local
from registry_controller.report import logs
from registry_controller.report.health import HealthServer
from registry_controller.report.lines import describe
from registry_controller.report.metrics import Metrics
from registry_controller.report.tracing import Tracing, start_tracing
from registry_controller.settings import Settings
from registry_controller.watch.retry import until_answered

try:
    from uvloop import new_event_loop as _new_event_loop
except ImportError:  # no uvloop for this platform
    _new_event_loop = asyncio.new_event_loop  # type: ignore[assignment]  # a loop of another type

log = logs.get_logger(__name__)

_M_MMAP_THRESHOLD: Final = -3  # malloc.h
_M_ARENA_MAX: Final = -8
_LARGE_BYTES: Final = 64 * 1024


def run(settings: Settings, *, kubeconfig: Path | None, context: str | None) -> int:
    """Run the daemon until SIGTERM or SIGINT; return the exit code. A second signal ends it at once."""
    logs.configure(format=settings.log_format, verbosity=settings.log_verbosity)
    _leave_no_core()
    tracing = start_tracing(os.environ)
    Transport.tracer = tracing
    _tune()
    try:
        with asyncio.Runner(loop_factory=_new_event_loop) as runner:
            return runner.run(_main(settings, kubeconfig=kubeconfig, context=context, tracing=tracing))
    except InvalidOption as error:
        log.error("cannot start", error=str(error))
        return 2
    finally:
        if tracing is not None:
            tracing.close()


def _leave_no_core() -> None:
    """Prevent core dumps: the memory of the daemon holds credentials.

    A limit of 0 prevents files. Where the kernel pipes a dump to a program, it ignores limits; the filter then leaves
    all memory out (core(5)).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # only Linux has it
        Path("/proc/self/coredump_filter").write_text("0", encoding="ascii")


def _tune() -> None:
    """Shorten pauses: exclude imported modules from garbage collection, and switch threads after 0.5 ms.

    Python's default interval is 5 ms, more than the relay of a change takes; kopf runs in a second thread.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    sys.setswitchinterval(0.0005)
    _keep_memory_whole()


def _keep_memory_whole() -> None:
    """Make glibc map large buffers, and return them to the system, instead of taking them from its heap.

    By default glibc raises this threshold as such buffers are freed, and small long-lived blocks settle between them.
    In a group of three whose third member left and joined every 12 s, the heap of a daemon grew by more than 1 MiB a
    minute, all holes; with a fixed threshold it does not grow. Threads share one heap, as they share the GIL.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 1)


async def _main(settings: Settings, *, kubeconfig: Path | None, context: str | None, tracing: Tracing | None) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_loop_error)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, stopping)
    log.info("starting", version=__version__, namespace=settings.namespace)
    for remark in settings.remarks():
        log.info("option is ignored", remark=remark)
    running = _run_daemon(settings, kubeconfig=kubeconfig, context=context, tracing=tracing)
    daemon = asyncio.create_task(running, name="daemon")  # noqa: TID251
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
    """Log errors outside of tasks. A connection that ended while TLS wrote to it is no error of the daemon."""
    if "transport" in context:
        log.debug("connection ended during a write", error=describe(context["exception"]))
        return
    loop.default_exception_handler(context)


def _stop(stopping: asyncio.Event) -> None:
    if stopping.is_set():
        os._exit(1)
    stopping.set()


async def _run_daemon(
    settings: Settings, *, kubeconfig: Path | None, context: str | None, tracing: Tracing | None
) -> NoReturn:
    writer = await connect_local(kubeconfig=kubeconfig, context=context)
    log.info("connected to the local cluster", server=writer.server)
    metrics = Metrics()
    try:
        ready: dict[str, str | None] = {"local-cluster": "the local API server has not answered yet"}
        watchers: list[KopfWatcher] = []
        rendering: list[Callable[[str], tuple[bytes, str]]] = [metrics.render]

        def render(accept: str) -> tuple[bytes, str]:
            return rendering[0](accept)  # the daemon adds its gauges below

        def check_kopf() -> str | None:
            return None if all(watcher.healthy for watcher in watchers) else "kopf no longer watches our own kinds"

        server = HealthServer(
            health=settings.health_addr,
            metrics=settings.metrics_addr,
            live={"kopf": check_kopf},
            ready={"local-cluster": lambda: ready["local-cluster"]},
            render=render,
        )
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(server.serve())
            local = await until_answered(functools.partial(read_cluster_id, writer), what="read our own cluster's ID")
            holder = settings.pod_name or socket.gethostname()
            daemon = Daemon(settings, writer=writer, local=local, metrics=metrics, holder=holder, tracing=tracing)
            rendering[0] = daemon.gauges.render
            watcher = KopfWatcher(
                login=lambda: as_connection(read_login(kubeconfig=kubeconfig, context=context)),
                on_event=daemon.hand_over,
                on_restart=daemon.hand_over_restart,
            )
            watchers.append(watcher)
            writer.on_new_ca(watcher.rewatch)
            try:
                await daemon.run(watcher, ready)
            finally:
                await asyncio.to_thread(watcher.stop, 3.0)
    finally:
        await writer.close()
    raise AssertionError("a daemon never returns")
