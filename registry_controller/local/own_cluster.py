"""Makes this cluster's own Cluster, and makes it again after it was lost: `core.decision.lost_cluster` decides how.

Law: what members show is used for labels, annotations and spec only: never for the ID, nor for a Secret of another
member.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from registry_controller.api import meta
from registry_controller.api.errors import BadInput, Forbidden, InvalidKubeconfig
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey
from registry_controller.core.decision.lost_cluster import (
    LostClusterFacts,
    Make,
    Wait,
    named_secret,
    plan_own_cluster,
    restored_cluster,
)
from registry_controller.kube.strict_yaml import load_document
from registry_controller.local import manifests
from registry_controller.local.client import ClusterClient
from registry_controller.local.kubeconfig_secret import is_published
from registry_controller.local.reader_token import decode_text
from registry_controller.report.logs import Logger
from registry_controller.settings import Settings


class LostClusterSource(Protocol):
    """Shows the own Cluster as it was while it is missing, and the Clusters of members."""

    @property
    def last(self) -> Manifest | None:
        """The Cluster as this process saw it last; None if it did not see it."""

    @property
    def awaits_members(self) -> bool:
        """True while the Clusters of a member that may answer are not known yet."""

    async def list_shown(self) -> Sequence[Manifest]:
        """Read its copies at live members."""

    async def read_member(self, secret: Manifest) -> Manifest | None:
        """Read the Cluster of the member to which a registry Secret here gives access; None if that fails."""


class NoLostClusters:
    """Shows no lost Cluster."""

    last: Manifest | None = None
    awaits_members: bool = False

    async def list_shown(self) -> Sequence[Manifest]:
        """Return nothing."""
        return ()

    async def read_member(self, secret: Manifest) -> Manifest | None:
        """Return nothing."""
        return None


class _Published(NamedTuple):
    """The Cluster to which the published Secret belongs, if there is one such Secret; the addresses in all of them."""

    cluster: Manifest | None
    addresses: Collection[str]


_NONE: Final = _Published(None, ())


class OwnClusterMaker:
    """Makes the missing own Cluster. `check_after_s` is when it is to be tried again, None for no such time."""

    def __init__(
        self, *, api: ClusterClient, settings: Settings, cluster_id: ClusterUID, source: LostClusterSource, log: Logger
    ) -> None:
        self.check_after_s: float | None = None
        self._api = api
        self._settings = settings
        self._cluster_id = cluster_id
        self._source = source
        self._log = log
        self._missing_since_s: float | None = None
        self._last: Manifest | None = None
        self._left_as: Manifest | None = None
        self._unnamed: set[ObjectKey] = set()
        """The Secrets of members whose Clusters were lost together with the own one, before this process began."""

    def note_found(self, found: Sequence[Manifest]) -> None:
        """Record the own Clusters that are here."""
        if found:
            self.check_after_s = self._missing_since_s = None
            self._last = found[0] if len(found) == 1 else None

    def note_farewell(self) -> None:
        """Record that this cluster has left: when it joins again, its Cluster is a new one."""
        self.check_after_s = self._missing_since_s = self._last = None
        self._left_as = self._source.last

    def _last_known(self) -> Manifest | None:
        last = self._source.last
        return self._last if last is None or last is self._left_as else last

    async def make(self, clusters: Sequence[Manifest]) -> Manifest | None:
        """Make the Cluster, and return it; None while it is not to be made. `clusters` are all Clusters here."""
        now_s = asyncio.get_running_loop().time()
        if self._missing_since_s is None:
            self._missing_since_s = now_s
        last = self._last_known()
        others = {key for cluster in clusters if (key := named_secret(cluster)) is not None}
        is_first = self._missing_since_s == now_s
        is_bare = is_first and last is None and not clusters
        if is_bare and await self._note_unnamed():
            await self.restore_members()
            clusters = await self._api.list(meta.CLUSTERS)
            others = {key for cluster in clusters if (key := named_secret(cluster)) is not None}
        published = await self._find_published(others) if last is None else _NONE
        facts = LostClusterFacts(
            name=self._settings.provision_local_cluster,
            has_farewell=False,
            last=last,
            missing_s=now_s - self._missing_since_s,
            shown=await self._source.list_shown() if last is None else (),
            awaits_members=self._source.awaits_members or (is_bare and bool(clusters)),
            published=published.cluster,
            published_addresses=published.addresses,
        )
        plan = plan_own_cluster(facts)
        self.check_after_s = plan.after_s if isinstance(plan, Wait) else None
        return await self._create(plan, clusters, others) if isinstance(plan, Make) else None

    async def _note_unnamed(self) -> bool:
        """Note the Secrets of members, of which no Cluster is left here; return whether there are any."""
        self._unnamed = {_key(secret) for secret in await self._list_secrets() if not self._is_own(secret)}
        return bool(self._unnamed)

    async def restore_members(self) -> None:
        """Make the lost Clusters of members again, from the members themselves, as a person would carry them here.

        A member that does not answer is asked again with the next pass.
        """
        if not self._unnamed:
            return
        clusters = await self._api.list(meta.CLUSTERS)
        names = {self._settings.provision_local_cluster, *(meta.metadata_of(found).get("name") for found in clusters)}
        self._unnamed -= {key for cluster in clusters if (key := named_secret(cluster)) is not None}
        secrets = [secret for secret in await self._list_secrets() if _key(secret) in self._unnamed]
        for found in await asyncio.gather(*map(self._source.read_member, secrets)):
            if found is not None and meta.metadata_of(found)["name"] not in names:
                wanted = restored_cluster(found, cluster_id=ClusterUID(found["spec"]["clusterID"]))
                made = await self._api.create(meta.CLUSTERS, wanted)
                self._log.info("created the lost Cluster of a member again", cluster=meta.metadata_of(made)["name"])

    async def _list_secrets(self) -> Sequence[Manifest]:
        """List the registry Secrets in the daemon's namespace; none without the right."""
        of_registry = f"type={meta.REGISTRY_SECRET_TYPE}"
        try:
            return await self._api.list(meta.SECRETS, namespace=self._settings.namespace, fields=of_registry)
        except Forbidden:  # Clusters are made without it
            return ()

    async def _create(self, plan: Make, clusters: Sequence[Manifest], others: Collection[ObjectKey]) -> Manifest:
        wanted: Mapping[str, object]
        if plan.cluster is None:
            name, namespace = self._settings.provision_local_cluster, self._settings.namespace
            wanted = manifests.local_cluster(name, cluster_id=self._cluster_id, namespace=namespace)
        else:
            secret = await self._own_secret(plan.cluster, others) if plan.is_shown else None
            wanted = restored_cluster(plan.cluster, cluster_id=self._cluster_id, secret=secret)
        name = meta.metadata_of(wanted)["name"]
        if any(meta.metadata_of(cluster).get("name") == name for cluster in clusters):
            raise BadInput(
                f"Cluster {name}: has another clusterID than this cluster's {self._cluster_id}; delete it, or set "
                "another name in PROVISION_LOCAL_CLUSTER"
            )
        made = await self._api.create(meta.CLUSTERS, wanted)
        self._log.info("created the local Cluster", cluster=name, wasLost=plan.cluster is not None)
        return made

    async def _own_secret(self, cluster: Manifest, others: Collection[ObjectKey]) -> ObjectKey:
        """Return the Secret that a Cluster names, if it is this cluster's own; else the one of the Cluster's name."""
        namespace = self._settings.namespace
        named = named_secret(cluster)
        if named is not None and named not in others:
            found = await self._api.read(meta.SECRETS, named)
            if self._is_own(found) if found is not None else named.namespace == namespace:
                return named
        return ObjectKey(namespace, meta.metadata_of(cluster)["name"])

    def _is_own(self, secret: Manifest) -> bool:
        return is_published(secret, of=self._cluster_id)

    async def _is_ours(self, name: str, token: str) -> bool:
        """Return whether a Secret is this cluster's: it has the name of the option, or else a token of this cluster.

        A person may have carried another cluster's Secret here, and not its Cluster yet.
        """
        if self._settings.provision_local_cluster:
            return name == self._settings.provision_local_cluster
        wanted = manifests.token_secret(self._settings.namespace, self._settings.reader_service_account_name)
        key = ObjectKey(self._settings.namespace, meta.metadata_of(wanted)["name"])
        found = await self._api.read(meta.SECRETS, key)
        return found is not None and decode_text(found.get("data") or {}, "token") == token

    async def _find_published(self, others: Collection[ObjectKey]) -> _Published:
        """Find the Cluster to which the published Secret belongs, and the addresses in all such Secrets.

        There is no such Cluster where there is not exactly one Secret. A person may have carried the Secrets of
        members here, and a Secret that was published before may have stayed.
        """
        namespace, found = self._settings.namespace, list[tuple[ObjectKey, str, str]]()
        for secret in await self._list_secrets():
            named = _read_kubeconfig(secret, user=self._settings.reader_service_account_name)
            if named is None or not self._is_own(secret) or (key := _key(secret)) in others:
                continue
            name, address, token = named
            if await self._is_ours(name, token):
                found.append((key, name, address))
        addresses = {address for _, _, address in found if address}
        if len(found) != 1:
            return _Published(None, addresses)
        key, name, _ = found[0]
        made = manifests.local_cluster(name, cluster_id=self._cluster_id, namespace=namespace)
        return _Published(restored_cluster(made, cluster_id=self._cluster_id, secret=key), addresses)


def _read_kubeconfig(secret: Manifest, *, user: str) -> tuple[str, str, str] | None:
    """Return name, address and token in a Secret as daemons publish it; None for another Secret."""
    try:
        document = load_document(decode_text(secret.get("data") or {}, meta.KUBECONFIG_KEY))
        name, address = document["clusters"][0]["name"], document["clusters"][0]["cluster"]["server"]
        named_user, token = document["users"][0]["name"], document["users"][0]["user"]["token"]
    except (InvalidKubeconfig, TypeError, KeyError, IndexError):
        return None
    texts = (name, address, token)
    return texts if named_user == user and all(isinstance(text, str) for text in texts) else None


def _key(secret: Manifest) -> ObjectKey:
    info = meta.metadata_of(secret)
    return ObjectKey(info["namespace"], info["name"])
