"""Certificates that OpenSSL reads only from a path, and reads of a connection."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
import tracemalloc
from pathlib import Path

import pytest
import trustme

from registry_controller.kube import tls


@pytest.mark.parametrize("has_memory_files", [True, False])
def test_a_certificate_is_loaded_and_leaves_no_file(
    has_memory_files: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Files in memory are Linux' own; elsewhere, Windows opens no open temporary file again."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not has_memory_files:
        monkeypatch.delattr(os, "memfd_create")
    issued = trustme.CA().issue_cert("client.example")
    [certificate] = issued.cert_chain_pems
    context = tls.scratch_context()
    tls.load_certificate(
        context, certificate_pem=certificate.bytes().decode(), key_pem=issued.private_key_pem.bytes().decode()
    )
    assert list(tmp_path.iterdir()) == []
    other = trustme.CA().issue_cert("other.example").private_key_pem.bytes().decode()
    with pytest.raises(ssl.SSLError):
        tls.load_certificate(context, certificate_pem=certificate.bytes().decode(), key_pem=other)
    assert list(tmp_path.iterdir()) == []


def test_a_read_takes_the_memory_of_one_record() -> None:
    """Event loops ask for 256 KiB a read, however little has arrived."""
    authority = trustme.CA()
    server_context, context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("api.example.com").configure_cert(server_context)
    authority.configure_trust(context)
    tls.configure(context)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="api.example.com")
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    content = os.urandom(100_000)
    server.write(content)

    tracemalloc.start()
    try:
        parts = [client.read(256 * 1024)]
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 32 * 1024

    with contextlib.suppress(ssl.SSLWantReadError):
        while True:
            parts.append(client.read(256 * 1024))
    assert b"".join(parts) == content
