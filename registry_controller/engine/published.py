"""The Secret that we publish: a kubeconfig with which the other clusters read this one.

Law: it is rewritten only when what it says would differ; what others put into the object stays.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster
from registry_controller.api.errors import (
    AlreadyExists,
    BadInput,
    Forbidden,
    InvalidKubeconfig,
    NotFound,
    NotServed,
    RegistryError,
)
from registry_controller.api.meta import GVR, Manifest, ObjectKey
from registry_controller.core import corerules
from registry_controller.engine.homeapi import HomeApi
from registry_controller.kube.address import read_address
from registry_controller.kube.kubeconfig import render
from registry_controller.kube.pem import decode_base64
from registry_controller.kube.strictyaml import load_document
from registry_controller.report.logs import Logger

SERVICE_ACCOUNTS: Final = GVR("", "v1", "serviceaccounts", True)

_TOKEN_WAIT_S: Final = 10.0
_TOKEN_POLL_S: Final = 0.25
_EVERY_CLIENT: Final = "0.0.0.0/0"
_BUNDLE_FIELD: Final = "spec.kubernetesApiEndpoints.caBundle"


class PublishSettings(Protocol):
    """The options that this room reads."""

    @property
    def namespace(self) -> str: ...

    @property
    def reader_service_account_name(self) -> str: ...

    @property
    def apiserver_endpoint_address(self) -> str: ...


class NotReady(RegistryError):
    """Kubernetes has not done its part yet; trying again is all there is to do."""


@dataclass(frozen=True, slots=True)
class _Token:
    token: str = field(repr=False)
    ca_pem: str


class Published:
    """Keep the Secret that our own Cluster names filled."""

    def __init__(self, *, api: HomeApi, settings: PublishSettings, log: Logger) -> None:
        self._api = api
        self._settings = settings
        self._log = log
        self._reported: set[str] = set()

    async def keep(self, cluster: Cluster) -> None:
        """Fill the Secret if it differs; raise RegistryError with words for people."""
        if cluster.secret is None:
            return
        token = await self._token()
        addresses = await self._addresses(cluster)
        documents = [
            render(
                cluster_name=cluster.name,
                server=address,
                ca_pem=self._ca_pem(cluster, token.ca_pem),
                user=self._settings.reader_service_account_name,
                token=token.token,
            )
            for address in addresses
        ]
        await self._publish(cluster.secret, documents)

    async def _publish(self, key: ObjectKey, documents: Sequence[str]) -> None:
        """Store the first document, unless what is stored says the same as any of them."""
        wanted = corerules.registry_secret(key, kubeconfig=documents[0])
        current = await self._api.read(meta.SECRETS, key)
        if current is None:
            await self._create(key, wanted)
            return
        if current.get("type") != meta.REGISTRY_SECRET_TYPE:
            raise BadInput(f"Secret {key}: its type must be {meta.REGISTRY_SECRET_TYPE}; delete it, it is made anew")
        info, data = meta.metadata_of(current), current.get("data") or {}
        if info.get("deletionTimestamp"):
            raise NotReady(f"Secret {key}: is being deleted")
        stored = _document(_decoded(data, meta.KUBECONFIG_KEY))
        same = any(stored == _document(document) for document in documents)
        owners = info.get("ownerReferences") or []
        kept = [owner for owner in owners if not corerules.is_cluster_reference(owner)]
        if same and kept == owners:
            return
        if current.get("immutable") is True:
            raise BadInput(f"Secret {key}: is immutable and out of date; delete it, it is made anew")
        new_data = data if same else {**data, **wanted["data"]}
        changed = {**current, "metadata": {**info, "ownerReferences": kept}, "data": new_data}
        await self._api.replace(meta.SECRETS, changed)
        self._log.info("published new credentials for the other clusters", secret=key)

    async def _create(self, key: ObjectKey, wanted: Manifest) -> None:
        try:
            await self._api.create(meta.SECRETS, wanted)
        except NotFound as error:
            raise BadInput(f"Secret {key}: namespace {key.namespace} does not exist") from error
        self._log.info("published credentials for the other clusters", secret=key)

    async def _addresses(self, cluster: Cluster) -> Sequence[str]:
        """List the addresses that may be published, the one to publish first.

        Behind a load balancer each API server reports itself: any that was reported is as good as the next.
        """
        endpoint = cluster.published_endpoint()
        if endpoint is not None and endpoint.server_address.strip():
            return [read_address(endpoint.server_address, field="spec.kubernetesApiEndpoints.serverAddress")]
        option = self._settings.apiserver_endpoint_address
        if option.strip():
            return [read_address(option, field="APISERVER_ENDPOINT_ADDRESS")]
        reported = await self._reported_address()
        if not reported:
            return [read_address(self._api.server, field="the address of this cluster's API server")]
        self._reported.add(reported)
        return [reported, *sorted(self._reported - {reported})]

    async def _reported_address(self) -> str:
        """Ask the API server for its address; empty when it does not say one that can be used."""
        try:
            found = (await self._api.read_path("/api")).get("serverAddressByClientCIDRs")
        except (Forbidden, NotFound, NotServed):
            return ""
        for entry in found if isinstance(found, list) else ():
            if isinstance(entry, Mapping) and entry.get("clientCIDR") == _EVERY_CLIENT:
                try:
                    return read_address(str(entry.get("serverAddress") or ""), field="serverAddress")
                except InvalidKubeconfig:
                    return ""
        return ""

    def _ca_pem(self, cluster: Cluster, token_ca: str) -> str:
        parts = [token_ca]
        own = self._api.ca_pem.strip()
        if own and own not in token_ca:
            parts.append(self._api.ca_pem)
        endpoint = cluster.published_endpoint()
        if endpoint is not None and endpoint.ca_bundle.strip():
            bundle = decode_base64(endpoint.ca_bundle, field=_BUNDLE_FIELD)
            parts.append(bundle.decode("ascii", errors="replace"))
        return "\n".join(parts)

    async def _token(self) -> _Token:
        """Find the reader's token, or have one made and wait for it."""
        namespace, account = self._settings.namespace, self._settings.reader_service_account_name
        found = await self._token_secrets()
        token = next((token for token in map(_read_token, found) if token), None)
        if token is not None:
            return token
        if not found:
            await self._make_token(namespace, account)
        for _ in range(int(_TOKEN_WAIT_S / _TOKEN_POLL_S)):
            await asyncio.sleep(_TOKEN_POLL_S)
            token = next((token for token in map(_read_token, await self._token_secrets()) if token), None)
            if token is not None:
                return token
        raise NotReady(f"ServiceAccount {namespace}/{account}: Kubernetes has not filled its token Secret yet")

    async def _token_secrets(self) -> Sequence[Manifest]:
        """List the token Secrets of the reader in the daemon's namespace, the oldest first."""
        namespace, account = self._settings.namespace, self._settings.reader_service_account_name
        listed = await self._api.list(meta.SECRETS, namespace=namespace, fields=f"type={corerules.TOKEN_SECRET_TYPE}")
        found = [
            secret
            for secret in listed
            if secret.get("type") == corerules.TOKEN_SECRET_TYPE
            and meta.annotations_of(secret).get(corerules.SERVICE_ACCOUNT) == account
            and not meta.metadata_of(secret).get("deletionTimestamp")
        ]
        return sorted(found, key=_age)

    async def _make_token(self, namespace: str, account: str) -> None:
        secret = corerules.token_secret(namespace, service_account=account)
        name = ObjectKey(namespace, meta.metadata_of(secret)["name"])
        # Kubernetes deletes a token Secret without its ServiceAccount: making one again and again would never end.
        if not await self._has_account(namespace, account):
            raise BadInput(f"ServiceAccount {namespace}/{account} does not exist; the other clusters read with it")
        try:
            await self._api.create(meta.SECRETS, secret)
            self._log.info("made a token Secret for the reader", secret=name)
        except AlreadyExists:
            present = await self._api.read(meta.SECRETS, name)
            if present is not None and present.get("type") != corerules.TOKEN_SECRET_TYPE:
                raise BadInput(f"Secret {name}: its type must be {corerules.TOKEN_SECRET_TYPE}; delete it") from None

    async def _has_account(self, namespace: str, account: str) -> bool:
        try:
            return await self._api.read(SERVICE_ACCOUNTS, ObjectKey(namespace, account)) is not None
        except Forbidden:
            return True  # the right to look is not needed where the account is there


def _age(secret: Manifest) -> tuple[str, str]:
    info = meta.metadata_of(secret)
    return info.get("creationTimestamp") or "", info.get("name") or ""


def _read_token(secret: Manifest) -> _Token | None:
    data = secret.get("data") or {}
    token, ca_pem = _decoded(data, "token"), _decoded(data, "ca.crt")
    return _Token(token, ca_pem) if token and ca_pem else None


def _decoded(data: Mapping[str, Any], key: str) -> str:
    try:
        return base64.b64decode(data.get(key) or "").decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _document(text: str) -> Any:
    """Read a kubeconfig for comparison: the Go original spells the same document otherwise."""
    try:
        return load_document(text)
    except InvalidKubeconfig:
        return None
