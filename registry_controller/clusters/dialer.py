"""Reach one peer: dial with the credentials that there are, and prove that it is the cluster which its Cluster names.

Law: nothing of a server is read before the UID of its kube-system namespace is the peer's.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from registry_controller.api.errors import Forbidden, NotFound, RegistryError, Unauthorized
from registry_controller.api.meta import ClusterUID
from registry_controller.core.peer_health import backoff_s
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.watch import read_cluster_id
from registry_controller.report.logs import get_logger
from registry_controller.report.reasons import with_grant

log = get_logger(__name__)

PROBE_TIMEOUT_S: Final = 5.0
_PAUSE_S: Final = 0.2
_PAUSE_CAP_S: Final = 5.0


class RelayedCredentialsSource(Protocol):
    """What other members hold of how the peer is reached; see `hearsay`."""

    async def credentials_for(self, name: str, held: Credentials, *, refused: bool) -> Sequence[Credentials]:
        """List what is to be tried next; `held` are ours, and `refused` says that the peer did not take them."""

    def reset(self) -> None:
        """Hear that the peer answers."""


class Dialer:
    """Dials one peer, with its own credentials or with those that other members hold."""

    def __init__(
        self,
        *,
        cluster_id: ClusterUID,
        name: str,
        credentials: Credentials,
        connect_peer: Callable[[Credentials], Reader],
        others: RelayedCredentialsSource,
    ) -> None:
        self.cluster_id = cluster_id
        self.name = name
        self._credentials = self._used = credentials
        self._connect_peer = connect_peer
        self._others = others
        self._offered = asyncio.Event()

    @property
    def place(self) -> tuple[str, str]:
        """Tell where the peer is known to be: the server, and the name that it is asked for by."""
        return self._credentials.place

    def set_credentials(self, name: str, credentials: Credentials) -> None:
        """Use these from now on, and that name of its Cluster; whoever pauses goes on at once when they are others."""
        self.name = name
        if credentials != self._credentials:
            self._credentials = credentials
            self._offered.set()

    async def dial(self) -> Reader:
        """Connect and prove. RegistryError when that does not work now."""
        self._offered.clear()
        return await self._dial_with(self._credentials)

    async def dial_as_others(self, error: RegistryError) -> Reader | None:
        """Dial with what other members hold, once ours do not work; None where nothing of it works either.

        It is stored nowhere: when it works, the peer says itself how it is reached.
        """
        refused = isinstance(error, Unauthorized | Forbidden)
        for credentials in await self._others.credentials_for(self.name, self._credentials, refused=refused):
            if self._offered.is_set():
                return None
            try:
                reader = await self._dial_with(credentials)
            except RegistryError:
                continue
            log.info("peer reached with relayed credentials", peer=self.name)
            return reader
        return None

    async def dial_anew(self) -> Reader:
        """Wait for credentials that are offered, and dial until they work."""
        attempt = 0
        while True:
            await self._offered.wait()
            if self._credentials == self._used:  # found with another member, and now said by the peer itself
                self._offered.clear()
                continue
            try:
                return await self.dial()
            except RegistryError as error:
                if attempt == 0:
                    log.warning("new credentials do not work yet", peer=self.name, error=str(error))
                await self.pause(attempt)
                self._offered.set()
                attempt += 1

    async def prove(self, reader: Reader) -> None:
        """Ask the server who it is. RegistryError when it does not say so, or is another cluster."""
        try:
            uid = await read_cluster_id(reader, timeout_s=PROBE_TIMEOUT_S)
        except NotFound as error:
            raise RegistryError(f"{reader.server} has no namespace kube-system that we may read: {error}") from None
        except Forbidden as error:
            raise Forbidden(with_grant(error, at_home=False), lacks_right=error.lacks_right) from None
        if uid != self.cluster_id:
            raise RegistryError(
                f"the API server at {reader.server} is another cluster: the UID of its kube-system namespace is "
                f"{uid or 'missing'}, not the clusterID {self.cluster_id}; correct the kubeconfig or the clusterID"
            )

    async def pause(self, attempt: int) -> None:
        """Wait after a failure, the first of which is 0, but no longer than until other credentials are offered."""
        try:
            async with asyncio.timeout(backoff_s(attempt, base=_PAUSE_S, cap=_PAUSE_CAP_S, chance=random.random())):  # noqa: S311
                await self._offered.wait()
        except TimeoutError:
            pass

    def arrived(self) -> None:
        """Hear that the peer is proven, and will be listened to: what others hold is looked at from the start again."""
        self._others.reset()

    async def _dial_with(self, credentials: Credentials) -> Reader:
        reader = self._connect_peer(credentials)
        try:
            await self.prove(reader)
        except BaseException:
            await reader.close()
            raise
        self._used = credentials
        return reader
