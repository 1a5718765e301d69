"""What an intermediary may change of another member's Cluster and credentials (O4).

Law: who was Ready here once is read at another address, or trusted by another CA, on nobody's word but its own.
"""

from __future__ import annotations

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import InvalidKubeconfig, InvalidObject
from registry_controller.api.meta import Manifest
from registry_controller.core.view import Claim
from registry_controller.engine.credentialstore import CredentialStore
from registry_controller.engine.registry import Registry
from registry_controller.kube.kubeconfig import Credentials, read_secret


class Relays:
    """Judges the records that intermediaries hold."""

    def __init__(self, *, credentials: CredentialStore, registry: Registry) -> None:
        self._credentials = credentials
        self._registry = registry

    def may_change(self, claim: Claim, manifest: Manifest) -> bool:
        """Say whether such a record may change what is here.

        Once a member has been Ready, its Secret may change the credentials only, never the server or the CA; its
        Cluster neither the endpoints, which stand for these, nor the Secret that it names.
        """
        was_ready = any(self._was_ready(found.name) for found in self._clusters_of(claim))
        if claim.kind.group == meta.GROUP:
            return not was_ready or self._keeps_way(claim, manifest)
        try:
            offered = read_secret(secret_type=manifest.get("type", ""), data=manifest.get("data") or {})
        except InvalidKubeconfig:
            return False
        held = self._credentials.find(claim.key)
        if not isinstance(held, Credentials) or not was_ready:
            return True
        return (held.server, held.ca_pem) == (offered.server, offered.ca_pem)

    def _keeps_way(self, claim: Claim, manifest: Manifest) -> bool:
        held = next((found for found in self._clusters_of(claim) if found.name == claim.key.name), None)
        try:
            offered = read_cluster(manifest)
        except InvalidObject:
            return False
        return held is None or (held.endpoints, held.secret) == (offered.endpoints, offered.secret)

    def _clusters_of(self, claim: Claim) -> list[Cluster]:
        clusters = (held.cluster for held in self._registry.clusters.values())
        return [found for found in clusters if found is not None and found.cluster_id == claim.owner]

    def _was_ready(self, name: str) -> bool:
        """Say whether a member was ever Ready here: only then was its version read."""
        return bool((self._registry.clusters[name].manifest.get("status") or {}).get("version"))
