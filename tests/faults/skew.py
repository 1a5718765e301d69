"""A clock that lies to one process: a library before libc's, which adds to the time of day what a file says.

Time namespaces cannot do this: they move the monotonic clock and the time since boot, not the time of day.
"""

from __future__ import annotations

import datetime
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

_FOLDER = Path(sys.prefix) / "faults"  # the virtual environment: containers see it, too
_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shared; /* nanoseconds to add; the container sees the file, and cannot write it */
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real = dlsym(RTLD_NEXT, "clock_gettime");
    int file = getenv("FAULTS_CLOCK") ? open(getenv("FAULTS_CLOCK"), O_RDONLY) : -1;
    if (file >= 0) {
        void *found = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
        shared = found == MAP_FAILED ? 0 : found;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    if (!real) begin();
    int result = real(clock, out);
    if (!result && shared && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t now = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec + shared[0];
        out->tv_sec = now / 1000000000;
        out->tv_nsec = now % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *out, void *zone) {
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"""


class Clock:
    """The clock of one daemon; `env` is what it is started with."""

    def __init__(self, name: str) -> None:
        self._file = _FOLDER / f"{name}-{os.getpid()}.clock"
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_bytes(bytes(8))
        with self._file.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8)
        self.env = {"LD_PRELOAD": str(_library()), "FAULTS_CLOCK": str(self._file)}

    def set(self, offset_s: float) -> None:
        """Lie by so much from now on."""
        self._shared[0:8] = struct.pack("=q", int(offset_s * 1e9))


def lies(log: Path, *, since: float, until: float) -> int:
    """Count the lines of a daemon's log that were written at a moment that cannot have been (s since 1970)."""
    count = 0
    for text in re.findall(r'^\{"ts":"([^"]+)"', log.read_text(errors="replace"), re.MULTILINE):
        at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        count += not since - 60 < at < until + 60
    return count


def _library() -> Path:
    built = _FOLDER / f"clock-{zlib.crc32(_SOURCE.encode()):08x}.so"
    compiler = shutil.which("cc")
    if not built.exists():
        assert compiler is not None, "the clock needs a C compiler"
        source = _FOLDER / "clock.c"
        source.write_text(_SOURCE, encoding="ascii")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(built), str(source), "-ldl"], check=True)
    return built
