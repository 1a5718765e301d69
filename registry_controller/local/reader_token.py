"""The token with which the other clusters read this one: one that lasts, or, as an option, one that expires.

A token that lasts is what Kubernetes writes into a token Secret. One that expires is asked for, bound to a Secret of
its own. Deleting the Secret revokes either, and another one is made.
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
from registry_controller.local.client import SERVICE_ACCOUNTS, LocalClient, age
from registry_controller.report.logs import Logger

_WAIT_S: Final = 10.0
_POLL_S: Final = 0.25
_RENEWED_AFTER: Final = 0.8
"""Part of its lifetime, as granted, after which a token is renewed."""
_SKEW_S: Final = 60.0


class TokenSettings(Protocol):
    """The options that this room reads."""

    @property
    def namespace(self) -> str: ...

    @property
    def reader_service_account_name(self) -> str: ...

    @property
    def reader_token_expiration_seconds(self) -> int: ...


class NotReady(RegistryError):
    """Kubernetes has not done its part yet; trying again is all there is to do."""


@dataclass(frozen=True, slots=True)
class ReaderToken:
    """A bearer token, and the CA of the cluster that issued it."""

    token: str = field(repr=False)
    ca_pem: str


class ReaderTokens(Protocol):
    """Where the token comes from."""

    async def find(self, *, current: str) -> ReaderToken:
        """Find the token to publish; `current` is the one that is published. RegistryError in words for people."""

    def renew_in_s(self) -> float:
        """Tell in how many seconds `find` gives another one; infinity for never."""


def reader_tokens(*, api: LocalClient, settings: TokenSettings, log: Logger) -> ReaderTokens:
    """Choose by the options."""
    if settings.reader_token_expiration_seconds:
        return ExpiringToken(api=api, settings=settings, log=log)
    return LastingToken(api=api, settings=settings, log=log)


def token_type(expiration_s: int) -> str:
    """Tell the type of the Secret that revokes the token when it is deleted; `expiration_s` is 0 for one that lasts."""
    return manifests.BINDING_SECRET_TYPE if expiration_s else manifests.TOKEN_SECRET_TYPE


async def revoke_tokens(api: LocalClient, settings: TokenSettings) -> None:
    """Delete the Secrets of all tokens of the reader, whichever kind they are: what was published is good no more."""
    for secret in await tokens_left(api, settings):
        await api.delete(meta.SECRETS, secret)


async def tokens_left(api: LocalClient, settings: TokenSettings) -> Sequence[Manifest]:
    """List the Secrets of tokens of the reader, whichever kind they are."""
    account = ObjectKey(settings.namespace, settings.reader_service_account_name)
    bound = meta.metadata_of(manifests.binding_secret(*account))["name"]
    found = await api.read(meta.SECRETS, ObjectKey(account.namespace, bound))
    is_bound = found is not None and found.get("type") == manifests.BINDING_SECRET_TYPE
    return [*await _token_secrets(api, account), *([found] if found is not None and is_bound else [])]


async def _token_secrets(api: LocalClient, account: ObjectKey) -> Sequence[Manifest]:
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

    def __init__(self, *, api: LocalClient, settings: TokenSettings, log: Logger) -> None:
        self._api = api
        self._account = ObjectKey(settings.namespace, settings.reader_service_account_name)
        self._log = log

    async def find(self, *, current: str) -> ReaderToken:
        """Find the token, or have one made and wait for it."""
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
        raise NotReady(f"ServiceAccount {self._account}: Kubernetes has not filled its token Secret yet")

    def renew_in_s(self) -> float:
        """Never."""
        return math.inf

    async def _make(self) -> None:
        # Kubernetes deletes a token Secret without its ServiceAccount: making one again and again would never end.
        try:
            account = await self._api.read(SERVICE_ACCOUNTS, self._account)
        except Forbidden:
            pass  # the right to look is not needed where the account is there
        else:
            _check_exists(account, self._account)
        await _make_secret(self._api, manifests.token_secret(*self._account), log=self._log)


@dataclass(frozen=True, slots=True)
class _TokenClaims:
    """What a token says of itself; times in seconds since 1970, by the clock of its issuer."""

    account_uid: str
    secret_uid: str
    issued_s: float
    expires_s: float

    @property
    def renewed_after_s(self) -> float:
        return (self.expires_s - self.issued_s) * _RENEWED_AFTER


class ExpiringToken:
    """A token with a lifetime, renewed when four fifths of what was granted are over.

    Between two restarts its age is measured by a clock that nobody sets; after one, by what the token says.
    """

    def __init__(self, *, api: LocalClient, settings: TokenSettings, log: Logger) -> None:
        self._api = api
        self._account = ObjectKey(settings.namespace, settings.reader_service_account_name)
        self._asked_s = settings.reader_token_expiration_seconds
        self._log = log
        self._renew_at_s = math.inf
        self._issued: tuple[str, float] = ("", 0.0)

    async def find(self, *, current: str) -> ReaderToken:
        """Keep the current token while it is good for long enough; else have another one issued."""
        account = _check_exists(await self._api.read(SERVICE_ACCOUNTS, self._account), self._account)
        secret = await self._secret()
        uids = _uid(account), _uid(secret)
        claims = _read_claims(current)
        if claims is None or (claims.account_uid, claims.secret_uid) != uids or self._left_s(current, claims) <= 0:
            current, claims = await self._issue(secret)
        self._renew_at_s = _now_s() + self._left_s(current, claims)
        return ReaderToken(current, self._api.ca_pem)

    def renew_in_s(self) -> float:
        """Tell how long the current token stays."""
        return max(0.0, self._renew_at_s - _now_s())

    def _left_s(self, token: str, claims: _TokenClaims) -> float:
        """Tell for how many seconds more a token is good enough."""
        issued, at_s = self._issued
        if token == issued:
            return at_s + claims.renewed_after_s - _now_s()
        age_s = time.time() - claims.issued_s
        return claims.renewed_after_s - age_s if age_s > -_SKEW_S else 0.0  # from the future: a clock was set

    async def _secret(self) -> Manifest:
        """Find the Secret to which the tokens are bound, or make it."""
        wanted = manifests.binding_secret(*self._account)
        key = ObjectKey(self._account.namespace, meta.metadata_of(wanted)["name"])
        found = await self._api.read(meta.SECRETS, key)
        if found is None:
            await _make_secret(self._api, wanted, log=self._log)
            found = await self._api.read(meta.SECRETS, key)
        if found is None or meta.metadata_of(found).get("deletionTimestamp"):
            raise NotReady(f"Secret {key}: is being deleted")
        if found.get("type") != manifests.BINDING_SECRET_TYPE:
            raise BadInput(f"Secret {key}: its type must be {manifests.BINDING_SECRET_TYPE}; delete it")
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
            raise NotReady(f"ServiceAccount {self._account}: its new token does not say when it expires")
        self._issued = (token, asked_s)
        lifetime_s = round(claims.expires_s - claims.issued_s)
        self._log.info("had a new token for the reader issued", account=self._account, lifetime_s=lifetime_s)
        return token, claims


async def _make_secret(api: LocalClient, secret: Manifest, *, log: Logger) -> None:
    info = meta.metadata_of(secret)
    key = ObjectKey(info["namespace"], info["name"])
    try:
        await api.create(meta.SECRETS, secret)
        log.info("made a token Secret for the reader", secret=key)
    except AlreadyExists:
        present = await api.read(meta.SECRETS, key)
        if present is not None and present.get("type") != secret["type"]:
            raise BadInput(f"Secret {key}: its type must be {secret['type']}; delete it") from None


def _check_exists(account: Manifest | None, key: ObjectKey) -> Manifest:
    if account is None:
        raise BadInput(f"ServiceAccount {key} does not exist; the other clusters read with it")
    return account


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _uid(manifest: Manifest) -> str:
    return str(meta.metadata_of(manifest).get("uid", ""))


def _read_token(secret: Manifest) -> ReaderToken | None:
    data = secret.get("data") or {}
    token, ca_pem = decoded(data, "token"), decoded(data, "ca.crt")
    return ReaderToken(token, ca_pem) if token and ca_pem else None


def decoded(data: Mapping[str, Any], key: str) -> str:
    """Read one value of a Secret as text; empty where it is none."""
    try:
        return base64.b64decode(data.get(key) or "").decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _read_claims(token: str) -> _TokenClaims | None:
    """Read what a token says of itself (RFC 7519), without trusting it; None where it says no such thing."""
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
