"""What other members may bring here of membership: neither another's address nor another's Secret (O4, O7).

Laws: who was Ready here once gets another address, another CA or other credentials in its Secret on nobody's word but
its own · nobody names the Secret of another, which would then be nobody's · there is room for so many Clusters.
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
    """Judges what is to come here of a Cluster or a registry Secret."""

    def __init__(
        self, *, credentials: CredentialStore, registry: Registry, members: Members, newcomers: MemberQuota
    ) -> None:
        self._credentials = credentials
        self._registry = registry
        self._members = members
        self._newcomers = newcomers

    def refusal_of(
        self, claim: Claim, manifest: Manifest, *, over: CurrentCopy | None, is_relayed: bool
    ) -> Reason | None:
        """Say why a record does not come; None when it may. `over` is what is here of it, None where it is missing.

        `is_relayed` says that it is an intermediary's.
        """
        is_cluster = claim.kind.group == meta.GROUP
        if over is not None and is_relayed:
            reason = self._refuses_cluster(claim, manifest) if is_cluster else self._refuses_secret(claim)
            if reason is not None:
                return reason
        if is_cluster and self._names_anothers(claim, manifest):
            return Reason.DISPUTED
        return Reason.TOO_MANY if over is None and not self._has_room_for(claim) else None

    def is_pinned(self, member: ClusterUID) -> bool:
        """Say whether a member was ever Ready here: then the server and the CA in its Secret stand.

        Only who was has its version in its status. A Cluster that is replaced by a rebuilt one's is another object.
        """
        return any(
            held.cluster is not None
            and held.cluster.cluster_id == member
            and bool((held.manifest.get("status") or {}).get("version"))
            for held in self._registry.clusters.values()
        )

    def _has_room_for(self, claim: Claim) -> bool:
        if claim.kind.group == meta.GROUP:
            return self._newcomers.has_room_for(claim.peer, claim.key.name)
        return self._newcomers.has_room_for_secret(claim.peer, claim.key)

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

    def _refuses_cluster(self, claim: Claim, manifest: Manifest) -> Reason | None:
        """Once a member has been Ready, neither the endpoints come, which stand for its server, nor another Secret."""
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
        keeps_way = (held.endpoints, held.secret) == (offered.endpoints, offered.secret)
        return None if keeps_way else Reason.ADDRESS_CHANGED

    def _refuses_secret(self, claim: Claim) -> Reason | None:
        """Once a member has been Ready, its credentials come from itself: what others hold is tried, see `hearsay`."""
        is_usable = isinstance(self._credentials.find(claim.key), Credentials)
        return Reason.NOT_PROVEN if is_usable and self.is_pinned(claim.owner) else None
