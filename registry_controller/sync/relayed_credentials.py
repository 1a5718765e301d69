"""Tries the credentials that relays have for a member, when the local ones do not work. Nothing of them is stored.

Laws: wrong credentials at a relay do not delay the good ones · a member that was Ready is dialled at no other address,
and with no other CA · a Secret under another name than the one here counts only where a Cluster at the same relay names
it for that member, which may have changed the name · credentials that a person carried to this cluster, or froze, are
used alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from registry_controller.api import meta
from registry_controller.api.cluster import Cluster
from registry_controller.api.errors import InvalidKubeconfig, RegistryError
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.cache.members import secret_target
from registry_controller.cache.registry import Registry
from registry_controller.cache.source_index import Offer
from registry_controller.clusters.peer import Connection
from registry_controller.core.decision.membership import may_use_relayed, relayed_claims
from registry_controller.kube.kubeconfig import Credentials, read_secret, with_endpoint
from registry_controller.kube.object import decode_manifest
from registry_controller.membership.relay_policy import RelayPolicy
from registry_controller.sync.state_reader import StateReader

READ_TIMEOUT_S: Final = 5.0
_AT_ONCE: Final = 4
"""Credentials that are tried after each try of the local ones: many wrong ones delay the good ones, not longer."""

_RelayKey = tuple[ClusterUID, ObjectKey]
_State = tuple[str, int]


class RelayedCredentials:
    """The credentials that relays have for one member. A relay's Secret is read once for each of its states."""

    def __init__(
        self,
        *,
        registry: Registry,
        relays: RelayPolicy,
        states: StateReader,
        connection: Callable[[ClusterUID], Connection | None],
        network_name: str,
    ) -> None:
        self._registry = registry
        self._relays = relays
        self._states = states
        self._connection = connection
        self._network_name = network_name
        self._turn = 0
        self._read: dict[_RelayKey, tuple[_State, Credentials | None]] = {}

    async def credentials_for(self, name: str, held: Credentials, *, refused: bool) -> Sequence[Credentials]:
        """List credentials for a Cluster's member: at most four, in turn. `held` are the local ones, which do not work.

        `refused` is True when the API server itself refused them. Otherwise relays are asked only about a member that
        may have another address.
        """
        stored = self._registry.clusters.get(name)
        cluster = stored.cluster if stored is not None else None
        if cluster is None or cluster.secret is None:
            return ()
        state, offers = self._states.read(secret_target(cluster.secret))
        is_pinned = self._relays.is_pinned(cluster.cluster_id)
        if not may_use_relayed(state) or (is_pinned and not refused):
            return ()
        asked = [offers[state.claims.index(claim)] for claim in relayed_claims(state)]
        if is_pinned:  # of any other member, a relay's newer Cluster is stored
            asked += self._states.renamed_secrets(cluster)
        found = await self._credentials(asked)
        distinct = dict.fromkeys(self._with_endpoint(found, cluster))
        allowed = (one for one in distinct if one.verified_address == held.verified_address or not is_pinned)
        return self._next([one for one in allowed if one != held])

    def _next(self, credentials: Sequence[Credentials]) -> Sequence[Credentials]:
        begin = self._turn % len(credentials) if credentials else 0
        chosen = [*credentials[begin:], *credentials[:begin]][:_AT_ONCE]
        self._turn += len(chosen)
        return chosen

    def reset(self) -> None:
        """Drop the credentials: the member answers."""
        self._read, self._turn = {}, 0

    def _with_endpoint(self, found: Iterable[Credentials | None], cluster: Cluster) -> Iterable[Credentials]:
        """Apply the endpoint of the local Cluster object, as to the stored credentials."""
        for credentials in found:
            try:
                if credentials is not None:
                    yield with_endpoint(credentials, cluster.endpoint_for(self._network_name))
            except InvalidKubeconfig:
                continue

    async def _credentials(self, offers: Sequence[Offer]) -> list[Credentials | None]:
        was, self._read = self._read, {}
        async with asyncio.TaskGroup() as scope:
            for offer in offers:
                key, state = _key(offer), _state(offer)
                if key in was and was[key][0] == state:
                    self._read[key] = was[key]
                else:
                    scope.create_task(self._read_secret(offer), name=f"relayed credentials {offer.key}")
        return [self._read[key][1] for key in map(_key, offers) if key in self._read]

    async def _read_secret(self, offer: Offer) -> None:
        """Read the Secret at one relay. An invalid one is recorded; one that cannot be read is read later."""
        connection, state = self._connection(offer.cache.peer), _state(offer)
        if connection is None:
            return
        found: Credentials | None = None
        try:
            secret = decode_manifest(await connection.reader.get(meta.SECRETS, offer.key, timeout_s=READ_TIMEOUT_S))
            found = read_secret(secret_type=secret.get("type", ""), data=secret.get("data") or {})
        except InvalidKubeconfig:
            pass
        except RegistryError:
            return
        self._read[_key(offer)] = (state, found)


def _key(offer: Offer) -> _RelayKey:
    return (offer.cache.peer, offer.key)


def _state(offer: Offer) -> _State:
    return (offer.record.uid, offer.record.revision)
