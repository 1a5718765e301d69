"""Cluster: a member of the group, and where the credentials lie with which it is read."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from registry_controller.api import meta
from registry_controller.api.errors import InvalidObject
from registry_controller.api.fields import Field
from registry_controller.api.meta import ClusterUID, ObjectKey


class State(enum.Enum):
    """`status.state`. Members that run the Go original count anything but Ready as not synced."""

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
    """One way to reach a cluster's API server. `ca_bundle` is base64, empty when not given."""

    client_network: str
    server_address: str
    ca_bundle: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Cluster object. `secret` is None while the reference lacks a name or a namespace.

    `contested`: its status says that another API server has its ID, too.
    """

    name: str
    uid: str
    cluster_id: ClusterUID
    secret: ObjectKey | None
    endpoints: tuple[Endpoint, ...]
    disabled: bool
    contested: bool
    owner: ClusterUID | None
    created: str
    generation: int

    def endpoint_for(self, network_name: str) -> Endpoint | None:
        """Choose the endpoint for reading: the one of our network, else the last one without a network."""
        for endpoint in self.endpoints:
            if endpoint.client_network and endpoint.client_network == network_name:
                return endpoint
        unnamed = [endpoint for endpoint in self.endpoints if not endpoint.client_network]
        return unnamed[-1] if unnamed else None

    def published_endpoint(self) -> Endpoint | None:
        """Choose the endpoint for the Secret that this cluster publishes: the first one without a network."""
        return next((endpoint for endpoint in self.endpoints if not endpoint.client_network), None)


def read_cluster(manifest: meta.Manifest) -> Cluster:
    """Read a Cluster object; raise InvalidObject for what the schema would have refused."""
    field = Field(manifest, "")
    spec = field["spec"]
    cluster_id = spec["clusterID"].text()
    if not cluster_id:
        raise InvalidObject("spec.clusterID", "is required: the UID of that cluster's kube-system namespace")
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
        owner=ClusterUID(annotations[meta.OWNER]) if annotations.get(meta.OWNER) else None,
        created=info["creationTimestamp"].text(),
        generation=info["generation"].value or 0,
    )


def _read_endpoint(field: Field) -> Endpoint:
    return Endpoint(field["clientNetwork"].text(), field["serverAddress"].text(), field["caBundle"].text())
