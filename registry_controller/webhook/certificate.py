"""The certificate that the webhook serves, and the CA that signed it: made together, renewed together.

Laws: the CA's key signs once and is forgotten, so that nobody, we neither, can sign for that name again. No key is
ever shared between replicas, or stored where the other clusters could read it, as they read Secrets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME: Final = timedelta(days=14)
RENEWAL: Final = LIFETIME / 2
"""So long before the end another one is made: a week for whatever hinders it."""

_CLOCK_SKEW: Final = timedelta(hours=1)
_MARK: Final = "registry-controller webhook"
"""The organization of our CAs: how one of another replica is told from one that somebody else left behind."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate for one DNS name, with its key and its CA, as PEM."""

    name: str
    not_before: datetime
    not_after: datetime
    ca_pem: str = field(repr=False)
    certificate_pem: str = field(repr=False)
    key_pem: str = field(repr=False)

    def is_good_for(self, name: str, *, now: datetime) -> bool:
        """Say whether the API server would accept it."""
        return self.name == name and self.not_before <= now < self.not_after

    def is_due(self, *, now: datetime) -> bool:
        """Say whether the next one should be made."""
        return now >= self.not_after - RENEWAL

    def spell(self) -> str:
        """Spell key, certificate and CA as one PEM file."""
        return self.key_pem + self.certificate_pem + self.ca_pem


def make_certificate(name: str, *, holder: str, now: datetime) -> Certificate:
    """Make a CA for this one certificate; `holder` is the replica that serves it."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name(holder, organization=_MARK)
    now = now.astimezone(UTC).replace(microsecond=0)
    not_before, not_after = now - _CLOCK_SKEW, now + LIFETIME
    ca = (
        _builder(issuer, issuer=issuer, key=ca_key.public_key(), not_before=not_before, not_after=not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.NameConstraints([x509.DNSName(name)], None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    leaf = (
        _builder(_name(holder), issuer=issuer, key=key.public_key(), not_before=not_before, not_after=not_after)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(name, not_before, not_after, _pem(ca), _pem(leaf), key_pem.decode())


def read_certificate(pem: bytes) -> Certificate:
    """Read what `spell` has spelled; ValueError for anything else."""
    key_pem, marker, chain_pem = pem.partition(b"-----BEGIN CERTIFICATE-----")
    key = serialization.load_pem_private_key(key_pem, password=None)
    leaf, ca = x509.load_pem_x509_certificates(marker + chain_pem)
    try:
        leaf.verify_directly_issued_by(ca)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, x509.ExtensionNotFound, TypeError) as error:
        raise ValueError("the certificate is not one of ours") from error
    if key.public_key() != leaf.public_key():
        raise ValueError("the key is not the certificate's")
    (name,) = names.get_values_for_type(x509.DNSName)
    valid = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    return Certificate(name, *valid, _pem(ca), _pem(leaf), key_pem.decode())


def is_ours(ca: x509.Certificate) -> bool:
    """Say whether a CA was made here, by this replica or another one."""
    try:
        marks = ca.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    except ValueError:  # a subject is parsed when it is asked for
        return False
    return any(found.value == _MARK for found in marks)


def _builder(
    subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePublicKey, not_before: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=not_before,
        not_valid_after=not_after,
    )


def _name(common_name: str, *, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64] or "daemon")]  # RFC 5280: at most 64
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=False, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
