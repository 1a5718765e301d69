"""The token that other clusters read this one with: a lasting one, or, as an option, an expiring one.

Kubernetes writes a lasting token into a token Secret. An expiring token is requested, bound to a Secret of its own.
The deletion of that Secret revokes the token, and a new one is created.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from registry_controller.api import meta
from registry_controller.api.errors import AlreadyExists, BadInput, Forbidden, RegistryError
from registry_controller.api.meta import Manifest, ObjectKey
from registry_controller.local import manifests
from registry_controller.local.client import SERVICE_ACCOUNTS, ClusterClient, age
from registry_controller.report.logs import Logger
from registry_controller.settings import Settings

_WAIT_S: Final = 10.0
_POLL_S: Final = 0.25
_RENEWED_AFTER: Final = 0.8
"""The part of the granted lifetime after which a token is renewed."""
_SKEW_S: Final = 60.0


class NotReady(RegistryError):
    """Kubernetes has not finished its part yet; a retry is enough."""


@dataclass(frozen=True, slots=True)
class ReaderToken:
    """A bearer token, the CA of the cluster that issued it, and its expiry in seconds since 1970 by that clock."""

    token: str = field(repr=False)
    ca_pem: str
    expires_at_s: float = math.inf


class TokenSource(Protocol):
    """The source of the token to publish."""

    async def find(self, *, current: str) -> ReaderToken:
        """Find the token to publish; `current` is the published one. Raises RegistryError, a sentence for people."""

    def renew_in_s(self) -> float:
        """Return the time until `find` returns another token in seconds; infinity for never."""


def make_token_source(*, api: ClusterClient, settings: Settings, log: Logger) -> TokenSource:
    """Make the source that the options ask for."""
    if settings.reader_token_expiration_seconds:
        return ExpiringToken(api=api, settings=settings, log=log)
    return LastingToken(api=api, settings=settings, log=log)


def token_type(expiration_s: int) -> str:
    """Return the type of the Secret whose deletion revokes the token; `expiration_s` is 0 for a lasting token."""
    return manifests.BINDING_SECRET_TYPE if expiration_s else manifests.TOKEN_SECRET_TYPE


async def revoke_tokens(api: ClusterClient, settings: Settings) -> None:
    """Delete the Secrets of all tokens of the reader, of both kinds, which revokes the published token."""
    for secret in await tokens_left(api, settings):
        await api.delete(meta.SECRETS, secret)


async def tokens_left(api: ClusterClient, settings: Settings) -> Sequence[Manifest]:
    """List the Secrets of the reader's tokens, of both kinds."""
    account = ObjectKey(settings.namespace, settings.reader_service_account_name)
    bound = meta.metadata_of(manifests.binding_secret(*account))["name"]
    found = await api.read(meta.SECRETS, ObjectKey(account.namespace, bound))
    is_bound = found is not None and found.get("type") == manifests.BINDING_SECRET_TYPE
    return [*await _token_secrets(api, account), *([found] if found is not None and is_bound else [])]


async def _token_secrets(api: ClusterClient, account: ObjectKey) -> Sequence[Manifest]:
    """List the token Secrets of the reader in the daemon's namespace, the oldest first."""
    selector = f"type={manifests.TOKEN_SECRET_TYPE}"
    found = [
        secret
        for secret in await api.list(meta.SECRETS, namespace=account.namespace, fields=selector)
        if secret.get("type") == manifests.TOKEN_SECRET_TYPE
        and meta.annotations_of(secret).get(manifests.SERVICE_ACCOUNT) == account.name
        and not meta.metadata_of(secret).get("deletionTimestamp")
    ]
    return sorted(found, key=age)


class LastingToken:
    """The token in a token Secret of the reader's ServiceAccount."""

    def __init__(self, *, api: ClusterClient, settings: Settings, log: Logger) -> None:
        self._api = api
        self._account = ObjectKey(settings.namespace, settings.reader_service_account_name)
        self._log = log

    async def find(self, *, current: str) -> ReaderToken:
        """Find the token, or create its Secret and wait for the token."""
        found = await _token_secrets(self._api, self._account)
        token = next((token for token in map(_read_token, found) if token), None)
        if token is not None:
            return token
        if not found:
            await self._make()
        for _ in range(int(_WAIT_S / _POLL_S)):
            await asyncio.sleep(_POLL_S)
            token = next(
                (token for token in map(_read_token, await _token_secrets(self._api, self._account)) if token), None
            )
            if token is not None:
                return token
        raise NotReady(f"ServiceAccount {self._account}: Kubernetes has not filled its token Secret yet; retrying")

    def renew_in_s(self) -> float:
        """Return infinity: the token does not expire."""
        return math.inf

    async def _make(self) -> None:
        # Kubernetes deletes a token Secret without its ServiceAccount: creating one again and again would never end.
        try:
            account = await self._api.read(SERVICE_ACCOUNTS, self._account)
        except Forbidden:
            pass  # the right to read ServiceAccounts is not needed while this one exists
        else:
            _check_exists(account, self._account)
        await _make_secret(self._api, manifests.token_secret(*self._account), log=self._log)


@dataclass(frozen=True, slots=True)
class _TokenClaims:
    """The claims in a token; times are seconds since 1970, by the clock of its issuer."""

    account_uid: str
    secret_uid: str
    issued_s: float
    expires_s: float

    @property
    def renewed_after_s(self) -> float:
        return (self.expires_s - self.issued_s) * _RENEWED_AFTER


