"""The Secret that we publish: a kubeconfig with which the other clusters read this one.

Law: it is rewritten only when what it says would differ; what others put into the object stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster
from registry_controller.api.errors import (
    BadInput,
    Forbidden,
    InvalidKubeconfig,
    NotFound,
    NotServed,
)
from registry_controller.api.meta import Manifest, ObjectKey
from registry_controller.kube.address import read_address
from registry_controller.kube.kubeconfig import render
from registry_controller.kube.pem import decode_base64
from registry_controller.kube.strict_yaml import load_document
from registry_controller.local import manifests
from registry_controller.local.client import LocalClient
from registry_controller.local.reader_token import NotReady, TokenSettings, decoded, reader_tokens, revoke_tokens
from registry_controller.report.logs import Logger

_EVERY_CLIENT: Final = "0.0.0.0/0"
_BUNDLE_FIELD: Final = "spec.kubernetesApiEndpoints.caBundle"


class PublishSettings(TokenSettings, Protocol):
    """The options that this room reads."""

    @property
    def apiserver_endpoint_address(self) -> str: ...


class KubeconfigSecret:
    """Keep the Secret that our own Cluster names filled."""

    def __init__(self, *, api: LocalClient, settings: PublishSettings, log: Logger) -> None:
        self._api = api
        self._settings = settings
        self._log = log
        self._tokens = reader_tokens(api=api, settings=settings, log=log)
        self._reported: set[str] = set()

    async def keep(self, cluster: Cluster) -> None:
        """Fill the Secret if it differs; raise RegistryError with words for people."""
        if cluster.secret is None:
            return
        current = await self._api.read(meta.SECRETS, cluster.secret)
        token = await self._tokens.find(current=_token_in(current))
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
        await self._publish(cluster.secret, current, documents)

    async def withdraw(self, key: ObjectKey | None) -> None:
        """Delete the Secret that was published, and revoke the tokens: this cluster has left."""
        current = await self._api.read(meta.SECRETS, key) if key is not None else None
        if current is not None and is_published(current):
            await self._api.delete(meta.SECRETS, current)
        await revoke_tokens(self._api, self._settings)

    def renew_in_s(self) -> float:
        """Tell in how many seconds the token is to be renewed; infinity for one that does not expire."""
        return self._tokens.renew_in_s()

    async def _publish(self, key: ObjectKey, current: Manifest | None, documents: Sequence[str]) -> None:
        """Store the first document, unless what is stored says the same as any of them."""
        wanted = manifests.registry_secret(key, kubeconfig=documents[0])
        if current is None:
            await self._create(key, wanted)
            return
        if current.get("type") != meta.REGISTRY_SECRET_TYPE:
            raise BadInput(f"Secret {key}: its type must be {meta.REGISTRY_SECRET_TYPE}; delete it, it is made anew")
        info, data = meta.metadata_of(current), current.get("data") or {}
        if info.get("deletionTimestamp"):
            raise NotReady(f"Secret {key}: is being deleted")
        stored = _document(decoded(data, meta.KUBECONFIG_KEY))
        same = any(stored == _document(document) for document in documents)
        owners = info.get("ownerReferences") or []
        kept = [owner for owner in owners if not manifests.is_cluster_reference(owner)]
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


def is_published(secret: Manifest) -> bool:
    """Say whether a registry Secret is this cluster's own, and no copy of another's."""
    return secret.get("type") == meta.REGISTRY_SECRET_TYPE and meta.OWNER not in meta.annotations_of(secret)


def _document(text: str) -> Any:
    """Read a kubeconfig for comparison: the Go original spells the same document otherwise."""
    try:
        return load_document(text)
    except InvalidKubeconfig:
        return None


def _token_in(secret: Manifest | None) -> str:
    """Take the token out of what is published; empty where there is none."""
    document = _document(decoded((secret or {}).get("data") or {}, meta.KUBECONFIG_KEY))
    try:
        token = document["users"][0]["user"]["token"]
    except (TypeError, KeyError, IndexError):
        return ""
    return token if isinstance(token, str) else ""
