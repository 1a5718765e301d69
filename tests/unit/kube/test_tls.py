"""Certificates that OpenSSL reads only from a path."""

from __future__ import annotations

import os
import ssl
import tempfile
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
