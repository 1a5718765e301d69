"""What other members may bring here of membership: neither another's address nor another's Secret (O4, O7).

Laws: who was Ready here once is read at another address, or trusted by another CA, on nobody's word but its own ·
nobody names the Secret of another, which would then be nobody's.
"""

from __future__ import annotations

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import InvalidKubeconfig, InvalidObject
from registry_controller.api.meta import Manifest
from registry_controller.core.decision import Reason
from registry_controller.core.view import Claim
from registry_controller.engine.credentialstore import CredentialStore
from registry_controller.engine.members import Members
from registry_controller.engine.registry import Registry
from registry_controller.kube.kubeconfig import Credentials, read_secret


class Relays:
    """Judges what is to come here of a Cluster or a registry Secret."""

    def __init__(self, *, credentials: CredentialStore, registry: Registry, members: Members) -> None:
        self._credentials = credentials
        self._registry = registry
        self._members = members

    def refuses(self, claim: Claim, manifest: Manifest, *, changes: bool) -> Reason | None:
        """Say why a record does not come; None when it may. `changes`: an intermediary's changes what is here by it."""
        if changes and not self._may_change(claim, manifest):
            return Reason.ADDRESS_CHANGED
        if claim.kind.group == meta.GROUP and self._names_anothers(claim, manifest):
            return Reason.DISPUTED
        return None

    def _names_anothers(self, claim: Claim, manifest: Manifest) -> bool:
        """Say whether a Cluster would name a Secret that, here, is the one of another member."""
        try:
            offered = read_cluster(manifest)
        except InvalidObject:
            return False
        held = self._registry.clusters.get(claim.key.name)
        if offered.secret is None or (held and held.cluster and held.cluster.secret == offered.secret):
            return False
        return not self._members.naming_here(offered.secret) <= {offered.cluster_id}

    def _may_change(self, claim: Claim, manifest: Manifest) -> bool:
        """Say whether an intermediary's record may change what is here.

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
