"""Runs the daemon and samples where its CPU time goes: `python -m hack.programs.bench.sampled FILE ARGUMENTS`.

A timer of the process's CPU time (ITIMER_PROF) interrupts the main thread. The CPU time of the main thread since the
last interruption goes to the package of the innermost frame, to its function, and to the current task. On SIGUSR2 the
process writes the sums to FILE, as JSON, in seconds.

A package is a folder of registry_controller/ (two levels), or the name of a third-party package. Code in C counts for
its caller. Python handles a signal at the next call: where that is the first instruction of a callback, the time before
it was spent in the event loop, which reads sockets and decrypts in C.
"""

from __future__ import annotations

import asyncio
import dis
import gc
import json
import os
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType

INTERVAL_S = 0.001
LOOP = "uvloop (sockets, TLS)"
COLLECTOR = "garbage collector"
PACKAGE = str(Path(__file__).resolve().parents[3] / "registry_controller") + os.sep
_RESUME = dis.opmap["RESUME"]
_WRITES = ("_write", "_writelines")  # of aiohttp's http_writer: they call the transport, which encrypts in C


class Sampler:
    """Sums of CPU seconds, of the main thread by package, function and task, and of the whole process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._packages: dict[str, float] = defaultdict(float)
        self._functions: dict[str, float] = defaultdict(float)
        self._tasks: dict[str, float] = defaultdict(float)
        self._last_s = time.thread_time()
        self._collecting_since_s = 0.0

    def start(self) -> None:
        """Sample from now on; call it in the main thread."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.signal(signal.SIGUSR2, self._write)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
        gc.callbacks.append(self._collect)

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        now_s = time.thread_time()
        taken_s, self._last_s = now_s - self._last_s, now_s
        package, function = _place(frame)
        self._packages[package] += taken_s
        self._functions[function] += taken_s
        self._tasks[_task()] += taken_s

    def _collect(self, phase: str, _info: dict[str, int]) -> None:
        now_s = time.thread_time()
        if phase == "start":
            self._collecting_since_s = now_s
            return
        taken_s = now_s - self._collecting_since_s
        self._packages[COLLECTOR] += taken_s
        self._functions[COLLECTOR] += taken_s
        self._last_s += taken_s

    def _write(self, _number: int, _frame: FrameType | None) -> None:
        sums = {
            "process": time.process_time(),
            "packages": self._packages,
            "functions": self._functions,
            "tasks": self._tasks,
        }
        temporary = self._file.with_suffix(".new")
        temporary.write_text(json.dumps(sums), encoding="utf-8")
        temporary.replace(self._file)


def _place(frame: FrameType | None) -> tuple[str, str]:
    """Return the package and the function that a sample counts for."""
    if frame is not None and (_is_loop(frame) or (_is_entered(frame) and _is_loop(frame.f_back))):
        return LOOP, LOOP
    while frame is not None:
        code = frame.f_code
        if code.co_name in _WRITES and code.co_filename.endswith("aiohttp/http_writer.py"):
            return LOOP, LOOP
        if package := package_of(code.co_filename):
            return package, _function(code, package=package)
        frame = frame.f_back
    return LOOP, LOOP


def package_of(file: str) -> str:
    """Return the package of a file; empty for the standard library and for this program."""
    if file.startswith(PACKAGE):
        folders = Path(file.removeprefix(PACKAGE)).parts[:-1]
        return "/".join(("registry_controller", *folders[:2]))
    if "site-packages/" in file:
        return file.rpartition("site-packages/")[2].partition("/")[0].removesuffix(".py")
    return ""


def _function(code: CodeType, *, package: str) -> str:
    return f"{package}/{Path(code.co_filename).name}:{code.co_qualname}"


def _is_entered(frame: FrameType) -> bool:
    """Return whether the frame is at its first instruction, or just resumed."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _RESUME


def _is_loop(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_code.co_filename.endswith("asyncio/runners.py")


def _task() -> str:
    """Return the kind of the current task: its name up to the first digit, quote or address."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        return "callbacks of the loop"
    return task.get_name().replace("-", " ").split(" ")[0]


def main() -> None:
    """Start the sampler, and run the daemon's command line."""
    file, arguments = Path(sys.argv[1]), sys.argv[2:]
    sys.argv = ["registry-controller", *arguments]
    Sampler(file).start()
    from registry_controller.cli import main as run

    run()


if __name__ == "__main__":
    main()
