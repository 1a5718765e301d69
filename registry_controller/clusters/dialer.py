"""Connects to one peer, and proves that the server is the cluster that the peer's Cluster names.

Law: nothing is read from a server before the UID of its kube-system namespace is the peer's.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, NotFound, RegistryError, Unauthorized
from registry_controller.api.meta import ClusterUID
from registry_controller.core.backoff import backoff_s
from registry_controller.core.decision.ways import is_withdrawn, ways_after
from registry_controller.kube.connect import Reader
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.watch import read_cluster_id
from registry_controller.report.logs import get_logger
from registry_controller.report.reasons import describe_chart_grant, with_remedy

log = get_logger(__name__)

PROBE_TIMEOUT_S: Final = 5.0
_PAUSE_S: Final = 0.2
_PAUSE_CAP_S: Final = 5.0
_OTHER_PAUSE_CAP_S: Final = 60.0  # while the peer is read over another way

ServerAddress = tuple[str, str]
"""A server, and the name that its certificate is checked against."""


class RelayedCredentialsSource(Protocol):
    """The credentials for one peer that other members hold."""

    async def credentials_for(self, name: str, held: Credentials, *, refused: bool) -> Sequence[Credentials]:
        """List the next ones to try; `held` are ours, and `refused` is True when the peer did not accept them."""

    def reset(self) -> None:
        """Start from the beginning: the peer has answered."""


async def read_proven_id(reader: Reader) -> ClusterUID:
    """Read the ID of a server's cluster; RegistryError without an answer, or where it may not be read."""
    try:
        return await read_cluster_id(reader, timeout_s=PROBE_TIMEOUT_S)
    except NotFound as error:
        raise RegistryError(f"{reader.server} has no namespace kube-system that we may read: {error}") from None
    except Forbidden as error:
        words = with_remedy(error, describe_chart_grant(meta.READER_AGGREGATED, place="there"))
        raise Forbidden(words, lacks_right=error.lacks_right) from None


def pause_s(attempt: int, *, cap_s: float = _PAUSE_CAP_S) -> float:
    """Return the seconds to wait after failure number `attempt` (0 is the first)."""
    return backoff_s(attempt, base=_PAUSE_S, cap=cap_s, chance=random.random())  # noqa: S311


