"""Decides which Clusters and registry Secrets of other members a relay may bring here (O4, O7).

Laws: once a member has been Ready here, its address, CA and credentials change only by its own objects · no Cluster may
name the Secret of another member, which would then belong to neither.
"""

from __future__ import annotations

from collections.abc import Set

from registry_controller.api.cluster import Cluster
from registry_controller.api.meta import ClusterUID
from registry_controller.core.decision.decision import Reason


def refuse_relayed_cluster(
    offered: Cluster | None, *, over: Cluster | None, owner: ClusterUID, was_ready: bool
) -> Reason | None:
    """Return the reason why a relayed Cluster of `owner` does not replace the one here (`over`); None where it may.

    Other endpoints replace the server in the Secret, and another Secret the credentials. `offered` is None for a
    Cluster that cannot be read. `was_ready` means that the member has been Ready here.
    """
    if not was_ready:
        return None
    if offered is None:
        return Reason.ADDRESS_CHANGED
    if over is None or over.cluster_id != owner:
        return None
    is_same = (over.endpoints, over.secret) == (offered.endpoints, offered.secret)
    return None if is_same else Reason.ADDRESS_CHANGED


def refuse_relayed_secret(*, is_usable: bool, was_ready: bool) -> Reason | None:
    """Return the reason why relayed credentials do not replace those here; None where they may.

    `is_usable` means that those here can be used.
    """
    return Reason.NOT_PROVEN if is_usable and was_ready else None


def names_secret_of_another(offered: Cluster | None, *, over: Cluster | None, named_by: Set[ClusterUID]) -> bool:
    """Return whether an offered Cluster would name a Secret that belongs to another member here.

    `over` is the Cluster of its name here, `named_by` are the members whose Clusters here name that Secret.
    """
    if offered is None or offered.secret is None or (over is not None and over.secret == offered.secret):
        return False
    return not named_by <= {offered.cluster_id}
