"""Startup, liveness and readiness probes, with their periods and thresholds.

Law: the clock is an argument; one call of `Probing.run` runs the due probes and returns."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .podspec import Container, Probe

Ask = Callable[[Probe], str | None]
"""Run a probe once; None when it succeeds, or the reason for the failure."""


def ask_http(probe: Probe, *, port: int) -> str | None:
    """Send a probe's request; as a kubelet, accept any certificate, and count 200 to 399 as success."""
    connection: http.client.HTTPConnection
    if probe.scheme == "https":
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=probe.timeout_s, context=tls)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=probe.timeout_s)
    try:
        connection.request("GET", probe.path, headers={"User-Agent": "kube-probe/1.36", **dict(probe.headers)})
        response = connection.getresponse()
        body = response.read(1024)
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    finally:
        connection.close()
    return None if 200 <= response.status < 400 else f"{response.status}: {body.decode(errors='replace')}"


def real_port(port: int | str, container: Container, *, overrides: Mapping[str, int]) -> int:
    """Return the real port of a name or number; `LISTENING` ports are overridden."""
    names = {number: name for name, number in container.ports.items()}
    name = port if isinstance(port, str) else names.get(port, "")
    if name in overrides:
        return overrides[name]
    return container.ports[name] if isinstance(port, str) else port


@dataclass(slots=True)
class _Tally:
    probe: Probe
    due: float
    passed: bool = False
    successes: int = 0
    failures: int = 0

    def ask(self, ask: Ask, now: float) -> str | None:
        """Run the probe when it is due; return the reason after as many failures as the threshold."""
        if now < self.due:
            return None
        self.due = now + self.probe.period_s
        if (reason := ask(self.probe)) is None:
            self.successes, self.failures = self.successes + 1, 0
            self.passed = self.passed or self.successes >= self.probe.success_threshold
            return None
        self.successes, self.failures = 0, self.failures + 1
        if self.failures < self.probe.failure_threshold:
            return None
        self.passed = False
        return reason


class Probing:
    """The probes of one run of a container that started at `now`."""

    def __init__(self, container: Container, *, now: float) -> None:
        self._startup = _tally(container.startup, now)
        self._liveness = _tally(container.liveness, now)
        self._readiness = _tally(container.readiness, now)

    @property
    def is_ready(self) -> bool:
        """Whether the container may receive traffic."""
        started = self._startup is None or self._startup.passed
        return started and (self._readiness is None or self._readiness.passed)

    def run(self, ask: Ask, *, now: float) -> str | None:
        """Run the due probes; return the reason for a restart, None for none."""
        if self._startup is not None and not self._startup.passed:
            reason = self._startup.ask(ask, now)
            return f"startup probe failed: {reason}" if reason else None
        if self._readiness is not None:
            self._readiness.ask(ask, now)
        reason = self._liveness.ask(ask, now) if self._liveness is not None else None
        return f"liveness probe failed: {reason}" if reason else None


def _tally(probe: Probe | None, now: float) -> _Tally | None:
    return None if probe is None else _Tally(probe, due=now + probe.initial_delay_s)