class ExpiringToken:
    """A token with a lifetime, renewed after four fifths of the granted one.

    A monotonic clock measures the age of a token that this process requested; the claims give the age of an older one.
    """

    def __init__(self, *, api: ClusterClient, settings: Settings, log: Logger) -> None:
        self._api = api
        self._account = ObjectKey(settings.namespace, settings.reader_service_account_name)
        self._asked_s = settings.reader_token_expiration_seconds
        self._log = log
        self._renew_at_s = math.inf
        self._issued: tuple[str, float] = ("", 0.0)

    async def find(self, *, current: str) -> ReaderToken:
        """Return the current token while it is valid for long enough, or else request another one."""
        account = _check_exists(await self._api.read(SERVICE_ACCOUNTS, self._account), self._account)
        secret = await self._secret()
        uids = _uid(account), _uid(secret)
        claims = _read_claims(current)
        if claims is None or (claims.account_uid, claims.secret_uid) != uids or self._left_s(current, claims) <= 0:
            current, claims = await self._issue(secret)
        self._renew_at_s = _now_s() + self._left_s(current, claims)
        return ReaderToken(current, self._api.ca_pem, claims.expires_s)

    def renew_in_s(self) -> float:
        """Return the time until the current token is renewed."""
        return max(0.0, self._renew_at_s - _now_s())

    def _left_s(self, token: str, claims: _TokenClaims) -> float:
        """Return the time until a token is renewed in seconds, negative when that is overdue."""
        issued, at_s = self._issued
        if token == issued:
            return at_s + claims.renewed_after_s - _now_s()
        age_s = time.time() - claims.issued_s
        return claims.renewed_after_s - age_s if age_s > -_SKEW_S else 0.0  # from the future: a clock was changed

    async def _secret(self) -> Manifest:
        """Find the Secret to which the tokens are bound, or create it."""
        wanted = manifests.binding_secret(*self._account)
        key = ObjectKey(self._account.namespace, meta.metadata_of(wanted)["name"])
        found = await self._api.read(meta.SECRETS, key)
        if found is None:
            await _make_secret(self._api, wanted, log=self._log)
            found = await self._api.read(meta.SECRETS, key)
        if found is None or meta.metadata_of(found).get("deletionTimestamp"):
            raise NotReady(f"Secret {key}: is being deleted; retrying")
        if found.get("type") != manifests.BINDING_SECRET_TYPE:
            raise BadInput(
                f"Secret {key}: its type must be {manifests.BINDING_SECRET_TYPE}; delete it, and the daemon "
                "creates it again"
            )
        return found

    async def _issue(self, secret: Manifest) -> tuple[str, _TokenClaims]:
        reference = {
            "apiVersion": "v1",
            "kind": "Secret",
            "name": meta.metadata_of(secret)["name"],
            "uid": _uid(secret),
        }
        asked_s = _now_s()
        token = await self._api.request_token(
            self._account, {"boundObjectRef": reference, "expirationSeconds": self._asked_s}
        )
        claims = _read_claims(token)
        if claims is None:
            raise NotReady(f"ServiceAccount {self._account}: its new token has no expiry")
        self._issued = (token, asked_s)
        lifetime_s = round(claims.expires_s - claims.issued_s)
        self._log.info("issued a new token for the reader", serviceAccount=self._account, lifetimeSeconds=lifetime_s)
        return token, claims


async def _make_secret(api: ClusterClient, secret: Manifest, *, log: Logger) -> None:
    info = meta.metadata_of(secret)
    key = ObjectKey(info["namespace"], info["name"])
    try:
        await api.create(meta.SECRETS, secret)
        log.info("created a token Secret for the reader", secret=key)
    except AlreadyExists:
        present = await api.read(meta.SECRETS, key)
        if present is not None and present.get("type") != secret["type"]:
            raise BadInput(
                f"Secret {key}: its type must be {secret['type']}; delete it, and the daemon creates it again"
            ) from None


def _check_exists(account: Manifest | None, key: ObjectKey) -> Manifest:
    if account is None:
        raise BadInput(f"ServiceAccount {key} does not exist; other clusters read this one with its token: create it")
    return account


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _uid(manifest: Manifest) -> str:
    return str(meta.metadata_of(manifest).get("uid", ""))


def _read_token(secret: Manifest) -> ReaderToken | None:
    data = secret.get("data") or {}
    token, ca_pem = decode_text(data, "token"), decode_text(data, "ca.crt")
    return ReaderToken(token, ca_pem) if token and ca_pem else None


def decode_text(data: Mapping[str, Any], key: str) -> str:
    """Decode one value of a Secret as text; empty when it is missing or not text."""
    try:
        return base64.b64decode(data.get(key) or "").decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _read_claims(token: str) -> _TokenClaims | None:
    """Read the claims in a token (RFC 7519) without verifying its signature; None without all of them."""
    payload = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        issuer = found["kubernetes.io"]
        return _TokenClaims(
            account_uid=str(issuer["serviceaccount"]["uid"]),
            secret_uid=str(issuer["secret"]["uid"]),
            issued_s=float(found["iat"]),
            expires_s=float(found["exp"]),
        )
    except (ValueError, KeyError, TypeError):  # binascii's and msgspec's errors are ValueErrors
        return None
