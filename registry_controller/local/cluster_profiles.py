"""Keeps a ClusterProfile (multicluster.x-k8s.io/v1alpha1) for each member, in the namespace of an option.

A controller that reads ClusterProfiles finds the members so, and their credentials by the access provider
`kubeconfig-secretreader` of cluster-inventory-api, which reads the Secret that the Cluster names here.

Laws: a ClusterProfile of another manager, or a copy of another member's, is left alone · no credentials are in a
ClusterProfile · only differences are written · where the kind is not served, nothing is done.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster, read_cluster
from registry_controller.api.errors import (
    BadInput,
    Conflict,
    InvalidKubeconfig,
    InvalidObject,
    NotServed,
    RegistryError,
)
from registry_controller.api.meta import GVR, Manifest, ObjectKey
from registry_controller.kube.kubeconfig import find_key, read_secret, with_endpoint
from registry_controller.local.client import ClusterClient
from registry_controller.report.logs import Logger
from registry_controller.settings import Settings

PROFILES: Final = GVR("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", True, True)
MANAGER: Final = "cluster-registry.k8s.cisco.com"
_MANAGER_LABEL: Final = "x-k8s.io/cluster-manager"
_PROVIDER: Final = "kubeconfig-secretreader"
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_CLUSTER_ID: Final = "cluster.clusterset.k8s.io"  # a well-known ClusterProperty of about.k8s.io
_HEALTHY: Final = "ControlPlaneHealthy"
_TEXT_CHARS: Final = 1024  # the schema's bound of a property


class _Member(NamedTuple):
    cluster: Cluster
    status: Mapping[str, Any]


class ClusterProfiles:
    """Reconciles the ClusterProfiles of the members that have a Cluster here.

    A failure is logged once, and the next pass tries again: it does not affect this cluster as a member.
    """

    def __init__(self, *, api: ClusterClient, settings: Settings, log: Logger) -> None:
        self._api = api
        self._settings = settings
        self._log = log
        self._namespace = settings.cluster_profile_namespace
        self._problem = ""

    async def keep(self) -> None:
        """Write the ClusterProfiles that differ, and delete the ClusterProfiles of members that are gone."""
        if not self._namespace:
            return
        problem = ""
        try:
            await self._keep_all()
        except Conflict:  # the object has changed meanwhile
            return
        except RegistryError as error:
            problem = str(error)
        if problem and problem != self._problem:
            self._log.warning("the ClusterProfiles of the members cannot be written", problem=problem)
        self._problem = problem

    async def _keep_all(self) -> None:
        try:
            stored = {_name(found): found for found in await self._api.list(PROFILES, namespace=self._namespace)}
        except NotServed:
            return
        members = _read_members(await self._api.list(meta.CLUSTERS))
        taken = sorted(name for name in members if name in stored and not _is_own(stored[name]))
        for name, member in members.items():
            if name not in taken:
                await self._keep_one(member, stored.get(name))
        for name, found in stored.items():
            if name not in members and _is_own(found):
                await self._api.delete(PROFILES, found)
                self._log.info("deleted a ClusterProfile", name=name)
        if taken:
            raise BadInput(
                f"ClusterProfile {self._namespace}/{', '.join(taken)}: belongs to another cluster manager, and is left "
                "alone; delete it, or name another namespace in CLUSTER_PROFILE_NAMESPACE"
            )

    async def _keep_one(self, member: _Member, stored: Manifest | None) -> None:
        name = member.cluster.name
        if stored is None:
            stored = await self._api.create(PROFILES, self._profile(name))
            self._log.info("created a ClusterProfile", name=name)
        status = {**(stored.get("status") or {}), **await self._status(member)}
        if status != (stored.get("status") or {}):
            await self._api.replace_status(PROFILES, {**stored, "status": status})

    def _profile(self, name: str) -> Manifest:
        return {
            "apiVersion": f"{PROFILES.group}/{PROFILES.version}",
            "kind": "ClusterProfile",
            "metadata": {"namespace": self._namespace, "name": name, "labels": {_MANAGER_LABEL: MANAGER}},
            "spec": {"displayName": name, "clusterManager": {"name": MANAGER}},
        }

    async def _status(self, member: _Member) -> Manifest:
        version = member.status.get("version")
        return {
            "version": {"kubernetes": version} if version else {},
            "conditions": _conditions(member.status),
            "properties": _properties(member),
            "accessProviders": await self._access(member.cluster),
        }

    async def _access(self, cluster: Cluster) -> Sequence[Manifest]:
        """Return how the cluster is reached from here, without credentials; nothing while its Secret is unusable."""
        secret = await self._api.read(meta.SECRETS, cluster.secret) if cluster.secret is not None else None
        if secret is None or cluster.secret is None:
            return []
        kind, data = str(secret.get("type")), secret.get("data") or {}
        try:
            key = find_key(secret_type=kind, data=data)
            found = with_endpoint(
                read_secret(secret_type=kind, data=data), cluster.endpoint_for(self._settings.network_name)
            )
        except InvalidKubeconfig:  # the status of the Cluster reports it
            return []
        access: dict[str, Any] = {"server": found.server, "extensions": [_extension(cluster.secret, key)]}
        if found.ca_pem:
            access["certificate-authority-data"] = base64.b64encode(found.ca_pem.encode()).decode()
        if found.tls_server_name:
            access["tls-server-name"] = found.tls_server_name
        return [{"name": _PROVIDER, "cluster": access}]


def _read_members(manifests: Sequence[Manifest]) -> Mapping[str, _Member]:
    found = {}
    for manifest in manifests:
        with contextlib.suppress(InvalidObject):
            cluster = read_cluster(manifest)
            found[cluster.name] = _Member(cluster, manifest.get("status") or {})
    return found


def _extension(secret: ObjectKey, key: str) -> Manifest:
    """Return the plugin's configuration: the Secret, and its key with the kubeconfig."""
    where = {"name": secret.name, "namespace": secret.namespace, "key": key}
    return {"name": _EXEC_EXTENSION, "extension": where}


def _conditions(status: Mapping[str, Any]) -> Sequence[Manifest]:
    """Return the condition of the control plane: whether this cluster reads it."""
    ready = next((found for found in status.get("conditions") or () if found.get("type") == "Ready"), None)
    if ready is None:
        return []
    fields = {name: ready.get(name) or "" for name in ("status", "reason", "message", "lastTransitionTime")}
    return [{"type": _HEALTHY, **fields}] if fields["reason"] and fields["lastTransitionTime"] else []


def _properties(member: _Member) -> Sequence[Manifest]:
    status = member.status
    locality = status.get("locality") or {}
    found = {
        _CLUSTER_ID: member.cluster.cluster_id,
        f"{MANAGER}/provider": status.get("provider"),
        f"{MANAGER}/distribution": status.get("distribution"),
        f"{MANAGER}/region": locality.get("region"),
    }
    return [{"name": name, "value": str(value)[:_TEXT_CHARS]} for name, value in found.items() if value]


def _name(manifest: Manifest) -> str:
    return str(meta.metadata_of(manifest)["name"])


def _is_own(profile: Manifest) -> bool:
    """Return whether this cluster's daemon made a ClusterProfile; a copy is another member's."""
    spec = profile.get("spec") or {}
    is_managed = (spec.get("clusterManager") or {}).get("name") == MANAGER
    labels, annotations = meta.labels_of(profile), meta.annotations_of(profile)
    return is_managed and labels.get(_MANAGER_LABEL) == MANAGER and not annotations.get(meta.OWNER)
