"""Publishes the Secret with the kubeconfig that other clusters read this one with.

Laws: the Secret is written only when its kubeconfig would differ; other data, labels and annotations in it stay · the
credentials of another member are not replaced.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import (
    BadInput,
    Forbidden,
    InvalidKubeconfig,
    InvalidObject,
    NotFound,
    NotServed,
)
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey
from registry_controller.kube.address import read_address
from registry_controller.kube.kubeconfig import render
from registry_controller.kube.pem import decode_base64
from registry_controller.kube.strict_yaml import load_document
from registry_controller.local import manifests
from registry_controller.local.client import ClusterClient
from registry_controller.local.reader_token import NotReady, decode_text, make_token_source, revoke_tokens
from registry_controller.report.logs import Logger
from registry_controller.settings import Settings

_EVERY_CLIENT: Final = "0.0.0.0/0"
_BUNDLE_FIELD: Final = "spec.kubernetesApiEndpoints.caBundle"


class KubeconfigSecret:
    """Reconciles the Secret that this cluster's Cluster names."""

    def __init__(self, *, api: ClusterClient, settings: Settings, log: Logger) -> None:
        self._api = api
        self._settings = settings
        self._log = log
        self._tokens = make_token_source(api=api, settings=settings, log=log)
        self._reported: set[str] = set()
        self._expires_at_s = math.nan

    async def keep(self, cluster: Cluster) -> None:
        """Write the Secret if it differs. Raises RegistryError, with a sentence for people."""
        if cluster.secret is None:
            return
        current = await self._api.read(meta.SECRETS, cluster.secret)
        await self._check_owner(cluster, current)
        token = await self._tokens.find(current=_token_in(current))
        self._expires_at_s = token.expires_at_s
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

    async def withdraw(self, key: ObjectKey | None, *, of: ClusterUID) -> None:
        """Delete the published Secret, and revoke the tokens: this cluster has left."""
        current = await self._api.read(meta.SECRETS, key) if key is not None else None
        if current is not None and is_published(current, of=of):
            await self._api.delete(meta.SECRETS, current)
        await revoke_tokens(self._api, self._settings)

    async def _check_owner(self, cluster: Cluster, current: Manifest | None) -> None:
        """Raise BadInput for a copy of another member's Secret that the Cluster of that member names."""
        owner = meta.annotations_of(current).get(meta.OWNER) if current is not None else None
        if owner in (None, cluster.cluster_id):
            return
        for manifest in await self._api.list(meta.CLUSTERS):
            with contextlib.suppress(InvalidObject):
                other = read_cluster(manifest)
                if other.cluster_id == owner and other.secret == cluster.secret:
                    raise BadInput(
                        f"Secret {cluster.secret}: has the credentials of Cluster {other.name}; name another one in "
                        f"spec.authInfo.secretRef of Cluster {cluster.name}"
                    )

    def renew_in_s(self) -> float:
        """Return the time until the token is renewed in seconds; infinity for a token that does not expire."""
        return self._tokens.renew_in_s()

    def token_expires_at_s(self) -> float:
        """Return when the published token expires: seconds since 1970, infinity for never, NaN while not known."""
        return self._expires_at_s

    async def _publish(self, key: ObjectKey, current: Manifest | None, documents: Sequence[str]) -> None:
        """Store the first document, unless the stored one equals any of them."""
        labels = {meta.MULTICLUSTER_RUNTIME_LABEL: "true"} if self._settings.multicluster_runtime_label else {}
        wanted = manifests.registry_secret(key, kubeconfig=documents[0], labels=labels)
        if current is None:
            await self._create(key, wanted)
            return
        if current.get("type") != meta.REGISTRY_SECRET_TYPE:
            raise BadInput(
                f"Secret {key}: its type must be {meta.REGISTRY_SECRET_TYPE}; delete it, and the daemon "
                "creates it again"
            )
        info, data = meta.metadata_of(current), current.get("data") or {}
        if info.get("deletionTimestamp"):
            raise NotReady(f"Secret {key}: is being deleted")
        stored = _document(decode_text(data, meta.KUBECONFIG_KEY))
        same = any(stored == _document(document) for document in documents)
        owners = info.get("ownerReferences") or []
        kept = [owner for owner in owners if not manifests.is_cluster_reference(owner)]
        has_labels = labels.items() <= meta.labels_of(current).items()
        if same and kept == owners and has_labels:
            return
        if current.get("immutable") is True and not same:
            raise BadInput(f"Secret {key}: is immutable and out of date; delete it, and the daemon creates it again")
        new_data = data if same else {**data, **wanted["data"]}
        new_info = {**info, "ownerReferences": kept, "labels": {**meta.labels_of(current), **labels}}
        changed = {**current, "metadata": new_info, "data": new_data}
        await self._api.replace(meta.SECRETS, changed)
        self._log.info("updated the credentials for other clusters", secret=key)

    async def _create(self, key: ObjectKey, wanted: Manifest) -> None:
        try:
            await self._api.create(meta.SECRETS, wanted)
        except NotFound as error:
            raise BadInput(
                f"Secret {key}: namespace {key.namespace} does not exist; create it, or name another one in the "
                "Cluster's spec.authInfo.secretRef"
            ) from error
        self._log.info("published the credentials for other clusters", secret=key)

    async def _addresses(self, cluster: Cluster) -> Sequence[str]:
        """List the addresses that may be published, the preferred one first.

        Behind a load balancer each API server reports its own address: every reported one may be published.
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
        """Read the address that the API server reports; empty without a usable one."""
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


def is_published(secret: Manifest, *, of: ClusterUID) -> bool:
    """Return whether a registry Secret is the cluster's own, and not a copy of another cluster's."""
    return secret.get("type") == meta.REGISTRY_SECRET_TYPE and not meta.is_marked_as_copy(secret, at=of)


def _document(text: str) -> Any:
    """Read a kubeconfig for comparison: the Go original writes the same document with another layout."""
    try:
        return load_document(text)
    except InvalidKubeconfig:
        return None


def _token_in(secret: Manifest | None) -> str:
    """Return the published token; empty without one."""
    document = _document(decode_text((secret or {}).get("data") or {}, meta.KUBECONFIG_KEY))
    try:
        token = document["users"][0]["user"]["token"]
    except (TypeError, KeyError, IndexError):
        return ""
    return token if isinstance(token, str) else ""
