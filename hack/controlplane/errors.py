"""The errors, as a tree.

ControlPlaneError          any error of this package; the message has the problem, the place and the next step
├── BuildError             a binary is missing and cannot be built
├── ProcessError           a process did not start, did not get ready, or is not running
│   └── PortTakenError     ... because another program took its port; another port may work
├── CommandError           kubectl or helm returned non-zero; the text contains its stderr
├── ApiError               the API server answered with a status of 400 or more, or not at all (status 0)
└── UnsupportedError       a Deployment needs something that the stand-in kubelet does not implement
"""

from __future__ import annotations

from collections.abc import Sequence


class ControlPlaneError(Exception):
    """The root of the tree."""


class BuildError(ControlPlaneError):
    """A binary is missing and cannot be built here."""


class ProcessError(ControlPlaneError):
    """A process did not start, did not get ready, or is not running."""


class PortTakenError(ProcessError):
    """Another program took the port after it had been chosen."""


class CommandError(ControlPlaneError):
    """A command line tool returned non-zero."""

    def __init__(self, argv: Sequence[str], *, returncode: int, stdout: str, stderr: str) -> None:
        super().__init__(f"{' '.join(argv)}: exit code {returncode}: {stderr.strip() or stdout.strip()}")
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr


class ApiError(ControlPlaneError):
    """The API server refused (its HTTP status), or did not answer (status 0)."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class UnsupportedError(ControlPlaneError):
    """The Deployment needs something that the stand-in kubelet does not implement."""
