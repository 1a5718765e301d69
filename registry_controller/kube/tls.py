"""Makes TLS contexts from PEM text, without permanent files."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_RECORD_BYTES: Final = 16 * 1024  # the longest content of a TLS record (RFC 8446, 5.1)
_NO_WORD: Final = re.compile(r"[^a-z0-9]+")
_WORDS: Final = 100  # characters


class _RecordReader(ssl.SSLObject):
    """Reads with a buffer of one record, because OpenSSL returns no more at once.

    Event loops ask for 256 KiB, and Python allocates that for each read. glibc maps a buffer of this size and unmaps
    it again, which takes 11 us a read (measured with uvloop 0.23 and glibc 2.36).
    """

    def read(self, len: int = _RECORD_BYTES, buffer: Any = None) -> Any:  # noqa: A002  the name of ssl
        """Read at most one record."""
        return super().read(min(len, _RECORD_BYTES), buffer)


def configure(context: ssl.SSLContext) -> None:
    """Verify certificates as Go does, and read record by record.

    Python 3.13 refuses CAs without key identifiers (VERIFY_X509_STRICT), which are common. Go trusts every certificate
    of the bundle, also an intermediate one.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.sslobject_class = _RecordReader


def scratch_context() -> ssl.SSLContext:
    """Make a context that only checks whether OpenSSL loads certificates."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def load_certificate(context: ssl.SSLContext, *, certificate_pem: str, key_pem: str) -> None:
    """Load a certificate and its key; OpenSSL reads them only from a path."""
    with _unnamed_file(f"{key_pem}\n{certificate_pem}".encode()) as path:
        context.load_cert_chain(path)


def openssl_words(error: Exception) -> str:
    """Return OpenSSL's constant for a failure as words in parentheses, ` (ca md too weak)`; empty without one."""
    reason = getattr(error, "reason", None)
    return f" ({spell_words(reason)})" if isinstance(reason, str) else ""


def spell_words(text: str) -> str:
    """Reduce text to lower-case words and digits, at most 100 characters."""
    return _NO_WORD.sub(" ", text.lower()).strip()[:_WORDS]


@contextlib.contextmanager
def _unnamed_file(content: bytes) -> Iterator[str]:
    """Yield a path for content: in memory where the system supports it, without /tmp, else a temporary file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:  # mode 0700; Windows opens no open temporary file again
        path = Path(folder, "certificate")
        path.touch(mode=0o600)
        path.write_bytes(content)
        yield str(path)
