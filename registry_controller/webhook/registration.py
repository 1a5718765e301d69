"""What the webhook's configuration must say: Ignore, and the CAs of all replicas.

Laws: pure functions of the configuration as it is. A CA of another replica stays until it expires; one that
somebody else left behind goes. What is right already is not written.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from registry_controller.api.errors import BadInput
from registry_controller.api.meta import GVK, GVR, Manifest, metadata_of
from registry_controller.webhook.certificate import is_ours

KIND: Final = GVK("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration")
RESOURCE: Final = GVR(KIND.group, KIND.version, "validatingwebhookconfigurations", False)
WEBHOOK: Final = "cluster-validator.clusterregistry.k8s.cisco.com"
PATH: Final = "/validate-cluster"

_MOST: Final = 32
"""CAs in the bundle: far more than replicas, far less than what an object may hold, should Pods come and go a lot."""


def server_name(configuration: Manifest) -> str:
    """Spell the name by which the API server calls us; BadInput when the configuration does not say it."""
    service = (_webhook(configuration).get("clientConfig") or {}).get("service")
    if not service:
        raise BadInput(f"{_what(configuration)}: webhook {WEBHOOK} names no service")
    return f"{service['name']}.{service['namespace']}.svc"


def registered(configuration: Manifest, *, own: Sequence[str], now: datetime) -> Manifest | None:
    """Build the configuration with our CAs (PEM); None when nothing is to be changed."""
    webhook = _webhook(configuration)
    client = webhook.get("clientConfig") or {}
    present = _decode(client.get("caBundle") or "")
    wanted = _bundle(present, own=[x509.load_pem_x509_certificate(pem.encode()) for pem in own], now=now)
    if set(wanted) == set(present) and webhook.get("failurePolicy") == "Ignore":
        return None
    pem = b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in wanted)
    changed = {
        **webhook,
        "failurePolicy": "Ignore",
        "clientConfig": {**client, "caBundle": base64.b64encode(pem).decode()},
    }
    others = configuration.get("webhooks") or ()
    return {**configuration, "webhooks": [changed if other is webhook else other for other in others]}


def _bundle(
    present: Sequence[x509.Certificate], *, own: Sequence[x509.Certificate], now: datetime
) -> list[x509.Certificate]:
    """Choose the CAs: ours, and the other replicas'. Only who comes makes room, or two would drive each other out."""
    others = {ca for ca in present if is_ours(ca) and ca.not_valid_after_utc > now} - set(own)
    newest = sorted(others, key=lambda ca: ca.not_valid_before_utc, reverse=True)
    return [*own, *newest] if set(own) <= set(present) else [*own, *newest][:_MOST]


def _decode(bundle: str) -> list[x509.Certificate]:
    """Read a bundle; one that makes no sense is empty."""
    with contextlib.suppress(binascii.Error, ValueError):
        return x509.load_pem_x509_certificates(base64.b64decode(bundle))
    return []


def _webhook(configuration: Manifest) -> Mapping[str, Any]:
    for webhook in configuration.get("webhooks") or ():
        if webhook.get("name") == WEBHOOK:
            found: Mapping[str, Any] = webhook
            return found
    raise BadInput(f"{_what(configuration)}: has no webhook {WEBHOOK}")


def _what(configuration: Manifest) -> str:
    return f"{KIND.kind} {metadata_of(configuration).get('name', '')}"