class Dialer:
    """Connects to one peer, with its own credentials, over other ways, or with credentials that other members hold.

    `problem` is why the peer's own credentials do not work, while it is read with other credentials; empty without one.
    `on_problem` is called when it changed.
    """

    def __init__(
        self,
        *,
        cluster_id: ClusterUID,
        name: str,
        credentials: Credentials,
        connect_peer: Callable[[Credentials], Reader],
        relayed: RelayedCredentialsSource,
        others: Sequence[Credentials] = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.name = name
        self.problem = ""
        self.on_problem: Callable[[], None] = lambda: None
        self._credentials = self._used = credentials
        self._others = others
        self._is_over_other = False
        self._connect_peer = connect_peer
        self._relayed = relayed
        self._is_changed = asyncio.Event()

    @property
    def address(self) -> ServerAddress:
        """The address in the current credentials."""
        return self._credentials.server_address

    def is_used(self, credentials: Credentials) -> bool:
        """Return whether these credentials were the last that worked."""
        return credentials == self._used

    def set_credentials(self, name: str, credentials: Credentials, others: Sequence[Credentials] = ()) -> None:
        """Use this name, these credentials and these other ways from now on; different credentials end a pause."""
        self.name, self._others = name, others
        if credentials != self._credentials:
            self._credentials = credentials
            self._set_problem("")
            self._is_changed.set()
        if self._is_over_other and is_withdrawn(self._used, first=credentials, others=others):
            self._is_changed.set()

    async def dial(self) -> Reader:
        """Connect over the first way that works, and prove the cluster's identity. Raises RegistryError of the own."""
        try:
            return await self._dial_own()
        except RegistryError as error:
            reader = await self.dial_over_others(error)
            if reader is None:
                raise
            return reader

    async def _dial_own(self) -> Reader:
        self._is_changed.clear()
        reader = await self._dial_with(self._credentials)
        self._is_over_other = False
        self._set_problem("")
        return reader

    async def dial_over_others(self, error: RegistryError) -> Reader | None:
        """Connect over another way, after `error` with the credentials used last; None when no other way works."""
        refused = isinstance(error, Unauthorized | Forbidden)
        for credentials in ways_after(self._credentials, self._others, is_refused=refused):
            if self._is_changed.is_set():
                return None
            try:
                reader = await self._dial_with(credentials)
            except RegistryError:
                continue
            self._is_over_other = True
            self._set_problem(str(error))
            log.warning("peer read over another way", peer=self.name, error=str(error))
            return reader
        return None

    async def dial_with_relayed(self, error: RegistryError) -> Reader | None:
        """Connect with credentials that other members hold, after `error` with ours; None when none of them works.

        The credentials are not stored: once connected, the peer itself publishes the current ones.
        """
        refused = isinstance(error, Unauthorized | Forbidden)
        for credentials in await self._relayed.credentials_for(self.name, self._credentials, refused=refused):
            if self._is_changed.is_set():
                return None
            try:
                reader = await self._dial_with(credentials)
            except RegistryError:
                continue
            log.info("peer reached with relayed credentials", peer=self.name)
            return reader
        return None

    async def dial_with_changed(self) -> Reader | None:
        """Wait until the credentials change, then connect with them, again and again until that works.

        The own credentials are tried again for as long as the peer is read over another way. Returns None once that way
        is not here any more.
        """
        attempt = 0
        if self._is_over_other:
            await self.pause(attempt, cap_s=_OTHER_PAUSE_CAP_S)
            self._is_changed.set()
        while True:
            await self._is_changed.wait()
            if self._is_over_other and is_withdrawn(self._used, first=self._credentials, others=self._others):
                return None
            if self._credentials == self._used:  # used already, from another member; now the peer's own
                self._is_changed.clear()
                self._is_over_other = False
                self._set_problem("")
                continue
            try:
                return await self._dial_own()
            except RegistryError as error:
                if attempt == 0:
                    log.warning("new credentials do not work yet", peer=self.name, error=str(error))
                self._set_problem(str(error))
                await self.pause(attempt, cap_s=_OTHER_PAUSE_CAP_S if self._is_over_other else _PAUSE_CAP_S)
                self._is_changed.set()
                attempt += 1

    async def prove(self, reader: Reader) -> None:
        """Check the server's identity. Raises RegistryError when the server does not answer or is another cluster."""
        await self._prove(reader, self._used)

    async def _prove(self, reader: Reader, credentials: Credentials) -> None:
        self._check_id(await read_proven_id(reader), server=reader.server, credentials=credentials)

    def _check_id(self, uid: ClusterUID, *, server: str, credentials: Credentials) -> None:
        """Raise RegistryError for the ID of another cluster, which answered over these credentials."""
        if uid != self.cluster_id:
            raise RegistryError(
                f"the API server at {server} is another cluster: the UID of its kube-system namespace is "
                f"{uid or 'missing'}, not the clusterID {self.cluster_id}; correct the kubeconfig or the clusterID"
            )

    async def pause(self, attempt: int, *, cap_s: float = _PAUSE_CAP_S) -> None:
        """Wait after failure number `attempt` (0 is the first); changed credentials end the pause."""
        try:
            async with asyncio.timeout(pause_s(attempt, cap_s=cap_s)):
                await self._is_changed.wait()
        except TimeoutError:
            pass

    def reset_relayed(self) -> None:
        """Start the list of relayed credentials from the beginning: the peer has answered."""
        self._relayed.reset()

    def _set_problem(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self.on_problem()

    async def _dial_with(self, credentials: Credentials) -> Reader:
        reader = self._connect_peer(credentials)
        try:
            await self._prove(reader, credentials)
        except BaseException:
            await reader.close()
            raise
        self._used = credentials
        return reader
