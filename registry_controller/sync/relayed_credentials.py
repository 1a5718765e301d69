"""What other members hold of the credentials of one that refuses ours: they are tried, and nothing of them is stored.

Laws: whatever somebody says of another's credentials costs the good ones nothing · once a member was Ready it is
dialled nowhere else, and trusted by no other CA · what a person carried here, or froze, is what is used.
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
from registry_controller.clusters.peer import Connection
from registry_controller.core.decision.membership import relayed_claims
from registry_controller.kube.kubeconfig import Credentials, read_secret, with_endpoint
from registry_controller.kube.object import decode_manifest
from registry_controller.membership.relay_policy import RelayPolicy
from registry_controller.sync.state_reader import Offer, StateReader

READ_TIMEOUT_S: Final = 5.0
_AT_ONCE: Final = 4
"""So many are tried after each try of our own: whoever makes up many keeps the good ones back for a while only."""

_Place = tuple[ClusterUID, ObjectKey]
_State = tuple[str, int]


class RelayedCredentials:
    """What is said of one member. The others' Secrets are read once in each state that they have."""

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
        self._read: dict[_Place, tuple[_State, Credentials | None]] = {}

    async def credentials_for(self, name: str, held: Credentials, *, refused: bool) -> Sequence[Credentials]:
        """List other credentials for a Cluster's member: some of them, in turn. `held` are those that do not work.

        `refused` says that the API server itself did not take them. Else others help only where it may be elsewhere.
        """
        found = self._registry.clusters.get(name)
        cluster = found.cluster if found is not None else None
        if cluster is None or cluster.secret is None:
            return ()
        state, offers = self._states.read(secret_target(cluster.secret))
        claims = relayed_claims(state)
        is_pinned = self._relays.is_pinned(cluster.cluster_id)
        if not claims or (is_pinned and not refused):
            return ()
        said = await self._credentials([offers[state.claims.index(claim)] for claim in claims])
        distinct = dict.fromkeys(self._dialled(said, cluster))
        allowed = (way for way in distinct if way.verified_address == held.verified_address or not is_pinned)
        return self._next([way for way in allowed if way != held])

    def _next(self, ways: Sequence[Credentials]) -> Sequence[Credentials]:
        begin = self._turn % len(ways) if ways else 0
        chosen = [*ways[begin:], *ways[:begin]][:_AT_ONCE]
        self._turn += len(chosen)
        return chosen

    def reset(self) -> None:
        """Forget what was read: the member answers."""
        self._read, self._turn = {}, 0

    def _dialled(self, said: Iterable[Credentials | None], cluster: Cluster) -> Iterable[Credentials]:
        """Apply the endpoint of our own Cluster, as to the credentials that are stored here."""
        for credentials in said:
            try:
                if credentials is not None:
                    yield with_endpoint(credentials, cluster.endpoint_for(self._network_name))
            except InvalidKubeconfig:
                continue

    async def _credentials(self, offers: Sequence[Offer]) -> list[Credentials | None]:
        was, self._read = self._read, {}
        async with asyncio.TaskGroup() as scope:
            for offer in offers:
                place, state = _place(offer), _state(offer)
                if place in was and was[place][0] == state:
                    self._read[place] = was[place]
                else:
                    scope.create_task(self._ask(offer), name=f"hearsay {offer.key}")
        return [self._read[place][1] for place in map(_place, offers) if place in self._read]

    async def _ask(self, offer: Offer) -> None:
        """Read one member's Secret; what is none is remembered as such, what cannot be read now is read later."""
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
        self._read[_place(offer)] = (state, found)


def _place(offer: Offer) -> _Place:
    return (offer.cache.peer, offer.key)


def _state(offer: Offer) -> _State:
    return (offer.record.uid, offer.record.revision)
