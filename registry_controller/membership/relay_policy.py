"""Reads the facts about Clusters and registry Secrets of other members that a relay may bring here (O4, O7).

`core.decision.relay` decides; the number of Clusters is limited by `quota`.
"""

from __future__ import annotations

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import ClusterUID, Manifest
from registry_controller.cache.credentials import CredentialStore
from registry_controller.cache.members import Members
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.decision import Reason
from registry_controller.core.decision.relay import (
    names_secret_of_another,
    refuse_relayed_cluster,
    refuse_relayed_secret,
)
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
            was_ready = self.is_pinned(claim.owner)
            if is_cluster:
                reason = refuse_relayed_cluster(
                    _read(manifest), over=self._held(claim), owner=claim.owner, was_ready=was_ready
                )
            else:
                is_usable = isinstance(self._credentials.find(claim.key), Credentials)
                reason = refuse_relayed_secret(is_usable=is_usable, was_ready=was_ready)
            if reason is not None:
                return reason
        if is_cluster and self._is_disputed(claim, manifest):
            return Reason.DISPUTED
        return Reason.TOO_MANY if over is None and not self._has_room_for(claim) else None

    def is_pinned(self, member: ClusterUID) -> bool:
        """Return whether a member has ever been Ready here, which fixes the server and the CA in its Secret.

        Only then the status of its Cluster has a version. The Cluster of a rebuilt cluster is another object.
        """
        statuses = (stored.manifest.get("status") or {} for stored in self._registry.clusters_of(member))
        return any(status.get("version") for status in statuses)

    def _has_room_for(self, claim: Claim) -> bool:
        if claim.kind.group == meta.GROUP:
            return self._quota.has_room_for(claim.peer, claim.key.name)
        return self._quota.has_room_for_secret(claim.peer, claim.key)

    def _is_disputed(self, claim: Claim, manifest: Manifest) -> bool:
        """Return whether a Cluster would name a Secret that belongs to another member here."""
        offered = _read(manifest)
        named_by = self._members.naming_here(offered.secret) if offered is not None and offered.secret else frozenset()
        return names_secret_of_another(offered, over=self._held(claim), named_by=named_by)

    def _held(self, claim: Claim) -> Cluster | None:
        stored = self._registry.clusters.get(claim.key.name)
        return stored.cluster if stored is not None else None


def _read(manifest: Manifest) -> Cluster | None:
    try:
        return read_cluster(manifest)
    except InvalidObject:
        return None
