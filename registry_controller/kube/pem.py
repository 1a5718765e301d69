"""Certificates and keys as PEM text: parsed, checked and written anew, so that nothing else rides along."""

from __future__ import annotations

import base64
import binascii
import warnings
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from registry_controller.api.errors import InvalidKubeconfig

_CERTIFICATES: Final = 200
_KEY_BYTES: Final = 16 * 1024  # RSA with 16384 bits is 12.7 KB


def decode_base64(text: str, *, field: str) -> bytes:
    """Decode standard base64, line breaks allowed; raise InvalidKubeconfig naming the field."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidKubeconfig(f"{field}: is not base64") from None


def read_certificates(data: bytes, *, field: str) -> str:
    """Read a PEM bundle and write its certificates anew, each once; raise InvalidKubeconfig without any."""
    try:
        with warnings.catch_warnings():  # a CA with a negative serial number is still that cluster's CA
            warnings.simplefilter("ignore")
            found = x509.load_pem_x509_certificates(data)
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidKubeconfig(f"{field}: holds no readable certificate") from None
    if len(found) > _CERTIFICATES:
        raise InvalidKubeconfig(f"{field}: holds more than {_CERTIFICATES} certificates")
    blocks = (certificate.public_bytes(serialization.Encoding.PEM).decode() for certificate in found)
    return "".join(dict.fromkeys(blocks))


def read_key_pair(certificate: bytes, key: bytes, *, field: str) -> tuple[str, str]:
    """Read a client certificate chain and its key as PEM; raise InvalidKubeconfig when they do not fit."""
    if len(key) > _KEY_BYTES:
        raise InvalidKubeconfig(f"{field}.client-key-data: is larger than {_KEY_BYTES} bytes")
    chain = read_certificates(certificate, field=f"{field}.client-certificate-data")
    try:
        # OpenSSL's proof that an RSA key is made of primes takes 13 s for 8192 bits, in which nothing else runs.
        # A key that is none fails its own handshakes, and nobody else's.
        private = serialization.load_pem_private_key(key, password=None, unsafe_skip_rsa_key_validation=True)
        wanted = x509.load_pem_x509_certificate(chain.encode()).public_key()
        fits = _spki(private.public_key()) == _spki(wanted)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidKubeconfig(f"{field}.client-key-data: holds no readable, unencrypted key") from None
    if not fits:
        raise InvalidKubeconfig(f"{field}.client-key-data: does not belong to client-certificate-data")
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return chain, pem.decode()


def _spki(key: object) -> bytes:
    found: bytes = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return found
