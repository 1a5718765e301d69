"""Creates the keys and certificates of one cluster: a CA for servers, one for clients, a key that signs tokens.

Law: each cluster gets new ones, so that no cluster accepts a credential of another.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .pki import Pair, Pki

_VALID_FOR = datetime.timedelta(days=365)
_CLOCK_SKEW = datetime.timedelta(hours=1)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


class _Authority:
    """A CA whose key is only in memory: it signs nothing later."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        builder = _builder(self._name, issuer=self._name, key=self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self.certificate = builder.add_extension(identifier, critical=False).sign(self._key, hashes.SHA256())

    def issue(self, subject: x509.Name, *, directory: Path, name: str, names: Sequence[str] = ()) -> Pair:
        """Sign a certificate: for a server when it has names, else for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = _builder(subject, issuer=self._name, key=key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        if names:
            alternatives = [_alternative(host) for host in names]
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(
            certificate=_write(directory / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM)),
            key=_write_key(directory / f"{name}.key", key),
        )

    def write(self, path: Path) -> Path:
        """Write the certificate of the CA."""
        return _write(path, self.certificate.public_bytes(serialization.Encoding.PEM))


def write_authority(path: Path, *, name: str) -> Path:
    """Write the certificate (PEM) of a new CA, whose key is not kept."""
    return _Authority(name).write(path)


def create_pki(directory: Path, *, cluster: str, addresses: Sequence[str]) -> Pki:
    """Create all keys and certificates of a cluster; `addresses` lists its API server's addresses."""
    directory.mkdir(parents=True, mode=0o700)
    servers, clients = _Authority(f"{cluster}-server-ca"), _Authority(f"{cluster}-client-ca")
    token_key = ec.generate_private_key(ec.SECP256R1())
    token_public_key = token_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    admin = _name("kubernetes-admin", organization="system:masters")
    manager = _name("system:kube-controller-manager")
    scheduler = _name("system:kube-scheduler")
    node = _name("system:node:node-0", organization="system:nodes")
    names = (*_SERVER_NAMES, *addresses)
    return Pki(
        server_ca=servers.write(directory / "server-ca.crt"),
        client_ca=clients.write(directory / "client-ca.crt"),
        server=servers.issue(_name("kube-apiserver"), directory=directory, name="server", names=names),
        admin=clients.issue(admin, directory=directory, name="admin"),
        controller_manager=clients.issue(manager, directory=directory, name="controller-manager"),
        scheduler=clients.issue(scheduler, directory=directory, name="scheduler"),
        node=clients.issue(node, directory=directory, name="node"),
        token_key=_write_key(directory / "token.key", token_key),
        token_public_key=_write(directory / "token.pub", token_public_key),
    )


def _name(common_name: str, *, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _alternative(host: str) -> x509.GeneralName:
    """Return a name of a server: an address, or else a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _CLOCK_SKEW,
        not_valid_after=now + _VALID_FOR,
    )


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    path.touch(mode=0o600)
    return _write(
        path,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ),
    )
