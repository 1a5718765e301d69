"""Parses, checks and writes again certificates and keys as PEM text, so that no other content passes.

Law: for any bytes, the result is PEM that OpenSSL accepts, or InvalidKubeconfig without these bytes. It is raised
outside of the `except`, because Python would chain the library's error, which may quote them.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import warnings
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes, PrivateKeyTypes

from registry_controller.api.errors import InvalidKubeconfig
from registry_controller.kube import tls

_CERTIFICATES: Final = 200
_KEY_BYTES: Final = 16 * 1024  # RSA with 8192 bits is 6.4 KB
_RSA_BITS: Final = (
    8192  # one signature takes 0.2 s, and with 14000 bits 2 s, in which nothing else runs, at each connection
)
_BASE64_CHARS: Final = 2 * 1024 * 1024  # a Secret holds 1 MiB, which is 1.4 million characters
_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm, InternalError, x509.InvalidVersion)


def decode_base64(text: str, *, field: str) -> bytes:
    """Decode standard base64, line breaks allowed; raise InvalidKubeconfig with the field's name."""
    if len(text) > _BASE64_CHARS:
        raise InvalidKubeconfig(f"{field}: is larger than {_BASE64_CHARS // 1024 // 1024} MiB of base64")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        pass
    raise InvalidKubeconfig(f"{field}: is not base64; encode it again")


def read_certificates(data: bytes, *, field: str) -> str:
    """Return the certificates of a PEM bundle, each once; InvalidKubeconfig when there are none."""
    found = _parse_certificates(data)
    if not found:
        raise InvalidKubeconfig(f"{field}: holds no readable certificate; it must be PEM")
    if len(found) > _CERTIFICATES:
        raise InvalidKubeconfig(f"{field}: holds more than {_CERTIFICATES} certificates")
    blocks = (certificate.public_bytes(serialization.Encoding.PEM).decode() for certificate in found)
    return "".join(dict.fromkeys(blocks))


def read_ca(data: bytes, *, field: str) -> str:
    """Return a bundle that verifies a server; InvalidKubeconfig also when OpenSSL refuses it."""
    bundle = read_certificates(data, field=field)
    try:
        tls.scratch_context().load_verify_locations(cadata=bundle)
    except (ssl.SSLError, ValueError) as error:
        reason = tls.openssl_words(error)
    else:
        return bundle
    raise InvalidKubeconfig(f"{field}: OpenSSL refuses a certificate in it{reason}")


def read_key_pair(certificate: bytes, key: bytes, *, field: str) -> tuple[str, str]:
    """Return a client certificate chain and its key as PEM; InvalidKubeconfig when they do not match."""
    if len(key) > _KEY_BYTES:
        raise InvalidKubeconfig(f"{field}.client-key-data: is larger than {_KEY_BYTES // 1024} KiB")
    chain = read_certificates(certificate, field=f"{field}.client-certificate-data")
    wanted, private = _public_key(chain), _parse_key(key)
    if wanted is None:
        raise InvalidKubeconfig(f"{field}.client-certificate-data: its first certificate has no readable public key")
    if private is None:
        raise InvalidKubeconfig(f"{field}.client-key-data: holds no readable, unencrypted key; it must be PEM")
    public, pem = private
    if public != _spki(wanted):
        raise InvalidKubeconfig(f"{field}.client-key-data: does not belong to client-certificate-data")
    if isinstance(wanted, RSAPublicKey) and wanted.key_size > _RSA_BITS:
        raise InvalidKubeconfig(f"{field}.client-key-data: is an RSA key of more than {_RSA_BITS} bits")
    try:
        tls.load_certificate(tls.scratch_context(), certificate_pem=chain, key_pem=pem)
    except (ssl.SSLError, ValueError) as error:
        reason = tls.openssl_words(error)
    else:
        return chain, pem
    raise InvalidKubeconfig(f"{field}.client-certificate-data: OpenSSL refuses it, or its client-key-data{reason}")


def _parse_certificates(data: bytes) -> Sequence[x509.Certificate]:
    try:
        with warnings.catch_warnings():  # a CA with a negative serial number is valid for its cluster
            warnings.simplefilter("ignore")
            return x509.load_pem_x509_certificates(data)
    except _UNREADABLE:
        return ()


def _public_key(chain: str) -> CertificatePublicKeyTypes | None:
    """Return the public key of a chain's first certificate; None for an unreadable key."""
    for certificate in _parse_certificates(chain.encode())[:1]:
        try:
            found = certificate.public_key()
            _spki(found)
        except _UNREADABLE:
            return None
        return found
    return None


def _parse_key(data: bytes) -> tuple[bytes, str] | None:
    """Return the public half of a private key, and the key as PEM; None for anything else."""
    try:
        # OpenSSL's check that an RSA key consists of primes takes 13 s for 8192 bits, in which nothing else runs.
        # An invalid key only fails its own handshakes.
        private = serialization.load_pem_private_key(data, password=None, unsafe_skip_rsa_key_validation=True)
        return _spki(private.public_key()), _as_pem(private)
    except _UNREADABLE:
        return None


def _as_pem(private: PrivateKeyTypes) -> str:
    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _spki(key: object) -> bytes:
    found: bytes = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return found
