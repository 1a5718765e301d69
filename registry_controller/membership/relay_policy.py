"""Decides which Clusters and registry Secrets of other members a relay may bring here (O4, O7).

Laws: once a member has been Ready here, its address, CA and credentials change only by its own objects · no Cluster may
name the Secret of another member, which would then belong to neither · the number of Clusters is limited.
"""

from __future__ import annotations

from registry_controller.api import meta
from registry_controller.api.cluster import read_cluster
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.cache.credentials import CredentialStore
from registry_controller.cache.members import Members
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Reason
from registry_controller.core.decision.state import Claim, CurrentCopy
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.membership.quota import MemberQuota


class RelayPolicy:
    """Decides on one Cluster or registry Secret that a peer offers."""

    def __init__(
        self, *, credentials: CredentialStore, registry: Registry, members: Members, quota: MemberQuota
    ) -> None:
        self._credentials = credentials
        self._registry = registry
        self._members = members
        self._quota = quota

    def refusal_of(
        self, claim: Claim, manifest: Manifest, *, over: CurrentCopy | None, is_relayed: bool
    ) -> Reason | None:
        """Return the reason why an object is not copied here; None when it may be.

        `over` is the copy here, None while it is missing. `is_relayed` is False for the owner's own object.
        """
        is_cluster = claim.kind.group == meta.GROUP
        if over is not None and is_relayed:
            reason = self._refuse_cluster(claim, manifest) if is_cluster else self._refuse_secret(claim)
            if reason is not None:
                return reason
        if is_cluster and self._is_disputed(claim, manifest):
            return Reason.DISPUTED
        return Reason.TOO_MANY if over is None and not self._has_room_for(claim) else None

    def is_pinned(self, member: ClusterUID) -> bool:
        """Return whether a member has ever been Ready here, which fixes the server and the CA in its Secret.

        Only then the status of its Cluster has a version. The Cluster of a rebuilt cluster is another object.
        """
        return any(
            stored.cluster is not None
            and stored.cluster.cluster_id == member
            and bool((stored.manifest.get("status") or {}).get("version"))
            for stored in self._registry.clusters.values()
        )

    def _has_room_for(self, claim: Claim) -> bool:
        if claim.kind.group == meta.GROUP:
            return self._quota.has_room_for(claim.peer, claim.key.name)
        return self._quota.has_room_for_secret(claim.peer, claim.key)

    def _is_disputed(self, claim: Claim, manifest: Manifest) -> bool:
        """Return whether a Cluster would name a Secret that belongs to another member here."""
        try:
            offered = read_cluster(manifest)
        except InvalidObject:
            return False
        stored = self._registry.clusters.get(claim.key.name)
        if offered.secret is None or (stored and stored.cluster and stored.cluster.secret == offered.secret):
            return False
        return not self._members.naming_here(offered.secret) <= {offered.cluster_id}

    def _refuse_cluster(self, claim: Claim, manifest: Manifest) -> Reason | None:
        """Refuse other endpoints, which replace the server in its Secret, and another Secret, of a pinned member."""
        if not self.is_pinned(claim.owner):
            return None
        found = self._registry.clusters.get(claim.key.name)
        held = found.cluster if found is not None else None
        try:
            offered = read_cluster(manifest)
        except InvalidObject:
            return Reason.ADDRESS_CHANGED
        if held is None or held.cluster_id != claim.owner:
            return None
        is_same = (held.endpoints, held.secret) == (offered.endpoints, offered.secret)
        return None if is_same else Reason.ADDRESS_CHANGED

    def _refuse_secret(self, claim: Claim) -> Reason | None:
        """Refuse relayed credentials of a pinned member; `RelayedCredentials` tries them without storing them."""
        is_usable = isinstance(self._credentials.find(claim.key), Credentials)
        return Reason.NOT_PROVEN if is_usable and self.is_pinned(claim.owner) else None
