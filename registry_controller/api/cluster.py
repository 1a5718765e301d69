"""Cluster: a member of the group, its endpoints, and the Secret with its credentials."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.meta import ClusterUID, ObjectKey


class State(enum.Enum):
    """`status.state`. For members that run the Go original, a Cluster in any other state than Ready is not synced."""

    READY = "Ready"
    FAILED = "Failed"
    DISABLED = "Disabled"
    MISSING_AUTH_INFO = "MissingAuthInfo"
    INVALID_AUTH_INFO = "InvalidAuthInfo"


class ClusterType(enum.Enum):
    """`status.type`."""

    LOCAL = "Local"
    PEER = "Peer"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address of a cluster's API server. `ca_bundle` is base64, or empty."""

    client_network: str
    server_address: str
    ca_bundle: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Cluster object. `secret` is missing if the reference lacks a name or a namespace.

    `is_copy` is true if it has the mark of an owner: its fields are that member's, not set by a person here.
    `contested` is true if the condition LocalConflict is True: the cluster's ID is not unique. `was_read` is true if
    its status shows that a daemon has read the cluster through it.
    """

    name: str
    uid: str
    cluster_id: ClusterUID
    secret: ObjectKey | None
    endpoints: tuple[Endpoint, ...]
    disabled: bool
    contested: bool
    was_read: bool
    created: str
    generation: int
    is_copy: bool = False

    def endpoint_for(self, network_name: str) -> Endpoint | None:
        """Return the endpoint for a client: the first of its network, else the last without a network, else None."""
        for endpoint in self.endpoints:
            if endpoint.client_network and endpoint.client_network == network_name:
                return endpoint
        unnamed = [endpoint for endpoint in self.endpoints if not endpoint.client_network]
        return unnamed[-1] if unnamed else None

    def published_endpoint(self) -> Endpoint | None:
        """Return the endpoint for the Secret that the local cluster publishes: the first without a network, or None."""
        return next((endpoint for endpoint in self.endpoints if not endpoint.client_network), None)


class ClusterIdentity(NamedTuple):
    """The parts of a Cluster by which rules and objects select it."""

    name: str
    labels: Mapping[str, str]


def read_cluster(manifest: meta.Manifest) -> Cluster:
    """Parse a Cluster object. Raises InvalidObject for a field that the schema refuses."""
    field = Field(manifest, "")
    spec = field["spec"]
    cluster_id = spec["clusterID"].text()
    if not cluster_id:
        raise InvalidObject("spec.clusterID", "is required: the UID of the kube-system namespace of that cluster")
    reference = spec["authInfo"]["secretRef"]
    key = ObjectKey(reference["namespace"].text(), reference["name"].text())
    info = field["metadata"]
    annotations = info["annotations"].text_map()
    return Cluster(
        name=info["name"].text(),
        uid=info["uid"].text(),
        cluster_id=ClusterUID(cluster_id),
        secret=key if key.name and key.namespace else None,
        endpoints=tuple(_read_endpoint(item) for item in spec["kubernetesApiEndpoints"].items()),
        disabled=meta.CLUSTER_DISABLED in annotations,
        contested=meta.condition_of(manifest, "LocalConflict") == "True",
        was_read=bool(field["status"]["version"].value),
        created=info["creationTimestamp"].text(),
        generation=info["generation"].value or 0,
        is_copy=bool(annotations.get(meta.OWNER)),
    )


def _read_endpoint(field: Field) -> Endpoint:
    return Endpoint(field["clientNetwork"].text(), field["serverAddress"].text(), field["caBundle"].text())
