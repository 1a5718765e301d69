"""The certificate in its directory, so that a container that starts again goes on with the one it had.

Law: only a file that we wrote and nobody else can read is believed. Without the directory everything works; a
restart makes another certificate then.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from registry_controller.report.logs import get_logger
from registry_controller.webhook.certificate import Certificate, read_certificate

log = get_logger(__name__)

_FILE: Final = "webhook.pem"
_MOST_BYTES: Final = 64 * 1024


class CertificateDirectory:
    """One file, so that key and certificate always belong together. In a Pod it lies in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Certificate | None:
        """Read the certificate that was saved last; None when there is none that can be believed."""
        try:
            descriptor = os.open(self._path / _FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077 or not stat.S_ISREG(found.st_mode):
                return None
            with contextlib.suppress(ValueError):
                return read_certificate(file.read(_MOST_BYTES))
        return None

    def save(self, certificate: Certificate) -> None:
        """Write it in the place of the last one, all at once."""
        temporary = self._path / f".{secrets.token_hex(8)}"
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(certificate.spell().encode())
            temporary.replace(self._path / _FILE)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            problem = error.strerror or type(error).__name__
            log.warning("the webhook's certificate cannot be kept", directory=self._path, problem=problem)
