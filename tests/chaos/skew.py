"""A clock that lies to one process: it adds to the time of day what a file says.

For a daemon it is a library before libc's. An API server asks the kernel itself: it is built anew with a `time` package
that lies. Time namespaces cannot do this: they move the monotonic clock and the time since boot, not the time of day.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

from hack.controlplane.build import RECIPES, cache_directory, ensure_binaries
from hack.controlplane.toolchain import find_toolchain

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


_LYING = "kube-apiserver-lying"
_NOW = "\tsec, nsec, mono := runtimeNow()\n"
_LIE = r"""
package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var shared *int64 // nanoseconds to add

func init() {
	path, found := syscall.Getenv("FAULTS_CLOCK")
	if !found {
		return
	}
	file, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		panic("FAULTS_CLOCK: " + err.Error())
	}
	bytes, err := syscall.Mmap(file, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("FAULTS_CLOCK: " + err.Error())
	}
	shared = (*int64)(unsafe.Pointer(&bytes[0]))
}

func lie(sec int64, nsec int32) (int64, int32) {
	if shared == nil {
		return sec, nsec
	}
	now := sec*1000000000 + int64(nsec) + atomic.LoadInt64(shared)
	return now / 1000000000, int32(now % 1000000000)
}
"""


@functools.cache
def lying_api_server() -> Path:
    """Return a kube-apiserver whose `time.Now` lies; BuildError when it cannot be built. Minutes, the first time."""
    root = subprocess.run([find_toolchain().go, "env", "GOROOT"], capture_output=True, text=True, check=True).stdout
    package = Path(root.strip(), "src", "time")
    text = (package / "time.go").read_text(encoding="utf-8")
    at = text.index(_NOW, text.index("func Now() Time {")) + len(_NOW)
    lying = f"{text[:at]}\tsec, nsec = lie(sec, nsec)\n{text[at:]}"
    folder = cache_directory() / f"lie-{zlib.crc32((lying + _LIE).encode()):08x}"
    folder.mkdir(parents=True, exist_ok=True)
    files = {"time.go": lying, "lie.go": _LIE}
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    overlay = folder / "overlay.json"
    replaced = {str(package / name): str(folder / name) for name in files}
    overlay.write_text(json.dumps({"Replace": replaced}), encoding="utf-8")
    RECIPES[_LYING] = dataclasses.replace(RECIPES["kube-apiserver"], overlay=overlay)
    return ensure_binaries([_LYING])[_LYING]


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
