"""Reserved loopback ports.

Law: a port is reserved as long as its cluster exists, also while the cluster is stopped. The reservation is an abstract
Unix socket with the port in its name: it belongs to the port's network namespace, needs no file, and ends with the
process. Ports are below the kernel's ephemeral range, so that no outgoing connection takes an unused one."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

from .errors import ControlPlaneError

_FIRST = 16384
_TRIES = 200


def _last() -> int:
    """Return the last port below the ephemeral range, or a fixed one when too few ports are below it."""
    with contextlib.suppress(OSError, ValueError):
        low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
        if low > _FIRST + 1000:
            return low - 1
    return 32767


class Port:
    """A reserved port number."""

    def __init__(self) -> None:
        for _ in range(_TRIES):
            number = random.randint(_FIRST, _last())
            if (reservation := _reserve(number)) is not None:
                self.number = number
                self._reservation = reservation
                return
        raise ControlPlaneError(f"no free loopback port between {_FIRST} and {_last()}")

    def release(self) -> None:
        """Release the port."""
        self._reservation.close()


def _reserve(number: int) -> socket.socket | None:
    reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        reservation.bind(f"\0registry-controller-port-{number}")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", number))
    except OSError:
        reservation.close()
        return None
    return reservation
