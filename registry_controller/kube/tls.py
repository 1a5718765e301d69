"""TLS contexts from PEM text, without leaving a file behind."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator


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
