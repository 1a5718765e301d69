"""TLS contexts from PEM text, without leaving a file behind."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from typing import Final

_NO_WORD: Final = re.compile(r"[^a-z0-9]+")
_WORDS: Final = 100  # characters


def relax(context: ssl.SSLContext) -> None:
    """Verify as Go does, which is what clusters' certificates are made for.

    Python 3.13 refuses CAs without key identifiers (VERIFY_X509_STRICT), of which there are many; and Go trusts
    whatever stands in the bundle, an intermediate too.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def scratch_context() -> ssl.SSLContext:
    """Make a context in which to try what a connection would load; it is never connected with."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def load_certificate(context: ssl.SSLContext, *, certificate_pem: str, key_pem: str) -> None:
    """Load a certificate and its key; OpenSSL takes them from a path only."""
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
    """Give content a path: memory where the system can (no /tmp is needed), else a file for a moment."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:  # mode 0600
        file.write(content)
        file.flush()
        yield file.name
